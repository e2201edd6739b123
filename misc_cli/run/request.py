"""One run as it is asked for, from the command line or from Python to the pipeline."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from misc_cli.data.types import Answers, KnownLabels, Labels, Lighten, OnIteration, ignore_iteration
from misc_cli.run.settings import Methods
from misc_cli.selection.ensemble import Fit

Fitter = Callable[[Labels, Methods, OnIteration, Lighten], Fit]


class Stopwatch:
    """Seconds by stage, and since the run began (`began`, by the monotonic clock; None: now)."""

    def __init__(self, began: float | None = None) -> None:
        self.seconds: dict[str, float] = {}
        self.began = time.monotonic() if began is None else began

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self.began

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            spent = time.perf_counter() - started
            self.seconds[name] = round(self.seconds.get(name, 0.0) + spent, 6)


@dataclass(frozen=True)
class Request:
    """Everything the pipeline needs; what the files are called is the caller's affair.

    methods   the settings, resolved
    gold      labels of known items: they are kept, and teach the rest
    truth     labels that only judge the result and never steer it
    fitter    what stands in the place of `fitting.fit`: a night that remembers the last one
    watch     counts the seconds of each stage, those of reading too
    """

    methods: Methods
    answers: Answers
    gold: KnownLabels | None = None
    truth: KnownLabels | None = None
    on_iteration: OnIteration = ignore_iteration
    fitter: Fitter | None = None
    watch: Stopwatch = field(default_factory=Stopwatch)
