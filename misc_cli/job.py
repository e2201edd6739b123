"""Carry out an AggregateRequest: read, aggregate, compare with the last outputs, judge, write.

`misc aggregate` calls `performed`; `misc rerun` does too, with the request of a run.json. Commands
that only look at a run call `fitted`.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

from misc_cli.data.parameters import AUTO
from misc_cli.errors import ConfigError, GateTripped, InputError, MiscWarning
from misc_cli.readers.known_labels import Known, carried_gold, read_known, read_known_each
from misc_cli.readers.source import check_stdin_once, refuse_changed, stamps
from misc_cli.run import pipeline
from misc_cli.run.fail_if import CHANGES, Gate, holding, parse_gates
from misc_cli.run.request import LOCAL, AggregateRequest, Fitter, FitterOf, Stopwatch
from misc_cli.run.run_record import manifest, several_questions, write_records
from misc_cli.run.settings import Methods, build
from misc_cli.run.tables import label_chunks, label_columns, label_maker, worker_columns
from misc_cli.state.session import StateSession, fitter_of, open_session
from misc_cli.writers.output_paths import (
    check_new_folder,
    check_suffix,
    check_writable,
    is_special,
    output_file,
)
from misc_cli.writers.output_set import Output, new_folder
from misc_cli.writers.read_back import read_labels, read_workers
from misc_cli.writers.render import write_pieces, write_table
from misc_cli.writers.run_outputs import Write, beside, with_question, write_part, write_set

if TYPE_CHECKING:
    from misc_cli.data.types import Answers, Iteration, LabelTable, WorkerTable
    from misc_cli.engines.protocol import AnswerEngine
    from misc_cli.quality.changes import Changes
    from misc_cli.quality.figures import Figure
    from misc_cli.readers.answer_table import FileInfo, ReadResult
    from misc_cli.report.frames import Report
    from misc_cli.run.result import RunResult

# Outputs that every question has of its own; run.json is the set's.
BESIDE_LABELS = ("workers", "diagnostics", "changes", "metrics", "rejects", "report")
PAGE, WORKBOOK = ".html", ".xlsx"
FOLDER_SUFFIXES = (".parquet", ".csv", ".tsv", ".csv.gz", ".tsv.gz")


class Observer(Protocol):
    """Hears what a run has to say while it goes on; the console is one."""

    @property
    def warnings(self) -> list[str]: ...
    def on_iteration(self, iteration: Iteration) -> None: ...
    def note(self, text: str) -> None: ...
    def clear_line(self) -> None: ...


@dataclass(frozen=True)
class Inputs:
    """The answers to one question, in memory (`read`) or on an engine, and its known labels."""

    question: str
    known: Mapping[str, Known]
    read: ReadResult | None = None
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

        assert self.inputs.read is not None
        report = build(self.outcome, facts, self.inputs.read.answers, self.inputs.read.times)
        return anonymized(report) if anonymize else report


@dataclass(frozen=True)
class Finished:
    """A request that was carried out: a run for each question, and the state if there is one.

    `unchanged` holds the figures of the last run where nothing changed since and nothing was done.
    """

    runs: Sequence[QuestionRun]
    named: Sequence[Mapping[str, Path]] = ()
    session: StateSession | None = None
    unchanged: Mapping[str, Figure] | None = None
    tripped: Sequence[str] = ()

    def refuse(self) -> None:
        """Raise if a condition of --fail-if held."""
        if self.tripped:
            done = "done and written" if self.unchanged is None else "nothing to do"
            raise GateTripped(f"{done}, but --fail-if {'; '.join(self.tripped)}")


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
    methods, gates = _checked(request)
    target = Target.of(request)
    if not request.each_question:
        target.check()
    session = open_session(request, target.places, now)
    own = fitter_of(session, request) if fitter is None else None
    watch = Stopwatch(began)
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
        _refuse_unjudged(gates, runs)
        write = _Writing(request, runs, target, observer.warnings, command, session)
        write.publish()
        if session is not None:
            session.written_down()
        yield Finished(runs, [target.named(run) for run in runs], session, tripped=told)


def _checked(request: AggregateRequest) -> tuple[Methods, list[Gate]]:
    """Return the methods and gates; what cannot be done is refused before anything is read."""
    check_stdin_once(request.files)
    methods = build(request.settings)
    gates = parse_gates(request.fail_if, request.truth)
    if request.engine != LOCAL:
        from misc_cli.run.spread_completion import check

        check(request.engine, request.settings, methods)
    return methods, gates


def _judged(run: QuestionRun, gates: Sequence[Gate], among_several: bool) -> list[str]:
    """Judge a run; return the conditions that held, in words."""
    figures = run.outcome.figures
    asked = [gate for gate in gates if gate.metric in figures] if among_several else gates
    run.tripped = holding(asked, figures)
    figures["gates-tripped"] = len(run.tripped)
    before = f"{run.inputs.question}: " if among_several else ""
    return [f"{before}{gate.told(figures)}" for gate in run.tripped]


def _refuse_unjudged(gates: Sequence[Gate], runs: Sequence[QuestionRun]) -> None:
    for gate in gates:
        if not any(gate.metric in run.outcome.figures for run in runs):
            gate.trips({})  # no question can be judged by it: an error


def inputs_of(
    request: AggregateRequest,
    observer: Observer,
    watch: Stopwatch,
    stack: ExitStack,
    *,
    with_times: bool = False,
) -> list[Inputs]:
    """Read everything that a request names: one entry, or one for each question.

    `with_times` keeps when answers were given, where files tell; `stack` closes an engine.
    """
    if request.engine != LOCAL:
        return [_on_engine(request, observer, watch, stack)]
    with watch.stage("read"):
        return _each(request, with_times) if request.each_question else [_one(request, with_times)]


def _one(request: AggregateRequest, with_times: bool) -> Inputs:
    from misc_cli.readers.read import read_answer_columns

    read = read_answer_columns(request.sources, request.reading, with_times=with_times)
    known = {name: read_known(file, request.reading) for name, file in request.known_files.items()}
    if request.embedded_gold:
        known["gold"] = _embedded_gold(read)
    return Inputs(read.question, known, read)


def _each(request: AggregateRequest, with_times: bool) -> list[Inputs]:
    from misc_cli.readers.read import read_questions

    results = read_questions(request.sources, request.reading, each=True, with_times=with_times)
    known: dict[str, dict[str, Known]] = {read.question: {} for read in results}
    for role, file in request.known_files.items():
        told = read_known_each(file, list(known), request.reading)
        for question, of_role in known.items():
            if question in told:
                of_role[role] = told[question]
            else:
                text = f"{file}: nothing about question {question!r}, so it has no {role}"
                warnings.warn(text, MiscWarning, stacklevel=2)
    for read in results:
        if request.embedded_gold:
            known[read.question]["gold"] = _embedded_gold(read)
    return [Inputs(read.question, known[read.question], read) for read in results]


def _embedded_gold(read: ReadResult) -> Known:
    """Return the gold in the answers' own files."""
    if read.gold is None:
        raise InputError(f"{read.files[0].name}: no gold in it; give --gold a file")
    return Known(read.gold, read.files[0])


