"""`misc reproduce` as a user meets it."""

from __future__ import annotations

import csv
from pathlib import Path
from xml.etree import ElementTree

import pytest

from misc_cli.__main__ import run
from tests.conftest import dataset_folder

Capture = pytest.CaptureFixture[str]


pytestmark = pytest.mark.usefixtures("own_folder")


def test_part_of_the_table(own_folder: Path, capfd: Capture) -> None:
    folder = str(dataset_folder("bluebirds").parent)
    words = ["reproduce", "--from", folder, "--datasets", "bluebirds", "--aggregators", "mv,ds-em"]
    assert run([*words, "--completers", "none", "-o", "table.csv"]) == 0
    assert capfd.readouterr().out == (
        "bluebirds: 39 workers, 108 items, 2 classes\n"
        "error, %            mv  ds-em\n"
        "pure      ours   24.07  10.19\n"
        "          paper  24.07  10.19\n"
        "\n"
        "Ours against the paper's\n"
        "pure: 2 of 2 at or below\n"
    )
    rows = list(csv.DictReader((own_folder / "table.csv").read_text().splitlines()))
    assert [round(float(row["ours"]), 2) for row in rows] == [24.07, 10.19]
    # what is done again is remembered too, and "-" is no file
    memory = own_folder / "cache" / "misc-cli" / "reproduce.jsonl"
    assert len(memory.read_text().splitlines()) == 2
    assert run([*words, "--completers", "none", "-o", "-"]) == 0
    assert len(memory.read_text().splitlines()) == 2
    assert run([*words, "--completers", "none", "--fresh"]) == 0
    assert len(memory.read_text().splitlines()) == 4
    assert not (own_folder / "-").exists()
    capfd.readouterr()
    assert run([*words, "--completers", "none,tucker", "--markdown"]) == 0
    assert "| tucker | ours |" in capfd.readouterr().out


def test_sparse_and_noisy_answers(own_folder: Path, capfd: Capture) -> None:
    folder = str(dataset_folder("rte").parent)
    words = ["reproduce", "--experiment", "sparse-noisy", "--from", folder, "--noise", "spread"]
    words += ["--aggregators", "mv", "--seeds", "1", "-o", "points.csv", "--plot", "figure.svg"]
    assert run(words) == 0
    assert "Wrong answers spread over all workers" in capfd.readouterr().out
    rows = list(csv.DictReader((own_folder / "points.csv").read_text().splitlines()))
    means = {(row["strategy"], row["error_rate"]): float(row["mean"]) for row in rows}
    assert len(means) == 3 * 4
    assert means["pure", "30.4"] < means["pure", "41.6"] < means["pure", "60.9"]
    thumb = "rule of thumb"
    assert all(means["best", rate] <= means[thumb, rate] for rate in ("30.4", "60.9"))
    assert ElementTree.parse(own_folder / "figure.svg").getroot().tag.endswith("svg")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--datasets", "cats"], "no dataset 'cats'"),
        (["--datasets", "web"], "misc datasets fetch web"),
        (["--seed", "-1"], "--seed"),
        (["--plot", "x.svg"], "--plot belongs to --experiment"),
        (["--noise", "spread"], "--noise belongs to --experiment"),
        (["--seeds", "5"], "--seeds belongs to --experiment"),
        (["--trials", "9"], "--trials belongs to --search"),
        (["--experiment", "sparse-noisy", "--auto"], "--auto belongs to the table"),
        (["-o", "table.json"], "table.json: this command writes no such format; end the name in"),
        (["--experiment", "sparse-noisy", "--plot", "x.png"], "ends in .svg"),
        (["--experiment", "sparse-noisy", "--noise", "loud"], "--noise loud: choose from spread"),
    ],
)
def test_what_cannot_be_run(capfd: Capture, words: list[str], message: str) -> None:
    assert run(["reproduce", *words]) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert message in err
