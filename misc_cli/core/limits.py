"""What a setting may be, checked once for the command line, the Python API and other packages.

No numeric imports: the command line reads its choices from here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any, NamedTuple

from misc_cli.errors import ConfigError

# Which answer counts when a worker contradicts itself on an item; the first is the default.
DUPLICATES = ("last", "first", "error", "all")

# Parameters that are one of a few words.
CHOICES: dict[str, tuple[str, ...]] = {
    "class_prior": ("estimated", "uniform"),
    "center": ("crowd", "zero"),
    "observed": ("fibres", "ones"),
    "slice": ("soft", "hard"),
    "final": ("answers", "completed"),
}


class Limit(NamedTuple):
    """Numbers of a kind, from `least` on, or above it where that is excluded."""

    kind: type
    least: int
    excluded: bool
    said: str

    def allows(self, value: Any) -> bool:
        fits = isinstance(value, self.kind) and not isinstance(value, bool)
        return fits and bool(value > self.least if self.excluded else value >= self.least)


SEED = Limit(Integral, 0, False, "a whole number from 0")
COUNT = Limit(Integral, 1, False, "a whole number from 1")
WEIGHT = Limit(Real, 0, False, "a number of at least 0")
POSITIVE = Limit(Real, 0, True, "a number above 0")

# By parameter; the types of the flags say the same (a test compares them).
LIMITS: dict[str, Limit] = {
    "seed": SEED,
    "threads": COUNT,
    "time_budget": POSITIVE,
    "tol": WEIGHT,
    "max_iter": COUNT,
    "shrinkage": WEIGHT,
    "diagonal": WEIGHT,
    "off_diagonal": WEIGHT,
    "worker_regularization": POSITIVE,
    "item_regularization": POSITIVE,
    "subtypes": COUNT,
    "subtype_prior": WEIGHT,
    "restarts": COUNT,
    "initial_rank": COUNT,
    "sweeps": COUNT,
    "cp_rank": COUNT,
    "ridge": WEIGHT,
    "rho": POSITIVE,
    "completer_cells": COUNT,
    "completer_tol": WEIGHT,
    "completer_max_iter": COUNT,
    "passes": COUNT,
    "max_cells": COUNT,
}


# Parameters that are several numbers: how many, of what kind, and the word that may stand instead.
SEVERAL: dict[str, tuple[int, type, str | None]] = {
    "ranks": (3, Integral, "auto"),
    "lrtc_weights": (3, Real, None),
}


def flag(name: str) -> str:
    """A parameter as the command line spells it."""
    return "--" + name.replace("_", "-")


def check(given: Mapping[str, Any]) -> None:
    """Raise a ConfigError for the first parameter that cannot be; None counts as not given."""
    for name, value in given.items():
        parts = value if isinstance(value, tuple | list) else [value]
        if any(isinstance(part, float) and not math.isfinite(part) for part in parts):
            raise ConfigError(f"{flag(name)} {value}: give a finite number")
        words = CHOICES.get(name)
        if words is not None and value is not None and value not in words:
            raise ConfigError(f"{flag(name)} {value}: choose {' or '.join(words)}")
        if name in SEVERAL and value is not None:
            count, kind, word = SEVERAL[name]
            fits = len(parts) == count and all(isinstance(part, kind) for part in parts)
            if not fits and (word is None or value != word):
                numbers = "whole numbers" if kind is Integral else "numbers"
                instead = "" if word is None else f", or {word}"
                raise ConfigError(f"{flag(name)} {value}: give {count} {numbers}{instead}")
        limit = LIMITS.get(name)
        if limit is not None and value is not None and not limit.allows(value):
            raise ConfigError(f"{flag(name)} {value}: give {limit.said}")
