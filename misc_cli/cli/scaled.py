"""`misc aggregate --engine disk|dask`: the same command where the answers do not fit in memory."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from misc_cli.cli import options, outputs, reading_options
from misc_cli.cli.gates import CHANGES, Gate, holding, parse_gates, refuse
from misc_cli.cli.method_options import method_options
from misc_cli.errors import ConfigError, InputError

if TYPE_CHECKING:
    from misc_cli.run.outcome import Outcome
    from misc_cli.scale.job import SpreadEngine

ENGINES = ("local", "disk", "dask")
FOLDER_SUFFIXES = (".parquet", ".csv", ".tsv", ".csv.gz", ".tsv.gz")
# What an engine takes besides the methods' own parameters; any other flag that is given is refused.
SUPPORTED = {
    *("answers", "output", "probabilities", "workers", "gold", "truth", "fail_if"),
    *("engine", "spill", "scheduler"),
    *("aggregator", "completer", "preset", "seed", "threads", "calibrate", "quiet", "verbose"),
    *("worker_col", "item_col", "label_col", "delimiter", "header", "encoding", "format"),
    "allow_odd",
    *("duplicates", "class_order", *(flag.replace("-", "_") for flag in method_options())),
}
OWNERS = {"spill": "disk", "scheduler": "dask"}
INSTEAD = {
    "changes": "use misc diff on the labels",
    "item_details": "--probabilities is there",
    "question": "give a file with that question's rows",
    "diagnostics": "they are beside the labels",
}


def run(answers: tuple[str, ...], parameters: dict[str, Any]) -> None:
    """What `aggregate` does, on an engine; whatever it cannot do is refused by name."""
    from misc_cli.cli.console import Console
    from misc_cli.cli.summary import summary
    from misc_cli.io.known import read_known
    from misc_cli.io.pieces import pieces_of
    from misc_cli.run.request import Stopwatch
    from misc_cli.run.settings import build
    from misc_cli.scale import job

    engine_name = parameters.pop("engine")
    _refuse_flags(engine_name, parameters)
    console = Console.of(parameters)
    settings = options.settings_from(parameters)
    reading = reading_options.read_options_from(parameters)
    gates = parse_gates(parameters["fail_if"], parameters["truth"])
    _refuse_gates(engine_name, gates)
    methods = build(settings)
    job.check(engine_name, settings, methods)
    files = {name: parameters[name] for name in ("gold", "truth") if parameters[name] is not None}
    target = _Target.of(parameters, [*answers, *files.values()])
    watch = Stopwatch()
    with console.watching():
        pieces = pieces_of(answers, reading)
        if not pieces:
            raise InputError(f"{answers[0]}: no rows; give files with answers in them")
        known = {name: read_known(file, reading) for name, file in files.items()}
        labels = {name: found.labels for name, found in known.items()}
        order = None if settings.class_order is None else list(settings.class_order)
        common: dict[str, Any] = {
            "duplicates": settings.duplicates_rule,
            "class_order": order,
            "gold": labels.get("gold"),
            "name": job.names_of(answers),
        }
        with ExitStack() as stack:
            with watch.stage("read"):
                opening = _engine(engine_name, pieces, parameters, common, console)
                engine = stack.enter_context(opening)
            target.check(engine)
            outcome, holder = job.run(
                engine, settings, methods, console.on_iteration, watch, labels.get("truth")
            )
            console.settle()
            outcome.figures["warnings"] = len(console.warnings)
            tripped = holding(gates, outcome.figures)
            outcome.figures["gates-tripped"] = len(tripped)
            record = _record(outcome, holder.inputs, known, console.warnings)
            record["engine"] = {"name": engine_name, **holder.facts()}
            with watch.stage("write"):
                target.write(holder, outcome, record)
            at_terminal = console.terminal and not console.quiet
            rows = summary(outcome, target.places, closely=at_terminal)
        console.summary(rows)
        refuse(tripped, outcome.figures, "done and written")


def _refuse_flags(engine: str, parameters: Mapping[str, Any]) -> None:
    """A flag that would be ignored is an error."""
    context = click.get_current_context()
    for name in context.params:
        source = context.get_parameter_source(name)
        if name not in SUPPORTED and source is not click.core.ParameterSource.DEFAULT:
            flag, instead = "--" + name.replace("_", "-"), INSTEAD.get(name)
            end = "" if instead is None else f": {instead}"
            raise ConfigError(f"{flag} is for --engine local, not {engine}{end}")
    for name, owner in OWNERS.items():
        if engine != owner and parameters[name] is not None:
            raise ConfigError(f"--{name} is for --engine {owner}")


def _refuse_gates(engine: str, gates: Sequence[Gate]) -> None:
    """Those that compare with earlier labels."""
    for gate in gates:
        if gate.metric in CHANGES:
            raise ConfigError(
                f"--fail-if {gate.text} is for --engine local, not {engine}: use misc diff, which "
                "has it too"
            )


def _engine(
    name: str,
    pieces: list[Any],
    parameters: Mapping[str, Any],
    common: dict[str, Any],
    console: Any,
) -> AbstractContextManager[SpreadEngine]:
    """Not entered yet: reading happens then."""
    if name == "disk":
        from misc_cli.scale import disk

        return disk.opened(pieces, spill=parameters["spill"], **common)
    from misc_cli.scale import cluster

    return cluster.opened(pieces, scheduler=parameters["scheduler"], say=console.note, **common)


def _record(
    outcome: Outcome, inputs: Sequence[Any], known: Mapping[str, Any], warnings: list[str]
) -> dict[str, Any]:
    from misc_cli.io.address import redact
    from misc_cli.run.manifest import manifest

    content = manifest(
        outcome,
        command=[redact(word) for word in sys.argv[1:]],
        inputs=[],
        known={name: found.file for name, found in known.items()},
        outputs={},
        warnings=warnings,
    )
    content["inputs"] = list(inputs)
    return content


class _Target:
    """Where the labels go: stdout, one file, or a folder of parts (`-o labels/`); and workers."""

    def __init__(
        self, path: Path | None, folder: bool, probabilities: bool, workers: Path | None
    ) -> None:
        self.path, self.folder, self.probabilities = path, folder, probabilities
        self.workers = workers

    @classmethod
    def of(cls, parameters: Mapping[str, Any], inputs: list[str]) -> _Target:
        from misc_cli.io.write import check_suffix, check_writable

        given, probabilities = parameters["output"], parameters["probabilities"]
        workers = outputs.companion("workers", parameters["workers"])
        if workers is not None:
            check_suffix(workers)
        if given is None or given == "-":
            target = cls(outputs.output_file(given), False, probabilities, workers)
            check_writable(target.places.values(), inputs, stdout=True)
            return target
        path = Path(given)
        if given.endswith("/") or path.is_dir():
            if path.exists() and (not path.is_dir() or any(path.iterdir())):
                raise ConfigError(f"{given}: this is there and not empty; name a new folder")
            if workers is not None and path.resolve() in workers.resolve().parents:
                raise ConfigError(
                    f"--workers {workers}: the folder is for labels; name a file outside"
                )
            others = [] if workers is None else [workers]
            check_writable([path.with_name(f".{path.name}.tmp"), *others], inputs)
            return cls(path, True, probabilities, workers)
        target = cls(outputs.output_file(given), False, probabilities, workers)
        check_writable(target.places.values(), inputs, stdout=target.path is None)
        return target

    @property
    def places(self) -> dict[str, Path]:
        """By name; run.json comes last, for it has the checksums of the others."""
        from misc_cli.saving import beside

        labels = {} if self.path is None else {"labels": self.path}
        workers = {} if self.workers is None else {"workers": self.workers}
        if self.path is None or self.folder:
            return {**labels, **workers}
        return {**labels, **workers, **beside(self.path)}

    def check(self, engine: SpreadEngine) -> None:
        """Before the fit: is one file for all labels asking too much?"""
        if not self.folder:
            engine.refuse_one_file()

    def write(self, engine: SpreadEngine, outcome: Outcome, record: dict[str, Any]) -> None:
        from misc_cli.io.render import write_pieces, write_table
        from misc_cli.io.write import Output, write_all
        from misc_cli.run.manifest import members, write_manifest, write_records
        from misc_cli.run.tables import worker_columns
        from misc_cli.scale.here import columns_of

        digests: dict[Path, str] = {}
        of_workers = {} if self.workers is None else worker_columns(outcome)

        def labels(stream: BinaryIO) -> None:
            name = self.path.name if self.path is not None else ""
            write_pieces(map(columns_of, engine.tables(self.probabilities)), stream, name)

        def workers(stream: BinaryIO) -> None:
            write_table(of_workers, stream, self.places["workers"].name)

        def diagnostics(stream: BinaryIO) -> None:
            write_records(outcome.records, stream)

        def run(stream: BinaryIO) -> None:
            record["outputs"] = {name: str(path) for name, path in self.places.items()}
            names = {path: name for name, path in self.places.items()}
            record["files"] = members(self.places["run"], names, digests)
            write_manifest(record, stream)

        writers = {"labels": labels, "workers": workers, "diagnostics": diagnostics, "run": run}
        outputs = {name: Output(path, writers[name]) for name, path in self.places.items()}
        if self.folder:
            others = [output for name, output in outputs.items() if name != "labels"]
            self._write_folder(engine, record, diagnostics, others)
        else:
            stdout = labels if self.path is None else None
            write_all(outputs.values(), stdout=stdout, digests=digests)

    def _write_folder(
        self,
        engine: SpreadEngine,
        record: dict[str, Any],
        diagnostics: Any,
        others: Sequence[Any],
    ) -> None:
        """Parts under a temporary name; the folder appears whole, or not at all."""
        from misc_cli.io.write import Output, write_all
        from misc_cli.run.manifest import members, write_manifest

        assert self.path is not None
        suffix = next((s for s in FOLDER_SUFFIXES if self.path.name.endswith(s)), ".parquet")
        final = self.path.resolve()
        staged = Path(tempfile.mkdtemp(prefix=f".{final.name}.", suffix=".part", dir=final.parent))
        try:
            parts = engine.write_parts(staged, suffix, self.probabilities)
            missing = [part for part in sorted(parts) if not (staged / part).exists()]
            if missing:
                raise InputError(
                    f"{self.path}: the workers wrote {missing[0]} where this machine does not see "
                    "it; name a folder on storage that all share"
                )
            places = {name: str(path) for name, path in self.places.items()}
            record["outputs"] = {**places, "parts": sorted(parts)}
            digests = {staged / part: parts[part] for part in sorted(parts)}

            def run(stream: BinaryIO) -> None:
                names = {path: path.name for path in digests}
                names.update({path: name for name, path in self.places.items()})
                record["files"] = members(staged / "run.json", names, digests)
                write_manifest(record, stream)

            write_all(
                [
                    Output(staged / "diagnostics.jsonl", diagnostics),
                    *others,
                    Output(staged / "run.json", run),
                ],
                digests=digests,
            )
            staged.chmod(0o777 & ~_umask())
            staged.replace(final)
        except OSError as error:
            raise InputError(f"cannot write {self.path}: {error.strerror or error}") from None
        finally:
            shutil.rmtree(staged, ignore_errors=True)


def _umask() -> int:
    umask = os.umask(0)
    os.umask(umask)
    return umask
