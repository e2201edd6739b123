"""Crowds and methods for the tests of the choice."""

from __future__ import annotations

from misc_cli import registry
from misc_cli.data.encode import encode, encode_gold
from misc_cli.data.types import Answers, Codes, Labels
from misc_cli.selection.candidates import Method
from misc_cli.simulate import Simulation, answer_columns, simulate, truth_columns


def simulated(**settings: float) -> tuple[Labels, Codes]:
    """A crowd, and the truth in the order of its items."""
    options = {"workers": 30, "items": 300, "classes": 3, "answers_per_item": 5, "seed": 1}
    crowd = simulate(Simulation(**{**options, **settings}))  # type: ignore[arg-type]
    names = [str(code) for code in range(int(settings.get("classes", 3)))]
    labels = encode(Answers(**answer_columns(crowd, names))).labels
    truth = truth_columns(crowd, names)
    return labels, encode_gold(labels, truth["item"], truth["label"])


def method(name: str, preset: str = "robust") -> Method:
    return Method(name, registry.create("aggregator", name, preset))
