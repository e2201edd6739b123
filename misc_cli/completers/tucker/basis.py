"""Leading directions of matrices that fit in memory, the same on every machine."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from misc_cli.core.types import Floats

# Singular values below this share of the largest are rounding: their directions mean nothing.
NULL_SHARE = 1e-10
# The same for roots of a Gram matrix's eigenvalues, which rounding blurs to about 1e-8.
NULL_SHARE_OF_GRAM = 1e-6

Bools = npt.NDArray[np.bool_]


def leading_left(matrix: Floats, rank: int) -> Floats:
    """The leading left singular vectors, (n_rows, rank); zero columns where there are none.

    A zero column is as good as the arbitrary vector an SVD would give for a zero singular value,
    and it is the same on every machine.
    """
    tall = matrix.shape[0] > matrix.shape[1]
    # R of the QR decomposition has the singular values and right vectors of the matrix
    small = np.linalg.qr(matrix, mode="r") if tall else matrix
    _, values, right = np.linalg.svd(small, full_matrices=False)
    kept = values[:rank] > NULL_SHARE * values.max(initial=0.0)
    left: Floats = matrix @ (_fix_signs(right[:rank].T) * _inverse_or_zero(values[:rank], kept))
    return _padded(left, rank)


def right_scaled(gram: Floats, rank: int) -> Floats:
    """V / σ, (n_columns, rank), of the matrix with this Gram matrix: times it, its left vectors."""
    values, vectors = leading_eigenvectors(gram, rank)
    sizes = root_or_zero(values)
    return _padded(vectors * _inverse_or_zero(sizes, sizes > 0.0), rank)


def root_or_zero(values: Floats) -> Floats:
    """σ of the eigenvalues σ², largest first; zero where it is but rounding."""
    sizes: Floats = np.sqrt(np.maximum(values, 0.0))
    sizes[sizes <= NULL_SHARE_OF_GRAM * sizes.max(initial=0.0)] = 0.0
    return sizes


def leading_eigenvectors(gram: Floats, rank: int) -> tuple[Floats, Floats]:
    """The largest eigenvalues, (rank,), and their vectors, (n, rank)."""
    values, vectors = np.linalg.eigh(gram)
    return values[::-1][:rank], _fix_signs(vectors[:, ::-1][:, :rank])


def _inverse_or_zero(values: Floats, kept: Bools) -> Floats:
    inverse: Floats = np.where(kept, 1.0 / np.where(kept, values, 1.0), 0.0)
    return inverse


def _padded(columns: Floats, rank: int) -> Floats:
    return np.pad(columns, ((0, 0), (0, rank - columns.shape[1])))


def _fix_signs(vectors: Floats) -> Floats:
    """Each column's entry of largest size becomes positive."""
    largest = np.take_along_axis(vectors, np.abs(vectors).argmax(axis=0)[None], axis=0)
    fixed: Floats = vectors * np.where(largest < 0, -1.0, 1.0)
    return fixed
