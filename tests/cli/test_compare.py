"""`misc compare` and `misc queue` as a user meets them."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from misc_cli.__main__ import run
from tests.conftest import REPO

WORDS = ["--completers", "none,tucker", "--aggregators", "mv,ds-em"]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["--workers", "20", "--items", "200", "--classes", "3", "--answers-per-item", "5"]
    assert run(["simulate", "-o", "answers.csv", "--truth", "truth.csv", *words]) == 0


def test_the_leaderboard_is_sorted_and_truth_is_only_reported(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["compare", "answers.csv", *WORDS, "--json"]) == 0
    blind = json.loads(capsys.readouterr().out)["methods"]
    assert run(["compare", "answers.csv", *WORDS, "--truth", "truth.csv", "--json"]) == 0
    judged = json.loads(capsys.readouterr().out)["methods"]
    tried = {"mv", "ds-em", "tucker + mv", "tucker + ds-em"}
    assert {row["method"] for row in blind} == {"null", *tried}
    assert {row["method"]: row["share"] for row in blind}["null"] == 0.0
    assert [row["score"] for row in blind] == sorted((r["score"] for r in blind), reverse=True)
    assert blind[0]["behind"] == 0.0
    assert blind[0]["differs"] == 0
    assert [row["method"] for row in judged] == [row["method"] for row in blind]
    assert all(row["error"] is None for row in blind)
    errors = [row["error"] for row in judged if row["method"] != "null"]
    assert all(0.0 <= error <= 100.0 for error in errors)


def test_the_table_goes_to_stdout_or_to_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--completers", "none", "--aggregators", "mv,one-coin"]
    assert run(["compare", "answers.csv", *words]) == 0
    printed = capsys.readouterr().out
    assert printed.splitlines()[1].split() == [
        "method",
        "score",
        "±",
        "lead",
        "%",
        "behind",
        "differs",
        "seconds",
    ]
    assert run(["compare", "answers.csv", *words, "-o", "table.csv"]) == 0
    with open("table.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert {row["method"] for row in rows} == {"mv", "one-coin", "null"}
    assert run(["compare", "answers.csv", *words, "--json", "-o", "table.json"]) == 0
    assert {row["method"] for row in json.loads(Path("table.json").read_text())["methods"]} == {
        "mv",
        "one-coin",
        "null",
    }
    assert capsys.readouterr().out == ""
    assert run(["compare", "answers.csv", *words, "--json", "-o", "table.tsv"]) == 2
    assert "table.tsv: this command writes no such format" in capsys.readouterr().err


@pytest.fixture
def datasets(tmp_path: Path) -> Path:
    """Six crowds of 100 items, each a folder with answers and truth."""
    for seed in range(6):
        folder = tmp_path / "datasets" / f"crowd_{seed}"
        folder.mkdir(parents=True)
        words = ["--workers", "12", "--items", "100", "--classes", "3", "--seed", str(seed)]
        files = ["-o", str(folder / "answers.csv"), "--truth", str(folder / "truth.csv")]
        assert run(["simulate", *words, *files]) == 0
    return tmp_path / "datasets"


FEW = ["--completers", "none", "--aggregators", "mv,one-coin,ds-em"]


def test_datasets_are_columns_of_one_table(
    datasets: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["compare", str(datasets), *FEW, "--json"]) == 0
    rows = json.loads(capfd.readouterr().out)["methods"]
    assert [row["rank"] for row in rows] == sorted(row["rank"] for row in rows)
    assert sum(row["rank"] for row in rows) == pytest.approx(6.0)
    by_name = {row["method"]: row for row in rows}
    words = [str(datasets / "crowd_3"), "--completers", "none", "--aggregators", "mv"]
    assert run(["compare", *words, "--json"]) == 0
    alone = json.loads(capfd.readouterr().out)["methods"]
    error = next(row["error"] for row in alone if row["method"] == "mv")
    assert by_name["mv"]["crowd_3"] == pytest.approx(error)
    mean = sum(by_name["mv"][f"crowd_{seed}"] for seed in range(6)) / 6
    assert by_name["mv"]["mean"] == pytest.approx(mean)
    assert rows[0]["p"] == pytest.approx(1.0)
    assert rows[0]["among_best"]
    assert run(["compare", str(datasets), *FEW]) == 0
    printed = capfd.readouterr().out.splitlines()
    assert printed[0] == "Error in %"
    assert printed[1].split() == ["method", *(f"crowd_{s}" for s in range(6)), "mean", "rank", "p"]
    assert printed[-1].startswith(f"* not shown to rank worse than {rows[0]['method']}")


def test_without_truth_datasets_are_compared_by_hidden_answers(
    datasets: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    files = [str(datasets / f"crowd_{seed}" / "answers.csv") for seed in (0, 1)]
    assert run(["compare", *files, *FEW]) == 0
    printed = capfd.readouterr().out
    assert printed.startswith("Mean log probability of hidden answers")
    assert "crowd_0/answers" in printed
    assert "crowd_1/answers" in printed
    assert run(["compare", *files, *FEW, "--truth", "truth.csv"]) == 2
    assert "--truth is for one dataset, and there are 2" in capfd.readouterr().err
    assert run(["compare", *files, *FEW, "--as-one", "--json", "--duplicates", "last"]) == 0
    methods = json.loads(capfd.readouterr().out)["methods"]
    assert {row["method"] for row in methods} == {"mv", "one-coin", "ds-em", "null"}


def test_the_table_as_csv_markdown_and_latex_that_compiles(datasets: Path) -> None:
    for name in ("table.csv", "table.md", "table.tex"):
        assert run(["compare", str(datasets), *FEW, "-o", name]) == 0
    with open("table.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert {row["method"] for row in rows} == {"mv", "one-coin", "ds-em"}
    assert "| method | crowd_0 |" in Path("table.md").read_text()
    lines = Path("table.tex").read_text().splitlines()
    assert r"\begin{tabular}{lrrrrrrrrr}" in lines
    cells = [line.count("&") for line in lines if line.endswith(r" \\")]
    assert cells == [9] * 4
    assert r"crowd\_0" in lines[3]
    if shutil.which("pdflatex") is None:
        pytest.skip("pdflatex is not installed: only the structure was checked")
    page = r"\documentclass{article}\begin{document}" + "\n" + "\n".join(lines)
    Path("page.tex").write_text(page + "\n" + r"\end{document}")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "page.tex"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_methods_are_told_apart_by_their_average_ranks() -> None:
    from misc_cli.selection.compare import Comparison

    # Demšar's example: of 4 methods on 14 datasets, ranks that differ by 1.25 differ (5 %)
    shifts = [np.roll(np.arange(4.0), -at) for at in range(4)]
    near = np.stack([*shifts, *shifts, *[np.arange(4.0)] * 6], axis=1)
    found = Comparison(("a", "b", "c", "d"), tuple(map(str, range(14))), near, "error")
    columns = found.columns()
    gaps = columns["rank"] - columns["rank"].min()
    assert ((gaps > 1.25) == (columns["p"] < 0.05)).all()
    assert columns["among_best"].any()
    assert not columns["among_best"].all()
    tied = Comparison(("a", "b", "c"), ("x",), np.array([[3.0], [1.0], [3.0]]), "error")
    assert tied.columns()["rank"].tolist() == [1.0, 2.5, 2.5]
    values = np.array([[1.0, 2.0], [2.0, 3.0], [np.nan, 1.0]])
    found = Comparison(("a", "b", "c"), ("x", "y"), values, "error")
    columns = found.columns()
    assert columns["rank"][:2].tolist() == [1.0, 2.0]
    assert np.isnan(columns["rank"][2])
    assert columns["method"] == ["a", "b", "c"]


def test_an_unknown_method_is_one_line_and_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", "answers.csv", "--aggregators", "mv,nonesuch"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "nonesuch" in said


def test_it_gives_no_advice_that_it_has_no_flag_for(capsys: pytest.CaptureFixture[str]) -> None:
    """ds-em meets its limit on this crowd, but compare has no --max-iter to raise."""
    words = ["--completers", "none", "--aggregators", "ds-em"]
    assert run(["compare", str(REPO / "sample_data" / "groups.csv"), *words]) == 0
    assert capsys.readouterr().err == ""


def test_standard_input_is_read_once(capsys: pytest.CaptureFixture[str]) -> None:
    """Truth read from the same pipe would be called an empty file."""
    assert run(["compare", "-", "--truth", "-"]) == 2
    assert "standard input (-) can be read only once" in capsys.readouterr().err


def test_the_queue_lists_the_most_useful_items_first() -> None:
    assert run(["queue", "answers.csv", "--aggregator", "ds-em", "-o", "all.csv"]) == 0
    words = ["--aggregator", "ds-em", "--top", "7", "-o", "few.csv"]
    assert run(["queue", "answers.csv", *words]) == 0
    with open("all.csv", newline="") as stream:
        everything = list(csv.DictReader(stream))
    with open("few.csv", newline="") as stream:
        few = list(csv.DictReader(stream))
    gains = [float(row["gain"]) for row in everything]
    assert gains == sorted(gains, reverse=True)
    assert few == everything[:7]
    assert min(gains) > 0.0


def test_known_items_are_never_asked_again() -> None:
    words = ["--aggregator", "ds-em", "--gold", "truth.csv", "-o", "asked.csv"]
    assert run(["queue", "answers.csv", *words]) == 0
    assert Path("asked.csv").read_text().splitlines()[1:] == []


def test_it_warns_of_what_aggregate_warns_of(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    rows = [f"w{w},i{i},{'ab'[(i * w) % 2]}" for i in range(40) for w in range(4)]
    place = tmp_path / "answers.csv"
    place.write_text("worker,item,label\n" + "\n".join([*rows, "w0,i0,b"]) + "\n")
    words = ["--completers", "none", "--aggregators", "mv,one-coin"]
    assert run(["compare", str(place), *words]) == 0
    assert "a worker gave an item more than one label" in capfd.readouterr().err
