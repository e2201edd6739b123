"""Enhanced Bayesian classifier combination by mean field (Li, Rubinstein & Cohn 2019, ICML,
"Exploiting worker correlation for label aggregation in crowdsourcing").

Every class has subtypes and a worker has a confusion row per subtype, so workers who err on the
same kind of item err together: given the class, a low-rank (CP) model of the label tensor.

Notation (the paper's, section 4):
    z_i = c        → posteriors[i, c]       class of item i
    g_i = m        → columns a ↔ (c, m)     subtype of item i; only live (c, m) keep a column
    η_cm           → subtype_sizes + prior  Dirichlet over a class's subtypes
    ν_c            → class_sizes + prior    Dirichlet over classes
    μ_w[cm, k]     → rows[w, k, a]          Dirichlet over worker w's answers to subtype (c, m)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy.special import digamma, gammaln

from misc_cli.aggregate.confusion_em import TINY, vote_fractions
from misc_cli.errors import ConfigError
from misc_cli.solver import Step, iterate, warn_unconverged
from misc_cli.types import Aggregation, Codes, Floats, Labels, OnIteration, ignore_iteration
from misc_cli.votes import Votes, map_in_order

# Restarts that race side by side; what leads after a wave is what the next wave must beat.
WAVE = 8
# No restart is given up before its subtypes had time to part (plateaus last about ten sweeps) ...
GRACE = 20
# ... and then only if it would need more than this many sweeps at its pace to catch the leader.
HORIZON = 50
# A subtype this small has E[log π] ≈ ψ(prior) ≈ −100 (M = 10): it cannot win an item back.
EMPTY = 1e-9


@dataclass(frozen=True)
class EnhancedBcc:
    """`restarts` random starts from `seed`, the best evidence lower bound (ELBO) is kept.

    Pseudo-counts: `diagonal` on the right answer and `off_diagonal` elsewhere for each worker and
    subtype, `subtype_prior` shared out over a class's `subtypes` (small: unused ones die out).
    The class prior is Dirichlet with the vote fractions' sums.
    """

    subtypes: int = 10
    restarts: int = 40
    seed: int = 0
    diagonal: float = 4.0
    off_diagonal: float = 1.0
    subtype_prior: float = 0.1
    tol: float = 1e-3
    max_iter: int = 500

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"paper": {}}

    def __post_init__(self) -> None:
        if self.subtypes < 1 or self.restarts < 1:
            raise ConfigError("--subtypes and --restarts must be at least 1")
        if min(self.diagonal, self.off_diagonal, self.subtype_prior) <= 0:
            raise ConfigError("ebcc's pseudo-counts must be positive")

    def __call__(self, labels: Labels, on_iteration: OnIteration = ignore_iteration) -> Aggregation:
        start = vote_fractions(labels)
        answer_prior = np.full((labels.n_classes, labels.n_classes), self.off_diagonal)
        np.fill_diagonal(answer_prior, self.diagonal)
        each = self.subtype_prior / self.subtypes
        priors = Priors(answer_prior, each, self.subtypes, start.sum(axis=0) + TINY)
        best: Restart | None = None
        for first in range(0, self.restarts, WAVE):
            numbers = range(first, min(first + WAVE, self.restarts))
            best = self._race(labels, priors, start, numbers, best, on_iteration)
        assert best is not None
        if not best.change < self.tol and self.tol > 0:
            warn_unconverged("ebcc", self.max_iter)
        return _aggregation(labels, priors, best, converged=best.change < self.tol or self.tol == 0)

    def _race(
        self,
        labels: Labels,
        priors: Priors,
        start: Floats,
        numbers: range,
        best: Restart | None,
        on_iteration: OnIteration,
    ) -> Restart:
        """Sweep a wave of restarts in step, giving up the hopeless; return the leader so far."""

        def step(wave: list[Restart]) -> Step[list[Restart]]:
            running = [run for run in wave if not run.done]
            swept = list(map_in_order(lambda run: sweep(labels, priors, run), running))
            leader = max([*wave, *swept, *known], key=lambda run: run.elbo)
            marked = {run.number: self._mark(run, leader) for run in swept}
            wave = [marked.get(run.number, run) for run in wave]
            change = max((run.change for run in wave if not run.done), default=0.0)
            return Step(
                wave,
                change if self.tol > 0 else max(change, TINY),
                leader.elbo,
                posteriors=leader.posteriors,
                extra={
                    "restart": leader.number,
                    "first_restart": numbers.start,
                    "live_restarts": sum(not run.done for run in wave),
                },
            )

        known = [] if best is None else [best]
        starts = [_start(labels, priors, start, self.seed, number) for number in numbers]
        solution = iterate(
            step,
            starts,
            stage="ebcc",
            tol=self.tol,
            max_iter=self.max_iter,
            on_iteration=on_iteration,
            warn=False,
        )
        return max([*known, *solution.state], key=lambda run: run.elbo)

    def _mark(self, run: Restart, leader: Restart) -> Restart:
        """Done when converged, or when it lags too far behind at its present pace."""
        hopeless = (
            run.iterations >= GRACE
            and run.number != leader.number
            and run.elbo + HORIZON * run.gain < leader.elbo
        )
        return replace(run, done=run.change < self.tol or hopeless)


@dataclass(frozen=True)
class Priors:
    """Pseudo-counts: answers (n_classes, n_classes), each subtype, classes (n_classes,)."""

    answers: Floats
    subtype: float
    subtypes: int
    classes: Floats


@dataclass(frozen=True)
class Restart:
    """One random start on its way; `posteriors` is its own buffer, rewritten by each sweep.

    classes (n_live,) is each live subtype's class, ascending; subtype_sizes (n_live,) its expected
    items; counts (n_workers, n_classes, n_live) the expected answers [w, k, a].
    """

    number: int
    posteriors: Floats
    classes: npt.NDArray[np.intp]
    subtype_sizes: Floats
    counts: Floats
    elbo: float = -np.inf
    gain: float = np.inf
    change: float = np.inf
    iterations: int = 0
    done: bool = False
    beliefs: Beliefs | None = None  # what the last sweep's E-step used


@dataclass(frozen=True)
class Beliefs:
    """What the E-step and the forecast need of the Dirichlets, for the live subtypes."""

    rows: Floats  # μ, (n_workers, n_classes, n_live)
    expected_logs: Floats  # E[log v], same shape
    log_weights: Floats  # E[log τ_c] + E[log π_cm], (n_live,)
    class_prior: Floats
    divergence: float  # KL(q ‖ prior) of all Dirichlets


def _start(labels: Labels, priors: Priors, start: Floats, seed: int, number: int) -> Restart:
    """Vote fractions, split among subtypes by a Dirichlet(1) draw of this restart's own stream."""
    votes, random = labels.votes, np.random.default_rng([seed, number])
    n_columns = labels.n_classes * priors.subtypes
    counts = np.zeros((votes.n_workers * votes.n_classes, n_columns))
    sizes = np.zeros(n_columns)
    for rows in votes.blocks:
        fractions = start[rows]
        # normalised exponentials are Dirichlet(1)
        split = random.standard_exponential((*fractions.shape, priors.subtypes))
        split *= (fractions / split.sum(axis=2))[:, :, None]
        flat = split.reshape(len(fractions), n_columns)
        counts += votes.block(rows).T @ flat
        sizes += flat.sum(axis=0)
    return Restart(
        number,
        start.copy(),
        np.repeat(np.arange(labels.n_classes), priors.subtypes),
        sizes,
        counts.reshape(votes.n_workers, votes.n_classes, n_columns),
    )


