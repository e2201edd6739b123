"""Answers from files: the reading end of every command.

    bytes (source.py) → document (open.py: columns or JSON objects) → whose is it (readers/, else
    shapes.py) → questions (questions.py) → filters (filters.py) → the gate (gate.py)
    → three dictionary columns (results.py)

A table is read by pyarrow on all cores, only the columns that matter, while its SHA-256 is taken on
another thread.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from misc_cli.errors import ConfigError, EmptyFile, InputError, MiscWarning
from misc_cli.readers import checks, spelling
from misc_cli.readers.anonymous_workers import without_workers
from misc_cli.readers.answer_order import newest_last
from misc_cli.readers.answer_table import FileInfo, Part, ReadResult, Rejects, result_of
from misc_cli.readers.document import Document
from misc_cli.readers.expand import expand
from misc_cli.readers.formats import detect, open_records
from misc_cli.readers.layouts.shapes import read_shape
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.platforms import load, recognise
from misc_cli.readers.platforms.base import CERTAIN, Match, Question, Reader, Reading, take
from misc_cli.readers.questions import pick
from misc_cli.readers.row_filters import filtered_out, renamed, times, unanswered
from misc_cli.readers.source import Source, check_stdin_once, open_source
from misc_cli.readers.table import open_table
from misc_cli.readers.vocabulary import SYNONYMS

DELIMITED = ("csv", "tsv")


def open_document(source: Source, options: ReadOptions) -> Document:
    """A file of answers, opened; nothing but its first rows is parsed if it is a table."""
    format_name = options.file_format or detect(source)
    if format_name not in DELIMITED:
        return open_records(source, format_name)
    delimiter = options.delimiter or ("tab" if options.format == "tsv" else None)
    table = open_table(source, options.columns, SYNONYMS, delimiter, options.header)
    return Document(source.name, format_name, lambda: table)


NO_ANSWER = "no answer"


@dataclass(frozen=True)
class Opened:
    """One file, read but not yet reduced to a question; `view` is what rows are counted in."""

    document: Document
    view: Document
    reader: Reader
    match: Match
    reading: Reading
    sha256: str


def read_answer_columns(
    sources: Sequence[str],
    options: ReadOptions | None = None,
    *,
    with_times: bool = False,
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
    for path in files_of(sources):
        try:
            found = _read_file(path, options, each, with_times)
        except EmptyFile as error:
            if not options.skip_empty_files:
                raise
            warnings.warn(f"{str(error).partition(';')[0]}: left out", MiscWarning, stacklevel=2)
            continue
        for part in found:
            parts.setdefault(part.question.name if each else "", []).append(part)
    if not parts:
        raise InputError("every file is empty; give a file with answers in it")
    results = [result_of(name, files) for name, files in sorted(parts.items())]
    for result in results:
        where = f"question {result.question}" if len(results) > 1 else result.answers.name
        for told in spelling.doubts(result.answers.label):
            warnings.warn(f"{where}: {told}", MiscWarning, stacklevel=2)
    return results


def files_of(sources: Sequence[str]) -> list[str]:
    """Every file that is meant; `-` is standard input."""
    if not sources:
        raise ConfigError("no input; name a file of answers, or - for standard input")
    check_stdin_once(sources)
    return expand(sources)


def _read_file(path: str, options: ReadOptions, each: bool, with_times: bool) -> list[Part]:
    opened = open_answers(open_source(path, options.encoding, options.access), options)
    for note in opened.reading.notes:
        warnings.warn(note, MiscWarning, stacklevel=2)
    name = opened.document.name
    found = []
    for question in pick(name, opened.view, opened.reading, options, each=each):
        cleaned, aside = clean(opened, question, options)
        checks.refuse(name, checks.oddities(cleaned, options, opened.view), options)
        cleaned = newest_last(cleaned, opened.view)
        told = _times(opened.view, cleaned, options) if with_times else None
        found.append(part_of(opened, cleaned, aside, told))
    return found


def open_answers(source: Source, options: ReadOptions) -> Opened:
    """A file, read whole, before any question is chosen."""
    with ThreadPoolExecutor(1) as pool:
        digest = pool.submit(source.sha256)
        try:
            document = open_document(source, options)
            reader, match, reading = read_document(document, options)
        except RecursionError:
            raise InputError(
                f"{source.name}: objects within objects, too deep to read; give a flat export"
            ) from None
        except UnicodeEncodeError:  # JSON within a cell
            raise InputError(
                f"{source.name}: half a character (\\ud800 to \\udfff) that stands for none; "
                "export it again"
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


def clean(
    opened: Opened, question: Question, options: ReadOptions
) -> tuple[Question, dict[str, Any]]:
    """The question without the rows that filters take out, labels renamed; reason → rows."""
    aside: dict[str, Any] = dict(opened.reading.aside)
    if options.has_filters:
        rows = rows_of(question)
        left = np.zeros(len(rows), dtype=bool)
        for reason, out in filtered_out(opened.view, rows, options).items():
            if (out & ~left).any():
                aside[reason] = rows[out & ~left]
                left |= out
        question = take(question, np.flatnonzero(~left)) if left.any() else question
    question = replace(question, label=renamed(question.label, options))
    blank = unanswered(question.label, options)
    if blank is None and options.no_answer is None:
        blank = spelling.nothing(question.label)
    if blank is not None:
        rows = rows_of(question)
        before = aside.get(NO_ANSWER, np.array([], dtype=np.int64))
        aside[NO_ANSWER] = np.concatenate([np.asarray(before), rows[blank]])
        question = take(question, np.flatnonzero(~blank))
    if not len(question):
        told = ", ".join(f"{len(rows):,} {reason}" for reason, rows in aside.items())
        what = f"no answers are left ({told} set aside)" if told else "a header and no rows"
        raise EmptyFile(f"{opened.document.name}: {what}; give a file with answers in it")
    return question, aside


def rows_of(question: Question) -> Any:
    """The source's row of each answer."""
    return np.arange(len(question)) if question.rows is None else question.rows


def part_of(opened: Opened, cleaned: Question, aside: dict[str, Any], times: Any = None) -> Part:
    """This file's answers to a question, with how they were read."""
    name, lines = opened.document.name, opened.view.table.lines_of
    rejects = [Rejects(name, reason, rows, lines) for reason, rows in aside.items()]
    info = _info(opened, cleaned, aside)
    return Part(cleaned, info, rejects, opened.reading.has_workers, times)


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
    return np.full(len(question), np.nan) if told is None else told[rows_of(question)]
