"""Encoding: answers (three text columns) → `Labels` (integer votes and their vocabularies).

Vocabularies and votes are sorted, so the order of the input rows does not matter, except where a
worker labels an item twice and `--duplicates` asks for the first or the last.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp

from misc_cli.data.parameters import DUPLICATES
from misc_cli.data.types import Answers, Codes, KnownLabels, Labels, Names
from misc_cli.data.votes import SparseVotes
from misc_cli.errors import ConfigError, InputError, MiscWarning

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Counts:
    """Rows that were read, and those of them that are no votes.

    `n_conflicts` counts pairs of a worker and an item with more than one label.
    """

    n_rows: int = 0
    n_empty: int = 0
    n_repeats: int = 0
    n_conflicts: int = 0

    def __add__(self, other: Counts) -> Counts:
        pairs = zip(astuple(self), astuple(other), strict=True)
        return Counts(*(first + second for first, second in pairs))


class Encoding(NamedTuple):
    """The labels, and counts of rows."""

    labels: Labels
    counts: Counts


def encode(
    answers: Answers,
    *,
    duplicates: str = "last",
    class_order: Sequence[str] | None = None,
) -> Encoding:
    """Return the votes and vocabularies; `class_order` may name classes without answers."""
    if duplicates not in DUPLICATES:
        raise ConfigError(f"--duplicates {duplicates}: choose from {', '.join(DUPLICATES)}")
    with ThreadPoolExecutor(3) as pool:
        columns = pool.map(_factorize, (answers.worker, answers.item, answers.label))
        (worker, workers), (item, items), (label, classes) = columns
    kept = label >= 0
    where = f"{answers.name}: " if answers.name else ""
    for codes, name in ((worker, "worker"), (item, "item")):
        nameless = np.flatnonzero((codes < 0) & kept)
        if len(nameless):
            row = int(nameless[0]) + 1
            raise InputError(f"{where}row {row} has an empty {name}; fill it in or drop the row")
    n_empty = int(len(kept) - kept.sum())
    if n_empty == len(kept):
        raise InputError(f"{where}no answers are left: every label is empty; check --label-col")
    if n_empty:
        worker, item, label = worker[kept], item[kept], label[kept]
        worker, workers = _drop_unused(worker, workers)
        item, items = _drop_unused(item, items)
    label, classes, ordered = order_classes(label, classes, class_order)
    shape = (len(items), len(workers), len(classes))
    matrix, contested, n_repeats = _votes(worker, item, label, shape, duplicates)
    if len(contested) and duplicates == "error":
        at_item, at_worker = divmod(int(contested[0]), len(workers))
        many = "" if len(contested) == 1 else f" ({len(contested):,} such pairs)"
        raise InputError(
            f"{where}worker {workers[at_worker].as_py()!r} gave different labels to item "
            f"{items[at_item].as_py()!r}{many}; choose --duplicates last, first or all"
        )
    votes = SparseVotes(matrix, shape[1], shape[2])
    counts = Counts(len(kept), n_empty, n_repeats, len(contested))
    return Encoding(Labels(votes, workers, items, classes, ordered), counts)


def encode_known(labels: Labels, known: KnownLabels, role: str = "truth") -> Codes:
    """Return the known class of each item, (n_items,), -1 where unknown or empty.

    A label that no worker gave is an error in gold; in truth it is a warning and gets the code
    n_classes, which no result can match.
    """
    which = known.called(role)
    gold = np.full(labels.n_items, -1, dtype=np.int32)
    names, first = distinct(known.items, known.labels, which)
    rows = pc.index_in(names, labels.items)
    here = pc.is_valid(rows)
    names, texts = names.filter(here), trimmed(known.labels).take(pa.array(first)).filter(here)
    codes = pc.index_in(texts, labels.classes)
    if codes.null_count:
        at = pc.index(pc.is_null(codes), True).as_py()
        case = outside(which, names[at].as_py(), texts[at].as_py(), codes.null_count)
        if role == "gold":
            raise InputError(f"{case}; correct it, or name all classes with --class-order")
        warnings.warn(f"{case}; it counts as wrong", MiscWarning, stacklevel=3)
    gold[rows.filter(here).to_numpy()] = pc.fill_null(codes, labels.n_classes).to_numpy()
    return gold


def outside(which: str, item: str, text: str, count: int) -> str:
    """Say that `count` known labels are no class of the answers; `item` is the first of them."""
    many = "" if count == 1 else f" ({count:,} such items)"
    return f"{which}: item {item!r} is {text!r}, which no worker answered{many}"


def distinct(items: Any, labels: Any, which: str) -> tuple[Names, npt.NDArray[np.int64]]:
    """Return each item with a label once, and its row; two different labels are an error."""
    names, texts = trimmed(items), trimmed(labels)
    pairs = pa.table({"item": names, "label": texts, "row": np.arange(len(names))})
    pairs = pairs.filter(pc.and_(pc.not_equal(names, ""), pc.not_equal(texts, "")))
    once = pairs.group_by(["item", "label"], use_threads=False).aggregate([("row", "min")])
    found = once["item"].combine_chunks()
    twice = pc.value_counts(found)
    twice = twice.filter(pc.greater(twice.field("counts"), 1))
    if len(twice):
        raise InputError(
            f"{which}: item {twice[0]['values'].as_py()!r} has more than one label; keep one"
        )
    return found, once["row_min"].to_numpy()


def plain(column: Any) -> Any:
    """Return an Arrow column as one array without dictionary or views of text."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if pa.types.is_dictionary(array.type):
        return plain(array.dictionary).take(array.indices)
    return array.cast(pa.string()) if pa.types.is_string_view(array.type) else array


