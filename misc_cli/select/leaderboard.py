"""Candidates on the folds: their scores, a table of them, and the choice in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from misc_cli.core.types import Codes, Floats
from misc_cli.select.calibrate import TEMPERATURES
from misc_cli.select.choose import ONE_LABEL_SHARE, SIGNIFICANT, lead, standard_error
from misc_cli.select.trial import Candidate, Method, Trial


@dataclass(frozen=True)
class Score:
    """A candidate on the folds that it saw, in order: what a leaderboard shows.

    `whole` is its fit on all answers, if that came first.
    """

    candidate: Candidate
    views: Mapping[str, Floats]
    seconds: float
    posteriors: Sequence[Floats] = ()
    whole: Trial | None = None

    @property
    def n_folds(self) -> int:
        return len(self.posteriors)

    @property
    def temperature(self) -> float | None:
        """Of the better view: the model's own forecast (None), or tempered posteriors."""
        soft = self.views["soft"].mean(axis=1)
        at = int(soft.argmax())
        return None if self.views["own"].mean() >= soft[at] else float(TEMPERATURES[at])

    @property
    def best(self) -> Floats:
        """The scores of the better view, (n_hidden,)."""
        soft = self.views["soft"]
        tempered: Floats = soft[int(soft.mean(axis=1).argmax())]
        return max(self.views["own"], tempered, key=lambda scores: float(scores.mean()))


def joined(trials: Sequence[Trial], whole: Trial | None = None) -> Score:
    """One candidate's trials on several folds, as one."""
    return Score(
        candidate=trials[0].candidate,
        views={
            view: np.concatenate([trial.views[view] for trial in trials], axis=-1)
            for view in trials[0].views
        },
        seconds=sum(trial.seconds for trial in trials) + (0.0 if whole is None else whole.seconds),
        posteriors=[trial.posteriors for trial in trials],
        whole=whole,
    )


def pure_table(
    scores: Sequence[Score], null: Floats, workers: Codes, weights: Mapping[str, float]
) -> list[dict[str, Any]]:
    """Every pure method's score, its lead over the null and its weight, best first."""
    rows = []
    for score in scores:
        values, count = score.best, len(score.best)
        rows.append(
            {
                "candidate": score.candidate.name,
                "score": round(float(values.mean()), 6),
                "standard_error": round(standard_error(values, workers[:count]), 6),
                "lead": round(float((values - null[:count]).mean()), 6),
                "errors_ahead_of_null": round(lead(values, null[:count], workers[:count]), 3),
                "folds": score.n_folds,
                "temperature": score.temperature,
                "seconds": round(score.seconds, 3),
                "weight": round(weights.get(score.candidate.name, 0.0), 6),
                "chosen": weights.get(score.candidate.name, 0.0) > 0.0,
            }
        )
    return sorted(rows, key=lambda row: -row["lead"])


def completed_table(
    scores: Sequence[Score], chosen: Sequence[Score], rivals: Sequence[Floats], workers: Codes
) -> list[dict[str, Any]]:
    """Every completed candidate by the labels it would write, against those of its rivals.

    They are the hard scores of what would be written otherwise and of what completion builds on.
    """
    rows = []
    for score in scores:
        values = score.views["hard"]
        count = len(values)
        rows.append(
            {
                "candidate": score.candidate.name,
                "score": round(float(values.mean()), 6),
                "standard_error": round(standard_error(values, workers[:count]), 6),
                "lead": round(min(lead(values, r[:count], workers[:count]) for r in rivals), 3),
                "folds": score.n_folds,
                "seconds": round(score.seconds, 3),
                "chosen": score in chosen,
            }
        )
    return sorted(rows, key=lambda row: (-row["folds"], -row["score"]))


def parameters(methods: Sequence[Method]) -> dict[str, dict[str, Any]]:
    """Every method's preset and parameters as they ended up, by name, for run.json."""
    resolved = {}
    for method in methods:
        own = asdict(method)
        kept = list(own) if method.completer is not None else ["name", "preset", "aggregator"]
        resolved[method.name] = {key: own[key] for key in kept if key not in ("name", "brief")}
    return resolved


def why_votes(one_label: float) -> str:
    """Why hidden answers say nothing of items, given the share of one-label workers' answers."""
    if one_label > ONE_LABEL_SHARE / 2.0:
        return (
            f"{100 * one_label:.0f} % of the answers are by workers who only ever say one label, "
            "so what they say does not tell items apart"
        )
    return (
        "no method forecasts hidden answers better than each worker's own label shares, so that "
        "answers say little of items"
    )


def why(reasons: Mapping[str, Any], left_out: Sequence[str], completed: bool) -> str:
    """The choice in words; `left_out` there was no time for, `completed` says if there were any."""
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
        cause = why_votes(reasons["null"]["one_label_share"])
        pure = f"{cause}: the votes decide, and {reasons['fallback']} where they are tied"
    elif len(kept) == 1:
        pure = f"{kept[0]} forecasts hidden answers best"
    else:
        pure = f"{', '.join(kept)} forecast hidden answers about equally well"
    if left_out:
        pure += f"; there was no time for {', '.join(left_out)}"
    if not completed or not rows:
        return pure
    best = max(row["lead"] for row in rows)
    if best < 0.0:
        return f"{pure}; completion forecasts them worse, by {-best:.1f} standard errors"
    if best < SIGNIFICANT:
        return (
            f"{pure}; completion is ahead by {best:.1f} standard errors, which may be chance "
            f"({SIGNIFICANT:.0f} are asked for)"
        )
    return f"{pure}; completion was ahead on the first hidden answers, but not on all of them"
