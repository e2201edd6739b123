"""Other readings of a file that was refused: each is tried before it is proposed as a command.

A proposal must read the file, have items with several answers and, where it was guessed from the
values, answers that agree more than by chance: what is no answer seldom does. Where two readings
are as likely as each other none is proposed.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, islice
from shlex import quote
from typing import Any

from misc_cli.errors import InputError, MiscError
from misc_cli.readers.addresses import STDIN
from misc_cli.readers.answer_table import AnswerTable
from misc_cli.readers.columns import Layout, Refusal, is_unique, naming_column
from misc_cli.readers.document import Document
from misc_cli.readers.layouts.counts import has_raters, runs_with_sum, sums_of
from misc_cli.readers.layouts.nested import INNER, OUTER, unwrapped_document
from misc_cli.readers.options import ROW, ReadOptions, flags_of
from misc_cli.readers.platforms import recognise
from misc_cli.readers.reading import agreement
from misc_cli.readers.row_status import is_standing
from misc_cli.readers.source import Source, open_source
from misc_cli.readers.values import CHOICE, NUMBER, is_number, is_scale, kind_of_values
from misc_cli.readers.vocabulary import (
    ABOUT,
    SYNONYMS,
    WORKER_NAME,
    names_in,
    normalise,
    words_of,
)

MOST_TRIED = 12
FEW_PAIRS = 30  # of answers to one item; fewer prove nothing
FEW_ROWS, MOST_CELLS = 5, 20_000
MOST_BYTES = 1 << 26  # larger files are not read again and again for a proposal
FEW_CLASSES = 20
LEAST_EXCESS = 0.05  # agreement above chance
LEAST_KAPPA, MOST_AGREE = 0.1, 0.8  # between columns that may be workers
EACH = "each_question"
_KNOWN = {role: {word for tier in tiers for word in tier} for role, tiers in SYNONYMS.items()}
# Parts of an item's name beside ids: what was compared, by which system, in which turn.
_PARTS = names_in("""
model system turn question prompt word sentence source target doc document segment pair id ids
dataset instance item index term topic hash text image sys
""")
_PEOPLE = names_in("annotator worker rater coder judge user ann labeler expert")
_ANSWERS = names_in("label labels annotation annotations vote votes winner verdict judgment")
# Names of properties that are judged, not of people who judge.
_PROPERTY = re.compile(
    r".*(ity|ness|ing|[ts]ion|ment|ance|ence|ancy|ency|ful|able|ible|ive|ism|al|ic|ous|cy|ude)",
    re.IGNORECASE,
)
_GOLD = re.compile(r"(?i).*(gold|truth|majority|consensus|expert|final|true|correct|aggregat).*")
_INPUT = re.compile(r"(?i)input[.:]")

Given = dict[str, Any]  # fields of ReadOptions, and EACH


@dataclass(frozen=True)
class Proposal:
    """A reading that was tried: what declares it, and what it gives."""

    given: Mapping[str, Any]
    table: AnswerTable

    @property
    def flags(self) -> str:
        return flags_of(dict(self.given))


def with_command(
    error: InputError, path: str, source: Source | None, options: ReadOptions
) -> InputError:
    """Return the error with one command to paste that reads the file, if there is one."""
    if source is None or options.is_declared:
        return error
    found = None
    encoding = re.search(r"--encoding (latin-1|cp1252)", str(error))
    if encoding is not None and path != STDIN:
        options = replace(options, encoding=encoding[1])
        found = _tried(open_source(path, encoding[1], options.access), options, {}, is_guess=False)
    elif isinstance(error, Refusal):
        found = next(proposals(source, options, error), None)
    if found is None:
        return error
    given = {**_said(options), **found.given}
    more = " -o labels.csv" if EACH in given else ""
    command = f"misc aggregate {quote(path)} {flags_of(given)}{more}"
    return InputError(f"{_without_advice(str(error))}\n  try: {command}")


def _without_advice(message: str) -> str:
    """Return a message without the flags that it names: the command says them."""
    first, *rest = re.split(r"(?<=[^;]); ", message)
    return "; ".join([first, *(part for part in rest if not re.search(r"--[a-z]", part))])


def _said(options: ReadOptions) -> Given:
    """Return what the user said already, as fields that flags can tell."""
    names = ("worker_col", "item_col", "label_col", "header", "delimiter", "encoding", "format")
    others = ("question", "multi", "no_answer", "sheet", "group_by", "worker_from")
    given = {name: getattr(options, name) for name in (*names, *others)}
    return {name: value for name, value in given.items() if value is not None}


def proposals(
    source: Source, options: ReadOptions, error: InputError | None = None
) -> Iterator[Proposal]:
    """Yield other readings that were tried and are plausible, the most likely first."""
    if memoryview(source.content).nbytes > MOST_BYTES:
        return
    remedies = getattr(error, "remedies", ())
    is_open = not any(options.columns.values()) and getattr(error, "is_open", True)
    guesses = islice(_guesses(source, options), MOST_TRIED) if is_open else ()
    for is_guess, several in ((False, remedies), (True, guesses)):
        for given in several:
            found = _tried(source, options, given, is_guess=is_guess)
            if found is not None:
                yield found


def _tried(
    source: Source,
    options: ReadOptions,
    given: Mapping[str, Any],
    *,
    is_guess: bool,
    depth: int = 2,
) -> Proposal | None:
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
    agree, chance, n_pairs = agreement(answers.item, answers.label)
    n_classes, n_items = (len(c.unique()) for c in (answers.label, answers.item))
    blank = any(
        "" in map(str.strip, c.unique().to_pylist()) for c in (answers.worker, answers.item)
    )
    if blank or n_pairs == 0 or n_items < 3 or (n_classes < 2 and len(answers) > 20):
        return None
    if not is_guess:  # of the file's own questions
        return Proposal(given, table) if n_classes <= FEW_CLASSES or agree > chance else None
    # where all always agree nobody was asked twice: such a column is about the item
    is_weak = agree <= chance + LEAST_EXCESS or agree == 1
    is_told = "no_answer" in given or given.get("layout") == "matrix" or n_pairs <= FEW_PAIRS
    return None if is_weak and not is_told else Proposal(given, table)


def _guesses(source: Source, options: ReadOptions) -> Iterator[Given]:
    from misc_cli.readers.read import opened_document

    try:
        document = opened_document(source, options)
        if document.table.doubtful and options.header is None:
            document = opened_document(source, replace(options, header=True))
        if recognise(document) is not None:
            return
        document = unwrapped_document(document)
        n_rows = len(document.table.sample)
    except (MiscError, RecursionError):
        return
    if n_rows < 2 or not document.names:
        return
    if document.table.header is False:
        if n_rows >= FEW_ROWS:
            yield from _matrices(document)
            yield from _headerless(document)
    elif {OUTER, INNER} <= set(document.names):  # {item: {worker: label}} as most write it
        yield {"worker_col": INNER, "item_col": OUTER}
    else:
        yield from _wide(document)
        if n_rows >= FEW_ROWS:
            yield from _counted(document)
            yield from _long(document)


def _matrices(document: Document) -> Iterator[Given]:
    """Propose a nameless matrix: all columns choose from the same few values."""
    names = document.names
    if len(names) < 3:
        return
    if document.format == "npy":
        sums = sums_of(document, names)
        if sums is not None and len(sums) > 9 and max(sums) < 1.5 * min(sums) + 1:
            yield {"layout": "counts"}
    cells = {name: document.sampled(name) for name in names}
    first, rest = names[0], [name for name in names[1:] if cells[name]]
    every = Counter(cell for name in rest for cell in cells[name])
    negative = {value for value in every if value.startswith("-")}
    said = {name: set(cells[name]) - negative for name in rest}
    if len(every) > 30 or len(rest) < 2 or len(_overlapping(said)) < len(rest):
        return
    given: Given = {"layout": "matrix"}
    if is_unique(document, first) and len(set(cells[first]) - set(every)) > max(3, len(every)):
        given["item_col"] = "1"
    if set(every) == {"-1", "0", "1"}:
        return  # -1 and 1 with 0 for none, or 0 and 1 with -1 for none
    if negative and all(map(is_number, every)):
        given["no_answer"] = min(negative)
    yield given


def _headerless(document: Document) -> Iterator[Given]:
    """Propose positions of worker, item and label, by their values; no measured numbers."""
    cells = {name: document.sampled(name) for name in document.names}
    if any(is_number(cell) and "." in cell for own in cells.values() for cell in own):
        return
    sure = [n for n, own in cells.items() if _most(WORKER_NAME, own)]
    for layout in _by_values(document, sure or document.names, named=False):
        yield {**layout.options(document), "header": False}


def _most(pattern: re.Pattern[str], cells: Sequence[str]) -> bool:
    return bool(cells) and sum(1 for c in cells if pattern.fullmatch(c)) > 0.8 * len(cells)


def _counted(document: Document) -> Iterator[Given]:
    """Propose neighbouring columns of whole numbers whose rows sum to one number."""
    names = [n for n in document.names if n.strip() and not words_of(n) & {"id", "index", "year"}]
    own = () if has_raters(document) else runs_with_sum(document, names)
    if own:
        yield from _with_item(document, Layout("counts", label=own), own)


def _with_item(document: Document, layout: Layout, taken: Sequence[str]) -> Iterator[Given]:
    """Yield a layout's options, with the column that names the items once, else the row."""
    rest = [n for n in document.names if n not in taken and document.names.count(n) == 1]
    try:
        yield replace(layout, item=naming_column(document, rest)).options(document)
    except Refusal:  # what looks like the item comes again: all columns together may name it
        places = [document.names.index(name) for name in rest]
        rows = [
            tuple(row[at : at + 1] and row[at] for at in places) for row in document.table.sample
        ]
        if len(rest) > 2 and len(set(rows)) == len(rows):
            yield layout.options(document)


