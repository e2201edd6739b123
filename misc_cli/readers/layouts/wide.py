"""A row per item and a column per worker: image,rater_1,rater_2; pairs, worker_1,label_1; a matrix.

Found by themselves where the columns' names say that they are people (annotator words with a number
or a letter, addresses, language models) and the columns share their values; else --layout wide says
so. In pairs the worker's column holds who answered, the other what; numbers say which belong
together. A matrix has no names: its rows are items, its columns workers.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from misc_cli.errors import InputError
from misc_cli.readers.columns import Layout, listing, naming_column, select, truth_synonyms
from misc_cli.readers.document import Document
from misc_cli.readers.layouts.melt import LABEL, Columns, melt, share_values
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.reading import (
    CERTAIN,
    EACH_COLUMN,
    Match,
    Question,
    Reader,
    Reading,
    by_kind,
    joined,
    known_of,
    roles_of,
    take,
)
from misc_cli.readers.values import have_classes
from misc_cli.readers.vocabulary import (
    ABOUT,
    BETWEEN,
    ITEM_NAME,
    MODEL,
    NUMBERED_WORKER,
    WORKER_WORDS,
    normalise,
    words_of,
)

_NAMED = re.compile(rf"(?P<word>{WORKER_WORDS}){BETWEEN}+(?P<name>[^\W\d]\w*)", re.IGNORECASE)
_QUESTION = re.compile(r"(?P<who>.+?)[\s_.:]+(?P<what>[A-Za-z]+)")  # alice_mood
_ADDRESS = re.compile(r"[^@\s]+@[^@\s]+\.[a-z]+", re.IGNORECASE)
_WALLET = re.compile(r"0x[0-9a-fA-F]{3,}")
_NO_NAMES = {
    *("id", "ids", "name", "names", "email", "confidence", "comment", "comments", "time", "age"),
    *("gender", "count", "country", "agreement", "notes", "note", "type", "group", "accuracy"),
    *("label", "labels", "answer", "rating", "score", "response", "choice", "weight", "trust"),
}
_WHO = {"id", "name", "email", "workerid", "mail", "login"}
_WORKER_WORD = re.compile(WORKER_WORDS, re.IGNORECASE)
_LAST = re.compile(rf"(?P<stem>.*?){BETWEEN}*(?P<number>\d+|(?<={BETWEEN})[A-Za-z]\d*)")


def worker_columns(document: Document) -> Columns:
    """Return the columns that are surely workers', by question; empty if there are none."""
    names = [name.strip() for name in document.names]
    finds = (_by_number(names), _by_address(names), _by_model(names), _by_name(names))
    for found in finds:
        if len({worker for columns in found.values() for worker in columns}) >= 2:
            return {
                question: columns
                for question, columns in found.items()
                if len(columns) >= 2
                and share_values(document, columns)
                and have_classes(_cells(document, columns.values()))
                and not words_of(question) & ABOUT
            }
    return {}


def _cells(document: Document, columns: Iterable[str]) -> list[str]:
    return [cell for column in columns for cell in document.sampled(column)]


def looks_like_workers(names: Sequence[str]) -> bool:
    """Return whether names are surely those of who answers: w1, ann@example.org, gpt-4o."""
    patterns = (NUMBERED_WORKER, _ADDRESS, MODEL, _WALLET)
    return all(any(pattern.fullmatch(name) for pattern in patterns) for name in names)


def looks_like_items(names: Sequence[str]) -> bool:
    """Return whether names are surely those of what is judged: a.jpg, img_3, https://…"""
    return all(ITEM_NAME.fullmatch(name) for name in names)


def _by_number(names: Sequence[str]) -> Columns:
    found: Columns = {}
    for name in names:
        match = NUMBERED_WORKER.fullmatch(name)
        if match is not None:
            found.setdefault(_rest(match), {}).setdefault(match["who"], name)
    return {q: columns for q, columns in found.items() if len(columns) >= 2}


def _rest(match: re.Match[str]) -> str:
    return " ".join(filter(None, (match["before"], match["after"]))) or LABEL


def _by_address(names: Sequence[str]) -> Columns:
    return {LABEL: {name: name for name in names if _ADDRESS.fullmatch(name)}}


