"""What an automatic choice tries: a roster of pure methods, and ranks sized to the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from misc_cli.completers.tucker.method import check_ranks
from misc_cli.core.parameters import flag
from misc_cli.core.types import Aggregator, Labels
from misc_cli.errors import ConfigError
from misc_cli.loop.driver import check_memory
from misc_cli.loop.settings import Loop
from misc_cli.run import registry
from misc_cli.run.settings import RANK_OPTIONS, Settings, build
from misc_cli.select.trial import Method

# Methods that fail on different data, each under the preset that makes it differ from the others:
# ds-em estimates the class prior, ds-mf and mmce hold it uniform, one-coin has one number per
# worker, ebcc lets workers err together. The first is what completion builds on.
ROSTER: dict[str, str] = {
    "ds-em": "robust",
    "ds-mf": "paper",
    "one-coin": "robust",
    "ebcc": "paper",
    "mmce-c": "paper",
}
# Enough for a vote among others; the method by itself makes more.
RESTARTS = 8
# Above so many answers, or classes, a method takes minutes.
MAX_ANSWERS = {"ebcc": 1_000_000, "mmce-c": 200_000}
MAX_CLASSES = {"ebcc": 50, "mmce-c": 15}
# A completed candidate costs time by the cells of its matrix.
MAX_COMPLETED_CELLS = 1 << 27

WORKER_RANKS = (2, 3, 5, 7, 10, 14)
CP_RANKS = (1, 2, 4, 8)
# After two passes the slice still moves; after six it no longer gains.
PASSES = (4, 6)
# What forecasts decide is the paper's last step: it gains more where it gains at all.
FINAL = "completed"


def roster(labels: Labels, preset: str, options: Mapping[str, Any], seed: int) -> list[Method]:
    """The pure methods worth trying on data of this size; options go to those that have them."""
    n_answers, n_classes = labels.votes.n_votes, labels.n_classes
    names = [
        name
        for name in ROSTER
        if n_answers <= MAX_ANSWERS.get(name, n_answers)
        and n_classes <= MAX_CLASSES.get(name, n_classes)
    ]
    methods = []
    used: set[str] = set()
    for name in names:
        under = ROSTER[name] if preset == "robust" else preset
        fields = registry.settings("aggregator", name, under)
        given = {key: value for key, value in options.items() if key in fields}
        used |= given.keys()
        own = {"seed": seed, "restarts": RESTARTS}
        resolved = {key: value for key, value in own.items() if key in fields} | given
        made = registry.create("aggregator", name, under, **resolved)
        methods.append(Method(name, made, preset=under))
    unknown = options.keys() - used
    if unknown:
        first = flag(min(unknown))
        raise ConfigError(f"{first} applies to none of {', '.join(names)}; name an --aggregator")
    return methods


def completions(
    labels: Labels,
    name: str,
    completer: Any,
    aggregator: Aggregator,
    loop: Mapping[str, Any],
    preset: str = Settings.preset,
) -> list[Method]:
    """One method per rank of a completer; each is judged after several numbers of passes.

    `loop` holds what is given of its parameters; the methods were made under `preset`.
    """
    shape = (labels.n_workers + 1, labels.n_items, labels.n_classes)
    if shape[0] * shape[1] > MAX_COMPLETED_CELLS:
        return []
    field = next(field for field in RANK_OPTIONS if hasattr(completer, field))
    ranks: Sequence[Any] = tucker_ranks(shape) if field == "ranks" else CP_RANKS
    looped = Loop(**{"final": FINAL, **loop})
    judged_after = () if "passes" in loop else PASSES
    methods = []
    for rank in ranks:
        sized = replace(completer, **{field: rank})
        try:
            check_memory(labels, sized, looped)
        except ConfigError:  # nobody asked for this rank: the others may fit
            continue
        methods.append(Method(_name(name, rank), aggregator, sized, looped, judged_after, preset))
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


def _name(completer: str, rank: int | Sequence[int]) -> str:
    numbers = rank if isinstance(rank, Sequence) else [rank]
    return f"{completer}({','.join(map(str, numbers))})"


def applicable(labels: Labels) -> list[str]:
    """Every aggregator, other packages' too, but for those that want an order the classes lack."""
    return [
        name
        for name in registry.names("aggregator")
        if labels.ordered or not getattr(registry.load("aggregator", name), "needs_order", False)
    ]


def pairs(
    completers: Sequence[str], aggregators: Sequence[str], preset: str, seed: int
) -> list[Method]:
    """Every completer with every aggregator, with the parameters of a preset; "none" is pure."""
    methods = []
    for completer in completers:
        for aggregator in aggregators:
            settings = Settings(preset, completer, aggregator, seed=seed)
            built = build(settings)
            methods.append(
                Method(aggregator, built.aggregator, preset=preset)
                if built.completer is None
                else Method(
                    f"{completer} + {aggregator}",
                    built.aggregator,
                    built.completer,
                    Loop(**built.loop),
                    preset=preset,
                )
            )
    return methods
