"""One row per answer: columns of worker, item and label, found by name or by their values."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from shlex import quote
from typing import Any

import numpy as np
import pyarrow as pa

from misc_cli.errors import ConfigError, EmptyFile, InputError
from misc_cli.readers.columns import (
    Layout,
    Refusal,
    by_position,
    first_nameless,
    is_unique,
    missing_columns,
    nameless,
    rivals,
    select,
)
from misc_cli.readers.document import Document
from misc_cli.readers.options import ROW, ReadOptions
from misc_cli.readers.reading import (
    Condition,
    Question,
    Reader,
    Reading,
    from_columns,
    split_by,
)
from misc_cli.readers.row_status import (
    consensus_rows,
    gold_of,
    header_again,
    is_standing,
    statuses,
)
from misc_cli.readers.values import NUMBER, is_number, is_scale, kind_of_values
from misc_cli.readers.vocabulary import (
    ABOUT,
    ITEM_NAME,
    NAMING,
    SYNONYMS,
    WEAK_WORKERS,
    WORKER_NAME,
    find_roles,
    normalise,
    words_of,
)

CHANCE = 8  # items whose workers all agree; fewer prove nothing
LEAST = 4  # items, or workers' values, that come again; fewer prove nothing
QUESTIONS = {
    *("question", "questionid", "questionname", "attribute", "aspect", "criterion", "dimension"),
    *("property", "field", "variable", "key", "metric", "taskname", "tasktype", "labeltype"),
    *("annotationtype", "type", "category", "facet", "scale", "fromname", "prompt", "task"),
}
_TEXTS = {"text", "sentence", "tweet", "comment", "url", "file", "filename", "imageurl"}
# Ids of the answer, the worker or the tool, not of what is judged.
_NOT_ITEMS = {
    *("annotation", "assignment", "answer", "response", "label", "class", "category", "session"),
    *("batch", "job", "project", "worker", "user", "annotator", "rater", "team", "group"),
    *("country", "campaign", "account", "device", "record", "row", "submission", "judgment"),
    *("vote", "rating", "classification", "parent", "link", "author"),
}


def read(document: Document, options: ReadOptions, *, anonymous: bool = False) -> Reading:
    """Read a table with one row per answer."""
    notes: list[str] = []
    layout = find_long(document, options, notes)
    return read_as(document, options, layout, notes, anonymous=anonymous)


def read_as(
    document: Document,
    options: ReadOptions,
    layout: Layout,
    notes: Sequence[str] = (),
    *,
    anonymous: bool = False,
) -> Reading:
    """Read the columns of a layout `long`, without the rows that do not count."""
    reading = from_columns(
        document,
        worker=layout.worker,
        item=layout.item,
        questions={name: name for name in layout.label},
        options=replace(options, worker_col=None, item_col=None, label_col=None),
        aside=_aside(document, layout, options),
        gold=gold_of(document, [*layout.worker, *layout.item], layout.label),
    )
    reading = replace(reading, notes=[*reading.notes, *notes], layout=layout)
    refuse_nameless(document, reading.questions, layout)
    if layout.worker and len(layout.label) == 1 and options.group_by is None:
        reading = replace(reading, questions=_by_question(document, layout, reading.questions[0]))
    return replace(reading, has_workers=False) if anonymous else reading


def refuse_nameless(document: Document, questions: Sequence[Question], layout: Layout) -> None:
    """Refuse a label without its worker or its item, as far as labels are text."""
    for question in questions:
        if pa.types.is_dictionary(question.label.type):
            columns = {"worker": question.worker, "item": question.item, "label": question.label}
            for role in ("worker", "item"):
                row = first_nameless(columns, role) if getattr(layout, role) else None
                if row is not None:
                    source = row if question.rows is None else int(question.rows[row])
                    raise nameless(document, source, role)


def _aside(document: Document, layout: Layout, options: ReadOptions) -> dict[str, Condition]:
    """Return conditions for rows that are no answers, by reason."""
    roles = [*layout.worker, *layout.item]
    rules = {**header_again(document, roles), **statuses(document, [*roles, *layout.label])}
    if len(layout.worker) == 1 and not options.allow_odd:
        rules.update(consensus_rows(document, layout.worker[0]))
    return rules


def _by_question(document: Document, layout: Layout, only: Question) -> list[Question]:
    """Return a question for each value of a column `question`, if it tells answers apart."""
    taken = [*layout.worker, *layout.item, *layout.label]
    for name in document.names:
        if normalise(name) in QUESTIONS and name not in taken and document.names.count(name) == 1:
            values = set(document.sampled(name))
            key = (*layout.worker, *layout.item)
            if 2 <= len(values) <= 50 and tells_apart(document, key, name):
                return split_by(only, document.columns([name])[0])
    return [only]


def find_long(document: Document, options: ReadOptions, notes: list[str]) -> Layout:
    """Return the columns of a table with one row per answer; what to say goes to notes."""
    if document.table.header is False:
        return _headerless(document, options, notes)
    names = document.names
    found = {role: [names[at] for at in places] for role, places in find_roles(names).items()}
    declared = {
        role: list(select(document, role, asked))
        for role, asked in options.columns.items()
        if asked is not None
    }
    found = {role: _one_of_same(document, columns) for role, columns in found.items()}
    found.update(declared)
    nobody = options.worker_from is not None or options.is_anonymous
    rows_are_items = (options.item_col or "").lower() == ROW
    if nobody:
        found["worker"] = []
    if "label" not in declared:
        taken = [name for own in declared.values() for name in own]
        found["label"] = [name for name in found["label"] if name not in taken]
        found["label"] = _with_classes(document, found["label"])
    if "item" not in declared:
        found["item"] = _items(document, found)
    if "worker" not in declared and _are_authors(document, found):
        notes.append(f"{document.name}: {found['worker'][0]!r} may be the author, so no worker")
        found["worker"] = []
    for role in _only_missing(found, options, nobody):
        name = _deduced(document, found, role)
        if name is not None:
            found[role] = [name]
            notes.append(
                f"{document.name}: {name!r} is taken as the {role}, because no other column can "
                f"be; --{role}-col {quote(name)} confirms it, or name another"
            )
    rest = [n for n in names if n not in found["worker"] and n not in found["item"]]
    knows_rest = (found["item"] or rows_are_items) and (found["worker"] or nobody)
    if not found["label"] and knows_rest and found["item"]:
        found["label"] = _said(document, found, _answers(document, rest))
    if "label" not in declared and knows_rest:
        _refuse_consensus(document, found, rest)
    missing = [role for role, columns in found.items() if not columns]
    if rows_are_items:
        missing = [role for role in missing if role != "item"]
    if "worker" in missing and (
        nobody or (missing == ["worker"] and _surely_nobody(document, found))
    ):
        missing.remove("worker")
    if "worker" in missing and _is_one_each(document, found["item"]):
        raise Refusal(
            f"{document.name}: no worker column, and {found['item'][0]!r} names each row once: one "
            "answer to an item is nothing to vote on; if some column is the worker's, name it with "
            "--worker-col",
            is_open=True,
        )
    if missing:
        is_sniffed = document.table.header and options.header is None and not declared
        hint = ", or say --no-header if the first row is data" if is_sniffed else ""
        if missing == ["worker"]:
            hint = " (none if nobody knows who answered)" + hint
        raise missing_columns(document.name, names, missing, hint)
    for role in ("worker", "item"):
        if role not in declared and len(found[role]) > 1:
            raise rivals(document.name, role, found[role])
    taken = [name for role in found for name in found[role]]
    if len(set(taken)) < len(taken):
        twice = next(name for name in taken if taken.count(name) > 1)
        raise InputError(
            f"{document.name}: column {twice} would be two of worker, item and label; "
            "set --worker-col, --item-col and --label-col"
        )
    return Layout("long", *(tuple(found[role]) for role in ("worker", "item", "label")))


def _one_of_same(document: Document, names: list[str]) -> list[str]:
    """Return the fuller of two columns that name the same things, as user_name and user_id do."""
    if len(names) != 2 or any(document.names.count(name) > 1 for name in names):
        return names
    filled = [pair for pair in sample_pairs(document, *names) if all(pair)]
    pairs = set(filled)
    n_values = [len({pair[at] for pair in pairs}) for at in (0, 1)]
    if not 3 <= len(pairs) == n_values[0] == n_values[1] <= len(filled) / 2:
        return names
    return [max(names, key=lambda name: len(document.sampled(name)))]


def _is_one_each(document: Document, items: Sequence[str]) -> bool:
    """Return whether each of many rows has an item of its own."""
    is_one = len(items) == 1 and document.names.count(items[0]) == 1
    return is_one and len(document.table.sample) >= 2 * CHANCE and is_unique(document, items[0])


def _with_classes(document: Document, names: list[str]) -> list[str]:
    """Return the columns that hold no ids, addresses, times or free text; all if none is left."""
    if len(names) < 2:
        return names
    kinds = {
        n: kind_of_values(sorted(set(document.sampled(n))), len(document.sampled(n))) for n in names
    }
    return [name for name in names if kinds[name].has_classes] or names


def _items(document: Document, found: dict[str, list[str]]) -> list[str]:
    taken = [*found["worker"], *found["label"]]
    items = [name for name in found["item"] if name not in taken]
    if not items:
        items = _bare_id(document) or _other_id(document, found["worker"])
    found = {**found, "item": items}
    items = _not_the_question(document, found)
    ids = _bare_id(document) if len(items) == 1 and normalise(items[0]) in _TEXTS else []
    return ids if ids and always_same(document, ids[0], items[0]) else items


def _are_authors(document: Document, found: Mapping[str, list[str]]) -> bool:
    """Return whether what looks like a worker wrote the items: each has one, and one answer."""
    if len(found["worker"]) != 1 or normalise(found["worker"][0]) not in WEAK_WORKERS:
        return False
    if len(found["item"]) != 1 or len(document.table.sample) < 20:
        return False
    items = document.sampled(found["item"][0])
    return bool(items) and len(set(items)) == len(items)


def _only_missing(found: Mapping[str, list[str]], options: ReadOptions, nobody: bool) -> list[str]:
    """Return the one of worker and item that no name tells and nobody has asked for."""
    missing = [role for role in ("worker", "item") if not found[role]]
    is_open = len(missing) == 1 and not nobody and options.columns[missing[0]] is None
    return missing if is_open else []


def _bare_id(document: Document) -> list[str]:
    """Return a column `id`, if it is the item's: it comes again, so it does not count answers."""
    names = [name for name in document.names if normalise(name) in ("id", "uid", "key")]
    return [n for n in names if len(set(document.sampled(n))) < len(document.sampled(n))][:1]


