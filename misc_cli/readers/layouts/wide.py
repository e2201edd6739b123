"""A row per item and a column per worker: image,rater_1,rater_2; and pairs, worker_1,label_1.

Found by themselves where the columns' names say that they are people (annotator words with a number
or a letter, addresses, language models) and the columns share their values; else --layout wide says
so. In pairs the worker's column holds who answered, the other what; numbers say which belong
together.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from misc_cli.errors import InputError
from misc_cli.readers.columns import Layout, Refusal, is_unique, listing, select, truth_synonyms
from misc_cli.readers.document import Document
from misc_cli.readers.layouts.melt import LABEL, Columns, melt, share_values
from misc_cli.readers.options import ROW, ReadOptions
from misc_cli.readers.reading import (
    CERTAIN,
    THE_ROW,
    Match,
    Question,
    Reader,
    Reading,
    by_kind,
    joined,
    known_of,
)
from misc_cli.readers.values import IDS, NUMBER, URLS, is_scale, kind_of_values
from misc_cli.readers.vocabulary import (
    ABOUT,
    BETWEEN,
    ITEM_NAME,
    MODEL,
    NUMBERED_WORKER,
    SYNONYMS,
    WORKER_WORDS,
    find_roles,
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
_LABELS = {word for tier in SYNONYMS["label"] for word in tier}
MANY_NAMES = 4  # columns to list

Series = dict[str, str]  # number → column


def worker_columns(document: Document) -> Columns:
    """Return the columns that are surely workers', by question; empty if there are none."""
    for find in (_by_number, _by_address, _by_model, _by_name):
        found = find(document.names)
        workers = {worker for columns in found.values() for worker in columns}
        if len(workers) >= 2:
            shared = {q: names for q, names in found.items() if share_values(document, names)}
            shared = {q: names for q, names in shared.items() if _have_classes(document, names)}
            return {q: names for q, names in shared.items() if not words_of(q) & ABOUT}
    return {}


def _have_classes(document: Document, columns: Series) -> bool:
    """Return whether cells are answers: no ids, addresses, texts, nor numbers of any size."""
    cells = [cell for column in columns.values() for cell in document.sampled(column)]
    values = sorted(set(cells))
    kind = kind_of_values(values, len(cells))
    if kind.name in (IDS, URLS) or (len(cells) > 20 and 2 * len(values) > len(cells)):
        return False
    return kind.has_classes and (kind.name != NUMBER or is_scale(values))


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
        match = NUMBERED_WORKER.fullmatch(name.strip())
        if match is not None:
            question = " ".join(filter(None, (match["before"], match["after"]))) or LABEL
            found.setdefault(question, {}).setdefault(match["who"], name)
    return {q: columns for q, columns in found.items() if len(columns) >= 2}


def _by_address(names: Sequence[str]) -> Columns:
    found = {name.strip(): name for name in names if _ADDRESS.fullmatch(name.strip())}
    return {LABEL: found} if len(found) >= 2 else {}


def _by_model(names: Sequence[str]) -> Columns:
    return _by_question([name for name in names if MODEL.fullmatch(name.strip())])


def _by_question(names: Sequence[str]) -> Columns:
    """Return columns by question: alice and bob, or alice_mood, alice_spam, bob_mood, bob_spam.

    The last word is a question where each of several people has it, or one person several.
    """
    parts = {name: _QUESTION.fullmatch(name.strip()) for name in names}
    who = Counter(part["who"] for part in parts.values() if part)
    what = Counter(part["what"] for part in parts.values() if part)
    if not who or (max(who.values()) == 1 and max(what.values()) < len(names)):
        return {LABEL: {name.strip(): name for name in names}} if len(names) >= 2 else {}
    found: Columns = {}
    for name, part in parts.items():
        if part is not None:
            found.setdefault(part["what"], {})[part["who"]] = name
    return {question: columns for question, columns in found.items() if len(columns) >= 2}


def _by_name(names: Sequence[str]) -> Columns:
    found: dict[str, dict[str, str]] = {}
    for name in names:
        match = _NAMED.fullmatch(name.strip())
        if match is not None and normalise(match["name"]) not in _NO_NAMES:
            found.setdefault(match["word"].lower(), {})[match["name"]] = name
    columns = max(found.values(), key=len, default={})
    return {LABEL: columns} if len(columns) >= 2 else {}


def declared_workers(document: Document, options: ReadOptions) -> Columns:
    """Return the columns that --worker-col (or --label-col) names, else all but the item's."""
    given = options.worker_col or options.label_col
    if given is not None:
        return {LABEL: {name: name for name in select(document, "worker", given)}}
    certain = {} if document.table.header is False else worker_columns(document)
    if certain:
        return certain
    items = item_columns(document, options, [])
    rest = [name for name in document.names if name not in [*items, *_gold_columns(document)]]
    if not rest:
        raise InputError(
            f"{document.name}: --layout wide needs a column for each worker, and there is only "
            f"{listing(document.names)}"
        )
    return {LABEL: {name: name for name in rest}}


def item_columns(
    document: Document, options: ReadOptions, workers: Sequence[str]
) -> tuple[str, ...]:
    """Return the columns that name the items; none if rows are counted instead."""
    if options.item_col is not None:
        return select(document, "item", options.item_col)
    rest = [name for name in document.names if name not in workers]
    if not rest or document.table.header is False:
        return ()
    plain = find_roles(rest, {"item": SYNONYMS["item"][:3]})["item"]
    bare = [at for at, name in enumerate(rest) if normalise(name) in ("id", "index", "uid", "idx")]
    other = find_roles(rest, {"item": SYNONYMS["item"][3:]})["item"]
    unique = [at for at, name in enumerate(rest) if is_unique(document, name)]
    found: list[int] = []
    for candidates in (plain, bare, other, unique[:1]):
        found = [at for at in candidates if is_unique(document, rest[at])]
        if len(found) == 1:
            return (rest[found[0]],)
        if found:
            break
    names = listing([rest[at] for at in found] if found else rest)
    raise Refusal(
        f"{document.name}: which of {names} names the items? No answer is certain; pick with "
        f"--item-col, or say --item-col {ROW} if each row is one",
        [{"item_col": ROW}],
    )


