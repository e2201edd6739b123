"""Answers from files: the reading end of every command.

    source (bytes) → document (columns or JSON objects) → platform or layout → question → filters
    → checks → AnswerTable (three dictionary columns, and how the file was read)

A table is read by pyarrow on all cores, only the columns that matter, while its SHA-256 is taken on
another thread.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

import numpy as np
import pyarrow as pa

from misc_cli.data.types import Answers, KnownLabels
from misc_cli.errors import EmptyFile, InputError, MiscWarning
from misc_cli.readers import checks
from misc_cli.readers.addresses import expand
from misc_cli.readers.answer_table import AnswerTable, FileInfo, joined_tables
from misc_cli.readers.columns import select
from misc_cli.readers.document import Document, damaged_json, open_document
from misc_cli.readers.layouts import read_layout
from misc_cli.readers.options import FORMATS, LAYOUTS, ReadOptions, flags_of, is_name
from misc_cli.readers.platforms import load, recognise
from misc_cli.readers.questions import pick
from misc_cli.readers.reading import Question, Reading, rows_of, without_workers
from misc_cli.readers.row_filters import answer_seconds, counting_rows, newest_last
from misc_cli.readers.source import Source, open_source
from misc_cli.readers.vocabulary import ROLES

BAD_ROW = "broken row"


def read_answer_columns(sources: Sequence[str], options: ReadOptions | None = None) -> AnswerTable:
    """Return the answers of all files as one, in the order given; `-` is standard input.

    Each file is read on its own terms: delimiter, header and columns may differ between files.
    """
    return read_questions(sources, options)[0]


def read_questions(
    sources: Sequence[str], options: ReadOptions | None = None, *, each: bool = False
) -> list[AnswerTable]:
    """Return the answers to every question if `each`, else to the one there is; by name."""
    options = options or ReadOptions()
    parts: dict[str, list[AnswerTable]] = {}
    for path in expand(sources):
        try:
            for part in _read_file(path, options, each=each):
                parts.setdefault(part.question if each else "", []).append(part)
        except EmptyFile as error:
            if not options.skip_empty_files:
                raise
            warnings.warn(f"{str(error).partition(';')[0]}: left out", MiscWarning, stacklevel=2)
        except InputError as error:
            if path in sources or "\n" in str(error):
                raise
            # found in a folder
            raise InputError(f"{error}; to leave this file out, name the others") from None
    if not parts:
        raise InputError("every file is empty; give a file with answers in it")
    results = [joined_tables(name, own) for name, own in sorted(parts.items())]
    for result in results:
        where = f"question {result.question}" if len(results) > 1 else result.answers.name
        answers, is_named = result.answers, options.worker_col or options.worker_from
        is_alone = len(answers.worker.dictionary) == 1 and len(answers) >= 2 * checks.FEW
        is_alone = is_alone and len(answers.item.unique()) == len(answers)
        if is_alone and not (is_named or options.allow_odd):
            told = f"{answers.name}: one worker, and one answer to each of {len(answers):,} items"
            raise InputError(f"{told}; give the others' answers, too, or say --worker-col")
        for told in checks.doubts(answers):
            warnings.warn(f"{where}: {told}", MiscWarning, stacklevel=2)
    return results


def _read_file(path: str, options: ReadOptions, *, each: bool) -> list[AnswerTable]:
    """Return a file's answers, in another reading if it is refused and there is only one."""
    source = open_source(path, options)
    try:
        return read_source(source, options, each=each)
    except InputError as error:
        from misc_cli.readers.candidates import declared

        only = declared(error, path, source, options)
    return read_source(source, only, each=each)


def read_source(source: Source, options: ReadOptions, *, each: bool = False) -> list[AnswerTable]:
    """Return one file's answers, a table for each question that is to be read."""
    opened = open_answers(source, options)
    for note in opened.reading.notes:
        warnings.warn(note, MiscWarning, stacklevel=2)
    picked = pick(opened.document.name, opened.view, opened.reading, options, each=each)
    return [opened.table(question, options) for question in picked]


