"""A sample of every platform, made from its documentation, and its right reading beside it."""

from __future__ import annotations

from typing import Any

import pytest

from misc_cli.errors import InputError
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.read import read_answer_columns
from tests.readers.platforms.look import SAMPLES, look

ANN, BEN = (f"5f1b2c3d-0000-4000-8000-00000000000{n}" for n in (1, 2))

_ASKED = "How does this sound"
_FIRST = (("ann", "happy"), ("ben", "sad"), ("cy", "happy"))

# sample → reader, the answers of its first question with classes, what is set aside, gold
RIGHT: dict[str, tuple[str, set[tuple[str, str, str]], dict[str, int], dict[str, str]]] = {
    "label_studio.json": (
        "label-studio",
        {
            *(("ada@lab.org", "11", "happy"), ("bo@lab.org", "11", "sad")),
            *(("ada@lab.org", "12", "sad"), ("bo@lab.org", "13", "happy")),
        },
        {"cancelled": 1, "ground truth": 1, "empty": 1, "not annotated": 1},
        {"12": "sad"},
    ),
    "label_studio.csv": (
        "label-studio-table",
        {("ada@lab.org", "11", "happy"), ("bo@lab.org", "11", "sad"), ("ada@lab.org", "12", "sad")},
        {},
        {},
    ),
    "toloka.tsv": (
        "toloka",
        {("w1", "a.jpg", "cat"), ("w1", "b.jpg", "dog"), ("w3", "b.jpg", "cat")},
        {"rejected": 1},
        {"b.jpg": "dog"},
    ),
    "mturk.csv": (
        "mturk",
        {("W1", "H1", "cat"), ("W1", "H2", "dog")},
        {"rejected": 2},
        {},
    ),
    "mturk_radio.csv": (
        "mturk",
        {("W1", "H1", "cat"), ("W2", "H1", "dog")},
        {"rejected": 1},
        {},
    ),
    "mturk_json.csv": (
        "mturk",
        {("W1", "H1", "cat"), ("W2", "H1", "dog")},
        {"rejected": 1},
        {},
    ),
    "appen.csv": (
        "appen",
        {("c1", "u1", "happy"), ("c1", "u2", "sad"), ("c3", "u2", "happy")},
        {"tainted": 1},
        {"u2": "sad"},
    ),
    "prodigy.jsonl": (
        "prodigy",
        {("news-ann", "1001", "SPORT"), ("news-ben", "1001", "ART"), ("news-ann", "1003", "ART")},
        {"rejected": 1, "ignored": 1},
        {},
    ),
    "prodigy_binary.jsonl": (
        "prodigy",
        {("news-ann", "-2001", "accept"), ("news-ben", "-2001", "reject")},
        {"ignored": 1},
        {},
    ),
    "doccano_old.jsonl": (
        "doccano",
        {("1", "1", "2"), ("2", "1", "3"), ("1", "2", "3")},
        {"not annotated": 1},
        {},
    ),
    "argilla.json": (
        "argilla",
        {(ANN, "r1", "happy"), (BEN, "r1", "sad")},
        {"not annotated": 1},
        {},
    ),
    "argilla_flat.json": (
        "argilla",
        {(ANN, "r1", "happy"), (BEN, "r1", "sad")},
        {"discarded": 1, "draft": 1, "not annotated": 1},
        {},
    ),
    "argilla_1.json": (
        "lists",
        {(ANN, "r1", "happy"), (BEN, "r1", "sad")},
        {"draft": 1},
        {},
    ),
    "labelbox.ndjson": (
        "labelbox",
        {
            *(("ann@lab.org", "a.txt", "Happy"), ("ben@lab.org", "a.txt", "Sad")),
            *(("ben@lab.org", "b.txt", "Sad"), ("ann@lab.org", "c.txt", "Sad")),
        },
        {"skipped": 1, "benchmark": 1, "not annotated": 1},
        {"c.txt": "Happy"},
    ),
    "sagemaker.json": (
        "sagemaker",
        {
            ("private.eu.w1", "0", "cat"),
            ("private.eu.w2", "0", "dog"),
            ("private.eu.w1", "1", "dog"),
        },
        {},
        {},
    ),
    "zooniverse.csv": (
        "zooniverse",
        {("ann", "901", "Yes"), ("not-logged-in-4f2a", "901", "No"), ("ann", "902", "No")},
        {"empty": 1, "gold standard": 1},
        {"902": "No"},
    ),
    "potato.jsonl": (
        "potato",
        {("ann", "i1", "happy"), ("ben", "i1", "sad")},
        {"not annotated": 1},
        {},
    ),
    "google_forms.csv": (
        "google-forms",
        {
            *((f"{who}@lab.org", f"{_ASKED}: what a day", said) for who, said in _FIRST),
            ("ann@lab.org", f"{_ASKED}: rain again", "sad"),
            ("ben@lab.org", f"{_ASKED}: rain again", "sad"),
            ("cy@lab.org", f"{_ASKED}: rain again", "happy"),
            ("ann@lab.org", f"{_ASKED}: sun at last", "happy"),
            ("cy@lab.org", f"{_ASKED}: sun at last", "happy"),
        },
        {},
        {},
    ),
    "crowdkit.csv": (
        "long",
        {("w1", "t1", "cat"), ("w2", "t1", "dog"), ("w1", "t2", "dog")},
        {},
        {},
    ),
}

REFUSED = {
    "potato.tsv": "a table, and not Potato, JSON lines; export that",
    "argilla_classic.jsonl": "no worker column among",
    "doccano.jsonl": "no worker is named.*--worker-from",
    "scale.json": "no worker and label column",
    "cvat.json": "no worker column among",
    "cvat.xml": "XML",
    "coco.json": "no worker, item and label column",
    "conll.txt": "nobody knows which is what",
}


@pytest.mark.parametrize("name", RIGHT)
def test_the_right_reading(name: str) -> None:
    reader, answers, aside, gold = RIGHT[name]
    seen = look(name)
    question = next(iter(seen.answers))
    assert seen.reader == reader
    assert set(seen.answers[question]) == answers
    assert len(seen.answers[question]) == len(answers)
    assert seen.aside == aside
    assert seen.gold.get(question, {}) == gold


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_the_reason(name: str) -> None:
    with pytest.raises(InputError, match=REFUSED[name]) as caught:
        look(name)
    assert "\n" not in str(caught.value)


def test_every_sample_is_tested() -> None:
    others = {"label_studio_questions.json", "label_studio_min.json"}
    others.add("sagemaker_output.manifest.jsonl")
    assert {path.name for path in SAMPLES.iterdir()} == set(RIGHT) | set(REFUSED) | others


def test_several_questions_are_listed_and_one_is_picked() -> None:
    name = "label_studio_questions.json"
    seen = look(name)
    assert seen.kinds == {"mood": "choice", "topics": "choices", "stars": "number", "why": "text"}
    assert seen.answers["topics"][2] == ("2", "1", ["price", "service"])
    path = str(SAMPLES / name)
    with pytest.raises(InputError, match=r"(?s)'mood'.*'topics'.*'stars'.*--question"):
        read_answer_columns([path])
    picked: Any = read_answer_columns([path], ReadOptions(question="stars"))
    assert picked.answers.label.to_pylist() == ["4", "2", "1", "1"]


def test_several_choices_in_json_min() -> None:
    seen = look("label_studio_min.json")
    assert seen.answers == {"tags": [("3", "11", ["dry", "warm"]), ("4", "11", ["warm"])]}
    assert seen.aside == {"empty": 1}
