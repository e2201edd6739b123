"""Tables with several columns of answers: a column for each worker or item, or pairs.

    wide    image,rater_1,rater_2          a row per item, a column per worker; a matrix: no names
    form    email,Cat? [a.jpg],Cat? [b.jpg]  a row per worker, a column per item
    pairs   image,worker_1,label_1,…       the worker's column holds who answered, the other what

Columns are found by their names, and only where they share their values; else --layout says so.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from misc_cli.errors import InputError
from misc_cli.readers.columns import (
    Layout,
    is_unique,
    listing,
    naming_column,
    select,
    truth_synonyms,
)
from misc_cli.readers.document import Document, text_array
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.reading import (
    EACH_COLUMN,
    Question,
    Reading,
    RowNumbers,
    by_kind,
    joined,
    known_of,
    roles_of,
    take,
)
from misc_cli.readers.values import CHOICE, have_classes
from misc_cli.readers.vocabulary import (
    ABOUT,
    BETWEEN,
    EMAILS,
    ITEM_NAME,
    MODEL,
    NUMBERED_WORKER,
    SYNONYMS,
    TIMES,
    WORKER_WORDS,
    find_roles,
    names_in,
    normalise,
    words_of,
)

LABEL = "label"  # the question of a table that has no name for it
MISSING = ("nan", "na", "<na>", "null", "n/a", "#n/a")  # cells where programs have nothing

Columns = dict[str, dict[str, str]]  # question → worker or item → column


@dataclass(frozen=True)
class Several:
    """Columns of answers: the layout's name, the columns by question, and what told.

    people  the columns of workers in pairs, in the order of the others
    """

    layout: str
    columns: Columns
    why: str = ""
    people: tuple[str, ...] = ()

    @property
    def taken(self) -> list[str]:
        return [column for own in self.columns.values() for column in own.values()]


@dataclass(frozen=True)
class Melted:
    """The filled cells: their row's name, their column's name, their text, their row (from 0).

    missing  rows of cells that say "missing" in a program's words
    """

    by_row: Any
    by_column: Any
    label: Any
    rows: RowNumbers
    missing: RowNumbers


def melt(document: Document, row_names: Any, columns: Mapping[str, str]) -> Melted:
    """Return the filled cells of `columns` (name → column); `row_names` is a column of text."""
    values = document.columns(list(columns.values()))
    n_rows = len(row_names)
    cells = pc.utf8_trim_whitespace(pa.concat_arrays([v.cast(pa.string()) for v in values]))
    blank = np.asarray(pc.equal(cells, ""))
    missing = np.asarray(pc.is_in(pc.utf8_lower(cells), pa.array(MISSING)))
    kept = np.flatnonzero(~(blank | missing))
    which = pa.array(kept // n_rows, pa.int32())
    return Melted(
        by_row=row_names.take(kept % n_rows),
        by_column=pa.DictionaryArray.from_arrays(which, pa.array(list(columns), pa.string())),
        label=cells.take(kept).dictionary_encode(),
        rows=kept % n_rows,
        missing=np.flatnonzero(missing) % n_rows,
    )


def share_values(document: Document, columns: Mapping[str, str] | Sequence[str]) -> bool:
    """Return whether columns choose from the same classes: no column's values are all its own."""
    names = columns.values() if isinstance(columns, Mapping) else columns
    values = [{cell.casefold() for cell in document.sampled(column)} for column in names]
    filled = [own for own in values if own]
    if len(filled) < 2:
        return False
    return all(own & set().union(*(v for v in filled if v is not own)) for own in filled)


def read_several(document: Document, options: ReadOptions, found: Several | None) -> Reading:
    """Read a column for each worker or item as --layout says, or as they were found."""
    several = found or _declared(document, options)
    if several.layout == "form":
        worker = worker_column(document, options, several.taken)
        return cells_as_answers(document, several, () if worker is None else (worker,))
    items = item_columns(document, options, [*several.taken, *several.people])
    columns = {
        question: {whose: column for whose, column in own.items() if column not in items}
        for question, own in several.columns.items()
    }
    reading = cells_as_answers(document, replace(several, columns=columns), items)
    if document.format != "npy" or options.no_answer:
        return reading
    return replace(reading, questions=[_without_negatives(one) for one in reading.questions])


