"""What a reader is and what it gives back. How to add one: docs/input.md, "Adding a platform"."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from misc_cli.errors import InputError
from misc_cli.readers.document import Document, text, text_array
from misc_cli.readers.values import BOXES as BOXES
from misc_cli.readers.values import CHOICE as CHOICE
from misc_cli.readers.values import CHOICES as CHOICES
from misc_cli.readers.values import NUMBER as NUMBER
from misc_cli.readers.values import OTHER as OTHER
from misc_cli.readers.values import SPANS as SPANS
from misc_cli.readers.values import TEXT as TEXT
from misc_cli.readers.values import WITH_CLASSES as WITH_CLASSES
from misc_cli.readers.values import as_single, kind_of, split_choices

if TYPE_CHECKING:
    from misc_cli.readers.options import ReadOptions

RowNumbers = npt.NDArray[np.int64]

# How sure a detector is that the file is its own.
CERTAIN = 3  # marks that only this platform leaves
LIKELY = 2  # its usual columns, which others might have too


@dataclass(frozen=True)
class Match:
    """A detector's verdict: how sure, and what gave the file away."""

    sure: int
    why: str


@dataclass(frozen=True)
class Question:
    """One question of a file and its answers: three arrow columns of equal length.

    name     what --question calls it
    label    text; for several choices list<string>
    rows     the source's row (from 0) of each answer; None if answer n is row n
    gold     items and labels that the file itself says are right, two columns of text
    columns  role → the column or path that it came from, for people
    """

    name: str
    kind: str
    worker: Any
    item: Any
    label: Any
    rows: RowNumbers | None = None
    gold: tuple[Any, Any] | None = None
    columns: Mapping[str, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.label)


@dataclass(frozen=True)
class Reading:
    """What a reader made of a file.

    aside        reason → the source's rows (from 0) that were left out for it
    notes        what a user should know; they become warnings
    view         the table that rows are counted in, where it is not the file's own
    has_workers  False if nobody knows who answered: only a majority vote is possible then
    """

    questions: list[Question]
    aside: Mapping[str, Sequence[int] | RowNumbers] = field(default_factory=dict)
    notes: Sequence[str] = ()
    has_workers: bool = True
    view: Document | None = None


@dataclass(frozen=True)
class Reader:
    """One format: how it is told, what it is, how it is read.

    title    for people: "Label Studio, JSON"
    explain  one sentence: which field is worker, item, label, and what is left out
    page     the documentation it was written from
    """

    name: str
    title: str
    explain: str
    detect: Callable[[Document], Match | None]
    read: Callable[[Document, ReadOptions], Reading]
    page: str = ""


class Collector:
    """Answers of nested JSON, gathered one by one; `reading()` makes columns of them.

    Each question's kind is that of its first answer; a question that turns out to have lists is
    one of several choices.
    """

    def __init__(self) -> None:
        self._answers: dict[str, list[tuple[int, str, str, Any]]] = {}
        self._kinds: dict[str, str] = {}
        self._gold: dict[str, dict[str, Any]] = {}
        self._aside: dict[str, list[int]] = {}
        self._columns: dict[str, Mapping[str, str]] = {}

    def answer(
        self,
        question: str,
        worker: Any,
        item: Any,
        label: Any,
        row: int,
        kind: str = CHOICE,
        columns: Mapping[str, str] | None = None,
    ) -> None:
        """One answer; `label` is text, or for several choices a list of texts."""
        if self._kinds.setdefault(question, kind) == CHOICE and kind == CHOICES:
            self._kinds[question] = CHOICES
        self._columns.setdefault(question, columns or {})
        self._answers.setdefault(question, []).append((row, text(worker), text(item), label))

    def aside(self, reason: str, row: int) -> None:
        self._aside.setdefault(reason, []).append(row)

    def gold(self, question: str, item: Any, label: Any) -> None:
        self._gold.setdefault(question, {})[text(item)] = label

    def reading(self, notes: Sequence[str] = (), has_workers: bool = True) -> Reading:
        names = list(self._answers)
        questions = [self._question(name) for name in names]
        return Reading(questions, self._aside, notes, has_workers)

    def _question(self, name: str) -> Question:
        rows, workers, items, labels = zip(*self._answers[name], strict=True)
        kind = self._kinds[name]
        gold = self._gold.get(name)
        return Question(
            name,
            kind,
            text_array(workers),
            text_array(items),
            _labels(labels, kind),
            rows=np.array(rows, dtype=np.int64),
            gold=None if gold is None else (text_array(gold), _labels(gold.values(), kind)),
            columns=self._columns[name],
        )


def _labels(values: Iterable[Any], kind: str) -> Any:
    if kind == CHOICES:
        return pa.array([as_choices(value) for value in values], pa.list_(pa.string()))
    return text_array(text(value) for value in values)


def as_choices(value: Any) -> list[str]:
    """The chosen options, sorted, each once: the order of clicks never matters."""
    if value is None or value == "":
        return []
    return sorted({text(one) for one in (value if isinstance(value, list) else [value])})


