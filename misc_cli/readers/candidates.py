"""Candidate readings of a file that was refused: what is read or proposed instead.

Each is made of the columns' profiles and scored by how far answers to an item agree above chance:
what is no answer seldom does. The best are tried on the file. The only one in which answers
clearly agree is read; else the most likely one is proposed.
"""

from __future__ import annotations

import re
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, islice, permutations
from shlex import quote
from typing import Any

import numpy as np

from misc_cli.errors import InputError, MiscError, MiscWarning
from misc_cli.readers.addresses import STDIN
from misc_cli.readers.answer_table import AnswerTable
from misc_cli.readers.columns import Layout, Refusal, naming_column, with_doubles
from misc_cli.readers.document import Document
from misc_cli.readers.keys import GOLD, INPUT, LEAST_EACH, find_keys, is_key, is_person
from misc_cli.readers.layouts import exploded_cells
from misc_cli.readers.layouts.cells import are_votes
from misc_cli.readers.layouts.nested import INNER, OUTER, lists_of_objects, unwrapped_document
from misc_cli.readers.layouts.wide import has_raters, runs_with_sum, whole_numbers
from misc_cli.readers.options import NOBODY, ROW, ReadOptions, flags_of
from misc_cli.readers.platforms import recognise
from misc_cli.readers.profile import KNOWN, Profile
from misc_cli.readers.reading import agreement, are_classes
from misc_cli.readers.row_filters import is_standing
from misc_cli.readers.source import Source, open_source
from misc_cli.readers.values import NUMBER, TEXT, is_number
from misc_cli.readers.vocabulary import (
    ABOUT,
    NAMING,
    WORKER_NAME,
    names_in,
    normalise,
    words_of,
)

MOST_TRIED, MOST_SECONDS = 4, 1.5
FEW_PAIRS = 30  # of answers to one item; fewer prove nothing
FEW_ROWS = 5
MOST_BYTES = 1 << 26  # larger files are not read again and again for a proposal
FEW_CLASSES = 20
MOST_LISTS = 3  # whose objects are looked at
MOST_POSITIONS = 8  # columns without names
LEAST_KAPPA, MOST_AGREE = 0.1, 0.8  # agreement above chance; between columns of workers
MOST_KAPPA = 0.95  # beyond it a label is as good as a property of the item
LEAST_ITEMS = 10  # columns of a form that no name tells
TOLD = 2.0  # the score of what structure and names tell alike, and nothing else
EACH = "each_question"
NO_OTHER = "no other reading was found in which answers to an item agree"
_PEOPLE = names_in("annotator worker rater raters coder judge user ann labeler expert pid")
_ANSWERS = names_in("label labels annotation annotations vote votes winner verdict judgment")
# Names of properties that are judged, not of people who judge.
_PROPERTY = re.compile(
    r".*(ity|ness|ing|[ts]ion|ment|ance|ence|ancy|ency|ful|able|ible|ive|ism|al|ic|ous|cy|ude)",
    re.IGNORECASE,
)
_PREDICTED = names_in("predicted prediction predictions pred preds actual annotated")
_ASKED = names_in("answer q question rating ratings item")
_THINGS = names_in("q question item")
_PERSONS = names_in("name fullname person physician voter senator member")

Given = dict[str, Any]  # fields of ReadOptions, and EACH
Scored = tuple[float, Given]


@dataclass(frozen=True)
class Candidate:
    """A reading that was tried: what declares it, what it gives, and if answers clearly agree."""

    given: Mapping[str, Any]
    table: AnswerTable
    is_strong: bool = False

    @property
    def flags(self) -> str:
        return flags_of(dict(self.given))


