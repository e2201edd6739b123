"""Sanity checks: a reading that is likely wrong is refused, and the refusal says what settles it.

Only vocabularies and the first items are looked at, so that the checks cost the same for ten
thousand answers and ten million.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from shlex import quote
from typing import Any

import numpy as np
import pyarrow as pa

from misc_cli.data.types import Answers
from misc_cli.errors import InputError
from misc_cli.readers.columns import Refusal, written
from misc_cli.readers.document import Document
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.profile import Profile
from misc_cli.readers.reading import Question, agreement, share_of_conflicts
from misc_cli.readers.values import (
    BOXES,
    CHOICES,
    COORDINATES,
    DATES,
    IDS,
    JSON,
    OTHER,
    SPANS,
    TEXT,
    URLS,
    is_number,
    kind_of,
)
from misc_cli.readers.vocabulary import WEAK_WORKERS, names_in, normalise

FEW = 10  # answers: fewer prove nothing
LOOKED_AT = 2000  # names of a vocabulary
CONFLICTS = 0.2  # share of pairs of worker and item with more than one label that is odd
RARE = 0.02  # of the pairs: fewer with several places are corrections
FIRST_ITEMS = 500  # only their answers are looked at: a long file costs no more than a short one
FIRST_ROWS = 100_000  # of all answers, where only a share is asked for
MANY_CLASSES = 100
MANY_WORDS = 15
MOST_OPTIONS = 40
ALLOW = "--allow-odd reads it all the same"
OTHER_COLUMN = "name the right column with --label-col"

_WHAT = {
    TEXT: "free text",
    BOXES: "boxes or other shapes",
    SPANS: "spans of text",
    DATES: "dates or times",
    COORDINATES: "coordinates",
    JSON: "JSON",
    URLS: "addresses",
    IDS: "ids",
    OTHER: "something without classes",
}
# What a model that was judged gets, rather than what it answered itself.
_JUDGED = names_in("rating score correct grade win rank quality pass iscorrect")
# What places within an item are called: bbox_x, xmin, start_offset; whole ones are one column.
_PLACE = re.compile(
    r"(?:bbox|box|bb|region|rect|span|value|coords?|char|token)*"
    r"(?:[xy](?:min|max|[0-3]|center|c|px|pos)?|(?:min|max|center|c)[xy]|w|h|width|height|left|top"
    r"|right|bottom|lat|lon|lng|latitude|longitude"
    r"|(?:start|begin|end|stop|onset|offset)(?:offset|char|token|time|index|pos|ms|s|sec|frame)?)"
)
_WHOLE_PLACES = names_in("""
bbox boundingbox box polygon points segmentation mask rle geometry coordinates coords region span
""")

Oddity = tuple[str, Sequence[Mapping[str, Any]]]  # what speaks against it, and what may settle it


def no_classes(question: Question, kind: str, seen: str = "") -> str:
    """Return why a question of this kind cannot be voted on."""
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


OTHERS: Sequence[Mapping[str, Any]] = []  # other columns may be meant


def choices_apart(question: Question) -> list[Mapping[str, Any]]:
    """Return what reads several choices: a question for each option, else sets."""
    label = question.label
    lists = label.flatten() if pa.types.is_list(label.type) else None
    if lists is not None and len(lists.unique()) > MOST_OPTIONS:
        return []  # marked words, not options
    split = {"question": question.name, "multi": "split", "each_question": True}
    return [split, {"question": question.name, "multi": "set"}, {"multi": "set"}]


def refuse(where: str, found: Sequence[Oddity], options: ReadOptions, read_as: str) -> None:
    """Raise the worst of what speaks against a reading, unless the user wants it all the same."""
    if found and not options.allow_odd:
        told, remedies = found[0]
        is_open = remedies is OTHERS or any("item_col" in one for one in remedies)
        raise Refusal(f"{where}: read as {read_as}: {told}", remedies, is_open=is_open)


def oddities(question: Question, options: ReadOptions, document: Document) -> list[Oddity]:
    """Return what speaks against this reading, worst first; what was declared is not doubted."""
    found = [
        *_labels(question, options),
        *_lists(question, options),
        *_coincidences(question, options),
        *_abstentions(question, options),
    ]
    n_said = sum(1 for word in question.label[:LOOKED_AT].to_pylist() if word and str(word).strip())
    if n_said == 1 and len(document.table.sample) > 2 and not options.has_filters:
        found.append((f"one answer in {len(document.table.sample)} rows: nothing to vote on", ()))
    if options.duplicates is None:  # who has a rule for repeats knows of them
        found += [*_regions(question, document), *_repeats(question, document)]
    if options.worker_from is None and options.worker_col is None:
        found += _lonely(question)
    if options.layout is None and question.columns.get("item") == "a column for each":
        found += _unlike_items(question)
    return found


def _names(column: Any) -> list[str]:
    values = (value.strip() for value in column.dictionary[:LOOKED_AT].to_pylist() if value)
    return [value for value in values if value]


def _labels(question: Question, options: ReadOptions) -> Iterable[Oddity]:
    kind = kind_of(question.label)
    is_declared = options.label_col is not None
    if kind.name == CHOICES and options.multi is None and not options.extract:
        yield several_choices(question, kind.seen), choices_apart(question)
    if not kind.has_classes and not (is_declared and kind.name in (URLS, IDS)):
        yield no_classes(question, kind.name, kind.seen), ()
    n_answers = len(question.label)
    n_classes = len(question.label.dictionary)
    values = _names(question.label)
    if n_classes > MANY_WORDS and not is_declared and not all(map(is_number, values)):
        share = share_of_one_item(question)
        if share > 0.5:
            yield (
                f"{share:.0%} of {n_classes:,} classes, {_some(values)}, come with one item only: "
                f"words about items, not classes; {OTHER_COLUMN}, or {ALLOW}",
                (),
            )
    are_fractions = n_answers > 4 and all("." in value for value in values)
    if (n_answers < FEW and not are_fractions) or 2 * n_classes <= n_answers:
        return
    if n_classes <= 11 and all(value.lstrip("+-").isdigit() for value in values):
        return  # a scale
    yield (
        f"{n_classes:,} classes in {n_answers:,} answers, {_some(values)}: nearly every answer is "
        f"one of its own; {OTHER_COLUMN}, or {ALLOW}",
        (),
    )


def share_of_one_item(question: Question) -> float:
    """Return which share of the classes comes with one item only, where items are many."""
    if len(question.item.dictionary) < 5 or not pa.types.is_dictionary(question.label.type):
        return 0.0
    labels = np.asarray(question.label.indices[:FIRST_ROWS]).astype(np.int64)
    items = np.asarray(question.item.indices[:FIRST_ROWS])
    pairs = np.unique(labels * len(question.item.dictionary) + items)
    _, counts = np.unique(pairs // len(question.item.dictionary), return_counts=True)
    return float((counts == 1).mean())


def _lists(question: Question, options: ReadOptions) -> Iterable[Oddity]:
    for role in ("worker", "item"):
        column = getattr(question, role)
        start = [value for value in _names(column) if value[:1] in ("[", "{")]
        is_most = role == "worker" or len(start) > len(_names(column)) / 2
        if options.columns[role] is None and start and is_most:
            kind = kind_of(column)
            if kind.separator == "json" or not kind.has_classes:
                yield (
                    f"the {role} is a list or an object ({shown(start[0])}) where one name was "
                    f"expected; name another column with --{role}-col, or {ALLOW}",
                    (),
                )
    worker = kind_of(question.worker)
    if worker.name == CHOICES and worker.separator not in (None, ",", "json"):
        yield (
            f"several workers in one cell ({shown(worker.seen)}) where one name was expected; "
            f"give one row per answer, or {ALLOW}",
            (),
        )


def _coincidences(question: Question, options: ReadOptions) -> Iterable[Oddity]:
    """Find labels that are also items or workers: mixed-up columns, or one for each worker."""
    labels = set(_names(question.label))
    for role in ("item", "worker"):
        names = set(_names(getattr(question, role)))
        both = sorted(name for name in names & labels if not is_number(name))
        is_said = normalise(question.columns.get(role, "")) == role or options.columns[role]
        if len(both) > 1 and not is_said and 2 * len(both) >= min(len(names), len(labels)):
            yield (
                f"{_some(both)} are {role}s and labels at once: is there a column for each of "
                f"several workers? Then say --layout wide, else --{role}-col and --label-col, "
                f"or {ALLOW}",
                ({"layout": "wide"},),
            )
    known = {normalise(n) for n in question.columns.values() if not is_number(n)}
    heads = [name for name in _names(question.item)[:3] if normalise(name) in known]
    if heads and len(heads) == len(question.item.dictionary[:3]):
        told = f"items are called as the columns are ({_some(heads)}); set --header or --item-col"
        yield told, ()


def _abstentions(question: Question, options: ReadOptions) -> Iterable[Oddity]:
    """Find -1 beside 0, 1, 2 in a column for each worker: a class, or no answer?"""
    is_wide = question.columns.get("worker") == "a column for each"
    values = _names(question.label)
    others = [value for value in values if value != "-1"]
    is_open = is_wide and options.no_answer is None and len(others) < len(values)
    if is_open and others and all(value.isdigit() for value in others):
        is_told = not set(others) <= {"0", "1"}  # else -1 and 1 may be classes, and 0 no answer
        yield (
            "-1 may be a class or no answer; say --no-answer -1 if nobody answered there, "
            "or --allow-odd if it is a class",
            ({"no_answer": "-1"},) if is_told else (),
        )


def _regions(question: Question, document: Document) -> Iterable[Oddity]:
    """Find a row for each box or span: its label says nothing about the item as a whole."""
    taken = set(question.columns.values())
    free = [n for n in document.names if n not in taken and document.names.count(n) == 1]
    places = [n for n in free if normalise(n) in _WHOLE_PLACES]
    last = {name: normalise(name.rpartition(".")[2]) for name in free}
    numbers = [n for n in free if _PLACE.fullmatch(last[n]) or _PLACE.fullmatch(normalise(n))]
    numbers = [n for n in numbers if (c := document.sampled(n)) and all(map(is_number, c))]
    places += numbers if len(numbers) > 1 else []
    if not places or not taken <= set(document.names):
        return
    columns = document.columns(places)
    if question.rows is not None:
        columns = [column.take(pa.array(question.rows)) for column in columns]
    if any(len(column) != len(question) for column in columns):
        return  # its rows are not the answers
    n_pairs, n_several = share_of_conflicts(question.worker, question.item, *columns)
    if n_several > RARE * n_pairs:
        yield (
            f"{n_several:,} of {n_pairs:,} times a worker gives one item labels at several places "
            f"({_some(places)}): each row labels a box or a span, not the item; name the column "
            f"that tells regions apart with --item-col, or {ALLOW}",
            (),
        )


def _repeats(question: Question, document: Document) -> Iterable[Oddity]:
    """Find several answers of a worker to one item: something tells them apart."""
    n_pairs, n_conflicts = share_of_conflicts(question.worker, question.item, question.label)
    n_rows = min(int((np.asarray(question.item.indices) < FIRST_ITEMS).sum()), FIRST_ITEMS * 100)
    beside = set(document.names) - set(question.columns.values())
    is_repeated = n_rows > 2 * n_pairs and n_pairs >= FEW and bool(beside)
    if (n_conflicts < 3 or n_conflicts < CONFLICTS * n_pairs) and not is_repeated:
        return
    roles, names = question.columns, document.names
    apart: list[str] = []
    remedies: Sequence[Mapping[str, Any]] = OTHERS
    if set(roles.values()) <= set(names):
        profile, used = Profile(document), [roles["worker"], roles["item"]]
        few = [n for n in profile.names if n not in roles.values()]
        few = [n for n in few if 2 <= len(profile.values(n)) <= 30]
        few = [n for n in few if not all(map(is_number, profile.values(n)))]
        apart = [name for name in few if profile.tells_apart(used, name)]
        remedies = _items_instead(document, roles) or OTHERS
    if apart:
        by = f" Column {apart[0]!r} tells them apart: --group-by {quote(apart[0])} reads questions."
    else:
        by = " Name all columns of the item with --item-col a,b"
    if 2 * n_conflicts < n_pairs and not is_repeated:
        by += " If these are corrections, say --duplicates last, first or all"
    told = f"{n_conflicts:,} of {n_pairs:,} times a worker gives one item different labels"
    if not n_conflicts:
        told = f"a worker gives one item {n_rows / n_pairs:.1f} answers on average"
    yield f"{told}: are there several questions?{by}", remedies


def _items_instead(document: Document, roles: Mapping[str, str]) -> list[Mapping[str, Any]]:
    """Return the columns that would name items which a worker answers once."""
    profile = Profile(document, whole=True)
    if not document.table.header:
        return []
    names = [name for name in profile.item_parts if name != roles["label"]]
    given = {"worker_col": roles["worker"], "label_col": roles["label"]}
    sets = islice(profile.item_keys(roles["worker"], names), 2)
    return [{**given, "item_col": written(document, item)} for item in sets]


def _lonely(question: Question) -> Iterable[Oddity]:
    """Find workers who are none: everybody answers once, or wrote what is judged."""
    n_answers = len(question.label)
    worker = question.columns.get("worker", "")
    n_workers, n_items = len(question.worker.dictionary), len(question.item.dictionary)
    if n_answers < FEW or normalise(worker) not in WEAK_WORKERS:
        return
    if n_workers == n_answers:
        yield (
            f"each of {n_answers:,} answers has a worker of its own, so {worker!r} may count "
            f"answers; name the worker's column with --worker-col (none if there is none), or "
            f"{ALLOW}",
            (),
        )
    if n_items == n_answers:
        yield (
            f"each item has one answer, and {worker!r} may be its author; "
            f"say --worker-col if it is the worker, or {ALLOW}",
            (),
        )
    label = normalise(question.columns.get("label", ""))
    if normalise(worker) in ("model", "modelname", "modelid", "llm") and label in _JUDGED:
        yield (
            f"{worker!r} may be what was judged, not who judged; say --worker-col {quote(worker)} "
            "if the models gave these labels",
            (),
        )


def refuse_alone(answers: Answers, options: ReadOptions) -> None:
    """Refuse the answers of all files if one worker answered each item once, and was not named."""
    n_answers, is_declared = len(answers), options.worker_col or options.worker_from
    if n_answers < 2 * FEW or is_declared or options.allow_odd:
        return
    if len(answers.worker.dictionary) == 1 and len(answers.item.unique()) == n_answers:
        raise InputError(
            f"{answers.name}: one worker, and one answer to each of {n_answers:,} items: there is "
            "nothing to vote on; give the other workers' answers, or name the worker with "
            "--worker-col"
        )


def _unlike_items(question: Question) -> Iterable[Oddity]:
    """Find columns of a form that are no items of one question: nobody agrees on them."""
    agree, chance, n_pairs = agreement(question.item.indices, question.label.indices)
    n_labels = len(question.label.dictionary)
    labels = np.asarray(question.label.indices[:FIRST_ROWS]).astype(np.int64)
    pairs = np.unique(np.asarray(question.item.indices[:FIRST_ROWS]) * n_labels + labels)
    uses = np.bincount(pairs % n_labels)  # by how many columns a class is used
    is_unlike = len(question.item.dictionary) == 2 and 3 * (uses == 1).sum() >= (uses > 0).sum()
    if n_pairs > 50 and (agree <= chance + 0.03 or is_unlike):
        yield (
            "answers to a column agree no more than by chance, so these may be unlike questions; "
            "say --layout form --item-col with their names if they are items of one",
            (),
        )


def suspicions(answers: Answers) -> list[str]:
    """Return what is odd about answers that were read, for a warning; the first rows tell."""
    worker, item, label = (
        getattr(answers, role)[:FIRST_ROWS] for role in ("worker", "item", "label")
    )
    if len(label) < 2 * FEW:
        return []
    agree, chance, n_pairs = agreement(item.indices, label.indices)
    counts = np.bincount(np.asarray(label.indices))
    counts = counts[counts > 0]
    told = []
    if len(counts) > 1 and n_pairs and agree == 0:
        told.append("no two answers to an item agree, so all are tied; is this the label's column?")
    elif len(counts) > MANY_CLASSES and agree < 2 * chance:
        told.append(f"{len(counts):,} classes, and answers agree no more than by chance")
    elif (counts == 1).sum() * 2 > len(counts) > 12:
        told.append(f"most of {len(counts):,} classes are seen once")
    workers = np.asarray(worker.indices).astype(np.int64)
    own = np.bincount(workers)
    n_pairs_said = len(np.unique(workers * len(label.dictionary) + np.asarray(label.indices)))
    said_once = len(counts) > 1 and (own > 0).sum() > 2 and own[own > 0].min() > 4
    if said_once and n_pairs_said == (own > 0).sum():
        told.append("each worker gives one label only")
    return told


# What may be a class of its own or stand for no answer.
_PERHAPS = {"null", "n/a", "na", "undefined", "?", "-", "--", "skip", "skipped", "no answer"}
_PYTHON = "None"  # `none` may be a class; Python's None is not
MOST_CLASSES = 2000  # more are no classes that anybody has spelled by hand
MOST_SHOWN = 3


def spelled_alike(classes: Iterable[str]) -> list[list[str]]:
    """Return classes that differ only in case or spaces, group by group."""
    return _alike(("".join(name.split()).casefold(), name) for name in classes)


def _alike(pairs: Iterable[tuple[Any, str]]) -> list[list[str]]:
    """Return names that have the same key, where there are several."""
    groups: dict[Any, list[str]] = {}
    for key, name in pairs:
        groups.setdefault(key, []).append(name)
    return [names for names in groups.values() if len(names) > 1]


def spelling_doubts(column: Any) -> list[str]:
    """Return what to say of the classes of a label column, each with the flag that settles it."""
    if len(column.dictionary) > MOST_CLASSES:
        return []
    classes = sorted({n.strip() for n in column.dictionary.to_pylist() if n and n.strip()})
    told = []
    spelled = spelled_alike(classes)
    if spelled:
        told.append(
            f"{_each(spelled)} are different classes and differ only in case or spaces; "
            "--fold-case makes them one"
        )
    numbers = _alike((float(name), name) for name in classes if is_number(name))  # 1, 1.0 and 01
    if numbers:
        first, *others = sorted(numbers[0], key=len)
        flags = " ".join(f"--rename {other}={first}" for other in others)
        told.append(f"{_each(numbers)} are different classes and one number; {flags} makes it one")
    perhaps = [name for name in classes if name.casefold() in _PERHAPS or name == _PYTHON]
    if perhaps and len(perhaps) < len(classes):
        count = "counts as a class" if len(perhaps) == 1 else "count as classes"
        told.append(
            f"{_each([perhaps])} {count}; if nobody answered there, say --no-answer "
            f"'{','.join(perhaps)}'"
        )
    return told


def _each(groups: Sequence[Sequence[str]]) -> str:
    told = ", ".join(" and ".join(repr(n[:40]) for n in own) for own in groups[:MOST_SHOWN])
    return told + (f", … ({len(groups)} such)" if len(groups) > MOST_SHOWN else "")


def _some(values: Iterable[str], most: int = 3) -> str:
    listed = list(values)
    return ", ".join(map(shown, listed[:most])) + (", …" if len(listed) > most else "")


def shown(value: str) -> str:
    text = " ".join(value.split())
    text = text.encode("utf-8", "replace").decode()
    return repr(text if len(text) <= 40 else text[:39] + "…")
