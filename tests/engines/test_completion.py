"""Tucker and the loop on an engine: those of memory, whatever the number of parts."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from misc_cli.__main__ import run
from misc_cli.completers import tucker as unfolding
from misc_cli.completers.parameters import Tucker
from misc_cli.completers.tucker import ITEMS, item_rows
from misc_cli.data import holdout
from misc_cli.data.types import Floats, ignore_iteration
from misc_cli.data.votes import SparseVotes
from misc_cli.engines import partitioned
from misc_cli.engines.local import LocalEngine
from misc_cli.engines.partitioned import PartsEngine
from misc_cli.engines.protocol import SLICE, Vocabulary, WriteRows
from tests.completers.test_tucker import reference
from tests.engines.crowds import crowd, write_csv
from tests.engines.test_choice import simulated
from tests.tensors import dense, random_tensor

COMPLETED = ("--completer", "tucker", "--ranks", "4,8,3", "--passes", "4")


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def aggregate(*words: str, output: str) -> tuple[Any, dict[str, Any]]:
    """The labels with their probabilities, and run.json."""
    words = ("answers.csv", *COMPLETED, *words, "--probabilities", "-q", "-o", output)
    assert run(["aggregate", *words]) == 0
    record = json.loads(Path(output).with_suffix(".run.json").read_text())
    return parquet.read_table(output), record


def probabilities(table: Any) -> Floats:
    names = [name for name in table.column_names if name.startswith("p_")]
    return np.column_stack([table[name].to_numpy() for name in names])


def both(*words: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """run.json of memory and of the disk, whose labels are the same, posteriors within 1e-8."""
    here, of_memory = aggregate(*words, output="here.parquet")
    there, of_disk = aggregate(*words, "--engine", "disk", "--spill", ".", output="there.parquet")
    assert here["item"].equals(there["item"])
    assert here["label"].to_pylist() == there["label"].to_pylist()
    np.testing.assert_allclose(probabilities(there), probabilities(here), atol=1e-8)
    assert of_disk["loop"] == of_memory["loop"]
    return of_memory, of_disk


@pytest.mark.parametrize("tiny_side", [0, 128])
@pytest.mark.parametrize("n_parts", [1, 3, 17])
def test_any_number_of_parts_gives_the_posteriors_of_memory(
    n_parts: int, tiny_side: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both ways to the first basis: by a formed Gram matrix, and by Lanczos."""
    monkeypatch.setattr(partitioned, "LEAST_PARTS", n_parts)
    monkeypatch.setattr(unfolding, "TINY_SIDE", tiny_side)
    write_csv(crowd(), Path("answers.csv"))
    _, of_disk = both("--aggregator", "ds-em", "--no-calibrate")
    assert of_disk["loop"]["ranks"] == [4, 8, 3]
    assert of_disk["loop"]["passes"] > 1


@pytest.mark.parametrize(
    "words",
    [
        ("--aggregator", "mv"),
        ("--aggregator", "one-coin", "--slice", "hard"),
        ("--initial-rank", "9", "--sweeps", "5"),
        ("--aggregator", "ds-mf", "--duplicates", "all", "--initial-rank", "2"),
    ],
)
def test_every_setting_of_the_loop_reaches_the_parts(words: tuple[str, ...]) -> None:
    write_csv(crowd(), Path("answers.csv"))
    both(*words, "--no-calibrate")


def test_gold_stays_known_in_every_pass() -> None:
    rows = crowd()
    write_csv(rows, Path("answers.csv"))
    known = sorted({item.strip() for _, item, _ in rows})[::9]
    write_csv([("", item, "c") for item in known], Path("gold.csv"))
    both("--aggregator", "ds-em", "--gold", "gold.csv", "--no-calibrate")
    labels = parquet.read_table("there.parquet").to_pydict()
    assert {label for item, label in zip(labels["item"], labels["label"], strict=True)
            if item in known} == {"c"}  # fmt: skip


@pytest.mark.parametrize("many", [False, True])
def test_hidden_answers_calibrate_it(many: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few answers are gathered for it; many are hidden where they are."""
    simulated("answers.csv")
    monkeypatch.setattr(holdout, "DRAWN_BY_NAME", 30_000 if many else 1 << 40)
    monkeypatch.setattr(holdout, "ENOUGH_HIDDEN", 8_000)
    of_memory, of_disk = both("--aggregator", "ds-em")
    assert of_disk["calibration"] == pytest.approx(of_memory["calibration"], abs=1e-8)
    assert of_disk["calibration"]["temperature"] != 1.0


def test_the_slice_is_that_of_dense_hooi() -> None:
    """Algorithms 1 and 2 to the letter, on arrays, against parts of uneven size."""
    tensor = random_tensor(9, 40, 3, seed=52)
    vocabulary = Vocabulary(pa.array(map(str, range(9))), pa.array(["a", "b", "c"]), False)
    parts = []
    for rows in (slice(0, 3), slice(3, 25), slice(25, 40)):
        votes = SparseVotes(tensor.votes.matrix[rows], 9, 3)
        parts.append(LocalEngine(votes, {SLICE: tensor.slice[rows].copy()}))
    engine = PartsEngine(parts, vocabulary)
    table = Tucker((3, 4, 2), sweeps=4).slice_table(engine, ignore_iteration, {})
    engine.sweep(WriteRows(partial(item_rows, table=table), (SLICE,), (ITEMS,)))
    ours = np.vstack([part.whole(ITEMS) for part in engine.parts])
    theirs = reference(dense(tensor), (3, 4, 2), 4, sweeps=4)[-1]
    np.testing.assert_allclose(ours, theirs, atol=1e-8)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--completer", "lrtc"), "--completer tucker --ranks R1,R2,R3"),
        (("--completer", "tenals", "--cp-rank", "3"), "anything else is for --engine local"),
        (("--completer", "tucker"), "anything else is for --engine local"),
        (
            (*COMPLETED, "--final", "completed"),
            "anything else is for --engine local",
        ),
        (
            (*COMPLETED, "--preset", "paper"),
            "anything else is for --engine local",
        ),
        (("--completer", "tucker", "--ranks", "40,8,3"), "R1 = 40 is too large; 12 workers"),
    ],
)
def test_what_is_for_one_machine_says_what_to_use(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_csv(crowd(100), Path("answers.csv"))
    words = ("--engine", "disk", "--no-calibrate", "--duplicates", "last", *words)
    assert run(["aggregate", "answers.csv", *words, "-o", "labels.csv"]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert not Path("labels.csv").exists()
