"""Which columns of a table with one row per answer are the worker, the item, and the answers.

By the user's word, by their names (vocabulary.py), else by how their values come again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from shlex import quote

from misc_cli.errors import InputError
from misc_cli.readers.columns import listing, missing_columns, rivals
from misc_cli.readers.deduce import deduced
from misc_cli.readers.document import Document
from misc_cli.readers.layouts.melt import is_unique
from misc_cli.readers.layouts.wide import item_column
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.platforms.base import user_column
from misc_cli.readers.repeats import always_same, tells_apart
from misc_cli.readers.row_status import is_standing
from misc_cli.readers.values import kind_of_values
from misc_cli.readers.vocabulary import ABOUT, SYNONYMS, find_roles, normalise, words_of

CHANCE = 8  # items whose workers all agree; fewer prove nothing
NOBODY = "none"  # --worker-col none: nobody knows who answered
QUESTIONS = {
    *("question", "questionid", "questionname", "attribute", "aspect", "criterion", "dimension"),
    *("property", "field", "variable", "key", "metric", "taskname", "tasktype", "labeltype"),
    *("annotationtype", "type", "category", "facet", "scale", "fromname", "prompt", "task"),
}
_TEXTS = {"text", "sentence", "tweet", "comment", "url", "file", "filename", "imageurl"}
# Ids of the answer, the worker or the tool, not of what is judged.
_NOT_ITEMS = {
    *("annotation", "assignment", "answer", "response", "label", "class", "category", "session"),
    *(
        "batch",
        "job",
        "project",
        "worker",
        "user",
        "annotator",
        "rater",
        "team",
        "group",
        "country",
    ),
    *("campaign", "account", "device", "record", "row", "submission", "judgment", "vote", "rating"),
}


def roles_of(
    document: Document, options: ReadOptions, notes: list[str]
) -> tuple[dict[str, str], list[str]]:
    """The worker's and the item's column, and those of the questions; what to say goes to notes."""
    names = document.names
    found = {role: [names[at] for at in places] for role, places in find_roles(names).items()}
    for role, asked in options.columns.items():
        if asked is not None and not (role == "worker" and asked.lower() == NOBODY):
            found[role] = [user_column(document, role, asked)]
    nobody = options.worker_from is not None or (options.worker_col or "").lower() == NOBODY
    if nobody:
        found["worker"] = []
    if not found["item"]:
        found["item"] = _bare_id(document) or _other_id(document, found["worker"])
    if options.item_col is None:
        found["item"] = _not_the_question(document, found)
        found["item"] = _id_of_text(document, found["item"])
    for role in _only_missing(found, options, nobody):
        name = deduced(document, found, role)
        if name is not None:
            found[role] = [name]
            notes.append(
                f"{document.name}: {name!r} is taken as the {role}, because no other column can "
                f"be; --{role}-col {quote(name)} confirms it, or name another"
            )
    rest = [n for n in names if n not in found["worker"] and n not in found["item"]]
    knows_rest = found["item"] and (found["worker"] or nobody)
    if not found["label"] and knows_rest:
        found["label"] = _said(document, found, _answers(document, rest))
    if options.label_col is None and knows_rest:
        _refuse_consensus(document, found, rest)
    missing = [role for role, columns in found.items() if not columns]
    if missing == ["worker"] and (nobody or _surely_nobody(document, found)):
        missing = []
    if missing:
        raise missing_columns(
            document.name, names, missing, _hint(document, options, found, missing)
        )
    roles = {role: columns[0] for role, columns in found.items() if columns and role != "label"}
    for role in roles:
        if len(found[role]) > 1:
            raise rivals(document.name, role, found[role])
    taken = [*roles.values(), *found["label"]]
    if len(set(taken)) < len(taken):
        twice = next(name for name in taken if taken.count(name) > 1)
        raise InputError(
            f"{document.name}: column {twice} would be two of worker, item and label; "
            "set --worker-col, --item-col and --label-col"
        )
    return roles, found["label"]


def _only_missing(found: Mapping[str, list[str]], options: ReadOptions, nobody: bool) -> list[str]:
    """The one of worker and item that no name tells and nobody has asked for."""
    missing = [role for role in ("worker", "item") if not found[role]]
    is_open = len(missing) == 1 and not nobody and options.columns[missing[0]] is None
    return missing if is_open else []


def _hint(
    document: Document, options: ReadOptions, found: Mapping[str, list[str]], missing: Sequence[str]
) -> str:
    hint = ""
    alike = _alike(document, [*found["worker"], *found["item"]])
    names = quote(",".join(alike))
    is_plain = not any(character in names for character in "[*?") and "," not in "".join(alike)
    if len(alike) < 2 or not is_plain:
        alike = []
    if "worker" in missing and alike and _is_row_each(document, found["item"]):
        item = _item_beside(document, options, alike)
        also = "" if not item else f" --item-col {quote(item)}"
        hint = f"; if {listing(alike, 4)} are a worker's each, say --worker-cols {names}{also}"
    elif (
        "item" in missing and found["worker"] and alike and _is_row_each(document, found["worker"])
    ):
        hint = f"; if {listing(alike, 4)} are an item each, say --item-cols {names}"
    elif missing == ["worker"]:
        hint = " (none if nobody knows who answered), or --worker-from filename"
    if document.table.header and options.header is None and not any(options.columns.values()):
        hint += ", or say --no-header if the first row is data"
    return hint


def _is_row_each(document: Document, names: Sequence[str]) -> bool:
    """Whether each row has a worker, or an item, of its own, as far as anybody knows."""
    return not names or is_unique(document, names[0])


def _item_beside(document: Document, options: ReadOptions, workers: Sequence[str]) -> str | None:
    """The item's column in a table with these columns of workers; None if nothing names it."""
    with suppress(InputError):
        return item_column(document, options, workers)
    return None