def declared(error: InputError, path: str, source: Source, options: ReadOptions) -> ReadOptions:
    """Return options with the only reading of a refused file; raise if there are none or several.

    The error then has one command to paste that reads the file, if there is one.
    """
    if options.layout is not None:
        raise error
    found: list[Candidate] = []
    encoding = re.search(r"--encoding (latin-1|cp1252)", str(error))
    if encoding is not None and path != STDIN:
        options = replace(options, encoding=encoding[1])
        source = open_source(path, options)
        found = list(filter(None, [_tried(source, options, {}, is_guess=False)]))
    elif isinstance(error, Refusal):
        found = candidates(source, options, error)
    if not found:
        raise _one_each(error, source, options) or error
    if found[0].is_strong:
        told = f"{source.name}: a guess: {NO_OTHER}; {found[0].flags} declares it"
        warnings.warn(told, MiscWarning, stacklevel=3)
        return replace(options, **found[0].given)
    given = {**options.declared, **found[0].given}
    more = " -o labels.csv" if EACH in given else ""
    # the command says the flags, so the message need not
    first, *rest = re.split(r"(?<=[^;]); ", str(error))
    told = "; ".join([first, *(part for part in rest if not re.search(r"--[a-z]", part))])
    raise InputError(f"{told}\n  try: misc aggregate {quote(path)} {flags_of(given)}{more}")


def _one_each(error: InputError, source: Source, options: ReadOptions) -> InputError | None:
    """Return the refusal of rows that a column names once each, where no columns choose alike."""
    from misc_cli.readers.read import opened_document

    is_nobodys = ": no worker" in str(error)
    if not is_nobodys or any(options.columns.values()) or any(_guesses(source, options)):
        return None
    document = unwrapped_document(opened_document(source, options))
    if document.table.header is False or len(document.table.sample) < FEW_ROWS:
        return None
    values = [own for own in _vocabularies(Profile(document)).values() if len(own) > 1]
    try:
        (name,) = naming_column(document, document.names) or ("",)
    except Refusal:
        return None
    if not name or any(len(one & other) > 1 for one, other in combinations(values, 2)):
        return None
    told = f"{name!r} names each row once: one answer each, nothing to vote on"
    return InputError(f"{source.name}: {told}")


def candidates(
    source: Source, options: ReadOptions, error: InputError | None = None, most: int = 1
) -> list[Candidate]:
    """Return other readings that were tried and are plausible, the most likely first.

    At most `most` are remedies that the error names; without any, they are guesses. One is strong,
    and needs no asking, only if every guess was tried and no other was found.
    """
    if memoryview(source.content).nbytes > MOST_BYTES:
        return []
    started = time.process_time()
    found: list[Candidate] = []
    remedies = getattr(error, "remedies", ())
    for given in remedies:
        found += filter(None, [_tried(source, options, given, is_guess=False)])
        if len(found) == most or time.process_time() - started > MOST_SECONDS:
            return found
    if found or any(options.columns.values()) or not getattr(error, "is_open", True):
        return found
    guesses = sorted(_guesses(source, options), key=lambda pair: -pair[0])
    n_tried = 0
    for score, given in guesses[:MOST_TRIED]:
        if found and time.process_time() - started > MOST_SECONDS:
            break
        found += filter(None, [_tried(source, options, given, is_guess=True, score=score)])
        n_tried += 1
    is_only = not remedies and n_tried == len(guesses) and len(found) == 1
    is_only = is_only and EACH not in found[0].given
    return [replace(one, is_strong=one.is_strong and is_only) for one in found]


