"""Inspect files of answers: how they would be read, and figures of each question."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from misc_cli.errors import InputError
from misc_cli.quality.agreement import summarize
from misc_cli.readers import checks
from misc_cli.readers.addresses import expand
from misc_cli.readers.answer_table import joined_tables
from misc_cli.readers.candidates import NO_OTHER, candidates
from misc_cli.readers.columns import listing
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.questions import grouped, options_of, single
from misc_cli.readers.read import OpenedFile, open_answers, opened_document
from misc_cli.readers.reading import Question
from misc_cli.readers.source import open_source
from misc_cli.readers.values import CHOICES, WITH_CLASSES

MOST_READINGS, MOST_SAMPLES = 4, 3

Facts = dict[str, Any]
Part = tuple[OpenedFile, Question, ReadOptions]  # of one question, in one file


def inspected(sources: Sequence[str], options: ReadOptions) -> dict[str, list[Facts]]:
    """Return facts of every file and every question; raise only for what cannot be opened at all.

    A file's `readings` are others that were tried: flags, and the first three answers. A question
    has no figures where there are no classes to vote on; `refused` is what speaks against it.
    """
    files: list[Facts] = []
    found: dict[str, list[Part]] = {}
    for path in expand(sources):
        facts, opened, own = _file(path, options)
        files.append(facts)
        if opened is not None:
            questions = opened.reading.questions
            if options.group_by is not None:
                questions = grouped(facts["name"], opened.view, questions, options)
            for question in questions:
                found.setdefault(question.name, []).append((opened, question, own))
    chosen = {name: parts for name, parts in found.items() if options.question in (None, name)}
    questions_told = [_question(name, parts, options) for name, parts in (chosen or found).items()]
    votable = [one for one in questions_told if one["kind"] in WITH_CLASSES]
    for one in questions_told:
        is_one_of = len(votable) > 1 and one in votable
        flags = [f"--question {shlex.quote(one['name'])}"] if is_one_of else []
        flags += ["--multi split"] if one["kind"] == CHOICES and "items" not in one else []
        one["flag"] = " ".join(flags)
    return {"files": files, "questions": questions_told}


def _file(path: str, options: ReadOptions) -> tuple[Facts, OpenedFile | None, ReadOptions]:
    """Return a file's facts, the file unless it is refused, and the options that read it."""
    source = open_source(path, options)
    document = opened_document(source, options)
    try:
        columns = list(document.names)
    except RecursionError:
        raise InputError(f"{source.name}: objects within objects, too deep to read") from None
    facts: Facts = {"name": source.name, "format": document.format, "columns": columns}
    facts |= {"reader": None, "title": None, "how": None, "set_aside": {}, "notes": []}
    facts |= {"refused": None, "readings": []}
    try:
        opened = open_answers(source, options)
    except InputError as error:
        found = candidates(source, options, error, MOST_READINGS)
        if not found or not found[0].is_strong:
            facts["refused"] = str(error)
            facts["readings"] = [(one.flags, _samples(one.table.answers)) for one in found]
            return facts, None, options
        options = replace(options, **found[0].given)
        opened = open_answers(source, options)
        facts["how"] = f"a guess: {NO_OTHER}"
    facts["reader"], facts["title"] = opened.reading.reader, opened.reading.title
    facts["how"] = facts["how"] or opened.reading.how
    facts["notes"] = list(opened.reading.notes)
    facts["set_aside"] = {reason: len(rows) for reason, rows in opened.reading.aside.items()}
    if not opened.reading.questions:
        facts["refused"] = f"{source.name}: no answers in it"
    return facts, opened, options


def _question(name: str, parts: list[Part], options: ReadOptions) -> Facts:
    opened, first, _ = parts[0]
    refused: list[str] = []
    facts: Facts = {"name": name, "kind": first.kind, "columns": opened.columns_of(first)}
    facts["n_answers"] = sum(len(question) for _, question, _ in parts)
    facts |= {"options": [], "samples": _samples(first), "n_gold": 0, "refused": refused}
    if first.kind not in WITH_CLASSES:
        refused.append(checks.no_classes(first))
        return facts
    if first.kind == CHOICES:
        facts["options"] = options_of(first)
        if options.multi != "set":
            refused += [] if options.multi else [checks.several_choices(first)]
            return facts
    read = []
    for opened, question, own in parts:
        try:
            apart = single(opened.document.name, question, own)
            read += [opened.table(one, own, refused) for one in apart]
        except InputError as error:
            refused.append(str(error))
    if read:
        table = joined_tables(name, read)
        facts["n_gold"] = 0 if table.gold is None else len(table.gold.items)
        try:
            figures = summarize(table.answers, options.duplicates)
            spellings = checks.spelled_alike(figures["classes"])
            facts |= {**figures, "spellings": spellings, "set_aside": table.set_aside}
            facts["anonymous"] = table.anonymous
        except InputError as error:
            refused.append(str(error))
    return facts


def _samples(answers: Any) -> list[tuple[str, str, str]]:
    """Return the first answers: worker, item and label as text."""
    columns = (getattr(answers, role)[:MOST_SAMPLES] for role in ("worker", "item", "label"))
    texts = [[_text(value) for value in column.to_pylist()] for column in columns]
    return list(zip(*texts, strict=True))


def _text(value: Any) -> str:
    if isinstance(value, list):
        return listing(value) if value else "(none)"
    return "" if value is None else str(value)
