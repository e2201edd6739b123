"""Other readings of a file that was refused: each is tried before it is proposed as a command.

A proposal must read the file, have items with several answers and, where it was guessed from the
values, answers that agree more than by chance: what is no answer seldom does.
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
from misc_cli.readers.answer_table import AnswerTable
from misc_cli.readers.columns import Layout, Refusal, is_unique
from misc_cli.readers.document import Document
from misc_cli.readers.layouts.counts import sums_of
from misc_cli.readers.layouts.nested import INNER, OUTER, unwrapped_document
from misc_cli.readers.options import ReadOptions, flags_of
from misc_cli.readers.platforms import recognise
from misc_cli.readers.reading import agreement
from misc_cli.readers.row_status import is_standing
from misc_cli.readers.source import STDIN, Source, open_source
from misc_cli.readers.values import CHOICE, NUMBER, is_number, is_scale, kind_of_values
from misc_cli.readers.vocabulary import (
    ABOUT,
    SYNONYMS,
    WORKER_NAME,
    find_roles,
    normalise,
    words_of,
)

MOST_TRIED = 12
FEW_PAIRS = 30  # of answers to one item; fewer prove nothing
LEAST_ROWS, MOST_ROWS, MOST_CELLS = 5, 500, 20_000
MOST_BYTES = 1 << 26  # larger files are not read again and again for a proposal
FEW_CLASSES = 20
LEAST_EXCESS = 0.05  # agreement above chance
EACH = "each_question"
_WORKERS = [word for tier in SYNONYMS["worker"] for word in tier]
# Parts of an item's name beside ids: what was compared, by which system, in which turn.
_PARTS = {
    *("model", "system", "turn", "question", "prompt", "word", "sentence", "source", "target"),
    *("doc", "document", "segment", "pair", "id", "ids", "criteria", "criterion", "aspect"),
    *("dataset", "instance", "item", "index", "term", "topic", "hash", "text", "image", "sys"),
}
_CRITERIA = {"criteria", "criterion", "aspect", "dimension", "attribute", "metric", "facet"}
# Names of properties that are judged, not of people who judge.
_PROPERTY = re.compile(
    r".*(ity|ness|ing|tion|ment|ance|ence|ancy|ency|ful|able|ible|ive|ism|al|ic|ous|cy|ude)",
    re.IGNORECASE,
)
_GOLD = re.compile(r"(?i).*(gold|truth|majority|consensus|expert|final|true|correct|aggregat).*")


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
    given: dict[str, Any] = {}
    found = None
    encoding = re.search(r"--encoding (latin-1|cp1252)", str(error))
    if encoding is not None and path != STDIN:
        given = {"encoding": encoding[1]}
        options = replace(options, encoding=encoding[1])
        found = _tried(open_source(path, encoding[1], options.access), options, {}, is_guess=False)
    elif isinstance(error, Refusal):
        found = next(proposals(source, options, error), None)
    if found is None:
        return error
    given = {**_said(options), **given, **found.given}
    more = " -o labels.csv" if EACH in given else ""
    command = f"misc aggregate {quote(path)} {flags_of(given)}{more}"
    return InputError(f"{_without_advice(str(error))}\n  try: {command}")


def _without_advice(message: str) -> str:
    """Return a message without the flags that it names: the command says them."""
    parts = re.split(r"(?<=[^;]); ", message)
    kept = [part for at, part in enumerate(parts) if at == 0 or not re.search(r"--[a-z]", part)]
    return "; ".join(kept)


def _said(options: ReadOptions) -> dict[str, Any]:
    """Return what the user said already, as fields that flags can tell."""
    plain = ReadOptions()
    names = ("worker_col", "item_col", "label_col", "header", "delimiter", "encoding", "format")
    others = ("question", "multi", "no_answer", "sheet", "group_by", "worker_from")
    given = {name: getattr(options, name) for name in (*names, *others)}
    return {name: value for name, value in given.items() if value != getattr(plain, name)}


def proposals(
    source: Source, options: ReadOptions, error: InputError | None = None
) -> Iterator[Proposal]:
    """Yield other readings that were tried and are plausible, the most likely first."""
    remedies = getattr(error, "remedies", ())
    if memoryview(source.content).nbytes > MOST_BYTES:
        return
    seen: list[dict[str, Any]] = []
    for remedy in remedies:
        found = _tried(source, options, remedy, is_guess=False)
        if found is not None:
            seen.append(dict(remedy))
            yield found
    if any(options.columns.values()) or (isinstance(error, Refusal) and not error.is_open):
        return
    for given in islice(_guesses(source, options), MOST_TRIED):
        if given not in seen:
            seen.append(given)
            found = _tried(source, options, given, is_guess=True)
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
    n_classes = len(set(answers.label.to_pylist()))
    n_items = len(set(answers.item.to_pylist()))
    if n_pairs == 0 or n_items < 3 or (n_classes < 2 and len(answers) > 20):
        return None
    if not is_guess:  # of the file's own questions
        return Proposal(given, table) if n_classes <= FEW_CLASSES or agree > chance else None
    # where all always agree nobody was asked twice: such a column is about the item
    is_weak = agree <= chance + LEAST_EXCESS or agree == 1
    is_told = "no_answer" in given or given.get("layout") == "matrix" or n_pairs <= FEW_PAIRS
    return None if is_weak and not is_told else Proposal(given, table)


def _guesses(source: Source, options: ReadOptions) -> Iterator[dict[str, Any]]:
    from misc_cli.readers.read import opened_document

    try:
        document = opened_document(source, options)
        if recognise(document) is not None:
            return
        document = unwrapped_document(document)
        sample = document.table.sample[:MOST_ROWS]
    except (MiscError, RecursionError):
        return
    if len(sample) < LEAST_ROWS or not document.names:
        return
    if document.table.header is False:
        yield from _matrices(document)
        yield from _headerless(document)
    else:
        if {OUTER, INNER} <= set(document.names):  # {item: {worker: label}} as most write it
            yield {"worker_col": INNER, "item_col": OUTER}
            return
        yield from _counted(document)
        yield from _wide(document)
        yield from _long(document)
        yield from _nobodys(document)


def _matrices(document: Document) -> Iterator[dict[str, Any]]:
    """Propose a nameless matrix: most columns choose from the same few values."""
    names = document.names
    if len(names) < 3:
        return
    if document.format == "npy":
        sums = sums_of(document, names)
        if sums is not None and len(sums) > 9 and max(sums) < 1.5 * min(sums) + 1:
            yield {"layout": "counts"}
    cells = {name: document.sampled(name) for name in names}
    first, rest = names[0], names[1:]
    every = Counter(cell for name in rest for cell in cells[name])
    if len(every) > 30:
        return
    given: dict[str, Any] = {"layout": "matrix"}
    is_named = is_unique(document, first) and len(set(cells[first]) - set(every)) > len(every)
    if is_named and len(cells[first]) > 3:
        given["item_col"] = "1"
    filled = [own for name in rest if (own := cells[name])]
    if len(filled) < 2 or not all(set(own) & set(every) for own in filled):
        return
    numbers = [value for value in every if is_number(value)]
    negative = [value for value in every if value.startswith("-")]
    if negative and len(numbers) == len(every):
        is_sparse = set(every) == {"-1", "0", "1"} and 2 * every["0"] > sum(every.values())
        given["no_answer"] = "0" if is_sparse else negative[0]
    yield given


def _headerless(document: Document) -> Iterator[dict[str, Any]]:
    """Propose positions of worker, item and label, by their values."""
    sure = [n for n in document.names if _most(WORKER_NAME, document.sampled(n))]
    for layout in _by_values(document, sure or document.names, named=False):
        yield {**layout.options(document), "header": False}


def _most(pattern: re.Pattern[str], cells: Sequence[str]) -> bool:
    return bool(cells) and sum(1 for c in cells if pattern.fullmatch(c)) > 0.8 * len(cells)


def _counted(document: Document) -> Iterator[dict[str, Any]]:
    """Propose neighbouring columns of whole numbers whose rows sum to one number."""
    names = [n for n in document.names if n.strip() and not words_of(n) & {"id", "index", "year"}]
    numeric = [n for n in names if sums_of(document, [n]) is not None]
    for first in range(len(numeric)):
        for last in range(len(numeric), first + 1, -1):
            own = numeric[first:last]
            sums = sums_of(document, own)
            if sums and len(sums) > 9 and len(set(sums)) == 1 and sums[0] > 2:
                yield {**_with_item(document, Layout("counts", label=tuple(own)), own)}
                return


def _with_item(document: Document, layout: Layout, taken: Sequence[str]) -> dict[str, Any]:
    """Return a layout's options, with the column that names the items once, else the row."""
    rest = [n for n in document.names if n not in taken and document.names.count(n) == 1]
    places = find_roles(rest, {"item": [*SYNONYMS["item"], {"id", "index", "idx", "uid"}]})["item"]
    ids = [n for n in rest if words_of(n) & {"id", "ids", "index"}]
    for name in [*(rest[at] for at in places), *ids, *rest]:
        if is_unique(document, name):
            return replace(layout, item=(name,)).options(document)
    return layout.options(document)


