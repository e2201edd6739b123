"""What an engine says of its workers, and of its labels by known ones: what memory says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet
import pytest

from misc_cli.__main__ import run
from tests.engines.crowds import crowd, write_csv
from tests.engines.test_choice import many, simulated

__all__ = ["many"]  # a fixture
DISK = ("--engine", "disk", "--spill", ".")


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def reports(*words: str) -> tuple[Any, dict[str, Any]]:
    """The table of workers and run.json."""
    command = ["aggregate", "answers.csv", *words, "-o", "labels.csv", "--workers", "w.csv", "-q"]
    assert run(command) == 0
    assert run(["verify", "labels.run.json"]) == 0
    return arrow_csv.read_csv("w.csv"), json.loads(Path("labels.run.json").read_text())


def same_table(here: Any, there: Any) -> None:
    assert there.column_names == here.column_names
    for name in here.column_names:
        if pa.types.is_floating(here[name].type):
            np.testing.assert_allclose(there[name], here[name], atol=2e-6, err_msg=name)
        else:
            assert there[name].to_pylist() == here[name].to_pylist(), name


def write_truth(n_items: int) -> None:
    """Every third item, one of a class that nobody named, some that nobody answered."""
    known = [f"i{number},c{number % 3}" for number in range(0, n_items, 3)]
    known[5] = known[5].split(",")[0] + ",never said"
    known += [f" i1 ,{'never either'}", "nobody's,c1", "i2,"]
    Path("truth.csv").write_text("item,label\n" + "\n".join(known) + "\n")


@pytest.mark.usefixtures("many")
@pytest.mark.parametrize(
    "words",
    [(), ("--aggregator", "ds-em"), ("--aggregator", "ds-mf", "--no-calibrate", "--gold", "g.csv")],
)
def test_workers_and_error_are_those_of_memory(words: tuple[str, ...]) -> None:
    simulated("answers.csv")
    with Path("answers.csv").open("a+") as stream:
        stream.seek(0)
        lines = stream.read().splitlines()
        stream.writelines(f"copy,{line[3:]}\n" for line in lines if line.startswith("w7,"))
        stream.writelines(f"dull,i{number},c1\n" for number in range(300))
    Path("g.csv").write_text("item,label\n" + "".join(f"i{n},c{n % 3}\n" for n in range(90)))
    write_truth(8_000)
    words = (*words, "--truth", "truth.csv")
    here, of_memory = reports(*words)
    there, of_disk = reports(*words, *DISK)
    assert "gathered" not in of_disk["engine"]
    said = " ".join(here["verdict"].to_pylist())
    assert "copies w7" in said or "copies copy" in said
    assert "always says c1" in said
    same_table(here, there)
    assert of_memory["figures"]["error"] > 0
    for name in ("error", "items-with-truth"):
        assert of_disk["figures"][name] == of_memory["figures"][name]
    about_truth = [text for text in of_memory["warnings"] if "(--truth)" in text]
    assert "never said" in about_truth[0]
    assert [text for text in of_disk["warnings"] if "(--truth)" in text] == about_truth
    assert of_disk["known"].keys() == of_memory["known"].keys()


@pytest.mark.parametrize("words", [(), ("--aggregator", "ds-em")])
def test_few_answers_too(words: tuple[str, ...]) -> None:
    write_csv(crowd(200), Path("answers.csv"))
    Path("truth.csv").write_text('item,label\n"item, 1",a\n"item, 2",b\n')
    words = (*words, "--truth", "truth.csv", "--completer", "none")
    here, of_memory = reports(*words)
    there, of_disk = reports(*words, *DISK)
    same_table(here, there)
    assert of_disk["figures"]["error"] == of_memory["figures"]["error"]


def test_labels_to_a_folder_or_to_stdout(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    simulated("answers.csv", 300)
    command = ["aggregate", "answers.csv", "--aggregator", "ds-em", *DISK, "-q", "--workers"]
    assert run([*command, "w.parquet", "-o", "labels/"]) == 0
    assert run(["verify", "labels/run.json"]) == 0
    assert json.loads(Path("labels/run.json").read_text())["outputs"]["workers"] == "w.parquet"
    assert run([*command, "stdout.parquet"]) == 0
    assert b"item,label,confidence" in capfdbinary.readouterr().out
    assert parquet.read_table("stdout.parquet").equals(parquet.read_table("w.parquet"))
    assert run([*command, "new/w.csv", "-o", "new/"]) == 2
    assert run([*command, "w.xyz", "-o", "labels.csv"]) == 2
    assert not Path("new").exists()


def test_truth_of_other_items_is_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    simulated("answers.csv", 300)
    Path("truth.csv").write_text("item,label\nelsewhere,c1\n")
    command = ["aggregate", "answers.csv", "--aggregator", "ds-em", *DISK, "-o", "labels.csv"]
    assert run([*command, "--truth", "truth.csv"]) == 0
    assert "no item with truth" in capsys.readouterr().err
    assert run([*command, "--truth", "truth.csv", "--fail-if", "error>5"]) == 2
