"""What the Python API gives back: a finished run, its tables as DataFrames."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from html import escape
from os import PathLike
from pathlib import Path as FilePath
from typing import Any

import pandas as pd

from misc_cli.report.statistics import frames, text_frame
from misc_cli.run.outcome import Outcome
from misc_cli.run.tables import label_columns, worker_columns
from misc_cli.saving import save

Path = str | PathLike[str]


@dataclass(frozen=True, repr=False)
class Result:
    """A finished run.

    labels       item, label, confidence and item details, one row per item, sorted by item
    posteriors   items × classes, rows sum to 1
    workers      one row per worker: answers, accuracy, agreement, information, confusions
    diagnostics  one row per iteration
    """

    outcome: Outcome
    warnings: tuple[str, ...] = ()

    @cached_property
    def labels(self) -> pd.DataFrame:
        return text_frame(label_columns(self.outcome, item_details=True))

    @cached_property
    def posteriors(self) -> pd.DataFrame:
        labels = self.outcome.labels
        return pd.DataFrame(
            self.outcome.aggregation.posteriors,
            index=pd.Index(labels.items.to_pylist(), name="item"),
            columns=labels.classes.to_pylist(),
        )

    @cached_property
    def workers(self) -> pd.DataFrame:
        return text_frame(worker_columns(self.outcome))

    @cached_property
    def diagnostics(self) -> pd.DataFrame:
        return pd.DataFrame(self.outcome.records)

    def report(self) -> dict[str, pd.DataFrame]:
        """What `misc report` shows, as frames by name (see `misc_cli.report.statistics`)."""
        return frames(self.outcome)

    def to_frame(self) -> pd.DataFrame:
        """item, label and confidence, sorted by item: what `misc aggregate` writes."""
        return self.labels[["item", "label", "confidence"]]

    def save(self, folder: Path) -> None:
        """labels.csv, workers.csv and what stands beside them, together or not at all."""
        save(self.outcome, FilePath(folder), self.warnings)

    def _repr_html_(self) -> str:
        """A notebook's view: the run in a line, then the first labels."""
        return f"<p>{escape(repr(self)[1:-1])}</p>{self.to_frame().head(10).to_html(index=False)}"

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
        return self.outcome.aggregation.converged

    @property
    def iterations(self) -> int:
        return self.outcome.aggregation.iterations

    @property
    def error(self) -> float | None:
        """Per cent of items with truth that are wrong; None without truth."""
        return self.outcome.figures.get("error")

    @property
    def figures(self) -> dict[str, Any]:
        """The run in numbers, by the names that --fail-if knows."""
        return dict(self.outcome.figures)
