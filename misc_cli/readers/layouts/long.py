"""One row per answer: columns of worker, item and label, found by name or by their values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations

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
from misc_cli.readers.keys import LEAST_EACH, NOT_ITEMS, Profile, follows, is_key, labels_of
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.reading import Question, Reading, from_columns, item_side
from misc_cli.readers.row_filters import gold_of, rows_out
from misc_cli.readers.vocabulary import (
    ABOUT,
    ITEM_NAME,
    WORKER_NAME,
    find_roles,
    normalise,
    words_of,
)

ROLES = ("worker", "item")
_IDS = {"id", "ids", "uid", "key"}
_TEXTS = {"text", "sentence", "tweet", "comment", "url", "file", "filename", "imageurl"}


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
    """Return the columns of a table with one row per answer; what to say goes to notes.

    The user's word goes before names, names before structure (keys.py).
    """
    given = {role: asked for role, asked in options.columns.items() if asked is not None}
    declared = {role: select(document, role, asked) for role, asked in given.items()}
    if options.worker_from is not None:
        declared["worker"] = ()
    if document.table.header is False:
        return _headerless(document, options, declared, notes)
    names, profile = document.names, Profile(document)
    said = [name for own in declared.values() for name in own]
    found = {
        role: [names[at] for at in places if names[at] not in said]
        for role, places in find_roles(names).items()
    }
    if len(names) > 3 and profile.n_rows >= 20:  # one value names nothing
        found["item"] = [name for name in found["item"] if profile.n_distinct(name) > 1]
    found.update({role: _one_of_same(profile, own) for role, own in found.items() if own[1:]})
    found.update({role: [*own] for role, own in declared.items()})
    worker, item = found["worker"], found["item"]
    ids = [name for name in profile.names if normalise(name) in ("id", "uid")][:1]
    is_text = "item" not in declared and bool(set(map(normalise, item)) & _TEXTS)
    if is_text and ids:  # it may come again under other ids, or be spelled in two ways
        is_finer = len(worker) == 1 and profile.n_distinct(*ids) < profile.n_distinct(item[0])
        if follows(profile, ids, item[0]) or (is_finer and is_key(profile, worker[0], ids)):
            item = found["item"] = ids
    if not item and "item" not in declared and len(worker) == 1:
        ids = [name for name in profile.names if words_of(name) & _IDS and name not in worker]
        ids = [n for n in ids if not words_of(n) & NOT_ITEMS and is_key(profile, worker[0], [n])]
        item = found["item"] = ids[:1]
    if not found["label"] and (worker or "worker" in declared) and item:
        rest = [name for name in names if name not in (*worker, *item)]
        about = [n for n in rest if words_of(n) & ABOUT]
        about += [n for n in rest for own in (worker, item) if own and follows(profile, own, n)]
        is_only = len(rest) == 1 and not about  # whatever it is called
        found["label"] = rest if is_only else list(labels_of(profile, worker, item, parts=set()))
    is_single = "label" not in declared and all(len(own) == 1 for own in found.values())
    if is_single and len(names) > 3 and follows(profile, item, found["label"][0]):  # a consensus?
        for name in labels_of(profile, worker, item)[:1]:
            raise rivals(document.name, "label", [name, *found["label"]])
    missing = [r for r, own in found.items() if not own and (r not in declared or r == "label")]
    is_pair = missing == ["worker"] and len(names) == 2
    is_pair = is_pair and LEAST_EACH * profile.n_distinct(*item) <= profile.n_rows
    if missing and not is_pair:  # of two columns, what comes again are answers of nobody
        hint = " (none if nobody knows who answered)" if missing == ["worker"] else ""
        once = [name for name in (*item, *names) if name in item or normalise(name) == "id"]
        few = [set(own) for own in map(profile.values, profile.names) if len(own) < 12]
        is_alone = not any(len(one & other) > 1 for one, other in combinations(few, 2))
        if "worker" in missing and once and profile.is_unique(once[0]) and is_alone:
            hint += f"; {once[0]!r} names each row once, and one answer is nothing to vote on"
        raise missing_columns(document.name, names, missing, hint)
    for role in ROLES:
        if role not in declared and len(found[role]) > 1:
            raise rivals(document.name, role, found[role])
    chosen = [name for own in found.values() for name in own]
    twice = [name for name in chosen if chosen.count(name) > 1]
    if twice:
        raise InputError(
            f"{document.name}: column {twice[0]} would be two of worker, item and label; "
            "set --worker-col, --item-col and --label-col"
        )
    return Layout("long", **{role: tuple(own) for role, own in found.items()})


def _one_of_same(profile: Profile, names: list[str]) -> list[str]:
    """Return the fuller of two columns that name the same things, as user_name and user_id do."""
    kept = profile.filled(*names)
    n_values = {len(np.unique(profile.codes(*own)[kept])) for own in (names, names[:1], names[1:])}
    is_same = len(names) == 2 and len(n_values) == 1 and 3 <= max(n_values) <= kept.sum() / 2
    return [max(names, key=lambda name: int(profile.filled(name).sum()))] if is_same else names


def _headerless(
    document: Document,
    options: ReadOptions,
    declared: Mapping[str, tuple[str, ...]],
    notes: list[str],
) -> Layout:
    """Return the columns of a file without a header: by position, by looks, by counts."""
    names, table = document.names, document.table
    shown = ", ".join(" ".join(cell.split())[:40] for cell in table.first_row[:5])
    shown = shown.encode("utf-8", "replace").decode()
    if len(table.sample) == 1 and not declared and options.header is None:
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
    if declared:
        told = {role: str(names.index(own[0]) + 1) for role, own in declared.items() if own}
        places = by_position(document, told, [r for r in options.columns if declared.get(r) != ()])
        return Layout("long", **{**{r: (names[at],) for r, at in places.items()}, **declared})
    profile = Profile(document)
    looks = [looks_of(document.sampled(name)) for name in names]
    # of three, who answers what comes again, but not the pair, and a label names no row
    is_once = len(names) == 3 and profile.n_rows >= 20 and profile.is_unique(names[2])
    is_repeated = 4 * profile.n_distinct(*names[:2]) < profile.n_rows
    if len(names) != 3 or looks[2] or is_once or is_repeated:
        how = "say --worker-col, --item-col and --label-col as positions"
        if len(names) == 2 and any(map(profile.is_unique, names)):
            how = "a column names each row once, and one answer is nothing to vote on"
        elif len(names) == 2:
            how = "say --worker-col none --item-col 1 --label-col 2 if nobody knows who answered"
        raise Refusal(
            f"{document.name}: no header and {len(names)} columns, so nobody knows which is what; "
            f"{how}",
            is_open=len(names) > 3 or is_once,
        )
    is_swapped = looks[1] > looks[0]
    if looks[0] == looks[1]:
        is_swapped, why = _by_counts(document)
        order = "item, worker, label" if is_swapped else "worker, item, label"
        notes.append(
            f"{document.name}: no header, so columns are taken as {order}: {why}; "
            "--worker-col 1 --item-col 2 or the other way round settles it"
        )
    who, what = (names[1], names[0]) if is_swapped else (names[0], names[1])
    return Layout("long", (who,), (what,), (names[2],))


def looks_of(cells: Sequence[str]) -> int:
    """Return 1 if most cells are names of workers, -1 if of items, 0 if neither."""
    hits = [sum(1 for c in cells if p.fullmatch(c)) for p in (WORKER_NAME, ITEM_NAME)]
    return int(hits[0] > 0.8 * len(cells)) - int(hits[1] > 0.8 * len(cells)) if cells else 0


def _by_counts(document: Document) -> tuple[bool, str]:
    """Return whether the item comes before the worker, by how often values come, and why."""
    columns = document.columns(document.names[:2])
    n_rows, sizes = len(columns[0]), [len(column.dictionary) for column in columns]
    if n_rows >= 20 and max(sizes) > 0.9 * n_rows:
        raise Refusal(
            f"{document.name}: no header, and hardly a value of column {np.argmax(sizes) + 1} "
            "comes twice, as workers and items do; name the columns in a first row",
            is_open=True,
        )
    told = item_side(*(column.indices for column in columns))
    if told is None:
        raise Refusal(
            f"{document.name}: no header, and nothing tells whether column 1 or 2 is the worker; "
            "say --worker-col 1 --item-col 2 --label-col 3, or --worker-col 2 --item-col 1 "
            "--label-col 3"
        )
    return told[0] == 0, told[1]