def _by_model(names: Sequence[str]) -> Columns:
    """Return columns of models by question: gpt-4_mood, gpt-4_spam, claude-3_mood, claude-3_spam.

    The last word is a question where each of several models has it, or one model several.
    """
    models = [name for name in names if MODEL.fullmatch(name)]
    parts = {name: part for name in models if (part := _QUESTION.fullmatch(name))}
    who = Counter(part["who"] for part in parts.values())
    what = Counter(part["what"] for part in parts.values())
    if not who or (max(who.values()) == 1 and max(what.values()) < len(models)):
        return {LABEL: {name: name for name in models}}
    found: Columns = {}
    for name, part in parts.items():
        found.setdefault(part["what"], {})[part["who"]] = name
    return {question: columns for question, columns in found.items() if len(columns) >= 2}


def _by_name(names: Sequence[str]) -> Columns:
    found: Columns = {}
    for name in names:
        match = _NAMED.fullmatch(name)
        if match is not None and normalise(match["name"]) not in _NO_NAMES:
            found.setdefault(match["word"].lower(), {})[match["name"]] = name
    return {LABEL: max(found.values(), key=len, default={})}


def _declared(document: Document, options: ReadOptions, items: Sequence[str]) -> Columns:
    """Return the columns that --worker-col (or --label-col) names, else all but the item's."""
    given = options.worker_col or options.label_col
    if given is not None:
        names = select(document, "worker", given)
    else:
        certain = {} if document.table.header is False else worker_columns(document)
        if certain and options.layout != "matrix":
            return certain
        names = tuple(n for n in document.names if n not in _gold_columns(document))
    names = tuple(name for name in names if name not in items)
    if not names:
        raise InputError(
            f"{document.name}: --layout {options.layout} needs a column for each worker, and there "
            f"is only {listing(document.names)}"
        )
    if document.table.header is False:
        first = 0 if document.format == "npy" else 1  # as NumPy counts
        return {LABEL: {str(document.names.index(name) + first): name for name in names}}
    return {LABEL: {name: name for name in names}}


def item_columns(
    document: Document, options: ReadOptions, workers: Sequence[str] | None = None
) -> tuple[str, ...]:
    """Return the columns that name the items; none if rows are counted instead."""
    if options.item_col is not None:
        return select(document, "item", options.item_col)
    if document.table.header is False or options.layout == "matrix":
        return ()
    return naming_column(document, [n for n in document.names if n not in (workers or ())])


def _gold_columns(document: Document) -> list[str]:
    known = truth_synonyms()["label"][0]
    return [name for name in document.names if normalise(name) in known]


def detect(document: Document) -> Match | None:
    if document.table.header is False:
        return None
    names = [column for own in worker_columns(document).values() for column in own.values()]
    told = f"a column for each of several workers: {listing(names, 4)}"
    return Match(CERTAIN, told) if names else None


def read(document: Document, options: ReadOptions) -> Reading:
    certain = [] if document.table.header is False else list(worker_columns(document).values())
    taken = [column for own in certain for column in own.values()]
    names = item_columns(document, options, taken)
    columns = _declared(document, options, names)
    taken = [column for own in columns.values() for column in own.values() if column not in names]
    n_rows = len(document.columns([taken[0]])[0])
    items = joined(document.columns(names), n_rows, first=0 if document.format == "npy" else 1)
    gold = [name for name in _gold_columns(document) if name not in taken]
    known = known_of(items, document.columns(gold)[0]) if len(gold) == 1 else None
    gaps, questions = [], []
    for name, of_worker in columns.items():
        melted = melt(document, items, {w: c for w, c in of_worker.items() if c in taken})
        gaps.append(melted.missing)
        roles = roles_of(worker=EACH_COLUMN, item=names, label=list(of_worker.values()))
        kind, labels = by_kind(melted.label)
        who, rows = melted.by_column, melted.rows
        question = Question(name, kind, who, melted.by_row, labels, rows, known, roles)
        questions.append(_without_negatives(document, options, question))
    is_matrix = options.layout == "matrix"
    layout = Layout("matrix", item=names) if is_matrix else Layout("wide", tuple(taken), names)
    missing = np.concatenate(gaps)
    aside = {"no answer": missing} if len(missing) else {}
    return Reading(questions, aside, layout=layout if len(columns) == 1 else None)


def _without_negatives(document: Document, options: ReadOptions, question: Question) -> Question:
    """Return a question of a NumPy matrix without negative numbers: they mean no answer there."""
    labels = question.label
    if document.format != "npy" or options.no_answer or not pa.types.is_dictionary(labels.type):
        return question
    said = np.array([not word.startswith("-") for word in labels.dictionary.to_pylist()])
    return take(question, np.flatnonzero(said[np.asarray(labels.indices)]))


READER = Reader(
    name="wide",
    title="a table with a row per item and a column per worker",
    detect=detect,
    read=read,
)


