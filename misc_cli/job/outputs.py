"""Outputs of a run: where they go, what they replace, and how they are published."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from misc_cli import cleanup
from misc_cli.errors import ConfigError, InputError
from misc_cli.job.inputs import Inputs, is_folder
from misc_cli.run.fail_if import CHANGES, Gate
from misc_cli.run.request import LOCAL, AggregateRequest
from misc_cli.run.run_record import several_questions, write_records
from misc_cli.run.tables import label_chunks, label_columns, label_maker, worker_columns
from misc_cli.writers.output_paths import (
    check_new_folder,
    check_suffix,
    check_writable,
    is_special,
    os_errors_name,
    output_file,
)
from misc_cli.writers.output_set import Output, Write, new_folder
from misc_cli.writers.render import write_pieces, write_table
from misc_cli.writers.run_outputs import (
    METRICS,
    beside,
    with_question,
    write_part,
    write_set,
)

if TYPE_CHECKING:
    from misc_cli.data.types import LabelTable, WorkerTable
    from misc_cli.job.perform import QuestionRun
    from misc_cli.quality.changes import Changes
    from misc_cli.report.frames import Report
    from misc_cli.state.session import StateSession


# Outputs that every question has of its own; run.json is the set's.
BESIDE_LABELS = ("workers", "diagnostics", "changes", "metrics", "rejects", "report")
PAGE, WORKBOOK = ".html", ".xlsx"
REJECTED = ".rejected"  # the folder of a set that --fail-if keeps from being published
FOLDER_SUFFIXES = (".parquet", ".csv", ".tsv", ".csv.gz", ".tsv.gz")


@dataclass(frozen=True)
class Target:
    """The files that a request names, by output; labels may go to a folder of parts instead."""

    request: AggregateRequest
    places: Mapping[str, Path]
    folder: Path | None = None
    is_rejected: bool = False

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

    @property
    def rejected_folder(self) -> Path | None:
        """Return where a set is kept that a condition of --fail-if keeps from being published."""
        given = self.request.keep_rejected
        if given is not None:
            return None if given == "no" else Path(given)
        labels = self.folder or self.places.get("labels")
        if labels is None or is_special(labels):
            return None
        stem = Path(labels.name.removesuffix(".gz")).stem
        return labels.with_name(f"{stem}{REJECTED}")

    def rejection(self) -> str:
        """Return in words what is in place after a rejected run, and where its own set is."""
        labels = self.folder or self.places.get("labels")
        stands = "nothing is written"
        if labels is not None:
            stands = f"{labels} is as it was" if labels.exists() else f"there is no {labels} yet"
        kept = self.rejected_folder
        return stands if kept is None else f"{stands}; the new set is in {kept}{os.sep}"

    def rejected(self, runs: Sequence[QuestionRun]) -> Target:
        """Return the target of a rejected set: everything but metrics goes to its own folder."""
        kept = self.rejected_folder
        if kept is not None:
            with os_errors_name(kept):
                kept.mkdir(parents=True, exist_ok=True)

        def moved(places: Mapping[str, Path]) -> dict[str, Path]:
            found: dict[str, Path] = {}
            for name, place in places.items():
                if name == METRICS:
                    found[name] = place
                elif kept is not None:
                    taken = {path.name for path in found.values()}
                    own = place.name if place.name not in taken else f"{name}-{place.name}"
                    found[name] = kept / own
            return found

        for run in runs:
            run.places = moved(run.places)
        folder = None
        if self.folder is not None and kept is not None:
            folder = kept / self.folder.name
            if (folder / "run.json").is_file():  # an earlier rejected set
                cleanup.remove(folder)
            check_new_folder(folder)
        return replace(self, places=moved(self.places), folder=folder, is_rejected=True)

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
    from misc_cli.writers.read_back import read_labels, read_workers

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
class Writing:
    """Writes the outputs of all questions, and run.json last."""

    request: AggregateRequest
    runs: Sequence[QuestionRun]
    target: Target
    warned: Sequence[str]
    command: Sequence[str]
    session: StateSession | None
    tripped: Sequence[str] = ()

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
        if self.session is not None and not self.target.is_rejected:
            saved = partial(self.session.outputs, first.outcome, first.inputs.files)
        to_stdout = None
        if "labels" not in self.target.places and not self.target.is_rejected:
            to_stdout = self._writers(first)["labels"]
        write_set(
            files,
            self.target.places.get("run"),
            lambda: self._record(files, started),
            stdout=to_stdout,
            after=saved,
        )

    def _record(
        self, files: Mapping[str, Output], started: float, parts: Sequence[str] | None = None
    ) -> dict[str, Any]:
        """Return the content of run.json; `published` and `tripped` are what --fail-if decided."""
        spent = round(time.perf_counter() - started, 6)
        records = []
        for run in self.runs:
            run.outcome.timings["write"] = spent
            outputs: dict[str, Any] = {k: str(v) for k, v in self.target.named(run).items()}
            if parts is not None:
                outputs["parts"] = parts
            records.append(self._facts(run, outputs))
        record = records[0]
        if self.request.each_question:
            outputs = {name: str(output.path) for name, output in files.items()}
            record = several_questions(records, self.request, command=self.command, outputs=outputs)
        handlers = logging.getLogger("misc_cli").handlers
        run_id = next((one.run for one in handlers if hasattr(one, "run")), None)  # of the log
        verdict = {"published": not self.target.is_rejected, "tripped": list(self.tripped)}
        verdict["run"] = run_id
        return {**record, **verdict}

    def _facts(self, run: QuestionRun, outputs: Mapping[str, Any]) -> dict[str, Any]:
        state = None if self.session is None else self.session.record
        named = self.request.each_question
        return run.record(outputs, self.warned, self.command, state, named=named)

    def _writers(self, run: QuestionRun) -> dict[str, Write]:
        """Return how each output is written, in the order in which run.json lists them."""
        from misc_cli.readers.answer_table import reject_columns

        def table(name: str, columns: Callable[[], Mapping[str, Any]]) -> Write:
            return lambda stream: write_table(columns(), stream, run.places[name].name)

        def report(stream: BinaryIO) -> None:
            made = run.report(self._facts(run, {}), anonymize=self.request.anonymize_workers)
            stream.write(report_bytes(made, run.places["report"]))

        def metrics(stream: BinaryIO) -> None:
            from misc_cli.run.run_record import gauges, method_of

            outcome = run.outcome
            text = gauges(outcome.figures, method_of(outcome), outcome.timings)
            stream.write(text.encode())

        read = run.inputs.read
        rejects = [] if read is None else read.rejects
        return {
            "labels": partial(self._write_labels, run),
            "workers": table("workers", lambda: worker_columns(run.outcome)),
            "diagnostics": lambda stream: write_records(run.outcome.records, stream),
            "changes": table("changes", lambda: run.changes.columns if run.changes else {}),
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
        chunks = label_chunks(run.outcome, **wanted)
        if run.inputs.read is not None and run.inputs.read.kept:
            chunks = run.inputs.read.with_kept(chunks)
        write_pieces(chunks, stream, name)

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
            places = {"diagnostics": waiting / "diagnostics.jsonl", **run.places}
            writers = self._writers(run).items()
            files = {name: Output(places[name], write) for name, write in writers if name in places}
            write_set(
                files,
                waiting / "run.json",
                lambda: self._record(files, started, sorted(parts)),
                written={waiting / part: parts[part] for part in sorted(parts)},
                folder=staged,
            )
