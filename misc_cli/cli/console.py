"""Messages on stderr and tables on stdout; the only module that imports rich, on a terminal.

warnings   one line each, always, unless --quiet
summary    on a terminal, or with --verbose
progress   on a terminal, once a run has lasted long enough to make one wonder; with --verbose
           elsewhere a line every ten seconds
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from threading import Event, Thread, current_thread
from typing import TYPE_CHECKING, Any

from misc_cli.cli import logs
from misc_cli.errors import printable

if TYPE_CHECKING:
    from misc_cli.data.types import Iteration

PATIENCE_SECONDS = 0.4
BEAT_SECONDS = 10.0
LAST_BEAT_SECONDS = 1.0  # that a beat may take when it is stopped
WORTH_TELLING_SECONDS = 3.0

Row = tuple[str, str]
Cells = Sequence[str]


class Progress:
    """Progress of a run, an estimate of the time left, and the live line of a terminal.

    There is no line for a run that is over at once.
    """

    def __init__(self, *, live: bool) -> None:
        self.live = live
        self.born = self.since = time.monotonic()
        self.latest: Iteration | None = None
        self.status: Any = None

    def on_iteration(self, iteration: Iteration) -> None:
        """Take note of where the run is; show the line if it is time, it then updates itself."""
        before, self.latest = self.latest, iteration
        is_new = before is None or before.stage != iteration.stage
        if is_new:
            logs.event("stage", stage=iteration.stage)
        if is_new or (before and before.extra.get("of") != iteration.extra.get("of")):
            self.since = time.monotonic()  # another stage, or the same one with other work
        if not self.live or self.status is not None:
            return
        waited = time.monotonic() - self.born >= PATIENCE_SECONDS
        if waited or (self.seconds_left or 0.0) > WORTH_TELLING_SECONDS:
            console = _rich()
            if not console.is_dumb_terminal:
                self.status = console.status(self, spinner="dots")
                self.status.start()

    @property
    def seconds_left(self) -> float | None:
        """Estimate the seconds left of a stage by the steps that are done; None if unknown."""
        if self.latest is None:
            return None
        done, of = self.latest.iteration, self.latest.extra.get("of")
        if not isinstance(of, int) or not done:
            return None
        return round((time.monotonic() - self.since) / done * (of - done), 1)

    def __str__(self) -> str:
        """Return where the run is, in a line: what is tried, how many of how many, seconds."""
        parts = []
        iteration = self.latest
        if iteration is not None:
            parts += [] if iteration.pass_number is None else [f"pass {iteration.pass_number}"]
            of = iteration.extra.get("of")
            if of is None:
                parts.append(f"{iteration.stage} iteration {iteration.iteration}")
            else:
                parts.append(f"{iteration.stage} {iteration.iteration} of {of}")
                parts.append(str(iteration.extra.get("candidate", "")))
            if iteration.change is not None:
                parts.append(f"change {iteration.change:.2g}")
        parts.append(f"{time.monotonic() - self.born:.0f} s")
        left = self.seconds_left
        if left is not None and left >= 1.0:
            parts.append(f"about {left:.0f} s left")
        return printable(" · ".join(parts))

    def __rich__(self) -> Any:
        from rich.text import Text

        return Text(str(self))

    def close(self) -> None:
        if self.status is not None:
            self.status.stop()
            self.status = None


class Heartbeat:
    """Call a function every ten seconds, from a thread of its own, until it is stopped."""

    def __init__(self, beat: Callable[[], None]) -> None:
        self.beat = beat
        self._stop = Event()
        self._thread: Thread | None = None

    def start(self) -> None:
        def pulse() -> None:
            while not self._stop.wait(BEAT_SECONDS):
                self.beat()

        self._thread = Thread(target=pulse, name="heartbeat", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop the calls; one that has begun ends first, unless it hangs."""
        self._stop.set()
        if self._thread is not None and self._thread is not current_thread():
            self._thread.join(LAST_BEAT_SECONDS)