def _alike(document: Document, taken: Sequence[str]) -> list[str]:
    """Columns that choose from the same few values, as those of several workers do."""
    names = [n for n in dict.fromkeys(document.names) if n not in taken and not is_standing(n)]
    values = {n: set(document.sampled(n)) for n in names if not words_of(n) & ABOUT}
    few = {n: own for n, own in values.items() if _is_few(own, len(document.table.sample))}
    return [n for n in few if any(_overlap(few[n], few[other]) for other in few if other != n)]


def _is_few(values: set[str], n_rows: int) -> bool:
    return 1 < len(values) <= n_rows / 2 + 1


def _overlap(some: set[str], others: set[str]) -> bool:
    """Whether half the values of the smaller set, or more, are in the other."""
    return 2 * len(some & others) >= min(len(some), len(others))


def _bare_id(document: Document) -> list[str]:
    """A column `id`, if it is the item's: it comes again, so it does not count the answers."""
    names = [name for name in document.names if normalise(name) in ("id", "uid", "key")]
    return [n for n in names if len(set(document.sampled(n))) < len(document.sampled(n))][:1]


def _id_of_text(document: Document, items: list[str]) -> list[str]:
    """The id beside a text, where it comes again and always with the same text."""
    ids = _bare_id(document) if len(items) == 1 and normalise(items[0]) in _TEXTS else []
    return ids if ids and always_same(document, ids[0], items[0]) else items


def _other_id(document: Document, workers: Sequence[str]) -> list[str]:
    """The only column left that is called some id (site_id), if workers share its values.

    It is the item's if at least half its values come from several workers, no worker repeats one
    in more than a fifth of the rows, and it is not about the worker.
    """
    if len(workers) != 1:
        return []
    found = [n for n in document.names if "id" in words_of(n) and not words_of(n) & _NOT_ITEMS]
    if len(found) != 1 or found[0] in workers or document.names.count(found[0]) > 1:
        return []
    places = document.position(workers[0]), document.position(found[0])
    pairs = [
        tuple(row[at] for at in places) for row in document.table.sample if len(row) > max(places)
    ]
    shared = Counter(what for _, what in set(pairs))
    is_shared = 2 * sum(n > 1 for n in shared.values()) >= len(shared) > 1
    is_once = len(set(pairs)) >= 0.8 * len(pairs)
    return found if is_shared and is_once else []


