"""Crowds and methods for the tests of the choice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from misc_cli import registry
from misc_cli.data.encode import encode, encode_known
from misc_cli.data.types import Answers, Codes, Floats, KnownLabels, Labels
from misc_cli.engines.local import MemoryEngine
from misc_cli.engines.protocol import POSTERIORS, Fitted
from misc_cli.selection.calibration import Calibration
from misc_cli.selection.candidates import Method, Score, Trial
from misc_cli.selection.ensemble import combine
from misc_cli.simulate import Simulation, answer_columns, simulate, truth_columns


def simulated(**settings: float) -> tuple[Labels, Codes]:
    """A crowd, and the truth in the order of its items."""
    options = {"workers": 30, "items": 300, "classes": 3, "answers_per_item": 5, "seed": 1}
    crowd = simulate(Simulation(**{**options, **settings}))  # type: ignore[arg-type]
    names = [str(code) for code in range(int(settings.get("classes", 3)))]
    labels = encode(Answers(**answer_columns(crowd, names))).labels
    truth = truth_columns(crowd, names)
    return labels, encode_known(labels, KnownLabels(truth["item"], truth["label"]), "gold")


def calibrated(calibration: Calibration, posteriors: Floats, labels: Labels) -> Floats:
    """The posteriors of one method as they are written."""
    engine = MemoryEngine(labels, {POSTERIORS: posteriors.copy()})
    combine(engine, [POSTERIORS], [1.0], calibration=calibration)
    return engine.whole(POSTERIORS)


def vote_totals(labels: Labels) -> Floats:
    """The votes of each class on each item."""
    return np.concatenate([labels.votes.class_totals(rows) for rows in labels.votes.blocks])


def method(name: str, preset: str = "robust") -> Method:
    return Method(name, registry.create("aggregator", name, preset))


def scored(method: Method, views: Mapping[str, Floats], n_folds: int = 1) -> Score:
    """A method with these scores by hidden answer, all of them on the first of the folds."""
    fitted = Fitted(confusions=np.empty((0, 3, 3)), class_prior=np.empty(3), iterations=1)
    seen = Trial(method, fitted, np.ones((1, 1)), views)
    nothing = {view: values[..., :0] for view, values in views.items()}
    return Score(method, [seen, *[replace(seen, views=nothing)] * (n_folds - 1)])
