"""The sanity gate: a reading that is likely wrong is refused, and the refusal says what settles it.

Only vocabularies and the first items are looked at, so that the gate costs the same for ten
thousand answers and ten million.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from shlex import quote
from typing import Any

from misc_cli.errors import InputError
from misc_cli.readers.document import Document
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.platforms.base import Question
from misc_cli.readers.regions import several_regions
from misc_cli.readers.repeats import share_of_conflicts, tells_apart
from misc_cli.readers.values import (
    BOXES,
    CHOICES,
    COORDINATES,
    DATES,
    JSON,
    OTHER,
    SPANS,
    TEXT,
    is_number,
    kind_of,
)
from misc_cli.readers.vocabulary import EMAILS, normalise

FEW = 10  # answers: fewer prove nothing
LOOKED_AT = 2000  # names of a vocabulary
CONFLICTS = 0.2  # share of pairs of worker and item with more than one label that is odd
ALLOW = "--allow-odd reads it all the same"
OTHER_COLUMN = "name the right column with --label-col"

_WHAT = {
    TEXT: "free text",
    BOXES: "boxes or other shapes",
    SPANS: "spans of text",
    DATES: "dates or times",
    COORDINATES: "coordinates",
    JSON: "JSON",
    OTHER: "something without classes",
}
_WEAK_WORKERS = {
    *("user", "userid", "username", "createdby", "sessionid", "name", *EMAILS),
    *("model", "modelname", "modelid", "observer", "assignee", "submittedby", "submitter"),
    *("submittername", "submitterid", "subject", "subjectid"),
}


def no_classes(question: Question, kind: str, seen: str = "") -> str:
    """Why a question of this kind cannot be voted on."""
    example = f", such as {shown(seen)}" if seen else ""
    return (
        f"{question.name!r} holds {_WHAT.get(kind, kind)}{example}: there are no classes to vote "
        f"on; {OTHER_COLUMN} or --question, or {ALLOW}"
    )


def several_choices(question: Question, seen: str = "") -> str:
    example = f" ({shown(seen)})" if seen else ""
    return (
        f"{question.name!r} holds several choices per answer{example}; --multi split makes a "
        f"yes/no question of each option, --multi set takes each set as one class"
    )


def refuse(where: str, oddities: Sequence[str], options: ReadOptions) -> None:
    if oddities and not options.allow_odd:
        raise InputError(f"{where}: {oddities[0]}")


def oddities(question: Question, options: ReadOptions, document: Document) -> list[str]:
    """What speaks against this reading, each with the flag that settles it; worst first."""
    found = [
        *_labels(question, options),
        *_lists(question),
        *_coincidences(question),
        *_abstentions(question, options),
    ]
    if options.duplicates is None:  # who has a rule for repeats knows of them
        found += [*_regions(question, document), *_repeats(question, document)]
    if options.worker_from is None:
        found += _lonely(question, document)
    return found


def _names(column: Any) -> list[str]:
    values = (value.strip() for value in column.dictionary[:LOOKED_AT].to_pylist() if value)
    return [value for value in values if value]


def _labels(question: Question, options: ReadOptions) -> Iterable[str]:
    kind = kind_of(question.label)
    if kind.name == CHOICES and options.multi is None:
        yield several_choices(question, kind.seen)
    if not kind.has_classes:
        yield no_classes(question, kind.name, kind.seen)
    n_answers = len(question.label)
    n_classes = len(question.label.dictionary)
    if n_answers < FEW or 2 * n_classes <= n_answers:
        return
    values = _names(question.label)
    if n_classes <= 11 and all(value.lstrip("+-").isdigit() for value in values):
        return  # a scale
    yield (
        f"{n_classes:,} classes in {n_answers:,} answers, {_some(values)}: nearly every answer is "
        f"one of its own; {OTHER_COLUMN}, or {ALLOW}"
    )


def _lists(question: Question) -> Iterable[str]:
    for role in ("worker", "item"):
        column = getattr(question, role)
        start = [value for value in _names(column) if value[:1] in ("[", "{")]
        if start and (role == "worker" or len(start) > len(_names(column)) / 2):
            kind = kind_of(column)
            if kind.separator == "json" or not kind.has_classes:
                yield (
                    f"the {role} is a list or an object ({shown(start[0])}) where one name was "
                    f"expected; name another column with --{role}-col, or {ALLOW}"
                )
    worker = kind_of(question.worker)
    if worker.name == CHOICES and worker.separator not in (None, ",", "json"):
        yield (
            f"several workers in one cell ({shown(worker.seen)}) where one name was expected; "
            f"give one row per answer, or {ALLOW}"
        )


def _coincidences(question: Question) -> Iterable[str]:
    """Labels that are also items or workers: columns were mixed up, or there is one per worker."""
    labels = set(_names(question.label))
    for role in ("item", "worker"):
        names = set(_names(getattr(question, role)))
        both = sorted(name for name in names & labels if not is_number(name))
        is_said = normalise(question.columns.get(role, "")) == role  # its very name says so
        if len(both) > 1 and not is_said and 2 * len(both) >= min(len(names), len(labels)):
            yield (
                f"{_some(both)} are {role}s and labels at once: is there a column for each of "
                f"several workers? Then say --wide or --worker-cols, else --{role}-col and "
                f"--label-col, or {ALLOW}"
            )
    known = {normalise(n) for n in question.columns.values() if not is_number(n)}
    heads = [name for name in _names(question.item)[:3] if normalise(name) in known]
    if heads and len(heads) == len(question.item.dictionary[:3]):
        yield f"items are called as the columns are ({_some(heads)}); set --header or --item-col"


def _abstentions(question: Question, options: ReadOptions) -> Iterable[str]:
    """-1 beside 0, 1, 2 in a column for each worker: a class, or no answer?"""
    is_wide = question.columns.get("worker") == "a column for each"
    values = _names(question.label)
    others = [value for value in values if value != "-1"]
    is_open = is_wide and options.no_answer is None and len(others) < len(values)
    if is_open and others and all(value.isdigit() for value in others):
        yield (
            "-1 may be a class or no answer; say --no-answer -1 if nobody answered there, "
            "or --allow-odd if it is a class"
        )


def _regions(question: Question, document: Document) -> Iterable[str]:
    """A row for each box or span: its label says nothing about the item as a whole."""
    places, n_pairs, n_several = several_regions(question, document)
    if n_several:
        yield (
            f"{n_several:,} of {n_pairs:,} times a worker gives one item labels at several places "
            f"({_some(places)}): each row labels a box or a span, not the item; name the column "
            f"that tells regions apart with --item-col, or {ALLOW}"
        )


def _repeats(question: Question, document: Document) -> Iterable[str]:
    n_pairs, n_conflicts = share_of_conflicts(question.worker, question.item, question.label)
    if n_conflicts < 3 or n_conflicts < CONFLICTS * n_pairs:
        return
    roles = question.columns
    used = [roles.get("worker", ""), roles.get("item", "")]
    apart: list[str] = []
    names = document.names
    if set(used) <= set(names):
        rest = [n for n in names if n not in roles.values() and names.count(n) == 1]
        few = [name for name in rest if _is_few(document, name)]
        apart = [name for name in few if tells_apart(document, used, name)]
    by = ""
    if apart:
        flag = f"--group-by {quote(apart[0])}"
        by = f" Column {apart[0]!r} tells them apart: {flag} reads questions."
    yield (
        f"{n_conflicts:,} of {n_pairs:,} times a worker gives one item different labels: are there "
        f"several questions?{by} If these are corrections, say --duplicates last, first or all"
    )


def _is_few(document: Document, name: str) -> bool:
    return 2 <= len(set(document.sampled(name))) <= 30


def _lonely(question: Question, document: Document) -> Iterable[str]:
    """Everybody answers once, or every item is answered once by somebody who may be its author."""
    n_answers = len(question.label)
    if n_answers < FEW:
        return
    n_workers, n_items = len(question.worker.dictionary), len(question.item.dictionary)
    is_weak = normalise(question.columns.get("worker", "")) in _WEAK_WORKERS
    if n_workers == n_answers and is_weak:
        yield (
            f"each of {n_answers:,} answers has a worker of its own, so "
            f"{question.columns.get('worker')!r} may count answers; name the worker's column with "
            f"--worker-col (none if there is none), or {ALLOW}"
        )
    if n_items == n_answers and is_weak:
        yield (
            f"each item has one answer, and {question.columns.get('worker')!r} may be its author; "
            f"say --worker-col if it is the worker, or {ALLOW}"
        )


def _some(values: Iterable[str], most: int = 3) -> str:
    listed = list(values)
    return ", ".join(map(shown, listed[:most])) + (", …" if len(listed) > most else "")


def shown(value: str) -> str:
    text = " ".join(value.split())
    text = text.encode("utf-8", "replace").decode()
    return repr(text if len(text) <= 40 else text[:39] + "…")