def _on_engine(
    request: AggregateRequest, observer: Observer, watch: Stopwatch, stack: ExitStack
) -> Inputs:
    """Read the answers onto an engine, which `stack` closes."""
    from misc_cli.readers.chunks import pieces_of

    pieces = pieces_of(request.sources, request.reading)
    if not pieces:
        raise InputError(f"{request.sources[0]}: no rows; give files with answers in them")
    read = stamps(piece.path for piece in pieces)
    known = {name: read_known(file, request.reading) for name, file in request.known_files.items()}
    if request.embedded_gold:
        known["gold"] = carried_gold(pieces)
    settings = request.settings
    common: dict[str, Any] = {
        "duplicates": settings.duplicates_rule,
        "class_order": settings.class_order_list,
        "gold": known["gold"].labels if "gold" in known else None,
        "name": _names_of(request.sources),
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
    if not is_folder(request.output):
        engine.refuse_one_file()
    return Inputs("", known, engine=engine, read_stamps=read)


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


def run_in_memory(
    request: AggregateRequest,
    observer: Observer,
    *,
    began: float | None = None,
    with_times: bool = False,
    fitter: FitterOf | None = None,
) -> list[QuestionRun]:
    """Read and aggregate without writing anything; one run for each question."""
    methods, _ = _checked(request)
    watch = Stopwatch(began)
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


def _names_of(sources: Sequence[str]) -> str:
    """Return what errors call the input."""
    shown = ", ".join(sources[:3])
    return shown if len(sources) <= 3 else f"{shown} and {len(sources) - 3:,} more"


def is_folder(output: str | None) -> bool:
    """Tell whether labels go to a folder, in parts."""
    return output not in (None, "-") and (str(output).endswith("/") or Path(str(output)).is_dir())


@dataclass(frozen=True)
class Target:
    """The files that a request names, by output; labels may go to a folder of parts instead."""

    request: AggregateRequest
    places: Mapping[str, Path]
    folder: Path | None = None

    @classmethod
    def of(cls, request: AggregateRequest) -> Target:
        if request.engine == LOCAL or not is_folder(request.output):
            target = cls(request, _places(request, output_file(request.output)))
            if request.each_question and "run" not in target.places:
                raise ConfigError(
                    "--each-question writes a file for each question; name one with -o"
                )
            return target
        folder = Path(str(request.output))
        places = _places(request, None)
        for name, place in places.items():
            if folder.resolve() in place.resolve().parents:
                raise ConfigError(
                    f"--{name} {place}: the folder is for labels; name a file outside"
                )
        return cls(request, places, folder)

    def check(self) -> None:
        """Lock the outputs; refuse one that cannot be written or is an input."""
        to_stdout = self.folder is None and "labels" not in self.places
        check_writable(self.places.values(), self.request.files, stdout=to_stdout)
        if self.folder is not None:
            check_new_folder(self.folder)

    def places_of(self, read: Sequence[Inputs]) -> list[Mapping[str, Path]]:
        """Return the outputs of each question; two that would share a file are refused."""
        if not self.request.each_question:
            return [self.places]
        taken: dict[Path, str] = {}
        found: list[Mapping[str, Path]] = []
        for question in (inputs.question for inputs in read):
            own = {
                name: with_question(self.places[name], question)
                for name in ("labels", *BESIDE_LABELS)
                if name in self.places
            }
            for place in own.values():
                rival = taken.setdefault(Path(str(place).casefold()), question)
                if rival != question:
                    raise ConfigError(
                        f"questions {rival!r} and {question!r} would both be written to {place}; "
                        "read them one by one with --question"
                    )
            found.append(own)
        paths = [path for own in found for path in own.values()]
        check_writable([*paths, self.places["run"]], self.request.files)
        return found

    def named(self, run: QuestionRun) -> dict[str, Path]:
        """Return the outputs of a question as a person is told them."""
        return {**({} if self.folder is None else {"labels": self.folder}), **run.places}


def _places(request: AggregateRequest, labels: Path | None) -> dict[str, Path]:
    """Return where each output goes; labels are missing here when they go to stdout."""
    places: dict[str, Path] = {}
    if labels is not None:
        places["labels"] = labels
        if not is_special(labels):
            places.update(beside(labels))
    for name in BESIDE_LABELS:
        given = getattr(request, name)
        if given == "-":
            raise ConfigError(f"--{name} -: stdout is for the labels; name a file")
        if given is not None:
            places[name] = Path(given)
    for name in ("workers", "changes", "rejects"):
        if name in places:
            check_suffix(places[name])
    if "report" in places:
        check_report_name(places["report"])
    return places


def check_report_name(path: Path) -> None:
    """Refuse a report that is neither page nor workbook, or a workbook without its library."""
    check_suffix(path, (PAGE, WORKBOOK))
    if path.suffix.lower() == WORKBOOK:
        from misc_cli.report.workbook import library

        library()


def report_bytes(report: Report, path: Path) -> bytes:
    """Return the page or the workbook, by the name of the file it goes to."""
    if path.suffix.lower() == WORKBOOK:
        from misc_cli.report.workbook import workbook

        return workbook(report)
    from misc_cli.report.page import render

    return render(report).encode()


@dataclass(frozen=True)
class PreviousOutputs:
    """The labels and workers that a run replaces; None where there are none."""

    labels: LabelTable | None
    workers: WorkerTable | None
    has_workers: bool

    def against(self, run: QuestionRun) -> Changes:
        """Compare with a run's own tables; without anything earlier every item is new."""
        from misc_cli.data.types import LabelTable, WorkerTable
        from misc_cli.quality.changes import compare

        columns = label_columns(run.outcome)
        names = columns["label"].dictionary_decode()
        now = LabelTable(columns["item"], names, columns["confidence"])
        tables = None
        if self.has_workers:
            found = worker_columns(run.outcome)
            known = WorkerTable(
                found["worker"],
                found["answers"].astype(float),
                found["accuracy"],
                low=found.get("accuracy_low"),
                high=found.get("accuracy_high"),
            )
            tables = (self.workers or known, known)
        sure = None if now.confidence is None else now.confidence[:0]
        nothing = LabelTable(now.items[:0], now.labels[:0], sure)
        return compare(self.labels or nothing, now, tables)


def read_previous(
    request: AggregateRequest,
    gates: Sequence[Gate],
    places: Mapping[str, Path],
    session: StateSession | None,
) -> PreviousOutputs | None:
    """Return what a run is about to replace, if --changes or a gate has to look at it."""
    judged = [gate for gate in gates if gate.metric in CHANGES]
    if request.changes is None and not judged:
        return None
    flag = "--changes" if request.changes is not None else f"--fail-if {judged[0].text}"
    if "labels" not in places:
        raise ConfigError(f"{flag} compares with the labels that -o replaces; name a file with -o")
    if "workers" not in places and any(gate.metric == "worker-drop" for gate in judged):
        raise ConfigError("--fail-if worker-drop compares with the file of --workers; name one")
    written = {} if session is None else session.written
    found = {name: str(path) for name, path in places.items() if path.is_file()}
    return PreviousOutputs(
        read_labels(found["labels"], written.get(found["labels"])) if "labels" in found else None,
        read_workers(found["workers"]) if "workers" in found else None,
        has_workers="workers" in places,
    )


@dataclass(frozen=True)
class _Writing:
    """Writes the outputs of all questions, and run.json last."""

    request: AggregateRequest
    runs: Sequence[QuestionRun]
    target: Target
    warned: Sequence[str]
    command: Sequence[str]
    session: StateSession | None

    def publish(self) -> None:
        """Publish everything at once, or nothing."""
        started = time.perf_counter()
        if self.target.folder is not None:
            self._publish_folder(self.target.folder, started)
            return
        files: dict[str, Output] = {}
        for run in self.runs:
            after = f".{run.inputs.question}" if self.request.each_question else ""
            for name, write in self._writers(run).items():
                if name in run.places:
                    files[name + after] = Output(run.places[name], write)
        (first, *_) = self.runs
        saved = None
        if self.session is not None:
            saved = partial(self.session.outputs, first.outcome, first.inputs.files)
        to_stdout = None if "labels" in self.target.places else self._writers(first)["labels"]
        write_set(
            files,
            self.target.places.get("run"),
            lambda: self._record(files, started),
            stdout=to_stdout,
            after=saved,
        )

    def _record(self, files: Mapping[str, Output], started: float) -> dict[str, Any]:
        for run in self.runs:
            run.outcome.timings["write"] = round(time.perf_counter() - started, 6)
        if not self.request.each_question:
            (run,) = self.runs
            return self._facts(run, {name: str(path) for name, path in run.places.items()})
        records = [
            self._facts(run, {name: str(path) for name, path in run.places.items()})
            for run in self.runs
        ]
        outputs = {name: str(output.path) for name, output in files.items()}
        return several_questions(records, self.request, command=self.command, outputs=outputs)

    def _facts(self, run: QuestionRun, outputs: Mapping[str, Any]) -> dict[str, Any]:
        state = None if self.session is None else self.session.record
        named = self.request.each_question
        return run.record(outputs, self.warned, self.command, state, named=named)

    def _writers(self, run: QuestionRun) -> dict[str, Write]:
        """Return how each output is written, in the order in which run.json lists them."""
        from misc_cli.quality.changes import change_columns
        from misc_cli.readers.answer_table import reject_columns
        from misc_cli.run.prometheus import gauges, method_of

        def table(name: str, columns: Callable[[], Mapping[str, Any]]) -> Write:
            return lambda stream: write_table(columns(), stream, run.places[name].name)

        def report(stream: BinaryIO) -> None:
            made = run.report(self._facts(run, {}), anonymize=self.request.anonymize_workers)
            stream.write(report_bytes(made, run.places["report"]))

        def metrics(stream: BinaryIO) -> None:
            outcome = run.outcome
            text = gauges(outcome.figures, method_of(outcome), outcome.timings)
            stream.write(text.encode())

        read = run.inputs.read
        rejects = [] if read is None else read.rejects
        return {
            "labels": partial(self._write_labels, run),
            "workers": table("workers", lambda: worker_columns(run.outcome)),
            "diagnostics": lambda stream: write_records(run.outcome.records, stream),
            "changes": table(
                "changes", lambda: {} if run.changes is None else change_columns(run.changes)
            ),
            "metrics": metrics,
            "rejects": table("rejects", lambda: reject_columns(rejects)),
            "report": report,
        }

    def _write_labels(self, run: QuestionRun, stream: BinaryIO) -> None:
        name = run.places["labels"].name if "labels" in run.places else ""
        wanted = {
            "probabilities": self.request.probabilities,
            "item_details": self.request.item_details,
        }
        write_pieces(label_chunks(run.outcome, **wanted), stream, name)

    def _publish_folder(self, folder: Path, started: float) -> None:
        """Write labels in parts under a temporary name; the folder appears whole, or not at all."""
        (run,) = self.runs
        suffix = next((s for s in FOLDER_SUFFIXES if folder.name.endswith(s)), ".parquet")
        with new_folder(folder) as staged:
            waiting = staged.waiting
            make = label_maker(
                run.outcome.fit,
                probabilities=self.request.probabilities,
                item_details=self.request.item_details,
            )
            parts = run.outcome.engine.write_parts(waiting, suffix, make, write_part)
            missing = [part for part in sorted(parts) if not (waiting / part).exists()]
            if missing:
                raise InputError(
                    f"{folder}: the workers wrote {missing[0]} where this machine does not see it; "
                    "name a folder on storage that all share"
                )
            named = {name: str(path) for name, path in self.target.named(run).items()}
            run.places = {"diagnostics": waiting / "diagnostics.jsonl", **run.places}
            write = self._writers(run)
            files = {
                name: Output(run.places[name], write[name]) for name in write if name in run.places
            }

            def record() -> dict[str, Any]:
                run.outcome.timings["write"] = round(time.perf_counter() - started, 6)
                return self._facts(run, {**named, "parts": sorted(parts)})

            write_set(
                files,
                waiting / "run.json",
                record,
                written={waiting / part: parts[part] for part in sorted(parts)},
                folder=staged,
            )
        run.places = self.target.places