def _gold_columns(document: Document) -> list[str]:
    known = truth_synonyms()["label"][0]
    return [name for name in document.names if normalise(name) in known]


def detect(document: Document) -> Match | None:
    if document.table.header is False:
        return None
    found = worker_columns(document)
    if not found:
        return None
    names = [column for columns in found.values() for column in columns.values()]
    return Match(CERTAIN, f"a column for each of several workers: {listing(names, MANY_NAMES)}")


def read(document: Document, options: ReadOptions) -> Reading:
    columns = declared_workers(document, options)
    taken = [column for of_question in columns.values() for column in of_question.values()]
    names = item_columns(document, options, taken)
    taken = [name for name in taken if name not in names]
    n_rows = len(document.columns([taken[0]])[0])
    items = joined(document.columns(names), n_rows)
    gold = _gold_columns(document)
    (right,) = document.columns(gold) if len(gold) == 1 and gold[0] not in taken else (None,)
    known = None if right is None else known_of(items, right)
    missing, questions = [], []
    for question, of_worker in columns.items():
        melted = melt(document, items, {w: c for w, c in of_worker.items() if c in taken})
        missing.append(melted.missing)
        roles = {
            "worker": "a column for each",
            "item": " + ".join(names) or THE_ROW,
            "label": listing(list(of_worker.values()), MANY_NAMES),
        }
        kind, labels = by_kind(melted.label)
        who, rows = melted.by_column, melted.rows
        questions.append(Question(question, kind, who, melted.by_row, labels, rows, known, roles))
    gaps = np.concatenate(missing)
    layout = Layout("wide", worker=tuple(taken), item=names) if len(columns) == 1 else None
    return Reading(questions, {"no answer": gaps} if len(gaps) else {}, layout=layout)


READER = Reader(
    name="wide",
    title="a table with a row per item and a column per worker",
    explain="each filled cell is one answer: the column is the worker, the row the item",
    detect=detect,
    read=read,
)


def find_pairs(document: Document) -> tuple[Series, dict[str, Series]] | None:
    """Return the workers' columns, and those of each question; None if there are no pairs."""
    people: dict[str, Series] = {}
    others: dict[str, Series] = {}
    for name in document.names:
        worker = NUMBERED_WORKER.fullmatch(name.strip())
        plain = re.fullmatch(r"(?P<stem>\D*?)[\s_\-.:#]*(?P<number>\d+)", name.strip())
        if worker is not None:
            rest = " ".join(filter(None, (worker["before"], worker["after"])))
            number = re.sub(r"\D+", "", worker["who"]) or worker["who"][-1]
            people.setdefault(rest, {})[number] = name
        elif plain is not None:
            others.setdefault(plain["stem"], {})[plain["number"]] = name
    for rest, who in people.items():
        if len(who) < 2:
            continue
        if normalise(rest) in _WHO:
            said = {q: c for q, c in people.items() if q != rest and set(c) == set(who)}
        elif not rest:
            said = {q: c for q, c in others.items() if normalise(q) in _LABELS}
            said = {q: c for q, c in said.items() if set(c) == set(who)}
        else:
            continue
        said = {q: c for q, c in said.items() if _have_classes(document, c)}
        if said:
            return who, said
    return None


def detect_pairs(document: Document) -> Match | None:
    found = None if document.table.header is False else find_pairs(document)
    if found is None:
        return None
    who, said = found
    names = [*who.values(), *(column for series in said.values() for column in series.values())]
    return Match(CERTAIN, f"pairs of columns, who and what: {listing(names, MANY_NAMES)}")


def read_pairs(document: Document, options: ReadOptions) -> Reading:
    found = find_pairs(document)
    if found is None:
        raise InputError(f"{document.name}: no pairs of columns such as worker_1 and label_1")
    who, said = found
    taken = [*who.values(), *(column for series in said.values() for column in series.values())]
    item = item_columns(document, options, taken)
    numbers = list(who)
    people = pa.concat_arrays([c.cast(pa.string()) for c in document.columns(list(who.values()))])
    people = pc.utf8_trim_whitespace(people)
    n_rows = len(people) // len(numbers)
    names = joined(document.columns(item), n_rows)
    questions = []
    for question, series in said.items():
        melted = melt(document, names, {number: series[number] for number in numbers})
        workers = people.take(np.asarray(melted.by_column.indices) * n_rows + melted.rows)
        nameless = np.flatnonzero(np.asarray(pc.equal(workers, "")))
        if len(nameless):
            line = document.table.line(int(melted.rows[nameless[0]]))
            raise InputError(
                f"{document.name}, line {line}: a label without its worker; fill it in or drop it"
            )
        kind, labels = by_kind(melted.label)
        roles = {
            "worker": listing(list(who.values()), MANY_NAMES),
            "item": " + ".join(item) or THE_ROW,
            "label": listing(list(series.values()), MANY_NAMES),
        }
        encoded, rows = workers.dictionary_encode(), melted.rows
        name = (normalise(question) and question) or LABEL
        questions.append(Question(name, kind, encoded, melted.by_row, labels, rows, columns=roles))
    return Reading(questions)


PAIRS = Reader(
    name="pairs",
    title="a table with a row per item and pairs of columns, who and what",
    explain="each pair of columns with the same number is one answer",
    detect=detect_pairs,
    read=read_pairs,
)
