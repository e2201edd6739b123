"""Answers and known labels from files: the reading end of every command.

    open (source.py) → what format is it → table.py or formats.py → three dictionary columns

A file is read by pyarrow on all cores, only the three columns that matter, while its SHA-256 is
taken on another thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from misc_cli.core.types import Answers, KnownLabels
from misc_cli.errors import ConfigError, InputError
from misc_cli.io.columns import ROLES, SYNONYMS, Parsed, is_position, truth_synonyms
from misc_cli.io.formats import FORMATS, detect, read_records
from misc_cli.io.sniff import delimiter_of
from misc_cli.io.source import Source, open_source
from misc_cli.io.table import read_table

FIRST_BYTES = 1 << 16


@dataclass(frozen=True)
class ReadOptions:
    """How to read; None means: find out.

    A column is a name or a position (from 1); `delimiter` is a character or one of the names
    comma, tab, semicolon, pipe, space.
    """

    worker_col: str | None = None
    item_col: str | None = None
    label_col: str | None = None
    delimiter: str | None = None
    header: bool | None = None
    encoding: str | None = None
    format: str | None = None

    def __post_init__(self) -> None:
        if self.format is not None and self.format not in FORMATS:
            raise ConfigError(f"--format {self.format}: choose from {', '.join(FORMATS)}")
        delimiter_of(self.delimiter)
        named = [name for name in self.columns.values() if name and not is_position(name)]
        if self.header is False and named:
            raise ConfigError(f"--no-header leaves no column called {named[0]!r}; give a position")

    @property
    def columns(self) -> dict[str, str | None]:
        return {"worker": self.worker_col, "item": self.item_col, "label": self.label_col}


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
        parsed, info = _read(open_source(path, options.encoding), options, SYNONYMS)
        parts.append(parsed.columns)
        files.append(info)
    worker, item, label = (_joined([part[role] for part in parts]) for role in ROLES)
    names = ", ".join(file.name for file in files)
    return ReadResult(Answers(worker, item, label, names), files)


def read_known(source: str, answers: ReadOptions | None = None) -> Known:
    """Known labels (--truth, --gold), read on their own terms.

    Of the options for the answers beside them the encoding counts here too, and the delimiter and
    the names of columns if the first row has them.
    """
    answers = answers or ReadOptions()
    delimiter = delimiter_of(answers.delimiter)
    opened = open_source(source, answers.encoding)
    start = bytes(memoryview(opened.content)[:FIRST_BYTES]).partition(b"\n")[0]
    own = ReadOptions(delimiter=delimiter if delimiter and delimiter.encode() in start else None)
    parsed, info = _read(opened, own, truth_synonyms(answers.item_col, answers.label_col))
    labels = KnownLabels(parsed.columns["item"], parsed.columns["label"], opened.name)
    return Known(labels, info)


def _read(
    source: Source, options: ReadOptions, synonyms: dict[str, list[set[str]]]
) -> tuple[Parsed, FileInfo]:
    with ThreadPoolExecutor(1) as pool:
        digest = pool.submit(source.sha256)
        format_name = options.format or detect(source)
        given = {role: options.columns[role] for role in synonyms}
        parsed = _parse(source, format_name, options, given, synonyms)
        if not parsed.n_rows:
            raise InputError(f"{source.name}: a header and no rows; give a file with answers in it")
        info = FileInfo(
            name=source.name,
            sha256=digest.result(),
            n_rows=parsed.n_rows,
            format=format_name,
            delimiter=parsed.delimiter,
            header=parsed.header,
            columns={role: str(column) for role, column in parsed.chosen.items()},
        )
    return parsed, info


def _parse(
    source: Source,
    format_name: str,
    options: ReadOptions,
    given: dict[str, str | None],
    synonyms: dict[str, list[set[str]]],
) -> Parsed:
    if format_name in ("csv", "tsv"):
        delimiter = options.delimiter or ("tab" if options.format == "tsv" else None)
        return read_table(source, given, synonyms, delimiter, options.header)
    return read_records(source, format_name, given, synonyms)


def _joined(parts: list[Any]) -> Any:
    if len(parts) == 1:
        return parts[0]
    return pa.chunked_array(parts).unify_dictionaries().combine_chunks()
