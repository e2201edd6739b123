"""The Python API: what each command does, as a function; data frames of any kind in and out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any

import pandas as pd

from misc_cli.arguments import (
    Completion,
    Duplicates,
    F,
    Frame,
    Kind,
    Known,
    Method,
    Path,
    Preset,
    Source,
    answers_of,
    class_order_of,
    is_frame,
    is_record,
    known_of,
    name_of,
    names_of,
    session,
    telling,
)
from misc_cli.arguments import ReadOptions as ReadOptions
from misc_cli.completers.parameters import Loop
from misc_cli.data.encode import encode_known, text_frame
from misc_cli.data.parameters import check, parameters_of
from misc_cli.data.resources import limits
from misc_cli.data.types import OnIteration, ignore_iteration
from misc_cli.errors import ConfigError
from misc_cli.readers import options as readers
from misc_cli.readers.read import read_answer_columns
from misc_cli.results import Result, labels_of
from misc_cli.run import pipeline
from misc_cli.run.request import AggregateRequest, Stopwatch
from misc_cli.run.result import queue_columns
from misc_cli.run.settings import Settings, build, with_methods

if TYPE_CHECKING:
    from misc_cli.quality.evaluation import Evaluation
    from misc_cli.report.frames import Report
    from misc_cli.selection.candidates import Method as Candidate


def aggregate(
    answers: F | Source,
    *,
    aggregator: Method = "auto",
    completer: Completion | None = None,
    loop: Loop | None = None,
    preset: Preset = "robust",
    gold: Known | None = None,
    truth: Known | None = None,
    worker_col: str | None = None,
    item_col: str | None = None,
    label_col: str | None = None,
    reading: ReadOptions | None = None,
    duplicates: Duplicates | None = None,
    class_order: Sequence[object] | None = None,
    calibrate: bool = True,
    seed: int = 0,
    threads: int | None = None,
    processes: bool = False,
    time_budget: float | None = None,
    progress: bool = False,
    on_iteration: OnIteration = ignore_iteration,
) -> Result[F]:
    """Return one label per item, as `misc aggregate` does.

    Parameters
    ----------
    answers
        A data frame (pandas, polars, pyarrow) with a row for each answer, or files. Columns are
        found by their names (task or item, worker or annotator, label …), or by `worker_col`,
        `item_col` and `label_col`; `reading` says more of how to read.
    aggregator
        A name, a method with its parameters (`misc_cli.DawidSkene(max_iter=50)`), or a function of
        your own from labels to posteriors (docs/plugins.md). "auto" lets hidden answers choose.
    completer, loop
        A completer (`misc_cli.Tucker(ranks=(3, 8, 4))`) and the loop that it works in.
    preset
        Decides the parameters that a method leaves at their defaults.
    gold, truth
        Known labels that teach, and that only judge: a frame (item, label), a Series by item, or a
        file.
    duplicates
        Which of a worker's several labels of an item counts; None is the last, with a warning.
    class_order
        All labels, from the least to the greatest, where they have an order.
    calibrate
        False leaves the probabilities as the method has them.
    threads, processes
        Threads that walk the items, and whether an automatic choice may start processes.
    time_budget
        Seconds that an automatic choice may take.
    progress
        True says on stderr how far it is; `on_iteration` is told of each iteration.

    Examples
    --------
    >>> import pandas as pd
    >>> from misc_cli import aggregate
    >>> answers = pd.DataFrame(
    ...     {"worker": ["a", "b", "c"] * 2, "item": [7, 7, 7, 9, 9, 9], "label": [1, 1, 0, 0, 0, 0]}
    ... )
    >>> aggregate(answers, aggregator="mv").to_frame()
       item  label  confidence
    0     7      1    0.666667
    1     9      0    1.000000
    """
    watch = Stopwatch()
    with session(processes) as warned:
        columns = {"worker_col": worker_col, "item_col": item_col, "label_col": label_col}
        given = {**columns, "duplicates": duplicates}
        own = {name: value for name, value in given.items() if value is not None}
        options = readers.ReadOptions(**{**vars(reading or readers.ReadOptions()), **own})
        read, files, kind = answers_of(answers, options)
        basis = Settings(
            preset=preset,
            duplicates=duplicates,
            class_order=class_order_of(class_order, kind),
            seed=seed,
            threads=threads,
            calibrate=calibrate,
            time_budget=time_budget,
        )
        settings, custom = with_methods(basis, aggregator, completer, loop)
        known = {"gold": known_of(gold), "truth": known_of(truth)}
        sources = {role: file for role, (_, file) in known.items() if file is not None}
        asked = AggregateRequest(
            () if is_frame(answers) else tuple(names_of(answers)),
            settings,
            options,
            gold=sources["gold"].name if "gold" in sources else None,
            truth=sources["truth"].name if "truth" in sources else None,
        )
        outcome = pipeline.run(
            read,
            build(settings, custom),
            gold=known["gold"][0],
            truth=known["truth"][0],
            on_iteration=telling(on_iteration) if progress else on_iteration,
            watch=watch,
        )
    return Result(outcome, tuple(warned), asked, files, sources, kind)


def compare(
    answers: Frame | Source | Mapping[str, Frame | Path],
    *,
    aggregators: Sequence[Method] | None = None,
    completers: Sequence[Completion] = ("none", "tucker"),
    preset: Preset = "robust",
    truth: Known | Mapping[str, Known] | None = None,
    reading: ReadOptions | None = None,
    duplicates: Duplicates | None = None,
    class_order: Sequence[object] | None = None,
    seed: int = 0,
    threads: int | None = None,
    processes: bool = False,
    time_budget: float | None = None,
    progress: bool = False,
) -> pd.DataFrame:
    """Return methods ranked by how well they forecast answers that were hidden from them.

    Of several datasets, a mapping from names to frames or files, return methods × datasets with
    their mean, average rank and a test, as `misc compare` prints it.

    Parameters
    ----------
    aggregators, completers
        Names, methods with parameters, or functions of your own; None is every aggregator that the
        answers allow. Every completer goes with every aggregator, "none" is no completer.
    truth
        Known labels, or a mapping to them by dataset. They only judge: errors in per cent. Several
        datasets that all have truth are compared by their errors, else by hidden answers.

    Notes
    -----
    The other parameters are those of `aggregate`.

    Examples
    --------
    >>> from misc_cli import compare, simulate
    >>> answers, truth = simulate(workers=20, items=100, classes=2, seed=1)
    >>> compare(answers, aggregators=["mv", "ds-em"], completers=["none"])["method"].tolist()
    ['ds-em', 'mv', 'null']
    """
    from misc_cli.run.pipeline import combinations
    from misc_cli.selection.candidates import applicable
    from misc_cli.selection.compare import Dataset, compare_datasets
    from misc_cli.selection.compare import compare as leaderboard

    with session(processes), limits(threads):
        options = replace(reading or readers.ReadOptions(), duplicates=duplicates)
        rules = Settings(
            preset=preset,
            duplicates=duplicates,
            seed=seed,
            threads=threads,
            time_budget=time_budget,
        )
        own = parameters_of(Settings)
        check({name: getattr(rules, name) for name in own}, own)
        named = dict(answers) if isinstance(answers, Mapping) else {"": answers}
        truths = dict(truth) if isinstance(truth, Mapping) else dict.fromkeys(named, truth)
        datasets = []
        for name, given in named.items():
            read, _, kind = answers_of(given, options)
            order = class_order_of(class_order, kind)
            engine = pipeline.memory_engine(read, replace(rules, class_order=order))
            known, _ = known_of(truths.get(name))
            codes = None if known is None else encode_known(engine.labels, known)
            datasets.append(Dataset(name, engine, codes))

        def methods(dataset: Dataset) -> list[Candidate]:
            chosen = aggregators or applicable(dataset.engine)
            return combinations(completers, chosen, preset, seed)

        asked: dict[str, Any] = {"seed": seed, "time_budget": time_budget}
        if progress:
            asked["on_iteration"] = telling(ignore_iteration)
        if len(datasets) > 1:
            table = compare_datasets(datasets, methods, **asked)
            return pd.DataFrame(table.columns()).set_index("method")
        (one,) = datasets
        standings = leaderboard(one.engine, methods(one), truth=one.truth, **asked)
        return pd.DataFrame([asdict(standing) for standing in standings])


def evaluate(labels: Result[Any] | Known, truth: Known) -> Evaluation:
    """Return error, precision, recall, confusion and calibration of labels against the truth.

    Parameters
    ----------
    labels
        A Result, a frame (item, label and maybe confidence), a Series by item, or a file.
    truth
        A frame (item, label), a Series by item, or a file.

    Examples
    --------
    >>> import pandas as pd
    >>> from misc_cli import evaluate
    >>> found = evaluate(pd.Series(["x", "y"], index=[1, 2]), pd.Series(["x", "x"], index=[1, 2]))
    >>> found.error, found.classes, found.confusion.tolist()
    (0.5, ('x', 'y'), [[1, 1], [0, 0]])
    """
    from misc_cli.quality.evaluation import evaluate as judged

    with session():
        known, _ = known_of(truth)
        assert known is not None
        return judged(labels_of(labels), known)


def diff(old: Result[Any] | Known, new: Result[Any] | Known) -> pd.DataFrame:
    """Return the items whose label changed from old to new, and the items that came and went.

    Parameters
    ----------
    old, new
        Results, frames (item, label and maybe confidence), Series by item, or files.

    Examples
    --------
    >>> import pandas as pd
    >>> from misc_cli import diff
    >>> old, new = pd.Series({"1": "x", "2": "y"}), pd.Series({"1": "z", "3": "y"})
    >>> diff(old, new)[["change", "item", "old_label", "new_label"]]
        change item old_label new_label
    0  flipped    1         x         z
    1      new    3       NaN         y
    2     gone    2         y       NaN
    """
    from misc_cli.quality.evaluation import compare as changes

    with session():
        found = text_frame(changes(labels_of(old), labels_of(new)).columns)
        return found.dropna(axis=1, how="all") if len(found) else found


def queue(run: F | Source | Result[F], budget: int | None = None) -> F:
    """Return the items whose label gains most from one more answer, best first.

    Parameters
    ----------
    run
        A Result, or answers (`aggregate` with its defaults).
    budget
        How many items at most; None is every item that an answer could help.

    Examples
    --------
    >>> from misc_cli import aggregate, queue, simulate
    >>> answers, truth = simulate(workers=20, items=100, classes=2, seed=1)
    >>> list(queue(aggregate(answers, aggregator="ds-em"), budget=3).columns)
    ['item', 'gain', 'label', 'confidence', 'runner_up', 'answers', 'gain_once']
    """
    done = run if isinstance(run, Result) else aggregate(run)
    found: F = done.kind.frame(queue_columns(done.outcome, budget))
    return found


def workers(run: F | Source | Result[F]) -> F:
    """Return answers, accuracy, agreement and verdict of each worker, the worst first.

    Parameters
    ----------
    run
        A Result, the run.json of a finished run, or answers (`aggregate` with its defaults).

    Examples
    --------
    >>> from misc_cli import aggregate, simulate, workers
    >>> answers, truth = simulate(workers=20, items=200, classes=2, seed=1)
    >>> workers(aggregate(answers, aggregator="ds-em")).columns[:4].tolist()
    ['worker', 'answers', 'accuracy', 'accuracy_low']
    """
    return _table_of("workers", run)


def items(run: F | Source | Result[F]) -> F:
    """Return label, confidence, votes and ties of each item, the least sure first.

    Parameters
    ----------
    run
        A Result, the run.json of a finished run, or answers (`aggregate` with its defaults).

    Examples
    --------
    >>> from misc_cli import aggregate, items, simulate
    >>> answers, truth = simulate(workers=20, items=200, classes=2, seed=1)
    >>> items(aggregate(answers, aggregator="ds-em"))["confidence"].is_monotonic_increasing
    True
    """
    return _table_of("items", run)


def report(run: Frame | Source | Result[Any], path: Path = "report.html") -> FilePath:
    """Write one page (.html) or workbook (.xlsx) that shows a run, and return its path.

    Parameters
    ----------
    run
        A Result, the run.json of a finished run, or answers (`aggregate` with its defaults).

    Examples
    --------
    >>> from misc_cli import aggregate, report, simulate
    >>> answers, truth = simulate(workers=20, items=200, classes=2, seed=1)
    >>> report(aggregate(answers, aggregator="ds-em", truth=truth), "page.html").name
    'page.html'
    """
    from misc_cli.job.outputs import check_report_name, report_bytes
    from misc_cli.writers.output_set import write_all

    place = FilePath(path)
    with session():
        check_report_name(place)
        write_all({place: report_bytes(_report_of(run), place)})
        return place


def inspect(answers: Frame | Source, *, reading: ReadOptions | None = None) -> dict[str, Any]:
    """Return what is in answers and how they would be read, as `misc inspect --json` says it.

    Parameters
    ----------
    answers, reading
        As in `aggregate`.

    Examples
    --------
    >>> from misc_cli import inspect, simulate
    >>> answers, truth = simulate(workers=20, items=50, classes=2, seed=1)
    >>> inspect(answers)["questions"][0]["items"]
    50
    """
    from misc_cli.job.inspection import inspected
    from misc_cli.quality.agreement import summarize

    with session():
        options = reading or readers.ReadOptions()
        if is_frame(answers):
            return {"files": [], "questions": [summarize(answers_of(answers, options)[0], None)]}
        return inspected(names_of(answers), options)


def simulate(
    *,
    workers: int = 100,
    items: int = 1000,
    classes: int = 4,
    answers_per_item: float = 5.0,
    accuracy: float = 0.7,
    activity_skew: float = 1.0,
    mix: Mapping[str, float] | None = None,
    groups: int | None = None,
    seed: int = 0,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the answers of a made-up crowd (worker, item, label) and the truth (item, label).

    Parameters
    ----------
    answers_per_item
        On average, each by another worker.
    accuracy
        Of the median honest worker.
    activity_skew
        How unevenly workers share the work; 0 is evenly.
    mix
        Shares of the kinds of workers: experts, honest, biased, spammers, adversaries, constants,
        beginners, copiers.
    groups
        Number of confusion matrices that all workers share; None: each worker has its own.

    Examples
    --------
    >>> from misc_cli import simulate
    >>> answers, truth = simulate(workers=3, items=2, classes=2, answers_per_item=2)
    >>> answers.columns.tolist(), truth.shape
    (['worker', 'item', 'label'], (2, 2))
    """
    given = {name: value for name, value in locals().items() if value is not None}
    from misc_cli.simulate import Simulation, answer_columns, truth_columns
    from misc_cli.simulate import simulate as draw

    with session():
        crowd = draw(Simulation(**given))
        return text_frame(answer_columns(crowd)), text_frame(truth_columns(crowd))


