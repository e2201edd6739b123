"""`misc evaluate` and `misc datasets` as a user meets them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from misc_cli.__main__ import run
from tests.conftest import PAPER_SIX, dataset_folder

Capture = pytest.CaptureFixture[str]


pytestmark = pytest.mark.usefixtures("own_folder")


def test_labels_of_aggregate_give_the_papers_majority_vote_error(
    own_folder: Path, capfd: Capture
) -> None:
    data = dataset_folder("rte")
    answers, truth = str(data / "answers.csv"), str(data / "truth.csv")
    aggregate = ["aggregate", answers, "--aggregator", "mv", "--probabilities"]
    assert run([*aggregate, "-q", "-o", "labels.csv"]) == 0
    assert run(["evaluate", "labels.csv", truth, "--json"]) == 0
    found = json.loads(capfd.readouterr().out)
    assert round(100 * found["error"], 2) == 10.31
    assert found["items"] == 800
    assert run(["evaluate", "labels.csv", truth]) == 0
    assert "error              10.31 %" in capfd.readouterr().out


def test_any_two_columns_will_do(own_folder: Path, capfd: Capture) -> None:
    (own_folder / "labels.tsv").write_text("task\tanswer\nx1\tyes\nx2\tno\nx3\t\n")
    (own_folder / "truth.csv").write_text("item,truth\nx1,yes\nx2,yes\nx3,no\nx4,no\n")
    assert run(["evaluate", "labels.tsv", "truth.csv"]) == 0
    assert capfd.readouterr().out == (
        "Labels against truth\n"
        "figure    value\n"
        "items         2\n"
        "error   50.00 %\n"
        "2 items have no label: x3, x4\n"
        "\n"
        "By class\n"
        "class  items  precision   recall       F1\n"
        "no         0     0.00 %        –   0.00 %\n"
        "yes        2   100.00 %  50.00 %  66.67 %\n"
        "\n"
        "True class (rows) by label (columns)\n"
        "true  no  yes\n"
        "no     0    0\n"
        "yes    1    1\n"
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("item,label,confidence\na,x,high\n", "column confidence holds what is no number"),
        ("item,label,p_x\na,x,1.5\n", "column p_x holds what is no number between 0 and 1"),
        ("item,label\na,x\na,y\n", "labels.csv: item 'a' has more than one label"),
        ("item,label\nb,x\n", "no item is in both files"),
        ("item,label\na,\n", "labels.csv: every label is empty"),
    ],
)
def test_labels_that_make_no_sense(
    own_folder: Path, capfd: Capture, content: str, message: str
) -> None:
    (own_folder / "labels.csv").write_text(content)
    (own_folder / "truth.csv").write_text("item,label\na,x\n")
    assert run(["evaluate", "labels.csv", "truth.csv"]) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert message in err
    assert err.count("\n") == 1


def test_datasets_from_a_folder(own_folder: Path, capfd: Capture) -> None:
    shared = dataset_folder("temp").parent
    assert run(["reproduce", "--datasets", "temp"]) == 2
    assert "misc datasets fetch temp" in capfd.readouterr().err
    copy = str(own_folder / "cache" / "misc-cli" / "datasets" / "temp")
    shutil.copytree(shared / "temp", copy)
    assert run(["datasets", "fetch", "temp"]) == 0  # which leaves a copy that is there
    assert capfd.readouterr().out.strip() == copy
    assert run(["datasets", "list", "--json"]) == 0
    found = {
        entry["name"]: entry["path"] for entry in json.loads(capfd.readouterr().out)["datasets"]
    }
    assert {name for name, path in found.items() if path} == {"temp"}
    assert found["temp"] == copy
    assert {*PAPER_SIX, "product", "face", "trec"} <= found.keys()
    assert run(["datasets", "fetch", "cats"]) == 2
    assert "there are web, bm" in capfd.readouterr().err