def sweep(labels: Labels, priors: Priors, run: Restart) -> Restart:
    """One coordinate ascent round: the Dirichlets given q(z, g), then q(z, g) of every item."""
    run = _bury(run)
    beliefs = _believe(priors, run)
    votes = labels.votes
    table = beliefs.expected_logs.reshape(-1, len(run.classes))
    counts = np.zeros_like(table)
    sizes = np.zeros(len(run.classes))
    evidence = change = 0.0
    firsts = _first_columns(run.classes)
    for rows in votes.blocks:
        block = votes.block(rows)
        joint, log_normalisers = _joint(labels, rows, block @ table, beliefs, run.classes)
        counts += block.T @ joint
        sizes += joint.sum(axis=0)
        evidence += float(log_normalisers.sum())
        updated = np.add.reduceat(joint, firsts, axis=1)
        change = max(change, float(np.abs(updated - run.posteriors[rows]).max(initial=0.0)))
        run.posteriors[rows] = updated
    # With q(z, g) optimal, the bound is the items' log normalisers less the Dirichlets' divergence.
    elbo = evidence - beliefs.divergence
    return replace(
        run,
        subtype_sizes=sizes,
        counts=counts.reshape(run.counts.shape),
        elbo=elbo,
        gain=elbo - run.elbo,
        change=change,
        iterations=run.iterations + 1,
        beliefs=beliefs,
    )


def _joint(
    labels: Labels, rows: slice, scores: Floats, beliefs: Beliefs, classes: npt.NDArray[np.intp]
) -> tuple[Floats, Floats]:
    """q(z_i, g_i) of a block, (n_block, n_live), in place of its scores; and log normalisers."""
    scores += beliefs.log_weights
    if labels.gold is not None:
        gold = labels.gold[rows]
        scores[(gold[:, None] >= 0) & (gold[:, None] != classes)] = -np.inf
    top = scores.max(axis=1)
    scores -= top[:, None]
    np.exp(scores, out=scores)
    total = scores.sum(axis=1)
    scores /= total[:, None]
    return scores, np.log(total) + top