def detect_matrix(document: Document) -> Match | None:
    """Return whether a NumPy matrix surely holds labels: -1 or gaps, or few classes everywhere."""
    if document.format != "npy":
        return None
    cells = {cell for row in document.table.sample for cell in row}
    if any("." in cell for cell in cells) or cells - {""} == {"-1", "0", "1"}:
        return None
    has_gaps = "" in cells or any(cell.startswith("-") for cell in cells)
    few = len(cells) <= 10 and max(map(len, cells)) == 1 and len(document.table.sample) > 1
    return Match(CERTAIN, "a matrix of labels") if has_gaps or few else None


MATRIX = Reader(
    name="matrix",
    title="a matrix of labels: a row per item, a column per worker",
    detect=detect_matrix,
    read=lambda document, options: read(document, replace(options, layout="matrix")),
)

Series = Mapping[str, str]  # number → column


def find_pairs(document: Document) -> tuple[Series, dict[str, Series]] | None:
    """Return the workers' columns, and those of each question; None if there are no pairs.

    worker_1 beside label_1, annotator_G1 beside hate_G1, rater1_id beside rater1_mood.
    """
    groups: dict[str, dict[str, str]] = {}
    for name in document.names:
        worker, last = NUMBERED_WORKER.fullmatch(name.strip()), _LAST.fullmatch(name.strip())
        if worker is not None and worker["after"]:
            number = re.sub(r"\D+", "", worker["who"]) or worker["who"][-1]
            groups.setdefault(worker["after"], {})[number] = name
        elif last is not None:
            groups.setdefault(last["stem"], {})[last["number"]] = name
    for stem, who in groups.items():
        is_worker = _WORKER_WORD.fullmatch(stem.strip(" _-.:#/")) or normalise(stem) in _WHO
        if len(who) < 2 or not is_worker:
            continue
        said = {q: c for q, c in groups.items() if q != stem and set(c) == set(who)}
        said = {q: c for q, c in said.items() if not words_of(q) & ABOUT}
        said = {q: c for q, c in said.items() if have_classes(_cells(document, c.values()))}
        if said:
            return who, dict(said)
    return None


def detect_pairs(document: Document) -> Match | None:
    found = None if document.table.header is False else find_pairs(document)
    if found is None:
        return None
    names = [*found[0].values(), *(name for own in found[1].values() for name in own.values())]
    return Match(CERTAIN, f"pairs of columns, who and what: {listing(names, 4)}")


def declared_pairs(
    document: Document, options: ReadOptions
) -> tuple[Series, dict[str, Series]] | None:
    """Return as many columns of workers as of labels, if the user named several of both."""
    if options.worker_col is None or options.label_col is None or options.layout is not None:
        return None
    who = select(document, "worker", options.worker_col)
    said = select(document, "label", options.label_col)
    if len(who) != len(said) or len(who) < 2:
        return None
    numbers = [str(number) for number in range(len(who))]
    pairs = {LABEL: dict(zip(numbers, said, strict=True))}
    return dict(zip(numbers, who, strict=True)), dict(pairs)


def read_pairs(document: Document, options: ReadOptions) -> Reading:
    found = declared_pairs(document, options) or find_pairs(document)
    if found is None:
        raise InputError(f"{document.name}: no pairs of columns such as worker_1 and label_1")
    who, said = found
    taken = [*who.values(), *(column for series in said.values() for column in series.values())]
    item = item_columns(document, options, taken)
    people = pa.concat_arrays([c.cast(pa.string()) for c in document.columns(list(who.values()))])
    people = pc.utf8_trim_whitespace(people)
    n_rows = len(people) // len(who)
    names = joined(document.columns(item), n_rows)
    questions = []
    for question, series in said.items():
        melted = melt(document, names, {number: series[number] for number in who})
        workers = people.take(np.asarray(melted.by_column.indices) * n_rows + melted.rows)
        nameless = np.flatnonzero(np.asarray(pc.equal(workers, "")))
        if len(nameless):
            line = document.table.line(int(melted.rows[nameless[0]]))
            raise InputError(
                f"{document.name}, line {line}: a label without its worker; fill it in or drop it"
            )
        kind, labels = by_kind(melted.label)
        roles = roles_of(worker=list(who.values()), item=item, label=list(series.values()))
        encoded, rows = workers.dictionary_encode(), melted.rows
        name = question.strip(" _-.:#/") or LABEL
        questions.append(Question(name, kind, encoded, melted.by_row, labels, rows, columns=roles))
    return Reading(questions)


PAIRS = Reader(
    name="pairs",
    title="a table with a row per item and pairs of columns, who and what",
    detect=detect_pairs,
    read=read_pairs,
)
