"""Three answers as text, read from a file."""

from __future__ import annotations

from pathlib import Path

from misc_cli.readers.answer_table import AnswerTable
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.read import read_answer_columns

ROWS = [("w1", "i1", "cat"), ("w2", "i1", "dog"), ("w1", "i2", "cat")]
PLAIN = "worker,item,label\nw1,i1,cat\nw2,i1,dog\nw1,i2,cat\n"


def rows_of(result: AnswerTable) -> list[tuple[str, str, str]]:
    answers = result.answers
    columns = (answers.worker, answers.item, answers.label)
    return list(zip(*(column.to_pylist() for column in columns), strict=True))


def read_text(folder: Path, text: str | bytes, name: str = "a.csv", **options: str) -> AnswerTable:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_answer_columns([str(path)], ReadOptions(**options))  # type: ignore[arg-type]