def from_columns(
    document: Document,
    *,
    worker: str,
    item: str,
    questions: Mapping[str, str],
    options: ReadOptions,
    aside: Mapping[str, Callable[[Any], Any]] | None = None,
    gold: Mapping[str, str] | None = None,
) -> Reading:
    """A table with one row per answer and a column per question: what most platforms export.

    questions  question's name → its column
    aside      reason → a function of `column`, itself a function from a name to its arrow text
               column, that gives a boolean array, or None for none: rows to leave out. The
               first reason counts.
    gold       question's name → the column that holds the right answer where it is known
    What the user names (--worker-col, --item-col, --label-col) goes before all of that.
    """
    given = {role: name for role, name in options.columns.items() if name is not None}
    chosen = {role: user_column(document, role, name) for role, name in given.items()}
    worker, item = chosen.get("worker", worker), chosen.get("item", item)
    if "label" in chosen:
        questions = {q: c for q, c in questions.items() if c == chosen["label"]} or {
            chosen["label"]: chosen["label"]
        }
    gold = {q: column for q, column in (gold or {}).items() if q in questions}
    needed = list(dict.fromkeys([worker, item, *questions.values(), *gold.values()]))
    columns = dict(zip(needed, document.columns(needed), strict=True))  # parsed once, together
    reasons, kept = _set_aside(document, aside or {}, columns, len(columns[worker]))
    found = []
    for name, column in questions.items():
        known = known_of(columns[item], columns[gold[name]]) if name in gold else None
        values = [columns[worker], columns[item], columns[column]]
        if kept is not None:
            values = [compact(value.take(kept)) for value in values]
        roles = {"worker": worker, "item": item, "label": column}
        who, what, said = values
        kind, as_lists = by_kind(said)
        if kind == CHOICES and options.allow_odd and options.multi is None:
            kind = CHOICE  # the cell as it is
        else:
            said = as_lists
        if known is not None:
            known = known[0], _as_answered(known[1], column=columns[column])
        found.append(Question(name, kind, who, what, said, kept, known, roles))
    return Reading(found, reasons)


def compact(column: Any) -> Any:
    """A dictionary column without the words that no row uses any more."""
    if not pa.types.is_dictionary(column.type):
        return column
    return column.dictionary_decode().dictionary_encode()


def _as_answered(known: Any, column: Any) -> Any:
    """Right answers, written as the answers are: lists where those hold lists."""
    separator = kind_of(column).separator
    if separator is None:
        return known
    lists = split_choices(known, separator)
    is_single = as_single(split_choices(column, separator)) is not None
    single = as_single(lists) if is_single else None
    return lists if single is None else single


def by_kind(labels: Any) -> tuple[str, Any]:
    """The kind of a text column, and its values: lists where a cell holds several choices."""
    kind = kind_of(labels)
    if kind.separator is None:
        return kind.name, labels
    lists = split_choices(labels, kind.separator)
    single = as_single(lists)
    return (CHOICES, lists) if single is None else (CHOICE, single)


def split_by(question: Question, values: Any) -> list[Question]:
    """One question for each value of a column that stands beside the answers, by name."""
    codes = np.asarray(values.indices)
    if question.rows is not None:
        codes = codes[question.rows]
    names = values.dictionary.to_pylist()
    parts = []
    for code in np.unique(codes):
        part = take(question, np.flatnonzero(codes == code))
        if pa.types.is_list(part.label.type):
            single = as_single(part.label)
            kind, label = (part.kind, part.label) if single is None else (CHOICE, single)
        else:
            kind, label = by_kind(part.label)
        name = names[code].strip() or "(empty)"
        parts.append(replace(part, name=name, kind=kind, label=label))
    return sorted(parts, key=lambda part: part.name)


def take(question: Question, rows: Any) -> Question:
    """Some of a question's answers, by their position."""
    source = rows if question.rows is None else question.rows[rows]
    columns = {r: compact(getattr(question, r).take(rows)) for r in ("worker", "item", "label")}
    return replace(question, **columns, rows=source)


def known_of(items: Any, right: Any) -> tuple[Any, Any] | None:
    """Each item once, where a right answer stands beside it."""
    known = pc.fill_null(pc.not_equal(right.cast(pa.string()), ""), False)
    pairs = pa.table({"item": items.cast(pa.string()), "label": right.cast(pa.string())})
    pairs = pairs.filter(known).group_by(["item", "label"], use_threads=False).aggregate([])
    if not pairs.num_rows:
        return None
    known_items, known_labels = (pairs[name].combine_chunks() for name in ("item", "label"))
    return known_items.dictionary_encode(), known_labels.dictionary_encode()


def _set_aside(
    document: Document,
    aside: Mapping[str, Callable[[Any], Any]],
    columns: Mapping[str, Any],
    n_rows: int,
) -> tuple[dict[str, RowNumbers], RowNumbers | None]:
    """Rows by reason, and the rows that stay; None if all do."""

    @cache
    def column(name: str) -> Any:
        return columns[name] if name in columns else document.columns([name])[0]

    left = np.zeros(n_rows, dtype=bool)
    reasons: dict[str, RowNumbers] = {}
    for reason, condition in aside.items():
        hit = condition(column)
        if hit is None:
            continue
        found = np.asarray(pc.fill_null(hit, False) if isinstance(hit, pa.Array) else hit) & ~left
        if found.any():
            reasons[reason] = np.flatnonzero(found)
            left |= found
    return reasons, np.flatnonzero(~left) if left.any() else None


def plain_words(column: Any) -> Any:
    """What a column holds, each once, without case and spaces around it."""
    return pc.utf8_lower(pc.utf8_trim_whitespace(column.dictionary))


def is_one_of(column: Any, *values: str) -> Any:
    """Rows whose text, without case and spaces around it, is one of these; a boolean array."""
    hit = pc.is_in(plain_words(column), pa.array([value.lower() for value in values]))
    if not pc.any(hit).as_py():  # no row need be looked at
        return pa.array(np.zeros(len(column), dtype=bool))
    return hit.take(column.indices)


def user_column(document: Document, role: str, asked: str) -> str:
    """The column that the user means, by name or position."""
    from misc_cli.readers.columns import named

    at = named(document.name, document.names, role, asked)
    if document.names.count(document.names[at]) > 1:
        raise InputError(
            f"{document.name}: {document.names.count(document.names[at])} columns are called "
            f"{document.names[at]!r}; rename them"
        )
    return document.names[at]
