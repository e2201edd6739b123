"""Outputs of a run: where they go, what they replace, and how they are published."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from misc_cli import cleanup
from misc_cli.errors import ConfigError, InputError
from misc_cli.run.request import LOCAL, AggregateRequest
from misc_cli.run.result import label_columns, label_maker, method_in_words, worker_columns
from misc_cli.run.run_record import gauges, json_bytes
from misc_cli.writers.output_paths import (
    check_new_folder,
    check_writable,
    os_errors_name,
    output_file,
    special,
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
from misc_cli.writers.tables import reject_columns, with_kept, write_pieces, write_table

if TYPE_CHECKING:
    from misc_cli.job.perform import QuestionRun
    from misc_cli.quality.evaluation import Changes
    from misc_cli.report.frames import Report
    from misc_cli.run.result import RunResult
    from misc_cli.state.session import StateSession


# Outputs that every question has of its own, as run.json lists them; run.json is the set's.
OUTPUTS = ("labels", "workers", "diagnostics", "changes", METRICS, "rejects", "report")
PAGE, WORKBOOK = ".html", ".xlsx"
REJECTED = ".rejected"  # the folder of a set that --fail-if keeps from being published
FOLDER_SUFFIXES = (".parquet", ".csv", ".tsv", ".csv.gz", ".tsv.gz")


def is_folder(output: str | None) -> bool:
    """Tell whether labels go to a folder, in parts."""
    return output not in (None, "-") and (str(output).endswith("/") or Path(str(output)).is_dir())


def check_report_name(path: Path) -> None:
    """Refuse a report that is neither page nor workbook, or a workbook without its library."""
    output_file(str(path), PAGE, WORKBOOK)
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

    Making one locks the outputs; one that cannot be written or is an input is refused.
    """

    def __init__(self, request: AggregateRequest) -> None:
        self.request = request
        self.rejection: str | None = None
        in_parts = request.engine != LOCAL and is_folder(request.output)
        self.folder = Path(str(request.output)) if in_parts else None
        self.places: dict[str, Path] = {}
        labels = None if in_parts else output_file(request.output)
        if labels is not None:
            self.places = {"labels": labels, **(beside(labels) if special(labels) is None else {})}
        for name in OUTPUTS[1:]:
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
                output_file(str(place))
            elif name == "report":
                check_report_name(place)
        if request.each_question:  # its files have the names of questions, once these are known
            if "run" not in self.places:
                raise ConfigError(
                    "--each-question writes a file for each question; name one with -o"
                )
            return
        to_stdout = self.folder is None and "labels" not in self.places
        check_writable(self.places.values(), request.files, stdout=to_stdout)
        if self.folder is not None:
            check_new_folder(self.folder)

    def assign(self, runs: Sequence[QuestionRun]) -> None:
        """Give each question its outputs; two that would share a file are refused."""
        taken: dict[Path, str] = {}
        for run in runs:
            own = {name: place for name, place in self.places.items() if name != "run"}
            run.places = {name: with_question(place, run.question) for name, place in own.items()}
            for place in run.places.values():
                rival = taken.setdefault(Path(str(place).casefold()), run.question)
                if rival != run.question:
                    raise ConfigError(
                        f"questions {rival!r} and {run.question!r} would both be written to "
                        f"{place}; read them one by one with --question"
                    )
        paths = [path for run in runs for path in run.places.values()]
        check_writable([*paths, self.places["run"]], self.request.files)

    def reject(self, runs: Sequence[QuestionRun]) -> None:
        """Let everything but metrics go to a folder of its own, and say what stays in place."""
        labels, given = self.folder or self.places.get("labels"), self.request.keep_rejected
        kept = None if given in (None, "no") else Path(str(given))
        self.rejection = "nothing is written"
        if labels is not None:
            self.rejection = f"{labels} is as it was" if labels.exists() else f"no {labels} yet"
            if given is None and special(labels) is None:
                stem = Path(labels.name.removesuffix(".gz")).stem
                kept = labels.with_name(f"{stem}{REJECTED}")
        if kept is not None:
            self.rejection += f"; the new set is in {kept}{os.sep}"
            with os_errors_name(kept):
                kept.mkdir(parents=True, exist_ok=True)
        holders: list[QuestionRun | OutputSet] = [*runs, self]
        for holder in holders:
            found: dict[str, Path] = {}
            for name, place in holder.places.items():
                if name == METRICS:
                    found[name] = place
                elif kept is not None:
                    clashes = place.name in {path.name for path in found.values()}
                    found[name] = kept / (f"{name}-{place.name}" if clashes else place.name)
            holder.places = found
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
        told: dict[str, Any] = {"command": list(command), "warnings": list(warned)}
        told["state"] = None if session is None else session.record
        facts = [{**told, "question": run.question} if each else told for run in runs]

        def record() -> dict[str, Any]:
            records = []
            for run, own in zip(runs, facts, strict=True):
                run.outcome.timings["write"] = round(time.perf_counter() - started, 6)
                outputs: dict[str, Any] = {k: str(v) for k, v in run.places.items()}
                if staged is not None:
                    names = [path.name for path in parts]
                    outputs = {"labels": str(self.folder), **outputs, "parts": names}
                records.append(run.record(**own, outputs=outputs))
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
            files: dict[str, tuple[Path, Write]] = {}
            run_file, inside = self.places.get("run"), {}
            if staged is not None:
                parts = self._write_parts(first.outcome, staged.waiting)
                run_file = staged.waiting / "run.json"
                inside = {"diagnostics": staged.waiting / "diagnostics.jsonl"}
            for run, own in zip(runs, facts, strict=True):
                places = {**inside, **run.places}
                for name in OUTPUTS:
                    if name in places:
                        called = f"{name}.{run.question}" if each else name
                        files[called] = (places[name], partial(self._write, name, run, own))
            stdout, state_files = None, None
            if self.rejection is None and staged is None and "labels" not in self.places:
                stdout = partial(self._write, "labels", first, told)
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
        parts = outcome.fit.engine.write_parts(waiting, suffix, make, write_part)
        for part in sorted(parts):
            if not (waiting / part).exists():
                raise InputError(
                    f"{folder}: the workers wrote {part} where this machine does not see it; "
                    "name a folder on storage that all share"
                )
        return {waiting / part: parts[part] for part in sorted(parts)}

    def _write(
        self, name: str, run: QuestionRun, facts: Mapping[str, Any], stream: BinaryIO
    ) -> None:
        """Write one output of a question; `facts` are for its report."""
        request, outcome, read = self.request, run.outcome, run.read
        file = run.places[name].name if name in run.places else ""
        if name == "labels":
            make = label_maker(outcome.fit, request.probabilities, request.item_details)
            chunks = outcome.fit.engine.chunks(make)
            pieces = with_kept(chunks, read.kept) if read and read.kept else chunks
            write_pieces(pieces, stream, file)
        elif name == "workers":
            write_table(worker_columns(outcome), stream, file)
        elif name == "diagnostics":
            stream.writelines(map(json_bytes, outcome.records))
        elif name == "changes":
            write_table(run.changes.columns if run.changes else {}, stream, file)
        elif name == METRICS:
            stream.write(gauges(outcome.figures, method_in_words(outcome), outcome.timings))
        elif name == "rejects":
            write_table(reject_columns(read.rejects if read else []), stream, file)
        else:
            made = run.report(run.record(**facts))
            stream.write(report_bytes(made, run.places[name]))


def compared(outcome: RunResult, places: Mapping[str, Path]) -> Changes:
    """Compare a run with the tables that it is about to replace; without any, every item is new."""
    from misc_cli.data.types import LabelTable
    from misc_cli.quality.evaluation import compare
    from misc_cli.writers.tables import read_labels

    columns = label_columns(outcome)
    names, confidence = columns["label"].dictionary_decode(), columns["confidence"]
    now = LabelTable(columns["item"], names, confidence)
    labels = LabelTable(now.items[:0], now.labels[:0], confidence[:0])
    if places["labels"].is_file():
        labels = read_labels(str(places["labels"]))
    return compare(labels, now)
