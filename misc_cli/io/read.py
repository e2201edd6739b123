"""Answers and known labels from files: the reading end of every command.

    bytes (source.py) → document (open.py: columns or JSON objects) → whose is it (readers/, else
    shapes.py) → questions (questions.py) → filters (filters.py) → the gate (gate.py)
    → three dictionary columns

A table is read by pyarrow on all cores, only the columns that matter, while its SHA-256 is taken on
another thread.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from misc_cli.core.types import Answers, KnownLabels
from misc_cli.errors import ConfigError, EmptyFile, InputError, MiscWarning
from misc_cli.io import gate
from misc_cli.io.columns import ROLES, truth_synonyms
from misc_cli.io.document import Document
from misc_cli.io.expand import expand
from misc_cli.io.filters import kept_rows, renamed, times, unanswered
from misc_cli.io.formats import detect, read_records
from misc_cli.io.open import DELIMITED, open_document
from misc_cli.io.options import ReadOptions as ReadOptions
from misc_cli.io.plain import without_workers
from misc_cli.io.questions import pick, take
from misc_cli.io.readers import load, recognise
from misc_cli.io.readers.base import CERTAIN, Match, Question, Reader, Reading
from misc_cli.io.shapes import read_shape
from misc_cli.io.sniff import delimiter_of
from misc_cli.io.source import Source, open_source
from misc_cli.io.table import read_table

FIRST_BYTES = 1 << 16
NO_ANSWER = "no answer"


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
class Rejects:
    """Rows of one file that were set aside for one reason; `line` gives a row's line."""

    file: str
    reason: str
    rows: Any
    line: Callable[[int], int]


@dataclass(frozen=True)
class ReadResult:
    """The answers to one question, from all files.

    gold       what the files themselves say is right; None if they say nothing
    anonymous  nobody knows who answered: a majority vote is all that can be had
    times      when each answer was given, seconds since 1970 (NaN: not told), if that was asked
    """

    answers: Answers
    files: list[FileInfo]
    question: str = ""
    gold: KnownLabels | None = None
    anonymous: bool = False
    rejects: list[Rejects] = field(default_factory=list, repr=False)
    times: Any = None

    @property
    def set_aside(self) -> dict[str, int]:
        """Reason → how many rows, over all files."""
        total: Counter[str] = Counter()
        for file in self.files:
            total.update(file.set_aside)
        return dict(total)


@dataclass(frozen=True)
class Known:
    """Known labels, dictionary-encoded, and the file they are from."""

    labels: KnownLabels
    file: FileInfo


@dataclass(frozen=True)
class Opened:
    """One file, read but not yet reduced to a question; `view` is what rows are counted in."""

    document: Document
    view: Document
    reader: Reader
    match: Match
    reading: Reading
    sha256: str


# A question of one file, how that was read, what was set aside, who answered, and when.
Part = tuple[Question, FileInfo, list[Rejects], bool, Any]


def read_answer_columns(
    sources: Sequence[str], options: ReadOptions | None = None, *, with_times: bool = False
) -> ReadResult:
    """The answers of all files as one, in the order given; `-` is standard input.

    Each file is read on its own terms: delimiter, header and columns may differ between files.
    """
    (result,) = read_questions(sources, options, with_times=with_times)
    return result


def read_questions(
    sources: Sequence[str],
    options: ReadOptions | None = None,
    *,
    each: bool = False,
    with_times: bool = False,
) -> list[ReadResult]:
    """The same for every question if `each`, else for the one there is; sorted by name."""
    options = options or ReadOptions()
    parts: dict[str, list[Part]] = {}
    for opened in open_answers(sources, options):
        name = opened.document.name
        for question in pick(name, opened.view, opened.reading, options, each=each):
            key = question.name if each else ""
            cleaned, aside = _cleaned(opened, question, options)
            odd = gate.oddities(cleaned, options, opened.view)
            gate.refuse(name, odd, options)
            info = _info(opened, cleaned, aside)
            rejects = [
                Rejects(name, why, rows, opened.view.table.line) for why, rows in aside.items()
            ]
            told = _times(opened.view, cleaned, options) if with_times else None
            part = (cleaned, info, rejects, opened.reading.has_workers, told)
            parts.setdefault(key, []).append(part)
    return [_result(name, files) for name, files in sorted(parts.items())]


