"""The Python API: the command line's pipeline, DataFrames in and out."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property, partial
from html import escape
from inspect import signature
from os import PathLike, fspath
from pathlib import Path as FilePath
from typing import Any

import pandas as pd
from threadpoolctl import threadpool_limits

from misc_cli import registry
from misc_cli.completers.parameters import Loop
from misc_cli.data.encode import encode_truth
from misc_cli.data.parameters import check, parameters_of, seconds_of
from misc_cli.data.resources import processes as may_use_processes
from misc_cli.data.resources import thread_limit
from misc_cli.data.types import Answers, KnownLabels, OnIteration, ignore_iteration
from misc_cli.errors import ConfigError, InputError, MiscWarning, did_you_mean
from misc_cli.readers.answer_table import FileInfo
from misc_cli.readers.known_labels import frame_answers, frame_known, read_known
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.read import read_answer_columns
from misc_cli.report.frames import frames, text_frame
from misc_cli.run import pipeline
from misc_cli.run.pipeline import memory_engine
from misc_cli.run.request import AggregateRequest, Stopwatch
from misc_cli.run.result import RunResult
from misc_cli.run.run_record import manifest, write_records
from misc_cli.run.settings import Settings, build
from misc_cli.run.tables import label_columns, worker_columns
from misc_cli.state.session import python_session
from misc_cli.state.session import save as save_state
from misc_cli.writers.output_set import Output, Write
from misc_cli.writers.render import write_table
from misc_cli.writers.run_outputs import beside, write_set

Path = str | PathLike[str]


@dataclass(frozen=True, repr=False)
class Result:
    """A finished run.

    labels       item, label, confidence and item details, one row per item, sorted by item
    posteriors   items × classes, rows sum to 1
    workers      one row per worker: answers, accuracy, agreement, information, confusions
    diagnostics  one row per iteration
    """

    outcome: RunResult
    warnings: tuple[str, ...] = ()
    request: AggregateRequest = field(default_factory=AggregateRequest)
    inputs: tuple[FileInfo, ...] = ()
    known: Mapping[str, FileInfo] = field(default_factory=dict)

    @cached_property
    def labels(self) -> pd.DataFrame:
        return text_frame(label_columns(self.outcome, item_details=True))

    @cached_property
    def posteriors(self) -> pd.DataFrame:
        labels = self.outcome.labels
        return pd.DataFrame(
            self.outcome.posteriors,
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
        """Return what `misc report` shows, as frames by name (see `misc_cli.report.frames`)."""
        return frames(self.outcome)

    def to_frame(self) -> pd.DataFrame:
        """Return item, label and confidence, sorted by item: what `misc aggregate` writes."""
        return self.labels[["item", "label", "confidence"]]

    def save(self, folder: Path) -> None:
        """Write labels.csv, workers.csv and what stands beside them, together or not at all."""
        started = time.perf_counter()
        place = FilePath(folder)
        place.mkdir(parents=True, exist_ok=True)
        labels = place / "labels.csv"
        places = {"labels": labels, "workers": place / "workers.csv", **beside(labels)}
        writers: dict[str, Write] = {
            "labels": lambda out: write_table(label_columns(self.outcome), out, "labels.csv"),
            "workers": lambda out: write_table(worker_columns(self.outcome), out, "workers.csv"),
            "diagnostics": lambda out: write_records(self.outcome.records, out),
        }

        def record() -> dict[str, Any]:
            self.outcome.timings["write"] = round(time.perf_counter() - started, 6)
            return manifest(
                self.outcome,
                replace(self.request, output=str(labels), workers=str(places["workers"])),
                command=(),
                inputs=map(asdict, self.inputs),
                known=self.known,
                outputs={name: str(path) for name, path in places.items()},
                warnings=self.warnings,
            )

        files = {name: Output(places[name], write) for name, write in writers.items()}
        write_set(files, places["run"], record)

    def _repr_html_(self) -> str:
        """Return a notebook's view: the run in a line, then the first labels."""
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


