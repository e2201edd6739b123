"""One row per answer: columns of worker, item and label, found by name or by their values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from shlex import quote

import numpy as np
import pyarrow as pa

from misc_cli.errors import EmptyFile, InputError
from misc_cli.readers.columns import (
    Layout,
    Refusal,
    by_position,
    first_nameless,
    missing_columns,
    nameless,
    rivals,
    select,
)
from misc_cli.readers.document import Document
from misc_cli.readers.keys import LEAST_EACH, NOT_ITEMS, follows, is_key, labels_of
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.profile import KNOWN, Profile
from misc_cli.readers.reading import Question, Reading, from_columns, item_side
from misc_cli.readers.row_filters import gold_of, rows_out
from misc_cli.readers.values import CHOICE, WITH_CLASSES
from misc_cli.readers.vocabulary import (
    ABOUT,
    ITEM_NAME,
    WEAK_WORKERS,
    WORKER_NAME,
    find_roles,
    names_in,
    normalise,
    words_of,
)

ROLES = ("worker", "item")
CHANCE = 8  # items whose workers all agree; fewer prove nothing
_TEXTS = names_in("text sentence tweet comment url file filename imageurl")

Found = dict[str, list[str]]  # role → its columns


def read(
    document: Document, options: ReadOptions, how: str = "", *, anonymous: bool = False
) -> Reading:
    """Read a table with one row per answer, without the rows that do not count."""
    notes: list[str] = []
    layout = find_long(document, options, notes)
    roles = [*layout.worker, *layout.item]
    who = layout.worker[0] if len(layout.worker) == 1 and not options.allow_odd else None
    reading = from_columns(
        document,
        worker=layout.worker,
        item=layout.item,
        questions={name: name for name in layout.label},
        options=replace(options, worker_col=None, item_col=None, label_col=None),
        aside=lambda column: rows_out(document, column, roles, layout.label, worker=who),
        gold=gold_of(document, roles, layout.label),
    )
    for question in reading.questions:
        refuse_nameless(document, question, [r for r in ROLES if getattr(layout, r)])
    return replace(
        reading,
        notes=[*reading.notes, *notes],
        layout=layout,
        has_workers=reading.has_workers and not anonymous,
        reader="long",
        title="a table with one row per answer",
        how=how,
    )


def refuse_nameless(document: Document, question: Question, roles: Sequence[str]) -> None:
    """Refuse a label without its worker or its item, as far as labels are text."""
    columns = {"worker": question.worker, "item": question.item, "label": question.label}
    for role in roles if pa.types.is_dictionary(question.label.type) else ():
        row = first_nameless(columns, role)
        if row is not None:
            raise nameless(document, row if question.rows is None else question.rows[row], role)


def find_long(document: Document, options: ReadOptions, notes: list[str]) -> Layout:
    """Return the columns of a table with one row per answer; what to say goes to notes."""
    if document.table.header is False:
        return _headerless(document, options, notes)
    names, profile = document.names, Profile(document)
    declared = {
        role: list(select(document, role, asked))
        for role, asked in options.columns.items()
        if asked is not None
    }
    found = {role: [names[at] for at in places] for role, places in find_roles(names).items()}
    found.update({role: _one_of_same(profile, own) for role, own in found.items() if own[1:]})
    said = [name for own in declared.values() for name in own]
    found = {role: [name for name in own if name not in said] for role, own in found.items()}
    if len(names) > len(found) and profile.n_rows >= 20:  # one value names nothing
        one = [n for n in profile.names if profile.n_distinct(n) < 2]
        found["item"] = [n for n in found["item"] if n not in one]
    found.update(declared)
    absent = {role for role, own in declared.items() if not own and role != "label"}
    if options.worker_from is not None:
        absent.add("worker")
        found["worker"] = []
    if "label" not in declared and len(found["label"]) > 1:
        kinds = {n: profile.kind(n).name for n in found["label"] if n in profile.names}
        own = [n for n in found["label"] if kinds.get(n, CHOICE) in WITH_CLASSES]
        found["label"] = own or found["label"]
    taken = (*found["worker"], *found["label"])
    is_plain = [n not in taken and normalise(n) not in _TEXTS for n in found["item"]] == [True]
    if "item" not in declared and not is_plain:
        found["item"] = _items(profile, found)
    items = [name for name in found["item"] if name in profile.names]
    is_weak = [normalise(name) in WEAK_WORKERS for name in found["worker"]] == [True]
    is_once = len(found["item"]) == len(items) == 1 and (is_weak or not found["worker"])
    is_once = is_once and profile.is_unique(items[0])
    if "worker" not in declared and is_weak and is_once and profile.n_rows >= 20:
        # who looks like a worker wrote the items: each has one, and one answer
        notes.append(f"{document.name}: {found['worker'][0]!r} may be the author, so no worker")
        found["worker"] = []
    if not found["label"] and (found["worker"] or "worker" in absent) and found["item"]:
        found["label"] = _answers(profile, found["worker"], found["item"])
    is_single = all(len(own) == 1 for own in found.values())
    if "label" not in declared and is_single and len(names) > len(found):
        _refuse_consensus(profile, found)
    missing = [role for role, own in found.items() if not own and role not in absent]
    is_pair = missing == ["worker"] and len(names) == 2 == len(found["item"] + found["label"])
    # of two columns, only what comes again are answers of nobody
    if missing and not (is_pair and LEAST_EACH * profile.n_distinct(*items) <= profile.n_rows):
        hint = " (none if nobody knows who answered)" if missing == ["worker"] else ""
        if missing == ["worker"] and is_once:
            hint = f"; {items[0]!r} names each row once, and one answer is nothing to vote on"
        elif document.table.header and len(missing) == 3 and options.header is None:
            hint += ", or say --no-header if the first row is data"
        raise missing_columns(document.name, names, missing, hint)
    for role in ROLES:
        if role not in declared and len(found[role]) > 1:
            raise rivals(document.name, role, found[role])
    chosen = [name for role in found for name in found[role]]
    if len(set(chosen)) < len(chosen):
        twice = next(name for name in chosen if chosen.count(name) > 1)
        raise InputError(
            f"{document.name}: column {twice} would be two of worker, item and label; "
            "set --worker-col, --item-col and --label-col"
        )
    return Layout("long", **{role: tuple(own) for role, own in found.items()})


def _one_of_same(profile: Profile, names: list[str]) -> list[str]:
    """Return the fuller of two columns that name the same things, as user_name and user_id do."""
    if len(names) != 2 or not set(names) <= set(profile.names):
        return names
    kept = profile.filled(*names)
    n_values = {len(np.unique(profile.codes(*own)[kept])) for own in (names, names[:1], names[1:])}
    is_same = len(n_values) == 1 and 3 <= max(n_values) <= kept.sum() / 2
    return [max(names, key=lambda name: int(profile.filled(name).sum()))] if is_same else names


def _items(profile: Profile, found: Found) -> list[str]:
    """Return the item's columns by name, an id before its text."""
    taken = {*found["worker"], *found["label"]}
    items = [name for name in found["item"] if name not in taken]
    ids = [n for n in profile.names if normalise(n) in ("id", "uid", "key")]
    ids = [n for n in ids if LEAST_EACH * profile.n_distinct(n) <= profile.filled(n).sum()][:1]
    if not items and not ids and len(found["worker"]) == 1 and taken <= {*profile.names}:
        named = [n for n in profile.names if words_of(n) & {"id", "ids"} and n not in taken]
        named = [n for n in named if not words_of(n) & NOT_ITEMS]
        return [n for n in named if is_key(profile, found["worker"][0], [n])][:1]
    if len(items) == 1 and ids and normalise(items[0]) in _TEXTS and items[0] in profile.names:
        return ids if follows(profile, ids, items[0]) else items
    return items or ids