def _wide(document: Document) -> Iterator[Given]:
    """Propose columns that choose from the same few values, agree, and are called alike."""
    names = [n for n in document.names if document.names.count(n) == 1 and n.strip()]
    names = [n for n in names if not (words_of(n) & ABOUT or is_standing(n) or _INPUT.match(n))]
    values = {n: {cell.casefold() for cell in document.sampled(n)} for n in names}
    few = {n: own for n, own in values.items() if 1 <= len(own) <= 12 and _has_classes(document, n)}
    groups: dict[str, list[str]] = {}
    for name in few:
        stem = re.sub(r"(\d+|(?<=[\W_])[A-Za-z])$", "", name.strip())
        groups.setdefault(stem if stem != name.strip() else "", []).append(name)
    for stem, own in sorted(groups.items(), key=lambda pair: (not pair[0], -len(pair[1]))):
        people = own if stem else [n for n in own if not _is_property(n)]
        alike = _overlapping({n: few[n] for n in people})
        if len(alike) < 2 or (stem and len(alike) < len(people)):
            continue
        is_told = bool(words_of(stem) & (_PEOPLE | _ANSWERS))
        is_sum = runs_with_sum(document, alike, len(alike))
        if is_sum or not _are_raters(document, alike, is_told=is_told):
            continue
        for given in _with_item(document, Layout("wide", worker=tuple(alike)), alike):
            # columns may as well be questions, and rows people, where nothing names the rows
            if is_told or not stem or given["item_col"] != ROW:
                yield given


