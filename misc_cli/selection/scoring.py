"""Methods on the folds: their scores, a table of them, and the choice in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from misc_cli.data.types import Codes, Floats, Iteration
from misc_cli.engines.protocol import Fitted
from misc_cli.quality.evidence import ONE_LABEL_SHARE
from misc_cli.selection.candidates import Method

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
    chosen = [row for row in rows if row["chosen"]]
    if chosen and chosen[0]["lead"] < SIGNIFICANT:
        return f"{chosen[0]['candidate']} forecasts hidden answers best of what was asked for"
    if chosen:
        best = chosen[0]
        return (
            "completed labels forecast hidden answers better than the mean of the others "
            f"({best['candidate']}: ahead by {best['lead']:.1f} standard errors)"
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
    best = max(row["lead"] for row in rows)
    if best < 0.0:
        return f"{pure}; with {FILLED} they do worse, by {-best:.1f} standard errors"
    if best < SIGNIFICANT:
        return (
            f"{pure}; with {FILLED} they do better by {best:.1f} standard errors, which may be "
            f"chance ({SIGNIFICANT:.0f} are needed)"
        )
    return f"{pure}; with {FILLED} they did better on the first hidden answers, but not on all"
