"""Readings of layouts and platforms: questions with three columns each, made from columns.

How to add a platform: docs/platforms.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from misc_cli.readers.columns import Layout, Refusal, listing, select
from misc_cli.readers.document import Document, encoded, text_array
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.values import CHOICE, CHOICES, as_single, kind_of, split_choices

RowNumbers = npt.NDArray[np.int64]
RowsOut = Callable[[Callable[[str], Any]], Mapping[str, Any]]  # columns by name → reason → mask

JOINED = " | "  # between the cells of an item of several columns
THE_ROW = "the row's number"
EACH_COLUMN = "a column for each"
MOST_NAMES = 4  # columns to list
MOST_QUESTIONS = 500
FIRST_ITEMS, MOST_ROWS = 2000, 100_000  # that agreement is told from
MANY_ITEMS = 5
LEAST_SPREAD = 0.1  # of answers over workers, standard deviation by mean
MOST_KAPPA = 0.95  # beyond it an answer is as good as a property of the item
CONFLICT_ITEMS = 500  # only their answers are looked at for contradictions


@dataclass(frozen=True)
class Question:
    """One question of a file and its answers: three arrow columns of equal length.

    name     what --question calls it
    label    text; for several choices list<string>
    rows     the source's row (from 0) of each answer; None if answer n is row n
    gold     items and labels that the file itself says are right, two columns of text
    columns  role → the column or path that it came from, for people
    seconds  text of the seconds that each answer took, where the format has them beside answers
    """

    name: str
    kind: str
    worker: Any
    item: Any
    label: Any
    rows: RowNumbers | None = None
    gold: tuple[Any, Any] | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    seconds: Any = None

    def __len__(self) -> int:
        return len(self.label)


@dataclass(frozen=True)
class Reading:
    """The reading of a file: its questions, and how they were found.

    aside        reason → the source's rows (from 0) that were left out for it
    notes        what a user should know; they become warnings
    view         the table that rows are counted in, where it is not the file's own
    has_workers  False if nobody knows who answered: only a majority vote is possible then
    layout       the columns as they were found; None for a platform
    paths        name of a column → its path in the file, where answers were within objects
    reader       the platform or layout, with its title for people and how it was told
    """

    questions: list[Question]
    aside: Mapping[str, Sequence[int] | RowNumbers] = field(default_factory=dict)
    notes: Sequence[str] = ()
    has_workers: bool = True
    view: Document | None = None
    layout: Layout | None = None
    paths: Mapping[str, str] = field(default_factory=dict)
    reader: str = ""
    title: str = ""
    how: str = ""


def from_columns(
    document: Document,
    *,
    worker: str | Sequence[str],
    item: str | Sequence[str],
    questions: Mapping[str, str],
    options: ReadOptions,
    aside: RowsOut | None = None,
    gold: Mapping[str, str] | None = None,
) -> Reading:
    """Read a table with one row per answer and a column per question: what most exports are.

    worker     its column, or several that are joined; none is nobody
    item       in the same way; none is the row
    questions  question's name → its column
    aside      returns the rows that are left out, by reason; the first reason counts
    gold       question's name → the column that holds the right answer where it is known
    What the user names (--worker-col, --item-col, --label-col) goes before all of that.
    """
    given = {r: select(document, r, name) for r, name in options.columns.items() if name}
    workers = given.get("worker", (worker,) if isinstance(worker, str) else tuple(worker))
    items = given.get("item", (item,) if isinstance(item, str) else tuple(item))
    if "label" in given:
        known_as = {column: name for name, column in questions.items()}
        questions = {known_as.get(column, column): column for column in given["label"]}
    elif len(questions) > MOST_QUESTIONS:  # only the one that is asked for is parsed
        told = f"{document.name}: {len(questions):,} questions ({listing(list(questions))})"
        questions = {name: own for name, own in questions.items() if name == options.question}
        if not questions:
            raise Refusal(f"{told}; pick one with --question NAME", is_open=True)
    gold = {q: column for q, column in (gold or {}).items() if q in questions}
    needed = list(dict.fromkeys([*workers, *items, *questions.values(), *gold.values()]))
    columns = dict(zip(needed, document.columns(needed), strict=True))  # parsed once, together
    n_rows = len(columns[needed[0]])
    who, what = (joined([columns[name] for name in own], n_rows) for own in (workers, items))

    @cache
    def column(name: str) -> Any:
        return columns[name] if name in columns else document.columns([name])[0]

    reasons, kept = first_reasons(aside(column) if aside else {}, n_rows)
    roles = {"worker": " + ".join(workers) or "nobody", "item": " + ".join(items) or THE_ROW}
    found = []
    for name, own in questions.items():
        question = Question(name, CHOICE, who, what, columns[own], columns={**roles, "label": own})
        question = question if kept is None else take(question, kept)
        kind, labels = by_kind(question.label)
        known = None
        if name in gold:
            known = known_of(what, columns[gold[name]], several=kind == CHOICES)
        if known is not None and labels is not question.label:  # written as the answers are
            lists = split_choices(known[1], kind_of(columns[own]).separator or "")
            single = as_single(lists) if kind == CHOICE else None
            known = known[0], lists if single is None else single
        if kind == CHOICES and options.allow_odd and options.multi is None:
            kind, labels = CHOICE, question.label  # the cell as it is
        found.append(replace(question, kind=kind, label=labels, gold=known))
    reading = Reading(found, reasons)
    return reading if workers else without_workers(document, options, reading)


def roles_of(**columns: str | Sequence[str]) -> dict[str, str]:
    """Return role → its columns, for people; a label of many columns lists the first."""
    told = {}
    for role, names in columns.items():
        if isinstance(names, str):
            told[role] = names
        elif role == "item" or not names:
            told[role] = " + ".join(names) or THE_ROW
        else:
            told[role] = listing(names, MOST_NAMES)
    return told


def joined(columns: Sequence[Any], n_rows: int, first: int = 1) -> Any:
    """Return several columns as one of their cells side by side; the row's number for none."""
    if len(columns) == 1:
        return columns[0]
    if not columns:
        return text_array(str(row + first) for row in range(n_rows))
    texts = [pc.utf8_trim_whitespace(column.cast(pa.string())) for column in columns]
    return pc.binary_join_element_wise(*texts, JOINED).dictionary_encode()


