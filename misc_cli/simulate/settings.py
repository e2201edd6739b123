"""Settings of a simulated crowd, and their checks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from misc_cli.data import resources
from misc_cli.errors import ConfigError

KINDS = (
    "experts",
    "honest",
    "biased",
    "spammers",
    "adversaries",
    "constants",
    "beginners",
    "copiers",
)
DEFAULT_MIX = {"experts": 0.1, "honest": 0.6, "biased": 0.15, "spammers": 0.1, "adversaries": 0.05}


MOST = 10**9
MOST_CLASSES = 10**5
MOST_SKEW = 20


@dataclass(frozen=True)
class Simulation:
    """Settings of a crowd.

    answers_per_item  mean number of answers; fractions are shared out at random
    accuracy          of the median honest worker
    activity_skew     standard deviation of the log of a worker's activity; 0 makes all equal
    mix               shares of the kinds of workers, in any unit
    groups            number of confusion matrices that all workers share, dealt evenly: the
                      structure that completion exists for; None: each worker has its own
    """

    workers: int = 100
    items: int = 1000
    classes: int = 4
    answers_per_item: float = 5.0
    accuracy: float = 0.7
    activity_skew: float = 1.0
    mix: Mapping[str, float] = field(default_factory=lambda: DEFAULT_MIX)
    groups: int | None = None
    seed: int = 0

    @property
    def n_copiers(self) -> int:
        """The number of copiers, rounded up."""
        total = sum(self.mix.values())
        share = self.mix.get("copiers", 0.0) / total if total > 0 else 0.0
        return math.ceil(share * self.workers)

    def __post_init__(self) -> None:
        sizes = {
            f"--workers must be from 1 to {MOST:,}": 1 <= self.workers <= MOST,
            f"--items must be from 1 to {MOST:,}": 1 <= self.items <= MOST,
            f"--classes must be from 2 to {MOST_CLASSES:,}": 2 <= self.classes <= MOST_CLASSES,
        }
        _refuse(sizes)
        checks = {
            "--answers-per-item must lie above 0 and be no more than --workers (less copiers)": (
                0 < self.answers_per_item <= self.workers - self.n_copiers
            ),
            "--accuracy must lie between 0 and 1": 0 < self.accuracy < 1,
            f"--activity-skew must be a number from 0 to {MOST_SKEW}": (
                0 <= self.activity_skew <= MOST_SKEW
            ),
            "--seed must not be negative": self.seed >= 0,
            "--groups must lie between 1 and --workers, without copiers": (
                self.groups is None
                or (1 <= self.groups <= self.workers and not self.mix.get("copiers"))
            ),
            f"--mix takes shares of {', '.join(KINDS)}": (
                set(self.mix) <= set(KINDS)
                and all(share >= 0 for share in self.mix.values())
                and sum(self.mix.values()) > 0
            ),
            "--mix with copiers needs honest workers to copy": (
                not self.mix.get("copiers") or bool(self.mix.get("honest"))
            ),
        }
        _refuse(checks)
        n_answers = math.ceil(self.items * self.answers_per_item)
        resources.require(
            40 * n_answers + 8 * self.classes**2 * self.workers * 4,
            f"a crowd with {n_answers:,} answers in {self.classes:,} classes",
            "make a smaller one",
        )


def _refuse(checks: Mapping[str, bool]) -> None:
    for message, holds in checks.items():
        if not holds:
            raise ConfigError(message)
