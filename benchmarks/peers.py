"""Run one job of one peer: read answers, aggregate, write labels, as a user's script would.

usage: python peers.py JOB answers.csv labels.csv figures.json
Only the peer that the job needs is imported. figures.json gets the seconds of the fit alone, of
tucker also the relative residual, of pyarrow the seconds of its reading.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

ITERATIONS = 20
RANKS = (3, 5, 5)  # workers, items, classes
Figures = dict[str, float]
Job = Callable[[str, str], Figures]


def crowdkit_mv(answers: str, labels: str) -> Figures:
    from crowdkit.aggregation import MajorityVote

    return _crowdkit(MajorityVote(), answers, labels)


def crowdkit_ds(answers: str, labels: str) -> Figures:
    from crowdkit.aggregation import DawidSkene

    # a tolerance that no change of the loss can undercut: exactly ITERATIONS iterations
    return _crowdkit(DawidSkene(n_iter=ITERATIONS, tol=float("-inf")), answers, labels)


def _crowdkit(method: Any, answers: str, labels: str) -> Figures:
    import pandas as pd

    data = pd.read_csv(answers).rename(columns={"item": "task"})
    started = time.perf_counter()
    result = method.fit_predict(data)
    spent = time.perf_counter() - started
    history = getattr(method, "loss_history_", None)
    if history is not None and len(history) != ITERATIONS:
        raise SystemExit(f"{len(history)} iterations instead of {ITERATIONS}")
    result.to_csv(labels)
    return {"fit": spent}


def peerannot_mv(answers: str, labels: str) -> Figures:
    from peerannot.models import MajorityVoting

    return _peerannot(answers, labels, lambda given, _, classes: MajorityVoting(given, classes))


def peerannot_ds(answers: str, labels: str) -> Figures:
    from peerannot.models import DawidSkene

    def fit(given: Any, workers: int, classes: int) -> Any:
        model = DawidSkene(given, n_workers=workers, n_classes=classes)
        model.run(epsilon=0.0, maxiter=ITERATIONS)
        return model

    return _peerannot(answers, labels, fit)


def _peerannot(answers: str, labels: str, fit: Callable[[Any, int, int], Any]) -> Figures:
    import warnings

    import pandas as pd

    warnings.simplefilter("ignore")
    data = pd.read_csv(answers)
    codes = {name: pd.factorize(data[name], sort=True) for name in ("worker", "item", "label")}
    started = time.perf_counter()
    given: dict[int, dict[int, int]] = {}
    rows = zip(codes["item"][0], codes["worker"][0], codes["label"][0], strict=True)
    for item, worker, label in rows:
        given.setdefault(int(item), {})[int(worker)] = int(label)
    result = fit(given, len(codes["worker"][1]), len(codes["label"][1])).get_answers()
    spent = time.perf_counter() - started
    pd.Series(codes["label"][1][result], codes["item"][1]).to_csv(labels)
    return {"fit": spent}


def tensorly_default(answers: str, labels: str) -> Figures:
    return _tensorly(answers, "svd")


def tensorly_random(answers: str, labels: str) -> Figures:
    return _tensorly(answers, "random")


def _tensorly(answers: str, init: str) -> Figures:
    """Run tensorly's Tucker on the dense tensor, with its own stopping rule; write no labels."""
    import warnings

    import numpy as np
    import pandas as pd
    from tensorly.decomposition import tucker

    warnings.simplefilter("ignore")
    data = pd.read_csv(answers)
    codes = [pd.factorize(data[name], sort=True)[0] for name in ("worker", "item", "label")]
    tensor = np.zeros([int(code.max()) + 1 for code in codes])
    tensor[tuple(codes)] = 1.0
    started = time.perf_counter()
    _, errors = tucker(tensor, rank=list(RANKS), init=init, random_state=0, return_errors=True)
    return {"fit": time.perf_counter() - started, "residual": float(errors[-1])}


def pyarrow_read(answers: str, labels: str) -> Figures:
    """Parse with pyarrow and turn names into codes: the least that any reader must do."""
    from pyarrow import csv

    started = time.perf_counter()
    data = csv.read_csv(answers)
    read = time.perf_counter() - started
    started = time.perf_counter()
    for name in ("worker", "item", "label"):
        data[name].dictionary_encode()
    return {"read": read, "encode": time.perf_counter() - started}


JOBS: dict[str, Job] = {
    "crowdkit-mv": crowdkit_mv,
    "crowdkit-ds": crowdkit_ds,
    "peerannot-mv": peerannot_mv,
    "peerannot-ds": peerannot_ds,
    "tensorly-svd": tensorly_default,
    "tensorly-random": tensorly_random,
    "pyarrow-read": pyarrow_read,
}

if __name__ == "__main__":
    job, answers_file, labels_file, figures_file = sys.argv[1:]
    result = JOBS[job](answers_file, labels_file)
    with open(figures_file, "w") as figures:
        json.dump(result, figures)
