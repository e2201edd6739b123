"""The runs of Section 5.4: pure against mixed on answers made sparse and noisy (`experiment`).

Three strategies on the same answers:

    pure            the aggregator alone
    rule of thumb   + tucker with ranks by the data's size alone, `PASSES` passes, judged as the
                    paper does (the completed labels); no truth used. A user who sets nothing gets
                    ranks that hidden answers choose, and judges the answers in the end
    best            + tucker with the best of `RANKS` × 1..`PASSES` passes, picked with the truth:
                    a bound on what any choice of ranks among them can reach
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from misc_cli import registry
from misc_cli.completers.completion_loop import aggregate_pass, start, trajectory
from misc_cli.completers.tucker.method import Tucker
from misc_cli.data.types import Aggregator, Codes, Labels
from misc_cli.paper.experiment import NOISES, PAPER_ERROR_RATES, PAPER_NONZERO_RATE, degrade
from misc_cli.paper.plot import Line, Panel
from misc_cli.quality.evaluation import expected_error

RANKS = (
    (1, 2, 2),
    (2, 2, 2),
    (2, 3, 2),
    (3, 4, 2),
    (4, 6, 2),
    (6, 8, 2),
    (10, 12, 2),
    (15, 16, 2),
)
PASSES = 4
RULE_OF_THUMB = "rule of thumb"
DASHES = {"pure": "7 4", RULE_OF_THUMB: "", "best": "2 3"}
STRATEGIES = tuple(DASHES)
TITLES = {
    "spread": "Wrong answers spread over all workers",
    "workers": "Whole workers wrong, drawn at random",
    "casual": "Whole workers wrong, those with few answers first",
}


@dataclass(frozen=True)
class Point:
    """Errors in per cent, one per seed."""

    noise: str
    error_rate: float
    aggregator: str
    strategy: str
    errors: tuple[float, ...]

    @property
    def mean(self) -> float:
        return float(np.mean(self.errors))

    @property
    def deviation(self) -> float:
        return float(np.std(self.errors))


def run(
    labels: Labels,
    truth: Codes,
    *,
    aggregators: Sequence[str],
    noises: Sequence[str] = NOISES,
    error_rates: Sequence[float] = PAPER_ERROR_RATES,
    seeds: int = 5,
    preset: str = "paper",
    on_step: Callable[[str], None] = lambda _: None,
) -> list[Point]:
    """Every noise, error rate and aggregator, `seeds` times over."""
    points = []
    for noise in noises:
        for error_rate in error_rates:
            worse = [
                degrade(
                    labels,
                    truth,
                    nonzero_rate=PAPER_NONZERO_RATE,
                    error_rate=error_rate,
                    noise=noise,
                    random=np.random.default_rng(seed),
                )
                for seed in range(seeds)
            ]
            for name in aggregators:
                aggregator = registry.create("aggregator", name, preset)
                runs = [_errors(one, truth, aggregator) for one in worse]
                for strategy in STRATEGIES:
                    errors = tuple(found[strategy] for found in runs)
                    points.append(Point(noise, error_rate, name, strategy, errors))
                on_step(f"{noise} {100 * error_rate:g} % {name}")
    return points


def _errors(labels: Labels, truth: Codes, aggregator: Aggregator) -> dict[str, float]:
    """The error of each strategy in per cent."""
    pure = aggregator(labels).posteriors
    first = start(labels, pure)

    def along(completer: Tucker) -> list[float]:
        ends = (
            aggregate_pass(after, aggregator, final="completed")
            for after in trajectory(first, completer, PASSES)
        )
        return [100 * expected_error(found.posteriors, truth) for found in ends]

    return {
        "pure": 100 * expected_error(pure, truth),
        RULE_OF_THUMB: along(Tucker())[-1],
        "best": min(error for ranks in RANKS for error in along(Tucker(ranks))),
    }


def panels(points: Sequence[Point]) -> list[Panel]:
    """One panel per noise: pure dashed, mixed by rule of thumb solid, at its best dotted."""
    drawn = []
    for noise in dict.fromkeys(point.noise for point in points):
        own = [point for point in points if point.noise == noise]
        lines = []
        for name in dict.fromkeys(point.aggregator for point in own):
            for strategy in STRATEGIES:
                curve = [p for p in own if (p.aggregator, p.strategy) == (name, strategy)]
                lines.append(
                    Line(
                        name=name if strategy == "pure" else f"{name} + tucker, {strategy}",
                        group=name,
                        y=[point.mean for point in curve],
                        spread=[point.deviation for point in curve],
                        dash=DASHES[strategy],
                    )
                )
        x = [round(100 * rate, 1) for rate in dict.fromkeys(point.error_rate for point in own)]
        drawn.append(
            Panel(TITLES[noise], x, lines, "mean error rate of the workers, %", "error, %")
        )
    return drawn
