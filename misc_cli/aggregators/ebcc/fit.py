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

import numpy as np

from misc_cli.aggregators.confusion_kernels import TINY, Sums, crowd_rows
from misc_cli.aggregators.ebcc.initialization import Foundation, openings
from misc_cli.aggregators.ebcc.method import EnhancedBcc
from misc_cli.aggregators.ebcc.sweep import (
    WAVE,
    Beliefs,
    Expectation,
    Priors,
    Restart,
    believe,
    sweep,
)
from misc_cli.aggregators.em import estimated_prior, first_step
from misc_cli.data.solver import FIXED, LIMIT, TOLERANCE, Step, iterate, warn_unconverged
from misc_cli.data.types import (
    Aggregation,
    Codes,
    Floats,
    Labels,
    OnIteration,
    Start,
    ignore_iteration,
)
from misc_cli.data.votes import Votes
from misc_cli.engines.local import LocalEngine
from misc_cli.engines.protocol import POSTERIORS, CopyRows, Engine, Fitted, gathered

# No restart is given up before its subtypes had time to part (plateaus last about ten sweeps) ...
GRACE = 20
# ... and then only if it would need more than this many sweeps at its pace to catch the leader.
HORIZON = 50
# Before subtypes part, posteriors may stand still while the bound gains more with every sweep
# (0.5 nats on `product`, 1e-5 where a restart has really ended): that is not convergence.
PLATEAU_GAIN = 0.01


def aggregate(method: EnhancedBcc, labels: Labels, on_iteration: OnIteration) -> Aggregation:
    """The best of all restarts, with its own forecast."""
    engine = LocalEngine.of(labels)
    return _aggregation(labels, engine, run(method, engine, on_iteration, labels.start))


def aggregate_again(method: EnhancedBcc, labels: Labels, whole: Aggregation) -> Aggregation:
    """One restart from what `whole` knows of workers and subtypes, never from its posteriors."""
    engine = LocalEngine.of(labels)
    return _aggregation(labels, engine, run_again(method, engine, whole, labels.start))


def run_again(
    method: EnhancedBcc,
    engine: Engine,
    whole: Aggregation | Fitted,
    start: Start | None = None,
) -> Winner:
    """The same on any engine; of `start` its prior counts."""
    begun = _where_it_ended(whole.own_workers, whole.own_shared)
    return run(method, engine, ignore_iteration, start, begun)


@dataclass(frozen=True)
class Winner:
    """The best restart, and what ended its loop; its posteriors are the engine's."""

    restart: Restart
    beliefs: Beliefs
    priors: Priors
    stopped: str

    def fitted(self) -> Fitted:
        restart, beliefs = self.restart, self.beliefs
        n_live, n_classes = len(restart.classes), len(self.priors.classes)
        shares = np.zeros((n_live, n_classes))
        shares[np.arange(n_live), restart.classes] = restart.subtype_sizes + self.priors.subtype
        shares /= shares.sum(axis=0)
        return Fitted(
            confusions=np.ascontiguousarray((beliefs.expected_rows @ shares).transpose(0, 2, 1)),
            class_prior=beliefs.class_prior,
            iterations=restart.iterations,
            stopped={"ebcc": self.stopped},
            objective=restart.elbo,
            own_workers={"counts": restart.counts},
            own_shared={
                "classes": restart.classes.astype(np.float64),
                "subtype_sizes": restart.subtype_sizes,
            },
        )


def run(
    method: EnhancedBcc,
    engine: Engine,
    on_iteration: OnIteration,
    start: Start | None = None,
    begun: Restart | None = None,
) -> Winner:
    """The best of all restarts, wave by wave; or the only one that is needed if one has `begun`."""
    sums = engine.sweep(Foundation())
    priors = _priors(method, sums, start)
    if begun is None and start is not None and "counts" in start.workers:
        begun = _where_it_ended(start.workers, start.shared)
        engine.sweep(first_step(start, estimated_prior))
    best: Restart | None = None
    if begun is not None:
        engine.sweep(CopyRows(POSTERIORS, begun.slot))
        best = _race(method, engine, priors, [begun], None, on_iteration)
    else:
        for first in range(0, method.restarts, WAVE):
            numbers = range(first, min(first + WAVE, method.restarts))
            wave = openings(engine, priors, method.seed, numbers)
            best = _race(method, engine, priors, wave, best, on_iteration)
    assert best is not None
    stopped = TOLERANCE if _has_settled(method, best) else LIMIT if method.tol > 0 else FIXED
    if stopped == LIMIT:
        warn_unconverged("ebcc", method.max_iter)
    # max_iter 0 leaves the start as it is
    beliefs = best.beliefs if best.beliefs is not None else believe(priors, best)
    return Winner(best, beliefs, priors, stopped)


