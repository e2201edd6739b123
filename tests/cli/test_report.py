"""`misc report`, of answers and of a finished run."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pandas as pd
import pytest

from misc_cli.__main__ import run
from misc_cli.report.load_run import read_runs
from tests.report.crowds import answers, batch

EM = ["--aggregator", "ds-em"]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    answers().to_csv("answers.csv", index=False)


def test_a_report_on_answers_writes_one_page(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["report", "answers.csv", *EM]) == 0
    assert {path.name for path in Path().iterdir()} == {"answers.csv", "report.html"}
    assert re.fullmatch(r"misc: written: report.html, \S+ MB\n", capfd.readouterr().err)
    assert "6 workers gave 720 answers on 120 items" in Path("report.html").read_text()
    assert run(["report", "answers.csv", *EM, "-o", "-"]) == 0
    assert capfd.readouterr().out.startswith("<!doctype html>")
    assert run(["report", "answers.csv", *EM, "-o", "report.pdf"]) == 2
    assert "end the name in .html or .xlsx" in capfd.readouterr().err


def test_a_finished_run_says_the_same_as_a_new_one(capfd: pytest.CaptureFixture[str]) -> None:
    words = [*EM, "--probabilities", "--workers", "workers.csv", "-o", "labels.csv"]
    assert run(["aggregate", "answers.csv", *words]) == 0
    capfd.readouterr()
    found = {}
    for name in ("workers", "items"):
        for source, more in (("answers.csv", EM), ("labels.run.json", [])):
            assert run([name, source, *more, "--json"]) == 0
            rows = json.loads(capfd.readouterr().out)[name]
            found[name, source] = sorted(rows, key=lambda row: row[name[:-1]])
    for name in ("workers", "items"):
        new, old = found[name, "answers.csv"], found[name, "labels.run.json"]
        assert len(new) == len(old) > 0
        for one, other in zip(new, old, strict=True):
            assert one.keys() == other.keys()
            one.pop("runner_up", None)  # six decimals do not tell one remote class from another
            for key, value in one.items():
                near = pytest.approx(value, abs=1e-6) if isinstance(value, float) else value
                assert other[key] == near


def test_a_finished_run_without_its_answers_says_what_is_missing(
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert run(["aggregate", "answers.csv", *EM, "-o", "labels.csv"]) == 0
    Path("answers.csv").write_text("worker,item,label\na,b,c\n")
    assert run(["report", "labels.run.json", "-o", "old.html"]) == 2
    assert (
        "its answers answers.csv are not there any more, or have changed since; put them"
        in capfd.readouterr().err
    )
    assert not Path("old.html").exists()
    Path("labels.csv").unlink()
    assert run(["report", "labels.run.json"]) == 2
    assert "labels.csv are not there" in capfd.readouterr().err


def test_no_other_file_is_taken_for_a_run(capfd: pytest.CaptureFixture[str]) -> None:
    Path("x.run.json").write_text("[1]")
    assert run(["report", "x.run.json"]) == 2
    assert "no run.json of misc aggregate" in capfd.readouterr().err


def test_a_run_writes_its_report_with_its_labels(capfd: pytest.CaptureFixture[str]) -> None:
    words = ["aggregate", "answers.csv", *EM, "-o", "labels.csv"]
    assert run([*words, "--report", "page.html"]) == 0
    assert "page.html" in json.dumps(json.loads(Path("labels.run.json").read_text())["outputs"])
    assert 'id="worker-w5"' in Path("page.html").read_text()
    assert run([*words, "--title", "Birds"]) == 2
    assert "--title needs --report" in capfd.readouterr().err
    assert run([*words, "--report", "page.html", "--title", "Birds & bees"]) == 0
    assert run(["report", "labels.run.json", "-o", "later.html", "--title", "Birds & bees"]) == 0
    for name in ("page.html", "later.html"):
        assert "<h1><bdi>Birds &amp; bees</bdi></h1>" in Path(name).read_text()
    assert run([*words, "--report", "page.pdf"]) == 2
    assert "end the name in .html or .xlsx" in capfd.readouterr().err


def test_a_run_on_disk_writes_the_report_of_one_in_memory() -> None:
    pages = {}
    for engine in ("local", "disk"):
        words = ["aggregate", "answers.csv", *EM, "--engine", engine, "-o", f"{engine}.csv"]
        assert run([*words, "--report", f"{engine}.html"]) == 0
        page = Path(f"{engine}.html").read_text()
        shown = page[page.index('id="workers"') : page.index('id="run"')]
        pages[engine] = re.sub(r' data-value="[^"]*"', "", shown)  # of sixteen digits
    assert pages["disk"] == pages["local"]


def test_a_workbook_without_its_library_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "xlsxwriter", None)
    assert run(["report", "answers.csv", *EM, "-o", "report.xlsx"]) == 2
    said = capfd.readouterr().err
    assert "needs the extra excel: install misc again with it, in its clone" in said
    assert "pip install '.[excel]'" in said
    assert not Path("report.xlsx").exists()


def test_kept_columns_reach_labels_items_queue_page_and_finished_runs(
    capfd: pytest.CaptureFixture[str],
) -> None:
    batch(60).to_csv("batch.csv", index=False)
    keep = ["--keep", "Input.*"]
    assert (
        run(["aggregate", "batch.csv", *EM, *keep, "-o", "labels.csv", "--report", "a.html"]) == 0
    )
    assert run(["report", "labels.run.json", "-o", "b.html"]) == 0
    assert run(["items", "labels.run.json", "-o", "items.csv"]) == 0
    assert run(["queue", "labels.run.json", "-o", "queue.csv"]) == 0
    assert run(["queue", "batch.csv", *EM, *keep, "-o", "again.csv"]) == 0
    texts = {}
    for name in ("labels.csv", "items.csv", "queue.csv", "again.csv"):
        table = pd.read_csv(name).set_index("item")
        assert {"Input.url", "Input.text"} <= set(table.columns)
        texts[name] = table["Input.text"].to_dict()
        assert texts[name].items() <= texts["labels.csv"].items()
    for name in ("a.html", "b.html"):
        page = Path(name).read_text()
        assert 'href="https://images.example.com/batch/3' in page
        assert ", &lt;b&gt;as it is&lt;/b&gt;\nand on</bdi>" in page
    capfd.readouterr()


def test_a_finished_run_without_probabilities_estimates_what_to_ask_again() -> None:
    batch(300).to_csv("batch.csv", index=False)
    found = {}
    for name, more in (("exact", ["--probabilities"]), ("estimated", [])):
        words = ["aggregate", "batch.csv", *EM, "--no-calibrate", *more]
        assert run([*words, "-o", f"{name}.csv"]) == 0
        (report,) = read_runs(f"{name}.run.json").values()
        found[name] = report.frames["ask_again"].set_index("item")
        assert ("gains are estimated" in " ".join(report.missing)) == (name == "estimated")
    first, guess = found["exact"].head(50), found["estimated"].head(50)
    assert len(set(first.index) & set(guess.index)) >= 45
    shared = first.index.intersection(guess.index)
    assert (first["runner_up"][shared] == guess["runner_up"][shared]).mean() > 0.9
    assert guess["gain"].sum() == pytest.approx(first["gain"].sum(), rel=0.1)
