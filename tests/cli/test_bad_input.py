"""Bad input and bad usage: one line on stderr saying what to do, exit code 2, nothing written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from misc_cli.__main__ import run

GOOD = b"worker,item,label\na,1,x\nb,1,x\na,2,y\nb,2,x\n"

# content of bad.csv, further words, words the message must have
BAD_FILES: dict[str, tuple[bytes, list[str], list[str]]] = {
    "empty": (b"", [], ["bad.csv", "empty"]),
    "blank": (b"\n \n", [], ["bad.csv", "empty"]),
    "header only": (b"worker,item,label\n", [], ["bad.csv", "no rows"]),
    "missing column": (
        b"worker,thing,label\na,1,x\n",
        [],
        ["bad.csv", "worker, thing, label", "--item-col"],
    ),
    "column not there": (GOOD, ["--worker-col", "who"], ["bad.csv", "'who'", "--worker-col"]),
    "ragged": (GOOD + b"c,3\n", [], ["bad.csv", "line 6", "2 columns"]),
    "undecodable": (GOOD + b"c,3,\xff\n", [], ["bad.csv", "line 6", "--encoding"]),
    "nul": (GOOD + b"c,3,\0\n", [], ["bad.csv", "line 6", "NUL"]),
    "no answers": (b"worker,item,label\na,1,\nb,1, \n", [], ["bad.csv", "every label is empty"]),
    "no worker": (GOOD + b",3,x\n", [], ["line 6", "worker"]),
    "conflict": (
        GOOD + b"a,1,y\n",
        ["--duplicates", "error"],
        ["bad.csv: worker 'a'", "item '1'; choose --duplicates"],
    ),
    "gold that nobody said": (
        GOOD,
        ["--gold", "case.csv"],
        ["case.csv (--gold): item '1' is 'X'", "--class-order"],
    ),
    "empty array": (b"[]", [], ["bad.csv", "empty"]),
    "class left out": (GOOD, ["--class-order", "x"], ["--class-order", "y"]),
    "no such aggregator": (GOOD, ["--aggregator", "dsem"], ["did you mean ds-em", "auto, mv"]),
    "no such completer": (GOOD, ["--completer", "svd"], ["'svd'", "auto, none, tucker"]),
    "nothing to bound": (
        GOOD,
        ["--aggregator", "mv", "--time-budget", "5s"],
        ["--time-budget", "--aggregator mv"],
    ),
    "flag of another method": (
        GOOD,
        ["--aggregator", "ds-em", "-p", "subtypes=3"],
        ["--subtypes does not apply", "ds-em", "--shrinkage"],
    ),
    "flag of no automatic method": (GOOD, ["-p", "rho=2"], ["--rho", "none of ds-em", "one-coin"]),
    "ranks without completer": (
        GOOD,
        ["--aggregator", "mv", "--ranks", "1,1,1"],
        ["--ranks", "--completer"],
    ),
    "ranks that are none": (GOOD, ["--ranks", "1,a"], ["--ranks", "3 whole numbers"]),
    "negative seed": (GOOD, ["--seed", "-1"], ["--seed", "a whole number from 0"]),
    "nameless class": (GOOD, ["--class-order", "x,,y"], ["--class-order", "empty name"]),
    "negative tolerance": (GOOD, ["--tol", "-1"], ["--tol"]),
    "gate without truth": (GOOD, ["--fail-if", "error>5"], ["--truth"]),
    "gate on no truth": (
        GOOD,
        ["--fail-if", "error>5", "--truth", "far.csv"],
        ["error>5", "--truth"],
    ),
    "gate of no number": (GOOD, ["--fail-if", "confidence<nan"], ["compared with a number"]),
    "truth against itself": (
        GOOD,
        ["--truth", "two.csv"],
        ["two.csv (--truth): item '1'", "more than one label"],
    ),
    "gold against itself": (
        GOOD,
        ["--gold", "two.csv"],
        ["two.csv (--gold): item '1'", "more than one label"],
    ),
    "gate of nothing": (GOOD, ["--fail-if", "mood<5"], ["mood", "confidence"]),
    "gate that is none": (GOOD, ["--fail-if", "confidence"], ["METRIC OP VALUE"]),
    "missing truth": (GOOD, ["--truth", "nowhere.csv"], ["nowhere.csv", "no such file"]),
    "unknown flag": (GOOD, ["--colour", "red"], ["--colour", "misc aggregate --help"]),
    "two stdins": (GOOD, ["-", "--truth", "-"], ["standard input"]),
}


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def complaint(words: list[str], capfd: pytest.CaptureFixture[str]) -> str:
    """Run, insist on exit code 2 and on one line that is a complaint; return both lines.

    A command that settles it may stand on a second line.
    """
    before = sorted(Path.cwd().rglob("*"))
    assert run(["aggregate", *words]) == 2
    out, err = capfd.readouterr()
    assert out == ""
    lines = err.splitlines(keepends=True)
    proposed = lines.pop() if lines[-1].startswith("  try: misc ") else ""
    *warnings, error = lines
    assert all(line.startswith("misc: warning: ") for line in warnings)
    assert error.startswith("misc: error: ")
    assert error.endswith("\n")
    assert sorted(Path.cwd().rglob("*")) == before, "something was written"
    return error + proposed


@pytest.mark.parametrize("case", BAD_FILES)
def test_bad_input(case: str, capfd: pytest.CaptureFixture[str]) -> None:
    content, words, wanted = BAD_FILES[case]
    Path("bad.csv").write_bytes(content)
    Path("case.csv").write_text("item,label\n1,X\n")
    Path("far.csv").write_text("item,label\nelsewhere,x\n")
    Path("two.csv").write_text("item,label\n1,x\n1,y\n")
    message = complaint(["bad.csv", *words, "-o", "labels.csv"], capfd)
    for text in wanted:
        assert text in message


def test_no_such_file(capfd: pytest.CaptureFixture[str]) -> None:
    assert "nowhere.csv: no such file" in complaint(["nowhere.csv", "-o", "labels.csv"], capfd)


def test_a_folder_as_input(capfd: pytest.CaptureFixture[str]) -> None:
    Path("folder").mkdir()
    assert "folder" in complaint(["folder", "-o", "labels.csv"], capfd)


def test_no_input_at_all(capfd: pytest.CaptureFixture[str]) -> None:
    assert "ANSWERS" in complaint([], capfd)


def test_outputs_that_cannot_be(capfd: pytest.CaptureFixture[str]) -> None:
    Path("good.csv").write_bytes(GOOD)
    Path("folder").mkdir()
    assert "this is a folder" in complaint(["good.csv", "-o", "folder"], capfd)
    assert "no such folder" in complaint(["good.csv", "-o", "nowhere/labels.csv"], capfd)
    assert "this is an input" in complaint(["good.csv", "-o", "good.csv"], capfd)
    Path("link.csv").symlink_to("good.csv")
    assert "this is an input" in complaint(["good.csv", "-o", "link.csv"], capfd)
    for name in ("labels.xlsx", "labels.json", "labels.csv.bz2", "labels.xlsx.gz"):
        wanted = f"{name}: this command writes no such format; end the name in .csv or .tsv"
        assert wanted in complaint(["good.csv", "-o", name], capfd)
        assert wanted in complaint(["good.csv", "-o", "labels.csv", "--workers", name], capfd)
    clash = ["good.csv", "-o", "labels.csv", "--workers", "labels.csv"]
    assert "two outputs" in complaint(clash, capfd)
    assert Path("good.csv").read_bytes() == GOOD


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission(capfd: pytest.CaptureFixture[str]) -> None:
    Path("good.csv").write_bytes(GOOD)
    Path("locked").mkdir(mode=0o500)
    message = complaint(["good.csv", "-o", "locked/labels.csv"], capfd)
    assert "Permission denied" in message
