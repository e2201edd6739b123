"""The result of a fit, and the calibrated mean of several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any

import numpy as np

from misc_cli.aggregators.confusion_kernels import expected_sums, shrunk_rows
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
    SumOver,
    WriteRows,
)
from misc_cli.engines.views import behind
from misc_cli.selection.calibration import (
    SHRINKAGE,
    Calibration,
    evidence_of_votes,
    mixed,
    pool,
    shares_of,
    voted,
)
from misc_cli.selection.candidates import Method, Trial


@dataclass(frozen=True, kw_only=True)
class FitResult(Fitted):
    """The result of a fit; the posteriors are rows of the engine.

    engine        holds the votes and the posteriors (`POSTERIORS`)
    members       the methods that a choice took
    selection     what an automatic choice looked at and took, with its weights; goes into run.json
                  as it is; empty if nothing was to choose
    calibration   what the posteriors were softened by; None: they are raw
    loop          how the complete ⇄ slice loop ended
    """

    engine: AnswerEngine
    members: Sequence[Method] = ()
    selection: Mapping[str, Any] = field(default_factory=dict)
    calibration: Calibration | None = None
    loop: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, engine: AnswerEngine, fitted: Fitted, **more: Any) -> FitResult:
        """Return the result of a method whose posteriors are on the engine."""
        own = {each.name: getattr(fitted, each.name) for each in fields(Fitted)}
        return cls(engine=engine, **{**own, "predictor": None}, **more)

    @property
    def posteriors(self) -> Floats:
        """Return the posteriors of a fit in memory, (n_items, n_classes)."""
        return np.asarray(self.engine.whole(POSTERIORS))


def combined(
    block: Block,
    rows: RowArrays,
    members: Sequence[str],
    shares: Sequence[float],
    by_votes: bool,
    softer: Calibration | None = None,
    model: tuple[Floats, Floats] | None = None,
) -> tuple[RowArrays, int]:
    """Make the posteriors that are written from the rows of members; see `combine`.

    `model` (confusions, class sizes) tells what the given answers say where the calibration rests
    on them.
    """
    each = [np.asarray(rows[name]) for name in members]
    posteriors: Floats = np.average(each, axis=0, weights=shares)
    if by_votes:
        posteriors = voted(block.class_totals(), posteriors)
    if softer is not None:
        votes = shares_of(block.class_totals()) if softer.votes > 0.0 else None
        pooled = pool(each, shares) if len(each) > 1 else None
        if model is not None:
            pooled = evidence_of_votes(block.matrix, *model)
            posteriors = mixed(posteriors, pooled, 1.0)
        posteriors = softer.soften(posteriors, votes, pooled)
    if GOLD in rows:
        clamp(posteriors, rows[GOLD])
    return {POSTERIORS: posteriors}, 0


def combine(
    engine: Engine,
    members: Sequence[str],
    shares: Sequence[float],
    *,
    by_votes: bool = False,
    calibration: Calibration | None = None,
) -> None:
    """Write the weighted mean of members' rows as the engine's posteriors.

    With `by_votes` the votes decide, and the mean breaks their ties; the calibration softens them.
    """
    mean = partial(combined, members=members, shares=shares, by_votes=by_votes)
    if calibration is not None:
        model = None
        if calibration.evidence:
            engine.sweep(WriteRows(mean, tuple(members), (POSTERIORS,)))
            sums = engine.sweep(SumOver(expected_sums))
            model = (shrunk_rows(sums.by_worker, SHRINKAGE), sums.class_sizes)
        mean = partial(mean, softer=calibration, model=model)
    engine.sweep(WriteRows(mean, tuple(members), (POSTERIORS,)))


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
    names = [member_row(trial.method.name) for trial in trials]
    whole, here = behind(engine), engine
    if isinstance(whole, MemoryEngine):
        held = {name: trial.posteriors for name, trial in zip(names, trials, strict=True)}
        here = MemoryEngine(whole.labels, held)
    combine(here, names, shares, by_votes=by_votes, calibration=calibration)
    fitted = [trial.fitted for trial in trials]
    joint = fitted[0]
    if len(fitted) > 1:  # what they say of workers together
        sums = here.sweep(SumOver(expected_sums))
        joint = Fitted(
            confusions=shrunk_rows(sums.by_worker, SHRINKAGE),
            class_prior=sums.class_sizes / here.n_items,
            iterations=sum(one.iterations for one in fitted),
            stopped=joined_stops(*(one.stopped for one in fitted)),
        )
    if isinstance(whole, MemoryEngine):
        whole.arrays[POSTERIORS] = np.asarray(here.whole(POSTERIORS))
    members = [trial.method for trial in trials]
    return FitResult.of(whole, joint, members=members, selection=selection, calibration=calibration)


def member_row(name: str) -> str:
    """Return the name of the rows that hold a member's posteriors."""
    return f"posteriors of {name}"
