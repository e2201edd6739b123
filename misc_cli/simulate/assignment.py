"""Who answers which item: different workers for each, the active ones more often."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from misc_cli.core.types import Codes, Floats

BLOCK = 1 << 20  # numbers to hold at a time
PATIENCE = 1000  # rounds of drawing again, before all workers are ranked

Bools = npt.NDArray[np.bool_]


def assign(rng: np.random.Generator, activity: Floats, n_answers: Codes) -> Codes:
    """Different workers for every item, by their activity; flat, items in order, sorted within."""
    most = int(n_answers.max(initial=0))
    n_workers = len(activity)
    # Redrawing repeats is quick while an item needs few of the workers; else rank them all.
    draw = _draw_and_redraw if most * 4 <= n_workers else _rank_all
    step = max(1, BLOCK // max(most, 1 if draw is _draw_and_redraw else n_workers))
    blocks = [
        draw(rng, activity, n_answers[start : start + step])
        for start in range(0, len(n_answers), step)
    ]
    return np.concatenate(blocks)


def _draw_and_redraw(rng: np.random.Generator, activity: Floats, n_answers: Codes) -> Codes:
    n_workers, most = len(activity), int(n_answers.max(initial=0))
    cumulative = np.cumsum(activity)

    def draw(size: tuple[int, ...]) -> Codes:
        found = np.searchsorted(cumulative, rng.random(size) * cumulative[-1], side="right")
        codes: Codes = np.minimum(found, n_workers - 1).astype(np.int32)
        return codes

    wanted = np.arange(most) < n_answers[:, None]
    # Places beyond an item's number hold stand-ins, all different, that sort to the end.
    places = np.where(wanted, draw(wanted.shape), n_workers + np.arange(most, dtype=np.int32))
    places.sort(axis=1)
    pending = np.arange(len(places))
    for _ in range(PATIENCE):
        if not len(pending):
            break
        rows = places[pending]
        repeats = _repeats(rows)
        pending = pending[repeats.any(axis=1)]
        rows[repeats] = draw((int(repeats.sum()),))
        rows.sort(axis=1)
        places[pending] = rows[repeats.any(axis=1)]
    for start in range(0, len(pending), step := max(1, BLOCK // n_workers)):
        rows_left = pending[start : start + step]
        ranked = _rank_all(rng, activity, n_answers[rows_left])
        within = np.repeat(rows_left, n_answers[rows_left])
        first = np.concatenate([[0], np.cumsum(n_answers[rows_left])[:-1]])
        column = np.arange(len(ranked)) - np.repeat(first, n_answers[rows_left])
        places[within, column] = ranked
    flat: Codes = places[places < n_workers]
    return flat


def _repeats(rows: Codes) -> Bools:
    """Where a sorted row repeats the entry to its left."""
    repeats = np.zeros(rows.shape, dtype=bool)
    repeats[:, 1:] = rows[:, 1:] == rows[:, :-1]
    return repeats


def _rank_all(rng: np.random.Generator, activity: Floats, n_answers: Codes) -> Codes:
    """Exponential clocks: the first n to ring are a weighted draw without replacement."""
    times = -np.log1p(-rng.random((len(n_answers), len(activity)))) / activity
    order = np.argsort(times, axis=1, kind="stable")
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.arange(len(activity))[None, :], axis=1)
    return np.nonzero(rank < n_answers[:, None])[1].astype(np.int32)