def _other_id(document: Document, workers: Sequence[str]) -> list[str]:
    """Return the only column left that is called some id (site_id), if workers share its values.

    It is the item's if at least half its values come from several workers, no worker repeats one
    in more than a fifth of the rows, and it is not about the worker.
    """
    if len(workers) != 1:
        return []
    found = [n for n in document.names if words_of(n) & {"id", "ids"}]
    found = [n for n in found if not words_of(n) & _NOT_ITEMS]
    if len(found) != 1 or found[0] in workers or document.names.count(found[0]) > 1:
        return []
    pairs = sample_pairs(document, workers[0], found[0])
    shared = Counter(what for _, what in set(pairs))
    is_shared = 2 * sum(n > 1 for n in shared.values()) >= len(shared) > 1
    is_once = len(set(pairs)) >= 0.8 * len(pairs)
    return found if is_shared and is_once else []


def sample_pairs(document: Document, one: str, other: str) -> list[tuple[str, str]]:
    """Return the cells of two columns, row by row, as far as the sample goes."""
    places = document.position(one), document.position(other)
    rows = (row for row in document.table.sample if len(row) > max(places))
    return [(row[places[0]].strip(), row[places[1]].strip()) for row in rows]


def _not_the_question(document: Document, found: Mapping[str, list[str]]) -> list[str]:
    """Return the item's column, where `question` or the like tells a worker's answers apart."""
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
    """Return columns that may hold answers: few values that come again and again."""
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
        if kind.name == NUMBER and not is_scale(distinct):
            continue
        if is_few or not kind.has_classes:
            found.append(name)
    every = {word for tier in SYNONYMS["item"] for word in tier}
    return [name for name in found if normalise(name) not in every]


