"""Fit one method on one fold, forecast the held-out answers, and score the forecast.

A method is a pure aggregator, or a completer whose trajectory gives a candidate after each of
several passes. A candidate's labelling is scored in three views, each a log probability per hidden
answer:
    own    the fitted model's own forecast (ebcc's subtypes, mmce's difficulty count here)
    soft   Σ_c posterior[c] · confusion[c, answer], confusions re-estimated from the posteriors,
           which are tempered, because calibration will repair overconfidence
    hard   given the one label we would write; the only fair one for completed labels, whose
           posteriors rest on invented answers and are all but certain
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from misc_cli.aggregators.confusion_kernels import confusions_of
from misc_cli.completers.parameters import DEFAULT_LOOP, Loop
from misc_cli.data.holdout import FLOOR, Triplets, log_score
from misc_cli.data.posteriors import harden
from misc_cli.data.types import (
    Aggregation,
    Aggregator,
    Completer,
    Floats,
    Iteration,
    Labels,
    Lighten,
    OnIteration,
    without_posteriors,
)
from misc_cli.engines.protocol import Fitted
from misc_cli.errors import MiscWarning
from misc_cli.selection.calibration import TEMPERATURES, temper
from misc_cli.selection.dependence_check import SHRINKAGE
from misc_cli.selection.worker_pool import NO_DEADLINE, Deadline

# Instead of SHRINKAGE where the counts are whole.
HARD_SHRINKAGE = 1.0


@dataclass(frozen=True)
class Method:
    """A pure aggregator, or a completer with the passes after which it is judged.

    `preset` is the one that the parameters come from. `early_stopped` marks a method that
    is defined by its few iterations, so that they are no lack of convergence. `also` are other last
    steps of the loop that it may have.
    """

    name: str
    aggregator: Aggregator
    completer: Completer | None = None
    loop: Loop = DEFAULT_LOOP
    judged_after: tuple[int, ...] = ()
    preset: str = "robust"
    early_stopped: bool = False
    also: tuple[str, ...] = ()

    @property
    def variants(self) -> list[Method]:
        """The method, and the same with each of the other last steps that it may have."""
        others = [
            replace(self, name=f"{self.name} {last}", loop=replace(self.loop, final=last), also=())
            for last in self.also
        ]
        return [self, *others]

    @property
    def passes(self) -> tuple[int, ...]:
        return self.judged_after or (self.loop.passes,)

    @property
    def calibratable(self) -> bool:
        """Return False if the posteriors are calibrated already or rest on completed answers.

        Hidden answers cannot calibrate labels of completed ones (on web the calibration error of
        a vote of completed candidates is 0.03 as it is, 0.25 tempered).
        """
        if self.completer is None:
            return getattr(self.aggregator, "calibratable", True)
        return self.loop.final != "completed"

    @property
    def has_worker_model(self) -> bool:
        """Return True if the fit models what workers answer, as the dependence check needs."""
        return self.calibratable and not self.early_stopped


@dataclass(frozen=True)
class Candidate:
    """A method after a number of passes (0 for a pure one)."""

    method: Method
    passes: int = 0

    @property
    def name(self) -> str:
        times = f" × {self.passes}" if self.passes else ""
        return f"{self.method.name}{times}"


@dataclass(frozen=True)
class Trial:
    """A candidate fitted on the answers that were kept.

    aggregation   without its predictor, which would copy the whole model between processes
    views         name → log scores, (n_hidden,); "soft" has a row per temperature; empty when
                  nothing was hidden
    records       the iterations, lightened; of the last fit only
    warnings      text and category of the warnings of that fit
    """

    candidate: Candidate
    aggregation: Aggregation | Fitted
    views: dict[str, Floats]
    records: list[Iteration]
    warnings: list[tuple[str, type[Warning]]]
    seconds: float

    @property
    def in_memory(self) -> Aggregation:
        """The fit of a trial whose posteriors are here, not on an engine."""
        assert isinstance(self.aggregation, Aggregation)
        return self.aggregation

    @property
    def posteriors(self) -> Floats:
        return self.in_memory.posteriors


def fits(
    method: Method,
    labels: Labels,
    initial: Floats | None,
    on_iteration: OnIteration,
    whole: Aggregation | None = None,
) -> Iterator[tuple[Candidate, Aggregation]]:
    """Fit the candidates of a method.

    `initial` (the aggregator's posteriors) saves a completer one fit; `whole` (the fit on all
    answers) is the start of an aggregator that has `refit_subset`.
    """
    if method.completer is None:
        refit = getattr(method.aggregator, "refit_subset", None)
        if whole is not None and refit is not None:
            yield Candidate(method), refit(labels, whole)
        else:
            yield Candidate(method), method.aggregator(labels, on_iteration)
        return
    from misc_cli.completers.completion_loop import (
        aggregate_pass,
        check_memory,
        start,
        trajectory,
    )

    loop = method.loop
    check_memory(labels, method.completer, loop)
    if initial is None or loop.start is not None:
        initial = (loop.start or method.aggregator)(labels, on_iteration).posteriors
    first = start(labels, initial)
    for after in trajectory(first, method.completer, max(method.passes), loop.slice, on_iteration):
        if after.number in method.passes:
            found = aggregate_pass(
                after,
                method.aggregator,
                final=loop.final,
                max_cells=loop.max_cells,
                on_iteration=on_iteration,
            )
            yield Candidate(method, after.number), found


def try_method(
    method: Method,
    labels: Labels,
    hidden: Triplets | None,
    initial: Floats | None = None,
    lighten: Lighten = without_posteriors,
    whole: Aggregation | None = None,
    deadline: Deadline = NO_DEADLINE,
) -> list[Trial]:
    """Fit and score the candidates of a method on one fold; without `hidden`, on all answers.

    An aggregator that has `cv_variant` uses that variant to forecast held-out answers. At the
    deadline the fit ends after its current iteration, with OutOfTime.
    """
    last = hidden is None
    stand_in = method.aggregator if last else getattr(method.aggregator, "cv_variant", None)
    tried = replace(method, aggregator=stand_in or method.aggregator)
    trials = []
    records: list[Iteration] = []
    started = time.perf_counter()

    def observe(iteration: Iteration) -> None:
        deadline.check()
        if last:
            records.append(lighten(iteration))

    with warnings.catch_warnings(record=True) as caught:
        if last:
            warnings.simplefilter("always", MiscWarning)
        else:
            warnings.simplefilter("ignore")  # a trial that does not converge is scored as it is
        for candidate, found in fits(tried, labels, initial, observe, whole):
            views = {} if hidden is None else _views(labels, found, hidden)
            light = found if last else replace(found, predictor=None)
            if method.early_stopped:
                light = replace(light, stopped={})
            spent = time.perf_counter() - started
            said = [(str(warning.message), warning.category) for warning in caught]
            named = replace(candidate, method=method)
            trials.append(Trial(named, light, views, list(records), said, spent))
    return trials


def hard_score(labels: Labels, posteriors: Floats, hidden: Triplets) -> Floats:
    """Return the log score of each held-out answer given the label we would write, (n_hidden,)."""
    top = posteriors.argmax(axis=1)
    rows = confusions_of(labels, harden(posteriors), HARD_SHRINKAGE)
    return log_score(rows[hidden.workers, top[hidden.items]], hidden)


def _views(labels: Labels, found: Aggregation, hidden: Triplets) -> dict[str, Floats]:
    return {
        "own": log_score(found.predict(hidden.workers, hidden.items), hidden),
        "soft": soft_scores(labels, found.posteriors, hidden),
        "hard": hard_score(labels, found.posteriors, hidden),
    }


def soft_scores(labels: Labels, posteriors: Floats, hidden: Triplets) -> Floats:
    """Return the log scores of held-out answers, (len(TEMPERATURES), n_hidden)."""
    said = confusions_of(labels, posteriors, SHRINKAGE)[hidden.workers, :, hidden.classes]
    return tempered_scores(posteriors[hidden.items], said)


def tempered_scores(of_items: Floats, said: Floats) -> Floats:
    """Return `soft_scores` from the items' posteriors and the answers' likelihoods, (n, K) both."""
    return np.stack(
        [
            np.log(np.maximum(np.einsum("pc,pc->p", temper(of_items, at), said), FLOOR))
            for at in TEMPERATURES
        ]
    )
