"""Find the columns of worker, item and label by the user's word, or by name.

Of the tiers of names (vocabulary.py) the first that matches decides, and two columns within one
tier are an error, because a guess between `annotator` and `rater` would be a coin toss.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from misc_cli.errors import InputError, did_you_mean
from misc_cli.readers.document import Document
from misc_cli.readers.options import NOBODY, ROW
from misc_cli.readers.vocabulary import (
    ABOUT,
    NAMING,
    SYNONYMS,
    TRUE_LABELS,
    find_roles,
    is_position,
    normalise,
    undoubled,
    words_of,
)

Synonyms = dict[str, list[set[str]]]
Given = Mapping[str, str | None]  # role → what the user calls its column

MOST_LISTED = 8


@dataclass(frozen=True)
class Layout:
    """The columns of a table by what they are; `name` is that of --layout, or `pairs`.

    long    worker, item and label columns; no worker is nobody, no item is the row
    wide    a column for each worker; form: a column for each item; counts: for each class
    """

    name: str
    worker: tuple[str, ...] = ()
    item: tuple[str, ...] = ()
    label: tuple[str, ...] = ()

    def options(
        self, document: Document, paths: Mapping[str, str] | None = None
    ) -> dict[str, object]:
        """Return the fields of `ReadOptions` that declare the same, with columns by their paths."""
        given: dict[str, object] = {} if self.name == "long" else {"layout": self.name}
        several = {"wide": "worker", "form": "item", "counts": "label"}.get(self.name)
        for role in ("worker", "item", "label"):
            names = getattr(self, role)
            if names and paths:
                given[f"{role}_col"] = ",".join(paths.get(name, name) for name in names)
            elif names:
                given[f"{role}_col"] = written(document, names, pattern=role == several)
            elif role == "worker" and self.name == "long":
                given["worker_col"] = NOBODY
            elif role == "item" and self.name in ("long", "wide", "counts"):
                given["item_col"] = ROW
        if document.table.header is False and self.name == "long":
            given["header"] = False
        return given


class Refusal(InputError):
    """A reading that is refused because it is likely wrong, or because nothing tells.

    remedies  fields of `ReadOptions` that may settle it
    is_open   whether other columns may be meant, so that other readings are looked for
    """

    def __init__(
        self, message: str, remedies: Sequence[Mapping[str, Any]] = (), *, is_open: bool = False
    ) -> None:
        super().__init__(message)
        self.remedies, self.is_open = tuple(remedies), is_open


def truth_synonyms(item: str | None = None, label: str | None = None) -> Synonyms:
    """Return names in a file of known labels; `item` and `label` are what the answers call them."""
    own = [{normalise(n)} if n and not is_position(n) else set() for n in (item, label)]
    items = [own[0], *SYNONYMS["item"], {"id"}]
    return {"item": items, "label": [TRUE_LABELS, own[1], *SYNONYMS["label"]]}


def read_columns(
    document: Document, given: Given, synonyms: Synonyms
) -> tuple[dict[str, str], dict[str, Any]]:
    """Return a file of known labels, or of labels: role → column's name, role → its text."""
    names = document.names
    if document.table.header is False:
        places = by_position(document, given, list(synonyms))
    else:
        places = choose(document.name, names, given, synonyms)
    columns = dict(zip(places, document.table.fetch(list(places.values())), strict=True))
    for role in columns:
        row = first_nameless(columns, role)
        if row is not None:
            raise nameless(document, row, role)
    return {role: names[at] for role, at in places.items()}, columns


def flag(role: str) -> str:
    others = {"group": "--group-by", "where": "--where", "keep": "--keep"}
    return others.get(role, f"--{role}-col")


def choose(
    where: str, names: Sequence[str], given: Given, synonyms: Synonyms = SYNONYMS
) -> dict[str, int]:
    """Return role → position by name alone; an error says what is there instead."""
    found = find_roles(names, synonyms)
    found |= {r: [named(where, names, r, asked)] for r, asked in given.items() if asked is not None}
    missing = [role for role, places in found.items() if not places]
    if len(names) == 2 == len(found) and len(missing) == 1:  # two columns leave no choice
        (taken,) = (places[0] for places in found.values() if places)
        found[missing.pop()] = [1 - taken]
    if missing:
        raise missing_columns(where, names, missing)
    for role, places in found.items():
        if len(places) > 1:
            raise rivals(where, role, [names[at] for at in places])
    chosen = {role: place for role, (place,) in found.items()}
    twice = [names[at] for at in chosen.values() if [*chosen.values()].count(at) > 1]
    if twice:
        raise InputError(f"{where}: column {twice[0]} would be two of {_and([*chosen])}; name both")
    return chosen


def missing_columns(
    where: str, names: Sequence[str], missing: Sequence[str], hint: str = ""
) -> Refusal:
    """Return an error that names all that is missing at once, and what is there."""
    told = f"{where}: no {_and(missing)} column among {listing(names)}"
    return Refusal(f"{told}; say {_and([*map(flag, missing)])}{hint}", is_open=True)


def rivals(where: str, role: str, names: Sequence[str]) -> Refusal:
    found = " and ".join(map(repr, names[:MOST_LISTED]))
    told = f"{where}: {found} may each be the {role}; pick with {flag(role)}"
    return Refusal(told, [{f"{role}_col": name} for name in names], is_open=True)


