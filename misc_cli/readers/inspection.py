"""The facts of `misc inspect`: the contents of files of answers, and what the checks say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from misc_cli.errors import InputError
from misc_cli.readers import checks
from misc_cli.readers.answer_table import AnswerTable, joined_tables
from misc_cli.readers.columns import listing
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.proposals import proposals
from misc_cli.readers.questions import grouped, options_of, single
from misc_cli.readers.read import OpenedFile, files_of, open_answers, opened_document
from misc_cli.readers.reading import Question
from misc_cli.readers.source import Source, open_source
from misc_cli.readers.values import CHOICES, WITH_CLASSES

MOST_READINGS = 4


@dataclass
class FileFacts:
    """One file: what it is and how that was told; `refused` if nobody could read it so.

    readings  other readings that were tried: flags, and the first three answers
    """

    name: str
    format: str
    columns: list[str]
    reader: str | None = None
    title: str | None = None
    how: str | None = None
    set_aside: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    refused: str | None = None
    readings: list[tuple[str, list[tuple[str, str, str]]]] = field(default_factory=list)


@dataclass
class QuestionFacts:
    """One question of all files; `read` is None where there are no classes to vote on.

    refused  what the gate has against it, worst first
    options  of a question with several choices per answer
    """

    name: str
    kind: str
    n_answers: int
    columns: dict[str, str]
    refused: list[str] = field(default_factory=list)
    options: list[str] = field(default_factory=list)
    samples: list[tuple[str, str, str]] = field(default_factory=list)
    n_gold: int = 0
    read: AnswerTable | None = None


def inspect_files(
    sources: Sequence[str], options: ReadOptions
) -> tuple[list[FileFacts], list[QuestionFacts]]:
    """Every file and every question; raises only for what cannot be opened at all."""
    files: list[FileFacts] = []
    found: dict[str, list[tuple[OpenedFile, Question]]] = {}
    for path in files_of(sources):
        facts, opened = _inspect_file(path, options)
        files.append(facts)
        if opened is not None:
            questions = opened.reading.questions
            if options.group_by is not None:
                questions = grouped(facts.name, opened.view, questions, options)
            for question in questions:
                found.setdefault(question.name, []).append((opened, question))
    chosen = {name: parts for name, parts in found.items() if options.question in (None, name)}
    return files, [_question(name, parts, options) for name, parts in (chosen or found).items()]


def _inspect_file(path: str, options: ReadOptions) -> tuple[FileFacts, OpenedFile | None]:
    source = open_source(path, options.encoding, options.access)
    document = opened_document(source, options)
    try:
        columns = list(document.names)
    except RecursionError:
        raise InputError(f"{source.name}: objects within objects, too deep to read") from None
    facts = FileFacts(source.name, document.format, columns)
    try:
        opened = open_answers(source, options)
    except InputError as error:
        facts.refused = str(error)
        facts.readings = _others(source, options, error)
        return facts, None
    facts.reader, facts.title = opened.reader.name, opened.reader.title
    facts.how = opened.match.why
    facts.set_aside = {reason: len(rows) for reason, rows in opened.reading.aside.items()}
    facts.notes = list(opened.reading.notes)
    if not opened.reading.questions:
        facts.refused = f"{source.name}: no answers in it"
    return facts, opened


def _others(
    source: Source, options: ReadOptions, error: InputError
) -> list[tuple[str, list[tuple[str, str, str]]]]:
    found = islice(proposals(source, options, error), MOST_READINGS)
    return [(one.flags, _first(one.table)) for one in found]


def _first(table: AnswerTable, most: int = 3) -> list[tuple[str, str, str]]:
    columns = (getattr(table.answers, role)[:most] for role in ("worker", "item", "label"))
    return list(zip(*(column.to_pylist() for column in columns), strict=True))


def _question(
    name: str, parts: list[tuple[OpenedFile, Question]], options: ReadOptions
) -> QuestionFacts:
    first = parts[0][1]
    n_answers = sum(len(question) for _, question in parts)
    facts = QuestionFacts(name, first.kind, n_answers, dict(first.columns))
    facts.samples = _samples(first)
    if first.kind not in WITH_CLASSES:
        facts.refused = [checks.no_classes(first, first.kind)]
        return facts
    if first.kind == CHOICES:
        facts.options = options_of(first)
        if options.multi != "set":
            facts.refused = [] if options.multi else [checks.several_choices(first)]
            return facts
    read = []
    for opened, question in parts:
        try:
            for one in single(opened.document.name, question, options):
                cleaned, aside = opened.clean(one, options)
                facts.refused += [
                    told for told, _ in checks.oddities(cleaned, options, opened.view)
                ]
                read.append(opened.table(cleaned, aside, options))
        except InputError as error:
            facts.refused.append(str(error))
    if read:
        facts.read = joined_tables(name, read)
        facts.n_gold = 0 if facts.read.gold is None else len(facts.read.gold.items)
    return facts


def _samples(question: Question, most: int = 3) -> list[tuple[str, str, str]]:
    columns = (question.worker, question.item, question.label)
    texts = [[_text(value) for value in column[:most].to_pylist()] for column in columns]
    return list(zip(*texts, strict=True))


def _text(value: Any) -> str:
    if isinstance(value, list):
        return listing(value) if value else "(none)"
    return "" if value is None else str(value)
