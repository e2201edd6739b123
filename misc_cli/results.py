"""The result of a run in Python: data frames, files, and pictures by matplotlib (extra `plot`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from html import escape
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic

import numpy as np
import pandas as pd

from misc_cli.arguments import F, Kind, Known, frame_labels, is_frame, known_of, name_of
from misc_cli.data.encode import encode_known, text_frame
from misc_cli.data.types import Floats, LabelTable
from misc_cli.errors import ConfigError, needs_extra
from misc_cli.readers.answer_table import FileInfo
from misc_cli.report.frames import confidence_frame, convergence_frame, frames
from misc_cli.run.request import AggregateRequest
from misc_cli.run.result import RunResult, label_columns, worker_columns
from misc_cli.run.run_record import json_bytes, manifest
from misc_cli.writers.output_set import Write, beside, write_set
from misc_cli.writers.tables import write_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Confusions:
    """Confusions: shares of what workers say to items of each class.

    `values` is (n_workers, n_classes, n_classes): [worker, true, said], rows sum to 1; `workers`
    and `classes` name its axes. `confusions["anna"]` is one worker's matrix, true × said.
    """

    values: Floats
    workers: pd.Index[Any]
    classes: pd.Index[Any]

    def __getitem__(self, worker: object) -> pd.DataFrame:
        at = self.workers.get_indexer(pd.Index([worker]))[0]
        if at < 0:
            raise KeyError(worker)
        rows, columns = self.classes.rename("true"), self.classes.rename("said")
        return pd.DataFrame(self.values[at], index=rows, columns=columns)


@dataclass(frozen=True, repr=False)
class Result(Generic[F]):
    """A finished run; its frames are of the kind that the answers came in.

    Items, workers and labels have the types that they had there, rows the order in which they
    first appear there. Of files they are text, in the order of text, in pandas frames.
    """

    outcome: RunResult
    warnings: tuple[str, ...] = ()
    request: AggregateRequest = field(default_factory=AggregateRequest)
    inputs: tuple[FileInfo, ...] = ()
    known: Mapping[str, FileInfo] = field(default_factory=dict)
    kind: Kind = field(default_factory=Kind)

    @cached_property
    def labels(self) -> F:
        """Item, label, confidence and details of each item, one row per item."""
        found: F = self.kind.frame(label_columns(self.outcome, item_details=True), "item")
        return found

    @cached_property
    def posteriors(self) -> F:
        """Probability of each class, items × classes: a pandas frame by item, or a column item."""
        labels, own = self.outcome.labels, self.kind
        columns = {"item": labels.items}
        columns |= dict(zip(labels.classes.to_pylist(), self.outcome.posteriors.T, strict=True))
        found = own.frame(columns, "item")
        if isinstance(found, pd.DataFrame):
            found = found.set_index("item").set_axis(own.values("label", labels.classes), axis=1)
        return found  # type: ignore[no-any-return]

    @cached_property
    def workers(self) -> F:
        """Answers, accuracy, agreement, information, verdict and confusions of each worker."""
        found: F = self.kind.frame(worker_columns(self.outcome), "worker")
        return found

    @cached_property
    def confusions(self) -> Confusions:
        """Return the shares of what each worker says to items of each class."""
        names = self.outcome.labels
        return Confusions(
            self.outcome.fit.confusions,
            self.kind.values("worker", names.workers),
            self.kind.values("label", names.classes),
        )

    @cached_property
    def diagnostics(self) -> pd.DataFrame:
        """Objective, change and seconds of each iteration."""
        return pd.DataFrame(self.outcome.records)

    @property
    def plot(self) -> Plots:
        """Pictures of the run, by matplotlib: confusion, calibration, convergence, agreement."""
        return Plots(self)

    def report(self) -> dict[str, pd.DataFrame]:
        """Return what `misc report` shows, as frames by name (see `misc_cli.report.frames`)."""
        return frames(self.outcome)

    def to_frame(self) -> F:
        """Return item, label and confidence: what `misc aggregate` writes."""
        found: F = self.kind.frame(label_columns(self.outcome), "item")
        return found

    def save(self, folder: str | PathLike[str]) -> None:
        """Write labels.csv, workers.csv and what stands beside them, together or not at all."""
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        labels, workers = place / "labels.csv", place / "workers.csv"
        places = {"labels": labels, "workers": workers, **beside(labels)}
        outcome = self.outcome
        writers: dict[str, Write] = {
            "labels": lambda out: write_table(label_columns(outcome), out, labels.name),
            "workers": lambda out: write_table(worker_columns(outcome), out, workers.name),
            "diagnostics": lambda out: out.writelines(map(json_bytes, outcome.records)),
        }

        asked = replace(self.request, output=str(labels), workers=str(workers))
        outputs = {name: str(path) for name, path in places.items()}
        files = {name: (places[name], write) for name, write in writers.items()}
        write_set(files, places["run"], lambda: self.facts(asked, outputs))

    def facts(
        self, request: AggregateRequest | None = None, outputs: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """Return the content of run.json."""
        inputs = map(asdict, self.inputs)
        more = {"outputs": outputs or {}, "warnings": list(self.warnings)}
        return manifest(self.outcome, request or self.request, inputs, self.known, **more)

    def _repr_html_(self) -> str:
        """Return a notebook's view: the run in a line, then the first labels."""
        shown = text_frame(label_columns(self.outcome)).head(10).to_html(index=False)
        return f"<p>{escape(repr(self)[1:-1])}</p>{shown}"

    def __repr__(self) -> str:
        figures = self.outcome.figures
        error = "" if self.error is None else f", error {self.error:.2f} %"
        return (
            f"<Result: {figures['items']:,} items from {figures['answers']:,} answers by "
            f"{figures['workers']:,} workers, {figures['classes']:,} classes, "
            f"mean confidence {figures['confidence']:.3f}{error}>"
        )

    @property
    def converged(self) -> bool:
        return self.outcome.fit.converged

    @property
    def iterations(self) -> int:
        return self.outcome.fit.iterations

    @property
    def error(self) -> float | None:
        """Return the per cent of items with truth that are wrong; None without truth."""
        return self.outcome.figures.get("error")

    @property
    def figures(self) -> dict[str, Any]:
        """Return the run in numbers, by the names that --fail-if knows."""
        return dict(self.outcome.figures)


