"""LightTag, JSON: examples with what annotators said of them.

https://guide.lighttag.io/understand/primitives/example/ and https://guide.lighttag.io/api/api/: an
example has `classifications` of the whole (classname) and `annotations` of parts of it (tag, start,
end); `annotated_by` lists who said so, `seen_by` who saw it.
"""

from __future__ import annotations

from misc_cli.errors import InputError
from misc_cli.readers.document import Document, Record, text
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.platforms.base import CERTAIN, SPANS, Match, Reader, Reading
from misc_cli.readers.platforms.common import Answers, objects, objects_at

LOOKED_AT = 20
_IDS = ("example_id", "id", "exampleId")
_CLASSES = ("classname", "class_name", "classification", "name", "label")


def detect(document: Document) -> Match | None:
    for example in _examples(document)[:LOOKED_AT]:
        if "content" not in example and "seen_by" not in example:
            continue
        marks = [*objects(example.get("annotations")), *objects(example.get("classifications"))]
        if "seen_by" in example or any("annotated_by" in mark for mark in marks):
            return Match(CERTAIN, "examples with annotated_by")
    return None


def read(document: Document, options: ReadOptions) -> Reading:
    found = Answers(document.name)
    for row, example in enumerate(_examples(document)):
        item = next((text(example[key]) for key in _IDS if example.get(key) is not None), "")
        if not item:
            raise InputError(f"{document.name}, example {row + 1}: no example_id")
        said: dict[str, list[str]] = {}
        classes = objects_at(document, row, example.get("classifications"), "classifications")
        for one in classes:
            label = next((text(one[key]) for key in _CLASSES if one.get(key)), "")
            for who in _who(document, row, one):
                said.setdefault(who, []).append(label)
        for who, labels in said.items():
            columns = {
                "worker": "annotated_by.annotator",
                "item": "example_id",
                "label": "classifications.classname",
            }
            found.said("classification", who, item, labels, row, columns)
        tagged = objects_at(document, row, example.get("annotations"), "annotations")
        for who in dict.fromkeys(who for one in tagged for who in _who(document, row, one)):
            found.answer("annotations", who, item, text(tagged), row, SPANS)
        if not said and not tagged:
            found.aside("not annotated", row)
    return found.reading()


def _who(document: Document, row: int, mark: Record) -> list[str]:
    people = objects_at(document, row, mark.get("annotated_by"), "annotated_by")
    names = (one.get("annotator") or one.get("annotator_id") or one.get("email") for one in people)
    return [text(name) for name in names if name]


def _examples(document: Document) -> list[Record]:
    records = document.records or []
    if len(records) == 1 and isinstance(records[0].get("examples"), list):
        return objects(records[0]["examples"])
    return records


READER = Reader(
    name="lighttag",
    title="LightTag, JSON",
    explain="worker is annotated_by.annotator, item example_id, the label a classification's name",
    detect=detect,
    read=read,
    page="https://guide.lighttag.io/understand/primitives/example/",
)
