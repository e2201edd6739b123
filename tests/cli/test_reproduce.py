"""`misc reproduce` as a user meets it."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from misc_cli.__main__ import run
from tests.conftest import dataset_folder

Capture = pytest.CaptureFixture[str]


pytestmark = pytest.mark.usefixtures("own_folder")


def test_part_of_the_table(own_folder: Path, capfd: Capture) -> None:
    folder = str(dataset_folder("bluebirds").parent)
    words = ["reproduce", "--from", folder, "--datasets", "bluebirds", "--aggregators", "mv,ds-em"]
    assert run([*words, "--completers", "none", "-o", "table.csv"]) == 0
    rows = list(csv.DictReader((own_folder / "table.csv").read_text().splitlines()))
    assert [round(float(row["ours"]), 2) for row in rows] == [24.07, 10.19]
    assert [row["completer"] for row in rows] == ["none", "none"]
    assert run([*words, "--completers", "none", "-o", "-"]) == 0
    assert capfd.readouterr().out == (
        "Error in %\n"
        "method         bluebirds\n"
        "mv      ours       24.07\n"
        "        paper      24.07\n"
        "ds-em   ours       10.19\n"
        "        paper      10.19\n"
        "2 of 2 cells at or below the paper's error\n"
    )
    assert not (own_folder / "-").exists()
    assert run([*words, "--completers", "none,tucker", "-o", "table.md"]) == 0
    assert "| tucker + mv | ours |" in (own_folder / "table.md").read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--datasets", "cats"], "no 'cats'"),
        (["--datasets", "web"], "misc datasets fetch web"),
        (["-o", "table.json"], "table.json: this command writes no such format; end the name in"),
    ],
)
def test_what_cannot_be_run(capfd: Capture, words: list[str], message: str) -> None:
    assert run(["reproduce", *words]) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert message in err
