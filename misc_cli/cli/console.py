"""Messages on stderr: warnings, the summary, and one line that says how far a command is.

warnings   one line each, always, unless --quiet
summary    on a terminal, or with --verbose
progress   on a terminal a live line, from half a second on: what is done, how far, how long yet;
           with --verbose elsewhere a line every ten seconds

On a terminal text is wrapped to its width; tables on stdout use the same functions.
"""

from __future__ import annotations

import logging
import math
import os
import sys
import textwrap
import time
import unicodedata
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from io import TextIOBase
from itertools import count, cycle
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any, TextIO

from misc_cli.cli import logs, startup
from misc_cli.errors import MiscWarning, printable

if TYPE_CHECKING:
    from misc_cli.data.types import Iteration, OnIteration

PATIENCE_SECONDS = 0.4  # from the start of the process to the first line
TICK_SECONDS = 0.1
BEAT_SECONDS = 10.0
LAST_BEAT_SECONDS = 1.0  # that a beat may take when it is stopped
SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
CLEAR = "\r\x1b[K"
# What a stage of a run does, in words; a method that iterates is called by its name.
DOING = {
    "": "working",
    "read": "reading",
    "encode": "counting answers",
    "compare": "comparing workers",
    "fit": "fitting",
    "decide": "deciding labels",
    "search": "trying methods",
    "fitted": "fitting on all answers",
    "pass": "completing",
}

Row = tuple[str, str]


@dataclass
class Progress:
    """Progress of a run: the stage, the steps that are done of how many, the time that is left."""

    sources: Sequence[str] = ()
    born: float = field(default_factory=time.monotonic)
    since: float = field(default_factory=time.monotonic)  # when this stage began
    heard: float = field(default_factory=time.monotonic)  # of the last step
    stage: str = ""
    latest: Iteration | None = None
    first: Iteration | None = None
    paused: bool = False

    def on_stage(self, stage: str) -> None:
        """Take note that a stage begins."""
        self.stage, self.latest, self.paused = stage, None, False
        self.since = self.heard = time.monotonic()

    def on_iteration(self, iteration: Iteration) -> None:
        """Take note of a step that is done."""
        before = self.latest
        if before is None or before.stage != iteration.stage:
            if logs.LOGGER.isEnabledFor(logging.INFO):
                logs.event("stage", stage=iteration.stage)
            before = None
        goes_on = before is not None and before.iteration < iteration.iteration
        if before is None or not goes_on or before.extra.get("of") != iteration.extra.get("of"):
            self.since, self.first = self.heard, iteration  # it began when the last one ended
        self.latest, self.heard, self.paused = iteration, time.monotonic(), False

    @property
    def total(self) -> int | None:
        """Return the number of steps that the present stage has at most; None if unknown."""
        now = self.latest
        of = None if now is None else now.extra.get("of", now.limit)
        return of if isinstance(of, int) else None

    @property
    def seconds_left(self) -> float | None:
        """Estimate the seconds left of a stage by the steps that are done; None if unknown.

        Where a step says its change and the target, that falls as it did so far.
        """
        now, first = self.latest, self.first
        if now is None or first is None or not now.iteration:
            return None
        left = math.inf if self.total is None else self.total - now.iteration
        steps = now.iteration - first.iteration
        if now.change and first.change and now.target and now.change < first.change and steps > 1:
            rate = math.log(first.change / now.change) / steps
            left = min(left, max(math.log(now.change / now.target) / rate, 0.0))
        elif now.target:
            return None  # nothing tells yet how fast it converges
        seconds = (self.heard - self.since) / now.iteration * left
        return None if math.isinf(left) else round(seconds, 1)

    def __str__(self) -> str:
        """Return where the run is, in a line."""
        now = self.latest
        name = self.stage if now is None else now.stage
        parts = [DOING.get(name, name)]
        if name == "read" and self.sources:
            parts = [f"reading {self.sources[0]}"]
        if now is not None:
            parts += [] if now.pass_number is None else [f"pass {now.pass_number}"]
            most = f"{now.iteration} of {'at most ' if now.target else ''}{self.total}"
            far = most if self.total else f"step {now.iteration}"
            parts += [far, str(now.extra.get("candidate", ""))]
            if now.change is not None:
                target = f", done below {now.target:g}" if now.target else ""
                parts.append(f"change {now.change:.2g}{target}")
        parts.append(f"{time.monotonic() - self.born:.0f} s")
        left = self.seconds_left
        if left is not None and (left := left - (time.monotonic() - self.heard)) >= 1.0:
            parts.append(f"about {left:.0f} s left")
        return printable(" · ".join(filter(None, parts)))