def _said(document: Document, found: Mapping[str, list[str]], names: Sequence[str]) -> list[str]:
    """Return what may be answers, where nothing but its place says so.

    One column alone must differ within items and within workers: what is always the same for a
    worker is about the worker, for an item about the item. Several are for the user to tell apart.
    """
    names = [name for name in names if not is_standing(name)] or list(names)
    names = [name for name in names if not _is_content(document, found, name)] or names
    owners = [*found["worker"], *found["item"]]
    free = [n for n in names if not any(always_same(document, owner, n) for owner in owners)]
    return list(names) if len(names) > 1 and not free else free


def _is_content(document: Document, found: Mapping[str, list[str]], name: str) -> bool:
    """Return whether a column says what was judged: the same for an item, and nearly its own."""
    item = found["item"][0]
    if document.names.count(name) > 1 or document.names.count(item) > 1:
        return False
    n_items, n_values = (len(set(document.sampled(n))) for n in (item, name))
    return 2 * n_values > n_items and always_same(document, item, name)


def _refuse_consensus(
    document: Document, found: Mapping[str, list[str]], rest: Sequence[str]
) -> None:
    """Refuse a label that never differs within an item, beside another that does."""
    if any(len(found[role]) != 1 for role in ("label", "item", "worker")):
        return
    (label,), (item,), (worker,) = found["label"], found["item"], found["worker"]
    names = document.names
    if names.count(label) > 1 or names.count(item) > 1 or not always_same(document, item, label):
        return
    known = {name for tier in SYNONYMS["label"] for name in tier}
    others = [n for n in rest if n != label and names.count(n) == 1 and not is_standing(n)]
    others = _with_classes(document, others)
    by_name = [n for n in others if normalise(n) in known]
    other = [n for n in _answers(document, others) if not always_same(document, worker, n)]
    n_items, n_labels = (len(set(document.sampled(n))) for n in (item, label))
    if n_labels == 1 or 2 * n_labels <= n_items < CHANCE:  # so few may agree by chance
        other = []
    free = [n for n in (*by_name, *other) if not always_same(document, item, n)]
    if free:
        raise Refusal(
            f"{document.name}: {label!r} is the same for all answers to an item and {free[0]!r} is "
            f"not: which one did the workers give? Say --label-col {quote(free[0])} "
            f"or --label-col {quote(label)}",
            [{"label_col": free[0]}],
        )


