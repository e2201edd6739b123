"""From the pure methods' scores to weights, and what is said of it in run.json and in warnings."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from misc_cli.aggregators.confusion_kernels import ExpectedCounts, shrunk_rows
from misc_cli.data.posteriors import clamp
from misc_cli.data.solver import joined_stops
from misc_cli.data.types import Floats
from misc_cli.engines.local import MemoryEngine
from misc_cli.engines.protocol import (
    GOLD,
    POSTERIORS,
    AnswerEngine,
    Block,
    Engine,
    Fitted,
    RowArrays,
)
from misc_cli.engines.views import behind
from misc_cli.errors import MiscWarning
from misc_cli.selection.calibration import Calibration, pool, voted
from misc_cli.selection.candidates import Candidate, Method
from misc_cli.selection.dependence_check import SHRINKAGE, evidence_of_votes
from misc_cli.selection.scoring import (
    SIGNIFICANT,
    Score,
    Trial,
    holdout_uninformative,
    lead,
    pure_table,
    weights,
    why_votes,
)

if TYPE_CHECKING:
    from misc_cli.completers.completion_loop import LoopResult
    from misc_cli.selection.cross_validation import CrossValidation


@dataclass(frozen=True, kw_only=True)
class FitResult(Fitted):
    """The result of a fit; the posteriors are rows of the engine.

    engine        holds the votes and the posteriors (`POSTERIORS`)
    members       the methods that a choice took
    selection     what an automatic choice looked at and took, with its weights; goes into run.json
                  as it is; empty if nothing was to choose
    calibration   what the posteriors were softened by; None: they are raw
    loop          how the complete ⇄ slice loop ended
    completion    what that loop returned, if it ran in memory
    """

    engine: AnswerEngine
    members: Sequence[Candidate] = ()
    selection: Mapping[str, Any] = field(default_factory=dict)
    calibration: Calibration | None = None
    loop: Mapping[str, Any] | None = None
    completion: LoopResult | None = None

    @classmethod
    def of(cls, engine: AnswerEngine, fitted: Fitted, **more: Any) -> FitResult:
        """Return the result of a method whose posteriors are on the engine."""
        own = {each.name: getattr(fitted, each.name) for each in fields(Fitted)}
        return cls(engine=engine, **{**own, "predictor": None}, **more)

    @property
    def converged(self) -> bool:
        """True if every loop that ran stopped because it moved less than its tolerance."""
        return all(reason == "tolerance" for reason in self.stopped.values())

    @property
    def posteriors(self) -> Floats:
        """Return the posteriors of a fit in memory, (n_items, n_classes)."""
        return np.asarray(self.engine.whole(POSTERIORS))


@dataclass(frozen=True)
class Combine:
    """Makes the posteriors that are written from the rows of members: their weighted mean.

    by_votes     the votes decide, and the mean breaks their ties
    calibration  softens them; `model` (confusions, class sizes) tells what the given answers say
                 where the calibration rests on them
    """

    members: tuple[str, ...]
    shares: tuple[float, ...]
    by_votes: bool = False
    calibration: Calibration | None = None
    model: tuple[Floats, Floats] | None = None

    writes: ClassVar[tuple[str, ...]] = (POSTERIORS,)

    @property
    def needs(self) -> tuple[str, ...]:
        return self.members

    def __call__(self, block: Block, rows: RowArrays) -> tuple[RowArrays, int]:
        each = [np.asarray(rows[name]) for name in self.members]
        posteriors: Floats = np.average(each, axis=0, weights=self.shares)
        gold, softer = rows.get(GOLD), self.calibration
        if self.by_votes:
            posteriors = voted(block.class_totals(), posteriors)
            if gold is not None:
                clamp(posteriors, gold)
        if softer is not None:
            totals = block.class_totals() if softer.votes > 0.0 else None
            pooled = pool(each, self.shares) if len(each) > 1 else None
            given = None if self.model is None else evidence_of_votes(block.matrix, *self.model)
            posteriors = softer.written(posteriors, totals, gold, pooled, given)
        return {POSTERIORS: posteriors}, 0


def combine(
    engine: Engine,
    members: Sequence[str],
    shares: Sequence[float],
    *,
    by_votes: bool = False,
    calibration: Calibration | None = None,
) -> None:
    """Write the weighted mean of members' rows, calibrated, as the engine's posteriors."""
    names, weights = tuple(members), tuple(shares)
    model = None
    if calibration is not None and calibration.evidence:
        engine.sweep(Combine(names, weights, by_votes))
        sums = engine.sweep(ExpectedCounts())
        model = (shrunk_rows(sums.by_worker, SHRINKAGE), sums.class_sizes)
    engine.sweep(Combine(names, weights, by_votes, calibration, model))


def ensemble_fit(engine: Engine, found: Sequence[Fitted]) -> Fitted:
    """Return what several members together say of workers, given the engine's posteriors."""
    sums = engine.sweep(ExpectedCounts())
    return Fitted(
        confusions=shrunk_rows(sums.by_worker, SHRINKAGE),
        class_prior=sums.class_sizes / engine.n_items,
        iterations=sum(one.iterations for one in found),
        stopped=joined_stops(*(one.stopped for one in found)),
    )