def _bury(run: Restart) -> Restart:
    """Drop subtypes without items; a class keeps its largest. Most die within twenty sweeps."""
    live = run.subtype_sizes > EMPTY
    by_size = np.lexsort((-run.subtype_sizes, run.classes))
    live[by_size[_first_columns(run.classes)]] = True
    if live.all():
        return run
    return replace(
        run,
        classes=run.classes[live],
        subtype_sizes=run.subtype_sizes[live],
        counts=run.counts[:, :, live],
    )


def _first_columns(classes: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    """Where each class's columns begin; every class has one."""
    return np.flatnonzero(np.append(True, classes[1:] != classes[:-1]))


def _believe(priors: Priors, run: Restart) -> Beliefs:
    """Dirichlets and their expected logs given the expected counts."""
    classes, n_classes = run.classes, len(priors.classes)
    prior_rows = priors.answers[classes].T  # (n_classes, n_live)
    rows = run.counts + prior_rows
    row_totals = rows.sum(axis=1)
    expected_logs = digamma(rows) - digamma(row_totals)[:, None, :]

    class_sizes = np.bincount(classes, run.subtype_sizes, minlength=n_classes)
    class_counts = priors.classes + class_sizes
    log_classes = digamma(class_counts) - digamma(class_counts.sum())
    weights = priors.subtype + run.subtype_sizes
    weight_totals = priors.subtype * priors.subtypes + class_sizes
    log_subtypes = digamma(weights) - digamma(weight_totals)[classes]

    # KL of Dirichlets with counts n on top of their priors: dead subtypes (n = 0) add nothing
    divergence = (
        float(np.vdot(run.counts, expected_logs))
        - _rise(rows, prior_rows)
        + _rise(row_totals, prior_rows.sum(axis=0))
        + float(class_sizes @ log_classes)
        - _rise(class_counts, priors.classes)
        + _rise(class_counts.sum(), priors.classes.sum())
        + float(run.subtype_sizes @ log_subtypes)
        - _rise(weights, priors.subtype)
        + _rise(weight_totals, priors.subtype * priors.subtypes)
    )
    return Beliefs(
        rows,
        expected_logs,
        log_classes[classes] + log_subtypes,
        class_counts / class_counts.sum(),
        divergence,
    )


def _rise(counts: Any, prior: Any) -> float:
    """Σ log Γ(counts) − log Γ(prior)."""
    return float(np.sum(gammaln(counts) - gammaln(prior)))


def _aggregation(labels: Labels, priors: Priors, run: Restart, converged: bool) -> Aggregation:
    # max_iter 0 leaves the start as it is
    beliefs = run.beliefs if run.beliefs is not None else _believe(priors, run)
    expected = beliefs.rows / beliefs.rows.sum(axis=1, keepdims=True)
    shares = np.zeros((len(run.classes), labels.n_classes))
    shares[np.arange(len(run.classes)), run.classes] = run.subtype_sizes + priors.subtype
    shares /= shares.sum(axis=0)
    return Aggregation(
        posteriors=run.posteriors,
        confusions=np.ascontiguousarray((expected @ shares).transpose(0, 2, 1)),
        class_prior=beliefs.class_prior,
        iterations=run.iterations,
        converged=converged,
        objective=run.elbo,
        predictor=Forecast(labels, beliefs, expected, run.classes),
    )


@dataclass(frozen=True)
class Forecast:
    """P(worker answers k on item i) = Σ_cm q(z_i = c, g_i = m) E[v_w[cm, k]]."""

    labels: Labels
    beliefs: Beliefs
    expected_rows: Floats  # E[v], (n_workers, n_classes, n_live)
    classes: npt.NDArray[np.intp]

    def __call__(self, workers: Codes, items: Codes) -> Floats:
        votes: Votes = self.labels.votes
        table = self.beliefs.expected_logs.reshape(-1, len(self.classes))
        forecast = np.empty((len(items), votes.n_classes))
        order = np.argsort(items, kind="stable")
        edges = np.searchsorted(
            items[order], [*(rows.start for rows in votes.blocks), votes.n_items]
        )
        for rows, first, last in zip(votes.blocks, edges[:-1], edges[1:], strict=True):
            pairs = order[first:last]
            if len(pairs) == 0:
                continue
            scores = votes.block(rows) @ table
            joint, _ = _joint(self.labels, rows, scores, self.beliefs, self.classes)
            forecast[pairs] = np.einsum(
                "pa,pka->pk", joint[items[pairs] - rows.start], self.expected_rows[workers[pairs]]
            )
        return forecast
