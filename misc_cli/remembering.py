"""The folder of a state, from the command line and from Python: opened before a run, left after."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from misc_cli.core.types import Aggregation
from misc_cli.errors import MiscWarning
from misc_cli.io import locks, state
from misc_cli.io.state import Stored
from misc_cli.io.write import Output, write_all
from misc_cli.run.left import Left
from misc_cli.run.night import Night

RECHOOSE = 30 * 86400.0  # seconds after which a choice is old


def opened(folder: Path) -> Stored | None:
    """The state, checked; None with a warning if it cannot be used: it is set aside, not lost."""
    try:
        found = state.load(folder)
    except state.UnusableState as why:
        aside = state.set_aside(folder)
        warnings.warn(
            f"--state {folder}: {why}; it is kept in {aside}, this run starts from nothing",
            MiscWarning,
            stacklevel=3,
        )
        return None
    if found is not None:
        state.tidy(folder)
    return found


def left_of(stored: Stored | None) -> Left | None:
    """What the last run left."""
    if stored is None:
        return None
    return Left(stored.about, stored.tables["workers"], stored.tables.get("items"))


def outputs(
    folder: Path,
    night: Night,
    aggregation: Aggregation,
    more: Callable[[], Mapping[str, Any]],
    tables: Mapping[str, Any],
) -> list[Output]:
    """What the next run needs; `more` and `tables` are what the caller adds to it.

    `more` is asked when all other files are written.
    """
    about, own = night.leave(aggregation)
    return state.outputs(
        folder, lambda: {**about, **more()}, {**own, **tables}, keep_aside=night.of_other_data
    )


def leave(folder: Path, night: Night, aggregation: Aggregation) -> None:
    """Keep what the next run needs, after a run from Python."""
    more = {"run": None, "answers_read": None}
    write_all(outputs(folder, night, aggregation, lambda: more, {}))
    kept(folder, night)


def kept(folder: Path, night: Night) -> None:
    """The new state is there: what only older ones need can go."""
    state.tidy(folder)
    if night.of_other_data:
        state.tidy(folder / state.ASIDE)


@contextmanager
def night_of(folder: Path) -> Iterator[Night]:
    """A run from Python: the folder is ours meanwhile."""
    state.check_folder(folder)
    with locks.holding([folder.resolve() / state.POINTER]):
        yield Night(left=left_of(opened(folder)), rechoose=RECHOOSE)