def _and(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def by_position(document: Document, given: Given, roles: Sequence[str]) -> dict[str, int]:
    """Return the columns of a file without a header: the user's positions, else 1, 2, 3."""
    asked = {role: given.get(role) or str(n) for n, role in enumerate(roles, start=1)}
    return {r: named(document.name, document.names, r, name) for r, name in asked.items()}


def named(where: str, names: Sequence[str], role: str, asked: str) -> int:
    """Return a column by its exact name, by its name without case and punctuation, or position."""
    for key in (str, normalise):
        matches = [at for at, name in enumerate(names) if key(name) == key(asked)]
        if len(matches) == 1:
            return matches[0]
        if matches:
            told = f"{where}: {len(matches)} columns are called {asked!r}"
            raise InputError(f"{told}; give {flag(role)} as a position (1, 2, …)")
    if is_position(asked) and int(asked) <= len(names):
        return int(asked) - 1
    hint = f"; correct {flag(role)}, or --delimiter if the columns were split wrongly"
    hint = did_you_mean(asked, names) or hint
    raise InputError(f"{where}: no column {asked!r} among {listing(names)}{hint}")


def select(document: Document, role: str, given: str) -> tuple[str, ...]:
    """Return the columns that a declaration means: names, positions, ranges (3-7), patterns."""
    names = document.names
    if given.lower() in (NOBODY, ROW) and given not in names:
        return ()
    found: list[str] = []
    for part in [given] if given in names else map(str.strip, given.split(",")):
        span = re.fullmatch(r"(\d+)-(\d+)", part)
        like = [name for name in names if fnmatchcase(name, part)]
        if part in names:
            found.append(part)
        elif span and 0 < int(span[1]) <= int(span[2]) <= len(names):
            found += names[int(span[1]) - 1 : int(span[2])]
        elif like:
            found += like
        else:
            found.append(names[named(document.name, names, role, part)])
    return tuple(dict.fromkeys(found))


def with_doubles(names: Sequence[str], every: Sequence[str]) -> list[str]:
    """Return those of every column that are these, or have the name of one of these."""
    called = dict(zip(every, undoubled(every), strict=True))
    wanted = {called[name] for name in names}
    return [name for name in every if called[name] in wanted]


def written(document: Document, names: Sequence[str], *, pattern: bool = False) -> str:
    """Return the shortest declaration of these columns: a pattern, their names, or positions."""
    if pattern and len(names) > 1:
        for head in range(len(names[0]), -1, -1):
            glob = names[0][:head] + "*"
            if [n for n in document.names if fnmatchcase(n, glob)] == list(names):
                return glob
    if all(n.strip() and not set(n) & set(",*?[\n") for n in names) and len(",".join(names)) < 200:
        return ",".join(names)
    places = [document.names.index(name) + 1 for name in names]
    if len(places) > 2 and places == list(range(places[0], places[-1] + 1)):
        return f"{places[0]}-{places[-1]}"
    return ",".join(map(str, places))


def listing(names: Sequence[str], most: int = MOST_LISTED) -> str:
    shown = ", ".join(" ".join(name.split())[:40] for name in names[:most])
    return shown + (f", … ({len(names)} columns)" if len(names) > most else "")


def first_nameless(columns: Mapping[str, Any], role: str) -> int | None:
    """Return the first row (from 0) that has a label and no name in `role`; None without one.

    Rows are looked at only if the role's vocabulary holds a blank at all.
    """
    blank = pc.equal(pc.utf8_trim_whitespace(columns[role].dictionary), "")
    if not pc.any(blank).as_py():
        return None
    labelled = pc.not_equal(pc.utf8_trim_whitespace(columns["label"].dictionary), "")
    rows = pc.and_(blank.take(columns[role].indices), labelled.take(columns["label"].indices))
    row = int(pc.index(rows, pa.scalar(True)).as_py())
    return row if row >= 0 else None


def nameless(document: Document, row: int, role: str) -> InputError:
    kind = "record" if document.table.header is None else "line"
    return InputError(
        f"{document.name}, {kind} {document.table.line(row)}: a label without its {role}; "
        "fill it in or drop the row"
    )


def naming_column(document: Document, names: Sequence[str]) -> tuple[str, ...]:
    """Return the column that names each row once; none if rows are to be counted.

    An id or a plain name for items goes before any other column. One that comes twice is refused:
    its rows may be answers to one item.
    """
    ids = {"id", "index", "uid", "idx"}
    plain = find_roles(names, {"item": [*SYNONYMS["item"][:3], ids]})["item"]
    other = find_roles(names, {"item": SYNONYMS["item"][3:]})["item"]
    rest = [at for at, name in enumerate(names) if not words_of(name) & (ABOUT - NAMING)]
    for place in (*plain, *other, *rest):
        cells = document.sampled(names[place])
        if len(set(cells)) == len(cells) == len(document.table.sample):
            (whole,) = document.columns([names[place]])  # what comes again may come later
            if len(whole.dictionary) == len(whole):
                return (names[place],)
    if not plain:
        return ()
    raise Refusal(
        f"{document.name}: {listing([names[at] for at in plain])} names several rows; pick the "
        f"item with --item-col, or say --item-col {ROW} if each row is one",
        [{"item_col": ROW}],
    )
