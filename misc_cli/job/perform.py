"""Carry out an AggregateRequest: read, aggregate, compare with the last outputs, judge, write.

`misc aggregate` calls `performed`; `misc rerun` does too, with the request of a run.json.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from misc_cli.data.parameters import AUTO
from misc_cli.errors import ConfigError, GateTripped, InputError, MiscWarning
from misc_cli.job.outputs import OutputSet, is_folder, previous_outputs
from misc_cli.readers.addresses import check_stdin_once
from misc_cli.readers.source import refuse_changed, stamps
from misc_cli.run import pipeline
from misc_cli.run.fail_if import Gate, parse_gates
from misc_cli.run.request import LOCAL, AggregateRequest, Fitter, Stopwatch
from misc_cli.run.run_record import gauges, manifest
from misc_cli.run.settings import Methods, build
from misc_cli.writers.output_set import write_all

if TYPE_CHECKING:
    from misc_cli.data.types import Answers, Iteration
    from misc_cli.engines.protocol import AnswerEngine
    from misc_cli.quality.changes import Changes
    from misc_cli.quality.figures import Figure
    from misc_cli.readers.answer_table import AnswerTable, FileInfo
    from misc_cli.readers.known_labels import Known
    from misc_cli.report.frames import Report
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


@dataclass(frozen=True)
class Inputs:
    """The answers to one question, in memory (`read`) or on an engine, and its known labels."""

    question: str
    known: Mapping[str, Known]
    read: AnswerTable | None = None
    engine: AnswerEngine | None = None
    read_stamps: Any = None

    @property
    def files(self) -> list[FileInfo]:
        """Return every file that was read into memory, with its checksum."""
        answers = [] if self.read is None else self.read.files
        return [*answers, *(found.file for found in self.known.values())]


@dataclass
class QuestionRun:
    """One question's run: what it was asked, read and found, and where its outputs go."""

    request: AggregateRequest
    inputs: Inputs
    outcome: RunResult
    places: dict[str, Path] = field(default_factory=dict)
    changes: Changes | None = None

    def record(self, **facts: Any) -> dict[str, Any]:
        """Return the content of run.json; `facts` are those of `manifest`."""
        read, engine = self.inputs.read, self.outcome.engine
        if self.inputs.engine is not None:
            facts["engine"] = {"name": self.request.engine, **engine.facts}
        inputs = engine.inputs if read is None else map(asdict, read.files)
        known = {name: found.file for name, found in self.inputs.known.items()}
        return manifest(self.outcome, self.request, inputs, known, **facts)

    def report(self, facts: dict[str, Any], *, anonymize: bool) -> Report:
        """Return the report of the run; `facts` is its record."""
        from misc_cli.report.frames import anonymized, build

        read = self.inputs.read
        kept = None if read is None else read.kept
        report = build(self.outcome, facts, kept, title=self.request.title or "")
        return anonymized(report) if anonymize else report


