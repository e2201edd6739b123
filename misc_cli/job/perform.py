"""Carry out an AggregateRequest: read, aggregate, compare with the last outputs, judge, write.

`misc aggregate` calls `performed`; `misc rerun` does too, with the request of a run.json.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from misc_cli.data.parameters import AUTO, DUPLICATES
from misc_cli.errors import ConfigError, InputError, MiscWarning
from misc_cli.job.outputs import OutputSet, compared, is_folder
from misc_cli.readers.addresses import STDIN, check_stdin_once
from misc_cli.readers.source import changed
from misc_cli.run import pipeline
from misc_cli.run.request import LOCAL, AggregateRequest, Stopwatch
from misc_cli.run.run_record import gauges, manifest
from misc_cli.run.settings import Methods, build
from misc_cli.writers.output_set import write_all

if TYPE_CHECKING:
    from misc_cli.data.types import Answers, Iteration
    from misc_cli.engines.protocol import AnswerEngine
    from misc_cli.quality.evaluation import Changes
    from misc_cli.quality.figures import Figure
    from misc_cli.readers.answer_table import AnswerTable, FileInfo
    from misc_cli.readers.known_labels import Known
    from misc_cli.report.frames import Report
    from misc_cli.run.fail_if import Gate
    from misc_cli.run.result import RunResult
    from misc_cli.state.session import StateSession

    class Observer(Protocol):
        """Hears what a run has to say while it goes on; the console is one."""

        @property
        def warnings(self) -> list[str]: ...
        def on_iteration(self, iteration: Iteration) -> None: ...
        def on_stage(self, stage: str) -> None: ...
        def note(self, text: str) -> None: ...
        def clear_line(self) -> None: ...


@dataclass
class QuestionRun:
    """One question of a request: what was asked and read, and what was found once it is fitted.

    known    known labels by role: gold, truth
    read     the answers in memory, or
    engine   the engine that holds them, with the stamps of the files that it read
    outcome  the result, once it is fitted
    places   its outputs by name
    changes  what is new since the outputs that it replaces, if that was asked for
    """

    request: AggregateRequest
    question: str
    known: Mapping[str, Known]
    read: AnswerTable | None = None
    engine: AnswerEngine | None = None
    stamps: Any = None
    outcome: RunResult = field(init=False)
    places: dict[str, Path] = field(default_factory=dict)
    changes: Changes | None = None

    @property
    def files(self) -> list[FileInfo]:
        """Return every file that was read into memory, with its checksum."""
        answers = [] if self.read is None else self.read.files
        return [*answers, *(found.file for found in self.known.values())]

    def record(self, **facts: Any) -> dict[str, Any]:
        """Return the content of run.json; `facts` are those of `manifest`."""
        engine = self.outcome.fit.engine
        if self.engine is not None:
            facts["engine"] = {"name": self.request.engine, **engine.facts}
        inputs = engine.inputs if self.read is None else map(asdict, self.read.files)
        known = {name: found.file for name, found in self.known.items()}
        return manifest(self.outcome, self.request, inputs, known, **facts)

    def report(self, facts: dict[str, Any]) -> Report:
        """Return the report of the run; `facts` is its record."""
        from misc_cli.report.frames import build

        kept = None if self.read is None else self.read.kept
        return build(self.outcome, facts, kept, title=self.request.title or "")


@dataclass(frozen=True)
class Finished:
    """A request that was carried out: a run for each question, and the state if there is one.

    `unchanged` is the record of the last run where nothing changed since and nothing was done.
    `tripped` are the conditions of --fail-if that hold; `rejection` then says in words what is in
    place, unless all was published.
    """

    runs: Sequence[QuestionRun]
    session: StateSession | None = None
    unchanged: Mapping[str, Any] | None = None
    tripped: Sequence[str] = ()
    rejection: str | None = None


@contextmanager
def performed(
    request: AggregateRequest,
    observer: Observer,
    *,
    command: Sequence[str] = (),
    began: float | None = None,
) -> Iterator[Finished]:
    """Carry out a request and publish its outputs; its engine lives as long as the context.

    Parameters
    ----------
    command
        The words of the command line, for run.json.
    began
        When the process began, by the monotonic clock; now if it is not given.
    """
    if STDIN in request.files:
        check_stdin_once(request.files)
    methods, each = build(request.settings), request.each_question
    if request.engine != LOCAL:
        pipeline.check_engine(request.engine, request.settings, methods)
    gates: list[Gate] = []
    compares = request.changes is not None
    if request.fail_if:
        from misc_cli.run.fail_if import CHANGES, parse_gate

        gates = [parse_gate(text) for text in request.fail_if]
        compares |= any(gate.metric in CHANGES for gate in gates)
        if request.truth is None and any(gate.metric == "error" for gate in gates):
            raise ConfigError("--fail-if error needs --truth: there is no error to judge without")
    outputs = OutputSet(request)
    if compares and "labels" not in outputs.places:
        flag = "--changes" if request.changes is not None else "--fail-if"
        raise ConfigError(f"{flag} compares with the labels that -o replaces; name a file with -o")
    watch = Stopwatch(began or time.monotonic(), observer.on_stage)
    with ExitStack() as stack:
        session = None
        if request.state is not None:
            from misc_cli.state.session import opened

            if "run" not in outputs.places:
                raise ConfigError("--state needs -o FILE: it compares with the last outputs")
            session = stack.enter_context(opened(request))
        runs = inputs_of(request, observer, watch, stack)
        if session is not None:
            last = session.unchanged(runs[0].files, outputs.places["run"])
            if last is not None:
                figures = dict(last["figures"])
                told = _tripped(gates, figures)
                if "metrics" in outputs.places:  # a collector must not miss a run that did nothing
                    text = gauges(figures, last["method"], watch.seconds, did_nothing=True)
                    write_all({outputs.places["metrics"]: text})
                yield Finished([], session, last, told)
                return
            if runs[0].read is not None:
                session.contract.see(runs[0].read.files)
        runs[0].places = outputs.places
        if each:
            outputs.assign(runs)
        tripped = []
        for run in runs:
            fit(run, methods, observer, watch, session)
            figures = run.outcome.figures
            if compares:
                run.changes = compared(run.outcome, run.places)
                figures.update(run.changes.figures)
            figures["gates-tripped"] = 0
            if gates:
                asked = [gate for gate in gates if not each or gate.metric in figures]
                before = f"{run.question}: " if each else ""
                tripped += [f"{before}{gate}" for gate in _tripped(asked, figures)]
        for gate in gates:
            if not any(gate.metric in run.outcome.figures for run in runs):
                gate.trips({})  # no question can be judged by it: an error
        if tripped and not request.publish_anyway:
            outputs.reject(runs)
        outputs.publish(runs, observer.warnings, command, session, tripped)
        yield Finished(runs, session, tripped=tripped, rejection=outputs.rejection)


def _tripped(gates: Sequence[Gate], figures: dict[str, Figure]) -> list[str]:
    """Return the conditions that hold, in words, and count them among the figures."""
    tripped = [gate.told(figures) for gate in gates if gate.trips(figures)]
    figures["gates-tripped"] = len(tripped)
    return tripped


def run_in_memory(
    request: AggregateRequest, observer: Observer, *, began: float | None = None
) -> QuestionRun:
    """Read and aggregate the answers to one question on the local engine; write nothing."""
    if STDIN in request.files:
        check_stdin_once(request.files)
    methods = build(request.settings)
    watch = Stopwatch(began or time.monotonic(), observer.on_stage)
    with ExitStack() as stack:
        (run,) = inputs_of(request, observer, watch, stack)
        fit(run, methods, observer, watch)
        return run


def fit(
    run: QuestionRun,
    methods: Methods,
    observer: Observer,
    watch: Stopwatch,
    session: StateSession | None = None,
) -> None:
    """Aggregate the answers to one question, on whichever engine they are."""
    settings, read = methods.settings, run.read
    if read is not None and read.anonymous:
        if settings.aggregator not in (AUTO, "mv"):
            raise ConfigError(
                f"--aggregator {settings.aggregator} needs to know who answered; use mv, or name "
                "the workers with --worker-col"
            )
        text = "nobody says who answered, so this is a plain majority vote"
        warnings.warn(text, MiscWarning, stacklevel=2)
        methods = build(replace(settings, aggregator="mv", completer="none"))
    source: Answers | AnswerEngine | None = run.engine if read is None else read.answers
    assert source is not None
    labels = {name: found.labels for name, found in run.known.items()}
    with warnings.catch_warnings():
        if read is not None and read.anonymous:  # seats of nobody do not err together
            warnings.filterwarnings("ignore", "workers err together", MiscWarning)
        run.outcome = pipeline.run(
            source,
            methods,
            gold=labels.get("gold"),
            truth=labels.get("truth"),
            on_iteration=observer.on_iteration,
            fitter=None if session is None else session.fit,
            watch=watch,
        )
    if run.engine is not None:
        refuse_changed(run.stamps)  # what a cluster's worker lost was read once more
    observer.clear_line()
    run.outcome.figures["warnings"] = len(observer.warnings)


def inputs_of(
    request: AggregateRequest, observer: Observer, watch: Stopwatch, stack: ExitStack
) -> list[QuestionRun]:
    """Read everything that a request names: one run, or one for each question.

    `stack` closes an engine.
    """
    sources, reading, files = request.sources, request.reading, request.known_files
    if files or request.gold == AUTO:
        from misc_cli.readers.known_labels import Known, read_known, read_known_each
    if request.engine != LOCAL:
        known = {role: read_known(file, reading) for role, file in files.items()}
        return [_on_engine(request, known, observer, watch, stack)]
    from misc_cli.readers.read import read_answer_columns, read_questions

    runs = []
    with watch.stage("read"):
        if request.each_question:
            for read in read_questions(sources, reading, each=True):
                own = replace(reading, question=read.question)
                own_request = replace(request, each_question=False, reading=own)
                runs.append(QuestionRun(own_request, read.question, {}, read))
            for role, file in files.items():
                told = read_known_each(file, [run.question for run in runs], reading)
                for run in runs:
                    if run.question in told:
                        run.known = {**run.known, role: told[run.question]}
                    else:
                        text = f"{file}: nothing about question {run.question!r}, so it has no"
                        warnings.warn(f"{text} {role}", MiscWarning, stacklevel=2)
        else:
            read = read_answer_columns(sources, reading)
            known = {role: read_known(file, reading) for role, file in files.items()}
            runs = [QuestionRun(request, read.question, known, read)]
        for run in runs if request.gold == AUTO else ():
            assert run.read is not None
            if run.read.gold is None:
                raise InputError(f"{run.read.files[0].name}: no gold in it; give --gold a file")
            run.known = {**run.known, "gold": Known(run.read.gold, run.read.files[0])}
    return runs


def _on_engine(
    request: AggregateRequest,
    known: dict[str, Known],
    observer: Observer,
    watch: Stopwatch,
    stack: ExitStack,
) -> QuestionRun:
    """Read the answers onto an engine, which `stack` closes."""
    from misc_cli.engines.partitioned import EncodingRules, on_disk
    from misc_cli.engines.pieces import batches, pieces_of
    from misc_cli.readers.checks import doubts

    if request.gold == AUTO:
        raise ConfigError("--gold auto is for --engine local; give --gold a file")
    pieces = pieces_of(request.sources, request.reading)
    if not pieces:
        raise InputError(f"{request.sources[0]}: no rows; give files with answers in them")
    read = stamps(piece.path for piece in pieces)
    for first, *_ in islice(batches(pieces[0]), 1):
        for told in doubts(first):
            warnings.warn(f"{first.name}: {told}", MiscWarning, stacklevel=2)
    settings = request.settings
    rules = EncodingRules(
        settings.duplicates or DUPLICATES[0],
        settings.class_order,
        known["gold"].labels if "gold" in known else None,
        ", ".join(request.sources[:3]),
    )
    opening: Any
    if request.engine == "disk":
        opening = on_disk(pieces, rules, spill=request.spill)
    else:
        from misc_cli.engines import dask

        opening = dask.opened(pieces, rules, scheduler=request.scheduler, say=observer.note)
    with watch.stage("read"):
        engine: AnswerEngine = stack.enter_context(opening)
    refuse_changed(read)
    if request.engine == "dask" and not is_folder(request.output):
        dask.refuse_one_file(engine.n_items)
    return QuestionRun(request, "", known, engine=engine, stamps=read)


def stamps(paths: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """Return the state of local files, for `refuse_changed` when they have been read."""
    found = {path: os.stat(path) for path in paths if os.path.isfile(path)}
    return {p: (s.st_dev, s.st_ino, s.st_size, s.st_mtime_ns) for p, s in found.items()}


def refuse_changed(before: Mapping[str, tuple[int, ...]]) -> None:
    """Raise if a file is not in the state that it was in before."""
    for path, stamp in before.items():
        if stamps([path]) != {path: stamp}:
            raise changed(path)
