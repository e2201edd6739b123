"""Tables with several columns of answers: each filled cell is an answer, or counts some.

    wide    image,rater_1,rater_2            a row per item, a column per worker
    pairs   image,worker_1,label_1,…         the worker's column holds who answered, the other what
    form    email,Cat? [a.jpg],Cat? [b.jpg]  a row per worker, a column per item
    counts  id,count,pos,neg                 a column per class: names say so, or rows have a total
    matrix  a NumPy array of labels          a row per item, a column per worker, no names

Columns are found by their names, and only where they share their values; else --layout says so.
What a row and a column stand for is all that the layouts differ in once they are read.
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
    Refusal,
    listing,
    naming_column,
    select,
    truth_synonyms,
    with_doubles,
)
from misc_cli.readers.document import Document
from misc_cli.readers.keys import KNOWN, Profile, is_person
from misc_cli.readers.layouts.long import refuse_nameless
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.reading import (
    EACH_COLUMN,
    Question,
    Reading,
    by_kind,
    joined,
    known_of,
    nth_of_item,
    roles_of,
    take,
)
from misc_cli.readers.values import CHOICE, MISSING, have_classes
from misc_cli.readers.vocabulary import (
    ABOUT,
    BETWEEN,
    EMAILS,
    ITEM_NAME,
    MODEL,
    NUMBERED_WORKER,
    SYNONYMS,
    WORKER_WORDS,
    find_roles,
    is_property,
    names_in,
    normalise,
    words_of,
)

LABEL = "label"  # the question of a table that has no name for it
LEAST_ROWS = 10  # whose sums are no chance
MOST_CLASSES, MOST_COLUMNS = 60, 300
MOST_TIED = 0.8  # share of rows
MOST_TOTALS = 5  # that are looked at
ROLES = {"wide": "worker", "matrix": "worker", "form": "item", "counts": "label"}  # of columns

Columns = dict[str, dict[str, str]]  # question → worker, item or class → column


@dataclass(frozen=True)
class Several:
    """Columns of answers: the layout's name, the columns by question, and what told.

    people  the columns that name the workers (of a form: the items), in the order of the others
    """

    layout: str
    columns: Columns
    why: str = ""
    people: tuple[str, ...] = ()

    @property
    def taken(self) -> list[str]:
        return [column for own in self.columns.values() for column in own.values()]


def read_several(document: Document, options: ReadOptions, found: Several | None) -> Reading:
    """Read columns of answers as --layout says, or as they were found."""
    several = found or _declared(document, options)
    if several.layout == "form":
        return cells_as_answers(document, several, worker_column(document, options, several.taken))
    rest = [n for n in document.names if n not in (*several.taken, *several.people)]
    items: tuple[str, ...] = ()
    if options.item_col is not None:
        items = select(document, "item", options.item_col)
    elif document.table.header is not False and several.layout != "matrix":
        items = naming_column(document, rest)
    columns = {
        question: {whose: column for whose, column in own.items() if column not in items}
        for question, own in several.columns.items()
    }
    is_signed = document.format != "npy" or options.no_answer is not None
    return cells_as_answers(document, replace(several, columns=columns), items, is_signed=is_signed)


def _declared(document: Document, options: ReadOptions) -> Several:
    """Return the columns that the user named, else those that are sure, else all but the item's."""
    name = options.layout or "wide"
    role = ROLES[name]
    given = options.columns[role] or options.label_col
    bare = document.table.header is False
    finds = {"form": find_form, "wide": find_wide, "counts": find_counts}
    certain = None if bare or name == "matrix" else finds[name](document)
    names = select(document, role, given) if given is not None else ()
    if certain is not None and (given is None or set(certain.taken) == set(names)):
        return certain  # items and workers have the names that they have without a word
    if given is None and (bare or name in ("wide", "matrix")):
        names = tuple(n for n in document.names if n not in _gold_columns(document))
        is_named = options.item_col is None and not bare and name == "wide"
        items = naming_column(document, names) if is_named else ()
        names = tuple(n for n in names if n not in items)
    if not names:
        raise InputError(
            f"{document.name}: --layout {name} needs the columns of the {role}s; name them with "
            f"--{role}-col"
        )
    if name == "counts":
        return Several(name, classes_of(names))
    first = 0 if document.format == "npy" else 1  # as NumPy counts
    called = {str(document.names.index(n) + first) if bare else n: n for n in names}
    return Several(name, {LABEL: called})


