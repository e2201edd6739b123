"""one-coin: Dawid–Skene with one accuracy per worker and wrong answers spread evenly.

Few parameters make it hard to beat if workers gave few answers. The EM loop is in em.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from misc_cli.aggregators.parameters import class_prior, max_iter, shrinkage, tol
from misc_cli.data.iteration import OnIteration
from misc_cli.data.parameters import Checked
from misc_cli.engines.on_engines import OnEngines

if TYPE_CHECKING:
    from misc_cli.aggregators.confusion_kernels import Model
    from misc_cli.data.types import Floats, Start
    from misc_cli.engines.protocol import Engine, Fitted


@dataclass(frozen=True)
class OneCoin(Checked, OnEngines):
    """one-coin: `shrinkage` pseudo-answers pull the accuracy of a worker towards the crowd's.

    The class prior is uniform in both presets: one accuracy cannot express that a class is rarely
    answered, so an estimated prior runs away to the largest class (80 % errors on `relevance`).
    """

    class_prior: str = class_prior("uniform")
    shrinkage: float = shrinkage()
    tol: float = tol()
    max_iter: int = max_iter()

    takes_prior: ClassVar[bool] = True  # --workers-prior
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"paper": {"shrinkage": 0.0}}

    def solve(
        self, engine: Engine, on_iteration: OnIteration, start: Start | None = None
    ) -> Fitted:
        from misc_cli.aggregators.em import fit_confusions

        def estimate(counts: Floats) -> Model:
            return _one_accuracy_each(counts, self.shrinkage)

        return fit_confusions(
            engine,
            estimate,
            class_prior=self.class_prior,
            stage="one-coin",
            tol=self.tol,
            max_iter=self.max_iter,
            on_iteration=on_iteration,
            start=start,
        )


def _one_accuracy_each(counts: Floats, shrinkage: float) -> Model:
    """Return the M-step: accuracy_w = expected correct / answered, as confusions."""
    import numpy as np

    from misc_cli.aggregators.confusion_kernels import TINY, Model

    n_classes = counts.shape[1]
    correct = np.trace(counts, axis1=1, axis2=2)
    answered = counts.sum(axis=(1, 2))
    crowd = correct.sum() / max(answered.sum(), TINY)
    accuracy = (correct + shrinkage * crowd + TINY) / (answered + shrinkage + 2 * TINY)
    accuracy = np.clip(accuracy, TINY, 1.0 - TINY)[:, None, None]
    wrong = (1.0 - accuracy) / max(n_classes - 1, 1)
    confusions = np.where(np.eye(n_classes, dtype=bool), accuracy, wrong)
    if n_classes == 1:
        confusions = np.ones_like(confusions)
    return Model(np.log(confusions), confusions)