def labels_of(given: Result[Any] | Known) -> LabelTable:
    if isinstance(given, Result):
        names, decision = given.outcome.labels, given.outcome.decision
        said = names.classes.take(decision.label)
        return LabelTable(names.items, said, decision.confidence, name="the labels")
    if isinstance(given, pd.Series) or is_frame(given):
        return frame_labels(given)
    from misc_cli.writers.tables import read_labels

    return read_labels(name_of(given))


@dataclass(frozen=True)
class Plots:
    """Pictures of a Result. Each takes the axes to draw on, or makes its own, and returns them."""

    result: Result[Any]

    def confusion(self, worker: object, ax: Axes | None = None) -> Axes:
        """Draw what a worker says (columns) to items of each class (rows)."""
        ax = _axes(ax)
        matrix = self.result.confusions[worker]
        ax.imshow(matrix.to_numpy(), vmin=0, vmax=1, cmap="Blues")
        ax.set_xticks(range(len(matrix)), matrix.index.map(str))
        ax.set_yticks(range(len(matrix)), matrix.index.map(str))
        ax.set(xlabel="said", ylabel="true", title=f"worker {worker}")
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
        codes = outcome.truth if known is None else encode_known(outcome.labels, known)
        if codes is None:
            raise ConfigError("calibration needs the truth of some items; give truth=")
        bands = confidence_frame(outcome.decision.confidence, outcome.decision.label, codes)
        bands = bands[bands["known"] > 0]
        stated = (bands["from"] + bands["to"]) / 2
        ax = _axes(ax)
        ax.plot([0, 1], [0, 1], color="grey", linestyle=":")
        ax.vlines(stated, bands["low"], bands["high"])
        ax.scatter(stated, bands["right"], s=10 + 200 * bands["known"] / bands["known"].sum())
        ax.set(xlabel="confidence", ylabel="share that is right", xlim=(0, 1), ylim=(0, 1))
        return ax

    def convergence(self, ax: Axes | None = None) -> Axes:
        """Draw by how much the probabilities moved in each iteration of each method."""
        lines = convergence_frame(self.result.outcome.records)
        ax = _axes(ax)
        names = lines.get("candidate", lines["stage"]).fillna(lines["stage"])
        for name, own in lines.groupby(names, sort=False):
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
