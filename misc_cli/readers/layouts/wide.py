"""Tables with a row per item and a column per worker: image,rater_1,rater_2,rater_3.

Found by themselves where the columns' names say that they are people (annotator words with a number
or a letter, addresses) and the columns share their values; else --wide or --worker-cols say so.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np

from misc_cli.errors import InputError
from misc_cli.readers.columns import listing, truth_synonyms
from misc_cli.readers.document import Document, text_array
from misc_cli.readers.layouts.melt import LABEL, Columns, is_unique, matching, melt, share_values
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.platforms.base import (
    CERTAIN,
    Match,
    Question,
    Reader,
    Reading,
    by_kind,
    known_of,
    user_column,
)
from misc_cli.readers.vocabulary import (
    ABOUT,
    BETWEEN,
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
# Language models that answer as workers do, with whoever serves them before the name.
MODEL = re.compile(
    r"(?:[\w.\-]+[/:])*(?:(?:meta|google|openai|anthropic|us|eu)[.\-_])*(?:"
    r"(?:(?:chat)?gpt|claude|gemini|gemma|(?:code)?llama|mistral|mixtral|qwen|deepseek|vicuna|chatglm)"
    r"(?:[\d\W_][\w.\-:/ ]*)?"
    # these mean other things as well, so a size or a version must follow
    r"|(?:phi|command-?r|grok|falcon|yi|zephyr|olmo|nova|flan|t5|palm|solar|internlm|glm|granite"
    r"|nemotron|jamba|text-davinci|davinci)-[\w.\-:/ ]*\d[\w.\-:/ ]*"
    r"|o[1-9]-(?:mini|preview|pro)[\w.\-]*)",
    re.IGNORECASE,
)
ITEM_NAME = re.compile(
    r"(i|item|task|img|image|q|question|doc|document|tweet|text|t|example|sentence|s|unit|pic|obj|"
    r"object|photo|picture|review|post|clip|id)[\s_-]*\d+"
    r"|.*\.(jpe?g|png|gif|webp|bmp|tiff?|wav|mp3|mp4|txt|pdf)|https?://.*|s3://.*",
    re.IGNORECASE,
)
_NO_NAMES = {
    *("id", "ids", "name", "names", "email", "confidence", "comment", "comments", "time", "age"),
    *("gender", "count", "country", "agreement", "notes", "note", "type", "group", "accuracy"),
    *("label", "labels", "answer", "rating", "score", "response", "choice", "weight", "trust"),
}


def worker_columns(document: Document) -> Columns:
    """The columns that are surely workers', by question; empty if there are none."""
    for find in (_by_number, _by_address, _by_model, _by_name):
        found = find(document.names)
        workers = {worker for columns in found.values() for worker in columns}
        if len(workers) >= 2:
            shared = {q: names for q, names in found.items() if share_values(document, names)}
            return {q: names for q, names in shared.items() if not words_of(q) & ABOUT} or shared
    return {}


def looks_like_workers(names: Sequence[str]) -> bool:
    """Whether names are surely those of who answers: w1, ann@example.org, gpt-4o, alice."""
    patterns = (NUMBERED_WORKER, _ADDRESS, MODEL, _WALLET)
    return all(any(pattern.fullmatch(name) for pattern in patterns) for name in names)


def looks_like_items(names: Sequence[str]) -> bool:
    """Whether names are surely those of what is judged: a.jpg, img_3, https://…"""
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
    """Columns of these people: alice and bob, or alice_mood, alice_spam, bob_mood, bob_spam.

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


def asked_for(document: Document, options: ReadOptions) -> Columns:
    """The columns that --worker-cols names, or with --wide all that are not the item's."""
    if options.worker_cols is not None:
        return matching(document, "--worker-cols", options.worker_cols)
    certain = worker_columns(document)
    if certain:
        return certain
    item = item_column(document, options, [])
    gold = _gold_columns(document)
    rest = [name for name in document.names if name != item and name not in gold]
    if not rest:
        raise InputError(
            f"{document.name}: --wide needs a column for each worker, and there is only "
            f"{listing(document.names)}"
        )
    return {LABEL: {name: name for name in rest}}


def item_column(document: Document, options: ReadOptions, workers: Sequence[str]) -> str | None:
    """Which column names the items; None if all are workers', so that rows are counted instead."""
    if options.item_col is not None:
        return user_column(document, "item", options.item_col)
    rest = [name for name in document.names if name not in workers]
    if not rest:
        return None
    plain = find_roles(rest, {"item": SYNONYMS["item"][:3]})["item"]
    bare = [at for at, name in enumerate(rest) if normalise(name) in ("id", "index", "uid")]
    other = find_roles(rest, {"item": SYNONYMS["item"][3:]})["item"]
    unique = [at for at, name in enumerate(rest) if is_unique(document, name)]
    for candidates in (plain, bare, other, unique[:1]):
        found = [at for at in candidates if is_unique(document, rest[at])]
        if len(found) == 1:
            return rest[found[0]]
        if found:
            break
    names = listing([rest[at] for at in found] if found else rest)
    raise InputError(
        f"{document.name}: which of {names} names the items? No answer is certain; "
        "pick with --item-col"
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
    return Match(CERTAIN, f"a column for each of several workers: {listing(names, 4)}")


def read(document: Document, options: ReadOptions) -> Reading:
    columns = asked_for(document, options)
    taken = [column for of_question in columns.values() for column in of_question.values()]
    item = item_column(document, options, taken)
    n_rows = len(document.columns([taken[0]])[0])
    items = text_array(str(row + 1) for row in range(n_rows))
    if item is not None:
        (items,) = document.columns([item])
    gold = _gold_columns(document)
    (right,) = document.columns(gold) if len(gold) == 1 else (None,)
    known = None if right is None else known_of(items, right)
    missing, questions = [], []
    for question, of_worker in columns.items():
        melted = melt(document, items, of_worker)
        missing.append(melted.missing)
        roles = {
            "worker": "a column for each",
            "item": item or "the row's number",
            "label": listing(list(of_worker.values()), 4),
        }
        kind, labels = by_kind(melted.label)
        who, rows = melted.by_column, melted.rows
        questions.append(Question(question, kind, who, melted.by_row, labels, rows, known, roles))
    gaps = np.concatenate(missing)
    return Reading(questions, {"no answer": gaps} if len(gaps) else {})


READER = Reader(
    name="wide",
    title="a table with a row per item and a column per worker",
    explain="each filled cell is one answer: the column is the worker, the row the item",
    detect=detect,
    read=read,
)
