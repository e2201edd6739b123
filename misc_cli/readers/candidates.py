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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations, permutations
from shlex import quote
from typing import Any

import numpy as np

from misc_cli.errors import InputError, MiscError, MiscWarning
from misc_cli.readers.addresses import STDIN
from misc_cli.readers.answer_table import AnswerTable
from misc_cli.readers.columns import Layout, Refusal
from misc_cli.readers.document import Document
from misc_cli.readers.keys import KNOWN, Profile, find_keys, follows, is_key
from misc_cli.readers.layouts.long import looks_of
from misc_cli.readers.layouts.nested import (
    INNER,
    OUTER,
    are_votes,
    exploded,
    listed,
    unwrapped_document,
)
from misc_cli.readers.layouts.wide import runs_with_sum, whole_numbers
from misc_cli.readers.options import NOBODY, ROW, ReadOptions, flags_of
from misc_cli.readers.panels import (
    FEW_ROWS,
    LEAST_KAPPA,
    Given,
    Scored,
    find_forms,
    find_panels,
    find_small_counts,
    overlapping,
)
from misc_cli.readers.platforms import recognise
from misc_cli.readers.reading import (
    MOST_KAPPA,
    agreement,
    are_classes,
    item_side,
    share_of_conflicts,
)
from misc_cli.readers.source import Source, open_source
from misc_cli.readers.values import FEW_CLASSES, is_number
from misc_cli.readers.vocabulary import normalise, words_of

MOST_TRIED, MOST_SECONDS = 4, 1.5
FEW_PAIRS = 30  # of answers to one item; fewer prove nothing
MOST_BYTES = 1 << 26  # larger files are not read again and again for a proposal
MOST_POSITIONS = 8  # columns without names
TOLD = 2.0  # the score of what structure and names tell alike, and nothing else
EACH = "each_question"
NO_OTHER = "no other reading was found in which answers to an item agree"


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
        found = _tried(source, options, {}, is_guess=False)
    elif isinstance(error, Refusal):
        found = candidates(source, options, error)
    if not found:
        raise error
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
        found += _tried(source, options, given, is_guess=False)
        if len(found) == most or time.process_time() - started > MOST_SECONDS:
            return found
    if found or any(options.columns.values()) or not getattr(error, "is_open", True):
        return found
    guesses = sorted(_guesses(source, options), key=lambda pair: -pair[0])
    n_tried = 0
    for score, given in guesses[:MOST_TRIED]:
        if found and time.process_time() - started > MOST_SECONDS:
            break
        found += _tried(source, options, given, is_guess=True, score=score)
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
) -> list[Candidate]:
    """Read a file in another way, if it is plausible; a remedy of its refusal is followed, too."""
    from misc_cli.readers.read import read_source

    fields = {name: value for name, value in given.items() if name != EACH}
    declared = replace(options, **fields)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tables = read_source(source, declared, each=EACH in given)
    except Refusal as error:
        for remedy in error.remedies if depth > 1 else ():
            for found in _tried(source, declared, remedy, is_guess=is_guess, depth=depth - 1):
                return [replace(found, given={**given, **found.given})]
        return []
    except (MiscError, ValueError, KeyError, IndexError):
        return []
    table = max(tables, key=lambda one: len(one.answers))
    answers = table.answers
    told = agreement(answers.item.indices, answers.label.indices)
    n_classes, n_items = (len(c.unique()) for c in (answers.label, answers.item))
    is_few = n_classes < 2 or (n_items < 3 and "question" not in given)
    n_once, n_again, _ = share_of_conflicts(answers.worker, answers.item, answers.label)
    is_few = is_few or 2 * n_again > n_once  # a worker's rows are about something else
    if is_few or told.n_pairs == 0 or not are_classes(answers.item, answers.label):
        return []
    if not is_guess:  # of the file's own questions, unless it is about the item
        is_said = n_classes <= max(2, len(answers) / 4)
        is_said = is_said and not ("item_col" in given and told.agree == 1)
        return [Candidate(given, table)] if is_said else []
    layout = given.get("layout", "long")
    is_key = layout == "long" and {"worker_col", "item_col", "label_col"} <= {*given}
    # where all always agree nobody was asked twice: such a column is about the item
    is_weak = told.kappa <= LEAST_KAPPA or told.agree == 1
    if layout == "wide":  # columns were compared
        is_weak = told.kappa <= 0
    is_named = layout in ("matrix", "form") or "no_answer" in given
    is_named = is_named or (is_key and score >= 1 and told.agree > told.chance / 2)
    if is_weak and not (is_named or told.n_pairs <= FEW_PAIRS):
        return []
    # chance alone gives three standard errors in one of 700 files
    deviation = np.sqrt(told.chance * (1 - told.chance) / (told.n_pairs if is_key else n_items))
    is_clear = bool(told.agree - told.chance > 3 * deviation)
    if is_key:  # nothing else may be meant
        is_strong = score > TOLD
    elif layout == "wide":  # columns that only share their values may be questions
        names = [name.strip() for name in given["worker_col"].split(",")]
        is_short = len({name[:1] for name in names}) == 1 or all(len(n) == 1 for n in names)
        is_strong = is_short and not is_weak
    else:  # a label that nearly follows from the item is about it
        is_asked = layout == "form" or (layout == "long" and told.kappa >= MOST_KAPPA)
        is_strong = not (is_asked or is_weak)
    return [Candidate(given, table, is_clear and is_strong)]


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
        inner = exploded(document, ReadOptions())
        table = inner.document if inner and not inner.anonymous else document
        if len(document.table.sample) < 2 or not document.names:
            return
        profile = Profile(table, whole=True)
        if platform is not None:
            yield from find_forms(profile) if platform[0].name == "mturk" else ()
        elif table.table.header is False or is_counted:
            yield from _matrices(profile, is_counted=is_counted)
            yield from _headerless(profile)
            yield from _lists(table)
        elif {OUTER, INNER} <= set(table.names):
            told = item_side(profile.codes(OUTER), profile.codes(INNER))
            what, who = (INNER, OUTER) if told and told[0] else (OUTER, INNER)  # as peerannot
            yield 1.0, {"worker_col": who, "item_col": what}
        else:
            yield from find_panels(profile)
            yield from find_forms(profile)
            if profile.n_rows >= FEW_ROWS:
                yield from find_small_counts(profile)
                yield from _long(profile)
                yield from _lists(table)
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
    if is_near or len(runs_with_sum(document, names)) == len(names):
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
    if len(every) > 30 or len(said) < 2 or len(overlapping(said)) < len(said):
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
    return agreement([at for at, _ in cells], codes).kappa