READING = {field.name for field in fields(ReadOptions)} - {"duplicates"}
OWN = parameters_of(Settings)


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
    processes: bool = False,
    calibrate: bool = Settings.calibrate,
    time_budget: float | str | None = None,
    state: Path | None = None,
    accept: Sequence[str] = (),
    on_iteration: OnIteration = ignore_iteration,
    **options: Any,
) -> Result:
    """Return one label per item from a DataFrame (worker, item, label) or from files.

    `options` are the flags of `misc aggregate` with underscores: the methods' parameters and how
    to read (`label_col="verdict"`). `processes` lets an automatic choice use processes of its own;
    `time_budget` is in seconds, or text such as "10s". `state` is the folder of --state: methods
    are kept and fits start where the last run ended, of Python or of the command line; `accept`
    names what may differ from then, as --accept does.
    """
    reading, parameters = _split(options, duplicates)
    _refuse_unknown(parameters)
    settings = Settings(
        preset=preset,
        completer=completer,
        aggregator=aggregator,
        duplicates=duplicates,
        class_order=_order(class_order),
        seed=seed,
        threads=threads,
        calibrate=calibrate,
        time_budget=_seconds(time_budget),
        options=parameters,
    )
    asked = AggregateRequest(
        () if isinstance(answers, pd.DataFrame) else tuple(_names(answers)),
        settings,
        reading,
        gold=_file(gold),
        truth=_file(truth),
        state=None if state is None else fspath(state),
        accept=tuple(accept),
    )
    methods = build(settings)
    watch = Stopwatch()
    with _quietly(processes) as caught:
        read, files = _answers(answers, reading)
        known = {"gold": _known(gold), "truth": _known(truth)}
        run = partial(
            pipeline.run,
            read,
            methods,
            gold=known["gold"][0],
            truth=known["truth"][0],
            on_iteration=on_iteration,
            watch=watch,
        )
        if state is None:
            outcome = run()
        else:  # start from what the last run saved
            with python_session(FilePath(state), accept) as session:
                outcome = run(fitter=session.fit)
                save_state(FilePath(state), session, outcome.posteriors)
    sources = {role: file for role, (_, file) in known.items() if file is not None}
    return Result(outcome, _repeated(caught), asked, files, sources)


def compare(
    answers: pd.DataFrame | Path | Sequence[Path],
    *,
    completers: Sequence[str] = ("none", "tucker"),
    aggregators: Sequence[str] | None = None,
    preset: str = Settings.preset,
    truth: pd.DataFrame | Path | None = None,
    duplicates: str | None = Settings.duplicates,
    class_order: Sequence[str] | None = None,
    seed: int = Settings.seed,
    threads: int | None = None,
    processes: bool = False,
    time_budget: float | str | None = None,
    **options: Any,
) -> pd.DataFrame:
    """Rank methods by how well they forecast answers that were hidden from them, best first.

    Columns as in `misc_cli.selection.compare.Standing`; `truth` is only reported. `options` say how
    to read. Warns of what `aggregate` warns of in the answers.
    """
    from misc_cli.run.fitting import combinations
    from misc_cli.selection.compare import compare as leaderboard
    from misc_cli.selection.roster import applicable

    reading, unknown = _split(options, duplicates)
    if unknown:
        raise ConfigError(f"{min(unknown)}: compare() takes no parameter of a method")
    settings = Settings(
        preset=preset,
        duplicates=duplicates,
        class_order=_order(class_order),
        seed=seed,
        threads=threads,
        time_budget=_seconds(time_budget),
    )
    check({name: getattr(settings, name) for name in OWN}, OWN)
    with _quietly(processes) as caught, thread_limit(threads):
        engine = memory_engine(_answers(answers, reading)[0], settings)
        judges, _ = _known(truth)
        standings = leaderboard(
            engine,
            combinations(completers, aggregators or applicable(engine), preset, seed),
            truth=None if judges is None else encode_truth(engine.labels, judges),
            seed=seed,
            time_budget=settings.time_budget,
        )
    _repeated(caught)
    return pd.DataFrame([asdict(standing) for standing in standings])


