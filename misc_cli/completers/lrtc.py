"""lrtc: low-rank tensor completion by the sum of the nuclear norms of the three unfoldings.

Liu, Musialski, Wonka & Ye 2013 (doi:10.1109/TPAMI.2012.39), SiLRTC (Algorithm 1): block descent.
Its iterates are low rank plus sparse; the multipliers of their ADMM would be dense.

Notation:
    T             the label tensor [A; S], (n_workers + 1) × n_items × n_classes
    Ω             its observed entries (label_matrix.py)
    X             T on Ω, free elsewhere (eq. 11)
    M_1, M_2, M_3 one tensor per unfolding (workers, items, classes), nearly X, of low rank
    α_n           lrtc_weights, made to sum to 1;  β_n = α_n · rho, so every mode is thresholded
                  at 1/rho and a mode of weight zero drops out
    minimised     Σ_n α_n ‖M_n(n)‖_* + β_n/2 ‖X − M_n‖²   (eq. 12)
    completed     Σ_n α_n M_n, which also smooths the observed entries

M_3, of the class unfolding, is X times a map n_classes × n_classes, so it is added to the low-rank
parts by workers and by items and is never written out. Every iterate is low rank plus sparse,

    X[w, i, c] = Σ_r near.rows[w, r] · near.columns[i, c, r]       low rank by workers
               + Σ_r far.rows[i, r] · far.columns[w, c, r]         low rank by items
               + corrections[c, f] where (w, i) is fibre f         sparse

and exchanging near and far exchanges workers and items: one set of products serves both unfoldings.
Nothing here is as large as the tensor; q vectors cost O(nnz · K · q) for the sparse part and
O((n_workers + n_items) · K · rank · q) for the rest.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from misc_cli.completers.label_matrix import Observed, observe, top_classes
from misc_cli.completers.parameters import LRTC
from misc_cli.data import resources
from misc_cli.data.solver import Step, iterate
from misc_cli.data.types import Codes, Floats, OnIteration, ignore_iteration
from misc_cli.data.votes import LabelCodes, LabelTensor, Rows
from misc_cli.errors import ConfigError

# Fibres whose factor rows are gathered at a time.
FIBRES_AT_ONCE = 1 << 14


@dataclass(frozen=True)
class LowRank:
    """An unfolding n × (m · n_classes) of rank R: rows (n, R), columns (m, n_classes, R)."""

    rows: Floats
    columns: Floats

    @property
    def rank(self) -> int:
        return int(self.rows.shape[1])

    def plus(self, other: LowRank, drop: float) -> LowRank:
        """Return the sum without singular values below `drop`."""
        if other.rank == 0:
            return self
        basis, mixing = np.linalg.qr(np.hstack([self.rows, other.rows]))
        columns = np.concatenate([self.columns, other.columns], axis=2) @ mixing.T
        flat = columns.reshape(-1, columns.shape[2])
        squares, vectors = np.linalg.eigh(flat.T @ flat)
        vectors = vectors[:, squares > drop**2]
        return LowRank(basis @ vectors, columns @ vectors)


@dataclass(frozen=True)
class Fibres:
    """The F corrected fibres: pattern CSR (n_items, n_workers + 1), items and workers (F,)."""

    pattern: sp.csr_array
    items: Codes
    workers: Codes

    def matrix(self, values: Floats) -> sp.csr_array:
        """Return CSR (n_items, n_workers + 1) of the values of one class, (F,)."""
        return sp.csr_array(
            (values, self.pattern.indices, self.pattern.indptr), shape=self.pattern.shape
        )


@dataclass(frozen=True)
class LowRankPlusSparse:
    """The tensor X at the head of this file; `corrections` is (n_classes, F)."""

    near: LowRank
    far: LowRank
    corrections: Floats
    fibres: Fibres

    def unfoldings(self) -> tuple[ModeUnfolding, ModeUnfolding]:
        """Return the unfoldings by workers, (n_workers + 1) × ..., and by items, n_items × ...."""
        by_item = [self.fibres.matrix(values) for values in self.corrections]
        by_worker = [matrix.T.tocsr() for matrix in by_item]
        return ModeUnfolding(self.near, self.far, by_worker), ModeUnfolding(
            self.far, self.near, by_item
        )

    def low_rank_on_fibres(self) -> Floats:
        """Return the low-rank part at the fibres, (n_classes, F)."""
        out: Floats = np.empty(self.corrections.shape)
        for start in range(0, out.shape[1], FIBRES_AT_ONCE):
            part = slice(start, start + FIBRES_AT_ONCE)
            items, workers = self.fibres.items[part], self.fibres.workers[part]
            out[:, part] = np.einsum(
                "fr,fcr->cf", self.near.rows[workers], self.near.columns[items]
            )
            out[:, part] += np.einsum("fr,fcr->cf", self.far.rows[items], self.far.columns[workers])
        return out

    def class_gram(self, low_rank_on_fibres: Floats) -> Floats:
        """Return Σ_{w, i} X[w, i, c] · X[w, i, d], (n_classes, n_classes)."""
        near, far = self.near, self.far
        gram: Floats = np.zeros((len(self.corrections), len(self.corrections)))
        for part in (near, far):
            weighted = part.columns @ (part.rows.T @ part.rows)
            gram += np.einsum("mcr,mdr->cd", weighted, part.columns, optimize=True)
        across = np.einsum("icr,iq->crq", near.columns, far.rows, optimize=True)
        back = np.einsum("wr,wdq->drq", near.rows, far.columns, optimize=True)
        cross = np.einsum("crq,drq->cd", across, back, optimize=True)
        corrected = low_rank_on_fibres + self.corrections
        gram += cross + cross.T
        gram += corrected @ corrected.T - low_rank_on_fibres @ low_rank_on_fibres.T
        return gram


@dataclass(frozen=True)
class ModeUnfolding:
    """An unfolding of X, n × (m · n_classes); `sparse` holds one n × m matrix per class."""

    near: LowRank
    far: LowRank
    sparse: list[sp.csr_array]

    @property
    def shape(self) -> tuple[int, int]:
        m, n_classes, _ = self.near.columns.shape
        return len(self.near.rows), m * n_classes

    def times(self, vectors: Floats) -> Floats:
        """Return the unfolding times (m, n_classes, q), (n, q)."""
        near, far = self.near, self.far
        m, n_classes, q = vectors.shape
        flat = vectors.reshape(m * n_classes, q)
        out: Floats = near.rows @ (near.columns.reshape(m * n_classes, -1).T @ flat)
        mixed: Floats = (far.rows.T @ vectors.reshape(m, n_classes * q)).reshape(-1, n_classes, q)
        mixed = mixed.transpose(1, 0, 2).reshape(-1, q)
        out += far.columns.reshape(len(out), -1) @ mixed
        for code, matrix in enumerate(self.sparse):
            out += matrix @ np.ascontiguousarray(vectors[:, code])
        return out

    def transposed_times(self, vectors: Floats) -> Floats:
        """Return the transposed unfolding times (n, q), (m, n_classes, q)."""
        near, far = self.near, self.far
        m, n_classes, _ = near.columns.shape
        n, q = vectors.shape
        out: Floats = near.columns @ (near.rows.T @ vectors)
        mixed: Floats = (far.columns.reshape(n, -1).T @ vectors).reshape(n_classes, -1, q)
        mixed = mixed.transpose(1, 0, 2).reshape(-1, n_classes * q)
        out += (far.rows @ mixed).reshape(m, n_classes, q)
        for code, matrix in enumerate(self.sparse):
            out[:, code] += matrix.T @ vectors
        return out


@dataclass(frozen=True)
class LowRankCompletion:
    """A completed tensor, low rank plus sparse."""

    tensor: LowRankPlusSparse

    @cached_property
    def slice(self) -> Floats:
        whole = slice(0, self.tensor.far.rows.shape[0])
        n_classes = len(self.tensor.corrections)
        return np.hstack([self._entries(whole, at, slice(-1, None)) for at in range(n_classes)])

    def label_rows(self, rows: Rows) -> LabelCodes:
        """Return the argmax of each fibre, (n_block_items, n_workers + 1); see `top_classes`."""
        everyone = slice(None)
        return top_classes(lambda code: self._entries(rows, code, everyone), self.slice[rows])

    @cached_property
    def _corrections(self) -> list[sp.csr_array]:
        return [self.tensor.fibres.matrix(values) for values in self.tensor.corrections]

    def _entries(self, rows: Rows, code: int, workers: Rows) -> Floats:
        """Return the entries of one class of these items and workers, (n_items, n_workers)."""
        near, far = self.tensor.near, self.tensor.far
        entries: Floats = near.columns[rows, code] @ near.rows[workers].T
        entries += far.rows[rows] @ far.columns[workers, code].T
        entries += self._corrections[code][rows].toarray()[:, workers]
        return entries


def on_fibres(observed: Observed) -> tuple[Fibres, Floats]:
    """Return the labelled fibres (the slice's column last) and T there, (n_classes, F)."""
    n_items, n_classes = observed.slice.shape
    of_slice = sp.csr_array(np.ones((n_items, 1)))
    pattern = sp.hstack([observed.fibres, of_slice], format="csr")
    pattern.sort_indices()
    items, n_rows = _row_of_each(pattern), np.int64(pattern.shape[1])
    fibres = Fibres(pattern, items, pattern.indices.astype(np.int32))
    values = observed.values
    workers, classes = np.divmod(values.indices, n_classes)
    places = np.searchsorted(
        items * n_rows + fibres.workers, _row_of_each(values) * n_rows + workers
    )
    targets = np.zeros((n_classes, len(items)))
    targets[classes, places] = values.data
    targets[:, fibres.workers == n_rows - 1] = observed.slice.T
    return fibres, targets


def _row_of_each(matrix: sp.csr_array) -> Codes:
    rows = np.arange(matrix.shape[0], dtype=np.int32)
    return np.repeat(rows, np.diff(matrix.indptr))


# Vectors kept beyond those above the threshold, in case their singular values grow.
SPARE = 10
POWER_STEPS = 50
# Arrays of (both sides × vectors) that lrtc holds at its peak. Measured: 4 to 5 of 20 vectors at
# 200,000 items, 6 of 80 at 20,000.
ARRAYS = 6


# Singular values of the low-rank parts below this share of the threshold are dropped.
DROP = 1e-4
# Continuation: the first threshold is the length of the longest class direction over
# FIRST_DIVISOR, each next one half of the last, solved with LOOSE times the tolerance. Starting
# from 1/rho, the noise of the zero-filled tensor would shrink by 1/rho per iteration only, and
# all of its ranks would be carried along meanwhile.
FIRST_DIVISOR = 4.0
LOOSE = 10.0


@dataclass(frozen=True)
class Spectrum:
    """Left vectors (n, q), descending values (q,), and image = Xᵀ · vectors (m, n_classes, q)."""

    vectors: Floats
    values: Floats
    image: Floats

    def above(self, threshold: float) -> int:
        return int((self.values > threshold).sum())


def bytes_of(n: int, width: int, n_vectors: int) -> int:
    """Return the memory of this many singular vectors of an unfolding n × width."""
    return 8 * ARRAYS * n_vectors * (n + width)


def bytes_needed(shape: tuple[int, int, int], n_votes: int) -> int:
    """Return the memory of a call beside the tensor, with `SPARE` singular values per side.

    The number above 1/rho is not known beforehand: `leading_spectrum` checks before it takes more.
    """
    n_rows, n_items, n_classes = shape
    # per fibre and class: T, X and Σ α_n M_n there, old and new, and two copies by worker
    of_fibres = 84 * n_classes * (n_votes + n_items)
    sides = ((n_rows, n_items * n_classes), (n_items, n_rows * n_classes))
    return of_fibres + sum(bytes_of(n, width, min(SPARE, n)) for n, width in sides)


def leading_spectrum(
    unfolding: ModeUnfolding,
    start: Floats,
    threshold: float,
    generator: np.random.Generator,
    tol: float,
) -> Spectrum:
    """Return all singular triplets above `threshold`, and some spare ones below it.

    start  (n, q) vectors to start from, any number
    tol    stop when Σ max(σ − threshold, 0) changes by less than this share of it
    """
    n, width = unfolding.shape
    limit = min(n, width)
    wanted = min(max(start.shape[1], SPARE), limit)

    def ritz(basis: Floats) -> Spectrum:
        """Return the best singular triplets within an orthonormal basis (n, q) (Rayleigh–Ritz)."""
        image = unfolding.transposed_times(basis)
        flat = image.reshape(-1, image.shape[2])
        squares, rotation = np.linalg.eigh(flat.T @ flat)
        order = slice(None, None, -1)
        values = np.sqrt(np.maximum(squares[order], 0.0))
        return Spectrum(basis @ rotation[:, order], values, image @ rotation[:, order])

    def power_step(spectrum: Spectrum) -> Step[Spectrum]:
        if spectrum.vectors.shape[1] == n:
            return Step(spectrum, 0.0)  # with a full basis Rayleigh–Ritz is exact
        moved = ritz(np.linalg.qr(unfolding.times(spectrum.image))[0])
        before, after = (np.maximum(s.values - threshold, 0.0).sum() for s in (spectrum, moved))
        return Step(moved, float(abs(after - before) / max(after, threshold)))

    while True:
        resources.require(
            bytes_of(n, width, wanted),
            f"{wanted} singular values of the {n} × {width} unfolding",
            "lower --rho or aggregate without a completer",
        )
        missing = generator.standard_normal((n, max(0, wanted - start.shape[1])))
        basis = np.eye(n) if wanted == n else np.hstack([start[:, :wanted], missing])
        found = iterate(
            power_step,
            ritz(np.linalg.qr(basis)[0]),
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


@dataclass(frozen=True)
class Point:
    """State of the descent: X, its low-rank part at the fibres, start vectors, last Σ α_n M_n.

    guesses    vectors by workers and by items that the next spectra start from
    threshold  falls to 1/rho
    change     relative fall of the objective at this threshold
    """

    x: LowRankPlusSparse
    filled: Floats
    guesses: tuple[Floats, Floats]
    smoothed: LowRankPlusSparse
    threshold: float
    objective: float = np.inf
    change: float = 1.0


def complete(
    method: LRTC, tensor: LabelTensor, on_iteration: OnIteration = ignore_iteration
) -> LowRankCompletion:
    """Return the completed label tensor."""
    if sum(method.lrtc_weights) <= 0:
        raise ConfigError("--lrtc-weights must not all be 0")
    rho = default_rho(tensor) if method.rho is None else method.rho
    return LowRankCompletion(complete_observed(method, observe(tensor), rho, on_iteration))


def default_rho(tensor: LabelTensor) -> float:
    """Return 1 / √(answers per worker): the threshold is the length of a typical worker's row.

    A smaller singular value may be a single worker who agrees with nobody.
    """
    return float(np.sqrt(tensor.votes.n_workers / max(1, tensor.votes.n_votes)))


def complete_observed(
    method: LRTC, observed: Observed, rho: float, on_iteration: OnIteration = ignore_iteration
) -> LowRankPlusSparse:
    """Return Σ_n α_n M_n for observed entries of any value."""
    target, tolerance = 1.0 / rho, method.completer_tol
    alpha = np.array(method.lrtc_weights) / sum(method.lrtc_weights)
    generator = np.random.default_rng(method.seed)
    fibres, targets = on_fibres(observed)
    scale = max(float(np.square(targets).sum()), np.finfo(np.float64).tiny)

    def step(state: Point) -> Step[Point]:
        """Compute M_n from X (eq. 13), then X from the M_n (eq. 14)."""
        x, threshold = state.x, state.threshold
        tol = 0.1 * max(tolerance, 1e-10, min(state.change, 1e-2))
        sides = zip(x.unfoldings(), state.guesses, strict=True)
        spectra = [leading_spectrum(*side, threshold, generator, tol) for side in sides]
        squares, rotation = np.linalg.eigh(x.class_gram(state.filled))
        class_values = np.sqrt(np.maximum(squares, 0.0))
        # α_3 M_3 is X times this map, (n_classes, n_classes)
        class_map = alpha[2] * ((rotation * _shrunk(class_values, threshold)) @ rotation.T)
        parts = []
        for spectrum, weight, part in zip(spectra, alpha[:2], (x.near, x.far), strict=True):
            # α_n M_n: every singular value less the threshold, those below it dropped
            top = spectrum.above(threshold)
            factors = weight * _shrunk(spectrum.values[:top], threshold)
            own = LowRank(spectrum.vectors[:, :top] * factors, spectrum.image[:, :, :top])
            mapped = np.einsum("dc,mcr->mdr", class_map, part.columns, optimize=True)
            parts.append(own.plus(LowRank(part.rows, mapped), DROP * threshold))
        smoothed = LowRankPlusSparse(parts[0], parts[1], class_map @ x.corrections, fibres)
        filled = smoothed.low_rank_on_fibres()

        # Σ_n α_n (‖M_n‖_* + rho/2 ‖X − M_n‖²) at the new M_n, from singular values alone
        values = [*(spectrum.values for spectrum in spectra), class_values]
        total = float(squares.sum())
        kept = [each[each > threshold] for each in values]
        # ‖M‖_* + rho/2 ‖X − M‖² of each, given ‖X‖² = total
        below = [max(total - float(np.square(each).sum()), 0.0) / threshold for each in kept]
        envelopes = [
            float((each - threshold).sum()) + 0.5 * (rest + len(each) * threshold)
            for each, rest in zip(kept, below, strict=True)
        ]
        objective = float(alpha @ envelopes)
        change = 1.0 if np.isinf(state.objective) else (state.objective - objective) / objective
        lower = change < LOOSE * tolerance and threshold > target
        updated = Point(
            replace(smoothed, corrections=targets - filled),
            filled,
            (spectra[0].vectors, spectra[1].vectors),
            smoothed,
            max(target, threshold / 2.0) if lower else threshold,
            np.inf if lower else objective,
            change,
        )
        missed = targets - filled - smoothed.corrections
        figures: dict[str, float | int | str | None] = {
            "rho": 1.0 / threshold,
            "residual": float(np.sqrt(np.square(missed).sum() / scale)),
            "rank_workers": smoothed.near.rank,
            "rank_items": smoothed.far.rank,
        }
        # a threshold above the final one is never convergence
        return Step(updated, 1.0 if threshold > target else change, objective, extra=figures)

    n_items, n_rows = fibres.pattern.shape
    n_classes = len(targets)
    near = LowRank(np.zeros((n_rows, 0)), np.zeros((n_items, n_classes, 0)))
    far = LowRank(np.zeros((n_items, 0)), np.zeros((n_rows, n_classes, 0)))
    x = LowRankPlusSparse(near, far, targets, fibres)  # zeros where nothing is observed
    longest = float(np.linalg.norm(targets @ targets.T, 2)) ** 0.5
    threshold = max(target, longest / FIRST_DIVISOR)
    solution = iterate(
        step,
        Point(x, np.zeros_like(targets), (near.rows, far.rows), x, threshold),
        stage="lrtc",
        tol=tolerance,
        max_iter=method.completer_max_iter,
        on_iteration=on_iteration,
        limits="--completer-max-iter or --completer-tol",
    )
    return solution.state.smoothed


def _shrunk(values: Floats, threshold: float) -> Floats:
    """Return max(σ − 1/rho, 0) / σ."""
    shrunk: Floats = np.maximum(values - threshold, 0.0) / np.maximum(values, threshold)
    return shrunk