def columns_of(text: str) -> int:
    """Return the columns that a text takes on a terminal: two for a Chinese sign, say."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(sign) in "WF" for sign in text)
    return len(text) + wide - sum(map(bool, map(unicodedata.combining, text)))


def below(name: str, value: str, start: int, width: int | None) -> list[str]:
    """Return the lines of a name and its value, which begins at `start` and goes on below."""
    rest = wrapped(value, None if width is None else max(width - start, 20)) or [""]
    before = name + " " * (start - columns_of(name))
    return [f"{before}{rest[0]}".rstrip(), *(" " * start + line for line in rest[1:])]


def wrapped(text: str, width: int | None) -> list[str]:
    """Return a text in lines of whole words; a longer word is a line of its own."""
    if width is None or columns_of(text) <= width:
        return [text]
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)


def screen_width(stream: TextIO | None = None) -> int | None:
    """Return the columns of the terminal if a stream is one, stdout unless given; None if not."""
    stream = stream or sys.stdout
    if stream is None or not stream.isatty():
        return None
    with suppress(OSError, ValueError):
        return int(os.environ.get("COLUMNS") or os.get_terminal_size(stream.fileno()).columns) or 80
    return 80


class Console:
    """Talks to stderr as much as the user asked for and as the place allows."""

    def __init__(
        self, *, quiet: bool = False, verbose: bool = False, sources: Sequence[str] = (), **_: Any
    ) -> None:
        self.verbose, self.quiet = verbose, quiet
        self.terminal = sys.stderr.isatty()
        self.tells = not quiet and (self.terminal or verbose)
        # a person, or a log
        self.shows_summary = self.tells or logs.LOGGER.isEnabledFor(logging.INFO)
        self.warnings: list[str] = []
        typed = "-" in sources and isinstance(sys.stdin, TextIOBase) and sys.stdin.isatty()
        self.live = self.tells and self.terminal and not typed and os.environ.get("TERM") != "dumb"
        self.progress = Progress(sources)
        self.on_iteration, self.on_stage = self.progress.on_iteration, self.progress.on_stage
        self.shown = False  # the live line
        self.lock, self.signs = Lock(), cycle(SPINNER)
        if typed:
            self.say("waiting for rows to be typed or pasted; Ctrl-D ends them")

    def warn(self, text: str) -> None:
        """Print a warning once, and keep it for run.json."""
        line = printable(" ".join(logs.told(text).split()))
        if line not in self.warnings:
            self.warnings.append(line)
            logs.event("warning", logging.WARNING, message=line)
            if not self.quiet:
                self._say(f"misc: warning: {line}")

    def note(self, text: str) -> None:
        """Print a line on a terminal, or with --verbose."""
        if self.tells:
            self._say(f"misc: {text}")

    def say(self, text: str) -> None:
        """Print a line that is no warning, unless --quiet."""
        logs.event("note", message=text)
        if not self.quiet:
            self._say(f"misc: {text}")

    def summary(self, rows: Sequence[Row], figures: Mapping[str, Any] | None = None) -> None:
        """Show aligned lines of a name and a value; `figures` are for the log."""
        told = {name.replace(" ", "_"): value for name, value in rows}
        logs.event("done", **(told if figures is None else figures))
        if not self.tells:
            return
        self.clear_line()
        size = max(len(name) for name, _ in rows)
        for name, value in rows:
            first, *rest = below(name, printable(value), size + 2, screen_width(sys.stderr))
            print("\n".join([first, *rest]), file=sys.stderr)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Show the live line, if any, and warnings as they come, inside this block."""

        def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
            # A warning of a library is a matter for us, not for the user.
            if self.verbose or issubclass(category, MiscWarning):
                self.warn(str(message))

        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.showwarning = show
            over = Event()
            pulse = Thread(target=self._pulse, args=(over,), name="heartbeat", daemon=True)
            if self.shows_summary:
                pulse.start()
            try:
                yield
            finally:
                over.set()
                if pulse.is_alive():
                    pulse.join(LAST_BEAT_SECONDS)  # a line that has begun ends first
                self.clear_line()

    def _pulse(self, over: Event) -> None:
        """Draw the live line and, every ten seconds, tell the log where the run is."""
        beaten = time.monotonic()
        while not over.wait(TICK_SECONDS if self.live else BEAT_SECONDS):
            if self.live:
                self._draw()
            if time.monotonic() - beaten < BEAT_SECONDS:
                continue
            beaten, latest = time.monotonic(), self.progress.latest
            stage, done = (None, None) if latest is None else (latest.stage, latest.iteration)
            left, of = self.progress.seconds_left, self.progress.total
            logs.event("heartbeat", stage=stage, done=done, of=of, seconds_left=left)
            if self.tells and not self.terminal and latest is not None:
                self._say(f"misc: {self.progress}")

    def _draw(self) -> None:
        """Draw the live line anew, once the command has lasted long enough to make one wonder."""
        with self.lock:
            began = startup.began or self.progress.born
            if not self.progress.paused and time.monotonic() - began >= PATIENCE_SECONDS:
                line = f"{CLEAR}{next(self.signs)} {self.progress}"
                self._write(line[: (screen_width(sys.stderr) or 80) + 3])
                self.shown = True

    def clear_line(self) -> None:
        """Remove the live line, until there is more to tell."""
        with self.lock:
            if self.shown:
                self._write(CLEAR)
            self.progress.paused, self.shown = True, False

    @staticmethod
    def _write(text: str) -> None:
        # not by the stream: a process that is forked meanwhile would find it locked
        with suppress(OSError, ValueError):
            os.write(sys.stderr.fileno(), text.encode(sys.stderr.encoding or "utf-8", "replace"))

    def steps(self, total: int, *stages: str) -> OnIteration:
        """Return an observer that counts steps of these stages (of all unless given) of `total`."""
        from misc_cli.data.types import Iteration

        done = count(1)

        def tell(step: Iteration) -> None:
            if not stages or step.stage in stages:
                name = str(step.extra.get("candidate", ""))
                found = Iteration("search", next(done), extra={"of": total, "candidate": name})
                self.on_iteration(found)

        return tell

    def _say(self, line: str) -> None:
        self.clear_line()
        text = "\n  ".join(wrapped(printable(logs.told(line)), screen_width(sys.stderr)))
        print(text, file=sys.stderr)