def _is_property(name: str) -> bool:
    words = words_of(name)
    return not name.strip().isalpha() or bool(
        any(_PROPERTY.fullmatch(word) for word in words)
        or _GOLD.fullmatch(name)
        or normalise(name) in _KNOWN["item"] | _KNOWN["label"]
        or len(words) > 1
    )


def _overlapping(values: Mapping[str, set[str]]) -> list[str]:
    """Return the columns that share at least half of their values with all others together."""
    names = list(values)
    for _ in range(2):
        uses = Counter(value for name in names for value in values[name])
        names = [n for n in names if 2 * sum(uses[v] > 1 for v in values[n]) >= len(values[n])]
    return names


def _are_raters(document: Document, names: Sequence[str], *, is_told: bool) -> bool:
    """Return whether two columns agree more than their own shares make likely: Cohen's kappa.

    Questions that all answer alike have shares of their own, and agree no more than those. Where
    the names tell that they are raters it is enough that they nearly always agree.
    """
    places = [document.names.index(name) for name in names[:12]]
    rows = [row for row in document.table.sample if len(row) > max(places)]
    if len(rows) < 2 * FEW_ROWS:
        return True
    kappas, shares = [], []
    for one, other in combinations(places, 2):
        pairs = [(row[one].strip(), row[other].strip()) for row in rows]
        pairs = [pair for pair in pairs if all(pair)]
        if pairs:
            first, second = (Counter(pair[at] for pair in pairs) for at in (0, 1))
            chance = sum(first[c] * second[c] for c in first) / len(pairs) ** 2
            agree = sum(a == b for a, b in pairs) / len(pairs)
            kappas += [(agree - chance) / (1 - chance)] if chance < 1 else []
            shares.append(agree)
    is_sure = bool(kappas) and sum(kappas) / len(kappas) > LEAST_KAPPA
    return is_sure or (is_told and bool(shares) and sum(shares) / len(shares) > MOST_AGREE)


