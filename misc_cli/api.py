"""The Python API: the command line's pipeline, DataFrames in and out."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from os import PathLike, fspath
from typing import Any

import pandas as pd
import pyarrow as pa

from misc_cli.core.encode import encode, encode_truth
from misc_cli.core.parameters import check, parameters_of
from misc_cli.core.types import Answers, KnownLabels, OnIteration, ignore_iteration
from misc_cli.errors import InputError, MiscWarning
from misc_cli.io.read import ReadOptions, read_answer_columns, read_known
from misc_cli.report.statistics import frames, text_frame
from misc_cli.run import pipeline
from misc_cli.run.outcome import Outcome
from misc_cli.run.settings import Settings
from misc_cli.run.tables import label_columns, worker_columns

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


def aggregate(
    answers: pd.DataFrame | Path | Sequence[Path],
    *,
    aggregator: str = Settings.aggregator,
    completer: str | None = Settings.completer,
    preset: str = Settings.preset,
    gold: pd.DataFrame | Path | None = None,
    truth: pd.DataFrame | Path | None = None,
    duplicates: str | None = Settings.duplicates,
    class_order: Sequence[str] | None = None,
    seed: int = Settings.seed,
    threads: int | None = None,
    calibrate: bool = Settings.calibrate,
    time_budget: float | None = None,
    on_iteration: OnIteration = ignore_iteration,
    **options: Any,
) -> Result:
    """One label per item from a DataFrame (worker, item, label) or from files.

    `options` are the methods' parameters: the flags of `misc aggregate` with underscores.
    """
    settings = Settings(
        preset=preset,
        completer=completer,
        aggregator=aggregator,
        duplicates=duplicates,
        class_order=None if class_order is None else tuple(map(str, class_order)),
        seed=seed,
        threads=threads,
        calibrate=calibrate,
        time_budget=time_budget,
        options=options,
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", MiscWarning)
        outcome = pipeline.run(
            _answers(answers, duplicates),
            settings,
            gold=_known(gold),
            truth=_known(truth),
            on_iteration=on_iteration,
        )
    for warning in caught:  # the caller's filters decide what becomes of them
        warnings.warn(str(warning.message), warning.category, stacklevel=2)
    return Result(outcome, tuple(str(warning.message) for warning in caught))


def compare(
    answers: pd.DataFrame | Path | Sequence[Path],
    *,
    completers: Sequence[str] = ("none", "tucker"),
    aggregators: Sequence[str] | None = None,
    preset: str = Settings.preset,
    truth: pd.DataFrame | Path | None = None,
    seed: int = Settings.seed,
    time_budget: float | None = None,
) -> pd.DataFrame:
    """Methods ranked by how well they forecast answers that were hidden from them, best first.

    Columns as in `misc_cli.select.compare.Standing`; `truth` is only reported.
    """
    from misc_cli.run.plan import applicable, pairs
    from misc_cli.select.compare import compare as leaderboard

    check({"seed": seed, "time_budget": time_budget}, parameters_of(Settings))
    labels = encode(_answers(answers)).labels
    judges = _known(truth)
    standings = leaderboard(
        labels,
        pairs(completers, aggregators or applicable(labels), preset, seed),
        truth=None if judges is None else encode_truth(labels, judges),
        seed=seed,
        time_budget=time_budget,
    )
    return pd.DataFrame([asdict(standing) for standing in standings])


def read_answers(sources: Path | Sequence[Path], **options: Any) -> pd.DataFrame:
    """Answers from files, as text: columns worker, item, label.

    `options` are the fields of `misc_cli.io.read.ReadOptions`, which are the reading flags.
    """
    answers = read_answer_columns(_names(sources), ReadOptions(**options)).answers
    return text_frame({"worker": answers.worker, "item": answers.item, "label": answers.label})


def _answers(given: pd.DataFrame | Path | Sequence[Path], duplicates: str | None = None) -> Answers:
    if not isinstance(given, pd.DataFrame):
        return read_answer_columns(_names(given), ReadOptions(duplicates=duplicates)).answers
    return Answers(*_columns(given, ("worker", "item", "label")))


def _known(given: pd.DataFrame | Path | None) -> KnownLabels | None:
    if given is None:
        return None
    if not isinstance(given, pd.DataFrame):
        return read_known(_name(given)).labels
    return KnownLabels(*_columns(given, ("item", "label")))


def _columns(frame: pd.DataFrame, names: Sequence[str]) -> list[Any]:
    missing = [name for name in names if name not in frame.columns]
    if missing:
        found = ", ".join(map(str, frame.columns))
        raise InputError(f"no column {missing[0]!r} among {found}; rename the DataFrame's columns")
    return [_text(frame[name]) for name in names]


def _text(column: pd.Series[Any]) -> Any:
    """As text, missing values missing; whole numbers that pandas made floats are whole again."""
    if pd.api.types.is_float_dtype(column.dtype):
        column = column.convert_dtypes()
    return pa.array(column.astype("string"), pa.string(), from_pandas=True)


def _names(sources: Path | Sequence[Path]) -> list[str]:
    if isinstance(sources, Sequence) and not isinstance(sources, str):
        return [_name(source) for source in sources]
    return [_name(sources)]


def _name(source: Any) -> str:
    if isinstance(source, str | PathLike):
        return fspath(source)
    raise InputError(f"{source!r:.60} is neither a DataFrame nor the path of a file")
