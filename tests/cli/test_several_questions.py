"""Several questions in one run, what was set aside, gold that the answers carry, no workers."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from misc_cli.__main__ import run

ROWS = [
    ("a", "1", "x", "yes"),
    ("b", "1", "x", "no"),
    ("c", "1", "x", "no"),
    ("a", "2", "y", "yes"),
    ("b", "2", "y", "yes"),
    ("c", "2", "x", "no"),
]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = "annotator,doc_id,mood,is spam?\n" + "".join(",".join(row) + "\n" for row in ROWS)
    Path("two.csv").write_text(text)


def labels(path: str) -> dict[str, str]:
    with open(path, newline="") as file:
        return {row["item"]: row["label"] for row in csv.DictReader(file)}


def test_every_question_has_its_files_and_one_manifest(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["aggregate", "two.csv", "--each-question", "--aggregator", "mv", "-o", "out.csv"]
    assert run([*words, "--workers", "w.csv", "--quiet"]) == 0
    assert labels("out.mood.csv") == {"1": "x", "2": "y"}
    assert labels("out.is_spam.csv") == {"1": "no", "2": "yes"}
    assert Path("w.mood.csv").exists()
    assert not Path("out.csv").exists()
    manifest = json.loads(Path("out.run.json").read_text())
    assert [one["question"] for one in manifest["questions"]] == ["is spam?", "mood"]
    single = {"schema", "request", "figures", "inputs", "outputs", "engine", "state"}
    assert all(single <= set(one) for one in manifest["questions"])
    assert {member["file"] for member in manifest["files"]} > {"out.mood.csv", "w.is_spam.csv"}
    assert run(["verify", "out.run.json"]) == 0
    assert run([*words, "--quiet", "--fail-if", "ties=0"]) == 3
    assert "mood: ties=0" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--each-question"], "name one with -o"),
        (["--each-question", "-o", "o.csv", "--state", "s"], "--state is for one question"),
        ([], "2 questions, 'mood' (choice), 'is spam?' (choice)"),
    ],
)
def test_what_needs_one_question(
    flags: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["aggregate", "two.csv", *flags]) == 2
    assert message in capsys.readouterr().err


def test_known_labels_of_every_question(capsys: pytest.CaptureFixture[str]) -> None:
    Path("known.csv").write_text("doc_id,mood,is spam?\n1,x,no\n2,x,no\n")
    words = ["aggregate", "two.csv", "--each-question", "--aggregator", "mv", "-o", "o.csv", "-q"]
    assert run([*words, "--truth", "known.csv", "--fail-if", "error>40"]) == 3
    told = capsys.readouterr().err
    assert "mood: error>40 (error is 50" in told
    assert "is spam?: error>40 (error is 50" in told
    assert run([*words, "--gold", "known.csv"]) == 0
    assert labels("o.mood.csv") == {"1": "x", "2": "x"}
    assert labels("o.is_spam.csv") == {"1": "no", "2": "no"}


def test_known_labels_of_some_questions(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["aggregate", "two.csv", "--each-question", "--aggregator", "mv", "-o", "o.csv"]
    Path("known.csv").write_text("doc_id,mood\n2,x\n")
    assert run([*words, "--gold", "known.csv"]) == 0
    assert "nothing about question 'is spam?', so it has no gold" in capsys.readouterr().err
    assert labels("o.mood.csv")["2"] == "x"
    Path("known.csv").write_text("doc_id,label\n2,x\n")
    assert run([*words, "--truth", "known.csv"]) == 2
    assert "no column for any of is spam?, mood among doc_id, label" in capsys.readouterr().err


def test_a_gate_that_no_question_can_be_judged_by_is_no_pass(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("known.csv").write_text("doc_id,mood,is spam?\n9,x,no\n")  # of items that nobody saw
    words = ["aggregate", "two.csv", "--each-question", "--aggregator", "mv", "-o", "o.csv", "-q"]
    assert run([*words, "--truth", "known.csv", "--fail-if", "error>40"]) == 2
    assert "no error to judge" in capsys.readouterr().err
    assert not Path("o.run.json").exists()


def test_every_question_has_its_report_metrics_changes_and_rejects() -> None:
    words = ["aggregate", "two.csv", "--each-question", "--aggregator", "mv", "-o", "o.csv", "-q"]
    more = ["--report", "r.html", "--metrics", "m.prom", "--changes", "c.csv", "--rejects", "j.csv"]
    assert run([*words, *more, "--where", "annotator = a"]) == 0
    assert run([*words, *more]) == 0
    names = ["r.{}.html", "m.{}.prom", "c.{}.csv", "j.{}.csv"]
    for question in ("mood", "is_spam"):
        assert all(Path(name.format(question)).stat().st_size for name in names)
    assert "flipped,1,yes,no," in Path("c.is_spam.csv").read_text()
    assert len(Path("c.mood.csv").read_text().splitlines()) == 1
    assert run(["verify", "o.run.json"]) == 0


def test_questions_that_would_share_a_file_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    text = Path("two.csv").read_text().replace("mood", "is spam!")
    Path("two.csv").write_text(text)
    assert run(["aggregate", "two.csv", "--each-question", "-o", "out.csv"]) == 2
    assert "would both be written to" in capsys.readouterr().err
    assert not list(Path().glob("out*"))


def test_what_was_set_aside_is_told_and_written(capsys: pytest.CaptureFixture[str]) -> None:
    rows = ["worker,item,label,status", "a,1,x,ok", "b,1,y,rejected", "c,1,x,ok", "a,2,y,ok"]
    Path("a.csv").write_text("\n".join([*rows, "b,2,skip,ok", ""]))
    words = ["aggregate", "a.csv", "--no-answer", "skip", "--rejects", "r.csv", "-o", "l.csv", "-v"]
    assert run(words) == 0
    assert "2: 1 rejected, 1 no answer" in capsys.readouterr().err
    assert Path("r.csv").read_text() == "file,line,reason\na.csv,3,rejected\na.csv,6,no answer\n"
    manifest = json.loads(Path("l.run.json").read_text())
    assert manifest["inputs"][0]["set_aside"] == {"rejected": 1, "no answer": 1}


def test_gold_that_the_answers_carry(capsys: pytest.CaptureFixture[str]) -> None:
    Path("a.csv").write_text("id,gold,rater_1,rater_2,rater_3\n1,y,x,x,x\n2,,y,y,x\n3,,x,x,x\n")
    assert run(["aggregate", "a.csv", "--gold", "auto", "-o", "l.csv", "--quiet"]) == 0
    assert labels("l.csv")["1"] == "y"
    assert run(["aggregate", "two.csv", "--question", "mood", "--gold", "auto"]) == 2
    assert "no gold in it" in capsys.readouterr().err


def test_without_workers_it_is_a_majority_vote_and_said_so(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("a.csv").write_text("item,label\n1,x\n1,x\n1,y\n2,y\n")
    assert run(["aggregate", "a.csv", "-o", "l.csv"]) == 0
    assert "plain majority vote" in capsys.readouterr().err
    assert labels("l.csv") == {"1": "x", "2": "y"}
    for words in (["aggregate", "--aggregator", "ds-em"], ["compare"], ["queue"]):
        assert run([words[0], "a.csv", *words[1:]]) == 2, words
        assert "who answered" in capsys.readouterr().err
