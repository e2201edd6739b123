"""The same few answers for the tests of shapes, questions and filters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from misc_cli.readers.answer_table import AnswerTable
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.read import read_answer_columns

ANSWERS = {
    ("ann1", "doc1"): "pos",
    ("ann2", "doc1"): "pos",
    ("ann3", "doc1"): "neg",
    ("ann1", "doc2"): "neg",
    ("ann2", "doc2"): "pos",
    ("ann3", "doc2"): "neg",
}


WORKERS, ITEMS = ("ann1", "ann2", "ann3"), ("doc1", "doc2")


def triplets(result: AnswerTable) -> dict[tuple[str, str], str]:
    answers = result.answers
    columns = [c.to_pylist() for c in (answers.worker, answers.item, answers.label)]
    found = list(zip(*columns, strict=True))
    assert len({(worker, item) for worker, item, _ in found}) == len(found)
    return {(worker, item): label for worker, item, label in found}


def read(folder: Path, content: str | bytes, name: str = "a.csv", **options: Any) -> AnswerTable:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_answer_columns([str(path)], ReadOptions(**options))


def table(header: str, rows: list[str]) -> str:
    return "\n".join([header, *rows, ""])