def _tried(
    source: Source,
    options: ReadOptions,
    given: Mapping[str, Any],
    *,
    is_guess: bool,
    score: float = 0.0,
    depth: int = 2,
) -> Candidate | None:
    """Read a file in another way; a refusal that itself names a remedy is followed once more."""
    from misc_cli.readers.read import read_source

    fields = {name: value for name, value in given.items() if name != EACH}
    declared = replace(options, **fields)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tables = read_source(source, declared, each=EACH in given)
    except Refusal as error:
        for remedy in error.remedies if depth > 1 else ():
            found = _tried(source, declared, remedy, is_guess=is_guess, depth=depth - 1)
            if found is not None:
                return replace(found, given={**given, **found.given})
        return None
    except (MiscError, ValueError, KeyError, IndexError):
        return None
    table = max(tables, key=lambda one: len(one.answers))
    answers = table.answers
    agree, chance, n_pairs = agreement(answers.item.indices, answers.label.indices)
    n_classes, n_items = (len(c.unique()) for c in (answers.label, answers.item))
    names = [name for c in (answers.worker, answers.item) for name in c.unique().to_pylist()]
    if n_pairs == 0 or (n_classes < 2 and len(answers) > 20) or not all(map(str.strip, names)):
        return None
    is_few = n_items < 3 and "question" not in given
    is_thin = len(answers) < LEAST_EACH * n_items and given.get("layout") != "matrix"
    is_model = "model" in words_of(table.files[0].columns.get("worker", ""))
    is_few = is_few or (is_thin and (is_guess or is_model))
    if is_few or not are_classes(answers.item, answers.label):
        return None
    if not is_guess:  # of the file's own questions
        is_said = n_classes <= max(2, len(answers) / 4)
        is_said = is_said and (n_classes <= FEW_CLASSES or agree > chance)
        is_said = is_said and not ("item_col" in given and agree == 1)  # it is about the item
        return Candidate(given, table) if is_said else None
    # where all always agree nobody was asked twice: such a column is about the item
    is_weak = agree - chance <= LEAST_KAPPA * min(0.5, 1 - chance) or agree == 1
    if given.get("layout") == "wide":  # columns were compared
        is_weak = agree <= chance or (agree == 1 and given["item_col"] == ROW)
    is_told = "no_answer" in given or given.get("layout") in ("matrix", "form")
    is_key = {"worker_col", "item_col", "label_col"} <= {*given} and "layout" not in given
    is_told = is_told or (is_key and score >= 1) or n_pairs <= FEW_PAIRS
    if is_weak and not is_told:
        return None
    # chance alone gives three standard errors in one of 700 files
    is_clear = bool(agree - chance > 3 * np.sqrt(chance * (1 - chance) / n_items))
    is_strong = not is_weak and is_clear and _has_support(given, agree, chance)
    if is_key:  # nothing else may be meant
        is_strong = score > TOLD and agree > chance
    return Candidate(given, table, is_strong)


def _has_support(given: Mapping[str, Any], agree: float, chance: float) -> bool:
    """Return whether names or the layout speak for a guess, too; what does not is asked about."""
    layout = given.get("layout", "long")
    if layout == "wide":  # columns that only share their values may be questions
        names = [name.strip() for name in given["worker_col"].split(",")]
        return len({name[:1] for name in names}) == 1 or all(len(name) == 1 for name in names)
    if layout == "long":  # bare positions, or a label that nearly follows from the item
        is_told = "header" not in given or given["worker_col"] == NOBODY  # lists of votes
        return is_told and agree - chance < MOST_KAPPA * (1 - chance)
    return bool(layout != "form")


def _guesses(source: Source, options: ReadOptions) -> Iterator[Scored]:
    from misc_cli.readers.read import opened_document

    try:
        document = opened_document(source, options)
        first = [cell.strip() for cell in document.table.first_row]
        is_counted = len(first) > 2 and first == [str(at) for at in range(len(first))]
        if (document.table.doubtful or is_counted) and options.header is None:
            document = opened_document(source, replace(options, header=True))
        platform = recognise(document)
        document = unwrapped_document(document)
        inner = exploded_cells(document)
        tables = [inner] if inner else [document, *islice(lists_of_objects(document), MOST_LISTS)]
        for table in tables if len(document.table.sample) > 1 and document.names else ():
            profile = Profile(table, whole=True)
            if platform is not None:
                yield from _forms(profile) if platform[0].name == "mturk" else ()
            elif table.table.header is False or is_counted:
                yield from _matrices(profile, is_counted=is_counted)
                yield from _headerless(profile)
                yield from _lists(table)
            elif {OUTER, INNER} <= set(table.names):  # answers to an item agree, not a worker's
                sides = sorted((OUTER, INNER), key=lambda name: _kappa(profile, name))
                yield 1.0, {"worker_col": sides[0], "item_col": sides[1]}
            elif table is tables[0]:
                yield from _wide(profile)
                yield from _forms(profile)
                if profile.n_rows >= FEW_ROWS:
                    yield from _counted(table)
                    yield from _long(profile)
                    yield from _lists(table)
            else:
                yield from _long(profile)
    except (MiscError, RecursionError):
        return


