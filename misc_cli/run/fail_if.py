"""`--fail-if`: conditions on a finished run, for scripts that must not go on with a poor result.

Grammar:  METRIC OP VALUE      OP is < <= > >= = !=      spaces are free
A % may follow the value of a metric that is one; on any other it would be read in two ways.
A condition that cannot be judged (an error without truth) is an error, never a pass.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from misc_cli.errors import ConfigError, InputError

if TYPE_CHECKING:
    from misc_cli.quality.figures import Figure

# What a run can be judged by, in the words of --fail-if and of run.json's "figures".
METRICS: dict[str, str] = {
    "error": "% of items with truth that are wrong (needs --truth)",
    "confidence": "mean confidence, 0 to 1",
    "lowest-confidence": "the least sure item's confidence",
    "ties": "items whose top classes tie",
    "converged": "true or false",
    "iterations": "of the final aggregation",
    "answers": "answers used",
    "items": "",
    "workers": "",
    "classes": "",
    "answers-per-item": "mean",
    "density": "% of worker × item pairs answered",
    "empty": "rows without a label",
    "repeats": "identical repeated answers",
    "conflicts": "pairs where a worker contradicts itself",
    "alpha": "Krippendorff's alpha of the answers: 1 always the same, 0 as by chance",
    "agreement": "chance that two answers to an item agree, 0 to 1",
    "evidence": "probability that answers depend on items, 0 to 1; below 0.5 labels are guesses",
    "unanimous": "items on which all answers agree",
    "overruled": "% of those whose label is another",
    "classes-lost": "classes that lead the vote on some item and that no label is of",
    "effective-votes": "per item, workers who err together counted for what they add",
    "alike-pairs": "pairs of workers who err together",
    "cut-short": "true or false: a time budget left something out",
    "warnings": "",
    "flips": "% of items in the labels that -o replaces whose label is now another",
    "new-items": "items that those labels do not have",
    "gone-items": "items that only those labels have",
}

# Those that compare with the files that this run replaces.
CHANGES = ("flips", "new-items", "gone-items")
YES_OR_NO = ("converged", "cut-short")
PERCENTAGES = ("error", "density", "overruled", "flips")

_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "!=": operator.ne,
    "==": operator.eq,
    "<": operator.lt,
    ">": operator.gt,
    "=": operator.eq,
}
_GATE = re.compile(r"\s*([a-z-]+)\s*(<=|>=|!=|==|<|>|=)\s*(\S+?)\s*(%?)\s*")
_TRUE_FALSE = {"true": 1.0, "yes": 1.0, "false": 0.0, "no": 0.0}


@dataclass(frozen=True)
class Gate:
    """One parsed condition; the run fails if it holds."""

    text: str
    metric: str
    symbol: str
    value: float

    def trips(self, figures: Mapping[str, Figure]) -> bool:
        figure = figures.get(self.metric)
        if figure is None:
            lacking = "no item of --truth" if self.metric == "error" else "too few answers"
            raise InputError(f"--fail-if {self.text}: no {self.metric} to judge: {lacking}")
        return _OPERATORS[self.symbol](float(figure), self.value)

    def told(self, figures: Mapping[str, Figure]) -> str:
        """Return the condition and the figure that it met."""
        return f"{self.text} ({self.metric} is {figures[self.metric]})"


def parse_gate(text: str) -> Gate:
    """Return the condition that a text says."""
    match = _GATE.fullmatch(text.lower().replace("_", "-"))
    if match is None:
        raise ConfigError(f"--fail-if {text!r}: write METRIC OP VALUE, such as confidence<0.9")
    metric, symbol, value, percent = match.groups()
    wanted, number = "a number", math.nan
    with suppress(ValueError):
        number = float(value)
    if metric in YES_OR_NO:
        wanted, number = "true or false", _TRUE_FALSE.get(value, math.nan)
    wrong = f"{metric} is compared with {wanted}"
    if metric not in METRICS:
        wrong = f"no metric {metric!r}; there are {', '.join(METRICS)}"
    elif percent and metric not in PERCENTAGES:
        wrong += f"; only {', '.join(PERCENTAGES)} are in %"
    elif math.isfinite(number):
        return Gate(text, metric, symbol, number)
    raise ConfigError(f"--fail-if {text!r}: {wrong}")