def by_kind(labels: Any) -> tuple[str, Any]:
    """Return the kind of labels, and their values: lists where cells hold several choices."""
    if not pa.types.is_list(labels.type):
        kind = kind_of(labels)
        if kind.separator is None:
            return kind.name, labels
        labels = split_choices(labels, kind.separator)
    single = as_single(labels)
    return (CHOICES, labels) if single is None else (CHOICE, single)


def take(question: Question, rows: Any) -> Question:
    """Return some of a question's answers, by their position."""
    source = rows if question.rows is None else question.rows[rows]
    columns = {r: encoded(getattr(question, r).take(rows)) for r in ("worker", "item", "label")}
    seconds = None if question.seconds is None else question.seconds.take(rows)
    return replace(question, **columns, rows=source, seconds=seconds)


def rows_of(question: Question) -> Any:
    """Return the source's row of each answer."""
    return np.arange(len(question)) if question.rows is None else question.rows


def known_of(items: Any, right: Any, *, several: bool = False) -> tuple[Any, Any] | None:
    """Return each item once, where a right answer stands beside it.

    Of several, one per line, nobody knows which one is right, unless `several` are chosen.
    """
    pattern = "." if several else r"^[^\n]+$"
    told = pc.match_substring_regex(right.dictionary, pattern)
    known = pc.fill_null(told.take(right.indices), False)
    pairs = pa.table({"item": items.cast(pa.string()), "label": right.cast(pa.string())})
    pairs = pairs.filter(known).group_by(["item", "label"], use_threads=False).aggregate([])
    if not pairs.num_rows:
        return None
    known_items, known_labels = (pairs[name].combine_chunks() for name in ("item", "label"))
    return known_items.dictionary_encode(), known_labels.dictionary_encode()


def first_reasons(
    masks: Mapping[str, Any], n_rows: int
) -> tuple[dict[str, RowNumbers], RowNumbers | None]:
    """Return rows by the first reason whose mask has them, and the rows of none; None if all."""
    left = np.zeros(n_rows, dtype=bool)
    reasons: dict[str, RowNumbers] = {}
    for reason, mask in masks.items():
        found = np.asarray(mask) & ~left
        if found.any():
            reasons[reason] = np.flatnonzero(found)
            left |= found
    return reasons, np.flatnonzero(~left) if left.any() else None


def without_workers(document: Document, options: ReadOptions, reading: Reading) -> Reading:
    """Give workers to answers that name none: the file's name, else one for each answer."""
    path, way = Path(document.name), options.worker_from
    name = path.absolute().parent.name if way == "folder" else path.name.split(".")[0]
    questions = []
    for one in reading.questions:
        named = pa.repeat(name, len(one)).dictionary_encode()
        questions.append(replace(one, worker=named if way else nth_of_item(one.item)))
    return replace(reading, questions=questions, has_workers=way is not None)


