"""AggregateRequest: everything that a run is asked to do, and what the pipeline is given of it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from misc_cli.data.parameters import AUTO, conforms, flag
from misc_cli.data.types import Lighten, OnIteration
from misc_cli.engines.capabilities import check_flags
from misc_cli.engines.protocol import Engine
from misc_cli.errors import ConfigError
from misc_cli.readers.options import ReadOptions
from misc_cli.redaction import redact_all
from misc_cli.run.settings import Methods, Settings
from misc_cli.selection.ensemble import FitResult

Fitter = Callable[[Engine, Methods, OnIteration, Lighten], FitResult]

LOCAL = "local"
# What --accept may name: kinds of news in a later night, and a warning.
ACCEPTABLE = ("new-labels", "columns", "format", "duplicates")
# Fields that say more about another, which must be given.
NEEDS = {
    **dict.fromkeys(("accept", "rechoose", "keep_settled"), "state"),
    "settled": "keep_settled",
    **dict.fromkeys(("keep_rejected", "publish_anyway"), "fail_if"),
    "title": "report",
}
# Fields without any effect on the bytes of an output.
WITHOUT_EFFECT = ("fail_if", "keep_rejected", "publish_anyway", "state", "rechoose")


@dataclass(frozen=True)
class AggregateRequest:
    """Everything that a run is asked to do, made once and never changed.

    It is made from flags, a file of settings and variables, or from Python's arguments, and
    run.json holds it as `to_json` gives it. Fields are called as their flags.

    Parameters
    ----------
    sources
        Names of the files of answers; empty if the answers came as a table.
    settings, reading
        The methods with their parameters, and how to read the sources.
    gold, truth
        Files of known labels that teach, and that judge; gold may be "auto".
    output
        The file of labels, or a folder ending in "/"; None and "-" mean stdout.
    """

    sources: tuple[str, ...] = ()
    settings: Settings = field(default_factory=Settings)
    reading: ReadOptions = field(default_factory=ReadOptions)
    gold: str | None = None
    truth: str | None = None
    each_question: bool = False
    fail_if: tuple[str, ...] = ()
    keep_rejected: str | None = None
    publish_anyway: bool = False
    output: str | None = None
    probabilities: bool = False
    item_details: bool = False
    workers: str | None = None
    report: str | None = None
    title: str | None = None
    diagnostics: str | None = None
    changes: str | None = None
    metrics: str | None = None
    rejects: str | None = None
    state: str | None = None
    accept: tuple[str, ...] = ()
    rechoose: float | str | None = None
    keep_settled: bool = False
    settled: tuple[float, float] | None = None
    engine: str = LOCAL
    spill: str | None = None
    scheduler: str | None = None

    def __post_init__(self) -> None:
        if self.engine != LOCAL or self.spill or self.scheduler:
            reading = [one.name for one in fields(self.reading) if getattr(self.reading, one.name)]
            others = [one.name for one in fields(self) if getattr(self, one.name)]
            check_flags(self.engine, reading, others)
        if self.each_question and self.state is not None:
            raise ConfigError(
                "--state is for one question; pick it with --question, one run for each"
            )
        for name, other in NEEDS.items():
            if getattr(self, name) and not getattr(self, other):
                raise ConfigError(f"{flag(name)} needs {flag(other)}; give that, too")
        if isinstance(self.rechoose, str) and self.rechoose != "never":
            raise ConfigError(f"-p rechoose {self.rechoose}: give a time such as 30d, or never")
        for kind in self.accept:
            if kind not in ACCEPTABLE:
                raise ConfigError(f"--accept {kind}: choose from {', '.join(ACCEPTABLE)}")

    @property
    def known_files(self) -> dict[str, str]:
        """Return the files of known labels by role; gold that the answers carry is none."""
        named = {"gold": None if self.gold == AUTO else self.gold, "truth": self.truth}
        return {role: file for role, file in named.items() if file is not None}

    @property
    def files(self) -> list[str]:
        """Return the names of everything that will be read."""
        return [*self.sources, *self.known_files.values()]

    def to_json(self) -> dict[str, Any]:
        """Return the request as JSON has it, without the secrets of addresses."""
        whole = json.loads(json.dumps(asdict(self), default=str))
        redacted: dict[str, Any] = redact_all(whole)
        return redacted

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> AggregateRequest:
        """Return the request that `to_json` described."""
        if not conforms(content, cls):
            raise TypeError("a field is of another type")
        whole: dict[str, Any] = _frozen(dict(content))
        chosen, reading = whole["settings"], ReadOptions(**whole["reading"])
        settings = Settings(**{**chosen, "options": dict(chosen["options"])})
        return cls(**{**whole, "settings": settings, "reading": reading})

    def comparable(self) -> dict[str, Any]:
        """Return what decides the bytes of the outputs, as JSON has it."""
        plain = replace(self, settings=replace(self.settings, threads=None)).to_json()
        return {name: value for name, value in plain.items() if name not in WITHOUT_EFFECT}


def _frozen(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _frozen(entry) for name, entry in value.items()}
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


@dataclass
class Stopwatch:
    """Counts seconds by stage; the run began at `began`, by the monotonic clock.

    `on_stage` hears the name of each stage that begins.
    """

    began: float = field(default_factory=time.monotonic)
    on_stage: Callable[[str], None] | None = None
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        started = time.perf_counter()
        if self.on_stage is not None:
            self.on_stage(name)
        try:
            yield
        finally:
            spent = time.perf_counter() - started
            self.seconds[name] = round(self.seconds.get(name, 0.0) + spent, 6)