@dataclass(frozen=True)
class OpenedFile:
    """One file, read but not yet reduced to a question; `view` is the table of its rows."""

    document: Document
    view: Document
    reading: Reading
    sha256: str

    def table(
        self, question: Question, options: ReadOptions, refused: list[str] | None = None
    ) -> AnswerTable:
        """Return the answers to a question that count, with how they were read.

        What speaks against them is raised, or added to `refused` where that is given.
        """
        document, name, view = self.document, self.document.name, self.view
        question, found = counting_rows(view, question, options)
        aside: dict[str, Any] = {r: np.asarray(rows) for r, rows in self.reading.aside.items()}
        for reason, rows in found.items():
            aside[reason] = np.concatenate([aside[reason], rows]) if reason in aside else rows
        rejects = [(name, reason, rows, view.table.lines_of) for reason, rows in aside.items()]
        table = document.table if document.records is None else None
        if table is not None and table.bad_lines:
            rejects.append((name, BAD_ROW, np.array(table.bad_lines), list))
        n_aside = {reason: len(rows) for _, reason, rows, _ in rejects if len(rows)}
        told = ", ".join(f"{n:,} {reason}" for reason, n in n_aside.items())
        if not len(question.label):
            what = f"no answers are left ({told} set aside)" if told else "a header and no rows"
            raise EmptyFile(f"{name}: {what}; give a file with answers in it")
        if refused is None:
            checks.refuse(question, options, view)
        else:
            refused += [told for told, _ in checks.oddities(question, options, view)]
        question = newest_last(question, view)
        columns = self.columns_of(question)
        roles = [f"{role} = {columns[role]}" for role in ROLES if role in columns]
        info = FileInfo(
            name=name,
            sha256=self.sha256,
            n_rows=len(question.label),
            format=document.format,
            delimiter=None if table is None else table.delimiter,
            header=None if table is None else table.header,
            columns=columns,
            reader=self.reading.reader,
            question=question.name,
            set_aside=n_aside,
            read_as=", ".join(roles) + (f"; {told} set aside" if told else ""),
            flags=flags_of(self._declared(question, options)),
        )
        seconds = answer_seconds(view, question, options)
        return AnswerTable(
            Answers(question.worker, question.item, question.label, name, seconds),
            [info],
            question.name,
            question.gold and KnownLabels(*question.gold, f"{name}, the gold it carries"),
            not self.reading.has_workers,
            rejects,
            {} if options.keep is None else _kept_columns(view, question, options.keep),
        )

    def columns_of(self, question: Question) -> dict[str, str]:
        """Return role → the columns that it came from, by their paths in the file."""
        paths = self.reading.paths
        return {
            role: " + ".join(paths.get(name, name) for name in named.split(" + "))
            for role, named in question.columns.items()
        }

    def _declared(self, question: Question, options: ReadOptions) -> dict[str, object]:
        """Return the fields of `ReadOptions` that declare this reading."""
        reading, said = self.reading, options.declared
        if reading.layout is not None:
            return {**said, **reading.layout.options(self.view, reading.paths)}
        by = "layout" if reading.reader in LAYOUTS else "format"
        return {**said, by: reading.reader, "question": question.name}


def _kept_columns(view: Document, question: Question, keep: str) -> dict[str, dict[str, str]]:
    """Return the columns that --keep carries along: name → item → its first text there."""
    names, found = select(view, "keep", keep), {}
    items, first = np.unique(np.asarray(question.item.indices), return_index=True)
    called = question.item.dictionary.to_pylist()
    for name, column in zip(names, view.columns(names), strict=True):
        texts = column.take(pa.array(rows_of(question)[first])).to_pylist()
        found[name] = {called[i].strip(): text for i, text in zip(items, texts, strict=True)}
    return found


def open_answers(source: Source, options: ReadOptions) -> OpenedFile:
    """Return a file, read whole, before any question is chosen."""
    with ThreadPoolExecutor(1) as pool:
        digest = pool.submit(sha256, source.raw)
        try:
            document = opened_document(source, options)
            reading = read_document(document, options)
        except (RecursionError, UnicodeEncodeError):
            raise damaged_json(source.name) from None
        view = reading.view or document
        return OpenedFile(document, view, reading, digest.result().hexdigest())


def opened_document(source: Source, options: ReadOptions) -> Document:
    """Return a file of answers as the options say that it is laid out."""
    header = options.header
    if header is None and any(name and is_name(name) for name in options.columns.values()):
        header = True  # a column was named, so there are names
    elif header is None and options.layout == "matrix":
        header = False
    return open_document(
        source,
        options.format if options.format in FORMATS else None,
        delimiter=options.delimiter or ("tab" if options.format == "tsv" else None),
        header=header,
        bad_rows=options.bad_rows_allowed,
    )


def read_document(document: Document, options: ReadOptions) -> Reading:
    """Return what is in a file, by its platform, else by its layout."""
    found = None
    if options.format is not None and options.format not in FORMATS:
        found = load(options.format), f"--format {options.format}"
    elif options.layout is None:
        found = recognise(document)
    if found is None or None not in options.columns.values():  # nothing is left to find out
        return read_layout(document, options)
    reader, how = found
    reading = reader.read(document, options)
    if not reading.has_workers or options.worker_from is not None:
        reading = without_workers(document, options, reading)
    return replace(reading, reader=reader.name, title=reader.title, how=how)