def text_frame(columns: Mapping[str, Any]) -> pd.DataFrame:
    """Return columns (numpy, pandas, or arrow text) as a data frame of plain text and numbers."""
    import pandas as pd

    arrow = (pa.Array, pa.ChunkedArray)
    return pd.DataFrame(
        {n: plain(c).to_pandas() if isinstance(c, arrow) else c for n, c in columns.items()}
    )


def trimmed(column: Any) -> Names:
    """Return a plain string array without spaces around the texts, from any arrow column."""
    return pc.utf8_trim_whitespace(plain(column).cast(pa.string()))


def _factorize(column: Any) -> tuple[Codes, Names]:
    """Return codes into a sorted, trimmed vocabulary, -1 for empty text, and the vocabulary.

    All work on text happens on the vocabulary, which is short, never on the rows.
    """
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if not pa.types.is_dictionary(array.type):
        array = array.cast(pa.string()).dictionary_encode()
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    names = array.dictionary.cast(pa.string())
    texts = pc.utf8_trim_whitespace(names)
    remap = np.full(len(names) + 1, -1, dtype=np.int32)  # the last one serves null codes
    if texts.equals(names) and not (names.null_count or pc.any(pc.equal(names, "")).as_py()):
        order = pc.sort_indices(names)
        vocabulary = names.take(order)
        remap[order.to_numpy()] = np.arange(len(names), dtype=np.int32)
    else:
        unique = pc.unique(texts)
        unique = unique.filter(pc.and_(pc.is_valid(unique), pc.not_equal(unique, "")))
        vocabulary = unique.take(pc.sort_indices(unique))
        remap[:-1] = pc.fill_null(pc.index_in(texts, vocabulary), -1).to_numpy(zero_copy_only=False)
    indices = array.indices
    if indices.null_count:
        indices = pc.fill_null(indices, len(remap) - 1)
    return _drop_unused(np.take(remap, indices.to_numpy()), vocabulary)


def _drop_unused(codes: Codes, vocabulary: Names) -> tuple[Codes, Names]:
    used = np.zeros(len(vocabulary) + 1, dtype=bool)
    used[codes] = True  # code -1 marks the spare last entry
    used = used[:-1]
    if used.all():
        return codes, vocabulary
    remap = np.append(np.cumsum(used, dtype=np.int32) - 1, np.int32(-1))
    return remap[codes].astype(np.int32), vocabulary.filter(pa.array(used))