def mean_of(
    engine: Engine,
    trials: Sequence[Trial],
    shares: Sequence[float],
    selection: Mapping[str, Any],
    *,
    by_votes: bool = False,
    calibration: Calibration | None = None,
) -> FitResult:
    """Return the weighted mean of fits on all answers, calibrated; the engine keeps it.

    A single one keeps all it knows.
    """
    names = [member_row(trial.candidate.name) for trial in trials]
    whole, here = behind(engine), engine
    if isinstance(whole, MemoryEngine):
        held = {name: trial.posteriors for name, trial in zip(names, trials, strict=True)}
        here = MemoryEngine(whole.labels, held)
    combine(here, names, shares, by_votes=by_votes, calibration=calibration)
    fitted = [trial.fitted for trial in trials]
    joint = fitted[0] if len(fitted) == 1 else ensemble_fit(here, fitted)
    if isinstance(whole, MemoryEngine):
        whole.put(POSTERIORS, np.asarray(here.whole(POSTERIORS)))
        for name in joint.detail_rows:
            whole.put(name, trials[0].rows[name])
    members = [trial.candidate for trial in trials]
    return FitResult.of(whole, joint, members=members, selection=selection, calibration=calibration)


def member_row(name: str) -> str:
    """Return the name of the rows that hold a member's posteriors."""
    return f"posteriors of {name}"


def weighed(
    work: CrossValidation, scores: Sequence[Score]
) -> tuple[list[Score], list[float], dict[str, Any]]:
    """Return the pure methods that count, their weights, and the reasons so far.

    If the null is unbeaten, the best has all the weight.
    """
    null, workers, one_label = work.null, work.workers, work.one_label
    whole = [score for score in scores if score.n_folds == work.n_folds]
    leads = [float((score.best - null).mean()) for score in whole]
    best = whole[int(np.argmax(leads))]
    ahead = lead(best.best, null, workers)
    beaten = not holdout_uninformative(float(best.best.mean()) - work.blind, ahead, one_label)
    if beaten and ahead < SIGNIFICANT:
        warn_of_luck(ahead)
    found = zip(whole, weights(leads), strict=True) if beaten else [(best, 1.0)]
    chosen = {score.candidate.name: weight for score, weight in found}
    kept = [score for score in scores if chosen.get(score.candidate.name, 0.0) > 0.0]
    reasons: dict[str, Any] = {
        "null": {
            "score": round(float(null.mean()), 6),
            "beaten": beaten,
            "one_label_share": round(one_label, 6),
        },
        "pure": pure_table(scores, null, workers, chosen),
        "completed": [],
        "fallback": None,
        "ahead_of_earlier": None,
        "cut_short": False,
    }
    return kept, [chosen[score.candidate.name] for score in kept], reasons


def warn_of_time(left_out: Sequence[str]) -> None:
    """Say what a time budget left out, if anything."""
    if left_out:
        said = ", ".join(left_out)
        warnings.warn(f"the time budget left no time for {said}", MiscWarning, stacklevel=4)


def warn_of_luck(ahead: float) -> None:
    warnings.warn(
        "what methods know of items beyond each worker's own label shares may be luck "
        f"({ahead:.2f} standard errors; {SIGNIFICANT:.0f} would not be): few workers give most of "
        "the answers, or they hardly look at the items",
        MiscWarning,
        stacklevel=4,
    )


def warn_of_the_null(fallback: Method, one_label: float) -> None:
    """Say why the votes decide; `one_label` is the share of workers who only ever say one label."""
    warnings.warn(
        f"{why_votes(one_label)}: the votes decide, and {fallback.name} where they are tied; "
        "if workers abstain on purpose, as labelling functions do, try --missing informative",
        MiscWarning,
        stacklevel=4,
    )
