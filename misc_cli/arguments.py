"""Arguments of the Python functions, as readers and pipeline take them, and how Python speaks."""

from __future__ import annotations

import contextlib
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from os import PathLike, fspath
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import pandas as pd
from threadpoolctl import threadpool_limits

from misc_cli.data.parameters import seconds_of
from misc_cli.data.resources import processes as may_use_processes
from misc_cli.data.types import (
    Aggregator,
    Answers,
    Completer,
    Iteration,
    LabelTable,
    OnIteration,
    ignore_iteration,
)
from misc_cli.dataframes import (
    Frame,
    Kind,
    Known,
    frame_answers,
    frame_labels,
    is_frame,
    name_of,
    texts_of,
)
from misc_cli.errors import ConfigError, MiscWarning, in_python, python_words
from misc_cli.readers import options as readers
from misc_cli.readers.answer_table import FileInfo
from misc_cli.readers.read import read_answer_columns
from misc_cli.results import Result

if TYPE_CHECKING:
    from misc_cli.run.settings import OwnMethod

Path: TypeAlias = str | PathLike[str]
Source: TypeAlias = Path | Sequence[Path]
AggregatorName = Literal["auto", "mv", "one-coin", "ds-em", "ds-mf", "mmce-c", "mmce-o", "ebcc"]
CompleterName = Literal["auto", "none", "tucker", "tenals", "lrtc"]
Preset = Literal["robust", "paper"]
Duplicates = Literal["last", "first", "error", "all"]
Method: TypeAlias = "AggregatorName | Aggregator | OwnMethod"
Completion: TypeAlias = CompleterName | Completer


class ReadOptions(readers.ReadOptions):
    """Options of reading: the reading flags of the commands, with underscores (docs/input.md)."""

    def __post_init__(self) -> None:
        with in_python():
            super().__post_init__()


def _told(forward: OnIteration) -> OnIteration:
    """Return an observer that also says on stderr, on one line, how far a run is."""
    shown = time.monotonic()

    def tell(iteration: Iteration) -> None:
        nonlocal shown
        forward(iteration)
        if time.monotonic() - shown > 0.2:
            shown = time.monotonic()
            of = iteration.extra.get("of")
            what = str(iteration.extra.get("candidate", iteration.stage))
            done = f"{what} {iteration.iteration}{'' if of is None else f' of {of}'}"
            sys.stderr.write(f"\r{done[:70]:<70}")
            sys.stderr.flush()

    return tell


class Session(NamedTuple):
    """Observers of a call while it runs: `on_iteration` of progress, `caught` of warnings."""

    on_iteration: OnIteration
    caught: list[warnings.WarningMessage]

    @property
    def warnings(self) -> tuple[str, ...]:
        return tuple(python_words(str(warning.message)) for warning in self.caught)


@contextmanager
def session(
    processes: bool = False, progress: bool = False, forward: OnIteration = ignore_iteration
) -> Iterator[Session]:
    """Run as the command line does, with one BLAS thread, and speak as Python does.

    Warnings reach the caller's filters when the block ends, as if its own line had given them.
    """
    with (
        in_python(),
        warnings.catch_warnings(record=True) as caught,
        threadpool_limits(1, "blas"),
        may_use_processes(processes),
    ):
        warnings.simplefilter("always", MiscWarning)
        running = Session(_told(forward) if progress else forward, caught)
        try:
            yield running
        finally:
            if progress:
                sys.stderr.write(f"\r{'':<70}\r")
    for text, warning in zip(running.warnings, caught, strict=True):
        warnings.warn(text, warning.category, stacklevel=_frames_of_misc())


def _frames_of_misc() -> int:
    """Return how many frames there are from the caller of this to the first outside of misc."""
    ours = (str(FilePath(__file__).parent), contextlib.__file__)
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(ours):
        level, frame = level + 1, frame.f_back
    return level


def is_record(run: object) -> bool:
    return isinstance(run, str | PathLike) and fspath(run).endswith("run.json")


def reading_of(
    reading: readers.ReadOptions | None,
    worker_col: str | None,
    item_col: str | None,
    label_col: str | None,
    duplicates: str | None,
) -> readers.ReadOptions:
    """Return how to read, as the command line would record it."""
    given = {"worker_col": worker_col, "item_col": item_col, "label_col": label_col}
    given["duplicates"] = duplicates
    known = {} if reading is None else vars(reading)
    return readers.ReadOptions(**{**known, **{k: v for k, v in given.items() if v is not None}})


def class_order_of(class_order: Sequence[object] | None, kind: Kind) -> tuple[str, ...] | None:
    """Return the texts of labels in the order that was given, or that their category has."""
    if class_order is None:
        return kind.columns["label"].order if "label" in kind.columns else None
    if isinstance(class_order, str) or not isinstance(class_order, Sequence):
        raise ConfigError(f"class_order {class_order!r}: give a list of labels")
    return tuple(texts_of(pd.Series(list(class_order))).to_pylist())


def seconds(given: float | str | None) -> float | None:
    if not isinstance(given, str):
        return given
    seconds = seconds_of(given)
    if seconds is None:
        raise ConfigError(f"time_budget {given!r}: give seconds, or a time such as 60s, 5m or 1h")
    return seconds


def answers_of(
    given: Frame | Source, reading: readers.ReadOptions
) -> tuple[Answers, tuple[FileInfo, ...], Kind]:
    """Return answers, the files that they were read from, and the kind of their frame."""
    if not is_frame(given):
        read = read_answer_columns(names_of(given), reading)
        return read.answers, tuple(read.files), Kind()
    said = {name for name, value in vars(reading).items() if value is not None}
    of_files = sorted(said - {"worker_col", "item_col", "label_col", "duplicates"})
    if of_files:
        raise ConfigError(f"{of_files[0]} says how to read a file; a data frame is read already")
    answers, kind = frame_answers(given, reading.columns)
    return answers, (), kind


def labels_of(given: Result[Any] | Known) -> LabelTable:
    if isinstance(given, Result):
        names, decision = given.outcome.labels, given.outcome.decision
        said = names.classes.take(decision.label)
        return LabelTable(names.items, said, decision.confidence, name="the labels")
    if isinstance(given, pd.Series) or is_frame(given):
        return frame_labels(given)
    from misc_cli.writers.read_back import read_labels

    return read_labels(name_of(given))


def names_of(sources: object) -> list[str]:
    if isinstance(sources, Sequence) and not isinstance(sources, str):
        return [name_of(source) for source in sources]
    return [name_of(sources)]