class Console:
    """Talks to stderr as much as the user asked for and as the place allows."""

    def __init__(self, *, quiet: bool = False, verbose: bool = False) -> None:
        self.verbose = verbose
        self.log = logs.current
        logged = self.log is not None and self.log.is_stderr  # then nothing else goes there
        self.quiet = quiet or logged
        self.terminal = sys.stderr.isatty() and not logged
        self.warnings: list[str] = []
        self.progress = Progress(live=self.terminal and not self.quiet)
        self.on_iteration = self.progress.on_iteration
        self.clear_line = self.progress.close  # before anything else is written to the terminal
        self._tells_progress = verbose and not self.quiet and not self.terminal
        told = not self.quiet and (self.terminal or verbose)
        self.shows_summary = told or self.log is not None

    @classmethod
    def of(cls, parameters: Mapping[str, Any]) -> Console:
        """Return the console that a command's --quiet and --verbose ask for."""
        return cls(quiet=parameters["quiet"], verbose=parameters["verbose"])

    def warn(self, text: str) -> None:
        """Print a warning once, and keep it for run.json."""
        line = printable(" ".join(logs.told(text).split()))
        if line in self.warnings:
            return
        self.warnings.append(line)
        if self.log is not None:
            logs.event("warning", logging.WARNING, message=line)
        if not self.quiet:
            self._say(f"misc: warning: {line}", "yellow")

    def note(self, text: str) -> None:
        """Print a line on a terminal, or with --verbose."""
        if not self.quiet and (self.terminal or self.verbose):
            self._say(f"misc: {text}", "dim")

    def say(self, text: str) -> None:
        """Print a line that is no warning, unless --quiet."""
        if self.log is not None:
            logs.event("note", message=text)
        if not self.quiet:
            self._say(f"misc: {text}", "")

    def summary(self, rows: Sequence[Row], facts: Mapping[str, Any] | None = None) -> None:
        """Show aligned lines of a name and a value; `facts` are for the log."""
        if self.log is not None:
            told = {name.replace(" ", "_"): value for name, value in rows}
            logs.event("done", **(told if facts is None else facts))
        if self.quiet or not (self.terminal or self.verbose):
            return
        if not self.terminal:
            width = max(len(name) for name, _ in rows)
            for name, value in rows:
                print(f"{name:<{width}}  {printable(value)}", file=sys.stderr)
            return
        from rich.table import Table as RichTable
        from rich.text import Text

        grid = RichTable.grid(padding=(0, 2))
        grid.add_column(style="bold cyan", no_wrap=True)
        grid.add_column(overflow="fold")  # between words; a long path goes on in the next line
        for name, value in rows:
            grid.add_row(name, Text(printable(value)))
        _rich().print(grid, highlight=False)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Show the live line, if any, and warnings as they come, inside this block."""
        import warnings

        from misc_cli.errors import MiscWarning

        def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
            # A warning of a library is a matter for us, not for the user.
            if self.verbose or issubclass(category, MiscWarning):
                self.warn(str(message))

        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.showwarning = show
            heart = None
            if self.log is not None or self._tells_progress:
                heart = Heartbeat(self._beat)
                heart.start()
            try:
                yield
            finally:
                if heart is not None:
                    heart.stop()
                self.clear_line()

    def _beat(self) -> None:
        latest = self.progress.latest
        logs.event(
            "heartbeat",
            stage=None if latest is None else latest.stage,
            done=None if latest is None else latest.iteration,
            of=None if latest is None else latest.extra.get("of"),
            seconds_left=self.progress.seconds_left,
        )
        if self._tells_progress and latest is not None:
            self._say(f"misc: {self.progress}", "")

    @contextmanager
    def bar(self, total: int) -> Iterator[Callable[[str], None]]:
        """Show a bar with the time that remains, on a terminal; lines with --verbose elsewhere.

        Call what it yields once per step that is done, with the step's name.
        """
        if self.quiet or not self.terminal:
            started, done = time.monotonic(), count(1)

            def tell(step: str) -> None:
                at, seconds = next(done), time.monotonic() - started
                if self.verbose and not self.quiet:
                    print(f"{at} of {total}  {seconds:.0f} s  {printable(step)}", file=sys.stderr)

            yield tell
            return
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
        from rich.progress import TimeElapsedColumn as Elapsed
        from rich.progress import TimeRemainingColumn as Remaining

        columns = (BarColumn(), MofNCompleteColumn(), Elapsed(), "left", Remaining())
        with Progress(*columns, TextColumn("{task.description}"), console=_rich()) as progress:
            task = progress.add_task("", total=total)
            yield lambda step: progress.update(task, advance=1, description=step)

    def _say(self, line: str, style: str) -> None:
        line = logs.told(line)
        if not self.terminal:
            print(line, file=sys.stderr)
            return
        from rich.text import Text

        _rich().print(Text(line, style), soft_wrap=True, highlight=False)


_console: Any = None


def _rich() -> Any:
    """Return the one rich console, so that lines and the live line do not collide."""
    global _console
    if _console is None:
        from rich.console import Console as RichConsole

        _console = RichConsole(stderr=True)
    return _console