def _surely_nobody(document: Document, found: Mapping[str, list[str]]) -> bool:
    """Return whether items come again and no other column could be the worker."""
    if len(found["item"]) != 1 or len(found["label"]) != 1:
        return False
    items = document.sampled(found["item"][0])
    rest = [n for n in document.names if n not in (*found["item"], *found["label"])]
    return not rest and len(set(items)) < len(items)


def _deduced(document: Document, found: Mapping[str, Sequence[str]], role: str) -> str | None:
    """Return the only column that can be the worker's (or the item's), given the other two."""
    known = found["item" if role == "worker" else "worker"]
    if len(known) != 1 or len(found["label"]) != 1:
        return None
    names = document.names
    taken = [*known, *found["label"]]
    about = ABOUT - NAMING if role == "item" else ABOUT - {"hash", "name", "id", "uuid"}
    free = [n for n in names if n not in taken and names.count(n) == 1 and not is_standing(n)]
    free = [n for n in free if n.strip() and not words_of(n) & about]
    fit = [n for n in free if _fits(document, known[0], n, role)]
    return fit[0] if len(fit) == 1 else None


def _fits(document: Document, known: str, name: str, role: str) -> bool:
    pairs = sample_pairs(document, known, name)
    if not all(what and whose for what, whose in pairs) or len(set(pairs)) < len(pairs):
        return False
    # what comes again: an item with several workers, or an item's name with several workers
    shared = Counter(one for one, _ in pairs) if role == "worker" else Counter(b for _, b in pairs)
    own = Counter(whose for _, whose in pairs)
    n_again = sum(count > 1 for count in shared.values())
    if n_again < LEAST or 2 * n_again < len(shared) or 2 * len(own) > len(pairs):
        return False
    # 1, 2, 3 count the answers to an item, whoever gave them
    small = all(map(is_number, own)) and set(own) <= {str(number) for number in range(20)}
    return role == "item" or not small