def _not_the_question(document: Document, found: dict[str, list[str]]) -> list[str]:
    """The item's column, where `question` or the like tells a worker's answers to it apart."""
    items = found["item"]
    if len(found["worker"]) != 1 or not any(normalise(name) in QUESTIONS for name in items):
        return items
    every = {word for tier in SYNONYMS["item"] for word in tier}
    others = [n for n in document.names if normalise(n) in every and normalise(n) not in QUESTIONS]
    for question in (name for name in items if normalise(name) in QUESTIONS):
        for other in others:
            if tells_apart(document, (found["worker"][0], question), other, found["label"][:1]):
                return [other]
    plain = [name for name in items if normalise(name) not in QUESTIONS]
    return plain if len(items) > 1 and plain else items


def _answers(document: Document, rest: Sequence[str]) -> list[str]:
    """Columns that may hold answers: few values that come again and again."""
    if len(rest) == 1:
        return [name for name in rest if not words_of(name) & ABOUT]
    n_rows = len(document.table.sample)
    found = []
    for name in rest:
        values = document.sampled(name)
        distinct = list(dict.fromkeys(values))
        if words_of(name) & ABOUT or not words_of(name) or len(distinct) < 2:
            continue
        kind = kind_of_values(distinct, len(values))
        is_few = len(distinct) <= max(5, min(50, n_rows / 2))
        if is_few or not kind.has_classes:
            found.append(name)
    every = {word for tier in SYNONYMS["item"] for word in tier}
    return [name for name in found if normalise(name) not in every]


def _said(document: Document, found: Mapping[str, list[str]], names: Sequence[str]) -> list[str]:
    """What may be answers, where nothing but its place says so.

    One column alone must differ within items and within workers: what is always the same for a
    worker is about the worker, for an item about the item. Several are for the user to tell apart.
    """
    names = [name for name in names if not is_standing(name)] or names
    names = [name for name in names if not _is_content(document, found, name)] or names
    if len(names) > 1:
        return list(names)
    owners = [*found["worker"], *found["item"]]
    return [n for n in names if not any(always_same(document, owner, n) for owner in owners)]


def _is_content(document: Document, found: Mapping[str, list[str]], name: str) -> bool:
    """Whether a column says what was judged: always the same for an item, and nearly its own."""
    item = found["item"][0]
    if document.names.count(name) > 1 or document.names.count(item) > 1:
        return False
    n_items, n_values = (len(set(document.sampled(n))) for n in (item, name))
    return 2 * n_values > n_items and always_same(document, item, name)


def _refuse_consensus(
    document: Document, found: Mapping[str, list[str]], rest: Sequence[str]
) -> None:
    """A label that never differs within an item, beside another that does, is nobody's answer."""
    if len(found["label"]) != 1 or len(found["item"]) != 1 or len(found["worker"]) != 1:
        return
    (label,), (item,), (worker,) = found["label"], found["item"], found["worker"]
    names = document.names
    if names.count(label) > 1 or names.count(item) > 1 or not always_same(document, item, label):
        return
    known = {name for tier in SYNONYMS["label"] for name in tier}
    others = [n for n in rest if n != label and names.count(n) == 1 and not is_standing(n)]
    named = [n for n in others if normalise(n) in known]
    other = [n for n in others if _may_be_said(document, n, worker)]
    n_items, n_labels = (len(set(document.sampled(n))) for n in (item, label))
    if n_labels == 1 or 2 * n_labels <= n_items < CHANCE:  # so few may agree by chance
        other = []
    free = [n for n in (*named, *other) if not always_same(document, item, n)]
    if free:
        raise InputError(
            f"{document.name}: {label!r} is the same for all answers to an item and {free[0]!r} is "
            f"not: which one did the workers give? Say --label-col {quote(free[0])} "
            f"or --label-col {quote(label)}"
        )


def _may_be_said(document: Document, name: str, worker: str) -> bool:
    """Whether a column has classes and is not the worker's own, whatever it is called."""
    values = document.sampled(name)
    distinct = list(dict.fromkeys(values))
    if words_of(name) & ABOUT or len(distinct) < 2 or 2 * len(distinct) > len(values):
        return False
    has_classes = kind_of_values(distinct, len(values)).has_classes
    return has_classes and not always_same(document, worker, name)


def _surely_nobody(document: Document, found: Mapping[str, list[str]]) -> bool:
    """Items come again and no other column could be the worker."""
    if len(found["item"]) != 1 or len(found["label"]) != 1:
        return False
    items = document.sampled(found["item"][0])
    rest = [n for n in document.names if n not in (*found["item"], *found["label"])]
    return not rest and len(set(items)) < len(items)
