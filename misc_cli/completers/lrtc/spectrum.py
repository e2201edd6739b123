"""The singular values of an unfolding above a threshold, by block power iteration.

Halko, Martinsson & Tropp 2011 (doi:10.1137/090771806), algorithm 4.4 with a warm start: inside a
loop the last iteration's singular vectors are nearly this one's, so a step or two settle them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from misc_cli.completers.lrtc.lowrank import Unfolding
from misc_cli.core import memory
from misc_cli.core.solver import Step, iterate
from misc_cli.core.types import Floats, ignore_iteration
from misc_cli.errors import ConfigError

# Vectors kept beyond those above the threshold: they catch a singular value on its way up.
SPARE = 10
STEPS = 50
# Arrays of (both sides × vectors) that lrtc holds at its peak, this module's and its own. Measured:
# 4 to 5 of 20 vectors at 200,000 items, 6 of 80 at 20,000.
ARRAYS = 6


@dataclass(frozen=True)
class Spectrum:
    """Left vectors (n, q), values (q,) falling, and image = Xᵀ · vectors (m, n_classes, q)."""

    vectors: Floats
    values: Floats
    image: Floats

    def above(self, threshold: float) -> int:
        return int((self.values > threshold).sum())


def empty_spectrum(unfolding: Unfolding) -> Spectrum:
    """No singular value at all, for an unfolding that has no say."""
    near = unfolding.near
    return Spectrum(near.rows[:, :0], np.zeros(0), near.columns[:, :, :0])


def bytes_of(n: int, width: int, n_vectors: int) -> int:
    """What so many singular vectors of an unfolding n × width cost in all."""
    return 8 * ARRAYS * n_vectors * (n + width)


def leading_spectrum(
    unfolding: Unfolding,
    threshold: float,
    start: Floats,
    generator: np.random.Generator,
    settled: float,
    max_cells: int,
) -> Spectrum:
    """Singular triplets that include all above `threshold`, and some spare ones below it.

    start    (n, q) vectors to begin with, any number
    settled  stop when Σ max(σ − threshold, 0) moves by less than this share of it
    max_cells  the most numbers that the vectors of both sides may take
    """
    n, width = unfolding.shape
    limit = min(n, width)
    wanted = min(max(start.shape[1], SPARE), limit)
    while True:
        if wanted * (n + width) > max_cells:
            raise ConfigError(
                f"over {wanted // 2} singular values of the {n} × {width} unfolding exceed 1/rho "
                f"= {threshold:.3g}, too many for --completer-cells {max_cells}: "
                "lower --rho or raise --completer-cells"
            )
        memory.require(
            bytes_of(n, width, wanted),
            f"{wanted} singular values of the {n} × {width} unfolding",
            "lower --rho or aggregate without a completer",
        )
        missing = generator.standard_normal((n, max(0, wanted - start.shape[1])))
        basis = np.eye(n) if wanted == n else np.hstack([start[:, :wanted], missing])
        found = iterate(
            lambda spectrum: _power_step(unfolding, spectrum, threshold),
            _ritz(unfolding, np.linalg.qr(basis)[0]),
            stage="spectrum",
            tol=settled,
            max_iter=STEPS,
            on_iteration=ignore_iteration,
            warn=False,
        ).state
        kept = found.above(threshold)
        if wanted == limit or kept + SPARE // 2 <= wanted:
            few = min(kept + SPARE, wanted)
            return Spectrum(found.vectors[:, :few], found.values[:few], found.image[:, :, :few])
        start, wanted = found.vectors, min(limit, 2 * wanted)


def _power_step(unfolding: Unfolding, spectrum: Spectrum, threshold: float) -> Step[Spectrum]:
    n = unfolding.shape[0]
    if spectrum.vectors.shape[1] == n:
        return Step(spectrum, 0.0)  # a full basis: Rayleigh–Ritz was exact
    basis = np.linalg.qr(unfolding.times(spectrum.image))[0]
    moved = _ritz(unfolding, basis)
    before, after = (np.maximum(s.values - threshold, 0.0).sum() for s in (spectrum, moved))
    return Step(moved, float(abs(after - before) / max(after, threshold)))


def _ritz(unfolding: Unfolding, basis: Floats) -> Spectrum:
    """Rayleigh–Ritz: the best singular triplets within a basis (n, q) of orthonormal columns."""
    image = unfolding.transposed_times(basis)
    flat = image.reshape(-1, image.shape[2])
    squares, rotation = np.linalg.eigh(flat.T @ flat)
    order = slice(None, None, -1)
    values = np.sqrt(np.maximum(squares[order], 0.0))
    return Spectrum(basis @ rotation[:, order], values, image @ rotation[:, order])
