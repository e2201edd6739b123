"""Carry out an AggregateRequest: read, aggregate, compare with the last outputs, judge, write.

`misc aggregate` calls `performed`; `misc rerun` does too, with the request of a run.json.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from misc_cli import cleanup
from misc_cli.data.parameters import AUTO
from misc_cli.errors import ConfigError, GateTripped, MiscWarning
from misc_cli.job.inputs import Inputs, Observer, inputs_of
from misc_cli.job.outputs import Target, Writing, read_previous
from misc_cli.readers.source import check_stdin_once, refuse_changed
from misc_cli.run import pipeline
from misc_cli.run.fail_if import Gate, holding, parse_gates
from misc_cli.run.request import LOCAL, AggregateRequest, Fitter, FitterOf, Stopwatch
from misc_cli.run.run_record import manifest
from misc_cli.run.settings import Methods, build

if TYPE_CHECKING:
    from misc_cli.data.types import Answers
    from misc_cli.engines.protocol import AnswerEngine
    from misc_cli.quality.changes import Changes
    from misc_cli.quality.figures import Figure
    from misc_cli.report.frames import Report
    from misc_cli.run.result import RunResult
    from misc_cli.state.replay import RecordedRun
    from misc_cli.state.session import StateSession


@dataclass
class QuestionRun:
    """One question's run: what it was asked, read and found, and where its outputs go."""

    request: AggregateRequest
    inputs: Inputs
    outcome: RunResult
    places: Mapping[str, Path] = field(default_factory=dict)
    changes: Changes | None = None

    def record(
        self,
        outputs: Mapping[str, Any],
        warned: Sequence[str],
        command: Sequence[str] = (),
        state: Mapping[str, Any] | None = None,
        *,
        named: bool = False,
    ) -> dict[str, Any]:
        """Return the content of run.json; `named` adds the question's name."""
        read, engine = self.inputs.read, self.outcome.engine
        there = None if self.inputs.engine is None else engine
        sources = list(engine.inputs) if read is None else list(map(asdict, read.files))
        return manifest(
            self.outcome,
            self.request,
            command=command,
            inputs=sources,
            known={name: found.file for name, found in self.inputs.known.items()},
            outputs=outputs,
            warnings=warned,
            engine=None if there is None else there.facts(),
            state=state,
            question=self.inputs.question if named else None,
        )

    def report(self, facts: dict[str, Any], *, anonymize: bool) -> Report:
        """Return the report of the run; `facts` is its record."""
        from misc_cli.report.frames import anonymized, build

        read = self.inputs.read
        shown = () if read is None else (read.answers, read.times)
        kept = None if read is None else read.kept
        report = build(self.outcome, facts, *shown, kept=kept, title=self.request.title or "")
        return anonymized(report) if anonymize else report


@dataclass(frozen=True)
class Finished:
    """A request that was carried out: a run for each question, and the state if there is one.

    `unchanged` holds the figures of the last run where nothing changed since and nothing was done.
    `rejection` says in words what is in place where a condition of --fail-if held.
    """

    runs: Sequence[QuestionRun]
    named: Sequence[Mapping[str, Path]] = ()
    session: StateSession | None = None
    unchanged: Mapping[str, Figure] | None = None
    tripped: Sequence[str] = ()
    rejection: str | None = None

    def refuse(self) -> None:
        """Raise if a condition of --fail-if held."""
        held = "; ".join(self.tripped)
        if held and self.rejection is not None:
            raise GateTripped(f"--fail-if {held}: not published, {self.rejection}")
        if held:
            done = "done and written" if self.unchanged is None else "nothing to do"
            raise GateTripped(f"{done}, but --fail-if {held}")


