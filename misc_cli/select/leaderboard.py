"""Candidates on all folds: their scores, a table of them, and the choice in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from misc_cli.core.types import Floats
from misc_cli.select.calibrate import Calibration, best_calibration
from misc_cli.select.choose import SIGNIFICANT, lead, standard_error
from misc_cli.select.trial import Candidate, Method, Trial


@dataclass(frozen=True)
class Score:
    """A candidate on all folds: what a leaderboard shows."""

    candidate: Candidate
    views: Mapping[str, Floats]
    calibration: Calibration
    seconds: float
    posteriors: Sequence[Floats] = ()

    @property
    def best_view(self) -> str:
        """The model's own forecast or confusions from its posteriors, whichever is better."""
        return max(("own", "soft"), key=lambda view: float(self.views[view].mean()))

    @property
    def best(self) -> Floats:
        return self.views[self.best_view]


def joined(trials: Sequence[Trial]) -> Score:
    """One candidate's trials on all folds, as one."""
    return Score(
        candidate=trials[0].candidate,
        views={
            view: np.concatenate([trial.views[view] for trial in trials])
            for view in trials[0].views
        },
        calibration=best_calibration(np.sum([trial.surface for trial in trials], axis=0)),
        seconds=sum(trial.seconds for trial in trials),
        posteriors=[trial.posteriors for trial in trials],
    )


def table(
    scores: Sequence[Score], chosen: Sequence[Score], view: str, pure: Floats | None = None
) -> list[dict[str, Any]]:
    """Every candidate's mean score, standard error and distance, best first, for run.json."""
    values = [score.best if view == "best" else score.views[view] for score in scores]
    if not values:
        return []
    top = max(values, key=lambda value: float(value.mean()))
    reference = top if pure is None else pure
    rows = [
        {
            "candidate": score.candidate.name,
            "score": round(float(value.mean()), 6),
            "standard_error": round(standard_error(value), 6),
            "lead": round(lead(value, reference), 3),
            "temperature": round(score.calibration.temperature, 4),
            "doubt": round(score.calibration.doubt, 4),
            "seconds": round(score.seconds, 3),
            "chosen": score in chosen,
        }
        for score, value in zip(scores, values, strict=True)
    ]
    return sorted(rows, key=lambda row: -row["score"])


def parameters(methods: Sequence[Method]) -> dict[str, dict[str, Any]]:
    """Every method's preset and parameters as they ended up, by name, for run.json."""
    resolved = {}
    for method in methods:
        own = asdict(method)
        kept = list(own) if method.completer is not None else ["name", "preset", "aggregator"]
        resolved[method.name] = {key: own[key] for key in kept if key != "name"}
    return resolved


def why(reasons: Mapping[str, Any], n_pure: int, completed: Sequence[Method]) -> str:
    """The choice in words; `n_pure` methods and `completed` were to be tried, time allowing."""
    if completed and any(row["chosen"] for row in reasons["completed"]):
        best = reasons["completed"][0]
        return (
            f"completion forecasts hidden answers better than {reasons['first']} alone "
            f"({best['candidate']}: ahead by {best['lead']} standard errors)"
        )
    kept = [row["candidate"] for row in reasons["pure"] if row["chosen"]]
    pure = (
        f"{kept[0]} forecasts hidden answers best"
        if len(kept) == 1
        else f"{', '.join(kept)} forecast hidden answers equally well"
    )
    if len(reasons["pure"]) < n_pure:
        pure += f" of the {len(reasons['pure'])} that there was time for"
    if not completed:
        return pure
    if not reasons["completed"]:
        return f"{pure}; there was no time for completion"
    best = max(row["lead"] for row in reasons["completed"])
    if best >= SIGNIFICANT:
        return f"{pure}; completion is declined: a plain majority vote forecasts better than it"
    return f"{pure}; completion is no better (ahead by {best} standard errors)"