def tells_apart(
    document: Document, key: Sequence[str], column: str, said: Sequence[str] = ()
) -> bool:
    """Return whether rows with the same key differ in `column`, in the sample: it is part of it.

    Rows that are blank in one of the columns `said` are no answers.
    """
    at = [document.position(name) for name in key]
    place = document.position(column)
    filled = [document.names.index(name) for name in said]
    seen: dict[tuple[str, ...], list[str]] = {}
    for row in document.table.sample:
        if len(row) > max([*at, place, *filled]) and all(row[n].strip() for n in filled):
            seen.setdefault(tuple(row[position] for position in at), []).append(row[place])
    repeated = [cells for cells in seen.values() if len(cells) > 1]
    apart = sum(len(set(cells)) == len(cells) for cells in repeated)
    return bool(repeated) and apart >= 0.8 * len(repeated)


def always_same(document: Document, owner: str, column: str) -> bool:
    """Return whether every owner that comes again, four or more, has one value of `column`."""
    values: dict[str, set[str]] = {}
    counts: Counter[str] = Counter()
    for whose, cell in sample_pairs(document, owner, column):
        values.setdefault(whose, set()).add(cell)
        counts[whose] += 1
    again = [cells for whose, cells in values.items() if counts[whose] > 1]
    return len(again) >= 4 and all(len(cells) == 1 for cells in again)


def _headerless(document: Document, options: ReadOptions, notes: list[str]) -> Layout:
    """Return the columns of a file without a header: by position, by looks, by counts."""
    names, given = document.names, options.columns
    if options.worker_from is not None and not (given["item"] and given["label"]):
        raise ConfigError("--worker-from needs a header, or --item-col and --label-col")
    first = [" ".join(cell.split())[:40] for cell in document.table.first_row[:5]]
    if options.delimiter is not None and len(names) == 1:
        raise InputError(
            f"{document.name}: no row has a {options.delimiter!r}, so each is one cell "
            f"({first[0]}); leave out --delimiter, or correct it"
        )
    if len(document.table.sample) == 1 and not any(given.values()) and options.header is None:
        raise EmptyFile(
            f"{document.name}: only one row ({', '.join(first)}); if it is a header, there are no "
            "answers, else say --no-header and name the columns by position"
        )
    _refuse_title(document)
    if document.table.doubtful and options.header is None:
        shown = ", ".join(first).encode("utf-8", "replace").decode()
        raise Refusal(
            f"{document.name}: is the first row ({shown}) a header? If so, say --header and name "
            "the columns with --worker-col, --item-col and --label-col, else say --no-header",
            is_open=True,
        )
    if any(given.values()):
        chosen = {role: select(document, role, asked) for role, asked in given.items() if asked}
        if options.worker_from is not None:
            chosen["worker"] = ()
        if len(chosen) == len(given):
            return Layout("long", **chosen)
        places = by_position(
            document,
            {role: None if not c else str(names.index(c[0]) + 1) for role, c in chosen.items()},
            list(given),
        )
        rest = {role: (names[at],) for role, at in places.items()}
        return Layout("long", **{**rest, **chosen})
    if len(names) < 3:
        by_position(document, given, list(given))
    if len(names) > 3:
        raise Refusal(
            f"{document.name}: no header and {len(names)} columns, so nobody knows which is what; "
            "say --worker-col, --item-col and --label-col as positions",
            is_open=True,
        )
    first, second, third = (document.sampled(name) for name in names)
    if _most(WORKER_NAME, third) or _most(ITEM_NAME, third):
        raise InputError(
            f"{document.name}: no header, and column 3 does not look like labels ({third[0]!r}); "
            "say --worker-col, --item-col and --label-col as positions"
        )
    looks = _by_looks(first, second)
    swapped, why = (looks, "") if looks is not None else _by_counts(document)
    order = "item, worker, label" if swapped else "worker, item, label"
    if looks is None:
        notes.append(
            f"{document.name}: no header, so columns are taken as {order}: {why}; "
            "--worker-col 1 --item-col 2 or the other way round settles it"
        )
    who, what = (names[1], names[0]) if swapped else (names[0], names[1])
    return Layout("long", (who,), (what,), (names[2],))