@contextmanager
def performed(
    request: AggregateRequest,
    observer: Observer,
    *,
    command: Sequence[str] = (),
    began: float | None = None,
    now: float | None = None,
    fitter: FitterOf | None = None,
) -> Iterator[Finished]:
    """Carry out a request and publish its outputs; its engine lives as long as the context.

    Parameters
    ----------
    command
        The words of the command line, for run.json.
    began, now
        When the process began, by the monotonic clock, and the time of day that a state counts
        from; both are found out if not given.
    fitter
        Gives a question's fitter where methods are not to be chosen anew.
    """
    methods, gates = checked(request)
    target = Target.of(request)
    if not request.each_question:
        target.check()
    session, own = None, None
    if request.state is not None or request.workers_prior is not None:
        from misc_cli.state.session import fitter_of, open_session

        session = open_session(request, target.places, now)
        own = fitter_of(session, request)
    watch = Stopwatch(began, observer.on_stage)
    with ExitStack() as stack:
        whole = None
        if not request.each_question:
            whole = read_previous(request, gates, target.places, session)
        read = inputs_of(request, observer, watch, stack, with_times=request.report is not None)
        if session is not None and (figures := session.unchanged(read[0].files)) is not None:
            tripped = [gate.told(figures) for gate in holding(gates, figures)]
            figures = {**figures, "gates-tripped": len(tripped)}
            session.nothing_done(figures, watch.seconds)
            yield Finished([], [], session, figures, tripped)
            return
        if session is not None:
            contract, files = session.night.contract, read[0].read.files if read[0].read else []
            contract.see({file.roles for file in files}, {file.form for file in files})
            stack.enter_context(contract.quiet())
        places = target.places_of(read)
        runs, told = [], []
        for inputs, where in zip(read, places, strict=True):
            earlier = whole or read_previous(request, gates, where, None)
            chosen = own if fitter is None else fitter(inputs.question)
            run = fitted(request, inputs, methods, observer, watch, chosen)
            run.places = where
            if earlier is not None:
                run.changes = earlier.against(run)
                run.outcome.figures.update(run.changes.figures)
            told += _judged(run, gates, request.each_question)
            runs.append(run)
        for gate in gates:
            if not any(gate.metric in run.outcome.figures for run in runs):
                gate.trips({})  # no question can be judged by it: an error
        rejection = None
        if told and not request.publish_anyway:
            rejection = target.rejection()
            target = target.rejected(runs)
        write = Writing(request, runs, target, observer.warnings, command, session, told)
        write.publish()
        if session is not None and rejection is None:
            session.written_down()
        named = [target.named(run) for run in runs]
        yield Finished(runs, named, session, tripped=told, rejection=rejection)


def repeated(recorded: RecordedRun, observer: Observer) -> tuple[list[bytes], bool | None]:
    """Carry out a recorded request again, from the inputs and the state that it had.

    Returns the files of labels, one for each question, and whether they are those of the record;
    None where the record has them in parts.
    """
    recorded.refuse_changed()
    asked = recorded.label_digests
    name = Path(recorded.request.output or "").name if asked else "labels.csv"
    with cleanup.folder("misc-rerun-") as folder, recorded.earlier_state(folder) as state:
        request = replace(recorded.request, output=str(folder / name), state=state)
        now = None if recorded.state is None else float(recorded.state["now"])
        with performed(request, observer, now=now, fitter=recorded.fitter()) as finished:
            read = [file for run in finished.runs for file in run.inputs.files]
            recorded.refuse_changed({file.name: file.sha256 for file in read})
            labels = [run.places["labels"].read_bytes() for run in finished.runs]
    found = sorted(hashlib.sha256(data).hexdigest() for data in labels)
    return labels, found == sorted(asked.values()) if asked else None


def _judged(run: QuestionRun, gates: Sequence[Gate], among_several: bool) -> list[str]:
    """Judge a run; return the conditions that held, in words."""
    figures = run.outcome.figures
    asked = [gate for gate in gates if gate.metric in figures] if among_several else gates
    tripped = holding(asked, figures)
    figures["gates-tripped"] = len(tripped)
    before = f"{run.inputs.question}: " if among_several else ""
    return [f"{before}{gate.told(figures)}" for gate in tripped]


def run_in_memory(
    request: AggregateRequest, observer: Observer, *, began: float | None = None
) -> QuestionRun:
    """Read and aggregate the answers to one question, with their times; write nothing."""
    methods, _ = checked(request)
    watch = Stopwatch(began, observer.on_stage)
    with ExitStack() as stack:
        (read,) = inputs_of(request, observer, watch, stack, with_times=True)
        return fitted(request, read, methods, observer, watch)


def checked(request: AggregateRequest) -> tuple[Methods, list[Gate]]:
    """Return the methods and gates; what cannot be done is refused before anything is read."""
    check_stdin_once(request.files)
    methods = build(request.settings)
    gates = parse_gates(request.fail_if, request.truth)
    if request.engine != LOCAL:
        from misc_cli.run.fitting import check_engine

        check_engine(request.engine, request.settings, methods)
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
    own = request.of_question(inputs.question) if request.each_question else request
    source: Answers | AnswerEngine
    if inputs.engine is not None:
        source = inputs.engine
    else:
        assert inputs.read is not None
        source = inputs.read.answers
        methods = _without_workers(methods) if inputs.read.anonymous else methods
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
    return QuestionRun(own, inputs, outcome)


def _without_workers(methods: Methods) -> Methods:
    """Return a majority vote: without workers there is nothing else; refuse another method."""
    settings = methods.settings
    if settings.aggregator not in (AUTO, "mv"):
        raise ConfigError(
            f"--aggregator {settings.aggregator} needs to know who answered, and nobody says; "
            "use mv, or name the workers with --worker-col"
        )
    text = "nobody says who answered, so this is a plain majority vote"
    warnings.warn(text, MiscWarning, stacklevel=3)
    return build(replace(settings, aggregator="mv", completer="none"))