def read_answers(sources: Source, *, reading: ReadOptions | None = None) -> pd.DataFrame:
    """Return answers from files, as text: columns worker, item, label.

    Parameters
    ----------
    sources
        Files, folders or addresses of any format that misc reads (docs/input.md).
    reading
        How to read them: `ReadOptions(worker_col="who", question="mood", delimiter=";")`.

    Examples
    --------
    >>> from misc_cli import read_answers, simulate
    >>> simulate(workers=2, items=1, classes=2, answers_per_item=2)[0].to_csv("answers.csv")
    >>> read_answers("answers.csv").columns.tolist()
    ['worker', 'item', 'label']
    """
    with session():
        found = read_answer_columns(names_of(sources), reading).answers
        return text_frame({"worker": found.worker, "item": found.item, "label": found.label})


def _table_of(name: str, run: F | Source | Result[F]) -> F:
    """Return a frame of the report on a run, in the kind of its answers."""
    done = run if isinstance(run, Result) or is_record(run) else aggregate(run)
    kind = done.kind if isinstance(done, Result) else Kind()
    with session():
        found = _report_of(done).frames[name]
        frame: F = kind.frame({str(column): found[column] for column in found})
        return frame


def _report_of(run: Frame | Source | Result[Any]) -> Report:
    from misc_cli.report import frames
    from misc_cli.report.load_run import read_runs

    if not is_record(run):
        done = run if isinstance(run, Result) else aggregate(run)
        return frames.build(done.outcome, done.facts())
    several = read_runs(name_of(run))
    if len(several) > 1:
        raise ConfigError(f"{name_of(run)}: of several questions; aggregate them one by one")
    return next(iter(several.values()))
