"""Tools of several platforms' readers: answers of nested JSON, fields of forms, detectors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
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

Field = tuple[str, str, Any]  # a question's name, its kind, the label


class Answers:
    """The answers of nested JSON, gathered one by one; `reading()` makes columns of them.

    Each question's kind is that of its first answer; a question that turns out to have lists is
    one of several choices, and what is a region once is no class anywhere. If no answer of the
    file has a worker, only a majority vote is possible; if some have, the others are set aside.

    worker, item, label  the fields that answers come from, for people; {} is the question's name
    """

    def __init__(self, document: Document, worker: str, item: str, label: str = "{}") -> None:
        self._document = document
        self._roles = {"worker": worker, "item": item, "label": label}
        self._answers: dict[str, list[tuple[int, str, str, Any]]] = {}
        self._nameless: list[tuple[Any, ...]] = []
        self._kinds: dict[str, str] = {}
        self._gold: dict[str, dict[str, Any]] = {}
        self._aside: dict[str, list[int]] = {}
        self._columns: dict[str, dict[str, str]] = {}

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
        """Add one answer; `label` is text, or for several choices a list of texts."""
        if not text(item).strip():
            where = f"{self._document.name}, record {row + 1}"
            raise InputError(f"{where}: an answer without its item's id")
        known = {**self._roles, **(columns or {})}
        known["label"] = known["label"].replace("{}", question)
        self._columns.setdefault(question, known)
        if text(worker).strip():
            self._add(question, worker, item, label, row, kind)
        else:
            self._nameless.append((question, "", item, label, row, kind))

    def _add(self, question: str, worker: Any, item: Any, label: Any, row: int, kind: str) -> None:
        known = self._kinds.setdefault(question, kind)
        if (known == CHOICE and kind == CHOICES) or kind not in WITH_CLASSES:
            self._kinds[question] = kind
        self._answers.setdefault(question, []).append((row, text(worker), text(item), label))

    def fields(
        self,
        fields: Iterable[Field],
        worker: Any,
        item: Any,
        row: int,
        gold: str = "",
        columns: Mapping[str, str] | None = None,
    ) -> None:
        """Add each field of a form; the row is set aside as empty if there is none.

        gold  the reason to set the row aside for, where its answers are the right ones
        """
        found = list(fields)
        if gold or not found:
            self.aside(gold if found else "empty", row)
        for question, kind, label in found:
            if gold:
                self.gold(question, item, label)
            else:
                self.answer(question, worker, item, label, row, kind, columns)

    def said(
        self,
        question: str,
        worker: Any,
        item: Any,
        options: Iterable[Any],
        row: int,
        several: bool = False,
        columns: Mapping[str, str] | None = None,
    ) -> None:
        """Add one answer that is a list of options: a choice if there is never more than one."""
        chosen = list(options)
        kind, label = (CHOICES, [*map(text, chosen)]) if several else choice("", chosen)[1:]
        self.answer(question, worker, item, label, row, kind, columns)

    def aside(self, reason: str, row: int) -> None:
        self._aside.setdefault(reason, []).append(row)

    def gold(self, question: str, item: Any, label: Any) -> None:
        self._gold.setdefault(question, {})[text(item)] = label

    def reading(self) -> Reading:
        has_workers = bool(self._answers) or not self._nameless
        for answer in self._nameless:
            if has_workers:
                self.aside("without a worker", answer[4])
            else:
                self._add(*answer)
        questions = [self._question(name) for name in self._answers]
        return Reading(questions, self._aside, has_workers=has_workers)

    def inferred(self) -> Reading:
        """Return the reading of plain fields, which may hold anything."""
        return with_inferred_kinds(self.reading())

    def _question(self, name: str) -> Question:
        rows, workers, items, labels = zip(*self._answers[name], strict=True)
        kind = self._kinds[name]
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


def labels_of(values: Iterable[Any], kind: str) -> Any:
    """Return labels as a column: of lists for several choices, else of text."""
    if kind == CHOICES:
        return pa.array([as_choices(value) for value in values], pa.list_(pa.string()))
    return text_array(text(value) for value in values)


def as_choices(value: Any) -> list[str]:
    """Return the chosen options, sorted, each once: the order of clicks never matters."""
    if value is None or value == "":
        return []
    return sorted({text(one) for one in (value if isinstance(value, list) else [value])})


def refuse_single(document: Document, options: ReadOptions, reading: Reading) -> Reading:
    """Return the reading, unless it has one answer of nobody for each item: no vote is in that."""
    alone = [len(q) == len(q.item.dictionary) for q in reading.questions if q.kind in WITH_CLASSES]
    if not reading.has_workers and options.worker_from is None and alone and all(alone):
        raise InputError(
            f"{document.name}: no worker is named, and each item has one answer; if each file is "
            "one worker's, name all files and say --worker-from filename (or folder)"
        )
    return reading


def objects_at(document: Document, row: int, value: Any, name: str) -> list[Record]:
    """Return a list of objects, or nothing; anything else is no file of this platform."""
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise InputError(
            f"{document.name}, record {row + 1}: {name!r} should be a list of objects; "
            "export the file again"
        )
    return value


def kind_of_region(value: Any) -> str | None:
    """Return BOXES or SPANS for what marks a part of the item; None for what is about all of it."""
    return kind_of_keys(map(str, mapping(value)))


def form_answers(content: Any, prefix: str = "") -> Iterator[Field]:
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
            yield question, CHOICE, text(value)


def _form_field(question: str, value: Record) -> Iterator[Field]:
    if set(value) == {"label"} and not isinstance(value["label"], dict | list):
        yield question, CHOICE, text(value["label"])
    elif set(value) == {"labels"} and isinstance(value["labels"], list):
        yield question, CHOICES, [text(one) for one in value["labels"]]
    elif set(value) == {"on"} and isinstance(value["on"], bool):  # a single checkbox
        yield question, CHOICE, text(value["on"])
    elif value and all(isinstance(one, bool) for one in value.values()):
        chosen = [option for option, on in value.items() if on]
        yield choice(question, chosen)
    elif kind_of_region(value):
        yield question, kind_of_region(value) or BOXES, text(value)
    else:
        regions = {"boundingboxes": BOXES, "polygons": BOXES, "keypoints": BOXES, "entities": SPANS}
        kinds = [regions[key.lower()] for key in value if key.lower() in regions]
        if kinds:
            yield question, kinds[0], text(value)
        else:
            yield from form_answers(value, f"{question}.")


def choice(question: str, chosen: Sequence[Any]) -> Field:
    """Return the field of a list of options: a choice if there is not more than one."""
    options = [text(one) for one in chosen]
    return (
        (question, CHOICES, options) if len(options) > 1 else (question, CHOICE, "".join(options))
    )


def is_flag(cells: Iterable[str]) -> bool:
    """Return whether cells are all true or false, as a column of a checkbox is."""
    values = {cell.strip().lower() for cell in cells}
    return bool(values) and values <= {"true", "false"}


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


def with_inferred_kinds(reading: Reading) -> Reading:
    """Return the reading with the kind of each plain field: remarks by name, the rest by look."""
    questions = [
        replace(question, kind=_inferred(question)) if question.kind == CHOICE else question
        for question in reading.questions
    ]
    return replace(reading, questions=questions)


def _inferred(question: Question) -> str:
    if is_remark(question.name):
        return TEXT
    found = kind_of(question.label)
    return CHOICE if found.name == CHOICES else found.name
