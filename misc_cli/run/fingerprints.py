"""A number per item that changes when its answers do, whatever the order of rows and codes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from misc_cli.core.types import Labels, Names

Hashes = npt.NDArray[np.uint64]

# Odd multipliers of 64 bits (Steele, Lea & Flood 2014, SplitMix64).
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


def item_fingerprints(labels: Labels) -> Hashes:
    """(n_items,): the sum over an item's answers of a hash of worker and label."""
    votes = labels.votes
    workers, classes = text_hashes(labels.workers), text_hashes(labels.classes)
    answers = _mixed(workers[:, None] * _GOLDEN + classes[None, :]).reshape(-1)
    found = np.zeros(votes.n_items, dtype=np.uint64)
    for rows in votes.blocks:
        block = votes.block(rows)
        weights = np.rint(block.data).astype(np.uint64)
        found[rows] = _segments(answers[block.indices] * weights, block.indptr)
    return found


def text_hashes(names: Names) -> Hashes:
    """(n_names,): a polynomial in each text's bytes, modulo 2⁶⁴, stirred."""
    text: Any = pa.concat_arrays([names.cast(pa.large_string())])
    offsets = np.frombuffer(text.buffers()[1], dtype=np.int64)[: len(text) + 1]
    data = text.buffers()[2]
    letters = np.frombuffer(data, dtype=np.uint8) if data is not None else np.zeros(0, np.uint8)
    letters = letters[offsets[0] : offsets[-1]].astype(np.uint64) + np.uint64(1)
    lengths = np.diff(offsets)
    place = np.arange(len(letters)) - np.repeat(offsets[:-1] - offsets[0], lengths)
    powers = np.cumprod(np.full(int(lengths.max(initial=0)) + 1, _GOLDEN, dtype=np.uint64))
    return _mixed(_segments(letters * powers[place], offsets - offsets[0]))


def _segments(values: Hashes, ends: npt.NDArray[Any]) -> Hashes:
    """Sums modulo 2⁶⁴ between the places `ends`, (len(ends) - 1,)."""
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(values, dtype=np.uint64)])
    between: Hashes = sums[ends[1:]] - sums[ends[:-1]]
    return between


def _mixed(values: Hashes) -> Hashes:
    values = (values ^ (values >> np.uint64(30))) * _FIRST
    values = (values ^ (values >> np.uint64(27))) * _SECOND
    return values ^ (values >> np.uint64(31))
