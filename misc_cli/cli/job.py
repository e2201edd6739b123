"""What a command line asks for: resolved and checked before anything is read, then run."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from misc_cli.cli import options, reading_options, startup
from misc_cli.data.parameters import AUTO
from misc_cli.errors import ConfigError, InputError, MiscWarning

if TYPE_CHECKING:
    from misc_cli.cli.console import Console
    from misc_cli.readers.answer_table import ReadResult
    from misc_cli.readers.options import ReadOptions
    from misc_cli.run.request import Fitter, Stopwatch
    from misc_cli.run.result import Outcome
    from misc_cli.run.settings import Methods


@dataclass(frozen=True)
class Job:
    """The sources, how to read them, and the settings; `known` are files by role, gold or truth.

    `carried_gold` takes the gold that the answers' own files carry: --gold auto.
    """

    sources: tuple[str, ...]
    methods: Methods
    reading: ReadOptions
    known: Mapping[str, str]
    carried_gold: bool = False

    @classmethod
    def of(cls, sources: tuple[str, ...], parameters: dict[str, Any]) -> Job:
        """Takes its own out of a command's parameters."""
        from misc_cli.readers.source import check_stdin_once
        from misc_cli.run.settings import build

        known = {
            name: parameters[name] for name in ("gold", "truth") if parameters.get(name) is not None
        }
        carried = known.get("gold") == AUTO
        if carried:
            del known["gold"]
        check_stdin_once([*sources, *known.values()])
        methods = build(options.settings_from(parameters))
        return cls(sources, methods, reading_options.read_options_from(parameters), known, carried)

    @property
    def files(self) -> list[str]:
        """Everything that will be read."""
        return [*self.sources, *self.known.values()]

    def read(self, *, with_times: bool = False) -> Inputs:
        """Everything in the files; `with_times` keeps when answers were given, where they say."""
        from misc_cli.readers.known_labels import read_known
        from misc_cli.readers.read import read_answer_columns
        from misc_cli.run.request import Stopwatch

        watch = Stopwatch(startup.since())
        with watch.stage("read"):
            read = read_answer_columns(self.sources, self.reading, with_times=with_times)
            known = {name: read_known(file, self.reading) for name, file in self.known.items()}
            if self.carried_gold:
                known["gold"] = _carried(read)
        return Inputs(read, known, watch)

    def read_each(self, *, with_times: bool = False) -> list[Inputs]:
        """The same for every question in the files."""
        from misc_cli.readers.known_labels import read_known_each
        from misc_cli.readers.read import read_questions
        from misc_cli.run.request import Stopwatch

        watch = Stopwatch(startup.since())
        known: dict[str, dict[str, Any]]
        with watch.stage("read"):
            results = read_questions(self.sources, self.reading, each=True, with_times=with_times)
            known = {read.question: {} for read in results}
            for role, file in self.known.items():
                told = read_known_each(file, list(known), self.reading)
                for question, of_role in known.items():
                    if question in told:
                        of_role[role] = told[question]
                    else:
                        text = f"{file}: nothing about question {question!r}, so it has no {role}"
                        warnings.warn(text, MiscWarning, stacklevel=2)
        for read in results:
            if self.carried_gold:
                known[read.question]["gold"] = _carried(read)
        return [Inputs(read, known[read.question], watch) for read in results]

    def run(self, console: Console, materials: Inputs, fitter: Fitter | None = None) -> Performed:
        """Aggregate what was read."""
        from misc_cli.run import pipeline
        from misc_cli.run.request import Request

        labels = {name: found.labels for name, found in materials.known.items()}
        outcome = pipeline.run(
            Request(
                _knowing_nobody(self.methods) if materials.read.anonymous else self.methods,
                materials.read.answers,
                gold=labels.get("gold"),
                truth=labels.get("truth"),
                on_iteration=console.on_iteration,
                fitter=fitter,
                watch=materials.watch,
            )
        )
        console.settle()
        outcome.figures["warnings"] = len(console.warnings)
        return Performed(outcome, materials)


def _carried(read: ReadResult) -> Any:
    """The gold in the answers' own files."""
    from misc_cli.readers.known_labels import Known

    if read.gold is None:
        raise InputError(f"{read.files[0].name}: no gold in it; give --gold a file")
    return Known(read.gold, read.files[0])


def _knowing_nobody(methods: Methods) -> Methods:
    """Without workers a majority vote is all there is; whoever asks for more is told so."""
    from misc_cli.run.settings import build

    settings = methods.settings
    if settings.aggregator not in (AUTO, "mv"):
        raise ConfigError(
            f"--aggregator {settings.aggregator} needs to know who answered, and nobody says; "
            "use mv, or name the workers with --worker-col"
        )
    text = "nobody says who answered, so this is a plain majority vote"
    warnings.warn(text, MiscWarning, stacklevel=3)
    return build(replace(settings, aggregator="mv", completer="none"))


def command_line() -> list[str]:
    """The words after `misc`; secrets of an address are left out."""
    from misc_cli.readers.remote import redact

    return [redact(word) for word in sys.argv[1:]]


@dataclass(frozen=True)
class Inputs:
    """What was read: answers, known labels by role, and how long that took."""

    read: ReadResult
    known: Mapping[str, Any]
    watch: Stopwatch

    @property
    def files(self) -> list[Any]:
        """Every file that was read, with its checksum."""
        return [*self.read.files, *(found.file for found in self.known.values())]


@dataclass(frozen=True)
class Performed:
    """A finished run and what it read."""

    outcome: Outcome
    materials: Inputs

    def manifest(self, outputs: Mapping[str, str], warnings: list[str]) -> dict[str, Any]:
        """run.json."""
        from misc_cli.run.run_record import manifest

        return manifest(
            self.outcome,
            command=command_line(),
            inputs=self.materials.read.files,
            known={name: found.file for name, found in self.materials.known.items()},
            outputs=outputs,
            warnings=warnings,
        )
