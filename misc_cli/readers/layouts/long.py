"""One row per answer: columns of worker, item and what was answered."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from misc_cli.errors import ConfigError
from misc_cli.readers.anonymous_workers import without_workers
from misc_cli.readers.document import Document
from misc_cli.readers.headerless import positions
from misc_cli.readers.layouts.long_checks import refuse_nameless
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.platforms.base import (
    LIKELY,
    Match,
    Question,
    Reader,
    Reading,
    from_columns,
    split_by,
)
from misc_cli.readers.repeats import tells_apart
from misc_cli.readers.roles import QUESTIONS, roles_of
from misc_cli.readers.row_status import consensus_rows, gold_of, header_again, statuses
from misc_cli.readers.vocabulary import normalise


def read(document: Document, options: ReadOptions, *, anonymous: bool = False) -> Reading:
    """The questions of a table with one row per answer."""
    if document.table.header is False:
        return _headerless(document, options)
    notes: list[str] = []
    roles, answers = roles_of(document, options, notes)
    asked = replace(options, worker_col=None, item_col=None, label_col=None)
    worker = roles.get("worker")
    reading = from_columns(
        document,
        worker=worker or roles["item"],  # a stand-in, replaced below
        item=roles["item"],
        questions={name: name for name in answers},
        options=asked,
        aside=_aside(document, roles, answers, options),
        gold=gold_of(document, roles, answers),
    )
    reading = replace(reading, notes=[*reading.notes, *notes])
    refuse_nameless(document, reading.questions, roles)
    if worker is not None and len(answers) == 1 and options.group_by is None:
        reading = replace(reading, questions=_by_question(document, roles, reading.questions[0]))
    if worker is None:
        reading = without_workers(document, options, reading)
    elif anonymous:
        reading = replace(reading, has_workers=False)
    return reading


def _aside(
    document: Document, roles: Mapping[str, str], answers: Sequence[str], options: ReadOptions
) -> dict[str, Callable[[Any], Any]]:
    """Rows that are no answers, by reason."""
    rules = {**header_again(document, roles), **statuses(document, [*roles.values(), *answers])}
    if "worker" in roles and not options.allow_odd:
        rules.update(consensus_rows(document, roles["worker"]))
    return rules


def _by_question(document: Document, roles: Mapping[str, str], only: Question) -> list[Question]:
    """A question for each value of a column `question` or the like, if it tells answers apart."""
    taken = [*roles.values(), *only.columns.values()]
    for name in document.names:
        if normalise(name) in QUESTIONS and name not in taken and document.names.count(name) == 1:
            values = set(document.sampled(name))
            key = (roles["worker"], roles["item"])
            if 2 <= len(values) <= 50 and tells_apart(document, key, name):
                return split_by(only, document.columns([name])[0])
    return [only]


def _headerless(document: Document, options: ReadOptions) -> Reading:
    """Columns by position."""
    if options.worker_from is not None:
        raise ConfigError("--worker-from needs a header that names item and label")
    chosen, why = positions(document, options)
    names = [document.names[at] for at in (chosen["worker"], chosen["item"], chosen["label"])]
    worker, item, label = names
    asked = replace(options, worker_col=None, item_col=None, label_col=None)
    reading = from_columns(
        document, worker=worker, item=item, questions={label: label}, options=asked
    )
    refuse_nameless(document, reading.questions, {"worker": worker, "item": item})
    return replace(reading, notes=[f"{document.name}: {why}"] if why else [])


def detect(document: Document) -> Match | None:
    return Match(LIKELY, "one row per answer")


READER = Reader(
    name="long",
    title="a table with one row per answer",
    explain="columns of worker, item and label",
    detect=detect,
    read=read,
)
