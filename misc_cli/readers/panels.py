"""Panels: columns of a table that are workers, items or classes, by structure.

Those who answer choose from the same few values and agree row by row: such columns are a panel,
whatever they are called. Names start the family, the vocabulary closes it. Where rows are people,
the columns of one scale are items.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np

from misc_cli.readers.columns import Layout, Refusal, naming_column, with_doubles
from misc_cli.readers.document import Document
from misc_cli.readers.keys import GOLD, INPUT, KNOWN, OF_PERSON, Profile, is_person
from misc_cli.readers.layouts.wide import stem_and_key, whole_numbers
from misc_cli.readers.options import ROW
from misc_cli.readers.row_filters import is_standing
from misc_cli.readers.values import FEW_CLASSES, NUMBER
from misc_cli.readers.vocabulary import (
    ABOUT,
    MODEL,
    NAMING,
    is_property,
    names_in,
    normalise,
    words_of,
)

LEAST_KAPPA, MOST_AGREE = 0.1, 0.8  # agreement above chance; between columns of workers
LEAST_ITEMS = 10  # columns of a form that no name tells
MOST_WORKERS = 40  # columns of workers that no name tells
FEW_ROWS = 5
_PEOPLE = names_in("annotator worker rater raters coder judge user ann labeler expert pid")
_ANSWERS = names_in("label labels annotation annotations vote votes winner verdict judgment")
_PREDICTED = names_in("predicted prediction predictions pred preds actual annotated")
_PERSONS = names_in("name fullname person physician voter senator member")
_ASKED = names_in("answer q question rating ratings item")
_THINGS = names_in("q question item min max")  # or figures: no stem of workers
_BETWEEN = re.compile(r"[\W_\d]")

Given = dict[str, Any]  # fields of ReadOptions, and EACH
Scored = tuple[float, Given]
Vocabularies = dict[str, set[str]]


def _vocabularies(profile: Profile) -> Vocabularies:
    """Return the columns that choose from a few values, with these."""
    names = [n for n in profile.names if n.strip() and not (is_standing(n) or INPUT.match(n))]
    people = re.compile(rf"(?i).*\d|.|{MODEL.pattern}")  # gpt-4o, coder_id_1, N
    names = [n for n in names if not words_of(n) & ABOUT or people.fullmatch(n.strip())]
    names = [n for n in names if 1 <= len(profile.values(n)) <= 12 and profile.has_classes(n)]
    return {n: {value.casefold() for value in profile.values(n)} for n in names}


def _groups(profile: Profile, values: Vocabularies) -> Iterator[tuple[str, list[str]]]:
    """Yield columns of one vocabulary that are called alike (label_1, Coder1Text, A, B), or words.

    The stem is what they share of their names. Words beside a property that is judged in the same
    words are questions, too.
    """
    families: dict[str, list[str]] = {}
    for name in values:
        stem = "" if MODEL.fullmatch(name.strip()) else stem_and_key(name)[0]
        families.setdefault(stem, []).append(name)
    words = families.pop("", [])
    for stem, own in sorted(families.items(), key=lambda pair: -len(pair[1])):
        if len(own) > 1 and len(overlapping({n: values[n] for n in own})) == len(own):
            yield stem, own
    while words and not any(map(is_person, profile.names)):  # beside them: questions
        most = values[max(words, key=lambda name: len(values[name]))]
        own = [n for n in words if 2 * len(values[n] & most) >= len(values[n] | most)]
        words = [n for n in words if n not in own]
        people = [n for n in own if MODEL.fullmatch(n.strip()) or not _is_property(n)]
        if len(people) > 1 and all(GOLD.fullmatch(n) for n in own if n not in people):
            yield "", people


def _panels(profile: Profile, values: Vocabularies) -> Iterator[tuple[str, list[str], bool]]:
    """Yield columns that may be workers: their stem, names, and if more is asked of the same keys.

    hate_1, hate_2, spam_1, spam_2, …: 1 and 2 are asked several questions. EXP1, EXP2, NOR1, NOR2,
    …: stems that are no words are people of several kinds, and one panel.
    """
    same: dict[tuple[str, ...], dict[str, list[str]]] = {}
    for stem, names in _groups(profile, values):
        keys = tuple(stem_and_key(name)[1] for name in names)
        same.setdefault(keys, {})[stem] = names
    for families in same.values():
        if len(families) > 2 and all(len(stem) < 5 for stem in families):
            every = {name for names in families.values() for name in names}
            yield "#", [name for name in profile.names if name in every], True
        else:
            yield from ((stem, own, len(families) > 2) for stem, own in families.items())


def _are_things(profile: Profile, stem: str, names: Sequence[str]) -> bool:
    """Return whether numbers count what is shown: text_1, text_2 are filled where columns are."""
    keys = [stem_and_key(name)[1] for name in names]
    families: dict[str, list[str]] = {}
    for name in profile.names:
        found, key = stem_and_key(name)
        if found != stem and key in keys and not words_of(name) & (ABOUT - NAMING | _PEOPLE):
            families.setdefault(found, []).append(name)
    for own in families.values() if stem else ():
        pairs = [*zip(own, names, strict=False)]
        is_paired = all((profile.filled(a) == profile.filled(b)).mean() > 0.9 for a, b in pairs)
        are_many = all(len(profile.values(name)) >= FEW_CLASSES for name in own)
        if len(own) == len(names) and is_paired and are_many:
            return not all(profile.kind(name).name == NUMBER for name in own)
    return False


def find_panels(profile: Profile) -> Iterator[Scored]:
    """Propose columns that choose from the same few values and agree, row by row."""
    values = _vocabularies(profile)
    forms = {name for names in _blocks(profile, values) for name in names}
    for stem, own, is_asked in _panels(profile, values):
        names = with_doubles(own, profile.names)
        is_told = is_asked or bool(words_of(stem) & (_PEOPLE | _ANSWERS))
        others = _THINGS | OF_PERSON
        is_about = bool(words_of(stem) & (others if is_told else others | ABOUT))
        if is_about or forms & set(names) or _are_things(profile, stem, names):
            continue
        is_pair = len(names) == 2 and not is_told  # two of many columns may be two things
        if is_pair and (len(profile.names) > 4 or any(words_of(n) & _PREDICTED for n in names)):
            continue
        kappa, share = _agreement_of_columns(profile, names)
        is_alike = kappa > LEAST_KAPPA or (is_told and share > MOST_AGREE)
        if not is_alike or not _is_closed(profile, values, names):
            continue
        for given in _with_item(profile.document, Layout("wide", worker=tuple(names)), names):
            # columns may as well be questions, and rows people, where nothing names the rows
            is_sure = kappa > 0.2 and len(names) <= 5 and profile.n_rows > 10 * len(names)
            most = max(MOST_WORKERS, profile.n_rows / 10)
            are_many = len(names) > most and not words_of(stem) & _PEOPLE
            if is_person(given["item_col"]) or are_many:
                continue  # rows are who answered, perhaps
            if is_told or not stem or given["item_col"] != ROW or is_sure:
                yield kappa + is_told + 0.5 * bool(stem), given


def _is_closed(profile: Profile, values: Vocabularies, names: Sequence[str]) -> bool:
    """Return whether no column is left out that chooses from the same values and is called alike.

    hate_1, hate_2 and spam_1, spam_2 are two questions: as many columns, of the same keys.
    """
    shared = set().union(*(values.get(name, set()) for name in names))
    keys = {stem_and_key(name)[1] for name in names}
    others = set(profile.names) - set(names)
    if "1" not in keys and {name.removesuffix("2") for name in names} & others:
        return False  # size, size2, size3: the first has no number
    words = [_BETWEEN.split(name.strip()) for name in names]
    begins = {own[0] for own in words}
    ends = {own[-1] for own in words if len(own[-1]) > 1}
    longest = max(map(len, names))
    families: dict[str, set[str]] = {}
    for name in (n for n in values if n not in names and not GOLD.fullmatch(n)):
        stem, key = stem_and_key(name)
        own = _BETWEEN.split(name.strip())
        is_alike = (bool(stem) and own[0] in begins) or own[-1] in ends
        if values[name] == shared and (is_alike or len(name) <= longest < 4):
            families.setdefault(stem, set()).add(key)
    return all(own == keys for own in families.values())


def _agreement_of_columns(profile: Profile, names: Sequence[str]) -> tuple[float, float]:
    """Return Cohen's kappa and how often two columns agree, on average over pairs of columns.

    Questions that all answer alike have shares of their own, and agree no more than those.
    """
    kappas, shares = [], []
    if profile.n_rows < 2 * FEW_ROWS:
        return 1.0, 1.0
    columns = {name: np.array(profile.cells(name)) for name in names[:12]}
    for one, other in combinations(columns.values(), 2):
        kept = (one != "") & (other != "")
        if kept.any():
            first, second = one[kept], other[kept]
            own = {v: (first == v).mean() * (second == v).mean() for v in np.unique(first)}
            chance, agree = float(sum(own.values())), float((first == second).mean())
            kappas += [(agree - chance) / (1 - chance)] if chance < 1 else []
            shares.append(agree)
    return float(np.mean(kappas or [0.0])), float(np.mean(shares or [0.0]))


def _blocks(profile: Profile, values: Vocabularies) -> Iterator[list[str]]:
    """Yield many columns of one small vocabulary that are items, a row being whoever answered."""
    said = [n for n in profile.names if n.startswith("Answer.") and profile.has_classes(n)]
    if said and any(map(is_person, profile.names)):
        yield said
        return
    blocks: dict[str, list[str]] = {}
    for name in profile.names:
        blocks.setdefault(re.sub(r"\d+", "#", name), []).append(name)
    for shape, names in [*blocks.items(), ("", profile.names)]:
        asked = words_of(shape.removeprefix("Answer.").partition("#")[0]) & _ASKED
        n_least = profile.n_rows * (1 if shape.count("#") > 1 else 5)
        alike = overlapping({name: values[name] for name in names if name in values})
        is_many = len(names) >= LEAST_ITEMS and (asked or len(names) > n_least)
        if is_many and len(alike) > 0.9 * len(names):
            yield names if shape else alike
    alike = overlapping(values) if _people(profile) else []
    if len(alike) > 2 and _agreement_of_columns(profile, alike)[0] < MOST_AGREE / 2:
        yield alike


def _people(profile: Profile) -> list[str]:
    """Return the columns that name another person in each row: Clinician 1, Diane Abbott."""
    found = [n for n in profile.names if normalise(n) in _PERSONS and profile.is_unique(n)]
    return [n for n in found if all(v[:1].isupper() and " " in v for v in profile.values(n))]


def find_forms(profile: Profile) -> Iterator[Scored]:
    """Propose columns as items."""
    people = [n for n in profile.names if is_person(n)] or _people(profile)
    standing = [n for n in profile.names if is_standing(n) or normalise(n).startswith("reject")]
    if any(profile.n_distinct(n) > 1 for n in standing):
        return  # some rows may not count
    for names in _blocks(profile, _vocabularies(profile)):
        if len({value for name in names for value in profile.values(name)}) <= 7:
            layout = Layout("form", worker=tuple(people[:1]), item=tuple(names))
            yield 0.6, {"worker_col": ROW, **layout.options(profile.document)}


def find_small_counts(profile: Profile) -> Iterator[Scored]:
    """Propose columns of small sums: counts of few raters, some of them missing.

    They have short names, or are all that there is and disagree, as rivals do.
    """
    document = profile.document
    numbers = [n for n in document.names if whole_numbers(document, n)]
    own = [n for n in numbers if len(n.strip()) < 3]
    if len(numbers) == len(document.names) - 1 and _agreement_of_columns(profile, numbers)[0] < 0:
        own = numbers
    sums = [sum(row) for row in zip(*(whole_numbers(document, n) or [] for n in own), strict=True)]
    if len(own) > 2 and 1 <= min(sums) <= max(sums) <= 12:
        for given in _with_item(document, Layout("counts", label=tuple(own)), own):
            yield 0.9, given


def _with_item(document: Document, layout: Layout, taken: Sequence[str]) -> Iterator[Given]:
    """Yield a layout's options, with the column that names the items; none if it comes again."""
    rest = [n for n in document.names if n not in taken]
    with suppress(Refusal):
        yield replace(layout, item=naming_column(document, rest)).options(document)


def _is_property(name: str) -> bool:
    is_known = normalise(name) in KNOWN["item"] | KNOWN["label"] or GOLD.fullmatch(name)
    return not name.strip().isalpha() or bool(is_known) or any(map(is_property, words_of(name)))


def overlapping(values: Mapping[str, set[str]]) -> list[str]:
    """Return the columns that share at least half of their values with all others together."""
    names = list(values)
    for _ in range(2):
        uses = Counter(value for name in names for value in values[name])
        names = [n for n in names if 2 * sum(uses[v] > 1 for v in values[n]) >= len(values[n])]
    return names
