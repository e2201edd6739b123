"""Stop the cross-validation of a method once it cannot reach the best one.

Scores on the folds so far decide, never the clock; a deadline only skips methods.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, cast

import numpy as np

from misc_cli.data.types import Floats
from misc_cli.selection.candidates import Candidate, Method
from misc_cli.selection.cross_validation import MANY_ANSWERS, CrossValidation
from misc_cli.selection.scoring import NO_SHARE, Score, Trial, joined, lead, standard_error, weights
from misc_cli.selection.worker_pool import run_all

# A slow method that is this many standard errors short of the share it needs is given up.
HOPELESS = 2.0
# After so many folds those are given up.
ROUNDS = (1, 3, 6)
# Completion is tried on one fold, then on three, then on all: each time only if the best is so
# many standard errors ahead of everything that it has to beat. So many ranks of it see all folds.
FIRST_FOLDS = 3
ANY_LEAD, PROMISING = 0.0, 1.0
FINALISTS = 2


def pure(work: CrossValidation, methods: Sequence[Method]) -> tuple[list[Score], list[str]]:
    """Return the scores of pure methods in their order, and the names of those skipped for time."""
    quick = [method for method in methods if not _slow(method)]
    slow = [method for method in methods if _slow(method)]
    if not quick:
        quick, slow = [slow[0]], slow[1:]
    scores = work.score(quick)
    if scores and slow and independent(work, scores):
        slow = _of_independent_workers(slow)
    left = [method.name for method in (*quick, *slow)]
    scores += race(work, slow, scores) if scores else []
    judged = {score.candidate.name for score in scores}
    order = {method.name: at for at, method in enumerate(methods)}
    scores.sort(key=lambda score: order[score.candidate.name])
    return scores, [name for name in left if name not in judged]


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


def _of_independent_workers(methods: Sequence[Method]) -> list[Method]:
    """Return the variants for workers who err independently; methods without one are left out.

    All that these add is how workers err together.
    """
    return [
        replace(method, aggregator=cast(Any, method.aggregator).of_independent_workers)
        for method in methods
        if hasattr(method.aggregator, "of_independent_workers")
    ]


def race(work: CrossValidation, methods: Sequence[Method], rivals: Sequence[Score]) -> list[Score]:
    """Judge slow methods, each until it cannot reach the required share of the best lead.

    Some folds of all of them at a time, so that all cores have work: a method stops at the first
    fold that makes it hopeless; later folds of the same batch do not count. Those whose folds start
    from their fit on all answers, or depend on it (`cv_variant_of`), make that first.
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
    in_folds, starts = {one.name: one for one in methods}, {}
    for name, whole in wholes.items():
        if needing == "refit_subset":
            starts[name] = whole.fitted
        else:
            aggregator = cast(Any, in_folds[name].aggregator)
            shaped = aggregator.cv_variant_of(whole.fitted)
            in_folds[name] = replace(in_folds[name], aggregator=shaped)
    trials: dict[str, list[Trial]] = {method.name: [] for method in methods}
    running = list(methods)
    edges = [0, *(edge for edge in ROUNDS if edge < work.n_folds), work.n_folds]
    for first, last in pairwise(edges):
        tasks = [(in_folds[one.name], fold) for one in running for fold in range(first, last)]
        done = 0
        for found in work.trials(tasks, wholes=starts):
            trials[tasks[done][0].name] += found
            done += 1
        in_time = {method.name for method, _ in tasks[:done]} - {
            method.name for method, _ in tasks[done:]
        }
        ended = {name for name in in_time if _ends(work, trials[name], first, best)}
        for method in running:
            if method.name not in in_time:
                del trials[method.name]
        running = [method for method in running if method.name in in_time - ended]
    by_name = {method.name: method for method in methods}
    return [
        replace(joined(found, wholes.get(name)), candidate=Candidate(by_name[name]))
        for name, found in trials.items()
    ]


def _ends(work: CrossValidation, trials: list[Trial], first: int, best: Floats) -> bool:
    """Return True, and stop the method, if a fold from `first` on makes it hopeless."""
    for count in range(first + 1, len(trials) + 1):
        if _hopeless(work, joined(trials[:count]), best):
            del trials[count:]
            return True
    return False


def _hopeless(work: CrossValidation, score: Score, best: Floats) -> bool:
    values = score.best
    count = len(values)
    null, workers = work.null[:count], work.workers[:count]
    short = NO_SHARE * (best[:count] - null) - (values - null)
    return float(short.mean()) > HOPELESS * standard_error(short, workers)


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
    n_first = min(FIRST_FOLDS, work.n_folds)
    scouts, others = list(methods[::2]), list(methods[1::2])
    scores = work.score(scouts, initial, range(1))
    if not _all_there(scores, scouts):
        return []
    if best_lead(work, scores, rivals) < ANY_LEAD:
        return scores
    scores = _longer(work, scores, scouts, initial, range(1, n_first))
    if not scores or best_lead(work, scores, rivals) < PROMISING:
        return scores
    scores += work.score(others, initial, range(n_first))
    if not _all_there(scores, methods):
        return []
    order = [method.name for method in methods]
    scores.sort(key=lambda score: order.index(score.candidate.method.name))
    ranking = sorted(scores, key=lambda score: ahead(work, score, rivals), reverse=True)
    names = list(dict.fromkeys(score.candidate.method.name for score in ranking))[:FINALISTS]
    finalists = [method for method in methods if method.name in names]
    return _longer(work, scores, finalists, initial, range(n_first, work.n_folds))


def ahead(work: CrossValidation, score: Score, rivals: Sequence[Floats]) -> float:
    """Return by how many standard errors a candidate is ahead of the best of its rivals."""
    values = score.views["hard"]
    count = len(values)
    return min(lead(values, rival[:count], work.workers[:count]) for rival in rivals)


def best_lead(work: CrossValidation, scores: Sequence[Score], rivals: Sequence[Floats]) -> float:
    return max(ahead(work, score, rivals) for score in scores)


def _longer(
    work: CrossValidation,
    scores: Sequence[Score],
    methods: Sequence[Method],
    initial: Sequence[Floats],
    numbers: range,
) -> list[Score]:
    """Return the scores with these methods on further folds; none if there was no time."""
    if not numbers:
        return list(scores)
    more = {score.candidate.name: score for score in work.score(methods, initial, numbers)}
    if not _all_there(list(more.values()), methods):
        return []
    return [_both(score, more.get(score.candidate.name)) for score in scores]


def _slow(method: Method) -> bool:
    return bool(getattr(method.aggregator, "slow", False))


def _all_there(scores: Sequence[Score], methods: Sequence[Method]) -> bool:
    judged = {score.candidate.method.name for score in scores}
    return all(method.name in judged for method in methods)


def _both(before: Score, after: Score | None) -> Score:
    """Join the scores of a candidate on the first folds and on the others."""
    if after is None:
        return before
    views = {
        view: np.concatenate([scores, after.views[view]], axis=-1)
        for view, scores in before.views.items()
    }
    posteriors = [*before.posteriors, *after.posteriors]
    return Score(before.candidate, views, before.seconds + after.seconds, posteriors)