def cells_as_answers(
    document: Document,
    several: Several,
    named: Sequence[str],
    out: Any = None,
    *,
    is_signed: bool = True,
) -> Reading:
    """Return each filled cell as an answer, or as many as it counts.

    named      the columns that name the rows: items, or in a form the worker; none: their numbers
    out        a mask of the rows that are left out
    is_signed  whether a negative number is a label; else it is no answer
    """
    is_form, is_counted = several.layout == "form", several.layout == "counts"
    rows_named = document.columns(named or several.taken[:1])
    n_rows = len(rows_named[0])
    names = joined(rows_named if named else (), n_rows, first=0 if document.format == "npy" else 1)
    gold = [name for name in _gold_columns(document) if name not in several.taken]
    is_known = len(gold) == 1 and not (is_form or is_counted)
    known = known_of(names, document.columns(gold)[0]) if is_known else None
    people = _texts(document, several.people) if several.people else None
    gaps, questions = [], []
    for question, of_column in several.columns.items():
        cells = _texts(document, [*of_column.values()])
        missing = pc.is_in(cells, pa.array(MISSING))
        if not is_signed:
            missing = pc.or_(missing, pc.starts_with(cells, "-"))
        kept = np.flatnonzero(~np.asarray(pc.or_(missing, pc.equal(cells, ""))))
        if is_counted:
            kept = np.repeat(kept, _counts(document, cells.take(kept)))
        gaps.append(np.flatnonzero(np.asarray(missing)) % n_rows)
        rows, which = kept % n_rows, pa.array(kept // n_rows, pa.int32())
        by_row = names.take(rows)
        if people is not None:
            by_column = people.take(kept).dictionary_encode()
        else:
            by_column = pa.DictionaryArray.from_arrays(which, pa.array([*of_column], pa.string()))
        who, what, label = by_column, by_row, cells.take(kept).dictionary_encode()
        told = {"worker": several.people or EACH_COLUMN, "item": tuple(named)}
        if is_form:
            who, what = by_row, by_column
            told = {"worker": tuple(named), "item": several.people or EACH_COLUMN}
        elif is_counted:
            who, label = nth_of_item(by_row), by_column
            told["worker"] = "nobody"
        roles = roles_of(**told, label=[*of_column.values()])
        found = Question(question, CHOICE, who, what, label, rows, known, roles)
        if out is not None:
            found = take(found, np.flatnonzero(~out[rows]))
        if is_form or several.people:
            refuse_nameless(document, found, ("worker", "item"))
        kind, labels = (CHOICE, found.label) if is_counted else by_kind(found.label)
        questions.append(replace(found, kind=kind, label=labels))
    missing_rows, taken = np.concatenate(gaps), tuple(several.taken)
    layouts = {
        "wide": Layout("wide", taken, tuple(named)),
        "pairs": Layout("long", several.people, tuple(named), taken),
        "form": Layout("form", tuple(named), taken),
        "matrix": Layout("matrix", item=tuple(named)),
        "counts": Layout("counts", item=tuple(named), label=taken),
    }
    is_nobody = is_form and not named
    return Reading(
        questions,
        {"no answer": missing_rows} if len(missing_rows) and not is_counted else {},
        [f"{document.name}: nobody is named, so each row is a worker"] if is_nobody else [],
        has_workers=not is_counted,
        layout=layouts[several.layout] if len(questions) == 1 else None,
    )


def _texts(document: Document, names: Sequence[str]) -> Any:
    """Return the trimmed cells of columns, one column after the other."""
    columns = [column.cast(pa.string()) for column in document.columns(names)]
    return pc.utf8_trim_whitespace(pa.concat_arrays(columns))


def _counts(document: Document, cells: Any) -> Any:
    """Return the whole numbers in cells of text."""
    wrong = pc.invert(pc.match_substring_regex(cells, r"^\d{1,6}(\.0*)?$"))
    if pc.any(wrong).as_py():
        raise InputError(
            f"{document.name}: {cells.filter(wrong)[0].as_py()!r} counts nothing; name the columns "
            "of counts with --label-col"
        )
    return np.asarray(cells.cast(pa.float64()), dtype=np.int64)


def worker_column(
    document: Document, options: ReadOptions, items: Sequence[str]
) -> tuple[str, ...]:
    """Return the column of a form's workers; none if rows are counted."""
    if options.worker_col is not None:
        return select(document, "worker", options.worker_col)[:1]
    rest = [name for name in document.names if name not in items]
    found = [rest[at] for at in find_roles(rest, _WORKERS)["worker"]]
    unique = [name for name in found if Profile(document).is_unique(name)]
    if found and not unique:
        raise InputError(
            f"{document.name}: {found[0]!r} answers more than once, and no column names "
            "the items; pick with --item-col, or name the workers with --worker-col"
        )
    return tuple(unique[:1])


def _gold_columns(document: Document) -> list[str]:
    known = truth_synonyms()["label"][0]
    return [name for name in document.names if normalise(name) in known]


_ALL = names_in("final adjudicated resolved agreed mode mean median any all combined")
_ADDRESS = re.compile(r"[^@\s]+@[^@\s]+\.[a-z]+", re.IGNORECASE)
_NAMED = re.compile(rf"(?:{WORKER_WORDS}){BETWEEN}+(?P<name>[^\W\d_]{{2,}})", re.IGNORECASE)


def find_several(document: Document, *, with_forms: bool) -> Several | None:
    """Return columns that are surely answers: pairs, workers', counts, a matrix, items."""
    if document.format == "npy":
        raise Refusal(
            f"{document.name}: a matrix without names: labels of workers (with 0 or -1 for none), "
            "or counts per class? Say --layout matrix, or --layout counts",
            is_open=True,
        )
    if document.table.header is False:
        return None
    finds = [find_pairs, find_wide, find_counts, *([find_form] if with_forms else [])]
    return next(filter(None, (find(document) for find in finds)), None)


def looks_like_workers(names: Sequence[str]) -> bool:
    """Return whether names are surely those of who answers: w1, ann@example.org, gpt-4o."""
    patterns = (NUMBERED_WORKER, _ADDRESS, MODEL)
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


def are_answers(document: Document, columns: Mapping[str, str]) -> bool:
    """Return whether columns choose from the same classes, and these are no ids or texts."""
    by_column = [document.sampled(column) for column in columns.values()]
    cells = [cell for own in by_column for cell in own]
    uses = Counter(v for own in by_column for v in {cell.casefold() for cell in own})
    filled = [own for own in by_column if own]
    is_shared = len(filled) > 1 and all(any(uses[c.casefold()] > 1 for c in own) for own in filled)
    return is_shared and have_classes(cells)


def find_wide(document: Document) -> Several | None:
    """Find columns called as those who answer: rater_1, rater 1 mood, ann@x.org, gpt-4."""
    names = document.names
    found = matched(
        names,
        NUMBERED_WORKER,
        lambda m: (" ".join(filter(None, (m["before"], m["after"]))), m["who"]),
    )
    others = ABOUT | KNOWN["label"] | _ALL  # judge_keep, judge_fluency: what one judge says
    people = matched(names, _NAMED, lambda m: (LABEL, m["name"])).get(LABEL, {})
    people = {w: c for w, c in people.items() if not (words_of(w) & others or is_property(w))}
    machines = [name for name in names if not re.search(r"_[a-z]+$", name)]  # gpt-4_sure: about it
    for pattern, called in ((_ADDRESS, names), (MODEL, machines)):
        people |= matched(called, pattern, lambda m: (LABEL, m[0])).get(LABEL, {})
    if people:
        found[LABEL] = {**found.get(LABEL, {}), **people}
    if any(words_of(question) & _ALL for question in found):
        return None  # r1_c1, r1_c2, r1_final: r1 is asked, c1 answers
    sure = {
        question: own
        for question, own in found.items()
        if len(own) >= 2 and are_answers(document, own) and not words_of(question) & ABOUT
        if len(with_doubles([*own.values()], names)) == len(own)  # rater_2 twice is two
    }
    columns = [column for own in sure.values() for column in own.values()]
    why = f"a column for each of several workers: {listing(columns, 4)}"
    return Several("wide", sure, why) if sure else None


_STEM = re.compile(r"(.*[\W_])([A-Za-z]\d+)|(.*\D|)(\d+)|(\D*)(\d)(\D+)|(.*[\W_]|)([A-Za-z])")


def stem_and_key(name: str) -> tuple[str, str]:
    """Return a name around its number (or letter), and that; words have an empty stem."""
    match = _STEM.fullmatch(name.strip())
    if match is None:
        return "", name
    before, key, *after = (part for part in match.groups() if part is not None)
    return f"{before}#{''.join(after)}", key


def find_pairs(document: Document) -> Several | None:
    """Find worker_1 beside label_1, annotator_G1 beside hate_G1, rater1_id beside rater1_mood."""
    groups: Columns = {}  # stem → number or letter → column
    for name in document.names:
        stem, key = stem_and_key(name)
        groups.setdefault(stem, {})[key] = name
    for stem, who in groups.items():
        said = {
            q.rpartition("#")[2].strip(" _-.:/") or q.strip(" _-.:#/") or LABEL: own
            for q, own in groups.items()
            if is_person(stem) and q != stem and set(own) == set(who)
            if not (words_of(q) - words_of(stem)) & ABOUT
            if have_classes([cell for name in own.values() for cell in document.sampled(name)])
        }
        if said and len(who) > 1:
            said = {q: {key: own[key] for key in who} for q, own in said.items()}
            why = f"pairs of columns, who and what: {listing([*who.values()], 4)}"
            return Several("pairs", said, why, tuple(who.values()))
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


# What is judged, never a person or a property: [in brackets], or a thing and its number.
_BRACKETS = re.compile(r"\[(?P<item>[^\[\]]+)\]")
_THING = re.compile(
    r"(?<![^\W\d_])(?P<item>(?:q|question|item|image|img|picture|photo|text|task|tweet|post|sentence"
    r"|comment|doc|document|review|clip|video|audio|stimulus|i|example|sample|case|statement|trial"
    r"|unit|object|article|frage|bild)[\s_.-]*\d+)(?!\d)",
    re.IGNORECASE,
)
_OWN_IDS = EMAILS | names_in("""
name yourname fullname responseid respondentid prolificpid prolificid yourid participantnumber
nickname initials id # idresponseid responseidresponseid
""")
_WORKERS = {"worker": [*SYNONYMS["worker"], _OWN_IDS]}
_TIMES = names_in("""
timestamp submittedat startdate enddate starttime completiontime date submitdate(utc) submitdate
submitdatedatesubmitted
""")


def find_form(document: Document) -> Several | None:
    """Find columns that are items, beside a worker or a time: Mood? [a.jpg], image_1."""
    found = Several("form", form_columns(document))
    rest = [name for name in document.names if name not in found.taken]
    has_time = any(normalise(name) in _TIMES for name in rest)
    if not found.taken or not (has_time or find_roles(rest, _WORKERS)["worker"]):
        return None
    why = f"a row for each worker, a column for each item: {listing(found.taken, 4)}"
    return replace(found, why=why)


def form_columns(document: Document) -> Columns:
    """Return the columns that are surely items, by question: what else stands in their names."""
    for pattern in (_BRACKETS, _THING):
        found: Columns = {}
        for name in document.names:
            match = pattern.search(name)
            if match is not None and NUMBERED_WORKER.fullmatch(name.strip()) is None:
                asked = (name[: match.start()] + name[match.end() :]).strip(" _.-:")
                found.setdefault(asked or LABEL, {}).setdefault(match["item"].strip(), name)
        several = {q: own for q, own in found.items() if len(own) >= 2}
        rest = set(document.names).difference(*(own.values() for own in several.values()))
        numbers = {stem_and_key(item)[1] for own in several.values() for item in own}
        if pattern is _THING and numbers & {stem_and_key(name)[1] for name in rest}:
            return {}  # item_1, answer_1, item_2, answer_2: which are items is anybody's guess
        if several:
            return {q: own for q, own in several.items() if are_answers(document, own)}
    return {}


_COUNTS = names_in("votes vote counts count counter freq frequency num nb n")
_COUNTED = names_in("labels annotations answers ratings")
_TOTALS = names_in("n num count counts votes annotators raters annotations ratings labels")
_SUMS = names_in("total sum all")
_NO_COUNTS = names_in("id age year index row time seconds length duration rank")


def find_counts(document: Document) -> Several | None:
    """Find columns that sum to a column of totals, or are called counts: votes_cat, votes_dog."""
    numbers = [name for name in document.names if whole_numbers(document, name)]
    is_long = any(map(is_person, document.names))  # a row is an answer
    if len(document.table.sample) < 2 or not numbers or is_long or has_raters(document):
        return None
    totals = [n for n in numbers if words_of(n) & _TOTALS or normalise(n) in _SUMS][:MOST_TOTALS]
    for total in (*totals, None):
        parts = runs_with_sum(document, numbers, total)
        is_alike = total is not None or len(parts) > 2 or all(map(str.isdigit, parts))
        if is_alike and _are_rivals(document, parts):
            sums = "each row of {} has one sum" if total is None else f"{{}} sum to {total!r}"
            return Several("counts", classes_of(parts), sums.format(listing(parts, 4)))
    for stem in dict.fromkeys(map(_stem, numbers)):
        own = [name for name in numbers if _stem(name) == stem]
        # an object called labels that holds numbers counts them
        is_called = words_of(stem) & (_COUNTS | _COUNTED if "." in own[0] else _COUNTS)
        if is_called and len(own) <= MOST_CLASSES and _are_rivals(document, own):
            return Several("counts", classes_of(own), f"{listing(own, 4)} are called counts")
    return None


def _are_rivals(document: Document, names: Sequence[str]) -> bool:
    """Return whether one class mostly has more votes than the next."""
    if len(names) < 2:
        return False
    numbers = np.sort([whole_numbers(document, name) or [] for name in names], axis=0)
    return bool((numbers[-1] == numbers[-2]).mean() < MOST_TIED)


def has_raters(document: Document) -> bool:
    """Return whether answers that were counted stand beside the counts: label_1, label_2, …"""
    words = [n for n in document.names if whole_numbers(document, n) is None]
    numbered = matched(words, re.compile(r"(.*?)(\d+)"), lambda m: (m[1], m[2]))
    return any(len(own) > 1 and are_answers(document, own) for own in numbered.values())


def whole_numbers(document: Document, name: str) -> list[int] | None:
    """Return the whole numbers of a column, in the sample; None if it holds something else."""
    if words_of(name) & _NO_COUNTS:
        return None
    at = document.names.index(name)
    cells = [row[at].strip() if at < len(row) else "" for row in document.table.sample]
    cells = [re.sub(r"\.0+$", "", cell) or "0" for cell in cells]
    if not all(cell.isascii() and cell.isdigit() and len(cell) < 7 for cell in cells):
        return None
    return [int(cell) for cell in cells]


def _stem(name: str) -> str:
    """votes_no and votes_1 → votes; label_counter.e → label_counter; without one the name."""
    head, found, _ = name.rpartition("." if "." in name else "_")
    if found:
        return head
    match = re.fullmatch(r"(#|n_|num_?|count_?)\S+", name, re.IGNORECASE)
    return match[1].rstrip("_") if match else name


def classes_of(names: Sequence[str]) -> Columns:
    """Return columns of counts by their classes: their names without what all begin with."""
    stem = _stem(names[0])
    is_stem = all(_stem(name) == stem != name for name in names)
    return {LABEL: {name[len(stem) :].lstrip("_.") if is_stem else name: name for name in names}}


def runs_with_sum(
    document: Document, names: Sequence[str], total: str | None = None
) -> tuple[str, ...]:
    """Return the longest neighbouring columns of counts whose rows all sum to one number.

    With `total`, to the number in that column.
    """
    found = {name: whole_numbers(document, name) for name in names if name != total}
    counted = {name: numbers for name, numbers in found.items() if numbers is not None}
    own, n_rows = [*counted][:MOST_COLUMNS], len(document.table.sample)
    if n_rows < LEAST_ROWS:
        return ()
    aims = None if total is None else np.array(whole_numbers(document, total))
    sums = np.cumsum([np.zeros(n_rows, int), *(counted[n] for n in own)], axis=0)
    for width in range(min(len(own), MOST_CLASSES), 1, -1):
        runs = sums[width:] - sums[:-width]
        most = runs.max(axis=1)
        if aims is None:  # none of two votes, no per cent
            fits = (runs == runs[:, :1]).all(axis=1) & (most > 2) & (most != 100)
        else:
            fits = (runs == aims).all(axis=1) & (most > 1)
        for first in np.flatnonzero(fits):
            run = own[first : first + width]
            rows = np.sort([counted[name] for name in run], axis=0)
            if aims is not None or (rows != rows[:, :1]).any():  # else they are ranks
                return tuple(run)
    return ()
