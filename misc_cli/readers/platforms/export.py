"""Answers of a platform's export, gathered record by record, and what several platforms share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from misc_cli.errors import InputError
from misc_cli.readers.document import Document, Record, mapping, text, text_array
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.reading import CERTAIN, Match, Question, Reading
from misc_cli.readers.values import (
    BOXES,
    CHOICE,
    CHOICES,
    OTHER,
    SPANS,
    TEXT,
    WITH_CLASSES,
    kind_of,
    kind_of_keys,
)
from misc_cli.readers.vocabulary import is_remark

MOST_QUESTIONS = 100
LOOKED_AT = 20  # records that a detector sees
PLAIN = ""  # the kind of a plain field: its values tell

Field = tuple[str, str, Any]  # a question's name, its kind, the label
_REGIONS = {"boundingboxes": BOXES, "polygons": BOXES, "keypoints": BOXES, "entities": SPANS}


class Export:
    """The answers of one file, gathered one by one; `reading()` makes columns of them.

    A label is text or a list of options; a question is one of several choices if some list has
    more than one, and what is a region once is no class anywhere. If no answer of the file has a
    worker, only a majority vote is possible; if some have, the others are set aside.

    worker, item, label  the fields that answers come from, for people; {} is the question's name
    row                  the record (from 0) that is being read
    """

    def __init__(
        self, document: Document, options: ReadOptions, worker: str, item: str, label: str = "{}"
    ) -> None:
        self.document, self.options, self.row = document, options, 0
        self._paths = {"worker": worker, "item": item, "label": label}
        self._answers: list[tuple[str, int, str, str, Any, str]] = []
        self._columns: dict[str, dict[str, str]] = {}
        self._gold: dict[str, dict[str, Any]] = {}
        self._aside: dict[str, list[int]] = {}

    def records(self, records: Iterable[Record] | None = None) -> Iterator[Record]:
        """Yield the file's objects, or others in their place, and count them in `row`."""
        chosen = (self.document.records or []) if records is None else records
        for row, record in enumerate(chosen):
            self.row = row
            yield record

    def answer(
        self,
        question: str,
        worker: Any,
        item: Any,
        label: Any,
        kind: str = CHOICE,
        paths: Mapping[str, str] | None = None,
    ) -> None:
        """Add one answer; `paths` say where it comes from, if that is not as in other answers."""
        if not text(item).strip():
            raise self.error("an answer without its item's id")
        if question not in self._columns:
            known = {**self._paths, **(paths or {})}
            self._columns[question] = {r: path.replace("{}", question) for r, path in known.items()}
        self._answers.append((question, self.row, text(worker), text(item), label, kind))

    def fields(
        self,
        fields: Iterable[Field],
        worker: Any,
        item: Any,
        gold: str = "",
        paths: Mapping[str, str] | None = None,
    ) -> None:
        """Add each field of a form; the row is set aside as empty if there is none.

        gold  the reason to set the row aside for, where its answers are the right ones
        """
        found = list(fields)
        if gold or not found:
            self.aside(gold if found else "empty")
        for question, kind, label in found:
            if gold:
                self.gold(question, item, label)
            else:
                self.answer(question, worker, item, label, kind, paths)

    def aside(self, reason: str) -> None:
        self._aside.setdefault(reason, []).append(self.row)

    def gold(self, question: str, item: Any, label: Any) -> None:
        self._gold.setdefault(question, {})[text(item)] = label

    def objects(self, value: Any, name: str) -> list[Record]:
        """Return a list of objects, or nothing; anything else is no file of this platform."""
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
            raise self.error(f"{name!r} should be a list of objects; export the file again")
        return value

    def error(self, what: str) -> InputError:
        is_table = self.document.records is None
        where = (
            f"line {self.document.table.line(self.row)}" if is_table else f"record {self.row + 1}"
        )
        return InputError(f"{self.document.name}, {where}: {what}")

    def reading(self, file_per_worker: bool = False) -> Reading:
        """Return the answers by question; `file_per_worker` says that the platform may write so."""
        has_workers = not self._answers or any(who.strip() for _, _, who, *_ in self._answers)
        by_question: dict[str, list[tuple[Any, ...]]] = {}
        for question, row, who, *answer in self._answers:
            if has_workers and not who.strip():
                self._aside.setdefault("without a worker", []).append(row)
            else:
                by_question.setdefault(question, []).append((row, who, *answer))
        questions = [self._question(*pair) for pair in by_question.items()]
        alone = [len(q) == len(q.item.dictionary) for q in questions if q.kind in WITH_CLASSES]
        nobody = file_per_worker and not has_workers and self.options.worker_from is None
        if nobody and alone and all(alone):
            raise InputError(
                f"{self.document.name}: no worker is named, and each item has one answer; if each "
                "file is one worker's, give them all, with --worker-from"
            )
        return Reading(questions, self._aside, has_workers=has_workers)

    def _question(self, name: str, answers: list[tuple[Any, ...]]) -> Question:
        rows, workers, items, labels, kinds = zip(*answers, strict=True)
        kind = _kind(name, kinds, labels)
        gold = self._gold.get(name)
        return Question(
            name,
            kind,
            text_array(workers),
            text_array(items),
            labels_of(labels, kind),
            rows=np.array(rows, dtype=np.int64),
            gold=None if gold is None else (text_array(gold), labels_of(gold.values(), kind)),
            columns=self._columns[name],
        )