def _wide(document: Document) -> Iterator[dict[str, Any]]:
    """Propose columns that choose from the same few values and are called alike, as raters are."""
    names = [n for n in document.names if document.names.count(n) == 1 and n.strip()]
    names = [n for n in names if not words_of(n) & ABOUT and not is_standing(n)]
    values = {n: set(document.sampled(n)) for n in names}
    few = {n: own for n, own in values.items() if 1 <= len(own) <= 12 and _has_classes(document, n)}
    groups: dict[str, list[str]] = {}
    for name in few:
        stem = re.sub(r"(\d+|(?<=[\W_])[A-Za-z])$", "", name.strip())
        groups.setdefault(stem if stem != name.strip() else "", []).append(name)
    for stem, own in sorted(groups.items(), key=lambda pair: (not pair[0], -len(pair[1]))):
        if not stem:
            own = [n for n in own if not _is_property(n)]
        if len(own) < 2 or not _overlap([few[name] for name in own]):
            continue
        yield _with_item(document, Layout("wide", worker=tuple(own)), own)


def _is_property(name: str) -> bool:
    words = words_of(name)
    known = {w for role in ("item", "label") for tier in SYNONYMS[role] for w in tier}
    return bool(
        any(_PROPERTY.fullmatch(word) for word in words)
        or _GOLD.fullmatch(name)
        or normalise(name) in known
        or len(words) > 2
    )