def cells_as_answers(
    document: Document, several: Several, named: Sequence[str], out: Any = None
) -> Reading:
    """Return each filled cell as an answer.

    named  the columns that name the rows: items, or in a form the worker; the row's number if none
    out    a mask of the rows that are left out
    """
    is_form = several.layout == "form"
    people = document.columns(several.people)
    rows = document.columns(named or several.taken[:1])
    n_rows, first = len(rows[0]), 0 if document.format == "npy" else 1
    if is_form and not named:
        names = text_array(f"row {row + 1}" for row in range(n_rows))
    else:
        names = joined(rows if named else (), n_rows, first=first)
    gold = [name for name in _gold_columns(document) if name not in several.taken]
    is_known = len(gold) == 1 and not is_form
    known = known_of(names, document.columns(gold)[0]) if is_known else None
    gaps, questions = [], []
    for question, of_column in several.columns.items():
        melted = melt(document, names, of_column)
        gaps.append(melted.missing)
        other, told = melted.by_column, list(of_column.values())
        if people:
            every = pa.concat_arrays([pc.utf8_trim_whitespace(c.cast(pa.string())) for c in people])
            places = np.asarray(other.indices) * n_rows + melted.rows
            other = every.take(places).dictionary_encode()
        if is_form:
            who, what = melted.by_row, other
            roles = roles_of(worker=tuple(named), item=EACH_COLUMN, label=told)
        else:
            who, what = other, melted.by_row
            roles = roles_of(worker=several.people or EACH_COLUMN, item=tuple(named), label=told)
        found = Question(question, CHOICE, who, what, melted.label, melted.rows, known, roles)
        if out is not None:
            found = take(found, np.flatnonzero(~out[melted.rows]))
        if is_form or people:
            _refuse_nameless(document, found)
        kind, labels = by_kind(found.label)
        questions.append(replace(found, kind=kind, label=labels))
    missing = np.concatenate(gaps)
    is_counted = is_form and not named
    return Reading(
        questions,
        {"no answer": missing} if len(missing) else {},
        [f"{document.name}: nobody is named, so each row is a worker"] if is_counted else [],
        layout=_layout(several, tuple(named)) if len(questions) == 1 else None,
    )


def _layout(several: Several, named: tuple[str, ...]) -> Layout:
    taken = tuple(several.taken)
    if several.layout == "form":
        return Layout("form", worker=named, item=taken)
    if several.layout == "matrix":
        return Layout("matrix", item=named)
    if several.people:
        return Layout("long", several.people, named, taken)
    return Layout("wide", taken, named)


def _refuse_nameless(document: Document, question: Question) -> None:
    """Refuse answers of nobody: a second header row, or somebody who left the name out."""
    blank = pc.equal(pc.utf8_trim_whitespace(question.worker.cast(pa.string())), "")
    if pc.any(blank).as_py() and question.rows is not None:
        row = question.rows[np.flatnonzero(np.asarray(blank))[0]]
        raise InputError(
            f"{document.name}, line {document.table.line(int(row))}: answers without their worker "
            "(a second header?); drop the row, fill it in, or name another column with --worker-col"
        )


def _without_negatives(question: Question) -> Question:
    """Return a question of a NumPy matrix without negative numbers: they mean no answer there."""
    labels = question.label
    if not pa.types.is_dictionary(labels.type):
        return question
    said = np.array([not word.startswith("-") for word in labels.dictionary.to_pylist()], bool)
    return take(question, np.flatnonzero(said[np.asarray(labels.indices)]))


