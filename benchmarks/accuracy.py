"""`make accuracy`: error, regret and calibration of the automatic choice on public data with truth.

usage: python accuracy.py [--only SET ...] [--auto] [--gold] [--root DIRECTORY]
Every set is run under the default preset: automatically, and with each method by name (--auto
leaves these out). Regret is auto's error less that of the best named method, picked with truth.
With --gold, 50 items with truth are given as gold, 20 times; the others judge the calibration. The
methods stay those that were chosen without gold, and a slow one begins where it ended without: the
fits that gold items judge do not know them either way. Completed labels stay as they are.
Prints markdown and writes it to benchmarks/out/accuracy.md. Set OPENBLAS_NUM_THREADS=1, as the
command does for itself.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pandas as pd

import misc_cli
from misc_cli import registry
from misc_cli.data.encode import encode_known
from misc_cli.data.posteriors import tied_classes
from misc_cli.data.types import Codes, Floats, Labels, ignore_iteration
from misc_cli.engines.local import MemoryEngine
from misc_cli.engines.protocol import POSTERIORS
from misc_cli.quality.evaluation import calibration_error, expected_error
from misc_cli.readers.known_labels import read_known
from misc_cli.readers.options import ReadOptions
from misc_cli.run.result import RunResult
from misc_cli.selection.calibration import (
    Calibration,
    calibration_of_known,
)
from misc_cli.selection.candidates import Method, Trial, fit
from misc_cli.selection.ensemble import mean_of

TWELVE = (
    *("web", "bm", "rte", "dog", "temp", "bluebirds"),
    *("product", "ms", "face", "zencrowd_us", "relevance", "cf"),
)
NINE = (
    *("youtube_lf", "yoruba_lf", "relex_treat", "ducks", "judgebench"),
    *("labelme", "leaves", "reuters", "smile"),
)
NAMED = ("mv", "one-coin", "ds-em", "ds-mf", "ebcc", "mmce-c")
GOLD_ITEMS, GOLD_DRAWS = 50, 20


@dataclass
class Row:
    """Figures of one set; errors in per cent."""

    name: str
    auto: float
    raw_calibration: float
    calibration: float
    least_sure: float
    seconds: float
    chosen: str
    named: dict[str, float] = field(default_factory=dict)
    gold_calibration: float | None = None

    @property
    def regret(self) -> float:
        return self.auto - min(self.named.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", default=[*TWELVE, *NINE])
    parser.add_argument("--auto", action="store_true", help="not the named methods")
    parser.add_argument("--gold", action="store_true", help="also with gold items")
    parser.add_argument("--root", type=Path, default=Path(__file__).parents[2] / "shared")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = []
    for name in chosen.only:
        place = next(chosen.root.glob(f"datasets*/{name}"))
        rows.append(judge(place, named=not chosen.auto, gold=chosen.gold))
        print(line(rows[-1]), flush=True)
    text = report(rows)
    out = Path(__file__).parent / "out"
    out.mkdir(exist_ok=True)
    (out / "accuracy.md").write_text(text)
    print(text)


def judge(place: Path, *, named: bool, gold: bool) -> Row:
    """Run one set automatically, raw, and with each method by name."""
    answers = pd.read_csv(place / "answers.csv", dtype=str)
    known = read_known(str(place / "truth.csv"), ReadOptions()).labels
    started = time.perf_counter()
    auto = misc_cli.aggregate(answers)
    seconds = time.perf_counter() - started
    truth = encode_known(auto.outcome.labels, known)
    posteriors = auto.outcome.posteriors
    selection = auto.outcome.fit.selection
    assert selection is not None
    plain, raw = uncalibrated(auto.outcome)
    row = Row(
        place.name,
        100.0 * expected_error(posteriors, truth),
        of_confidence(raw, truth),
        of_confidence(posteriors, truth),
        100.0 * wrong_among_least_sure(posteriors, truth),
        seconds,
        ", ".join(selection["chosen"]),
    )
    for method in NAMED if named else ():
        by_name = registry.create("aggregator", method)
        found = misc_cli.aggregate(answers, aggregator=by_name, calibrate=False)
        row.named[method] = 100.0 * expected_error(found.outcome.posteriors, truth)
    if gold:
        row.gold_calibration = with_gold(auto.outcome, plain, truth)
    return row


def wrong_among_least_sure(posteriors: Floats, truth: Codes, share: float = 0.2) -> float:
    """Return the share of wrong labels that are among the least sure `share` of known items.

    Items that are equally sure count by expectation, as do labels that tie. NaN if none is wrong.
    """
    known = truth >= 0
    rows, right = posteriors[known], truth[known]
    tied = tied_classes(rows)
    inside = np.flatnonzero(right < rows.shape[1])
    wrong = np.ones(len(rows))
    wrong[inside] -= tied[inside, right[inside]] / tied[inside].sum(axis=1)
    _, which, sizes = np.unique(rows.max(axis=1).round(9), return_inverse=True, return_counts=True)
    before = np.cumsum(sizes) - sizes
    taken = np.clip((share * len(rows) - before) / sizes, 0.0, 1.0)
    total = float(wrong.sum())
    return float((wrong * taken[which]).sum()) / total if total > 0 else float("nan")


def of_confidence(posteriors: Floats, truth: Codes) -> float:
    """Return the expected calibration error of the items with truth."""
    judged = truth >= 0
    sure = posteriors[judged]
    return calibration_error(sure.max(axis=1), sure.argmax(axis=1) == truth[judged])


def uncalibrated(outcome: RunResult) -> tuple[list[Trial], Floats]:
    """The chosen methods' fits and the posteriors that come of them; completed labels, which the
    automatic choice does not calibrate, are not fitted again.
    """
    if any(member.completer is not None for member in outcome.fit.members):
        return [], outcome.posteriors
    by_votes, shares = weighing(outcome)
    plain = [fitted(member, outcome.labels) for member in outcome.fit.members]
    engine = MemoryEngine(outcome.labels)
    return plain, mean_of(engine, plain, shares, {}, by_votes=by_votes).posteriors


def weighing(outcome: RunResult) -> tuple[bool, list[float]]:
    """Return whether the votes count, and the weights of the methods."""
    assert outcome.fit.selection
    return bool(outcome.fit.selection.get("fallback")), list(
        outcome.fit.selection["weights"].values()
    )


def with_gold(outcome: RunResult, plain: Sequence[Trial], truth: Codes) -> float:
    """Mean calibration error of the other items over draws of gold items."""
    labels, members = outcome.labels, outcome.fit.members
    by_votes, shares = weighing(outcome)
    hidden = outcome.fit.calibration
    totals = np.concatenate([labels.votes.class_totals(rows) for rows in labels.votes.blocks])
    judged = np.flatnonzero((truth >= 0) & (truth < labels.n_classes))
    errors = []
    for draw in range(GOLD_DRAWS):
        random = np.random.default_rng(draw)
        rows = random.choice(judged, min(GOLD_ITEMS, len(judged) // 2), replace=False)
        others = truth.copy()
        others[rows] = -1
        if not plain:
            errors.append(of_confidence(outcome.posteriors, others))
            continue
        gold = np.full(labels.n_items, -1, dtype=np.int32)
        gold[rows] = truth[rows]
        calibration = hidden  # where the votes decide, gold items decide nothing
        if not by_votes:
            known = [one.posteriors[rows] for one in plain]
            calibration = calibration_of_known(
                known, shares, totals[rows], gold[rows], hidden or Calibration()
            )
        taught = replace(labels, gold=gold)
        fits = [fitted(member, taught, whole) for member, whole in zip(members, plain, strict=True)]
        engine = MemoryEngine(taught)
        written = mean_of(engine, fits, shares, {}, by_votes=by_votes, calibration=calibration)
        errors.append(of_confidence(written.posteriors, others))
    return float(np.mean(errors))


def fitted(member: Method, labels: Labels, whole: Trial | None = None) -> Trial:
    """Fit a member on these answers; `whole` is its fit without gold."""
    engine, before = MemoryEngine(labels), None if whole is None else whole.fitted
    found = fit(member, engine, ignore_iteration, None, before)
    return Trial(member, found, engine.whole(POSTERIORS))


def line(row: Row) -> str:
    """Return a row of the table."""
    named = [f"{row.named[method]:.2f}" if row.named else "–" for method in NAMED]
    gold = "–" if row.gold_calibration is None else f"{row.gold_calibration:.3f}"
    cells = [
        row.name,
        *named,
        f"**{row.auto:.2f}**",
        f"{row.regret:+.2f}" if row.named else "–",
        f"{row.raw_calibration:.3f}",
        f"{row.calibration:.3f}",
        gold,
        f"{row.least_sure:.0f}",
        f"{row.seconds:.1f}",
        row.chosen,
    ]
    return f"| {' | '.join(cells)} |"


def report(rows: list[Row]) -> str:
    header = [
        "set",
        *NAMED,
        "auto",
        "regret",
        "raw",
        "calibrated",
        "gold",
        "least sure",
        "s",
        "chosen",
    ]
    lines = [f"| {' | '.join(header)} |", "|" + "---|" * len(header), *map(line, rows)]
    twelve = [row.auto for row in rows if row.name in TWELVE]
    said = [
        f"mean of the {len(rows)}: auto {np.mean([row.auto for row in rows]):.2f}",
        f"calibration error {np.mean([row.raw_calibration for row in rows]):.3f} raw, "
        f"{np.mean([row.calibration for row in rows]):.3f} calibrated",
        "wrong items among the 20 % least sure "
        f"{np.nanmean([row.least_sure for row in rows]):.1f} %",
    ]
    if twelve:
        said.insert(1, f"of the twelve {np.mean(twelve):.2f}")
    if all(row.named for row in rows):
        regrets = [row.regret for row in rows]
        said.append(f"regret mean {np.mean(regrets):.2f}, max {max(regrets):.2f}")
    golden = [row.gold_calibration for row in rows if row.gold_calibration is not None]
    if golden:
        said.append(f"with {GOLD_ITEMS} gold items {np.mean(golden):.3f}")
    return "\n".join([*lines, "", "; ".join(said), ""])


if __name__ == "__main__":
    main()
