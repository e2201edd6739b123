"""Label Studio as it really comes: versions, storages, kinds of questions, regions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from misc_cli.errors import InputError
from misc_cli.readers.read import read_answer_columns
from tests.readers.platforms.look import look, written


def result(name: str, value: Any, kind: str = "choices", **more: Any) -> dict[str, Any]:
    return {"from_name": name, "to_name": "t", "type": kind, "value": value, **more}


def task(key: int, *annotations: dict[str, Any]) -> dict[str, Any]:
    return {"id": key, "data": {"text": "x"}, "annotations": list(annotations)}


def by(who: Any, *results: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"completed_by": who, "result": list(results), **more}


def test_label_studio_taxonomy_is_a_path(tmp_path: Path) -> None:
    cat = result("t", {"taxonomy": [["Animal", "Cat"]]}, "taxonomy")
    both = result("t", {"taxonomy": [["Animal", "Cat"], ["Plant"]]}, "taxonomy")
    assert look(written(tmp_path, [task(1, by(1, cat))])).answers == {
        "t": [("1", "1", "Animal/Cat")]
    }
    seen = look(written(tmp_path, [task(1, by(1, cat), by(2, both))]))
    assert seen.answers["t"][1] == ("2", "1", ["Animal/Cat", "Plant"])


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ({"x": 1, "y": 2, "width": 3, "height": 4, "rectanglelabels": ["cat"]}, "regions"),
        ({"x": 1, "y": 2, "width": 3, "height": 4, "choices": ["cat"]}, "regions"),
        ({"start": 1, "end": 4, "labels": ["PER"]}, "regions"),
        ({"text": ["a remark"]}, "text"),
        ({"rating": 4}, "number"),
        ({"number": 4}, "number"),
        ({"selected": "left"}, "choice"),
        ({"ranker": {"a": ["b"]}}, "other"),
        ({"datetime": "2026-01-01"}, "dates"),
    ],
)
def test_label_studio_kinds(tmp_path: Path, value: dict[str, Any], kind: str) -> None:
    path = written(tmp_path, [task(1, by(1, result("q", value, "any")))])
    assert look(path).kinds == {"q": kind}
    if kind not in ("number", "choice"):
        with pytest.raises(InputError, match="no classes"):
            read_answer_columns([str(path)])


def test_a_label_studio_region_with_classes_is_never_a_class(tmp_path: Path) -> None:
    """The same question about the whole once and about a box once."""
    box = {"x": 1, "y": 2, "width": 3, "height": 4, "choices": ["cat"]}
    whole, part = result("q", {"choices": ["cat"]}), result("q", box)
    path = written(tmp_path, [task(1, by(1, whole), by(2, part)), task(2, by(1, whole))])
    assert look(path).kinds == {"q": "regions"}
    path = written(tmp_path, [task(1, by(1, whole, result("q", {"choices": ["dog"]})))])
    assert look(path).kinds == {"q": "other"}


def test_label_studio_of_a_storage(tmp_path: Path) -> None:
    one = {**by({"id": 7}, result("q", {"choices": ["a"]})), "id": 5, "task": task(1)}
    assert look(written(tmp_path, one)).answers == {"q": [("7", "1", "a")]}


def test_label_studio_without_annotators_has_only_votes(tmp_path: Path) -> None:
    a, b = (by(None, result("q", {"choices": [label]})) for label in "ab")
    seen = look(written(tmp_path, [task(1, a, b, a)]))
    assert not seen.has_workers
    assert sorted(label for _, _, label in seen.answers["q"]) == ["a", "a", "b"]
    named = by(3, result("q", {"choices": ["a"]}))
    assert look(written(tmp_path, [task(1, a, named)])).aside == {"without a worker": 1}


@pytest.mark.parametrize("order", ["plain", "sorted"])
def test_label_studio_csv_with_data_that_looks_like_answers(tmp_path: Path, order: str) -> None:
    rows = [
        {"lang": "en", "text": "x", "id": 1, "mood": "a", "annotator": 1, "annotation_id": 5},
        {"lang": "en", "text": "x", "id": 1, "mood": "b", "annotator": 2, "annotation_id": 6},
        {"lang": "de", "text": "y", "id": 2, "mood": "b", "annotator": 1, "annotation_id": 7},
    ]
    names = list(rows[0]) if order == "plain" else sorted(rows[0])
    lines = [names, *([str(row[name]) for name in names] for row in rows)]
    path = written(tmp_path, "\n".join(map(",".join, lines)) + "\n", "a.csv")
    assert look(path).answers == {"mood": [("1", "1", "a"), ("1", "2", "b"), ("2", "1", "b")]}


def test_label_studio_csv_whose_data_stands_after_the_id(tmp_path: Path) -> None:
    text = (
        "id,text,mood,annotator,annotation_id,lead_time\n"
        "1,some text,a,ann,5,1.5\n1,some text,b,ben,6,1.5\n2,more text,b,ann,7,1.5\n"
    )
    assert set(look(written(tmp_path, text, "a.csv")).answers) == {"mood"}


@pytest.mark.parametrize("order", [["id", "text", "mood", "annotator", "annotation_id"], None])
def test_json_min_with_its_keys_in_another_order(tmp_path: Path, order: list[str] | None) -> None:
    rows = [
        {"id": 1, "text": "x y", "mood": "a", "annotator": 1, "annotation_id": 5},
        {"id": 1, "text": "x y", "mood": "b", "annotator": 2, "annotation_id": 6},
        {"id": 2, "text": "z", "mood": "b", "annotator": 1, "annotation_id": 7},
    ]
    records = [{key: row[key] for key in order or sorted(row)} for row in rows]
    seen = look(written(tmp_path, records))
    assert seen.answers == {"mood": [("1", "1", "a"), ("1", "2", "b"), ("2", "1", "b")]}
