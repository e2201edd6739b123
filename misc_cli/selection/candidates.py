"""Methods: what is fitted, judged by held-out answers, and chosen; their scores; the roster.

A method's labelling is scored in three views, each a log probability per hidden answer:
    own    the fitted model's own forecast (ebcc's subtypes, mmce's difficulty count here)
    soft   Σ_c posterior[c] · confusion[c, answer], confusions re-estimated from the posteriors,
           which are tempered, because calibration will repair overconfidence
    hard   given the one label we would write; the only fair one for completed labels, whose
           posteriors rest on invented answers and are all but certain
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from misc_cli import registry
from misc_cli.aggregators.methods import EnhancedBcc
from misc_cli.completers.parameters import DEFAULT_LOOP, RANK_OPTIONS, Loop, check_ranks
from misc_cli.data.parameters import flag
from misc_cli.data.types import Aggregator, Codes, Completer, Floats, Iteration, OnIteration
from misc_cli.engines.local import solved
from misc_cli.engines.protocol import Engine, Fitted
from misc_cli.errors import ConfigError
from misc_cli.quality.evidence import ONE_LABEL_SHARE


@dataclass(frozen=True)
class Method:
    """A pure aggregator, or a completer with its loop.

    `preset` is the one that the parameters come from. `early_stopped` marks a method that
    is defined by its few iterations, so that they are no lack of convergence. `other` is the same
    completion with another last step, which hidden answers may choose instead.
    """

    name: str
    aggregator: Aggregator
    completer: Completer | None = None
    loop: Loop = DEFAULT_LOOP
    preset: str = "robust"
    early_stopped: bool = False
    other: Method | None = None

    @property
    def calibratable(self) -> bool:
        """Return False if the posteriors are calibrated already or rest on completed answers.

        Hidden answers cannot calibrate labels of completed ones (on web the calibration error of
        a vote of completed candidates is 0.03 as it is, 0.25 tempered).
        """
        if self.completer is None:
            return getattr(self.aggregator, "calibratable", True)
        return self.loop.final != "completed"


def fit(
    method: Method,
    engine: Engine,
    on_iteration: OnIteration,
    initial: Floats | None = None,
    whole: Fitted | None = None,
) -> Fitted:
    """Fit a method; the engine has its posteriors.

    `initial` (the aggregator's posteriors, in memory) saves a completer one fit; `whole` (the fit
    on all answers) is the start of an aggregator that has `refit_subset`.
    """
    aggregator, loop = method.aggregator, method.loop
    if method.completer is None:
        found = solved(aggregator, engine, on_iteration, whole)
        # one that stops when it should has no loop that stopped too early
        return replace(found, stopped={}) if method.early_stopped else found
    from misc_cli.completers.completion_loop import run_loop

    return run_loop(
        engine,
        method.completer,
        aggregator,
        loop,
        tol=0.0,
        initial=None if loop.start else initial,
        on_iteration=on_iteration,
    ).fitted


# How many standard errors make a difference. Two would let one candidate in twenty through by
# luck, and there are dozens of them.
SIGNIFICANT = 3.0
FILLED = "missing answers filled in first"  # what completion is, in the words of the summary
# A method counts fully from this share of the best lead, and not at all below that one: one winner
# would be a lottery ticket, and between neighbours a sharp limit would be one too.
FULL_SHARE = 0.97
NO_SHARE = 0.93


def standard_error(values: Floats, workers: Codes) -> float:
    """Of the mean of (n,) values, those of a worker taken as one observation (a cluster).

    A worker's answers resemble each other: as if independent, they would prove too much.
    """
    sizes = np.bincount(workers)
    n_workers = int((sizes > 0).sum())
    if n_workers < 2:
        return float("inf")
    sums = np.bincount(workers, values - values.mean())
    return float(np.sqrt((sums**2).sum() * n_workers / (n_workers - 1)) / len(values))


def lead(ahead: Floats, behind: Floats, workers: Codes) -> float:
    """By how many standard errors of the paired difference the first is ahead.

    The first may have seen the first folds only; the others are cut to what it saw.
    """
    count = len(ahead)
    difference = ahead - behind[:count]
    error = standard_error(difference, workers[:count])
    if error == 0.0:
        return float(np.sign(difference.mean()) * np.inf) if difference.any() else 0.0
    return float(difference.mean() / error)


def holdout_uninformative(mean_lead: float, errors: float, one_label: float) -> bool:
    """Tell whether hidden answers say nothing of items, so that the votes decide.

    Given the best mean lead over what forecasts best without the item (a worker's label shares, or
    the crowd's), that over the null in standard errors, and the share of answers by workers who
    only ever say one label. A lead that may be luck is not enough: where few workers
    give most of the answers it never is above that, and methods still serve better than votes.
    """
    lucky = errors < SIGNIFICANT and one_label > ONE_LABEL_SHARE / 2.0
    return mean_lead <= 0.0 or one_label > ONE_LABEL_SHARE or lucky


def weights(leads: Sequence[float]) -> list[float]:
    """Return weights, which sum to 1, from mean leads over the null; the best is above 0."""
    shares = np.asarray(leads) / max(leads)
    counted = np.clip((shares - NO_SHARE) / (FULL_SHARE - NO_SHARE), 0.0, 1.0)
    return [float(weight) for weight in counted / counted.sum()]


@dataclass(frozen=True)
class Trial:
    """A method fitted on the answers of a fold that are kept, or on all.

    fitted    without its predictor, which would copy the whole model between processes
    posteriors  of all items in memory, else of the items of hidden answers; of a whole fit
              that is not in memory none, (0, 0)
    views     name → log scores, (n_hidden,); "soft" has a row per temperature; empty when
              nothing was hidden
    counts    expected, of the kept answers of a fold, where they do not follow from these
    records   the iterations, lightened; of the last fit only
    warnings  text and category of the warnings of that fit
    """

    method: Method
    fitted: Fitted
    posteriors: Floats
    views: Mapping[str, Floats] = field(default_factory=dict)
    counts: Floats | None = None
    records: Sequence[Iteration] = ()
    warnings: Sequence[tuple[str, type[Warning]]] = ()
    seconds: float = 0.0


@dataclass(frozen=True, eq=False)
class Score:
    """A method on the folds that it saw, in order; `whole` is its fit on all answers, if any."""

    method: Method
    trials: Sequence[Trial]
    whole: Trial | None = None

    @cached_property
    def views(self) -> Mapping[str, Floats]:
        """The log scores of all hidden answers that it saw, by view."""
        each = [trial.views for trial in self.trials]
        return {view: np.concatenate([one[view] for one in each], axis=-1) for view in each[0]}

    @property
    def hard(self) -> Floats:
        """The scores of the labels that it would write, (n_hidden,)."""
        return self.views["hard"]

    @cached_property
    def best(self) -> Floats:
        """The scores of the better view, (n_hidden,): the own forecast, or tempered posteriors."""
        soft = self.views["soft"]
        tempered: Floats = soft[int(soft.mean(axis=1).argmax())]
        return max(self.views["own"], tempered, key=lambda scores: float(scores.mean()))

    @property
    def seconds(self) -> float:
        fits = [*self.trials, *([] if self.whole is None else [self.whole])]
        return sum(fit.seconds for fit in fits)

    def row(
        self, values: Floats, workers: Codes, ahead: float, weights: Mapping[str, float]
    ) -> dict[str, Any]:
        """Return the score as a row of run.json, by these values of the hidden answers."""
        name = self.method.name
        return {
            "candidate": name,
            "score": round(float(values.mean()), 6),
            "standard_error": round(standard_error(values, workers[: len(values)]), 6),
            "folds": len(self.trials),
            "seconds": round(self.seconds, 3),
            "lead": round(ahead, 6),
            "weight": round(weights.get(name, 0.0), 6),
            "chosen": weights.get(name, 0.0) > 0.0,
        }


def parameters(methods: Sequence[Method]) -> dict[str, dict[str, Any]]:
    """Every method's preset and parameters as they ended up, by name, for run.json."""
    resolved = {}
    for method in methods:
        parts = ("aggregator", "completer", "loop") if method.completer else ("aggregator",)
        own = {part: asdict(getattr(method, part)) for part in parts}
        resolved[method.name] = {"preset": method.preset, **own}
    return resolved


def why_votes(one_label: float, fallback: str) -> str:
    """Say why the votes decide, given the share of one-label workers' answers."""
    cause = (
        "no method forecasts hidden answers better than each worker's own label shares, so that "
        "answers say little of items"
    )
    if one_label > ONE_LABEL_SHARE / 2.0:
        cause = (
            f"{100 * one_label:.0f} % of the answers are by workers who only ever say one label, "
            "so what they say does not tell items apart"
        )
    return f"{cause}: the votes decide, and {fallback} where they are tied"


def why(reasons: Mapping[str, Any], left_out: Sequence[str]) -> str:
    """The choice in words; for `left_out` there was no time."""
    if reasons.get("ahead_of_earlier") is not None:
        return (
            f"{', '.join(reasons['chosen'])} as before: what forecasts hidden answers best is not "
            f"clearly better ({reasons['ahead_of_earlier']:.1f} standard errors; "
            f"{SIGNIFICANT:.0f} are asked for)"
        )
    rows = reasons["completed"]
    best = max((row["lead"] for row in rows), default=0.0)
    if any(row["chosen"] for row in rows):
        return (
            "completed labels forecast hidden answers better than the mean of the others "
            f"(ahead by {best:.1f} standard errors)"
        )
    kept = [row["candidate"] for row in reasons["pure"] if row["chosen"]]
    if reasons["fallback"]:
        pure = why_votes(reasons["null"]["one_label_share"], reasons["fallback"])
    elif len(kept) == 1:
        pure = f"{kept[0]} forecasts hidden answers best"
    else:
        pure = f"{', '.join(kept)} forecast hidden answers about equally well"
    if left_out:
        pure += f"; there was no time for {', '.join(left_out)}"
    if not rows:
        return pure
    tried = f"they do {'worse' if best < 0.0 else 'better'} by {abs(best):.1f} standard errors"
    return f"{pure}; with {FILLED} {tried} ({SIGNIFICANT:.0f} ahead are needed)"


# Methods that fail on different data: ds-em estimates the class prior; its first two steps stay
# near the votes, which serves where workers err together; one-coin has one number per worker; mmce
# holds the class prior uniform and lets items differ; ebcc lets workers err together. The first is
# what completion builds on. Each has its registered name, a preset, and what differs from that.
Entry = tuple[str, str, Mapping[str, Any]]
ROSTER: dict[str, Entry] = {
    "ds-em": ("ds-em", "robust", {}),
    "ds-em(2)": ("ds-em", "robust", {"max_iter": 2, "tol": 0.0}),
    "one-coin": ("one-coin", "robust", {}),
    "mv": ("mv", "robust", {}),
    "ebcc": ("ebcc", "paper", {}),
    "mmce-c": ("mmce-c", "paper", {}),
}
# Where there are too few answers to choose, these are averaged: they have little to get wrong.
FEW = ("mv", "one-coin", "ds-em(2)")
# Keeps classes and labels together where answers say nothing of items: uniform class prior, weight
# on the diagonal.
FALLBACK: Entry = ("ds-mf", "paper", {})
# Enough for a vote among others; the method by itself makes more.
RESTARTS = 8
# What a method that judges slowly may cost: numbers that one sweep over the answers touches.
MOST_WORK = {"ebcc": 5_000_000, "mmce-c": 1_000_000}
# A completed candidate costs time by the cells of its matrix, and by the numbers of its factors:
# with 100 classes these are more. A completer that was asked for may take the larger number.
MAX_COMPLETED_CELLS = 1 << 27
MAX_TRIED_CELLS = 1 << 20

WORKER_RANKS = (2, 3, 5, 10)
CP_RANKS = (1, 2, 4, 8)
# After two passes the slice still moves; after four it hardly gains.
PASSES = 4
# Hidden answers judge the quick last step; it tells sooner than the paper's whether to complete.
FINAL = "answers"
# The paper's last step: where completing gains at all, it gains more.
OTHER_FINAL = "completed"


def roster(engine: Engine, preset: str, options: Mapping[str, Any], seed: int) -> list[Method]:
    """The pure methods worth trying on these answers; options go to those that have them."""
    entries = {name: entry for name, entry in ROSTER.items() if _worth_trying(entry[0], engine)}
    taken = {key for entry in entries.values() for key in registry.settings("aggregator", entry[0])}
    unknown = options.keys() - taken
    if unknown:
        first = flag(min(unknown))
        raise ConfigError(f"{first} applies to none of {', '.join(entries)}; name an --aggregator")
    return [_made(name, entry, preset, options, seed) for name, entry in entries.items()]


def fallback(preset: str, seed: int) -> Method:
    """Return the method that joins the votes where no method forecasts better than the null."""
    return _made(FALLBACK[0], FALLBACK, preset, {}, seed)


def _made(name: str, entry: Entry, preset: str, options: Mapping[str, Any], seed: int) -> Method:
    """Return a method of the roster with those of the options that it has."""
    aggregator, own_preset, differs = entry
    under = own_preset if preset == "robust" else preset
    fields = registry.settings("aggregator", aggregator, under)
    given = {"seed": seed, "restarts": RESTARTS, **options}
    taken = {key: value for key, value in given.items() if key in fields}
    made = registry.create("aggregator", aggregator, under, **{**taken, **differs})
    return Method(name, made, preset=under, early_stopped=bool(differs))


def _worth_trying(name: str, engine: Engine) -> bool:
    """Tell whether a method is cheap enough here and its model can be told from the answers."""
    n_answers, n_workers, n_classes = engine.n_votes, engine.n_workers, engine.n_classes
    if name == "mmce-c":
        # a Newton step solves for K² numbers of every worker and item
        return (n_answers + n_workers * n_classes) * n_classes**2 <= MOST_WORK[name]
    if name == "ebcc":
        subtypes = n_classes * EnhancedBcc.subtypes
        work = (n_answers + n_workers * n_classes) * subtypes
        # A mixture of so many subtypes can be told from the answers of W workers in K classes only
        # if W ≥ 2⌈log_K subtypes⌉ + 1 (Allman, Matias & Rhodes 2009, Annals of Statistics).
        needed = 2 * math.ceil(math.log(subtypes, max(n_classes, 2))) + 1
        return work <= MOST_WORK[name] and n_workers >= needed
    return True


def completions(
    engine: Engine,
    name: str,
    completer: Any,
    aggregator: Aggregator,
    loop: Mapping[str, Any],
    preset: str = "robust",
    max_cells: int = MAX_COMPLETED_CELLS,
) -> list[Method]:
    """Return one method per rank of a completer.

    `loop` holds what is given of its parameters; the methods were made under `preset`. A last step
    that is given is the only one.
    """
    shape = (engine.n_workers + 1, engine.n_items, engine.n_classes)
    if shape[0] * shape[1] > max_cells:
        return []
    from misc_cli.completers.completion_loop import check_memory

    rank_fields = [field for field in RANK_OPTIONS if hasattr(completer, field)]
    sizes: dict[str, Sequence[Any]] = {"ranks": tucker_ranks(shape), "cp_rank": CP_RANKS}
    tried = [rank for field in rank_fields for rank in sizes[field]]

    def numbers(rank: Any) -> int:
        """Count those of a pass's factors: items, and workers by class, times the items' rank."""
        of_items: int = rank[1] if isinstance(rank, tuple) else rank
        return (shape[1] + shape[0] * shape[2]) * of_items

    ranks = [rank for rank in tried if numbers(rank) <= max_cells]
    if tried and not ranks:
        return []
    looped = Loop(**{"final": FINAL, "passes": PASSES, **loop})
    methods = []
    for rank in ranks or [None]:
        sized = replace(completer, **dict.fromkeys(rank_fields, rank))
        try:
            check_memory(engine, sized, looped)
        except ConfigError:
            continue  # nobody asked for this rank: the others may fit
        each = rank if isinstance(rank, Sequence) else [rank]
        called = name if rank is None else f"{name}({','.join(map(str, each))})"
        method = Method(f"{called} × {looped.passes}", aggregator, sized, looped, preset)
        if "final" not in loop:
            last = replace(looped, final=OTHER_FINAL)
            name_of_other = f"{called} {OTHER_FINAL} × {looped.passes}"
            method = replace(method, other=replace(method, name=name_of_other, loop=last))
        methods.append(method)
    return methods


def tucker_ranks(shape: tuple[int, int, int]) -> list[tuple[int, int, int]]:
    """(R1, R1·(K − 1), K) for several R1: per worker direction a class profile that sums to 1."""
    n_classes = shape[2]
    found = []
    for r1 in WORKER_RANKS:
        ranks = (r1, max(n_classes, r1 * (n_classes - 1)), n_classes)
        try:
            check_ranks(ranks, shape)
        except ConfigError:  # the data is too small for these
            continue
        found.append(ranks)
    return found


def applicable(engine: Engine) -> list[str]:
    """Every aggregator, other packages' too, but for those that want an order the classes lack."""
    return [
        name
        for name in registry.names("aggregator")
        if engine.ordered or not getattr(registry.load("aggregator", name), "needs_order", False)
    ]