def read_answers(sources: Path | Sequence[Path], **options: Any) -> pd.DataFrame:
    """Return answers from files, as text: columns worker, item, label.

    `options` are the reading flags with underscores, the fields of `misc_cli.readers.ReadOptions`.
    """
    reading, unknown = _split(options, options.pop("duplicates", None))
    if unknown:
        known = ", ".join(sorted(READING))
        raise ConfigError(f"{min(unknown)}: no such way to read; there are {known}")
    answers = read_answer_columns(_names(sources), reading).answers
    return text_frame({"worker": answers.worker, "item": answers.item, "label": answers.label})


def _split(
    options: Mapping[str, Any], duplicates: str | None
) -> tuple[ReadOptions, dict[str, Any]]:
    """Return the reading options, and the other options."""
    reading = {name: value for name, value in options.items() if name in READING}
    rest = {name: value for name, value in options.items() if name not in READING}
    return ReadOptions(**reading, duplicates=duplicates), rest


def _refuse_unknown(parameters: Mapping[str, Any]) -> None:
    """Refuse a word that is no option of anything, with a guess at what was meant."""
    known = {*READING, *parameters_of(Loop), *signature(aggregate).parameters}
    known |= {
        parameter
        for kind in registry.KINDS
        for name in registry.OWN[kind]
        for parameter in registry.parameters(kind, name)
    }
    for word in parameters.keys() - known:
        plugins = [(kind, name) for kind in registry.KINDS for name in registry.plugin_names(kind)]
        if not any(word in registry.parameters(kind, name) for kind, name in plugins):
            raise ConfigError(f"{word}: no such option{did_you_mean(word, known)}")


def _order(class_order: Sequence[str] | None) -> tuple[str, ...] | None:
    if class_order is None:
        return None
    if isinstance(class_order, str) or not isinstance(class_order, Sequence):
        raise ConfigError(f"class_order {class_order!r}: give a list of labels")
    return tuple(map(str, class_order))


def _seconds(given: float | str | None) -> float | None:
    if not isinstance(given, str):
        return given
    seconds = seconds_of(given)
    if seconds is None:
        raise ConfigError(f"time_budget {given!r}: give seconds, or a time such as 60s, 5m or 1h")
    return seconds


@contextmanager
def _quietly(processes: bool) -> Iterator[list[warnings.WarningMessage]]:
    """Run as the command line does: one BLAS thread beside our own, our warnings kept."""
    with (
        warnings.catch_warnings(record=True) as caught,
        threadpool_limits(1, "blas"),
        may_use_processes(processes),
    ):
        warnings.simplefilter("always", MiscWarning)
        yield caught


def _repeated(caught: Sequence[warnings.WarningMessage]) -> tuple[str, ...]:
    """Warn the caller of what was kept, by its own filters; return the texts."""
    for warning in caught:
        warnings.warn(str(warning.message), warning.category, stacklevel=3)
    return tuple(str(warning.message) for warning in caught)


def _answers(
    given: pd.DataFrame | Path | Sequence[Path], reading: ReadOptions
) -> tuple[Answers, tuple[FileInfo, ...]]:
    """Return answers, and the files that they were read from."""
    if isinstance(given, pd.DataFrame):
        return frame_answers(given, reading), ()
    read = read_answer_columns(_names(given), reading)
    return read.answers, tuple(read.files)


def _known(given: pd.DataFrame | Path | None) -> tuple[KnownLabels | None, FileInfo | None]:
    """Return known labels, if any, and the file that they were read from, if any."""
    if given is None or isinstance(given, pd.DataFrame):
        return None if given is None else frame_known(given), None
    found = read_known(_name(given))
    return found.labels, found.file


def _file(given: pd.DataFrame | Path | None) -> str | None:
    return None if given is None or isinstance(given, pd.DataFrame) else _name(given)


def _names(sources: Path | Sequence[Path]) -> list[str]:
    if isinstance(sources, Sequence) and not isinstance(sources, str):
        return [_name(source) for source in sources]
    return [_name(sources)]


def _name(source: Any) -> str:
    if isinstance(source, str | PathLike):
        return fspath(source)
    raise InputError(f"{source!r:.60} is neither a DataFrame nor the path of a file")
