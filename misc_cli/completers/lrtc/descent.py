"""lrtc: low-rank tensor completion by the sum of the nuclear norms of the three unfoldings.

Liu, Musialski, Wonka & Ye 2013 (doi:10.1109/TPAMI.2012.39), SiLRTC (Algorithm 1): block descent.
Its iterates are low rank plus sparse; the multipliers of their ADMM would be dense.

Notation:
    T             the label tensor [A; S], (n_workers + 1) × n_items × n_classes
    Ω             its observed entries (completers/observed.py)
    X             T on Ω, free elsewhere (eq. 11)
    M_1, M_2, M_3 one tensor per unfolding (workers, items, classes), nearly X, of low rank
    α_n           lrtc_weights, made to sum to 1;  β_n = α_n · rho, so every mode is thresholded
                  at 1/rho and a mode of weight zero drops out
    minimised     Σ_n α_n ‖M_n(n)‖_* + β_n/2 ‖X − M_n‖²   (eq. 12)
    completed     Σ_n α_n M_n, which also smooths the observed entries

M_3, of the class unfolding, is X times a map n_classes × n_classes, so it is added to the low-rank
parts by workers and by items and is never written out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from misc_cli.completers.lrtc import LRTC
from misc_cli.completers.lrtc.lowrank import (
    LowRank,
    LowRankCompletion,
    LowRankPlusSparse,
    ModeUnfolding,
    on_fibres,
)
from misc_cli.completers.observed import Observed, observe
from misc_cli.data import resources
from misc_cli.data.solver import Step, iterate
from misc_cli.data.types import Floats, OnIteration, ignore_iteration
from misc_cli.data.votes import LabelTensor
from misc_cli.errors import ConfigError

# Vectors kept beyond those above the threshold, in case their singular values grow.
SPARE = 10
POWER_STEPS = 50
# Arrays of (both sides × vectors) that lrtc holds at its peak. Measured: 4 to 5 of 20 vectors at
# 200,000 items, 6 of 80 at 20,000.
ARRAYS = 6


@dataclass(frozen=True)
class Spectrum:
    """Left vectors (n, q), descending values (q,), and image = Xᵀ · vectors (m, n_classes, q)."""

    vectors: Floats
    values: Floats
    image: Floats

    def above(self, threshold: float) -> int:
        return int((self.values > threshold).sum())


def empty_spectrum(unfolding: ModeUnfolding) -> Spectrum:
    """Return no singular values, for an unfolding of weight zero."""
    near = unfolding.near
    return Spectrum(near.rows[:, :0], np.zeros(0), near.columns[:, :, :0])


def bytes_of(n: int, width: int, n_vectors: int) -> int:
    """Return the memory of this many singular vectors of an unfolding n × width."""
    return 8 * ARRAYS * n_vectors * (n + width)


def leading_spectrum(
    unfolding: ModeUnfolding,
    threshold: float,
    start: Floats,
    generator: np.random.Generator,
    tol: float,
    max_cells: int,
) -> Spectrum:
    """Return all singular triplets above `threshold`, and some spare ones below it.

    start      (n, q) vectors to start from, any number
    tol        stop when Σ max(σ − threshold, 0) changes by less than this share of it
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
        resources.require(
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
            tol=tol,
            max_iter=POWER_STEPS,
            on_iteration=ignore_iteration,
            warn=False,
        ).state
        kept = found.above(threshold)
        if wanted == limit or kept + SPARE // 2 <= wanted:
            few = min(kept + SPARE, wanted)
            return Spectrum(found.vectors[:, :few], found.values[:few], found.image[:, :, :few])
        start, wanted = found.vectors, min(limit, 2 * wanted)


def _power_step(unfolding: ModeUnfolding, spectrum: Spectrum, threshold: float) -> Step[Spectrum]:
    n = unfolding.shape[0]
    if spectrum.vectors.shape[1] == n:
        return Step(spectrum, 0.0)  # with a full basis Rayleigh–Ritz is exact
    basis = np.linalg.qr(unfolding.times(spectrum.image))[0]
    moved = _ritz(unfolding, basis)
    before, after = (np.maximum(s.values - threshold, 0.0).sum() for s in (spectrum, moved))
    return Step(moved, float(abs(after - before) / max(after, threshold)))


