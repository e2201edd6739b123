"""Which column is the worker, which the item, which the label: by the user's word, else by name.

Of the tiers of names (vocabulary.py) the first that matches decides, and two columns within one
tier are an error, because a guess between `annotator` and `rater` would be a coin toss.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from misc_cli.errors import ConfigError, InputError
from misc_cli.readers.vocabulary import SYNONYMS, TRUE_LABELS, find_roles, normalise


def _named_by(given: str | None) -> set[str]:
    """A tier of what the user called a column, unless that was its position."""
    return {normalise(given)} if given and not is_position(given) else set()


def truth_synonyms(item: str | None = None, label: str | None = None) -> dict[str, list[set[str]]]:
    """Names in a file of known labels, where `item` and `label` are what the answers call them."""
    items, labels = (_named_by(name) for name in (item, label))
    return {
        "item": [items, *SYNONYMS["item"], {"id"}],
        "label": [*TRUE_LABELS, labels, *SYNONYMS["label"]],
    }


@dataclass(frozen=True)
class Column:
    """A chosen column: its position (from 0) and its name, None in a file without a header."""

    position: int
    name: str | None

    def __str__(self) -> str:
        return str(self.position + 1) if self.name is None else self.name


@dataclass(frozen=True)
class Parsed:
    """One file's text columns by role, dictionary-encoded, and how they were found."""

    columns: dict[str, Any]
    chosen: dict[str, Column]
    n_rows: int
    delimiter: str | None = None
    header: bool | None = None


def flag(role: str) -> str:
    return "--group-by" if role == "group" else f"--{role}-col"


def is_position(given: str) -> bool:
    return given.isascii() and given.isdigit() and int(given) > 0


def choose(
    where: str,
    names: Sequence[str],
    given: Mapping[str, str | None],
    synonyms: dict[str, list[set[str]]] = SYNONYMS,
    hint: str = "",
) -> dict[str, Column]:
    """The column of each role in a file with a header; an error says what is there instead."""
    by_name = find_roles(names, synonyms)
    if len(names) == 2 == len(synonyms):
        _fill_pair(by_name)
    chosen: dict[str, Column] = {}
    missing = [role for role in synonyms if given.get(role) is None and not by_name[role]]
    if missing:
        raise missing_columns(where, names, missing, hint)
    for role in synonyms:
        asked = given.get(role)
        if asked is not None:
            at = named(where, names, role, asked)
        elif len(by_name[role]) == 1:
            at = by_name[role][0]
        else:
            raise rivals(where, role, [names[at] for at in by_name[role]])
        chosen[role] = Column(at, names[at])
    return _distinct(where, chosen)


def missing_columns(
    where: str, names: Sequence[str], missing: Sequence[str], hint: str = ""
) -> InputError:
    """All that is missing at once, and all that is there."""
    pronoun = "it" if len(missing) == 1 else "them"
    return InputError(
        f"{where}: no {_and(missing)} column among {listing(names, 20)}; "
        f"name {pronoun} with {_and([flag(role) for role in missing])}{hint}"
    )


def rivals(where: str, role: str, names: Sequence[str]) -> InputError:
    found = " and ".join(map(repr, names))
    return InputError(f"{where}: {found} may each be the {role}; pick with {flag(role)}")


def _and(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _fill_pair(by_name: dict[str, list[int]]) -> None:
    """Two columns of known labels leave no choice once one is known: `image,breed`."""
    for role, positions in by_name.items():
        if not positions:
            taken = [other for at in by_name.values() for other in at]
            by_name[role] = [at for at in (0, 1) if at not in taken][:1]


def by_position(
    where: str, n_columns: int, given: Mapping[str, str | None], roles: Sequence[str]
) -> dict[str, Column]:
    """The columns of a file without a header: the user's positions, else 1, 2, 3 in role order."""
    chosen = {}
    for default, role in enumerate(roles, start=1):
        asked = given.get(role) or str(default)
        if not is_position(asked):
            raise ConfigError(
                f"{where} has no header, so {flag(role)} must be a position, not {asked!r}"
            )
        if int(asked) > n_columns:
            raise InputError(
                f"{where}: no column {asked} for the {role}, the first row has {n_columns}; "
                f"set {flag(role)}, or --delimiter if the columns were split wrongly"
            )
        chosen[role] = Column(int(asked) - 1, None)
    return _distinct(where, chosen)


def named(where: str, names: Sequence[str], role: str, asked: str) -> int:
    """Exact name first, then the name without case and punctuation, then a position."""
    for key in (str, normalise):
        matches = [at for at, name in enumerate(names) if key(name) == key(asked)]
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise InputError(
                f"{where}: {len(matches)} columns are called {asked!r}; "
                f"give {flag(role)} as a position (1, 2, …)"
            )
    if is_position(asked) and int(asked) <= len(names):
        return int(asked) - 1
    raise InputError(
        f"{where}: no column {asked!r} for the {role} among {listing(names)}; correct {flag(role)}"
    )


def _distinct(where: str, chosen: dict[str, Column]) -> dict[str, Column]:
    taken: dict[int, str] = {}
    for role, column in chosen.items():
        if column.position in taken:
            raise InputError(
                f"{where}: column {column} would be both the {taken[column.position]} and the "
                f"{role}; set {flag(taken[column.position])} and {flag(role)}"
            )
        taken[column.position] = role
    return chosen


def listing(names: Sequence[str], most: int = 12) -> str:
    shown = ", ".join(" ".join(name.split())[:40] or "(unnamed)" for name in names[:most])
    return shown + (f", … ({len(names)} columns)" if len(names) > most else "")


def first_nameless(columns: dict[str, Any], role: str) -> int | None:
    """The first row (from 0) that has a label and no name in `role`; None if there is none.

    Rows are looked at only if the role's vocabulary holds a blank at all.
    """
    blank = _is_blank(columns[role].dictionary)
    if not pc.any(blank).as_py():
        return None
    labelled = pc.invert(_is_blank(columns["label"].dictionary))
    rows = pc.and_(blank.take(columns[role].indices), labelled.take(columns["label"].indices))
    row = int(pc.index(rows, pa.scalar(True)).as_py())
    return row if row >= 0 else None


def _is_blank(names: Any) -> Any:
    return pc.or_(pc.equal(names, ""), pc.utf8_is_space(names))
