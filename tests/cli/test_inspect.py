"""`misc inspect`: every question, what is left out, what would be refused; exit 0 if it opens."""

from __future__ import annotations

import io
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from misc_cli.__main__ import run

ANSWERS = "worker,item,label,status\n" + "".join(
    f"w{n % 4},i{n // 4},{'Yes' if n % 3 else 'no'},{'rejected' if n % 8 == 0 else 'ok'}\n"
    for n in range(40)
)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.csv").write_text(ANSWERS)


def inspected(capfd: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert run(["inspect", *words, "--json"]) == 0
    found: dict[str, Any] = json.loads(capfd.readouterr().out)
    return found


def test_everything_about_a_plain_file(capfd: pytest.CaptureFixture[str]) -> None:
    told = inspected(capfd, "a.csv", "--fold-case")
    (file,), (question,) = told["files"], told["questions"]
    assert (file["format"], file["reader"], file["refused"]) == ("csv", "long", None)
    assert question["columns"] == {"worker": "worker", "item": "item", "label": "label"}
    assert question["set_aside"] == file["set_aside"] == {"rejected": 5}
    assert sum(question["classes"].values()) == question["answers"] == 35
    assert question["samples"][0] == ["w1", "i0", "Yes"]
    assert (question["workers"], question["items"]) == (4, 10)
    assert question["answers_per_item"] == {"least": 3, "mean": 3.5, "most": 4}
    assert -1 <= question["alpha"] <= 1
    assert 0 <= question["agreement"] <= 1
    assert question["refused"] == []


def test_tables_for_people(capfd: pytest.CaptureFixture[str]) -> None:
    text = ANSWERS.replace("no,", "NO,", 1) + "".join(f"z,i{n},no,ok\n" for n in range(6))
    Path("a.csv").write_text(text)
    assert run(["inspect", "a.csv"]) == 0
    out = capfd.readouterr().out
    assert out.startswith("a.csv\nformat ")  # facts follow their title at once
    assert "\nquestion 'label'\nkind " in out
    assert "rejected: 5" in out
    assert "\none label workers   z\n" in out
    assert "to run: misc aggregate" in out


def test_questions_and_their_flags(capfd: pytest.CaptureFixture[str]) -> None:
    rows = [
        f"w{n % 3},d{n // 3},{'ab'[n % 2]},{'xy'[n % 2]},remark number {n} in words"
        for n in range(12)
    ]
    Path("b.csv").write_text("\n".join(["annotator,doc_id,mood,kind of,opinion", *rows, ""]))
    told = inspected(capfd, "b.csv")
    assert {question["name"]: question["kind"] for question in told["questions"]} == {
        "mood": "choice",
        "kind of": "choice",
    }
    flags = {question["name"]: question["flag"] for question in told["questions"]}
    assert flags["kind of"] == "--question 'kind of'"
    assert not any(question["refused"] for question in told["questions"])


@pytest.mark.parametrize(
    ("text", "word"),
    [
        (
            "wer,was,wie\nw1,i1,ja\nw2,i1,nein\n",
            "no worker, item and label column",
        ),
        ("worker,item,label\n" + "".join(f"w{n % 3},i{n},x{n}\n" for n in range(20)), "20 classes"),
    ],
)
def test_what_would_be_refused_is_reported(
    capfd: pytest.CaptureFixture[str], text: str, word: str
) -> None:
    Path("c.csv").write_text(text)
    told = inspected(capfd, "c.csv")
    refused = [told["files"][0]["refused"], *(q["refused"] for q in told["questions"])]
    assert word in str(refused)
    assert told["command"] is None


def test_standard_input(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(ANSWERS.encode())))
    assert inspected(capfd, "-")["questions"][0]["answers"] == 35


def test_what_cannot_be_opened_is_an_error(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["inspect", "none.csv"]) == 2
    assert "no such file" in capfd.readouterr().err