def _priors(method: EnhancedBcc, sums: Sums, start: Start | None) -> Priors:
    """What the vote fractions' sums say beforehand, and what is known of single workers.

    The latter counts in full for every subtype of a class: nothing says how they differed.
    """
    n_classes = len(sums.class_sizes)
    answer_prior = np.full((n_classes, n_classes), method.off_diagonal)
    np.fill_diagonal(answer_prior, method.diagonal)
    answer_prior += method.shrinkage * crowd_rows(sums.by_worker)
    if start is not None and start.pseudo_counts is not None:
        answer_prior = answer_prior + start.pseudo_counts
    each = method.subtype_prior / method.subtypes
    return Priors(answer_prior, each, method.subtypes, sums.class_sizes + TINY)


def _where_it_ended(workers: Mapping[str, Floats], shared: Mapping[str, Floats]) -> Restart:
    """The winner of an earlier race, for today's workers: the only start that is then needed."""
    classes = shared["classes"].astype(np.intp)
    return Restart(0, classes, shared["subtype_sizes"], workers["counts"])


def _race(
    method: EnhancedBcc,
    engine: Engine,
    priors: Priors,
    starts: list[Restart],
    best: Restart | None,
    on_iteration: OnIteration,
) -> Restart:
    """Sweep a wave of restarts in step, giving up the hopeless; return the leader so far.

    The leader's posteriors are the engine's `POSTERIORS` afterwards.
    """

    def step(wave: list[Restart]) -> Step[list[Restart]]:
        swept = sweep(engine, priors, [one for one in wave if not one.done])
        leader = max([*wave, *swept, *known], key=lambda one: one.elbo)
        marked = {one.number: _mark(method, one, leader) for one in swept}
        wave = [marked.get(one.number, one) for one in wave]
        live = [one for one in wave if not one.done]
        return Step(
            wave,
            max((max(one.change, method.tol) for one in live), default=0.0),
            leader.elbo,
            posteriors=engine.whole(POSTERIORS if leader is best else leader.slot),
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
    leader = max([*known, *solution.state], key=lambda one: one.elbo)
    if leader is not best and leader.beliefs is not None:
        # the next wave takes the slots: make these rows once more, under the name that stays
        engine.sweep(Expectation.of(POSTERIORS, leader.classes, leader.beliefs))
    return leader


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


def _aggregation(labels: Labels, engine: LocalEngine, winner: Winner) -> Aggregation:
    forecast = Forecast(labels, winner.beliefs, winner.restart)
    return replace(gathered(engine, winner.fitted()), predictor=forecast)


@dataclass(frozen=True)
class Forecast:
    """P(worker answers k on item i) = Σ_cm q(z_i = c, g_i = m) E[v_w[cm, k]]."""

    labels: Labels
    beliefs: Beliefs
    run: Restart

    def __call__(self, workers: Codes, items: Codes) -> Floats:
        votes: Votes = self.labels.votes
        gold, expected = self.labels.gold, self.beliefs.expected_rows
        kernel = Expectation.of(POSTERIORS, self.run.classes, self.beliefs)
        forecast = np.empty((len(items), votes.n_classes))
        order = np.argsort(items, kind="stable")
        edges = np.searchsorted(
            items[order], [*(rows.start for rows in votes.blocks), votes.n_items]
        )
        for rows, first, last in zip(votes.blocks, edges[:-1], edges[1:], strict=True):
            pairs = order[first:last]
            if len(pairs) == 0:
                continue
            joint, _ = kernel.joint_of(votes.block(rows), None if gold is None else gold[rows])
            forecast[pairs] = np.einsum(
                "pa,pka->pk", joint[items[pairs] - rows.start], expected[workers[pairs]]
            )
        return forecast