def _has_classes(document: Document, name: str) -> bool:
    cells = document.sampled(name)
    distinct = [re.sub(r"\.0+$", "", cell) for cell in dict.fromkeys(cells)]
    kind = kind_of_values(distinct, len(cells))
    is_whole = all(value.lstrip("+-").isdigit() for value in distinct)
    return kind.name == CHOICE or (kind.name == NUMBER and is_scale(distinct) and is_whole)


def _long(document: Document) -> Iterator[Given]:
    """Propose columns of worker, item and label where a name tells the worker."""
    known = [n for n in document.names if normalise(n) in _KNOWN["worker"] or _is_worker_name(n)]
    known = [n for n in known if not words_of(n) & {"model", "llm"}]
    for layout in _by_values(document, known, named=True):
        yield layout.options(document)


def _is_worker_name(name: str) -> bool:
    return bool(words_of(name) & _PEOPLE) or normalise(name).startswith(
        ("annotator", "worker", "rater")
    )


def _by_values(document: Document, workers: Sequence[str], *, named: bool) -> Iterator[Layout]:
    """Yield layouts `long` whose answers agree, the most likely first."""
    names = [n for n in document.names if document.names.count(n) == 1 and not is_standing(n)]
    values = zip(names, document.columns(names), strict=True)
    cells = {name: column.to_pylist()[:MOST_CELLS] for name, column in values}
    columns = {n: [cell.strip() for cell in own] for n, own in cells.items()}
    n_rows = len(columns[names[0]])
    n_values = {n: len(set(own)) for n, own in columns.items()}
    labels = [n for n in names if 2 <= n_values[n] <= max(2, min(30, n_rows / 3))]
    labels = [n for n in labels if _has_classes(document, n) and not words_of(n) & (ABOUT | _PARTS)]
    labels = [n for n in labels if not (_GOLD.match(n) or _INPUT.match(n) or _is_worker_name(n))]
    found: list[tuple[float, Layout]] = []
    for worker in workers:
        if worker not in columns or not 2 <= n_values[worker] <= n_rows / 2:
            continue
        for label in labels:
            for item in _keys(columns, n_values, {worker, label}, named=named):
                keys = list(zip(*(columns[name] for name in item), strict=True))
                score = _score(columns[worker], keys, columns[label])
                if score is not None and label != worker:
                    rank = score + (normalise(label) in _KNOWN["label"]) - 0.2 * len(item)
                    found.append((rank, Layout("long", (worker,), item, (label,))))
                    break
    for _, layout in sorted(found, key=lambda pair: -pair[0])[:3]:
        yield layout


def _keys(
    columns: Mapping[str, list[str]],
    n_values: Mapping[str, int],
    taken: set[str],
    *,
    named: bool,
) -> Iterator[tuple[str, ...]]:
    """Yield sets of columns that may name the items, small ones first."""
    every = _KNOWN["item"]
    free = [n for n in columns if n not in taken and n_values[n] > 1]
    if named:
        ids = [n for n in free if normalise(n) in every or normalise(n).endswith("id")]
        free = [n for n in free if n in ids or words_of(n) & _PARTS]
        free = [n for n in free if not words_of(n) & {"time", "date", "annotation", "assignment"}]
    free.sort(key=lambda n: (normalise(n) not in every, -n_values[n]))
    for size in (1, 2, 3, 4) if named else (1,):
        for chosen in combinations(free[:7], size):
            yield tuple(n for n in columns if n in chosen)


def _score(workers: list[str], items: list[tuple[str, ...]], labels: list[str]) -> float | None:
    """Return by how much answers agree above chance; None if these cannot be the roles."""
    rows = [(w, i, x) for w, i, x in zip(workers, items, labels, strict=True) if w and x]
    if len(rows) < 10 or len({(w, i) for w, i, _ in rows}) < 0.95 * len(rows):
        return None
    per_item = Counter(i for _, i, _ in rows)
    if len(per_item) < 3 or len(rows) < 1.5 * len(per_item):
        return None
    cells = Counter((i, x) for _, i, x in rows)
    n_pairs = sum(n * (n - 1) for n in per_item.values())
    agree = sum(n * (n - 1) for n in cells.values()) / n_pairs
    chance = sum(n * n for n in Counter(x for _, _, x in rows).values()) / len(rows) ** 2
    if agree == 1 or agree <= chance + LEAST_EXCESS:
        return None
    return (agree - chance) / (1 - chance)
