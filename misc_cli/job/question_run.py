"""One question aggregated: the run, its record and its report."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from misc_cli.data.parameters import AUTO
from misc_cli.errors import ConfigError, MiscWarning
from misc_cli.job.inputs import Inputs, Observer, inputs_of
from misc_cli.readers.source import check_stdin_once, refuse_changed
from misc_cli.run import pipeline
from misc_cli.run.fail_if import Gate, parse_gates
from misc_cli.run.request import LOCAL, AggregateRequest, Fitter, FitterOf, Stopwatch
from misc_cli.run.run_record import manifest
from misc_cli.run.settings import Methods, build

if TYPE_CHECKING:
    from misc_cli.data.types import Answers
    from misc_cli.engines.protocol import AnswerEngine
    from misc_cli.quality.changes import Changes
    from misc_cli.report.frames import Report
    from misc_cli.run.result import RunResult


@dataclass
class QuestionRun:
    """One question's run: what it was asked, read and found, and where its outputs go."""

    request: AggregateRequest
    inputs: Inputs
    outcome: RunResult
    engine: AnswerEngine | None = None
    places: Mapping[str, Path] = field(default_factory=dict)
    changes: Changes | None = None
    tripped: Sequence[Gate] = ()

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
        read = self.inputs.read
        sources: list[Mapping[str, Any]] = [] if read is None else list(map(asdict, read.files))
        return manifest(
            self.outcome,
            self.request,
            command=command,
            inputs=sources if self.engine is None else list(self.engine.inputs),
            known={name: found.file for name, found in self.inputs.known.items()},
            outputs=outputs,
            warnings=warned,
            engine=None if self.engine is None else self.engine.facts(),
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


def run_in_memory(
    request: AggregateRequest,
    observer: Observer,
    *,
    began: float | None = None,
    with_times: bool = False,
    fitter: FitterOf | None = None,
) -> list[QuestionRun]:
    """Read and aggregate without writing anything; one run for each question."""
    methods, _ = checked(request)
    watch = Stopwatch(began, observer.on_stage)
    with ExitStack() as stack:
        read = inputs_of(request, observer, watch, stack, with_times=with_times)
        return [
            fitted(
                request,
                one,
                methods,
                observer,
                watch,
                None if fitter is None else fitter(one.question),
            )
            for one in read
        ]


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
    holder = None
    if inputs.engine is not None:
        refuse_changed(inputs.read_stamps)  # what a cluster's worker lost was read once more
        holder = outcome.engine
    observer.clear_line()
    outcome.figures["warnings"] = len(observer.warnings)
    return QuestionRun(own, inputs, outcome, holder)


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