def _overlap(values: Sequence[set[str]]) -> bool:
    """Return whether each shares at least half of its values with all others together."""
    return all(
        2 * len(own & set().union(*(v for v in values if v is not own))) >= len(own)
        for own in values
    )


def _has_classes(document: Document, name: str) -> bool:
    cells = document.sampled(name)
    distinct = list(dict.fromkeys(cells))
    kind = kind_of_values(distinct, len(cells))
    is_whole = all(value.lstrip("+-").isdigit() for value in distinct)
    return kind.name == CHOICE or (kind.name == NUMBER and is_scale(distinct) and is_whole)


def _long(document: Document) -> Iterator[dict[str, Any]]:
    """Propose columns of worker, item and label where a name tells the worker."""
    known = [n for n in document.names if normalise(n) in _WORKERS or _is_worker_name(n)]
    known = [n for n in known if not words_of(n) & {"model", "llm"}]
    for layout in _by_values(document, known, named=True):
        asked = [n for n in layout.item if words_of(n) & _CRITERIA]
        rest = tuple(n for n in layout.item if n not in asked)
        if len(asked) == 1 and rest:
            given = replace(layout, item=rest).options(document)
            yield {**given, "group_by": asked[0], EACH: True}
        yield layout.options(document)


def _is_worker_name(name: str) -> bool:
    words = words_of(name)
    people = {"annotator", "worker", "rater", "coder", "judge", "user", "ann", "labeler", "expert"}
    return bool(words & people) or normalise(name).startswith(("annotator", "worker", "rater"))


def _by_values(document: Document, workers: Sequence[str], *, named: bool) -> Iterator[Layout]:
    """Yield layouts `long` whose answers agree, the most likely first."""
    names = [n for n in document.names if document.names.count(n) == 1 and not is_standing(n)]
    values = zip(names, document.columns(names), strict=True)
    cells = {name: column.to_pylist()[:MOST_CELLS] for name, column in values}
    columns = {n: [cell.strip() for cell in own] for n, own in cells.items()}
    rows = range(len(columns[names[0]]))
    n_values = {n: len(set(cells)) for n, cells in columns.items()}
    labels = [n for n in names if 2 <= n_values[n] <= max(2, min(30, len(rows) / 3))]
    labels = [n for n in labels if _has_classes(document, n) and not words_of(n) & ABOUT]
    labels = [n for n in labels if not _GOLD.fullmatch(n) and not _is_worker_name(n)]
    found: list[tuple[float, Layout]] = []
    for worker in workers:
        if worker not in columns or not 2 <= n_values[worker] <= len(rows) / 2:
            continue
        for label in labels:
            if label == worker:
                continue
            for item in _keys(columns, n_values, worker, label, named=named):
                keys = list(zip(*(columns[name] for name in item), strict=True))
                score = _score(columns[worker], keys, columns[label])
                if score is not None:
                    known = normalise(label) in {w for tier in SYNONYMS["label"] for w in tier}
                    rank = score + known - 0.2 * len(item)
                    found.append((rank, Layout("long", (worker,), item, (label,))))
                    break
    for _, layout in sorted(found, key=lambda pair: -pair[0])[:3]:
        yield layout


def _keys(
    columns: Mapping[str, list[str]],
    n_values: Mapping[str, int],
    worker: str,
    label: str,
    *,
    named: bool,
) -> Iterator[tuple[str, ...]]:
    """Yield sets of columns that may name the items, small ones first."""
    every = {word for tier in SYNONYMS["item"] for word in tier}
    free = [n for n in columns if n not in (worker, label) and n_values[n] > 1]
    if named:
        free = [n for n in free if normalise(n) in every or words_of(n) & _PARTS]
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


def _nobodys(document: Document) -> Iterator[dict[str, Any]]:
    """Propose votes of nobody: items come again, with a label each, and nothing else varies."""
    places = find_roles(document.names)
    items = [document.names[at] for at in places["item"]]
    labels = [document.names[at] for at in places["label"]]
    if places["worker"] or len(items) != 1 or len(labels) != 1:
        return
    cells = document.sampled(items[0])
    if len(set(cells)) <= 0.5 * len(cells) and _has_classes(document, labels[0]):
        yield Layout("long", (), tuple(items), tuple(labels)).options(document)