def _matrices(profile: Profile, *, is_counted: bool) -> Iterator[Scored]:
    """Propose a nameless matrix: all columns choose from the same few values."""
    document = profile.document
    names, n_rows = document.names, len(document.table.sample)
    if len(names) < 3 or n_rows < FEW_ROWS:
        return
    numbers = [whole_numbers(document, name) for name in names]
    sums = [sum(own) for own in zip(*numbers, strict=True)] if all(numbers) else []
    is_near = document.format == "npy" and len(sums) > 9 and max(sums) < 1.5 * min(sums) + 1
    if is_near or runs_with_sum(document, names, len(names)):
        yield 1.0, {"layout": "counts"}
        return
    cells = {name: document.sampled(name) for name in names}
    rest = [name for name in names[1:] if cells[name]]
    every = Counter(cell for name in rest for cell in cells[name])
    words = [value for value in every if not is_number(value)]
    marks = words if len(words) == 1 else [value for value in words if not value.isalnum()]
    nothing = (
        marks if len(marks) == 1 else sorted(v for v in every if v[:1] == "-" and is_number(v))
    )
    said = {name: set(cells[name]) - {*nothing} for name in rest}
    said = {name: own for name, own in said.items() if own}
    if len(every) > 30 or len(said) < 2 or len(_overlapping(said)) < len(said):
        return
    given: Given = {"layout": "matrix"}
    if is_counted:
        given = {"layout": "wide", "header": True, "worker_col": "*", "item_col": ROW}
    if set(every) == {"-1", "0", "1"}:  # which of 0 and -1 is no answer? Votes agree, gaps do not
        shares = {gap: _agreement_without(document, gap) for gap in ("0", "-1")}
        nothing = [max(shares, key=lambda gap: shares[gap])]
        if abs(shares["0"] - shares["-1"]) < 0.2:
            nothing = [gap for gap in shares if 2 * every[gap] > every.total()]
        if not nothing:
            return
    if nothing:
        given["no_answer"] = nothing[0]
    yield 0.9, given


def _agreement_without(document: Document, gap: str) -> float:
    """Return kappa of the cells within rows of the sample, where `gap` is no answer."""
    rows = enumerate(document.table.sample)
    cells = [(at, cell.strip()) for at, row in rows for cell in row if cell.strip() != gap]
    codes = np.unique([cell for _, cell in cells], return_inverse=True)[1]
    agree, chance, _ = agreement([at for at, _ in cells], codes)
    return (agree - chance) / max(0.01, 1 - chance)


def _kappa(profile: Profile, item: str) -> float:
    """Return kappa of the last column's cells, where this one names the items."""
    agree, chance, n_pairs = agreement(profile.codes(item), profile.codes(profile.names[-1]))
    return (agree - chance) / max(0.01, 1 - chance) if n_pairs else -1.0


def _headerless(profile: Profile) -> Iterator[Scored]:
    """Propose positions of worker, item and label, by their values; no measured numbers."""
    cells = {name: profile.document.sampled(name) for name in profile.names}
    if any(is_number(cell) and "." in cell for own in cells.values() for cell in own):
        return
    hits = {n: sum(1 for c in own if WORKER_NAME.fullmatch(c)) for n, own in cells.items()}
    sure = [name for name, own in cells.items() if hits[name] > 0.8 * max(1, len(own))]
    texts = [n for n in profile.names if profile.is_unique(n) and profile.kind(n).name == TEXT]
    said = {n: set(profile.values(n)) for n in profile.names if n not in texts}
    if len(texts) == 1 and len(said) > 1 and len(_overlapping(said)) == len(said):
        layout = Layout("wide", worker=tuple(said), item=(texts[0],))
        yield 0.9, {**layout.options(profile.document), "header": False}
    for worker, item, label in permutations(profile.names[:MOST_POSITIONS], 3):
        if worker in (sure or cells) and is_key(profile, worker, (item,)):
            kept = profile.filled(label)
            codes = profile.codes(item)[kept], profile.codes(label)[kept]
            agree, chance, n_pairs = agreement(*codes)
            is_few = profile.has_classes(label) and len(profile.values(label)) <= FEW_CLASSES
            if is_few and n_pairs and agree - chance > LEAST_KAPPA * (1 - chance):
                layout = Layout("long", (worker,), (item,), (label,))
                yield agree, {**layout.options(profile.document), "header": False}


