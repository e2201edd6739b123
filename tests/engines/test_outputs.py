"""What an engine's run writes beside labels: what memory writes, in the same places."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as parquet
import pytest

from misc_cli.__main__ import run
from tests.engines.crowds import crowd, write_csv
from tests.engines.test_choice import many, simulated

__all__ = ["many"]  # a fixture
DISK = ("--engine", "disk", "--spill", ".")
NAMED = ("--aggregator", "ds-em")


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_csv(crowd(), Path("answers.csv"))


def aggregate(*words: str, exit_code: int = 0) -> None:
    assert run(["aggregate", "answers.csv", *words, "-q"]) == exit_code


def record(path: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(path).read_text())
    return found


TUCKER = ("--completer", "tucker", "--ranks", "4,8,3", "--passes", "2")


@pytest.mark.parametrize(
    "words",
    [
        NAMED,
        ("--completer", "none"),
        ("--aggregator", "mv"),
        ("--aggregator", "mmce-c"),
        (*TUCKER, "--aggregator", "mmce-c"),
    ],
)
@pytest.mark.parametrize("name", ["labels.csv", "labels.parquet"])
def test_details_of_items_are_those_of_memory(name: str, words: tuple[str, ...]) -> None:
    with Path("answers.csv").open("a") as stream:
        stream.write("ann,alone,c\n")  # one answer: there is no agreement
    words = (*words, "--item-details", "--probabilities")
    aggregate(*words, "-o", f"here-{name}")
    aggregate(*words, *DISK, "-o", f"there-{name}")
    if name.endswith("csv"):
        assert Path(f"there-{name}").read_bytes() == Path(f"here-{name}").read_bytes()
        assert "answers,tie,runner_up,entropy,agreement" in Path(f"there-{name}").read_text()
    else:
        here, there = (parquet.read_table(f"{where}-{name}") for where in ("here", "there"))
        assert there.schema == here.schema
        assert there["agreement"].null_count == here["agreement"].null_count == 1
        assert there["votes_a"].equals(here["votes_a"])


@pytest.mark.usefixtures("many")
def test_details_of_many_items_in_parts() -> None:
    simulated("answers.csv")
    aggregate(*NAMED, "--item-details", "-o", "here.parquet")
    aggregate(*NAMED, "--item-details", *DISK, "-o", "there/")
    assert run(["verify", "there/run.json"]) == 0
    parts = [parquet.read_table(path) for path in sorted(Path("there").glob("part-*"))]
    assert len(parts) > 1
    there = pa.concat_tables(parts)
    there = there.take(pc.sort_indices(there["item"]))
    here = parquet.read_table("here.parquet")
    assert there.column_names == here.column_names
    for name in ("item", "answers", "tie", "agreement", "votes_c1"):
        assert there[name].to_pylist() == here[name].to_pylist(), name


def test_changes_are_those_of_memory(capsys: pytest.CaptureFixture[str]) -> None:
    for where, words in (("here", ()), ("there", DISK)):
        outputs = ("-o", f"{where}.csv", "--workers", f"{where}-workers.csv")
        changes = ("--changes", f"{where}-changes.csv")
        write_csv(crowd(), Path("answers.csv"))
        aggregate(*NAMED, *words, *outputs, *changes)
        assert record(f"{where}.run.json")["figures"]["new-items"] == 400
        write_csv(crowd()[:1200], Path("answers.csv"))
        gate = ("--fail-if", "flips>0.1%", "--publish-anyway")
        aggregate(*NAMED, *words, *outputs, *changes, *gate, exit_code=3)
        assert "flips is" in capsys.readouterr().err
        assert run(["verify", f"{where}.run.json"]) == 0
    assert Path("there-changes.csv").read_bytes() == Path("here-changes.csv").read_bytes()
    assert "flipped" in Path("there-changes.csv").read_text()
    figures = [record(f"{where}.run.json")["figures"] for where in ("here", "there")]
    assert figures[0] == pytest.approx(figures[1], abs=2e-6)
    aggregate(*NAMED, *DISK, "-o", "parts/", "--changes", "changes.csv", exit_code=2)
    assert "name a file with -o" in capsys.readouterr().err


def test_metrics_and_diagnostics_where_they_are_wanted() -> None:
    places = ("--metrics", "misc.prom", "--diagnostics", "how.jsonl")
    gate = ("--fail-if", "alpha>0", "--publish-anyway")
    aggregate(*NAMED, *places, *gate, "-o", "labels.csv", exit_code=3)
    of_memory = gauges("misc.prom")
    aggregate(*NAMED, *places, *gate, *DISK, "-o", "labels.csv", exit_code=3)
    assert gauges("misc.prom") == pytest.approx(of_memory, abs=2e-6)
    assert of_memory["misc_gates_tripped"] == 1
    assert not Path("labels.diagnostics.jsonl").exists()
    first = json.loads(Path("how.jsonl").read_text().splitlines()[0])
    assert first["iteration"] == 1
    aggregate(*NAMED, *places, *DISK, "-o", "labels/")
    assert sorted(path.name for path in Path("labels").iterdir() if "part-" not in path.name) == [
        "run.json"
    ]
    assert run(["verify", "labels/run.json"]) == 0
    assert record("labels/run.json")["outputs"]["diagnostics"] == "how.jsonl"
    assert record("labels/run.json")["seconds"]["write"] > 0


def gauges(path: str) -> dict[str, float]:
    """Those that are no times, no memory."""
    lines = [line for line in Path(path).read_text().splitlines() if not line.startswith("#")]
    pairs = [line.rsplit(" ", 1) for line in lines if "misc_run_" not in line]
    return {name: float(value) for name, value in pairs}
