"""Small random label tensors, and the dense tensor they stand for."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from misc_cli.data.types import Floats
from misc_cli.data.votes import LabelTensor, SparseVotes


def votes_of(label_matrix: list[list[int]], n_classes: int) -> SparseVotes:
    """Votes of a workers × items label matrix as the paper has it: 0 unlabelled, 1..n classes."""
    labels = np.array(label_matrix)
    worker, item = np.nonzero(labels)
    column = worker * n_classes + labels[worker, item] - 1
    shape = (labels.shape[1], labels.shape[0] * n_classes)
    matrix = sp.csr_array((np.ones(len(item)), (item, column)), shape=shape)
    return SparseVotes(matrix, labels.shape[0], n_classes)


def random_tensor(
    n_workers: int, n_items: int, n_classes: int, seed: int, density: float = 0.4
) -> LabelTensor:
    """Random answers, and a random real-valued slice."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(1, n_classes + 1, (n_workers, n_items))
    labels[rng.random(labels.shape) > density] = 0
    return LabelTensor(votes_of(labels.tolist(), n_classes), rng.random((n_items, n_classes)))


def dense(tensor: LabelTensor) -> Floats:
    """T = [A; S] as one array, (n_workers + 1, n_items, n_classes)."""
    n_workers, n_items, n_classes = tensor.shape
    answers = tensor.votes.matrix.toarray().reshape(n_items, n_workers - 1, n_classes)
    whole: Floats = np.concatenate([answers.transpose(1, 0, 2), tensor.slice[None]])
    return whole