def _kind(name: str, kinds: Sequence[str], labels: Sequence[Any]) -> str:
    """Return the kind of a question from those of its answers, and from their values."""
    regions = [kind for kind in kinds if kind not in (*WITH_CLASSES, PLAIN)]
    if regions:
        return regions[-1]
    if CHOICES in kinds or any(isinstance(label, list) and len(label) > 1 for label in labels):
        return CHOICES
    known = next(filter(None, kinds), None)
    if known is not None:
        return known
    return inferred(name, labels_of(labels, CHOICE))


def inferred(name: str, labels: Any) -> str:
    """Return the kind of a plain field: a remark by its name, anything else by its values."""
    found = TEXT if is_remark(name) else kind_of(labels).name
    return CHOICE if found == CHOICES else found


def labels_of(values: Iterable[Any], kind: str) -> Any:
    """Return labels as a column: of sorted lists for several choices, else of text."""
    if kind == CHOICES:
        return pa.array([_options(value) for value in values], pa.list_(pa.string()))
    if kind in WITH_CLASSES:
        return text_array("".join(_options(value)) for value in values)
    return text_array(map(text, values))


def _options(value: Any) -> list[str]:
    chosen = value if isinstance(value, list) else [] if value in (None, "") else [value]
    return sorted({text(one) for one in chosen})


def of_records(test: Callable[[Record], str | None]) -> Callable[[Document], Match | None]:
    """Return a detector that is certain if `test` says a reason for one of the first records."""

    def detect(document: Document) -> Match | None:
        reasons = map(test, (document.records or [])[:LOOKED_AT])
        return next((Match(CERTAIN, reason) for reason in reasons if reason), None)

    return detect


def of_names(test: Callable[[set[str]], str | None]) -> Callable[[Document], Match | None]:
    """Return a detector that is certain if `test` says a reason for a table's names."""

    def detect(document: Document) -> Match | None:
        reason = test(set(document.names)) if document.records is None else None
        return Match(CERTAIN, reason) if reason else None

    return detect


def kind_of_region(value: Any) -> str | None:
    """Return BOXES or SPANS for what marks a part of the item; None for what is about all of it."""
    return kind_of_keys(map(str, mapping(value)))


def form_fields(content: Any, prefix: str = "") -> Iterator[Field]:
    """Yield each field of a form, as Amazon's workers' pages send it.

    {"animal": {"label": "cat"}} by crowd-classifier, {"labels": [...]} by its multi-select,
    {"animal": {"cat": true, "dog": false}} by radio buttons, {"animal": "cat"} by a plain field.
    """
    for name, value in mapping(content).items():
        question = f"{prefix}{name}"
        if isinstance(value, dict):
            yield from _form_field(question, value)
        elif isinstance(value, list):
            region = next(filter(None, map(kind_of_region, value)), None)
            plain = all(isinstance(one, str | bool) for one in value)
            yield question, region or (CHOICES if plain else OTHER), value if plain else text(value)
        elif value is not None:
            yield question, PLAIN, text(value)


def _form_field(question: str, value: Record) -> Iterator[Field]:
    only = next(iter(value.values()), None)
    marked = [_REGIONS[key.lower()] for key in map(str, value) if key.lower() in _REGIONS]
    if set(value) in ({"label"}, {"on"}) and isinstance(only, str | bool):
        yield question, CHOICE, text(only)
    elif set(value) == {"labels"} and isinstance(only, list):
        yield question, CHOICES, only
    elif value and all(isinstance(on, bool) for on in value.values()):
        yield question, CHOICE, [option for option, on in value.items() if on]
    elif region := kind_of_region(value) or next(iter(marked), None):
        yield question, region, text(value)
    else:
        yield from form_fields(value, f"{question}.")


def narrowed(where: str, questions: Mapping[str, str], options: ReadOptions) -> dict[str, str]:
    """Return the questions worth parsing: of very many only the one that is asked for."""
    if len(questions) <= MOST_QUESTIONS or options.label_col is not None:
        return dict(questions)
    if options.question is not None and options.question in questions:
        return {options.question: questions[options.question]}
    first = ", ".join(list(questions)[:8])
    raise InputError(
        f"{where}: {len(questions):,} questions ({first}, …); pick one with --question NAME"
    )


def varying(document: Document, item: str, names: Sequence[str]) -> list[str]:
    """Return the columns that differ within some item: answers do, an item's data does not."""
    items, *columns = document.columns([item, *names])
    n_items = len(items.dictionary.take(items.indices.unique()))
    found = []
    for name, column in zip(names, columns, strict=True):
        if len(column.dictionary) == 1:
            continue
        filled = pa.table({"item": items.indices, "value": column.indices})
        if filled.group_by(["item", "value"], use_threads=False).aggregate([]).num_rows > n_items:
            found.append(name)
    return found


def no_question(document: Document, names: Sequence[str]) -> InputError:
    return InputError(
        f"{document.name}: no column is surely a question among {', '.join(names[:12])}; "
        "name it with --label-col"
    )