def _counted(document: Document) -> Iterator[Scored]:
    """Propose columns of short names and small sums: counts of few raters, some of them missing."""
    own = [n for n in document.names if 0 < len(n.strip()) < 3 and whole_numbers(document, n)]
    sums = [sum(row) for row in zip(*(whole_numbers(document, n) or [] for n in own), strict=True)]
    if len(own) > 2 and 1 <= min(sums) <= max(sums) <= 12 and not has_raters(document):
        for given in _with_item(document, Layout("counts", label=tuple(own)), own):
            yield 0.9, given


def _lists(document: Document) -> Iterator[Scored]:
    """Propose a column of lists of votes: "2, 3, 3", "[1 1 0]"."""
    header = {} if document.table.header is not False else {"header": False}
    for name in document.names:
        if are_votes(document.sampled(name)):
            yield 0.5, {"worker_col": NOBODY, "label_col": name, **header}


def _with_item(document: Document, layout: Layout, taken: Sequence[str]) -> Iterator[Given]:
    """Yield a layout's options, with the column that names the items once, else the row."""
    rest = [n for n in document.names if n not in taken]
    try:
        yield replace(layout, item=naming_column(document, rest)).options(document)
    except Refusal:  # what looks like the item comes again: all columns together may name it
        profile = Profile(document)
        if len(rest) > 1 and profile.n_distinct(*rest) == profile.n_rows:
            yield layout.options(document)


def _vocabularies(profile: Profile) -> dict[str, set[str]]:
    """Return the columns that choose from a few values, with these."""
    names = [n for n in profile.names if n.strip() and not (is_standing(n) or INPUT.match(n))]
    names = [n for n in names if not words_of(n) & ABOUT or re.search(r"\d$|^.$", n.strip())]
    names = [n for n in names if 1 <= len(profile.values(n)) <= 12 and profile.has_classes(n)]
    return {n: {value.casefold() for value in profile.values(n)} for n in names}


def _groups(profile: Profile) -> Iterator[tuple[str, list[str]]]:
    """Yield columns of one vocabulary that are called alike (label_1, Coder1Text, A, B), or words.

    The stem is what they share of their names. Words beside a property that is judged in the same
    words are questions, too.
    """
    values = _vocabularies(profile)
    families: dict[str, list[str]] = {}
    for name in values:
        families.setdefault(_stem_and_key(name)[0], []).append(name)
    words = families.pop("", [])
    for stem, own in sorted(families.items(), key=lambda pair: -len(pair[1])):
        if len(own) > 1 and len(_overlapping({n: values[n] for n in own})) == len(own):
            yield stem, own
    while words and not any(map(is_person, profile.names)):  # beside them: questions
        most = values[max(words, key=lambda name: len(values[name]))]
        own = [n for n in words if 2 * len(values[n] & most) >= len(values[n] | most)]
        words = [n for n in words if n not in own]
        people = [n for n in own if not _is_property(n)]
        if len(people) > 1 and all(GOLD.fullmatch(n) for n in own if n not in people):
            yield "", people


def _stem_and_key(name: str) -> tuple[str, str]:
    """Return a name around its number (or letter), and that; words have an empty stem."""
    for pattern in (r"(.*\D|)(\d+)()", r"(\D*)(\d)(\D+)", r"(.*[\W_]|)([A-Za-z])()"):
        if match := re.fullmatch(pattern, name.strip()):
            return f"{match[1]}#{match[3]}", match[2]
    return "", name