def _refuse_title(document: Document) -> None:
    """Refuse a first row that is shorter than all the others: a title above the header."""
    first, sample = document.table.first_row, document.table.sample
    widths = {len(row) for row in sample[1:] if any(map(str.strip, row))}
    if len(sample) > 2 and widths and len(first) < min(widths) and min(widths) >= 3:
        raise InputError(
            f"{document.name}: the first row has {len(first)} of {min(widths)} columns, a title "
            f"above the header ({' '.join(first[0].split())[:40]})? Delete the lines above the "
            "header, or name its columns worker, item and label"
        )


def _by_looks(first: list[str], second: list[str]) -> bool | None:
    """Return whether the item comes before the worker, if their names tell."""
    said_first = _most(WORKER_NAME, first) - _most(ITEM_NAME, first)
    said_second = _most(WORKER_NAME, second) - _most(ITEM_NAME, second)
    if said_first == said_second or not first or not second:
        return None  # an empty column tells nothing
    return said_second > said_first


def _by_counts(document: Document) -> tuple[bool, str]:
    """Return whether the item comes before the worker, by how often values come, and why."""
    columns = document.columns(document.names[:2])
    counts = [np.bincount(np.asarray(column.indices)) for column in columns]
    regular = [bool(len(c) > 1 and c.min() == c.max() and c[0] > 1) for c in counts]
    if len(columns[0]) >= 20 and regular[0] != regular[1]:
        at = 0 if regular[0] else 1
        return at == 0, f"each value of column {at + 1} comes {counts[at][0]} times, as items do"
    sizes = [len(c) for c in counts]
    if len(columns[0]) >= 20 and max(sizes) > 0.9 * len(columns[0]):
        raise InputError(
            f"{document.name}: no header, and hardly a value of column {np.argmax(sizes) + 1} "
            "comes twice, as workers and items do; name the columns in a first row"
        )
    if len(columns[0]) >= 50 and max(sizes) >= 3 * min(sizes):
        more = int(np.argmax(sizes))
        return more == 0, f"column {more + 1} has {sizes[more]:,} values, the other {min(sizes):,}"
    raise Refusal(
        f"{document.name}: no header, and nothing tells whether column 1 or 2 is the worker; say "
        "--worker-col 1 --item-col 2 --label-col 3, or --worker-col 2 --item-col 1 --label-col 3"
    )


def _most(pattern: re.Pattern[str], cells: list[Any]) -> bool:
    return bool(cells) and sum(1 for c in cells if pattern.fullmatch(c)) > 0.8 * len(cells)


READER = Reader(
    name="long",
    title="a table with one row per answer",
    detect=lambda _: None,
    read=read,
)
