"""Dense tensors, what a completer is shown of them, and a small crowd."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from misc_cli.completers.label_matrix import Observed, labelled_fibres
from misc_cli.data.types import Floats
from misc_cli.data.votes import LabelTensor, SparseVotes

Mask = npt.NDArray[np.bool_]


def dense_cp(workers: Floats, items: Floats, classes: Floats) -> Floats:
    tensor: Floats = np.einsum("wr,ir,cr->wic", workers, items, classes)
    return tensor


def hide(tensor: Floats, keep: Mask) -> tuple[Observed, Mask]:
    """`Observed` of a dense tensor and the mask of what it shows; the last worker shows all."""
    _, n_items, n_classes = tensor.shape
    mask = np.broadcast_to(keep, tensor.shape).copy()
    mask[-1] = True

    def unfold(array: Floats) -> sp.csr_array:
        return sp.csr_array(array[:-1].transpose(1, 0, 2).reshape(n_items, -1))

    fibres = labelled_fibres(unfold(mask.astype(float)), n_classes)
    return Observed(unfold(tensor * mask), fibres, tensor[-1]), mask


def planted(
    seed: int, shape: tuple[int, int, int], rank: int, share: float
) -> tuple[Floats, Observed, Mask]:
    """A random tensor of this CP rank, and this share of its fibres."""
    generator = np.random.default_rng(seed)
    tensor = dense_cp(*(generator.standard_normal((n, rank)) for n in shape))
    observed, mask = hide(tensor, generator.random((*shape[:2], 1)) < share)
    return tensor, observed, mask


def crowd(n_items: int = 90, n_workers: int = 40) -> LabelTensor:
    """Workers, better and better, answer a fifth of the items; the slice is the truth."""
    generator = np.random.default_rng(5)
    truth = generator.integers(3, size=n_items)
    answered = generator.random((n_items, n_workers)) < 0.2
    right = generator.random((n_items, n_workers)) < np.linspace(0.4, 0.95, n_workers)
    answers = np.where(right, truth[:, None], generator.integers(3, size=(n_items, n_workers)))
    items, workers = np.nonzero(answered)
    columns = workers * 3 + answers[items, workers]
    matrix = sp.csr_array((np.ones(len(items)), (items, columns)), shape=(n_items, n_workers * 3))
    return LabelTensor(SparseVotes(matrix, n_workers, 3), np.eye(3)[truth])