def _ritz(unfolding: ModeUnfolding, basis: Floats) -> Spectrum:
    """Return the best singular triplets within an orthonormal basis (n, q) (Rayleigh–Ritz)."""
    image = unfolding.transposed_times(basis)
    flat = image.reshape(-1, image.shape[2])
    squares, rotation = np.linalg.eigh(flat.T @ flat)
    order = slice(None, None, -1)
    values = np.sqrt(np.maximum(squares[order], 0.0))
    return Spectrum(basis @ rotation[:, order], values, image @ rotation[:, order])


# Singular values of the low-rank parts below this share of the threshold are dropped.
DROP = 1e-4
# Continuation: the first threshold is the length of the longest class direction over
# FIRST_DIVISOR, each next one half of the last, solved with LOOSE times the tolerance. Starting
# from 1/rho, the noise of the zero-filled tensor would shrink by 1/rho per iteration only, and
# all of its ranks would be carried along meanwhile.
FIRST_DIVISOR = 4.0
LOOSE = 10.0


@dataclass(frozen=True)
class Point:
    """State of the descent: X, its low-rank part at the fibres, start vectors, last Σ α_n M_n.

    `threshold` falls to 1/rho; `change` is the relative fall of the objective at this threshold.
    """

    x: LowRankPlusSparse
    filled: Floats
    by_workers: Floats
    by_items: Floats
    smoothed: LowRankPlusSparse
    threshold: float
    objective: float
    change: float


def complete(
    method: LRTC, tensor: LabelTensor, on_iteration: OnIteration = ignore_iteration
) -> LowRankCompletion:
    """Return the completed label tensor."""
    rho = default_rho(tensor) if method.rho is None else method.rho
    observed = observe(tensor, method.observed)
    return LowRankCompletion(complete_observed(method, observed, rho, on_iteration))


def complete_observed(
    method: LRTC, observed: Observed, rho: float, on_iteration: OnIteration = ignore_iteration
) -> LowRankPlusSparse:
    """Return Σ_n α_n M_n for observed entries of any value."""
    descent = Descent(method, observed, 1.0 / rho)
    solution = iterate(
        descent.step,
        descent.start,
        stage="lrtc",
        tol=method.completer_tol,
        max_iter=method.completer_max_iter,
        on_iteration=on_iteration,
        limits="--completer-max-iter or --completer-tol",
    )
    return solution.state.smoothed


def bytes_needed(shape: tuple[int, int, int], n_votes: int) -> int:
    """Return the memory of a call beside the tensor, with `SPARE` singular values per side.

    The number above 1/rho is not known beforehand: `leading_spectrum` checks before it takes more.
    """
    n_rows, n_items, n_classes = shape
    # per fibre and class: T, X and Σ α_n M_n there, old and new, and two copies by worker
    of_fibres = 84 * n_classes * (n_votes + n_items)
    sides = ((n_rows, n_items * n_classes), (n_items, n_rows * n_classes))
    return of_fibres + sum(bytes_of(n, width, min(SPARE, n)) for n, width in sides)


def default_rho(tensor: LabelTensor) -> float:
    """Return 1 / √(answers per worker): the threshold is the length of a typical worker's row.

    A smaller singular value may be a single worker who agrees with nobody.
    """
    return float(np.sqrt(tensor.votes.n_workers / max(1, tensor.votes.n_votes)))


