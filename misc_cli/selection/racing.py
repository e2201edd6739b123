"""Stop the cross-validation of a method once it cannot reach the best one.

Scores on the folds so far decide, never the clock; a deadline only skips methods.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, cast

from misc_cli.data.types import Floats
from misc_cli.selection.candidates import Candidate, Method
from misc_cli.selection.cross_validation import MANY_ANSWERS, CrossValidation
from misc_cli.selection.scoring import NO_SHARE, Score, Trial, lead, weights
from misc_cli.selection.worker_pool import OutOfTime, run_all

# A slow method that is this many standard errors short of the share it needs is given up.
HOPELESS = 2.0
# After so many folds those are given up.
ROUNDS = (1, 3, 6)
# Completion is tried on one fold, then on three, then on all: each time only if the best is so
# many standard errors ahead of everything that it has to beat. So many ranks of it see all folds.
FIRST_FOLDS = 3
ANY_LEAD, PROMISING = 0.0, 1.0
FINALISTS = 2


def pure(work: CrossValidation, methods: Sequence[Method]) -> list[Score]:
    """Return the scores of pure methods in their order; `work.left_out` gets those out of time."""
    slow = [method for method in methods if getattr(method.aggregator, "slow", False)]
    quick = [method for method in methods if method not in slow]
    if not quick:
        quick, slow = slow[:1], slow[1:]
    scores = work.score(quick)
    if scores and slow and independent(work, scores):
        # all that slow methods add is how workers err together
        slow = [
            replace(method, aggregator=cast(Any, method.aggregator).with_subtypes(1))
            for method in slow
            if hasattr(method.aggregator, "with_subtypes")
        ]
    scores += race(work, slow, scores) if scores else []
    by_name = {score.name: score for score in scores}
    work.left_out += [one.name for one in (*quick, *slow) if one.name not in by_name]
    return [by_name[method.name] for method in methods if method.name in by_name]


def independent(work: CrossValidation, scores: Sequence[Score]) -> bool:
    """Return True if workers do not err together, by the first quick method that counts."""
    leads = [float((score.best - work.null).mean()) for score in scores]
    if max(leads) <= 0.0:
        return False
    counted = zip(scores, weights(leads), strict=True)
    telling = [
        score for score, share in counted if share and score.candidate.method.has_worker_model
    ]
    return bool(telling) and work.err_together(telling[0]) == 0.0


def race(work: CrossValidation, methods: Sequence[Method], rivals: Sequence[Score]) -> list[Score]:
    """Judge slow methods, each until it cannot reach the required share of the best lead.

    Some folds of all of them at a time, so that all cores have work. Those whose folds start from
    their fit on all answers, or depend on it (`cv_variant_of`), make that first.
    """
    best = max(rivals, key=lambda score: float(score.best.mean())).best
    needing = "refit_subset" if work.n_votes >= MANY_ANSWERS else "cv_variant_of"
    first_fitted = [one for one in methods if hasattr(one.aggregator, needing)]

    def fit(method: Method) -> Trial:
        return work.trial(method, deadline=work.deadline)[-1]

    made = run_all(fit, first_fitted, deadline=work.deadline, parallel=work.parallel)
    # until the deadline
    wholes = {one.name: whole for one, whole in zip(first_fitted, made, strict=False)}
    methods = [one for one in methods if one not in first_fitted or one.name in wholes]
    running, starts = list(methods), {}
    if needing == "refit_subset":
        starts = {name: whole.fitted for name, whole in wholes.items()}
    else:
        running = [
            replace(
                one, aggregator=cast(Any, one.aggregator).cv_variant_of(wholes[one.name].fitted)
            )
            if one.name in wholes
            else one
            for one in methods
        ]
    scores = {one.name: Score(Candidate(one), (), wholes.get(one.name)) for one in methods}
    edges = [0, *(edge for edge in ROUNDS if edge < work.n_folds), work.n_folds]
    for numbers in (range(first, last) for first, last in pairwise(edges)):
        found = {score.name: score.trials for score in work.score(running, None, numbers, starts)}
        for late in [one.name for one in running if one.name not in found]:
            del scores[late]
        for name, trials in found.items():
            scores[name] = replace(scores[name], trials=(*scores[name].trials, *trials))
        running = [
            one
            for one in running
            if one.name in found and not hopeless(work, scores[one.name].best, best)
        ]
    return list(scores.values())


def hopeless(work: CrossValidation, values: Floats, best: Floats) -> bool:
    """Tell if a method with these scores is clearly short of the share of the best that counts."""
    null = work.null[: len(values)]
    needed = null + NO_SHARE * (best[: len(values)] - null)
    return lead(needed, values, work.workers) > HOPELESS


def completed(
    work: CrossValidation,
    methods: Sequence[Method],
    initial: Sequence[Floats],
    rivals: Sequence[Floats],
) -> list[Score]:
    """Return completed candidates by their hard scores; none if there was no time for it.

    `initial` are the posteriors per fold that they build on, `rivals` the hard scores, (n_hidden,)
    each, that they have to beat. Every other method is tried first; where one of them promises a
    lead, the rest of them, and the best of all on all folds.
    """
    found: dict[str, Score] = {}

    def tried(some: Sequence[Method], numbers: range) -> float:
        """Try these methods on further folds; return the best lead so far."""
        more = work.score(some, initial, numbers) if numbers else []
        if numbers and {one.name for one in some} - {score.candidate.method.name for score in more}:
            raise OutOfTime
        for score in more:
            before = found[score.name].trials if score.name in found else ()
            found[score.name] = replace(score, trials=(*before, *score.trials))
        return max(ahead(work, score, rivals) for score in found.values())

    n_first = min(FIRST_FOLDS, work.n_folds)
    try:
        if tried(methods[::2], range(1)) < ANY_LEAD:
            return list(found.values())
        if tried(methods[::2], range(1, n_first)) < PROMISING:
            return list(found.values())
        tried(methods[1::2], range(n_first))
        order = [method.name for method in methods]
        scores = sorted(found.values(), key=lambda one: order.index(one.candidate.method.name))
        found = {score.name: score for score in scores}
        ranking = sorted(scores, key=lambda score: ahead(work, score, rivals), reverse=True)
        names = list(dict.fromkeys(score.candidate.method.name for score in ranking))[:FINALISTS]
        finalists = [method for method in methods if method.name in names]
        tried(finalists, range(n_first, work.n_folds))
    except OutOfTime:
        return []
    return list(found.values())


def ahead(work: CrossValidation, score: Score, rivals: Sequence[Floats]) -> float:
    """Return by how many standard errors a candidate is ahead of the best of its rivals."""
    return min(lead(score.hard, rival, work.workers) for rival in rivals)
