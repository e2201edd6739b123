"""Answers and known labels from files: the reading end of every command.

    bytes (source.py) → document (open.py: columns or JSON objects) → whose is it (readers/, else
    shapes.py) → questions (questions.py) → three dictionary columns

A table is read by pyarrow on all cores, only the columns that matter, while its SHA-256 is taken on
another thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from misc_cli.core.types import Answers, KnownLabels
from misc_cli.errors import ConfigError, InputError
from misc_cli.io.columns import ROLES, truth_synonyms
from misc_cli.io.document import Document
from misc_cli.io.formats import detect, read_records
from misc_cli.io.open import DELIMITED, open_document
from misc_cli.io.options import ReadOptions as ReadOptions
from misc_cli.io.questions import pick
from misc_cli.io.readers import load, recognise
from misc_cli.io.readers.base import CERTAIN, Match, Question, Reader, Reading
from misc_cli.io.shapes import read_shape
from misc_cli.io.sniff import delimiter_of
from misc_cli.io.source import Source, open_source
from misc_cli.io.table import read_table

FIRST_BYTES = 1 << 16


@dataclass(frozen=True)
class FileInfo:
    """How one file was read: what a run's manifest records."""

    name: str
    sha256: str
    n_rows: int
    format: str
    delimiter: str | None
    header: bool | None
    columns: dict[str, str] = field(default_factory=dict)
    reader: str | None = None
    question: str | None = None
    set_aside: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class ReadResult:
    answers: Answers
    files: list[FileInfo]


@dataclass(frozen=True)
class Known:
    """Known labels, dictionary-encoded, and the file they are from."""

    labels: KnownLabels
    file: FileInfo


def read_answer_columns(sources: Sequence[str], options: ReadOptions | None = None) -> ReadResult:
    """The answers of all files as one, in the order given; `-` is standard input.

    Each file is read on its own terms: delimiter, header and columns may differ between files.
    """
    options = options or ReadOptions()
    if not sources:
        raise ConfigError("no input; name a file of answers, or - for standard input")
    if list(sources).count("-") > 1:
        raise ConfigError("standard input (-) can be read only once")
    parts, files = [], []
    for path in sources:
        question, info = _read_answers(open_source(path, options.encoding, options.access), options)
        parts.append({"worker": question.worker, "item": question.item, "label": question.label})
        files.append(info)
    worker, item, label = (_joined([part[role] for part in parts]) for role in ROLES)
    names = ", ".join(file.name for file in files)
    return ReadResult(Answers(worker, item, label, names), files)


def _read_answers(source: Source, options: ReadOptions) -> tuple[Question, FileInfo]:
    with ThreadPoolExecutor(1) as pool:
        digest = pool.submit(source.sha256)
        try:
            document = open_document(source, options)
            reader, _, reading = read_document(document, options)
            question = pick(source.name, reading, options)
        except RecursionError:
            raise InputError(
                f"{source.name}: objects within objects, too deep to read; give a flat export"
            ) from None
        if not len(question):
            raise InputError(f"{source.name}: a header and no rows; give a file with answers in it")
        tabular = document.records is None
        info = FileInfo(
            name=source.name,
            sha256=digest.result(),
            n_rows=len(question),
            format=document.format,
            delimiter=document.table.delimiter if tabular else None,
            header=document.table.header if tabular else None,
            columns=dict(question.columns),
            reader=reader.name,
            question=question.name,
            set_aside={reason: len(rows) for reason, rows in reading.aside.items()},
        )
    return question, info


def read_document(document: Document, options: ReadOptions) -> tuple[Reader, Match, Reading]:
    """Whose file it is, how that was told, and what is in it."""
    if options.reader is not None:
        reader, match = load(options.reader), Match(CERTAIN, f"--format {options.reader}")
    else:
        found = recognise(document)
        if found is None:
            return read_shape(document, options)
        reader, match = found
    return reader, match, reader.read(document, options)


def read_known(source: str, answers: ReadOptions | None = None) -> Known:
    """Known labels (--truth, --gold), read on their own terms.

    Of the options for the answers beside them the encoding counts here too, and the delimiter and
    the names of columns if the first row has them.
    """
    answers = answers or ReadOptions()
    delimiter = delimiter_of(answers.delimiter)
    opened = open_source(source, answers.encoding, answers.access)
    start = bytes(memoryview(opened.content)[:FIRST_BYTES]).partition(b"\n")[0]
    own = delimiter if delimiter and delimiter.encode() in start else None
    format_name = detect(opened)
    synonyms = truth_synonyms(answers.item_col, answers.label_col)
    given: dict[str, str | None] = dict.fromkeys(synonyms)
    with ThreadPoolExecutor(1) as pool:
        digest = pool.submit(opened.sha256)
        if format_name in DELIMITED:
            parsed = read_table(opened, given, synonyms, own)
        else:
            parsed = read_records(opened, format_name, given, synonyms)
        if not parsed.n_rows:
            raise InputError(f"{opened.name}: a header and no rows; give a file with labels in it")
        info = FileInfo(
            name=opened.name,
            sha256=digest.result(),
            n_rows=parsed.n_rows,
            format=format_name,
            delimiter=parsed.delimiter,
            header=parsed.header,
            columns={role: str(column) for role, column in parsed.chosen.items()},
        )
    labels = KnownLabels(parsed.columns["item"], parsed.columns["label"], opened.name)
    return Known(labels, info)


def _joined(parts: list[Any]) -> Any:
    if len(parts) == 1:
        return parts[0]
    return pa.chunked_array(parts).unify_dictionaries().combine_chunks()
