"""Outputs of a run: where they go, what they replace, and how they are published."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from misc_cli import cleanup
from misc_cli.errors import ConfigError, InputError
from misc_cli.run.fail_if import CHANGES, Gate
from misc_cli.run.request import LOCAL, AggregateRequest
from misc_cli.run.result import label_columns, label_maker, method_in_words, worker_columns
from misc_cli.run.run_record import gauges, write_records
from misc_cli.writers.output_paths import (
    check_new_folder,
    check_suffix,
    check_writable,
    is_special,
    os_errors_name,
    output_file,
)
from misc_cli.writers.output_set import (
    METRICS,
    Write,
    beside,
    new_folder,
    with_question,
    write_part,
    write_set,
)
from misc_cli.writers.render import write_pieces, write_table

if TYPE_CHECKING:
    from misc_cli.job.perform import QuestionRun
    from misc_cli.quality.changes import Changes
    from misc_cli.report.frames import Report
    from misc_cli.run.result import RunResult
    from misc_cli.state.session import StateSession


# Outputs that every question has of its own; run.json is the set's.
BESIDE_LABELS = ("workers", "diagnostics", "changes", "metrics", "rejects", "report")
PAGE, WORKBOOK = ".html", ".xlsx"
REJECTED = ".rejected"  # the folder of a set that --fail-if keeps from being published
FOLDER_SUFFIXES = (".parquet", ".csv", ".tsv", ".csv.gz", ".tsv.gz")


def is_folder(output: str | None) -> bool:
    """Tell whether labels go to a folder, in parts."""
    return output not in (None, "-") and (str(output).endswith("/") or Path(str(output)).is_dir())


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


class OutputSet:
    """The files that a request names, published together or not at all.

    places     path by output; labels are missing here when they go to stdout or a folder
    folder     where labels go in parts
    rejection  what is in place, in words, where --fail-if kept the set from being published
    """

    def __init__(self, request: AggregateRequest) -> None:
        self.request = request
        in_parts = request.engine != LOCAL and is_folder(request.output)
        self.folder = Path(str(request.output)) if in_parts else None
        self.rejection: str | None = None
        self.places: dict[str, Path] = {}
        labels = None if in_parts else output_file(request.output)
        if labels is not None:
            self.places = {"labels": labels, **({} if is_special(labels) else beside(labels))}
        for name in BESIDE_LABELS:
            if (given := getattr(request, name)) is None:
                continue
            place = self.places[name] = Path(given)
            if given == "-":
                raise ConfigError(f"--{name} -: stdout is for the labels; name a file")
            if self.folder is not None and self.folder.resolve() in place.resolve().parents:
                raise ConfigError(
                    f"--{name} {place}: the folder is for labels; name a file outside"
                )
            if name in ("workers", "changes", "rejects"):
                check_suffix(place)
            elif name == "report":
                check_report_name(place)
        if request.each_question and "run" not in self.places:
            raise ConfigError("--each-question writes a file for each question; name one with -o")

    def check(self) -> None:
        """Lock the outputs; refuse one that cannot be written or is an input."""
        to_stdout = self.folder is None and "labels" not in self.places
        check_writable(self.places.values(), self.request.files, stdout=to_stdout)
        if self.folder is not None:
            check_new_folder(self.folder)

    def places_of(self, questions: Sequence[str]) -> list[dict[str, Path]]:
        """Return the outputs of each question; two that would share a file are refused."""
        if not self.request.each_question:
            return [self.places]
        taken: dict[str, str] = {}
        found = []
        for question in questions:
            own = {
                name: with_question(place, question)
                for name, place in self.places.items()
                if name != "run"
            }
            for place in own.values():
                rival = taken.setdefault(str(place).casefold(), question)
                if rival != question:
                    raise ConfigError(
                        f"questions {rival!r} and {question!r} would both be written to {place}; "
                        "read them one by one with --question"
                    )
            found.append(own)
        paths = [path for own in found for path in own.values()]
        check_writable([*paths, self.places["run"]], self.request.files)
        return found

    def reject(self, runs: Sequence[QuestionRun]) -> None:
        """Let everything but metrics go to a folder of its own, and say what stays in place."""
        labels, given = self.folder or self.places.get("labels"), self.request.keep_rejected
        kept = None if given in (None, "no") else Path(str(given))
        self.rejection = "nothing is written"
        if labels is not None:
            there = f"{labels} is as it was" if labels.exists() else f"there is no {labels} yet"
            self.rejection = there
            if given is None and not is_special(labels):
                stem = Path(labels.name.removesuffix(".gz")).stem
                kept = labels.with_name(f"{stem}{REJECTED}")
        if kept is not None:
            self.rejection += f"; the new set is in {kept}{os.sep}"
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
        self.places = moved(self.places)
        if self.folder is not None and kept is not None:
            self.folder = kept / self.folder.name
            if (self.folder / "run.json").is_file():  # an earlier rejected set
                cleanup.remove(self.folder)
            check_new_folder(self.folder)
        elif kept is None:
            self.folder = None

    def publish(
        self,
        runs: Sequence[QuestionRun],
        warned: Sequence[str],
        command: Sequence[str],
        session: StateSession | None,
        tripped: Sequence[str],
    ) -> None:
        """Publish everything at once, run.json last, or nothing."""
        started = time.perf_counter()
        each, first = self.request.each_question, runs[0]
        state = None if session is None else session.record

        def facts(run: QuestionRun, outputs: Mapping[str, Any]) -> dict[str, Any]:
            named = {"question": run.inputs.question} if each else {}
            told = {"command": list(command), "warnings": list(warned), "state": state}
            return run.record(**named, **told, outputs=outputs)

        def record() -> dict[str, Any]:
            records = []
            for run in runs:
                run.outcome.timings["write"] = round(time.perf_counter() - started, 6)
                outputs: dict[str, Any] = {k: str(v) for k, v in run.places.items()}
                if staged is not None:
                    names = [path.name for path in parts]
                    outputs = {"labels": str(self.folder), **outputs, "parts": names}
                records.append(facts(run, outputs))
            whole = records[0]
            if each:
                whole = {key: whole[key] for key in ("schema", "misc", "command")}
                whole |= {"request": self.request.to_json(), "questions": records}
                whole["outputs"] = {name: str(path) for name, (path, _) in files.items()}
            handlers = logging.getLogger("misc_cli").handlers
            run_id = next((one.run for one in handlers if hasattr(one, "run")), None)  # of the log
            verdict = {"published": self.rejection is None, "tripped": list(tripped)}
            return {**whole, **verdict, "run": run_id}

        with nullcontext() if self.folder is None else new_folder(self.folder) as staged:
            parts: Mapping[Path, str] = {}
            files, run_file, own = {}, self.places.get("run"), {}
            if staged is not None:
                parts = self._write_parts(first.outcome, staged.waiting)
                run_file = staged.waiting / "run.json"
                own = {"diagnostics": staged.waiting / "diagnostics.jsonl"}
            for run in runs:
                places = {**own, **run.places}
                for name, write in self._writers(run, facts).items():
                    if name in places:
                        called = f"{name}.{run.inputs.question}" if each else name
                        files[called] = (places[name], write)
            stdout, state_files = None, None
            if self.rejection is None and staged is None and "labels" not in self.places:
                stdout = self._writers(first, facts)["labels"]
            if self.rejection is None and session is not None:
                state_files = session.outputs(first.outcome)
            write_set(
                *(files, run_file, record),
                stdout=stdout,
                written=parts,
                folder=staged,
                also=state_files,
            )
        if self.folder is not None:
            first.places = {"labels": self.folder, **first.places}

    def _write_parts(self, outcome: RunResult, waiting: Path) -> Mapping[Path, str]:
        """Write labels in parts into a folder that waits for its name; return their SHA-256."""
        folder = self.folder or waiting
        suffix = next((s for s in FOLDER_SUFFIXES if folder.name.endswith(s)), ".parquet")
        make = label_maker(outcome.fit, self.request.probabilities, self.request.item_details)
        parts = outcome.engine.write_parts(waiting, suffix, make, write_part)
        for part in sorted(parts):
            if not (waiting / part).exists():
                raise InputError(
                    f"{folder}: the workers wrote {part} where this machine does not see it; "
                    "name a folder on storage that all share"
                )
        return {waiting / part: parts[part] for part in sorted(parts)}

    def _writers(
        self, run: QuestionRun, facts: Callable[[QuestionRun, Mapping[str, Any]], dict[str, Any]]
    ) -> dict[str, Write]:
        """Return how each output is written, in the order in which run.json lists them."""
        from misc_cli.readers.answer_table import reject_columns

        outcome, read = run.outcome, run.inputs.read

        def labels(stream: BinaryIO) -> None:
            make = label_maker(outcome.fit, self.request.probabilities, self.request.item_details)
            chunks = outcome.engine.chunks(make)
            if read is not None and read.kept:
                chunks = read.with_kept(chunks)
            write_pieces(
                chunks, stream, run.places["labels"].name if "labels" in run.places else ""
            )

        def table(name: str, columns: Callable[[], Mapping[str, Any]]) -> Write:
            return lambda stream: write_table(columns(), stream, run.places[name].name)

        def metrics(stream: BinaryIO) -> None:
            stream.write(gauges(outcome.figures, method_in_words(outcome), outcome.timings))

        def report(stream: BinaryIO) -> None:
            made = run.report(facts(run, {}), anonymize=self.request.anonymize_workers)
            stream.write(report_bytes(made, run.places["report"]))

        return {
            "labels": labels,
            "workers": table("workers", lambda: worker_columns(outcome)),
            "diagnostics": lambda stream: write_records(outcome.records, stream),
            "changes": table("changes", lambda: run.changes.columns if run.changes else {}),
            "metrics": metrics,
            "rejects": table("rejects", lambda: reject_columns(read.rejects if read else [])),
            "report": report,
        }


def previous_outputs(
    request: AggregateRequest, gates: Sequence[Gate], places: Mapping[str, Path]
) -> Callable[[RunResult], Changes] | None:
    """Read what a run is about to replace; return what compares a result with it.

    None if neither --changes nor a gate has to look at it.
    """
    judged = [gate for gate in gates if gate.metric in CHANGES]
    if request.changes is None and not judged:
        return None
    from misc_cli.data.types import LabelTable, WorkerTable
    from misc_cli.quality.changes import compare
    from misc_cli.writers.read_back import read_labels, read_workers

    flag = "--changes" if request.changes is not None else f"--fail-if {judged[0].text}"
    if "labels" not in places:
        raise ConfigError(f"{flag} compares with the labels that -o replaces; name a file with -o")
    if "workers" not in places and any(gate.metric == "worker-drop" for gate in judged):
        raise ConfigError("--fail-if worker-drop compares with the file of --workers; name one")
    found = {name: str(path) for name, path in places.items() if path.is_file()}
    labels = read_labels(found["labels"]) if "labels" in found else None
    workers = read_workers(found["workers"]) if "workers" in found else None

    def against(outcome: RunResult) -> Changes:
        """Compare with a run's own tables; without anything earlier every item is new."""
        columns = label_columns(outcome)
        names, confidence = columns["label"].dictionary_decode(), columns["confidence"]
        now = LabelTable(columns["item"], names, confidence)
        tables = None
        if "workers" in places:
            own = worker_columns(outcome)
            known = WorkerTable(
                own["worker"],
                own["answers"].astype(float),
                own["accuracy"],
                low=own["accuracy_low"],
                high=own["accuracy_high"],
            )
            tables = (workers or known, known)
        nothing = LabelTable(now.items[:0], now.labels[:0], confidence[:0])
        return compare(labels or nothing, now, tables)

    return against
