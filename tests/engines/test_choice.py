"""Calibration and the automatic choice on an engine: those of memory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv as arrow_csv
import pytest

from misc_cli.__main__ import run
from misc_cli.data import holdout
from misc_cli.selection import candidates
from tests.engines.crowds import crowd, write_csv

Table = tuple[list[str], list[str], np.ndarray[Any, Any]]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty thousand answers count as many, two folds are enough, and only cheap methods run."""
    monkeypatch.setattr(holdout, "DRAWN_BY_NAME", 30_000)
    monkeypatch.setattr(holdout, "ENOUGH_HIDDEN", 8_000)
    monkeypatch.setattr(candidates, "MOST_WORK", {"ebcc": 0, "mmce-c": 0})
    monkeypatch.setattr(candidates, "MAX_TRIED_CELLS", 0)


def simulated(path: str, n_items: int = 8_000, skills: tuple[float, float] = (0.3, 0.95)) -> None:
    """Five answers per item by workers of very different skill, three classes."""
    random = np.random.default_rng(3)
    skill = random.uniform(*skills, 60)
    truth = np.repeat(random.integers(3, size=n_items), 5)
    worker = ((random.integers(60, size=n_items)[:, None] + 7 * np.arange(5)) % 60).ravel()
    right = random.random(len(worker)) < skill[worker]
    label = np.where(right, truth, random.integers(3, size=len(worker)))
    items = np.repeat(np.arange(n_items), 5)
    lines = [f"w{w},i{i},c{c}" for w, i, c in zip(worker, items, label, strict=True)]
    Path(path).write_text("worker,item,label\n" + "\n".join(lines) + "\n")


def aggregate(*words: str, output: str) -> tuple[Table, dict[str, Any]]:
    """The labels, and run.json."""
    assert run(["aggregate", "answers.csv", *words, "-o", output, "-q"]) == 0
    table = arrow_csv.read_csv(output)
    record = json.loads(Path(output).with_suffix(".run.json").read_text())
    found = (table["item"].to_pylist(), table["label"].to_pylist(), table["confidence"].to_numpy())
    return found, record


def both(*words: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """run.json of memory and of the disk, whose labels and confidences are the same."""
    here, of_memory = aggregate(*words, output="here.csv")
    there, of_disk = aggregate(*words, "--engine", "disk", "--spill", ".", output="there.csv")
    assert here[:2] == there[:2]
    np.testing.assert_allclose(there[2], here[2], atol=1e-8)
    return of_memory, of_disk


def alike(of_memory: dict[str, Any], of_disk: dict[str, Any]) -> None:
    """The same calibration and the same reasons, but for how long they took."""
    if of_memory["calibration"] is None:
        assert of_disk["calibration"] is None
    else:
        assert of_disk["calibration"] == pytest.approx(of_memory["calibration"], abs=1e-8)
    for record in (of_memory, of_disk):
        tables = record["selection"] or {}
        for row in (*tables.get("pure", ()), *tables.get("completed", ())):
            del row["seconds"]
        if tables:
            weights = tables["weights"]
            tables["weights"] = {name: round(weights[name], 8) for name in weights}
    assert of_disk["selection"] == of_memory["selection"]


@pytest.mark.parametrize(
    "words", [("--completer", "none"), ("--aggregator", "ds-em"), ("--aggregator", "mv")]
)
def test_a_small_crowd_is_judged_as_in_memory(words: tuple[str, ...]) -> None:
    write_csv(crowd(200), Path("answers.csv"))
    of_memory, of_disk = both(*words)
    alike(of_memory, of_disk)
    assert ("gathered" in of_disk["engine"]) == ("--aggregator" not in words)


@pytest.mark.usefixtures("many")
@pytest.mark.parametrize("method", ["one-coin", "ds-em", "ds-mf", "ebcc -p restarts=1", "mmce-c"])
def test_a_named_method_is_calibrated_where_its_answers_are(method: str) -> None:
    """In a fold ebcc begins where the whole fit ended, and mmce stops earlier: everywhere."""
    simulated("answers.csv")
    of_memory, of_disk = both("--aggregator", *method.split())
    assert of_disk["calibration"]["temperature"] != 1.0
    alike(of_memory, of_disk)


@pytest.mark.usefixtures("many")
def test_the_choice_among_many_answers_is_that_of_memory() -> None:
    simulated("answers.csv")
    of_memory, of_disk = both()
    assert "gathered" not in of_disk["engine"]
    alike(of_memory, of_disk)


@pytest.mark.usefixtures("many")
def test_copies_count_once_wherever_they_are() -> None:
    simulated("answers.csv")
    lines = Path("answers.csv").read_text().splitlines()
    copied = [line.replace("w7,", "copy,") for line in lines if line.startswith("w7,")]
    copied += [line.replace("w8,", "twin,") for line in lines if line.startswith("w8,")]
    copied += [line.replace("w9,", "shadow,") for line in lines if line.startswith("w9,")]
    copied += [line.replace("w11,", "mirror,") for line in lines if line.startswith("w11,")]
    Path("answers.csv").write_text("\n".join([*lines, *copied]) + "\n")
    of_memory, of_disk = both()
    assert any("count once" in warning for warning in of_memory["warnings"])
    assert of_disk["warnings"] == of_memory["warnings"]
    alike(of_memory, of_disk)


@pytest.mark.usefixtures("many")
@pytest.mark.parametrize("words", [(), ("--aggregator", "ds-em")])
def test_gold_calibrates_where_there_is_some(words: tuple[str, ...]) -> None:
    simulated("answers.csv")
    known = "".join(f"i{number},c{number % 3}\n" for number in range(0, 300, 3))
    Path("gold.csv").write_text("item,label\n" + known)
    alike(*both(*words, "--gold", "gold.csv"))


@pytest.mark.usefixtures("many")
def test_where_answers_say_nothing_the_votes_count() -> None:
    simulated("answers.csv", skills=(0.0, 0.001))
    of_memory, of_disk = both()
    assert of_disk["selection"]["fallback"] == "ds-mf"
    alike(of_memory, of_disk)


def test_a_time_budget_counts_on_disk_as_in_memory() -> None:
    simulated("answers.csv")
    of_memory, of_disk = both("--time-budget", "60s")
    alike(of_memory, of_disk)
    assert not of_disk["figures"]["cut-short"]