@dataclass(frozen=True)
class Finished:
    """A request that was carried out: a run for each question, and the state if there is one.

    `unchanged` is the record of the last run where nothing changed since and nothing was done.
    `rejection` says in words what is in place where a condition of --fail-if held.
    """

    runs: Sequence[QuestionRun]
    session: StateSession | None = None
    unchanged: Mapping[str, Any] | None = None
    tripped: Sequence[str] = ()
    rejection: str | None = None

    def refuse(self) -> None:
        """Raise if a condition of --fail-if held."""
        done = "done and written" if self.unchanged is None else "nothing to do"
        if self.rejection is not None:
            done = f"not published, {self.rejection}"
        if self.tripped:
            raise GateTripped(f"--fail-if {'; '.join(self.tripped)}: {done}")


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
    methods, gates = checked(request)
    outputs, each = OutputSet(request), request.each_question
    if not each:
        outputs.check()
    watch = Stopwatch(began, observer.on_stage)
    with ExitStack() as stack:
        session = None
        if request.state is not None:
            from misc_cli.state.session import opened

            if "run" not in outputs.places:
                raise ConfigError("--state needs -o FILE: it compares with the last outputs")
            session = stack.enter_context(opened(request))
        earlier = None if each else previous_outputs(request, gates, outputs.places)
        read = inputs_of(request, observer, watch, stack)
        if session is not None:
            last = session.unchanged(read[0].files, outputs.places["run"])
            if last is not None:
                figures = dict(last["figures"])
                told = _tripped(gates, figures, each)
                if "metrics" in outputs.places:  # a collector must not miss a run that did nothing
                    text = gauges(figures, last["method"], watch.seconds, did_nothing=True)
                    write_all({outputs.places["metrics"]: text})
                yield Finished([], session, last, told)
                return
            if read[0].read is not None:
                session.contract.see(read[0].read.files)
        runs, tripped = [], []
        places = outputs.places_of([inputs.question for inputs in read])
        for inputs, where in zip(read, places, strict=True):
            if each:
                earlier = previous_outputs(request, gates, where)
            fitter = None if session is None else session.fit
            run = fitted(request, inputs, methods, observer, watch, fitter)
            run.places = where
            if earlier is not None:
                run.changes = earlier(run.outcome)
                run.outcome.figures.update(run.changes.figures)
            before = f"{inputs.question}: " if each else ""
            told = _tripped(gates, run.outcome.figures, each)
            tripped += [f"{before}{gate}" for gate in told]
            runs.append(run)
        for gate in gates:
            if not any(gate.metric in run.outcome.figures for run in runs):
                gate.trips({})  # no question can be judged by it: an error
        if tripped and not request.publish_anyway:
            outputs.reject(runs)
        outputs.publish(runs, observer.warnings, command, session, tripped)
        yield Finished(runs, session, tripped=tripped, rejection=outputs.rejection)


def _tripped(gates: Sequence[Gate], figures: dict[str, Figure], among_several: bool) -> list[str]:
    """Return the conditions that hold, in words, and count them among the figures.

    Of several questions only those are judged that have the figure.
    """
    asked = [gate for gate in gates if not among_several or gate.metric in figures]
    tripped = [gate.told(figures) for gate in asked if gate.trips(figures)]
    figures["gates-tripped"] = len(tripped)
    return tripped


def run_in_memory(
    request: AggregateRequest, observer: Observer, *, began: float | None = None
) -> QuestionRun:
    """Read and aggregate the answers to one question; write nothing."""
    methods, _ = checked(request)
    watch = Stopwatch(began, observer.on_stage)
    with ExitStack() as stack:
        (read,) = inputs_of(request, observer, watch, stack)
        return fitted(request, read, methods, observer, watch)


def checked(request: AggregateRequest) -> tuple[Methods, list[Gate]]:
    """Return the methods and gates; what cannot be done is refused before anything is read."""
    check_stdin_once(request.files)
    methods = build(request.settings)
    gates = parse_gates(request.fail_if, request.truth)
    if request.engine != LOCAL:
        pipeline.check_engine(request.engine, request.settings, methods)
    return methods, gates


def fitted(
    request: AggregateRequest,
    inputs: Inputs,
    methods: Methods,
    observer: Observer,
    watch: Stopwatch,
    fitter: Fitter | None = None,
) -> QuestionRun:
    """Aggregate the answers to one question, on whichever engine they are."""
    labels = {name: found.labels for name, found in inputs.known.items()}
    if request.each_question:
        reading = replace(request.reading, question=inputs.question)
        request = replace(request, each_question=False, reading=reading)
    settings = methods.settings
    source: Answers | AnswerEngine
    if inputs.read is None:
        assert inputs.engine is not None
        source = inputs.engine
    else:
        source = inputs.read.answers
        if inputs.read.anonymous:
            if settings.aggregator not in (AUTO, "mv"):
                raise ConfigError(
                    f"--aggregator {settings.aggregator} needs to know who answered, and nobody "
                    "says; use mv, or name the workers with --worker-col"
                )
            text = "nobody says who answered, so this is a plain majority vote"
            warnings.warn(text, MiscWarning, stacklevel=2)
            methods = build(replace(settings, aggregator="mv", completer="none"))
    outcome = pipeline.run(
        source,
        methods,
        gold=labels.get("gold"),
        truth=labels.get("truth"),
        on_iteration=observer.on_iteration,
        fitter=fitter,
        watch=watch,
    )
    if inputs.engine is not None:
        refuse_changed(inputs.read_stamps)  # what a cluster's worker lost was read once more
    observer.clear_line()
    outcome.figures["warnings"] = len(observer.warnings)
    return QuestionRun(request, inputs, outcome)


