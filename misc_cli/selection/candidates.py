"""Methods: what is fitted, judged by held-out answers, and chosen; the roster.

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
from dataclasses import dataclass, replace
from typing import Any

from misc_cli import registry
from misc_cli.aggregators.methods import EnhancedBcc
from misc_cli.completers.parameters import DEFAULT_LOOP, RANK_OPTIONS, Loop, check_ranks
from misc_cli.data.parameters import flag
from misc_cli.data.types import Aggregator, Completer, Floats, OnIteration
from misc_cli.engines.local import solved
from misc_cli.engines.protocol import Engine, Fitted
from misc_cli.errors import ConfigError


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
        initial=initial,
        on_iteration=on_iteration,
    ).fitted


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
