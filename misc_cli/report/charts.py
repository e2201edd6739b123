"""The numbers behind the charts of a page, as plain lists: templates/page.js draws them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd

from misc_cli.report.names import visible
from misc_cli.report.record import Report
from misc_cli.report.statistics import reliability_frame

MAX_POINTS = 300
MAX_LINES = 12
MAX_BARS = 40
CHARTS = (
    "confidence",
    "reliability",
    "classes",
    "progress",
    "convergence",
    "worker_map",
    "item_map",
)
MAX_DOTS = 1_000

Chart = list[dict[str, Any]]


def charts(report: Report) -> dict[str, Chart]:
    """Every chart; one that this run has no data for is empty."""
    frames = report.frames
    found: dict[str, Chart] = {name: [] for name in CHARTS}
    if "confidence" in frames:
        found["confidence"] = _records(frames["confidence"][["from", "to", "items"]])
        found["reliability"] = _records(reliability_frame(frames["confidence"]))
    if "classes" in frames:
        found["classes"] = _classes(frames["classes"])
    if "progress" in frames:
        progress = frames["progress"]
        found["progress"] = _records(progress.assign(**{"from": progress["from"].map(_stamp)}))
    for name, shade in (("worker_map", "accuracy"), ("item_map", "label")):
        if name in frames:
            found[name] = _dots(frames[name], name.removesuffix("_map"), shade)
    if "convergence" in frames:
        found["convergence"] = _convergence(frames["convergence"])
    return found


def _records(frame: pd.DataFrame) -> Chart:
    """Rows as plain dictionaries; a number that is not one is null."""
    rows = frame.to_dict("records")
    return [{str(name): plain(value) for name, value in row.items()} for row in rows]


def plain(value: Any) -> Any:
    """A numpy value as Python's, four digits after the point; NaN is None."""
    if isinstance(value, float | np.floating):
        return round(float(value), 6) if math.isfinite(value) else None
    if isinstance(value, np.generic):
        return value.item()
    return value


def _classes(classes: pd.DataFrame) -> Chart:
    """Shares of votes, of labels and of known labels, class by class; the largest if many."""
    largest = classes.sort_values("labels", ascending=False, kind="stable").index[:MAX_BARS]
    rows = classes.loc[sorted(largest)]
    kinds = {"answers": "votes_share", "labels": "labels_share"}
    if "truth" in classes and classes["truth"].sum():
        rows = rows.assign(truth_share=rows["truth"] / classes["truth"].sum())
        kinds["truth"] = "truth_share"
    return [
        {"class": visible(row["class"]), "of": kind, "share": plain(row[column])}
        for _, row in rows.iterrows()
        for kind, column in kinds.items()
        if column in rows
    ]


def _stamp(moment: pd.Timestamp) -> str:
    return moment.isoformat(timespec="minutes")


def _dots(points: pd.DataFrame, name: str, shade: str) -> Chart:
    """Points of a map, evenly thinned where they are many."""
    thinned = points.iloc[:: -(-len(points) // MAX_DOTS)]
    shown = thinned[[name, "x", "y", shade]].set_axis(["name", "x", "y", "shade"], axis=1)
    return [
        {key: visible(value) if isinstance(value, str) else value for key, value in row.items()}
        for row in _records(shown)
    ]


def _convergence(lines: pd.DataFrame) -> Chart:
    """The change per iteration, one curve for each method that ran; thinned where long."""
    named = lines["stage"].astype(str)
    if "candidate" in lines:
        named = lines["candidate"].fillna(named).astype(str)
    points: Chart = []
    for name, own in list(lines.groupby(named, sort=False))[:MAX_LINES]:
        change = own["change"].astype(float).to_numpy()
        at = np.flatnonzero(np.isfinite(change) & (change > 0))
        keep = at if len(at) <= MAX_POINTS else at[:: -(-len(at) // MAX_POINTS)]
        points += [
            {"method": str(name), "iteration": int(i) + 1, "change": float(f"{change[i]:.4g}")}
            for i in keep
        ]
    return points
