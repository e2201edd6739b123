"""Pictures of a run, by matplotlib (extra `plot`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from misc_cli.data.encode import encode_truth
from misc_cli.dataframes import Known, known_of
from misc_cli.errors import ConfigError, needs_extra
from misc_cli.quality.evaluation import wilson
from misc_cli.report.frames import convergence_frame

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from misc_cli.results import Result

BINS = 10  # of the confidences


@dataclass(frozen=True)
class Plots:
    """Pictures of a Result. Each takes the axes to draw on, or makes its own, and returns them."""

    result: Result[Any]

    def confusion(self, worker: object, ax: Axes | None = None) -> Axes:
        """Draw what a worker says (columns) to items of each class (rows)."""
        ax = _axes(ax)
        matrix = self.result.confusions[worker]
        ax.imshow(matrix.to_numpy(), vmin=0, vmax=1, cmap="Blues")
        ticks = range(len(matrix))
        names = [str(name) for name in matrix.index]
        ax.set(xticks=ticks, yticks=ticks, xlabel="said", ylabel="true", title=f"worker {worker}")
        ax.set_xticklabels(names)
        ax.set_yticklabels(names)
        for true, row in enumerate(matrix.to_numpy()):
            for said, share in enumerate(row):
                colour = "white" if share > 0.5 else "black"
                ax.text(said, true, f"{share:.2f}", ha="center", va="center", color=colour)
        return ax

    def calibration(self, truth: Known | None = None, ax: Axes | None = None) -> Axes:
        """Draw how many labels are right by how sure they are; `truth` is that of the run, if None.

        Bars are 95 % intervals, the size of a dot its share of the items.
        """
        outcome = self.result.outcome
        known, _ = known_of(truth)
        codes = outcome.truth if known is None else encode_truth(outcome.labels, known)
        if codes is None:
            raise ConfigError("calibration needs the truth of some items; give truth=")
        known_items = np.flatnonzero(codes >= 0)
        sure = outcome.decision.confidence[known_items]
        right = outcome.decision.label[known_items] == codes[known_items]
        bins = np.minimum((sure * BINS).astype(np.int64), BINS - 1)
        counts = np.bincount(bins, minlength=BINS)
        used = counts > 0
        n_items = counts[used].astype(float)
        stated, true = (np.bincount(bins, of, BINS)[used] / n_items for of in (sure, right))
        ax = _axes(ax)
        ax.plot([0, 1], [0, 1], color="grey", linestyle=":")
        ax.vlines(stated, *wilson(true, n_items))
        ax.scatter(stated, true, s=10 + 200 * n_items / n_items.sum())
        ax.set(xlabel="confidence", ylabel="share that is right", xlim=(0, 1), ylim=(0, 1))
        return ax

    def convergence(self, ax: Axes | None = None) -> Axes:
        """Draw by how much the probabilities moved in each iteration of each method."""
        lines = convergence_frame(self.result.outcome.records)
        ax = _axes(ax)
        names = (
            lines["candidate"].fillna(lines["stage"]) if "candidate" in lines else lines["stage"]
        )
        for name, own in lines.assign(method=names).groupby("method", sort=False):
            moved = own["change"].to_numpy(dtype=float)
            ax.plot(np.arange(1, len(moved) + 1), np.maximum(moved, 1e-16), label=str(name))
        ax.set(xlabel="iteration", ylabel="largest change of a probability", yscale="log")
        ax.legend()
        return ax

    def agreement(self, ax: Axes | None = None) -> Axes:
        """Draw the share of answers of each worker that agree with others' by how many it gave."""
        frame = self.result.report()["workers"]
        ax = _axes(ax)
        ax.scatter(frame["answers"], frame["agreement"])
        ax.set(xlabel="answers", ylabel="agreement with the others", xscale="log", ylim=(0, 1))
        return ax


def _axes(ax: Axes | None) -> Axes:
    """Return the axes that were given, or new ones."""
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError:
        raise needs_extra("a picture", "plot") from None
    return pyplot.subplots()[1]
