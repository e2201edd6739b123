"""Section 5.4 of the paper: pure and mixed strategies on sparse and noisy answers.

usage: python benchmarks/sparse_noisy.py [--from DIR] [--dataset NAME] [--aggregators A,B]
           [--noise A,B] [--seeds N] [-o POINTS.csv] [--plot FIGURE.svg]
Prints markdown. `--plot` needs matplotlib (benchmarks/requirements.txt).

Answers are removed at random until the label matrix has the nonzero rate of the paper. Then right
answers are replaced by wrong ones until the annotation error rate (the mean over workers of each
worker's own error rate) is one of the paper's four. The paper does not say which answers it
replaced, and the results depend on it, so there are three kinds of noise:

    spread    right answers at random, of any worker
    workers   one worker after the other, in random order, until all their answers are wrong
    casual    as `workers`, those with the fewest answers first: many bad workers, few bad answers

Three strategies run on the same answers:

    pure            the aggregator alone
    rule of thumb   + tucker with ranks by the size of the data, `PASSES` passes and the paper's
                    last step (the completed labels); no truth is used
    best            + tucker with the best of `RANKS` and of 1 to `PASSES` passes, picked with the
                    truth: no choice of ranks among these can do better
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import scipy.sparse as sp

from misc_cli import registry
from misc_cli.cli.tables import Table, markdown
from misc_cli.completers.completion_loop import begin, finish, passes
from misc_cli.completers.parameters import Loop, Tucker
from misc_cli.data.holdout import Triplets, answers_of
from misc_cli.data.types import Aggregator, Codes, Labels
from misc_cli.data.votes import SparseVotes
from misc_cli.engines.local import MemoryEngine
from misc_cli.engines.protocol import POSTERIORS
from misc_cli.errors import ConfigError, ConvergenceWarning, MiscError
from misc_cli.paper import datasets
from misc_cli.paper.table import read_dataset
from misc_cli.quality.evaluation import expected_error

PAPER_NONZERO_RATE = 0.037
PAPER_ERROR_RATES = (0.304, 0.416, 0.514, 0.609)
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
LINE_STYLES = {"pure": "--", RULE_OF_THUMB: "-", "best": ":"}
STRATEGIES = tuple(LINE_STYLES)
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


def degrade(
    labels: Labels,
    truth: Codes,
    *,
    nonzero_rate: float,
    error_rate: float,
    noise: str,
    random: np.random.Generator,
) -> Labels:
    """Return the same workers, items and classes with fewer and worse answers.

    With the same state of `random`, a higher `error_rate` spoils a superset of the answers.
    """
    votes = labels.votes
    assert isinstance(votes, SparseVotes)
    answers = thin(answers_of(votes), labels, nonzero_rate, random)
    answers = spoil(answers, truth, labels.n_classes, error_rate, noise, random)
    return with_answers(labels, answers)


def with_answers(labels: Labels, answers: Triplets) -> Labels:
    """Return labels with these answers and the same workers, items and classes."""
    columns = answers.workers * labels.n_classes + answers.classes
    shape = (labels.n_items, labels.n_workers * labels.n_classes)
    matrix = sp.csr_array((np.ones(len(answers)), (answers.items, columns)), shape=shape)
    matrix.sort_indices()
    return replace(labels, votes=SparseVotes(matrix, labels.n_workers, labels.n_classes))


def thin(
    answers: Triplets, labels: Labels, nonzero_rate: float, random: np.random.Generator
) -> Triplets:
    """Keep as many random answers as the rate asks for, at least one per item and per worker."""
    n_kept = round(nonzero_rate * labels.n_items * labels.n_workers)
    if n_kept > len(answers):
        raise ConfigError(
            f"a nonzero rate of {nonzero_rate:.1%} needs {n_kept} answers; there are {len(answers)}"
        )
    order = random.permutation(len(answers))
    needed = np.zeros(len(answers), dtype=bool)
    for codes in (answers.items, answers.workers):
        _, first = np.unique(codes[order], return_index=True)
        needed[order[first]] = True
    order = np.concatenate([order[needed[order]], order[~needed[order]]])
    if needed.sum() > n_kept:
        raise ConfigError(
            f"a nonzero rate of {nonzero_rate:.1%} leaves items or workers without an answer"
        )
    kept = np.sort(order[:n_kept])
    return Triplets(answers.workers[kept], answers.items[kept], answers.classes[kept])


def spoil(
    answers: Triplets,
    truth: Codes,
    n_classes: int,
    error_rate: float,
    noise: str,
    random: np.random.Generator,
) -> Triplets:
    """Replace right answers by wrong ones until the mean worker error is as near as can be."""
    judged = truth[answers.items] >= 0
    right = judged & (answers.classes == truth[answers.items])
    answered = np.bincount(answers.workers[judged], minlength=int(answers.workers.max()) + 1)
    n_judged_workers = int((answered > 0).sum())
    order = random.permutation(np.flatnonzero(right))
    if noise != "spread":
        turn = random.permutation(len(answered))
        if noise == "casual":  # ties between equally busy workers fall at random
            turn = np.argsort(np.lexsort((turn, answered)))
        order = order[np.argsort(turn[answers.workers[order]], kind="stable")]
    before = float((judged & ~right)[judged] @ (1.0 / answered[answers.workers[judged]]))
    # each answer spoilt adds its share of its worker's answers to the mean over workers
    added = 1.0 / answered[answers.workers[order]]
    reached = np.cumsum(np.append(before, added)) / n_judged_workers
    n_spoilt = int(np.abs(reached - error_rate).argmin())
    if n_spoilt == 0 and reached[0] > error_rate + 0.005:
        raise ConfigError(
            f"workers already err in {reached[0]:.1%} of their answers; {error_rate:.1%} is below"
        )
    spoilt = order[:n_spoilt]
    shift = random.integers(1, n_classes, size=len(order), dtype=np.int32)[:n_spoilt]
    label = answers.classes.copy()
    label[spoilt] = (label[spoilt] + shift) % n_classes
    return Triplets(answers.workers, answers.items, label)


def run(
    labels: Labels,
    truth: Codes,
    *,
    aggregators: Sequence[str],
    noises: Sequence[str] = tuple(TITLES),
    error_rates: Sequence[float] = PAPER_ERROR_RATES,
    seeds: int = 5,
    preset: str = "paper",
    on_step: Callable[[str], None] = lambda _: None,
) -> list[Point]:
    """Run each kind of noise, error rate and aggregator with `seeds` seeds."""
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
    """Return the error of each strategy in per cent."""
    pure = aggregator(labels).posteriors

    def along(completer: Tucker) -> list[float]:
        engine, errors = MemoryEngine(labels), []
        begin(engine, aggregator, pure)
        for solution in passes(engine, completer, PASSES):
            finish(engine, solution, aggregator, Loop(final="completed"))
            errors.append(100 * expected_error(engine.whole(POSTERIORS), truth))
        return errors

    return {
        "pure": 100 * expected_error(pure, truth),
        RULE_OF_THUMB: along(Tucker())[-1],
        "best": min(error for ranks in RANKS for error in along(Tucker(ranks))),
    }


def tables(points: Sequence[Point]) -> list[Table]:
    """Return one table per kind of noise: mean ± standard deviation over the seeds."""
    rates = list(dict.fromkeys(point.error_rate for point in points))
    header = ("error, %", "", *(f"{100 * rate:.1f}" for rate in rates))
    made = []
    for noise in dict.fromkeys(point.noise for point in points):
        own = [point for point in points if point.noise == noise]
        rows = []
        for aggregator, strategy in dict.fromkeys((p.aggregator, p.strategy) for p in own):
            curve = [p for p in own if (p.aggregator, p.strategy) == (aggregator, strategy)]
            name = "pure" if strategy == "pure" else f"tucker, {strategy}"
            rows.append((aggregator, name, *(f"{p.mean:.1f} ± {p.deviation:.1f}" for p in curve)))
        made.append(Table(TITLES[noise], header, rows, left=2))
    return made


def frame(points: Sequence[Point]) -> pd.DataFrame:
    """Return one row per point; rates and errors in per cent."""
    return pd.DataFrame(
        {
            "noise": point.noise,
            "aggregator": point.aggregator,
            "strategy": point.strategy,
            "error_rate": 100 * point.error_rate,
            "mean": point.mean,
            "deviation": point.deviation,
            "seeds": len(point.errors),
        }
        for point in points
    )


def plot(points: Sequence[Point], path: Path) -> None:
    """Draw one panel per kind of noise, in the format that the path's ending names."""
    from matplotlib import pyplot

    noises = list(dict.fromkeys(point.noise for point in points))
    figure, panels = pyplot.subplots(
        len(noises), figsize=(8, 3.6 * len(noises)), squeeze=False, layout="constrained"
    )
    for noise, axes in zip(noises, panels[:, 0], strict=True):
        own = frame([point for point in points if point.noise == noise])
        for number, (aggregator, curves) in enumerate(own.groupby("aggregator", sort=False)):
            for strategy, curve in curves.groupby("strategy", sort=False):
                name = aggregator if strategy == "pure" else f"{aggregator} + tucker, {strategy}"
                axes.errorbar(
                    curve["error_rate"],
                    curve["mean"],
                    yerr=curve["deviation"],
                    color=f"C{number}",
                    linestyle=LINE_STYLES[str(strategy)],
                    marker="o",
                    capsize=2,
                    label=name,
                )
        axes.set(title=TITLES[noise], xlabel="mean error rate of the workers, %", ylabel="error, %")
        axes.set_ylim(bottom=0)
        axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    # text as text, and the same file for the same points
    with pyplot.rc_context({"svg.fonttype": "none", "svg.hashsalt": "misc"}):
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--from", dest="folder", type=Path, metavar="DIR")
    parser.add_argument("--dataset", default="rte", choices=datasets.registry())
    parser.add_argument("--aggregators", default="mv,ds-em", metavar="A,B")
    parser.add_argument("--noise", default=",".join(TITLES), metavar="A,B")
    parser.add_argument("--seeds", type=int, default=5, metavar="N")
    parser.add_argument("-o", "--output", type=Path, metavar="POINTS.csv")
    parser.add_argument("--plot", type=Path, metavar="FIGURE.svg")
    given = parser.parse_args()
    noises = given.noise.split(",")
    if unknown := [noise for noise in noises if noise not in TITLES]:
        parser.error(f"--noise {unknown[0]}: choose from {', '.join(TITLES)}")
    # The paper's settings stop at a fixed number of iterations, converged or not.
    warnings.simplefilter("ignore", ConvergenceWarning)
    try:
        dataset = read_dataset(datasets.locate(given.dataset, given.folder))
        labels, truth = dataset.engine.labels, dataset.truth
        assert truth is not None
        points = run(
            labels,
            truth,
            aggregators=given.aggregators.split(","),
            noises=noises,
            seeds=given.seeds,
            on_step=lambda step: print(step, file=sys.stderr),
        )
    except MiscError as error:
        parser.error(str(error))
    print(markdown(tables(points)), end="")
    if given.output is not None:
        frame(points).to_csv(given.output, index=False)
    if given.plot is not None:
        plot(points, given.plot)


if __name__ == "__main__":
    main()