def _declared(document: Document, options: ReadOptions) -> Several:
    """Return the columns that the user named, else those that are sure, else all but the item's."""
    name = options.layout or "wide"
    role = "item" if name == "form" else "worker"
    given = options.columns[role] or options.label_col
    bare = document.table.header is False
    if given is not None:
        names = select(document, role, given)
    else:
        find = find_form if name == "form" else find_wide
        certain = None if bare or name == "matrix" else find(document)
        if certain is not None:
            return certain
        if name == "form":
            raise InputError(f"{document.name}: which columns are items? Name them with --item-col")
        names = tuple(n for n in document.names if n not in _gold_columns(document))
        items = options.item_col and select(document, "item", options.item_col)
        items = items or (() if bare or name == "matrix" else naming_column(document, names))
        names = tuple(n for n in names if n not in items)
    if not names:
        raise InputError(
            f"{document.name}: --layout {name} needs a column for each {role}, and there is only "
            f"{listing(document.names)}"
        )
    first = 0 if document.format == "npy" else 1  # as NumPy counts
    called = {str(document.names.index(n) + first) if bare else n: n for n in names}
    return Several(name, {LABEL: called})


def item_columns(
    document: Document, options: ReadOptions, taken: Sequence[str] = ()
) -> tuple[str, ...]:
    """Return the columns that name the items; none if rows are counted instead."""
    if options.item_col is not None:
        return select(document, "item", options.item_col)
    if document.table.header is False or options.layout == "matrix":
        return ()
    return naming_column(document, [n for n in document.names if n not in taken])


def worker_column(document: Document, options: ReadOptions, items: Sequence[str]) -> str | None:
    """Return the column of a form's workers; None if there is none, and rows are counted."""
    if options.worker_col is not None:
        return next(iter(select(document, "worker", options.worker_col)), None)
    rest = [name for name in document.names if name not in items]
    for tiers in (SYNONYMS["worker"], [_WORKERS]):
        found = [rest[at] for at in find_roles(rest, {"worker": tiers})["worker"]]
        # "anonymous" in every row names nobody
        found = [name for name in found if len(set(document.sampled(name))) > 1]
        unique = [name for name in found if is_unique(document, name)]
        if unique:
            return unique[0]
        if found:
            raise InputError(
                f"{document.name}: {found[0]!r} answers more than once, and no column names "
                "the items; pick with --item-col, or name the workers with --worker-col"
            )
    return None


def _gold_columns(document: Document) -> list[str]:
    known = truth_synonyms()["label"][0]
    return [name for name in document.names if normalise(name) in known]


_ADDRESS = re.compile(r"[^@\s]+@[^@\s]+\.[a-z]+", re.IGNORECASE)
_WALLET = re.compile(r"0x[0-9a-fA-F]{3,}")
_NAMED = re.compile(rf"(?P<word>{WORKER_WORDS}){BETWEEN}+(?P<name>[^\W\d]\w*)", re.IGNORECASE)
_QUESTION = re.compile(r"(?P<who>.+?)[\s_.:]+(?P<what>[A-Za-z]+)")  # alice_mood
_LAST = re.compile(rf"(?P<stem>.*?){BETWEEN}*(?P<number>\d+|(?<={BETWEEN})[A-Za-z]\d*)")
_NO_NAMES = names_in("""
id ids name names email confidence comment comments time age gender count country agreement notes
note type group accuracy label labels answer rating score response choice weight trust
""")


def looks_like_workers(names: Sequence[str]) -> bool:
    """Return whether names are surely those of who answers: w1, ann@example.org, gpt-4o."""
    patterns = (NUMBERED_WORKER, _ADDRESS, MODEL, _WALLET)
    return all(any(pattern.fullmatch(name) for pattern in patterns) for name in names)


def looks_like_items(names: Sequence[str]) -> bool:
    """Return whether names are surely those of what is judged: a.jpg, img_3, https://…"""
    return all(ITEM_NAME.fullmatch(name) for name in names)


def matched(
    names: Iterable[str], pattern: re.Pattern[str], key: Callable[[re.Match[str]], tuple[str, str]]
) -> Columns:
    """Return the columns whose names match, by the question and the worker (or item) in them."""
    found: Columns = {}
    for name in names:
        match = pattern.fullmatch(name.strip())
        if match is not None:
            question, whose = key(match)
            found.setdefault(question or LABEL, {}).setdefault(whose, name)
    return found


