"""Keys of a table with a row per answer: columns of worker, item and label by structure.

A worker answers an item once, and an item is answered by several workers: two columns (or a worker
and a few ids) that name each row once are worker and item. A person's word tells which is which.
What follows from one of them is about it, what names each row once is the answer's own id, and
what is left, with few classes, are the labels. All is told from figures of the columns, each
computed once: of the sample where a file is read, of the first 20,000 rows where another reading is
looked for, as answers to an item may lie far apart.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, permutations
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from misc_cli.readers.document import Document, text_array
from misc_cli.readers.reading import agreement
from misc_cli.readers.values import (
    CHOICE,
    CHOICES,
    MISSING,
    NUMBER,
    Kind,
    is_number,
    is_scale,
    kind_of_values,
)
from misc_cli.readers.vocabulary import (
    ABOUT,
    NAMING,
    SYNONYMS,
    WORKER_WORDS,
    find_roles,
    names_in,
    normalise,
    words_of,
)

MOST_ROWS = 20_000
KNOWN = {role: {word for tier in tiers for word in tier} for role, tiers in SYNONYMS.items()}
# Parts of an item's name beside ids: what was compared, by which system, in which turn.
PARTS = names_in("""
model system turn question prompt word sentence source target doc document segment pair id ids
dataset instance item index term topic hash text image sys
""")
LEAST_EACH = 1.5  # answers to an item; with fewer there is hardly anything to vote on
LEAST_ONCE = 0.95  # of a worker's answers to an item are the only one
FULL = 0.8  # of all pairs of worker and item: each was asked of each
MOST_PARTS = 8  # ids that may name an item together
MOST_DERIVED = 30  # columns that may follow from each other
LEAST_AGAIN = 4  # rows that say the same of an owner; fewer prove nothing
_PERSON = re.compile(
    rf"{WORKER_WORDS}|physicians?|pathologists?|radiologists?|clinicians?|doctors?|voters?|readers?"
    r"|listeners?|observers?|jurors?|players?|scorers?|agents?|humans?|anon|work|pid|prolific",
    re.IGNORECASE,
)
_CALLED = names_in("""
id ids idx name number no num code index indices unique uid key amt mturk crowd anonymised
anonymized anonymous hashed
""")
# Ids of the answer, the worker or the tool, not of what is judged.
NOT_ITEMS = names_in("""
annotation assignment answer response label class category session batch job project worker user
annotator rater team group country campaign account device record row submission judgment vote
rating classification parent link author
""")
# What is asked of people.
OF_PERSON = names_in("age gender sex education school income nationality occupation party group")
# what is judged, or who is not one of many, unless an id tells them apart
_ONE_OF_MANY = names_in("expert experts member members")
_NO_PERSON = _ONE_OF_MANY | names_in("subject subjects crowd model llm")
GOLD = re.compile(r"(?i).*(gold|truth|majority|consensus|expert|final|true|correct|aggregat).*")
_PLACES = names_in("idx index indices number no num unnamed")
_PLAIN_IDS = ("id", "uid", "subject", "subjectid")
INPUT = re.compile(r"(?i)input[.:]")


class Profile:
    """The columns of a document whose names come once, by figures of their cells."""

    def __init__(self, document: Document, *, whole: bool = False) -> None:
        self.document = document
        self.names = [name for name in document.names if name.strip()]
        self._whole = whole
        self._columns: dict[str, Any] = {}
        self._codes: dict[tuple[str, ...], Any] = {}

    @cached_property
    def n_rows(self) -> int:
        return len(self._column(self.names[0])) if self.names else 0

    def _column(self, name: str) -> Any:
        """Return the trimmed cells of a column, dictionary-encoded."""
        if name not in self._columns:
            if self._whole:
                for own, column in zip(self.names, self.document.columns(self.names), strict=True):
                    cells = pc.utf8_trim_whitespace(column[:MOST_ROWS].cast(pa.string()))
                    self._columns[own] = cells.dictionary_encode()
            else:
                at, rows = self.document.names.index(name), self.document.table.sample
                texts = (row[at].strip() if at < len(row) else "" for row in rows)
                self._columns[name] = text_array(texts)
        return self._columns[name]

    def codes(self, *names: str) -> Any:
        """Return a code for each row: of its cell, or of its cells in several columns."""
        if names not in self._codes:
            if len(names) == 1:
                found = np.asarray(self._column(names[0]).indices).astype(np.int64)
            else:
                first, last = self.codes(*names[:-1]), self.codes(names[-1])
                found = np.unique(first * (last.max(initial=0) + 1) + last, return_inverse=True)[1]
            self._codes[names] = found
        return self._codes[names]

    def filled(self, *names: str) -> Any:
        """Return a mask of the rows that are empty in none of the columns."""
        blank = [pc.index(self._column(n).dictionary, pa.scalar("")).as_py() for n in names]
        return np.all([self.codes(n) != at for n, at in zip(names, blank, strict=True)], axis=0)

    def cells(self, name: str) -> list[str]:
        return list(self._column(name).to_pylist())

    def values(self, name: str) -> list[str]:
        """Return what a column holds, each once."""
        return [value for value in self._column(name).dictionary.to_pylist() if value]

    def n_distinct(self, *names: str) -> int:
        return len(np.unique(self.codes(*names)[self.filled(*names)]))

    def kind(self, name: str) -> Kind:
        return kind_of_values(self.values(name), int(self.filled(name).sum()))

    def is_unique(self, name: str) -> bool:
        return 0 < len(self.values(name)) == int(self.filled(name).sum())

    def has_classes(self, name: str) -> bool:
        """Return whether a column holds choices, or marks of a scale of whole numbers."""
        values = [value for value in self.values(name) if value not in MISSING]
        values = [re.sub(r"\.0+$", "", value) for value in values]
        kind = kind_of_values(values, int(self.filled(name).sum()))
        is_whole = all(value.lstrip("+-").isdigit() for value in values)
        return kind.name == CHOICE or (kind.name == NUMBER and is_scale(values) and is_whole)

    def tells_apart(self, key: Sequence[str], name: str) -> bool:
        """Return whether rows with the same key differ in a column: it is part of the key."""
        keys, pairs = self.codes(*key), self.codes(*key, name)
        n_rows = np.bincount(keys)
        n_values = np.bincount(keys[np.unique(pairs, return_index=True)[1]], minlength=len(n_rows))
        again = n_rows > 1
        return bool(again.any() and (n_values == n_rows)[again].mean() >= 0.8)


@dataclass(frozen=True)
class Key:
    """Columns that name each answer once, and what may be its label, the likeliest first.

    is_told  whether names say so, too: who answers is called a person, the item is an id
    """

    worker: tuple[str, ...]
    item: tuple[str, ...]
    labels: tuple[str, ...]
    is_told: bool


def is_person(name: str) -> bool:
    """Return whether a column is called as those who answer are."""
    words = words_of(name) - _CALLED
    others = _NO_PERSON - (_ONE_OF_MANY if words_of(name) & {"id", "idx"} else set())
    is_word = bool(words - others) and all(map(_PERSON.fullmatch, words))
    return is_word or (normalise(name) in KNOWN["worker"] and not words & others)


def find_keys(profile: Profile) -> Iterator[Key]:
    """Yield the key of a person, else of an id that answers another one, else of nobody."""
    people = [n for n in profile.names if is_person(n)]
    for worker in (n for n in people if _comes_again(profile, n)):
        item, is_told = item_of(profile, worker, [n for n in profile.names if n not in people])
        if item:
            yield Key((worker,), item, labels_of(profile, [worker], item), is_told)
            return  # another person is the same one
    if people:
        return
    pair = _by_followers(profile)
    if pair is not None:
        worker, name = pair
        labels = labels_of(profile, [worker], [name])
        is_told = normalise(worker) in _PLAIN_IDS and _is_full(profile, worker, name)
        yield Key((worker,), (name,), labels, is_told)
    else:
        yield from _nobodys(profile)


def _by_followers(profile: Profile) -> tuple[str, str] | None:
    """Return the ids of who answered and of what, by their names and by what follows from them.

    From a person follow age and gender.
    """
    named = [n for n in profile.names if words_of(n) & _CALLED or normalise(n) in KNOWN["item"]]
    ids = [n for n in named if _may_name(profile, n) and _comes_again(profile, n)][:MOST_PARTS]
    told = [n for n in profile.names if len(profile.values(n)) > 1]
    after = {own: [n for n in told if n != own and follows(profile, (own,), n)] for own in ids}
    people = {n: any(words_of(o) & OF_PERSON for o in own) for n, own in after.items()}

    def points(worker: str, item: str) -> int:
        plain = normalise(item)
        is_named = _is_id(item) and plain not in _PLAIN_IDS
        return 2 * (people[worker] + (plain in KNOWN["item"])) + is_named

    pairs = [own for own in permutations(ids, 2) if is_key(profile, own[0], own[1:])]
    things = [n for n in ids if words_of(n) & (_NO_PERSON | PARTS - _CALLED)]
    odd = [n for n in ids if words_of(n) & _PLACES or normalise(n) in KNOWN["item"]]
    things += [n for n in odd if not people[n]]
    pairs = [own for own in pairs if own[0] not in things]
    given = {own: points(*own) for own in pairs}
    sure = {own: n - given.get(own[::-1], 0) for own, n in given.items()}
    size = profile.n_distinct
    best = max(sure, key=lambda own: (sure[own], size(*own), size(own[1])), default=None)
    return best if best and sure[best] > 0 else None


def _nobodys(profile: Profile) -> Iterator[Key]:
    """Yield what comes again where nobody is named: a task's input, or an id and answers alone.

    All else is about the id or the row's number: what names each row is no answer's id here.
    """
    labels = [n for n in profile.names if _is_label(profile, n)]
    known = [n for n in labels if normalise(n) in KNOWN["label"]][:1]
    rest = [n for n in profile.names if INPUT.match(n)]
    rest = [n for n in rest if profile.n_distinct(n) <= profile.n_rows / LEAST_EACH]
    if rest:
        said = [n for n in profile.names if n.lower().startswith("answer.")]
        labels = [n for n in said if n in labels or profile.kind(n).name == CHOICES]
        most = max(map(profile.n_distinct, rest))
        rest = [n for n in rest if profile.n_distinct(n) >= 0.9 * most][:1]  # the finest
    elif any(profile.is_unique(n) and not words_of(n) & _PLACES for n in profile.names):
        return
    else:
        labels = known or labels
        rest = [n for n in profile.names if n not in labels and _may_name(profile, n)]
        rest = [n for n in rest if not (profile.is_unique(n) or GOLD.match(n))]
    for own in (*combinations(rest, 1), *combinations(rest, 2)) if len(rest) < 5 else ():
        n_items, n_all = profile.n_distinct(*own), profile.n_distinct(*rest)
        words = [n for n in own if known and not all(map(is_number, profile.values(n)))]
        is_named = all(INPUT.match(n) or n in words or normalise(n).endswith("id") for n in own)
        if is_named and 3 <= n_items == n_all <= profile.n_rows / LEAST_EACH:
            found = [n for n in labels if not follows(profile, own, n)]
            apart = [n for n in found if profile.n_distinct(*own, n) > LEAST_ONCE * profile.n_rows]
            if not apart or known:  # a condition, not an answer
                yield Key((), own, tuple(found), False)
            return


def is_key(profile: Profile, worker: str, item: Sequence[str]) -> bool:
    """Return whether a worker answers an item once, and both come again."""
    kept = profile.filled(worker, *item)
    n_rows, n_items = int(kept.sum()), len(np.unique(profile.codes(*item)[kept]))
    n_pairs = len(np.unique(profile.codes(worker, *item)[kept]))
    is_once = n_rows >= 0.9 * profile.filled(worker).sum() and n_pairs >= LEAST_ONCE * n_rows
    come_again = 2 <= profile.n_distinct(worker) <= n_rows / 2
    return is_once and come_again and 2 <= n_items <= n_rows / LEAST_EACH


def _comes_again(profile: Profile, name: str) -> bool:
    return 2 <= profile.n_distinct(name) <= int(profile.filled(name).sum()) / 2


def _is_full(profile: Profile, worker: str, *item: str) -> bool:
    n_workers, n_items = profile.n_distinct(worker), profile.n_distinct(*item)
    return profile.n_distinct(worker, *item) >= FULL * n_workers * n_items


def follows(profile: Profile, owner: Sequence[str], name: str) -> bool:
    """Return whether a column is the same in all rows of an owner, seen often enough."""
    kept = profile.filled(*owner, name)
    n_owners = len(np.unique(profile.codes(*owner)[kept]))
    n_pairs = len(np.unique(profile.codes(*owner, name)[kept]))
    return int(kept.sum()) - n_owners >= LEAST_AGAIN and n_pairs == n_owners


def item_of(profile: Profile, worker: str, names: Sequence[str]) -> tuple[tuple[str, ...], bool]:
    """Return the columns that a worker answers once, and whether their names tell so, too.

    An id and all ids that do not follow from it, else the fewest columns: what was asked of all, or
    the only ones, or those that name the same things.
    """
    free = [n for n in names if _may_name(profile, n) and not profile.is_unique(n)]
    free = [n for n in free if not follows(profile, (worker,), n)]
    n_workers = profile.n_distinct(worker)
    # what is shown to some of them only is part of what they judge, perhaps
    apart = [n for n in names if words_of(n) & {"id", "ids"} and not words_of(n) & NOT_ITEMS]
    apart = [n for n in apart if n not in free and 1 < profile.n_distinct(n) < n_workers / 2]
    ids = sorted((n for n in free if _is_id(n)), key=profile.n_distinct, reverse=True)
    own: tuple[str, ...] = ()
    for name in ids:
        n_before = profile.n_distinct(*own) if own else 0
        is_open = not (own and is_key(profile, worker, own))
        if is_open and n_before < profile.n_distinct(*own, name) <= profile.n_rows / LEAST_EACH:
            own = (*own, name)
    if own and is_key(profile, worker, own):
        return tuple(n for n in names if n in own), not apart
    for n_parts in (1, 2, 3):
        keys = [
            own for own in combinations(free[:MOST_PARTS], n_parts) if is_key(profile, worker, own)
        ]
        full = [own for own in keys if _is_full(profile, worker, *own)]
        n_items = {own: profile.n_distinct(*own) for own in full or keys}
        if full or (n_items and min(n_items.values()) == max(n_items.values())):
            return max(n_items, key=lambda own: n_items[own]), n_parts == 1
    return (), False


def _is_id(name: str) -> bool:
    plain = normalise(name)
    return plain in KNOWN["item"] or plain.endswith("id") or bool(words_of(name) & PARTS)


def _may_name(profile: Profile, name: str) -> bool:
    """Return whether a column may name things: no times, no measured numbers."""
    values = profile.values(name)
    is_measured = all(map(is_number, values)) and not all(float(v).is_integer() for v in values)
    is_thing = re.split(r"[\W_]", name.lower())[-1] in KNOWN["item"]  # source_file
    is_about = not is_thing and bool(words_of(name) & (ABOUT - NAMING))
    return len(values) > 1 and not (is_measured or is_about)


def _is_label(profile: Profile, name: str, parts: set[str] = PARTS) -> bool:
    """Return whether a column may hold answers, by few values and by name.

    parts  words of what is a part of the item's name, where that is to be found
    """
    n_values, n_rows = len(profile.values(name)), profile.n_rows
    most = n_rows / 10 if normalise(name) in KNOWN["label"] else min(30, n_rows / 3)
    is_few = 2 <= n_values <= max(2, min(11, n_rows / LEAST_EACH), most)
    is_said = re.split(r"[\W_]", name.lower())[-1] in KNOWN["label"]  # sentence_rating
    is_about = bool(words_of(name) & (ABOUT | (set() if is_said else parts)))
    is_about = is_about or bool(GOLD.match(name) or INPUT.match(name))
    return is_few and not is_about and profile.has_classes(name)


def labels_of(
    profile: Profile, worker: Sequence[str], item: Sequence[str], parts: set[str] = PARTS
) -> tuple[str, ...]:
    """Return what is left: few classes, and nothing that follows from what workers did not say."""
    called = [profile.names[at] for at in find_roles(profile.names)["label"]]
    if called and not any(map(profile.has_classes, called)):
        return ()  # what is called the answer is measured
    taken = (*worker, *item)
    free = [n for n in profile.names if n not in taken and _is_label(profile, n, parts)]
    owners = [own for own in (worker, item) if own]
    free = [n for n in free if not any(follows(profile, own, n) for own in owners)]
    others = [n for n in profile.names if n not in worker and _comes_again(profile, n)]
    others = others if len(free) <= MOST_DERIVED else []  # so many are questions
    finer = {n: [o for o in others if profile.n_distinct(o) > profile.n_distinct(n)] for n in free}
    derived = {n: [o for o in own if follows(profile, (o,), n)] for n, own in finer.items()}
    found = [n for n in free if set(derived[n]) <= set(free)]
    plain = [n for n in found if not derived[n]]
    found = plain if len(plain) == 1 else found  # else a question may follow from another one
    spam = [n for n in found if "spam" in words_of(n)]  # of the worker, if answers do not agree
    told = {n: agreement(profile.codes(*item), profile.codes(n)) for n in spam}
    found = [n for n in found if n not in spam or told[n].n_pairs < 10 or told[n].kappa > 0]
    marks = [n for n in found if set(profile.values(n)) <= {"0", "1", "0.0", "1.0"}]
    stems = Counter(n.rpartition(".")[0] for n in marks if "." in n)  # one answer: type.a, type.b
    found = [n for n in found if n not in marks or stems[n.rpartition(".")[0]] < 2]

    def rank(name: str) -> tuple[bool, bool, bool]:
        is_filled = profile.filled(name).sum() >= 0.9 * profile.n_rows
        is_choice = profile.kind(name).name == CHOICE
        return normalise(name) not in KNOWN["label"], not is_filled, not is_choice

    return tuple(sorted(found, key=rank))