def inputs_of(
    request: AggregateRequest,
    observer: Observer,
    watch: Stopwatch,
    stack: ExitStack,
) -> list[Inputs]:
    """Read everything that a request names: one entry, or one for each question.

    `stack` closes an engine.
    """
    if request.engine != LOCAL:
        return [_on_engine(request, observer, watch, stack)]
    from misc_cli.readers.known_labels import Known, read_known_each
    from misc_cli.readers.read import read_answer_columns, read_questions

    sources, reading = request.sources, request.reading
    with watch.stage("read"):
        if request.each_question:
            results = read_questions(sources, reading, each=True)
            known: dict[str, dict[str, Known]] = {read.question: {} for read in results}
            for role, file in request.known_files.items():
                told = read_known_each(file, list(known), reading)
                for question in known:
                    if question in told:
                        known[question][role] = told[question]
                    else:
                        text = f"{file}: nothing about question {question!r}, so it has no {role}"
                        warnings.warn(text, MiscWarning, stacklevel=2)
        else:
            results = [read_answer_columns(sources, reading)]
            known = {results[0].question: _known(request)}
        for read in results if request.embedded_gold else ():
            if read.gold is None:
                raise InputError(f"{read.files[0].name}: no gold in it; give --gold a file")
            known[read.question]["gold"] = Known(read.gold, read.files[0])
    return [Inputs(read.question, known[read.question], read) for read in results]


def _known(request: AggregateRequest) -> dict[str, Known]:
    """Return the known labels that the request names, by role."""
    from misc_cli.readers.known_labels import read_known

    return {name: read_known(file, request.reading) for name, file in request.known_files.items()}


def _on_engine(
    request: AggregateRequest, observer: Observer, watch: Stopwatch, stack: ExitStack
) -> Inputs:
    """Read the answers onto an engine, which `stack` closes."""
    from misc_cli.readers.checks import suspicions
    from misc_cli.readers.chunks import batches, pieces_of
    from misc_cli.readers.known_labels import carried_gold

    pieces = pieces_of(request.sources, request.reading)
    if not pieces:
        raise InputError(f"{request.sources[0]}: no rows; give files with answers in them")
    read = stamps(piece.path for piece in pieces)
    for first in islice(batches(pieces[0]), 1):
        for told in suspicions(first.answers):
            warnings.warn(f"{first.answers.name}: {told}", MiscWarning, stacklevel=2)
    known = _known(request)
    if request.embedded_gold:
        known["gold"] = carried_gold(pieces)
    settings = request.settings
    shown, rest = ", ".join(request.sources[:3]), len(request.sources) - 3
    common: dict[str, Any] = {
        "duplicates": settings.duplicates_rule,
        "class_order": settings.class_order_list,
        "gold": known["gold"].labels if "gold" in known else None,
        "name": shown if rest <= 0 else f"{shown} and {rest:,} more",
    }
    opening: Any
    if request.engine == "disk":
        from misc_cli.engines import disk

        opening = disk.opened(pieces, spill=request.spill, **common)
    else:
        from misc_cli.engines import dask

        opening = dask.opened(pieces, scheduler=request.scheduler, say=observer.note, **common)
    with watch.stage("read"):
        engine: AnswerEngine = stack.enter_context(opening)
    refuse_changed(read)
    if request.engine == "dask" and not is_folder(request.output):
        dask.refuse_one_file(engine.n_items)
    return Inputs("", known, engine=engine, read_stamps=read)