def nth_of_item(items: Any) -> Any:
    """Return workers that nobody knows: the first answer to an item, the second, and so on."""
    codes = items.indices.to_numpy(zero_copy_only=False)
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    nth = np.empty(len(codes), np.int32)
    nth[order] = np.arange(len(codes)) - np.searchsorted(ordered, ordered)  # those before it
    names = pa.array([f"answer {n + 1}" for n in range(int(nth.max(initial=0)) + 1)])
    return pa.DictionaryArray.from_arrays(pa.array(nth), names)


class Agreement(NamedTuple):
    """The share of pairs of answers to an item that agree, that by chance, and how many pairs."""

    agree: float
    chance: float
    n_pairs: int

    @property
    def kappa(self) -> float:
        return (self.agree - self.chance) / max(0.01, 1 - self.chance)


def agreement(item: Any, label: Any) -> Agreement:
    """Return how far answers to an item agree; `item` and `label` are codes, one of each answer."""
    items, labels = np.asarray(item), np.asarray(label)
    if len(items) > MOST_ROWS:  # all answers of the first items
        rows = np.flatnonzero(items < FIRST_ITEMS)
        items, labels = items[rows], labels[rows]
    items, labels = items.astype(np.int64), labels.astype(np.int64)
    n_classes = int(labels.max(initial=0)) + 1
    _, of_cell = np.unique(items * n_classes + labels, return_counts=True)
    _, of_item = np.unique(items, return_counts=True)
    n_pairs = int((of_item * (of_item - 1)).sum())
    shares = np.bincount(labels) / max(1, len(labels))
    agreeing = int((of_cell * (of_cell - 1)).sum())
    return Agreement(agreeing / max(1, n_pairs), float((shares**2).sum()), n_pairs // 2)


def item_side(*columns: Any, many_more: float = 3) -> tuple[int, str] | None:
    """Return which of two columns of codes names the items, and why; None if nothing tells.

    Answers are spread evenly over items, not over workers, unless these are few; or items are many.
    """
    counts = [np.bincount(np.asarray(codes)) for codes in columns]
    n_rows, sizes = len(columns[0]), [len(own) for own in counts]
    spread = [own.std() / own.mean() for own in counts]
    even, many = int(np.argmin(spread)), int(np.argmax(sizes))
    is_even = max(spread) > max(LEAST_SPREAD, 2 * min(spread)) and 2 * sizes[even] > sizes[many]
    if n_rows >= 20 and is_even:
        return even, f"answers are spread evenly over column {even + 1}, as over items"
    if n_rows >= 50 and sizes[many] >= many_more * min(sizes):
        return many, f"column {many + 1} has {sizes[many]:,} values, the other {min(sizes):,}"
    return None


def are_classes(item: Any, label: Any) -> bool:
    """Return whether two labels or more are given to several items each, where items are many.

    Words that are typed belong to their item; a price that is typed is now 6, now $6.00.
    """
    words = [word.strip() for word in label.dictionary.to_pylist() if word]
    typed = {word[1:].strip().removesuffix(".00") for word in words if word[:1] in ("$", "€", "£")}
    if typed & set(words):
        return False
    n_items = len(item.dictionary)
    items, labels = (np.asarray(c.indices[:MOST_ROWS]).astype(np.int64) for c in (item, label))
    pairs = np.unique(labels * n_items + items)
    n_each = np.bincount(pairs // max(1, n_items))
    return n_items < MANY_ITEMS or int((n_each > 1).sum()) > 1


def share_of_conflicts(worker: Any, item: Any, label: Any) -> tuple[int, int, int]:
    """Return pairs of worker and item among the first items, how many come again, and differ."""
    items = np.asarray(item.indices)
    rows = np.flatnonzero(items < CONFLICT_ITEMS)[: CONFLICT_ITEMS * 100]
    workers = np.asarray(worker.indices)[rows].astype(np.int64)
    pairs = workers * CONFLICT_ITEMS + items[rows]
    _, places, n_rows = np.unique(pairs, return_inverse=True, return_counts=True)
    labels = np.unique(places * (len(label.dictionary) + 1) + np.asarray(label.indices)[rows])
    n_labels = np.bincount(labels // (len(label.dictionary) + 1))
    return len(n_rows), int((n_rows > 1).sum()), int((n_labels > 1).sum())