def find_wide(document: Document) -> Several | None:
    """Find columns called as people are: rater_1, rater 1 mood, ann@x.org, gpt-4, annotator_eve."""
    names = document.names
    numbered = matched(
        names,
        NUMBERED_WORKER,
        lambda m: (" ".join(filter(None, (m["before"], m["after"]))), m["who"]),
    )
    people = matched(names, _NAMED, lambda m: (m["word"].lower(), m["name"]))
    people = {
        word: {w: c for w, c in own.items() if normalise(w) not in _NO_NAMES}
        for word, own in people.items()
    }
    for found in (
        {q: own for q, own in numbered.items() if len(own) >= 2},
        matched(names, _ADDRESS, lambda m: (LABEL, m[0])),
        _by_model(names),
        {LABEL: max(people.values(), key=len, default={})},
    ):
        if len({worker for columns in found.values() for worker in columns}) >= 2:
            sure = {
                question: own
                for question, own in found.items()
                if len(own) >= 2 and are_answers(document, own) and not words_of(question) & ABOUT
            }
            columns = [column for own in sure.values() for column in own.values()]
            why = f"a column for each of several workers: {listing(columns, 4)}"
            return Several("wide", sure, why) if sure else None
    return None


def _by_model(names: Sequence[str]) -> Columns:
    """Return columns of models by question: gpt-4_mood, gpt-4_spam, claude-3_mood, claude-3_spam.

    The last word is a question where each of several models has it, or one model several.
    """
    models = [name for name in names if MODEL.fullmatch(name.strip())]
    parts = {name: part for name in models if (part := _QUESTION.fullmatch(name))}
    who = Counter(part["who"] for part in parts.values())
    what = Counter(part["what"] for part in parts.values())
    if not who or (max(who.values()) == 1 and max(what.values()) < len(models)):
        return {LABEL: {name.strip(): name for name in models}}
    return matched(parts, _QUESTION, lambda m: (m["what"], m["who"]))


def are_answers(document: Document, columns: Mapping[str, str], few: int | None = None) -> bool:
    """Return whether columns choose from the same classes, and these are no ids or texts.

    few  classes that are never too many; more must each come twice
    """
    cells = [cell for column in columns.values() for cell in document.sampled(column)]
    is_few = few is None or len(set(cells)) <= max(few, len(cells) / 2)
    return is_few and share_values(document, columns) and have_classes(cells)


def numbered_columns(names: Sequence[str]) -> Columns:
    """Return columns by stem and number or letter: label_1, label_2; hate_G1; rater1_id."""
    found: Columns = {}
    for name in names:
        worker, last = NUMBERED_WORKER.fullmatch(name.strip()), _LAST.fullmatch(name.strip())
        if worker is not None and worker["after"]:
            number = re.sub(r"\D+", "", worker["who"]) or worker["who"][-1]
            found.setdefault(worker["after"], {})[number] = name
        elif last is not None:
            found.setdefault(last["stem"], {})[last["number"]] = name
    return found


def find_pairs(document: Document) -> Several | None:
    """Find worker_1 beside label_1, annotator_G1 beside hate_G1, rater1_id beside rater1_mood."""
    groups = numbered_columns(document.names)
    for stem, who in groups.items():
        plain = stem.strip(" _-.:#/")
        is_worker = re.fullmatch(WORKER_WORDS, plain, re.IGNORECASE) or normalise(stem) in _WHO
        if len(who) < 2 or not is_worker:
            continue
        said = {q: c for q, c in groups.items() if q != stem and set(c) == set(who)}
        said = {
            q.strip(" _-.:#/") or LABEL: {number: c[number] for number in who}
            for q, c in said.items()
            if not words_of(q) & ABOUT
            and have_classes([cell for name in c.values() for cell in document.sampled(name)])
        }
        if said:
            found = Several("pairs", said, people=tuple(who.values()))
            why = f"pairs of columns, who and what: {listing([*found.people, *found.taken], 4)}"
            return replace(found, why=why)
    return None


