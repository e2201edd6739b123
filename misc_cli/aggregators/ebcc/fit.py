"""ebcc by mean field, the best of several restarts.

Li, Rubinstein & Cohn 2019, "Exploiting worker correlation for label aggregation in crowdsourcing"
(ICML, PMLR 97:3886–3895). Every class has subtypes, and a worker has a confusion row per subtype:
workers who err on the same kind of item err together. Given the class, this is a low-rank (CP)
model of the label tensor. The notation is in kernels.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

import numpy as np

from misc_cli.aggregators.confusion_kernels import (
    TINY,
    Sums,
    VoteFractions,
    crowd_rows,
    first_posteriors,
)
from misc_cli.aggregators.ebcc.kernels import (
    WAVE,
    Dirichlets,
    Priors,
    Restart,
    SubtypeSums,
    dirichlets_of,
    sweep,
)
from misc_cli.aggregators.methods import EnhancedBcc
from misc_cli.data.holdout import mixed, sums_between
from misc_cli.data.solver import FIXED, LIMIT, TOLERANCE, Step, iterate, warn_unconverged
from misc_cli.data.types import Codes, Floats, Labels, OnIteration, Start
from misc_cli.engines.local import MemoryEngine
from misc_cli.engines.protocol import (
    POSTERIORS,
    Block,
    Engine,
    Fitted,
    FusedKernels,
    RowArrays,
    SumOver,
    WriteRows,
    copy_rows,
)

# A restart is given up only after this many sweeps, so that its subtypes have time to separate
# (plateaus last about ten sweeps) ...
GRACE = 20
# ... and only if it needs more than this many sweeps at its present gain to reach the leader.
HORIZON = 50
# The first restarts run alone. If all of them collapse to one subtype per class and agree within
# this much, the data has no subtypes to find, and the other restarts are spared.
FIRST_RESTARTS = 2
AGREEMENT = 0.03
# A restart splits the vote fractions among the subtypes: it draws a table of splits, and the votes
# on an item choose one. So a start does not depend on the order or the names of items: it is the
# same on every engine. Splits are many, so that items rarely share one, but not many more than
# items; with many classes fewer, so that the table stays small.
MOST_SPLITS, LEAST_SPLITS = 4096, 64
MOST_NUMBERS = 1 << 20
# Rows: vote fractions, (n_block_items, n_classes), and a hash of the votes, (n_block_items,).
FRACTIONS, KEYS = "fractions", "keys"
# Before subtypes separate, posteriors may stand still while the bound gains more with every sweep
# (0.5 nats on `product`; 1e-5 after convergence): a plateau is not convergence.
PLATEAU_GAIN = 0.01


def fractions_and_keys(block: Block, rows: RowArrays) -> tuple[RowArrays, Sums]:
    """Return vote fractions, also as the first posteriors, and the keys of items."""
    fractions, sums = VoteFractions()(block, rows)
    matrix = block.matrix
    keys = sums_between(mixed(matrix.indices.astype(np.uint64) + np.uint64(1)), matrix.indptr)
    return {**fractions, FRACTIONS: fractions[POSTERIORS], KEYS: keys}, sums


START = WriteRows(fractions_and_keys, (), (POSTERIORS, FRACTIONS, KEYS))


def split_fractions(
    block: Block, rows: RowArrays, number: int, row_name: str, splits: Floats
) -> tuple[RowArrays, SubtypeSums]:
    """Split the vote fractions among subtypes: q(z, g) of a restart before its first sweep.

    splits  (n_splits, n_classes, n_subtypes): Dirichlet(1) draws for each class
    """
    fractions = rows[FRACTIONS]
    # items with the same votes share a split, a different one in every restart
    places = mixed(rows[KEYS] + np.uint64(number)) % np.uint64(len(splits))
    joint = splits[places.astype(np.intp)]
    joint *= fractions[:, :, None]
    flat = joint.reshape(len(fractions), -1)
    return {row_name: fractions}, SubtypeSums(block.matrix.T @ flat, flat.sum(axis=0))


def initial_restarts(
    engine: Engine, priors: Priors, seed: int, numbers: Sequence[int]
) -> list[Restart]:
    """Return these restarts before their first sweep; each draws from its own random stream."""
    n_workers, n_classes, n_subtypes = engine.n_workers, engine.n_classes, priors.subtypes
    most = max(LEAST_SPLITS, MOST_NUMBERS // (n_classes * n_subtypes))
    n_splits = min(MOST_SPLITS, 2 * engine.n_items, most)
    classes = np.repeat(np.arange(n_classes), n_subtypes)
    nothing = np.zeros((n_workers, n_classes, 0))
    runs = [Restart(number, classes, np.zeros(0), nothing) for number in numbers]
    kernels = []
    for run in runs:
        # normalised exponentials are Dirichlet(1)
        splits = np.random.default_rng([seed, run.number]).standard_exponential(
            (n_splits, n_classes, n_subtypes)
        )
        splits /= splits.sum(axis=2, keepdims=True)
        split = partial(split_fractions, number=run.number, row_name=run.row_name, splits=splits)
        kernels.append(WriteRows(split, (FRACTIONS, KEYS), (run.row_name,)))
    found = engine.sweep(FusedKernels(tuple(kernels)))
    shape = (n_workers, n_classes, len(classes))
    return [
        replace(run, subtype_sizes=sums.subtype_sizes, counts=sums.counts.reshape(shape))
        for run, sums in zip(runs, found.each, strict=True)
    ]


def best_restart(
    method: EnhancedBcc,
    engine: Engine,
    on_iteration: OnIteration,
    start: Start | None = None,
    whole: Fitted | None = None,
) -> Fitted:
    """Fit the best of all restarts, wave by wave; or go on from an earlier fit.

    That is `whole`, never its posteriors, or the one that `start` has.
    """
    sums = engine.sweep(START)
    priors = _priors(method, sums)
    best: Restart | None = None
    earlier = None if whole is None else (whole.own_workers, whole.own_shared)
    if earlier is None and start is not None and "counts" in start.workers:
        earlier = start.workers, start.shared
        engine.sweep(first_posteriors(start, "estimated"))
    if earlier is not None:
        counts, shared = earlier[0]["counts"], earlier[1]
        # it may have counted answers that are not here
        counted = np.flatnonzero(counts.reshape(len(sums.counts), -1).any(axis=1))
        priors = replace(priors, used=np.union1d(priors.used, counted))
        begun = Restart(0, shared["classes"].astype(np.intp), shared["subtype_sizes"], counts)
        engine.sweep(copy_rows(POSTERIORS, begun.row_name))
        best, _ = _run_wave(method, engine, priors, [begun], None, on_iteration)
    else:
        edges = [0, *range(WAVE, method.restarts, WAVE), method.restarts]
        if method.restarts > FIRST_RESTARTS:
            edges.insert(1, FIRST_RESTARTS)
        for first, last in pairwise(edges):
            wave = initial_restarts(engine, priors, method.seed, range(first, last))
            best, ends = _run_wave(method, engine, priors, wave, best, on_iteration)
            if last == FIRST_RESTARTS and _collapsed_alike(method, engine, ends):
                break
    assert best is not None
    stopped = TOLERANCE if _has_converged(method, best) else LIMIT if method.tol > 0 else FIXED
    if stopped == LIMIT:
        warn_unconverged("ebcc", method.max_iter)
    # max_iter 0 leaves the start as it is
    dirichlets = best.dirichlets if best.dirichlets is not None else dirichlets_of(priors, best)
    n_live, n_classes = len(best.classes), engine.n_classes
    shares = np.zeros((n_live, n_classes))
    shares[np.arange(n_live), best.classes] = best.subtype_sizes + priors.subtype
    shares /= shares.sum(axis=0)
    forecast = None
    if isinstance(engine, MemoryEngine):
        forecast = SubtypeForecast(engine.labels, dirichlets, best)
    return Fitted(
        confusions=np.ascontiguousarray((dirichlets.expected_rows @ shares).transpose(0, 2, 1)),
        class_prior=dirichlets.class_prior,
        iterations=best.iterations,
        stopped={"ebcc": stopped},
        objective=best.elbo,
        own_workers={"counts": best.counts},
        own_shared={
            "classes": best.classes.astype(np.float64),
            "subtype_sizes": best.subtype_sizes,
        },
        predictor=forecast,
    )


def _priors(method: EnhancedBcc, sums: Sums) -> Priors:
    """Return the pseudo-counts: those of the method and of the vote fractions."""
    n_classes = len(sums.class_sizes)
    answer_prior = np.full((n_classes, n_classes), method.off_diagonal)
    np.fill_diagonal(answer_prior, method.diagonal)
    answer_prior += method.shrinkage * crowd_rows(sums.by_worker)
    each = method.subtype_prior / method.subtypes
    used = np.flatnonzero(sums.counts.any(axis=1))
    return Priors(answer_prior, each, method.subtypes, sums.class_sizes + TINY, used)


def _run_wave(
    method: EnhancedBcc,
    engine: Engine,
    priors: Priors,
    starts: list[Restart],
    best: Restart | None,
    on_iteration: OnIteration,
) -> tuple[Restart, list[Restart]]:
    """Sweep a wave of restarts side by side, giving up the hopeless; return the leader and all.

    The engine's `POSTERIORS` are those of the leader so far afterwards.
    """

    def step(wave: list[Restart]) -> Step[list[Restart]]:
        swept = sweep(engine, priors, [one for one in wave if not one.done])
        leader = max([*wave, *swept, *known], key=lambda one: one.elbo)
        rival = leader
        if best is not None and starts[0].number < WAVE:
            # the first restarts had a head start: the rest of their wave meets them sweep by sweep
            then = replace(best, bounds=best.bounds[: swept[0].iterations])
            rival = max([*wave, *swept, then], key=lambda one: one.elbo)
        marked = {one.number: _marked(method, one, rival) for one in swept}
        wave = [marked.get(one.number, one) for one in wave]
        live = [one for one in wave if not one.done]
        return Step(
            wave,
            max((max(one.change, method.tol) for one in live), default=0.0),
            leader.elbo,
            posteriors=engine.whole(POSTERIORS if leader is best else leader.row_name),
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
    if leader is not best and leader.dirichlets is not None:
        # the next wave overwrites the rows of this one: write them under the name that stays
        engine.sweep(leader.dirichlets.kernel(POSTERIORS, leader.classes))
    return leader, solution.state


def _collapsed_alike(method: EnhancedBcc, engine: Engine, ends: Sequence[Restart]) -> bool:
    """Return True if the restarts converged to one subtype per class and to like posteriors."""
    first, *others = ends
    if any(len(end.classes) > engine.n_classes or not _has_converged(method, end) for end in ends):
        return False
    return all(
        max(
            engine.sweep(
                SumOver(partial(_differences, first=first.row_name, second=other.row_name))
            )
        )
        < AGREEMENT
        for other in others
    )


def _differences(block: Block, rows: RowArrays, first: str, second: str) -> list[float]:
    """Return max |first − second| of two named rows of a block."""
    between = np.asarray(rows[first]) - rows[second]
    return [float(np.abs(between).max(initial=0.0))]


def _marked(method: EnhancedBcc, run: Restart, leader: Restart) -> Restart:
    """Return the restart, marked as done if it has converged or is too far behind the leader."""
    behind = run.number != leader.number and run.elbo + HORIZON * run.gain < leader.elbo
    return replace(run, done=_has_converged(method, run) or (behind and run.iterations >= GRACE))


def _has_converged(method: EnhancedBcc, run: Restart) -> bool:
    return run.change < method.tol and run.gain < PLATEAU_GAIN


@dataclass(frozen=True)
class SubtypeForecast:
    """Forecast P(worker w answers k on item i) = Σ_cm q(z_i = c, g_i = m) · E[v_w[cm, k]]."""

    labels: Labels
    dirichlets: Dirichlets
    run: Restart

    def __call__(self, workers: Codes, items: Codes) -> Floats:
        votes = self.labels.votes
        gold, expected = self.labels.gold, self.dirichlets.expected_rows
        kernel = self.dirichlets.kernel(POSTERIORS, self.run.classes)
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