def open_answers(sources: Sequence[str], options: ReadOptions) -> Iterator[Opened]:
    """Every file, opened and read whole, before any question is chosen."""
    if not sources:
        raise ConfigError("no input; name a file of answers, or - for standard input")
    if list(sources).count("-") > 1:
        raise ConfigError("standard input (-) can be read only once")
    n_opened = 0
    for path in expand(sources):
        try:
            opened = open_answer_file(open_source(path, options.encoding, options.access), options)
        except EmptyFile:
            if not options.skip_empty_files:
                raise
            warnings.warn(f"{path}: empty, so it is left out", MiscWarning, stacklevel=2)
            continue
        n_opened += 1
        for note in opened.reading.notes:
            warnings.warn(note, MiscWarning, stacklevel=2)
        yield opened
    if not n_opened:
        raise InputError("every file is empty; give a file with answers in it")


def open_answer_file(source: Source, options: ReadOptions) -> Opened:
    with ThreadPoolExecutor(1) as pool:
        digest = pool.submit(source.sha256)
        try:
            document = open_document(source, options)
            reader, match, reading = read_document(document, options)
        except RecursionError:
            raise InputError(
                f"{source.name}: objects within objects, too deep to read; give a flat export"
            ) from None
        view = reading.view or document
        return Opened(document, view, reader, match, reading, digest.result())


def read_document(document: Document, options: ReadOptions) -> tuple[Reader, Match, Reading]:
    """Whose file it is, how that was told, and what is in it."""
    if options.reader is not None:
        reader, match = load(options.reader), Match(CERTAIN, f"--format {options.reader}")
    else:
        found = None if options.is_shape_given else recognise(document)
        if found is None:
            return read_shape(document, options)
        reader, match = found
    reading = reader.read(document, options)
    if not reading.has_workers or options.worker_from is not None:
        reading = without_workers(document, options, reading)
    return reader, match, reading


def _cleaned(
    opened: Opened, question: Question, options: ReadOptions
) -> tuple[Question, dict[str, Any]]:
    """The question without the rows that filters take out, labels renamed; reason → rows."""
    aside: dict[str, Any] = dict(opened.reading.aside)
    for reason, out in kept_rows(opened.view, options).items():
        rows = question.rows if question.rows is not None else np.arange(len(question))
        left = out[rows]
        if left.any():
            aside[reason] = rows[left]
            question = take(question, np.flatnonzero(~left))
    question = replace(question, label=renamed(question.label, options))
    blank = unanswered(question.label, options)
    if blank is not None:
        rows = question.rows if question.rows is not None else np.arange(len(question))
        before = aside.get(NO_ANSWER, np.array([], dtype=np.int64))
        aside[NO_ANSWER] = np.concatenate([np.asarray(before), rows[blank]])
        question = take(question, np.flatnonzero(~blank))
    if not len(question):
        told = ", ".join(f"{len(rows):,} {reason}" for reason, rows in aside.items())
        what = f"no answers are left ({told} set aside)" if told else "a header and no rows"
        raise EmptyFile(f"{opened.document.name}: {what}; give a file with answers in it")
    return question, aside


def _info(opened: Opened, question: Question, aside: dict[str, Any]) -> FileInfo:
    tabular = opened.document.records is None
    return FileInfo(
        name=opened.document.name,
        sha256=opened.sha256,
        n_rows=len(question),
        format=opened.document.format,
        delimiter=opened.document.table.delimiter if tabular else None,
        header=opened.document.table.header if tabular else None,
        columns=dict(question.columns),
        reader=opened.reader.name,
        question=question.name,
        set_aside={reason: len(rows) for reason, rows in aside.items() if len(rows)},
    )


def _times(view: Document, question: Question, options: ReadOptions) -> Any:
    """When each of these answers was given; NaN throughout where no column says so."""
    told = times(view, options)
    if told is None:
        return np.full(len(question), np.nan)
    return told if question.rows is None else told[question.rows]


def _result(name: str, parts: list[Part]) -> ReadResult:
    questions = [part[0] for part in parts]
    files = [part[1] for part in parts]
    worker, item, label = (_joined([getattr(one, role) for one in questions]) for role in ROLES)
    names = ", ".join(file.name for file in files)
    gold = [one.gold for one in questions if one.gold is not None]
    known = None
    if gold:
        items, labels = (_joined([one[at] for one in gold]) for at in (0, 1))
        known = KnownLabels(items, labels, f"{names}, the gold it carries")
    anonymous = not all(part[3] for part in parts)
    return ReadResult(
        Answers(worker, item, label, names),
        files,
        name or questions[0].name,
        known,
        anonymous,
        [one for part in parts for one in part[2]],
        None if parts[0][4] is None else np.concatenate([part[4] for part in parts]),
    )


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