def _panels(profile: Profile) -> Iterator[tuple[str, list[str], bool]]:
    """Yield columns that may be workers: their stem, names, and whether these are surely alike.

    EXP1, EXP2, NOR1, NOR2, …: one panel, where all agree alike. C1, C2, D1, D2: C and D are people
    where C1 agrees with D1 rather than with C2; else 1 and 2 are, and C and D questions.
    """
    same: dict[tuple[str, ...], dict[str, list[str]]] = {}
    for stem, names in _groups(profile):
        keys = tuple(_stem_and_key(name)[1] for name in names)
        same.setdefault(keys, {})[stem] = names
    for keys, families in same.items():
        across = [list(own) for own in zip(*families.values(), strict=True)]
        are_codes = len(families) > 1 and all(len(stem) < 5 for stem in families)  # no words
        by_key, by_stem = (
            float(np.mean([_agreement_of_columns(profile, own[:4])[0] for own in groups[:8]]))
            for groups in ((across, [*families.values()]) if are_codes else ([[]], [[]]))
        )
        if are_codes and by_key > LEAST_KAPPA + 2 * by_stem:
            yield from (("#" + key, own, True) for key, own in zip(keys, across, strict=True))
        elif are_codes and len(families) > 2 and by_key > max(LEAST_KAPPA, by_stem / 2):
            names = [n for own in families.values() for n in own]
            yield "#", [n for n in profile.names if n in names], True
        else:
            yield from ((stem, own, len(families) > 2) for stem, own in families.items())


def _are_things(profile: Profile, stem: str, names: Sequence[str]) -> bool:
    """Return whether numbers count what is shown: text_1, text_2 are filled where columns are."""
    keys = [_stem_and_key(name)[1] for name in names]
    families: dict[str, list[str]] = {}
    for name in profile.names:
        found, key = _stem_and_key(name)
        if found != stem and key in keys and not words_of(name) & (ABOUT - NAMING | _PEOPLE):
            families.setdefault(found, []).append(name)
    for own in families.values() if stem else ():
        pairs = [*zip(own, names, strict=False)]
        is_paired = all((profile.filled(a) == profile.filled(b)).mean() > 0.9 for a, b in pairs)
        are_many = all(len(profile.values(name)) >= FEW_CLASSES for name in own)
        if len(own) == len(names) and is_paired and are_many:
            return not all(profile.kind(name).name == NUMBER for name in own)
    return False


def _wide(profile: Profile) -> Iterator[Scored]:
    """Propose columns that choose from the same few values and agree, row by row."""
    document = profile.document
    forms = {name for names in _blocks(profile) for name in names}
    for stem, own, is_told in _panels(profile):
        names = with_doubles(own, profile.names)
        is_told = is_told or bool(words_of(stem) & (_PEOPLE | _ANSWERS))
        is_about = bool(words_of(stem) & ({*_THINGS} if is_told else {*_THINGS, *ABOUT}))
        if is_about or forms & set(names) or _are_things(profile, stem, names):
            continue
        is_pair = len(names) == 2 and not is_told  # two of many columns may be two things
        if is_pair and (len(profile.names) > 4 or any(words_of(n) & _PREDICTED for n in names)):
            continue
        if not _is_closed(profile, names):
            continue
        kappa, share = _agreement_of_columns(profile, names)
        is_alike = kappa > LEAST_KAPPA or (is_told and share > MOST_AGREE)
        if not is_alike or runs_with_sum(document, names, len(names)):
            continue
        for given in _with_item(document, Layout("wide", worker=tuple(names)), names):
            # columns may as well be questions, and rows people, where nothing names the rows
            is_sure = kappa > 0.2 and len(names) <= 5 and profile.n_rows > 10 * len(names)
            if is_told or not stem or given["item_col"] != ROW or is_sure:
                yield kappa + is_told + 0.5 * bool(stem), given