def _answers(profile: Profile, worker: Sequence[str], item: Sequence[str]) -> list[str]:
    """Return what may be answers, where nothing but its place says so."""
    rest = [n for n in profile.names if n not in (*worker, *item)]
    if not {*worker, *item} <= {*profile.names}:
        return []
    owners = [own for own in (worker, item) if own]
    if len(rest) == 1 and not words_of(rest[0]) & ABOUT:
        return [n for n in rest if not any(follows(profile, own, n) for own in owners)]
    return list(labels_of(profile, worker, item, parts=set()))


def _refuse_consensus(profile: Profile, found: Found) -> None:
    """Refuse a label that never differs within an item, beside another that does."""
    (label,), (item,), (worker,) = found["label"], found["item"], found["worker"]
    if not {label, item, worker} <= set(profile.names) or not follows(profile, [item], label):
        return
    n_items, n_labels = profile.n_distinct(item), profile.n_distinct(label)
    is_chance = n_labels == 1 or 2 * n_labels <= n_items < CHANCE  # so few may agree by chance
    others = [n for n in labels_of(profile, [worker], [item]) if n != label]
    others = [n for n in others if normalise(n) in KNOWN["label"] or not is_chance]
    for name in others[:1]:
        raise Refusal(
            f"{profile.document.name}: {label!r} is the same for all answers to an item and "
            f"{name!r} is not: which one did the workers give? Say --label-col {quote(name)} "
            f"or --label-col {quote(label)}",
            [{"label_col": name}],
        )