def _headerless(profile: Profile) -> Iterator[Scored]:
    """Propose positions of workers' columns, or of worker, item and label, by their values."""
    sure = [name for name in profile.names if looks_of(profile.document.sampled(name)) > 0]
    unique = [n for n in profile.names if profile.is_unique(n)]
    said = {n: set(profile.values(n)) for n in profile.names if n not in unique}
    pairs = combinations(said.values(), 2)
    are_alike = all(2 * len(a & b) >= min(len(a), len(b)) for a, b in pairs)
    if len(unique) == 1 and len(said) > 1 and are_alike:
        layout = Layout("wide", worker=tuple(said), item=(unique[0],))
        yield 0.9, {**layout.options(profile.document), "header": False}
    for worker, item, label in permutations(profile.names[:MOST_POSITIONS], 3):
        if worker in (sure or profile.names) and is_key(profile, worker, (item,)):
            side = item_side(profile.codes(worker), profile.codes(item), many_more=np.inf)
            if not (sure or (side and side[0])) or follows(profile, (worker,), label):
                continue
            kept = profile.filled(label)
            told = agreement(profile.codes(item)[kept], profile.codes(label)[kept])
            is_few = profile.has_classes(label) and len(profile.values(label)) <= FEW_CLASSES
            if is_few and told.kappa > LEAST_KAPPA:
                layout = Layout("long", (worker,), (item,), (label,))
                yield told.agree, {**layout.options(profile.document), "header": False}


def _lists(document: Document) -> Iterator[Scored]:
    """Propose a column of lists of votes: "2, 3, 3", "[1 1 0]"."""
    header = {} if document.table.header is not False else {"header": False}
    for name in document.names:
        if are_votes([*map(listed, document.sampled(name))]):
            is_said = any(word.removesuffix("s") in KNOWN["label"] for word in words_of(name))
            yield 0.5 + 0.1 * is_said, {"worker_col": NOBODY, "label_col": name, **header}


def _long(profile: Profile) -> Iterator[Scored]:
    """Propose columns of worker, item and label that make a key; the only one that is told."""
    for key in find_keys(profile):
        for at, label in enumerate(key.labels[:MOST_TRIED]):
            layout = Layout("long", key.worker, key.item, (label,))
            is_only = len(key.labels) == 1
            is_named = key.is_told or (is_only and normalise(label) in KNOWN["label"])
            told = (TOLD if is_only and key.is_told else 1.0) if is_named else 0.0
            nothing = [v for v in profile.values(label) if v in ("NA", "NaN")]
            given = {"no_answer": nothing[0]} if nothing else {}
            yield told + 0.5 - 0.1 * at, {**layout.options(profile.document), **given}
