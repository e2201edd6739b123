"""From labels to posteriors: the methods as given, or an automatic choice; then calibration."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from misc_cli.core.parameters import AUTO, flag
from misc_cli.core.types import Aggregation, Labels, Lighten, OnIteration, without_posteriors
from misc_cli.errors import MiscWarning
from misc_cli.loop.settings import LOOP_OPTIONS, Loop
from misc_cli.run import registry
from misc_cli.run.settings import (
    BASELINE,
    NO_COMPLETER,
    RANK_OPTIONS,
    Methods,
)

if TYPE_CHECKING:
    from misc_cli.loop.driver import Mixture
    from misc_cli.select.calibrate import Calibration
    from misc_cli.select.trial import Candidate


@dataclass(frozen=True)
class Fit:
    """The final aggregation and what led to it.

    `loop` says how the complete ⇄ slice loop ended, `selection` what an automatic choice looked
    at and took, `calibration` what the posteriors were softened by (None: raw), `mixture` what
    the loop returned, `members` those that a choice took.
    """

    aggregation: Aggregation
    loop: Mapping[str, Any] | None = None
    selection: Mapping[str, Any] | None = None
    calibration: Mapping[str, float] | None = None
    mixture: Mixture | None = None
    members: Sequence[Candidate] = ()


def fit(
    labels: Labels,
    methods: Methods,
    on_iteration: OnIteration,
    lighten: Lighten = without_posteriors,
) -> Fit:
    """Everything between encoding and deciding.

    `lighten` is what becomes of a line of diagnostics before it leaves the process it was made in.
    """
    if methods.automatic:
        return _searched(labels, methods, on_iteration, lighten)
    found = fit_named(labels, methods, on_iteration)
    return _calibrated(found, labels, methods) if methods.settings.calibrate else found


def _rank_of_named(methods: Methods) -> str | None:
    """The flag of the rank of a completer that was asked for by its name; None if none was."""
    if methods.settings.completer in (None, NO_COMPLETER, AUTO):
        return None
    return next(flag(name) for name in RANK_OPTIONS if name in methods.resolved["completer"])


def mean_of_members(
    labels: Labels,
    fitted: Mapping[str, Aggregation],
    calibration: Calibration | None,
    selection: Mapping[str, Any],
) -> Fit:
    """The result of methods that were chosen earlier."""
    from misc_cli.select.search import mean_of

    shares = selection.get("weights", {})
    aggregation = mean_of(
        labels,
        list(fitted.values()),
        [shares.get(name, 1.0) for name in fitted],
        by_votes=bool(selection.get("fallback")),
        calibration=calibration,
    )
    softened = None if calibration is None else asdict(calibration)
    return Fit(aggregation, selection=selection, calibration=softened)


def fit_named(labels: Labels, methods: Methods, on_iteration: OnIteration) -> Fit:
    """The methods as they are, without a choice and not calibrated."""
    assert methods.aggregator is not None
    if methods.completer is None:
        return Fit(methods.aggregator(labels, on_iteration))
    from misc_cli.loop.driver import mix

    loop = Loop(**methods.loop)
    mixture = mix(labels, methods.completer, methods.aggregator, loop, on_iteration=on_iteration)
    ended = {
        # whose result started the loop stands among the methods, by name
        "settings": {name: getattr(loop, name) for name in LOOP_OPTIONS if name != "start"},
        "ranks": mixture.ranks,
        "passes": mixture.passes,
        "stopped": mixture.aggregation.stopped["pass"],
        "completed_workers": mixture.n_completed_workers,
        "columns": mixture.columns,
    }
    return Fit(mixture.aggregation, ended, mixture=mixture)


def _calibrated(found: Fit, labels: Labels, methods: Methods) -> Fit:
    from misc_cli.select.search import calibration_of
    from misc_cli.select.trial import Method

    name, aggregator = methods.names["aggregator"], methods.aggregator
    if methods.completer is None or found.loop is None:
        method = Method(name, aggregator)
    else:
        loop = Loop(**{**methods.loop, "passes": found.loop["passes"]})
        method = Method(name, aggregator, methods.completer, loop)
    calibration = calibration_of(method, labels, methods.settings.seed, found.aggregation)
    return calibrated_by(found, labels, calibration)


def calibrated_by(found: Fit, labels: Labels, calibration: Calibration | None) -> Fit:
    """The same with its posteriors softened."""
    if calibration is None:
        return found
    posteriors = calibration(found.aggregation.posteriors, labels)
    aggregation = replace(found.aggregation, posteriors=posteriors)
    return replace(found, aggregation=aggregation, calibration=asdict(calibration))


def _searched(
    labels: Labels,
    methods: Methods,
    on_iteration: OnIteration,
    lighten: Lighten,
) -> Fit:
    from misc_cli.loop.driver import check_memory
    from misc_cli.run import plan
    from misc_cli.select.search import search
    from misc_cli.select.trial import Method

    settings = methods.settings
    seed, preset = settings.seed, settings.preset
    few: list[Method] = []
    if methods.aggregator is None:
        pure = plan.roster(labels, preset, methods.roster_options, seed)
        few = [method for method in pure if method.name in plan.FEW]
        final = registry.create("aggregator", BASELINE, preset)
    else:
        pure = [Method(methods.names["aggregator"], methods.aggregator, preset=preset)]
        final = methods.aggregator
    rank = _rank_of_named(methods)
    completed: list[Method] = []
    if methods.completer is not None:
        name = methods.names["completer"]
        most = plan.MAX_TRIED_CELLS if rank is None else plan.MAX_COMPLETED_CELLS
        completed = plan.completions(
            labels, name, methods.completer, final, methods.loop, preset, most
        )
        if rank is not None and not completed:
            check_memory(labels, methods.completer, Loop(**methods.loop))
    found = search(
        labels,
        pure,
        completed,
        few=few,
        fallback=plan.fallback(preset, seed),
        insist=rank is not None,
        calibrate=settings.calibrate,
        seed=seed,
        time_budget=settings.time_budget,
        on_iteration=on_iteration,
        lighten=lighten,
    )
    if rank is not None and not any(member.passes for member in found.members):
        reason = found.selection["why"] if completed else "the answers are too many to try it on"
        warnings.warn(
            f"--completer {settings.completer} is not used: {reason}; give {rank}",
            MiscWarning,
            stacklevel=3,
        )
    calibration = None if found.calibration is None else asdict(found.calibration)
    return Fit(
        found.aggregation,
        selection=found.selection,
        calibration=calibration,
        members=found.members,
    )