def _headerless(document: Document, options: ReadOptions, notes: list[str]) -> Layout:
    """Return the columns of a file without a header: by position, by looks, by counts."""
    names, given, table = document.names, options.columns, document.table
    shown = ", ".join(" ".join(cell.split())[:40] for cell in table.first_row[:5])
    shown = shown.encode("utf-8", "replace").decode()
    if len(table.sample) == 1 and not any(given.values()) and options.header is None:
        raise EmptyFile(
            f"{document.name}: only one row ({shown}); if it is a header, there are no answers, "
            "else say --no-header and name the columns by position"
        )
    if len(names) == 1:
        raise InputError(f"{document.name}: one column; set --delimiter if it holds several")
    if table.doubtful and options.header is None:
        raise Refusal(
            f"{document.name}: is the first row ({shown}) a header? If so, say --header and name "
            "the columns with --worker-col, --item-col and --label-col, else say --no-header",
            is_open=True,
        )
    if any(given.values()) or options.worker_from is not None:
        chosen = {role: select(document, role, asked) for role, asked in given.items() if asked}
        if options.worker_from is not None:
            chosen["worker"] = ()
        told = {role: str(names.index(c[0]) + 1) for role, c in chosen.items() if c}
        places = by_position(document, told, [r for r in given if chosen.get(r) != ()])
        return Layout("long", **{**{r: (names[at],) for r, at in places.items()}, **chosen})
    cells = [document.sampled(name) for name in names]
    looks = [_looks(own) for own in cells[:3]]
    profile = Profile(document)
    # of three, who answers what comes again, but not the pair, and a label names no row
    n_pairs = profile.n_distinct(*names[:2]) if len(names) == 3 else 0
    is_once = len(names) == 3 and profile.n_rows >= 20 and profile.is_unique(names[2])
    if len(names) != 3 or looks[2] or is_once or 4 * n_pairs < profile.n_rows:
        how = "--worker-col, --item-col and --label-col as positions"
        if len(names) == 2:
            how = "--worker-col none --item-col 1 --label-col 2 if nobody knows who answered"
        raise Refusal(
            f"{document.name}: no header and {len(names)} columns, so nobody knows which is what; "
            f"say {how}",
            is_open=len(names) > 3 or is_once,
        )
    if looks[0] != looks[1] and all(cells[:2]):  # an empty column tells nothing
        is_swapped = looks[1] > looks[0]
    else:
        is_swapped, why = _by_counts(document)
        order = "item, worker, label" if is_swapped else "worker, item, label"
        notes.append(
            f"{document.name}: no header, so columns are taken as {order}: {why}; "
            "--worker-col 1 --item-col 2 or the other way round settles it"
        )
    who, what = (names[1], names[0]) if is_swapped else (names[0], names[1])
    return Layout("long", (who,), (what,), (names[2],))


def _looks(cells: Sequence[str]) -> int:
    """Return 1 if most cells are names of workers, -1 if of items, 0 if neither."""
    hits = [sum(1 for c in cells if p.fullmatch(c)) for p in (WORKER_NAME, ITEM_NAME)]
    return int(hits[0] > 0.8 * len(cells)) - int(hits[1] > 0.8 * len(cells)) if cells else 0


def _by_counts(document: Document) -> tuple[bool, str]:
    """Return whether the item comes before the worker, by how often values come, and why."""
    columns = document.columns(document.names[:2])
    n_rows, sizes = len(columns[0]), [len(column.dictionary) for column in columns]
    if n_rows >= 20 and max(sizes) > 0.9 * n_rows:
        raise InputError(
            f"{document.name}: no header, and hardly a value of column {np.argmax(sizes) + 1} "
            "comes twice, as workers and items do; name the columns in a first row"
        )
    told = item_side(*(column.indices for column in columns))
    if told is None:
        raise Refusal(
            f"{document.name}: no header, and nothing tells whether column 1 or 2 is the worker; "
            "say --worker-col 1 --item-col 2 --label-col 3, or --worker-col 2 --item-col 1 "
            "--label-col 3"
        )
    return told[0] == 0, told[1]
