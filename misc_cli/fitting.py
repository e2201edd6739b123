"""From labels to posteriors: the methods as given, or an automatic choice; then calibration."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from misc_cli import registry
from misc_cli.errors import MiscWarning
from misc_cli.settings import AUTO_COMPLETER, BASELINE, LOOP_OPTIONS, Methods, Settings
from misc_cli.types import Aggregation, Labels, OnIteration

# Below this many answers a choice would be luck: a tenth of them, hidden, proves nothing.
MIN_ANSWERS = 1_000


@dataclass(frozen=True)
class Fit:
    """The final aggregation and what led to it.

    `loop` says how the complete ⇄ slice loop ended, `selection` what an automatic choice looked
    at and took, `calibration` what the posteriors were softened by (None: raw).
    """

    aggregation: Aggregation
    loop: Mapping[str, Any] | None = None
    selection: Mapping[str, Any] | None = None
    calibration: Mapping[str, float] | None = None


def fit(labels: Labels, settings: Settings, methods: Methods, on_iteration: OnIteration) -> Fit:
    """Everything between encoding and deciding."""
    selection = None
    if methods.automatic:
        if labels.votes.n_votes >= MIN_ANSWERS:
            return _searched(labels, settings, methods, on_iteration)
        methods, selection = _too_few_to_choose(settings, methods)
    found = replace(_fixed(labels, methods, on_iteration), selection=selection)
    # Posteriors of completed labels rest on invented answers: real ones cannot calibrate them.
    invented = found.loop is not None and found.loop["settings"]["final"] == "completed"
    pure = found.loop is None
    plain = pure and not getattr(methods.aggregator, "calibratable", True)
    if invented or plain or not settings.calibrate:
        return found
    return _calibrated(found, labels, settings, methods)


def _too_few_to_choose(settings: Settings, methods: Methods) -> tuple[Methods, dict[str, Any]]:
    """The baseline in place of a choice, completion only where its ranks are given."""
    name = BASELINE if methods.aggregator is None else settings.aggregator
    aggregator = methods.aggregator or registry.create(
        "aggregator", name, settings.preset, **methods.roster_options
    )
    completer = None if methods.search_ranks else methods.completer
    why = f"fewer than {MIN_ANSWERS:,} answers cannot tell methods apart"
    settled = replace(methods, aggregator=aggregator, completer=completer)
    return settled, {"chosen": [name], "why": why}


def _fixed(labels: Labels, methods: Methods, on_iteration: OnIteration) -> Fit:
    assert methods.aggregator is not None
    if methods.completer is None:
        return Fit(methods.aggregator(labels, on_iteration))
    from misc_cli.mixing import mix

    defaults = inspect.signature(mix).parameters
    loop = {name: defaults[name].default for name in LOOP_OPTIONS.values()} | methods.loop
    mixture = mix(labels, methods.completer, methods.aggregator, **loop, on_iteration=on_iteration)
    if mixture.merged:
        warnings.warn(
            f"the completed matrix is larger than --max-cells: {mixture.n_completed_workers:,} "
            f"workers were grouped into {mixture.columns:,}",
            MiscWarning,
            stacklevel=3,
        )
    ended = {
        "settings": {name: value for name, value in loop.items() if name != "starter"},
        "ranks": mixture.ranks,
        "passes": mixture.passes,
        "converged": mixture.converged,
        "completed_workers": mixture.n_completed_workers,
        "columns": mixture.columns,
    }
    return Fit(mixture.aggregation, ended)


def _calibrated(found: Fit, labels: Labels, settings: Settings, methods: Methods) -> Fit:
    from misc_cli.select.search import calibration_of
    from misc_cli.select.trial import Method

    name, aggregator = settings.aggregator, methods.aggregator
    if methods.completer is None or found.loop is None:
        method = Method(name, aggregator)
    else:
        made = (found.loop["passes"],)
        method = Method.looped(name, aggregator, methods.completer, methods.loop, made)
    calibration = calibration_of(method, labels, settings.seed)
    posteriors = calibration(found.aggregation.posteriors, labels.gold)
    aggregation = replace(found.aggregation, posteriors=posteriors)
    return replace(found, aggregation=aggregation, calibration=asdict(calibration))


def _searched(
    labels: Labels, settings: Settings, methods: Methods, on_iteration: OnIteration
) -> Fit:
    from misc_cli.select import plan
    from misc_cli.select.search import search
    from misc_cli.select.trial import Method

    seed, preset = settings.seed, settings.preset
    if methods.aggregator is None:
        pure = plan.roster(labels, preset, methods.roster_options, seed)
        final = registry.create("aggregator", BASELINE, preset)
    else:
        pure = [Method(settings.aggregator, methods.aggregator)]
        final = methods.aggregator
    completed: list[Method] = []
    if methods.completer is not None:
        name = settings.completer_name if settings.completer else AUTO_COMPLETER
        completed = plan.completions(
            labels, name, methods.completer, final, methods.loop, methods.search_ranks
        )
    found = search(
        labels,
        pure,
        completed,
        calibrate=settings.calibrate,
        forced=not methods.search_ranks,
        seed=seed,
        time_budget=settings.time_budget,
        on_iteration=on_iteration,
    )
    calibration = asdict(found.calibration) if settings.calibrate else None
    return Fit(found.aggregation, selection=found.selection, calibration=calibration)
