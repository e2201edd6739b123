"""Crowds with planted workers, as labels."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from misc_cli.data.types import Codes, Labels
from misc_cli.data.votes import SparseVotes
from misc_cli.simulate import Crowd


def labels_of(crowd: Crowd) -> Labels:
    """The answers of a simulated crowd; workers and classes that never appear keep their code."""
    n_classes = crowd.confusions.shape[1]
    return labels_from(
        crowd.worker, crowd.item, crowd.label, (len(crowd.truth), len(crowd.kinds), n_classes)
    )


def labels_from(worker: Codes, item: Codes, label: Codes, shape: tuple[int, int, int]) -> Labels:
    """Labels of answers by code; `shape` is items, workers, classes."""
    n_items, n_workers, n_classes = shape
    columns = worker.astype(np.int64) * n_classes + label
    matrix = sp.csr_array(
        (np.ones(len(item)), (item, columns)), shape=(n_items, n_workers * n_classes)
    )
    matrix.sort_indices()
    return Labels(
        votes=SparseVotes(matrix, n_workers, n_classes),
        workers=names("w", n_workers),
        items=names("i", n_items),
        classes=names("c", n_classes),
    )


def names(letter: str, count: int) -> pa.Array:
    return pa.array([f"{letter}{number:05d}" for number in range(count)])


def with_copies(crowd: Crowd, original: int, copies: int) -> Labels:
    """The crowd and so many more workers who give the original's answers to the same items."""
    of = crowd.worker == original
    n_workers = len(crowd.kinds)
    worker = np.concatenate(
        [crowd.worker, *(np.full(of.sum(), n_workers + number) for number in range(copies))]
    )
    item = np.concatenate([crowd.item, *[crowd.item[of]] * copies])
    label = np.concatenate([crowd.label, *[crowd.label[of]] * copies])
    shape = (len(crowd.truth), n_workers + copies, crowd.confusions.shape[1])
    return labels_from(worker, item, label, shape)
