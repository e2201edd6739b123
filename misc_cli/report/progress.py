"""Progress over time: how many answers, by how many workers, and how often they were right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow.compute as pc

from misc_cli.core.encode import trimmed
from misc_cli.core.types import Answers, Names
from misc_cli.run.outcome import Outcome

HOUR = 3600
# Steps of time, the shortest that makes a curve of no more than so many points.
STEPS = tuple(HOUR * hours for hours in (1, 3, 6, 12, 24, 7 * 24, 28 * 24))
MOST_STEPS = 60


def progress_frame(answers: Answers, times: Any, outcome: Outcome) -> pd.DataFrame:
    """from, answers, workers, agreement (with the final labels); empty where no time is known.

    `times` is when each answer was given, seconds since 1970, NaN where that is not told.
    """
    if times is None or np.isfinite(times).sum() < 2:
        return pd.DataFrame()
    labels = outcome.labels
    worker, item, label = (
        _codes(column, names)
        for column, names in (
            (answers.worker, labels.workers),
            (answers.item, labels.items),
            (answers.label, labels.classes),
        )
    )
    known = np.isfinite(times) & (worker >= 0) & (item >= 0) & (label >= 0)
    if not known.any():
        return pd.DataFrame()
    told = times[known]
    span = float(told.max() - told.min())
    step = next((one for one in STEPS if span / one <= MOST_STEPS), STEPS[-1])
    start = np.floor(told.min() / step) * step
    rows = pd.DataFrame(
        {
            "from": ((told - start) // step).astype(np.int64),
            "worker": worker[known],
            "right": label[known] == outcome.decision.label[item[known]],
        }
    )
    steps = rows.groupby("from").agg(
        answers=("right", "size"), workers=("worker", "nunique"), agreement=("right", "mean")
    )
    whole = steps.reindex(range(int(rows["from"].max()) + 1))
    whole[["answers", "workers"]] = whole[["answers", "workers"]].fillna(0).astype(np.int64)
    whole.insert(0, "from", pd.to_datetime(start + whole.index * step, unit="s", utc=True))
    return whole.reset_index(drop=True)


def _codes(column: Any, names: Names) -> Any:
    """The code of each cell among these names, -1 where it is none of them."""
    if hasattr(column, "dictionary"):
        places = pc.index_in(trimmed(column.dictionary), names)
        codes = pc.fill_null(places, -1).to_numpy()
        return np.append(codes, -1)[np.asarray(column.indices.fill_null(len(codes)))]
    return pc.fill_null(pc.index_in(trimmed(column), names), -1).to_numpy()