def order_classes(
    label: Codes, classes: Names, class_order: Sequence[str] | None
) -> tuple[Codes, Names, bool]:
    """Return codes and classes in the user's order, else numeric, else alphabetical.

    The third value is True if the order has a meaning (the user's, or numeric).
    """
    found: list[str] = classes.to_pylist()
    ordered, has_meaning = (class_order, True) if class_order is not None else order_names(found)
    if not has_meaning:
        return label, classes, False
    missing = [name for name in found if name not in ordered]
    if missing:
        raise ConfigError(
            f"--class-order leaves out {', '.join(missing)}; name every label in the data"
        )
    if len(set(ordered)) < len(ordered) or not all(map(str.strip, ordered)):
        raise ConfigError("--class-order names a class twice, or has an empty name; list each once")
    position = {name: code for code, name in enumerate(ordered)}
    remap = np.array([position[name] for name in found], dtype=np.int32)
    return remap[label], pa.array(ordered, pa.string()), True


def order_names(names: Iterable[str]) -> tuple[list[str], bool]:
    """Return names in class order, and True if all are numbers and the order is theirs."""
    found = sorted(names)
    try:
        numbers = [float(name) for name in found]
    except ValueError:
        return found, False
    if not np.isfinite(numbers).all():
        return found, False
    return [name for _, name in sorted(zip(numbers, found, strict=True))], True


def _votes(
    worker: Codes,
    item: Codes,
    label: Codes,
    shape: tuple[int, int, int],
    duplicates: str,
) -> tuple[sp.csr_array, npt.NDArray[np.int64], int]:
    """Return the votes as a CSR matrix, the contested pairs, and the number of repeated votes.

    A pair is item · n_workers + worker, contested if it has more than one label. Votes are sorted
    as packed integers, pair · n_classes + class: several times faster than by three columns.
    """
    n_items, n_workers, n_classes = shape
    if n_items * n_workers * n_classes >= 2**62 or n_workers * n_classes >= 2**31:
        raise InputError("workers × classes exceed 2^31: split the data or merge classes")
    keys = item.astype(np.int64)
    for codes, count in ((worker, n_workers), (label, n_classes)):
        keys *= count
        keys += codes
    keys.sort()
    steps = np.diff(keys)
    n_repeats = int(len(steps) - np.count_nonzero(steps))
    if n_repeats:
        keys = keys[np.append(True, steps != 0)]
        steps = steps[steps != 0]
    # Two labels of one worker for one item differ by less than n_classes: few keys need dividing.
    close = np.flatnonzero(steps < n_classes)
    close = close[keys[close] // n_classes == keys[close + 1] // n_classes]
    contested = np.unique(keys[close] // n_classes)
    if len(contested) and duplicates in ("first", "last"):
        pairs = item.astype(np.int64) * n_workers + worker
        rows = np.flatnonzero(np.isin(pairs, contested))
        rows = rows[::-1] if duplicates == "last" else rows
        _, first = np.unique(pairs[rows], return_index=True)
        winners = rows[first]
        chosen = pairs[winners] * n_classes + label[winners]
        uncontested = keys[~np.isin(keys // n_classes, contested)]
        keys = np.sort(np.concatenate([uncontested, chosen]))
    n_columns = n_workers * n_classes
    index = np.int32 if len(keys) < 2**31 else np.int64
    starts = np.arange(n_items + 1, dtype=np.int64) * n_columns
    pointers = np.searchsorted(keys, starts).astype(index)
    np.remainder(keys, n_columns, out=keys)  # in place, to spare a copy
    columns = keys.astype(index)
    csr = (np.ones(len(keys)), columns, pointers)
    return sp.csr_array(csr, shape=(n_items, n_columns)), contested, n_repeats
