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

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from misc_cli.aggregators.confusion.em import (
    TINY,
    crowd_rows,
    expected_counts,
    first_posteriors,
    vote_fractions,
)
from misc_cli.aggregators.ebcc.method import EnhancedBcc
from misc_cli.aggregators.ebcc.sweep import (
    Beliefs,
    Priors,
    Restart,
    believe,
    joint_of,
    start_of,
    sweep,
)
from misc_cli.core.parallel import map_in_order
from misc_cli.core.solver import FIXED, LIMIT, TOLERANCE, Step, iterate, warn_unconverged
from misc_cli.core.types import (
    Aggregation,
    Codes,
    Floats,
    Labels,
    OnIteration,
    ignore_iteration,
)
from misc_cli.core.votes import Votes

# Restarts that race side by side; what leads after a wave is what the next wave must beat.
WAVE = 8
# No restart is given up before its subtypes had time to part (plateaus last about ten sweeps) ...
GRACE = 20
# ... and then only if it would need more than this many sweeps at its pace to catch the leader.
HORIZON = 50
# Before subtypes part, posteriors may stand still while the bound gains more with every sweep
# (0.5 nats on `product`, 1e-5 where a restart has really ended): that is not convergence.
PLATEAU_GAIN = 0.01


def aggregate(method: EnhancedBcc, labels: Labels, on_iteration: OnIteration) -> Aggregation:
    """The best of all restarts, wave by wave."""
    start, priors = _before(method, labels)
    warm = _where_it_ended(labels)
    best = None if warm is None else _race(method, labels, priors, [warm], None, on_iteration)
    for first in range(0, method.restarts if warm is None else 0, WAVE):
        numbers = range(first, min(first + WAVE, method.restarts))
        starts = [start_of(labels, priors, start, method.seed, number) for number in numbers]
        best = _race(method, labels, priors, starts, best, on_iteration)
    assert best is not None
    return _ended(method, labels, priors, best)


def _where_it_ended(labels: Labels) -> Restart | None:
    """The winner of an earlier race, for today's workers: the only start that is then needed."""
    start = labels.start
    if start is None or "counts" not in start.workers:
        return None
    return Restart(
        0,
        first_posteriors(labels),
        start.shared["classes"].astype(np.intp),
        start.shared["subtype_sizes"],
        start.workers["counts"],
    )


def aggregate_again(method: EnhancedBcc, labels: Labels, whole: Aggregation) -> Aggregation:
    """One restart from what `whole` knows of workers and subtypes, never from its posteriors."""
    start, priors = _before(method, labels)
    forecast = whole.predictor
    assert isinstance(forecast, Forecast)
    known = replace(forecast.run, posteriors=start, elbo=-np.inf, gain=np.inf, change=np.inf)
    begun = replace(known, iterations=0, done=False, beliefs=None)
    best = _race(method, labels, priors, [begun], None, ignore_iteration)
    return _ended(method, labels, priors, best)


def _before(method: EnhancedBcc, labels: Labels) -> tuple[Floats, Priors]:
    """Vote fractions (n_items, n_classes), and the priors that they give."""
    start = vote_fractions(labels)
    answer_prior = np.full((labels.n_classes, labels.n_classes), method.off_diagonal)
    np.fill_diagonal(answer_prior, method.diagonal)
    answer_prior += method.shrinkage * crowd_rows(expected_counts(labels, start))
    each = method.subtype_prior / method.subtypes
    priors = Priors(answer_prior, each, method.subtypes, start.sum(axis=0) + TINY)
    return start, priors


def _ended(method: EnhancedBcc, labels: Labels, priors: Priors, best: Restart) -> Aggregation:
    stopped = TOLERANCE if _has_settled(method, best) else LIMIT if method.tol > 0 else FIXED
    if stopped == LIMIT:
        warn_unconverged("ebcc", method.max_iter)
    return _aggregation(labels, priors, best, stopped)


def _race(
    method: EnhancedBcc,
    labels: Labels,
    priors: Priors,
    starts: list[Restart],
    best: Restart | None,
    on_iteration: OnIteration,
) -> Restart:
    """Sweep a wave of restarts in step, giving up the hopeless; return the leader so far."""

    def step(wave: list[Restart]) -> Step[list[Restart]]:
        running = [run for run in wave if not run.done]
        swept = list(map_in_order(lambda run: sweep(labels, priors, run), running))
        leader = max([*wave, *swept, *known], key=lambda run: run.elbo)
        marked = {run.number: _mark(method, run, leader) for run in swept}
        wave = [marked.get(run.number, run) for run in wave]
        live = [run for run in wave if not run.done]
        return Step(
            wave,
            max((max(run.change, method.tol) for run in live), default=0.0),
            leader.elbo,
            posteriors=leader.posteriors,
            extra={
                "restart": leader.number,
                "first_restart": starts[0].number,
                "live_restarts": len(live),
            },
        )

    known = [] if best is None else [best]
    solution = iterate(
        step,
        starts,
        stage="ebcc",
        tol=method.tol,
        max_iter=method.max_iter,
        on_iteration=on_iteration,
        warn=False,
    )
    return max([*known, *solution.state], key=lambda run: run.elbo)


def _mark(method: EnhancedBcc, run: Restart, leader: Restart) -> Restart:
    """Done when converged, or when it lags too far behind at its present pace."""
    hopeless = (
        run.iterations >= GRACE
        and run.number != leader.number
        and run.elbo + HORIZON * run.gain < leader.elbo
    )
    return replace(run, done=_has_settled(method, run) or hopeless)


def _has_settled(method: EnhancedBcc, run: Restart) -> bool:
    return run.change < method.tol and run.gain < PLATEAU_GAIN


def _aggregation(labels: Labels, priors: Priors, run: Restart, stopped: str) -> Aggregation:
    # max_iter 0 leaves the start as it is
    beliefs = run.beliefs if run.beliefs is not None else believe(priors, run)
    expected = beliefs.rows / beliefs.rows.sum(axis=1, keepdims=True)
    shares = np.zeros((len(run.classes), labels.n_classes))
    shares[np.arange(len(run.classes)), run.classes] = run.subtype_sizes + priors.subtype
    shares /= shares.sum(axis=0)
    return Aggregation(
        posteriors=run.posteriors,
        confusions=np.ascontiguousarray((expected @ shares).transpose(0, 2, 1)),
        class_prior=beliefs.class_prior,
        iterations=run.iterations,
        stopped={"ebcc": stopped},
        objective=run.elbo,
        predictor=Forecast(labels, beliefs, expected, run),
        own_workers={"counts": run.counts},
        own_shared={
            "classes": run.classes.astype(np.float64),
            "subtype_sizes": run.subtype_sizes,
        },
    )


@dataclass(frozen=True)
class Forecast:
    """P(worker answers k on item i) = Σ_cm q(z_i = c, g_i = m) E[v_w[cm, k]]."""

    labels: Labels
    beliefs: Beliefs
    expected_rows: Floats  # E[v], (n_workers, n_classes, n_live)
    run: Restart

    @property
    def classes(self) -> npt.NDArray[np.intp]:
        return self.run.classes

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
            joint, _ = joint_of(self.labels, rows, scores, self.beliefs, self.classes)
            forecast[pairs] = np.einsum(
                "pa,pka->pk", joint[items[pairs] - rows.start], self.expected_rows[workers[pairs]]
            )
        return forecast