class Descent:
    """One run's constants: observed entries, final threshold 1/rho, weights; and its steps."""

    def __init__(self, method: LRTC, observed: Observed, threshold: float) -> None:
        self.method, self.target = method, threshold
        self.weights = np.array(method.lrtc_weights) / sum(method.lrtc_weights)
        self.generator = np.random.default_rng(method.seed)
        self.fibres, self.targets, self.known = on_fibres(observed)
        self.scale = max(float(np.square(self.targets).sum()), np.finfo(np.float64).tiny)

    @property
    def start(self) -> Point:
        """The first point: X has the observed entries and zeros elsewhere."""
        n_items, n_rows = self.fibres.pattern.shape
        n_classes = len(self.targets)
        near = LowRank(np.zeros((n_rows, 0)), np.zeros((n_items, n_classes, 0)))
        far = LowRank(np.zeros((n_items, 0)), np.zeros((n_rows, n_classes, 0)))
        x = LowRankPlusSparse(near, far, self.targets, self.fibres)
        longest = float(np.linalg.norm(self.targets @ self.targets.T, 2)) ** 0.5
        threshold = max(self.target, longest / FIRST_DIVISOR)
        nothing = np.zeros_like(self.targets)
        return Point(x, nothing, near.rows, far.rows, x, threshold, np.inf, 1.0)

    def step(self, state: Point) -> Step[Point]:
        """Compute M_n from X (eq. 13), then X from the M_n (eq. 14)."""
        threshold, spectra = state.threshold, self._spectra(state)
        squares, rotation = np.linalg.eigh(state.x.class_gram(state.filled))
        class_values = np.sqrt(np.maximum(squares, 0.0))
        class_map = (rotation * _shrunk(class_values, threshold)) @ rotation.T
        smoothed = self._smoothed(state, spectra, class_map)
        filled = smoothed.low_rank_on_fibres()
        corrections = np.where(self.known, self.targets - filled, smoothed.corrections)

        # Σ_n α_n (‖M_n‖_* + rho/2 ‖X − M_n‖²) at the new M_n, from singular values alone
        values = [*(spectrum.values for spectrum in spectra), class_values]
        total = float(squares.sum())
        objective = float(self.weights @ [_envelope(each, threshold, total) for each in values])
        change = 1.0 if np.isinf(state.objective) else (state.objective - objective) / objective
        done = change < LOOSE * self.method.completer_tol and threshold > self.target
        updated = Point(
            replace(smoothed, corrections=corrections),
            filled,
            spectra[0].vectors,
            spectra[1].vectors,
            smoothed,
            max(self.target, threshold / 2.0) if done else threshold,
            np.inf if done else objective,
            change,
        )
        # a threshold above the final one is never convergence
        moved = 1.0 if threshold > self.target else change
        return Step(updated, moved, objective, extra=self._figures(updated, threshold))

    def _spectra(self, state: Point) -> list[Spectrum]:
        """Return the singular values of X above the threshold, by workers and by items."""
        tol = 0.1 * max(self.method.completer_tol, 1e-10, min(state.change, 1e-2))
        limits = tol, self.method.completer_cells
        sides = zip(
            state.x.unfoldings(), (state.by_workers, state.by_items), self.weights[:2], strict=True
        )
        return [
            leading_spectrum(unfolding, state.threshold, guess, self.generator, *limits)
            if weight > 0
            else empty_spectrum(unfolding)
            for unfolding, guess, weight in sides
        ]

    def _smoothed(
        self, state: Point, spectra: list[Spectrum], class_map: Floats
    ) -> LowRankPlusSparse:
        """Return Σ_n α_n M_n; M_3 is X times `class_map`, (n_classes, n_classes)."""
        x, alpha, threshold = state.x, self.weights, state.threshold
        near, far = (
            _thresholded(spectrum, threshold, weight).plus(
                part.times_classes(alpha[2] * class_map), DROP * threshold
            )
            for spectrum, weight, part in zip(spectra, alpha[:2], (x.near, x.far), strict=True)
        )
        return LowRankPlusSparse(near, far, alpha[2] * class_map @ x.corrections, self.fibres)

    def _figures(self, after: Point, threshold: float) -> dict[str, float | int | str | None]:
        smoothed = after.smoothed
        missed = np.where(self.known, self.targets - after.filled - smoothed.corrections, 0.0)
        return {
            "rho": 1.0 / threshold,
            "residual": float(np.sqrt(np.square(missed).sum() / self.scale)),
            "rank_workers": smoothed.near.rank,
            "rank_items": smoothed.far.rank,
        }


def _thresholded(spectrum: Spectrum, threshold: float, weight: float) -> LowRank:
    """Return weight · M_n: every singular value less the threshold, those below it dropped."""
    kept = spectrum.above(threshold)
    factors = weight * _shrunk(spectrum.values[:kept], threshold)
    return LowRank(spectrum.vectors[:, :kept] * factors, spectrum.image[:, :, :kept])


def _shrunk(values: Floats, threshold: float) -> Floats:
    """Return max(σ − 1/rho, 0) / σ."""
    shrunk: Floats = np.maximum(values - threshold, 0.0) / np.maximum(values, threshold)
    return shrunk


def _envelope(values: Floats, threshold: float, total: float) -> float:
    """Return ‖M‖_* + rho/2 ‖X − M‖², given ‖X‖² = `total` and the singular values of X."""
    kept = values[values > threshold]
    below = max(total - float(np.square(kept).sum()), 0.0)
    norm = float((kept - threshold).sum())
    return norm + 0.5 * (below / threshold + len(kept) * threshold)
