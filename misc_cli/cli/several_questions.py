"""`misc aggregate --each-question`: every question of the files, one set of outputs, one manifest.

Outputs are called as asked, with the question before the suffix: labels.mood.csv, workers.mood.csv.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from misc_cli.cli import previous_outputs
from misc_cli.cli.extra_outputs import companions
from misc_cli.cli.fail_if import Gate, holding
from misc_cli.cli.job import command_line
from misc_cli.data.parameters import flag
from misc_cli.errors import ConfigError, GateTripped

if TYPE_CHECKING:
    from misc_cli.cli.job import Job, Performed
    from misc_cli.quality.changes import Changes
    from misc_cli.writers.run_outputs import Write

# What carries one question's fit from one run to another.
ONE_ONLY = ("state", "as_chosen", "workers_prior")
PER_QUESTION = (*("labels", "workers", "diagnostics", "changes", "rejects", "metrics", "report"),)


def check(parameters: Mapping[str, Any], places: Mapping[str, Path]) -> None:
    for name in ONE_ONLY:
        if parameters.get(name):
            raise ConfigError(
                f"{flag(name)} is for one question; pick it with --question, one run for each"
            )
    if "labels" not in places or "run" not in places:
        raise ConfigError("--each-question writes a file for each question; name one with -o")


def places_of(places: Mapping[str, Path], question: str, taken: dict[Path, str]) -> dict[str, Path]:
    """Where a question's outputs go; two questions that would share a file are refused."""
    found = {}
    for name in PER_QUESTION:
        if name in places:
            found[name] = with_question(places[name], question)
            rival = taken.setdefault(Path(str(found[name]).casefold()), question)
            if rival != question:
                raise ConfigError(
                    f"questions {rival!r} and {question!r} would both be written to {found[name]}; "
                    "read them one by one with --question"
                )
    return found


def with_question(path: Path, question: str) -> Path:
    """labels.csv → labels.mood.csv; what a file's name cannot hold becomes an underscore."""
    escaped = re.sub(r"[^\w.\-]+", "_", question).strip("._")[:100] or "question"
    stem, dot, suffix = path.name.partition(".")
    if path.name.endswith(".diagnostics.jsonl"):
        stem, dot, suffix = path.name.removesuffix(".diagnostics.jsonl"), ".", "diagnostics.jsonl"
    return path.with_name(f"{stem}.{escaped}{dot}{suffix}")


def run(
    job: Job,
    parameters: Mapping[str, Any],
    places: Mapping[str, Path],
    gates: Sequence[Gate],
    console: Any,
) -> None:
    """Aggregate each question by itself; all is written at once, or nothing."""
    from misc_cli.cli.summary import summary
    from misc_cli.writers.output_paths import check_writable

    materials = job.read_each(with_times="report" in places)
    taken: dict[Path, str] = {}
    own = {one.read.question: places_of(places, one.read.question, taken) for one in materials}
    paths = [path for where in own.values() for path in where.values()]
    check_writable([*paths, places["run"]], job.files)
    runs: dict[str, Performed] = {}
    changed: dict[str, Changes | None] = {}
    tripped = []
    for one in materials:
        where = own[one.read.question]
        earlier = previous_outputs.read_previous(parameters["changes"], gates, where, {})
        done = job.run(console, one)
        runs[one.read.question] = done
        figures = done.outcome.figures
        changed[one.read.question] = None
        if earlier is not None:
            found = earlier.of(done.outcome)
            figures.update(found.figures)
            changed[one.read.question] = found
        held = holding([gate for gate in gates if gate.metric in figures], figures)
        figures["gates-tripped"] = len(held)
        tripped += [f"{one.read.question}: {gate.told(figures)}" for gate in held]
    for gate in gates:
        if not any(gate.metric in done.outcome.figures for done in runs.values()):
            gate.trips({})  # no question can be judged by it: an error
    _write(runs, parameters, own, places["run"], console.warnings, changed)
    for question, done in runs.items():
        rows = summary(done.outcome, own[question], done.materials.read.set_aside)
        console.summary([("question", question), *rows])
    if tripped:
        raise GateTripped(f"done and written, but --fail-if {'; '.join(tripped)}")


def _write(
    runs: Mapping[str, Performed],
    parameters: Mapping[str, Any],
    own: Mapping[str, Mapping[str, Path]],
    run_file: Path,
    warnings: list[str],
    changed: Mapping[str, Changes | None],
) -> None:
    from misc_cli.run.run_record import members, write_manifest
    from misc_cli.version import SCHEMA, __version__
    from misc_cli.writers.output_set import Output, write_all
    from misc_cli.writers.run_outputs import writers_of

    digests: dict[Path, str] = {}
    details = {name: parameters[name] for name in ("probabilities", "item_details")}

    def facts(question: str) -> dict[str, Any]:
        named = {kind: str(path) for kind, path in own[question].items()}
        return runs[question].manifest(named, warnings)

    def writers(question: str) -> dict[str, Write]:
        done, where = runs[question], own[question]
        more = companions(
            done,
            where,
            lambda _: facts(question),
            changed[question],
            anonymize=parameters["anonymize_workers"],
        )
        return {**writers_of(done.outcome, where, **details), **more}

    def write_run(stream: BinaryIO) -> None:
        questions = {question: facts(question) for question in runs}
        names = {path: f"{kind}.{q}" for q, where in own.items() for kind, path in where.items()}
        outputs = {name: str(path) for path, name in names.items()}
        content = {"schema": SCHEMA, "misc": __version__, "command": command_line()}
        content |= {"questions": questions, "outputs": outputs}
        write_manifest({**content, "files": members(run_file, names, digests)}, stream)

    every = []
    for question in runs:
        write = writers(question)
        every += [Output(path, write[kind]) for kind, path in own[question].items()]
    write_all([*every, Output(run_file, write_run)], digests=digests)