def declared_pairs(document: Document, options: ReadOptions) -> Several | None:
    """Return as many columns of workers as of labels, if the user named several of both."""
    given = (options.worker_col or "", options.label_col or "")
    if options.layout is not None or not all(set(one) & set("*?[,-") for one in given):
        return None
    who, said = select(document, "worker", given[0]), select(document, "label", given[1])
    if len(who) != len(said) or len(who) < 2:
        return None
    return Several("pairs", {LABEL: {name: name for name in said}}, "the columns named", who)


_WHO = {"id", "name", "email", "workerid", "mail", "login"}
_BRACKETS = re.compile(r"(?P<question>.*?)\s*\[(?P<item>[^\[\]]+)\]\s*")
_FILE = re.compile(r"\S+\.(jpe?g|png|gif|webp|bmp|tiff?|wav|mp3|mp4|txt|pdf)", re.IGNORECASE)
_NUMBER = re.compile(r"(?P<before>\D*)(?P<number>\d+)(?P<after>.*)")
MOST_WORDS = 7
# Words before a number that name a thing to be judged, never a person or a property.
_THINGS = names_in("""
q question item image img picture photo text task tweet post sentence comment doc document review
clip video audio stimulus i example sample case statement trial unit object article frage bild
""")
_WORKERS = EMAILS | names_in("""
name yourname fullname responseid respondentid prolificpid prolificid yourid participantnumber
nickname initials id # idresponseid responseidresponseid
""")
_TIMES = TIMES | names_in("""
submittedat startdate enddate starttime completiontime date submitdate(utc) submitdate
submitdatedatesubmitted
""")


def find_form(document: Document) -> Several | None:
    """Find columns that are items, beside a worker or a time: [in brackets], a.jpg, image_1."""
    columns = form_columns(document)
    found = Several("form", columns)
    rest = [name for name in document.names if name not in found.taken]
    has_worker = any(find_roles(rest, {"worker": [*SYNONYMS["worker"], _WORKERS]}).values())
    if not columns or not (has_worker or any(normalise(name) in _TIMES for name in rest)):
        return None
    why = f"a row for each worker, a column for each item: {listing(found.taken, 4)}"
    return replace(found, why=why)


def form_columns(document: Document) -> Columns:
    """Return the columns that are surely items, by question; empty if there are none."""
    names = document.names
    for found in (
        matched(names, _BRACKETS, lambda m: (m["question"], m["item"].strip())),
        matched(names, _FILE, lambda m: (LABEL, m[0])),
        _things(names),
    ):
        several = {q: own for q, own in found.items() if len(own) >= 2}
        if several:
            return {
                question: own
                for question, own in several.items()
                if are_answers(document, own, MOST_WORDS)
            }
    return {}


def _things(names: Sequence[str]) -> Columns:
    """Return names that differ only in a number: q1, q2; image_1_mood, image_1_spam, image_2_mood.

    What follows the number is the question, if every item has each.
    """
    plain = [n for n in names if NUMBERED_WORKER.fullmatch(n.strip()) is None]
    every = matched(plain, _NUMBER, lambda m: (m["before"], m[0]))
    things = []
    for before, own in every.items():
        words = set(re.split(r"[\W_\d]+", before.lower()))
        asked = all(name.strip().endswith("?") and " " in name for name in own)
        if words & _THINGS or asked:
            things.append(before)
    best = max(things, key=lambda before: len(every[before]), default="")
    # item_1, answer_1, item_2, answer_2: which are items is anybody's guess
    if not things or sum(len(own) == len(every[best]) for own in every.values()) > 1:
        return {}
    found = matched(
        every[best].values(), _NUMBER, lambda m: (m["after"], m["before"] + m["number"])
    )
    questions = {after: own for after, own in found.items() if len(own) >= 2}
    if len(questions) == 1:
        return {LABEL: {name: name for name in next(iter(questions.values())).values()}}
    if len({frozenset(own) for own in questions.values()}) != 1:
        return {}
    return {after.strip(" _.-:") or LABEL: own for after, own in questions.items()}
