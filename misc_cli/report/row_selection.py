"""Which workers and items a page shows: all if they are few, else the extremes and a sample."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from misc_cli.report.frames import Report

WORST_WORKERS, SAMPLED_WORKERS = 400, 200
LEAST_SURE, OUTVOTED, TIED, WRONG = 150, 100, 50, 100
MAX_CLASSES = 30  # in a matrix; more cannot be read
MAX_CELLS = 300_000  # of all confusion matrices of a page together
PER_MILLE = 1000
NAMES_PER_LABEL = 25
REASONS = ("least sure", "overruled", "outvoted", "tie", "wrong")


def shown_workers(workers: pd.DataFrame) -> pd.DataFrame:
    """The worst, then every so many of the rest; the frame is sorted worst first."""
    if len(workers) <= WORST_WORKERS + SAMPLED_WORKERS:
        return workers
    spread = np.linspace(WORST_WORKERS, len(workers) - 1, SAMPLED_WORKERS).astype(np.int64)
    return workers.iloc[[*range(WORST_WORKERS), *np.unique(spread)]]


def shown_items(items: pd.DataFrame) -> pd.DataFrame:
    """Items that need eyes, least sure first, with a column `why`; each item once.

    Outvoted labels that are least sure come with the least sure; of the others those that most
    answers stand against are the ones to look at, overruled ones among them.
    """
    chosen: dict[str, Any] = {"least sure": items.index[:LEAST_SURE]}
    if "outvoted" in items:
        outvoted = items[items["outvoted"]]
        against = outvoted["answers"] - outvoted["votes"]
        order = against.sort_values(ascending=False, kind="stable").index
        chosen["outvoted"] = order[:OUTVOTED]
    if "tie" in items:
        chosen["tie"] = items.index[items["tie"].astype(bool)][:TIED]
    if "right" in items:
        wrong = items[items["right"] == False]  # noqa: E712  (None is unknown, not wrong)
        chosen["wrong"] = wrong.index[::-1][:WRONG]  # the surest mistakes
    rows = np.unique(np.concatenate([index.to_numpy() for index in chosen.values()]))
    shown = items.iloc[rows].copy()
    marks = {
        "least sure": np.isin(rows, chosen["least sure"]),
        **{
            name: shown.get(name, pd.Series(False, shown.index)).to_numpy(bool)
            for name in ("overruled", "outvoted", "tie")
        },
        "wrong": (shown["right"] == False).to_numpy()  # noqa: E712
        if "right" in shown
        else np.zeros(len(rows), dtype=bool),
    }
    shown["why"] = [[name for name in REASONS if marks[name][at]] for at in range(len(rows))]
    return shown


def confusions(workers: pd.DataFrame, classes: list[str]) -> list[list[int]] | None:
    """Each shown worker's confusion matrix in per mille, row by row; None where there is none.

    None too where they would make the page too large.
    """
    names = [f"true_{true}_said_{said}" for true in classes for said in classes]
    if not set(names) <= set(workers.columns) or len(classes) > MAX_CLASSES:
        return None
    if len(names) * len(workers) > MAX_CELLS:
        return None
    values = workers[names].to_numpy(float)
    whole: list[list[int]] = np.rint(PER_MILLE * np.nan_to_num(values)).astype(int).tolist()
    return whole


def votes_by_item(report: Report, items: list[str]) -> dict[str, list[dict[str, Any]]]:
    """For each item its labels, most votes first, with who gave them."""
    answers = report.answers_on(items)
    found: dict[str, list[dict[str, Any]]] = {item: [] for item in items}
    for (item, label), workers in answers.groupby(["item", "label"], sort=False)["worker"]:
        names = workers.tolist()
        found[str(item)].append(
            {
                "label": label,
                "count": len(names),
                "workers": names[:NAMES_PER_LABEL],
                "more": max(len(names) - NAMES_PER_LABEL, 0),
            }
        )
    for votes in found.values():
        votes.sort(key=lambda vote: (-vote["count"], str(vote["label"])))
    return found


def largest_classes(report: Report) -> list[str]:
    """The classes that a matrix shows, in class order: those with most votes if they are many."""
    crowd = report.frames.get("crowd")
    if crowd is None:
        return []
    names = list(crowd.columns)
    if len(names) <= MAX_CLASSES:
        return names
    classes = report.frames["classes"].set_index("class")
    size = classes["votes"] if "votes" in classes else classes["labels"]
    largest = set(size.sort_values(ascending=False, kind="stable").index[:MAX_CLASSES])
    return [name for name in names if name in largest]
