"""What a file is read as, in a form that a test can compare."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from misc_cli.readers.options import ReadOptions
from misc_cli.readers.read import opened_document, read_document
from misc_cli.readers.reading import Question
from misc_cli.readers.source import open_source

SAMPLES = Path(__file__).resolve().parent.parent / "samples"

Triplet = tuple[str, str, Any]


@dataclass(frozen=True)
class Look:
    """Who read it, and per question its answers (sorted), its kind and its gold."""

    reader: str
    answers: dict[str, list[Triplet]]
    kinds: dict[str, str]
    gold: dict[str, dict[str, Any]]
    aside: dict[str, int]
    has_workers: bool


def look(path: str | Path, **options: Any) -> Look:
    """A sample by its name, or any file by its path."""
    path = SAMPLES / path
    chosen = ReadOptions(**options)
    document = opened_document(open_source(str(path)), chosen)
    reading = read_document(document, chosen)
    questions = {question.name: question for question in reading.questions}
    return Look(
        reading.reader,
        {name: triplets(question) for name, question in questions.items()},
        {name: question.kind for name, question in questions.items()},
        {
            name: dict(zip(*(c.to_pylist() for c in question.gold), strict=True))
            for name, question in questions.items()
            if question.gold is not None
        },
        {reason: len(rows) for reason, rows in reading.aside.items()},
        reading.has_workers,
    )


def triplets(question: Question) -> list[Triplet]:
    columns = (question.worker, question.item, question.label)
    return sorted(zip(*(column.to_pylist() for column in columns), strict=True))


def written(folder: Path, content: Any, name: str = "export.json") -> Path:
    """A file of this content: JSON lines if the name says so, text as it is."""
    path = folder / name
    if isinstance(content, str):
        path.write_text(content)
    elif name.endswith("jsonl"):
        path.write_text("".join(json.dumps(one) + "\n" for one in content))
    else:
        path.write_text(json.dumps(content))
    return path