def _is_closed(profile: Profile, names: Sequence[str]) -> bool:
    """Return whether no column is left out that chooses from the same values and is called alike.

    hate_1, hate_2 and spam_1, spam_2 are two questions: as many columns, of the same keys.
    """
    values = _vocabularies(profile)
    shared = set().union(*(values.get(name, set()) for name in names))
    keys = {_stem_and_key(name)[1] for name in names}
    begins = {re.split(r"[\W_\d]", name.strip())[0] for name in names}
    longest = max(map(len, names))
    families: dict[str, set[str]] = {}
    for name in (n for n in values if n not in names and not GOLD.fullmatch(n)):
        stem, key = _stem_and_key(name)
        is_alike = bool(stem) and re.split(r"[\W_\d]", name.strip())[0] in begins
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


def _blocks(profile: Profile) -> Iterator[list[str]]:
    """Yield many columns of one small vocabulary that are items, a row being whoever answered."""
    said = [n for n in profile.names if n.startswith("Answer.") and profile.has_classes(n)]
    if said and any(map(is_person, profile.names)):
        yield said
        return
    values = _vocabularies(profile)
    blocks: dict[str, list[str]] = {}
    for name in profile.names:
        blocks.setdefault(re.sub(r"\d+", "#", name), []).append(name)
    for shape, names in blocks.items():
        asked = words_of(shape.removeprefix("Answer.").partition("#")[0]) & _ASKED
        n_least = profile.n_rows * (5 if shape.count("#") == 1 else 1)
        alike = _overlapping({name: values[name] for name in names if name in values})
        is_many = len(names) >= LEAST_ITEMS and (asked or len(names) > n_least)
        if is_many and len(alike) > 0.9 * len(names):
            yield names
    alike = _overlapping(values) if _people(profile) else []
    if len(alike) > 2 and _agreement_of_columns(profile, alike)[0] < MOST_AGREE / 2:
        yield alike


def _people(profile: Profile) -> list[str]:
    """Return the columns that name another person in each row: Clinician 1, Diane Abbott."""
    found = [n for n in profile.names if normalise(n) in _PERSONS and profile.is_unique(n)]
    return [n for n in found if all(v[:1].isupper() and " " in v for v in profile.values(n))]


def _forms(profile: Profile) -> Iterator[Scored]:
    """Propose columns as items."""
    people = [n for n in profile.names if is_person(n)] or _people(profile)
    standing = [n for n in profile.names if is_standing(n) or normalise(n).startswith("reject")]
    if any(profile.n_distinct(n) > 1 for n in standing):
        return  # some rows may not count
    for names in _blocks(profile):
        if len({value for name in names for value in profile.values(name)}) <= 7:
            layout = Layout("form", worker=tuple(people[:1]), item=tuple(names))
            yield 0.6, {"worker_col": ROW, **layout.options(profile.document)}


def _is_property(name: str) -> bool:
    words = words_of(name)
    return not name.strip().isalpha() or bool(
        any(_PROPERTY.fullmatch(word) for word in words)
        or GOLD.fullmatch(name)
        or normalise(name) in KNOWN["item"] | KNOWN["label"]
        or len(words) > 1
    )


def _overlapping(values: Mapping[str, set[str]]) -> list[str]:
    """Return the columns that share at least half of their values with all others together."""
    names = list(values)
    for _ in range(2):
        uses = Counter(value for name in names for value in values[name])
        names = [n for n in names if 2 * sum(uses[v] > 1 for v in values[n]) >= len(values[n])]
    return names


def _long(profile: Profile) -> Iterator[Scored]:
    """Propose columns of worker, item and label that make a key; the only one that is told."""
    for key in find_keys(profile):
        for at, label in enumerate(key.labels[:MOST_TRIED]):
            layout = Layout("long", key.worker, key.item, (label,))
            told = (TOLD if len(key.labels) == 1 else 1.0) if key.is_told else 0.0
            nothing = [v for v in profile.values(label) if v in ("NA", "NaN")]
            given = {"no_answer": nothing[0]} if nothing else {}
            yield told + 0.5 - 0.1 * at, {**layout.options(profile.document), **given}
