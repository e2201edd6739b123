"""A log for machines and for those who look next morning: one line per event, text or JSON.

start      the command as it was called
cost       what an automatic choice is expected to take, before it starts
stage      a new part of the run
heartbeat  every ten seconds: stage, done, of, seconds_left (null where nobody can know)
warning    as it comes
done       the summary, by name
error      the one line that stderr would have, and the exit code

A line is one write to the file, so that lines of several runs never mix; it needs no lock that a
fork could leave locked.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from threading import Event, Thread, current_thread
from typing import TYPE_CHECKING, Any

from misc_cli.data.iteration import COST
from misc_cli.errors import ConfigError

if TYPE_CHECKING:
    from misc_cli.data.types import Iteration

FORMATS = ("text", "json")
BEAT_SECONDS = 10.0
LAST_BEAT_SECONDS = 1.0  # how long a beat that has begun is waited for

current: Log | None = None


class ProgressEstimate:
    """Where a run is, and what is left of it by the pace so far."""

    def __init__(self) -> None:
        self.born = self.started = time.monotonic()
        self.stage: str | None = None
        self.since = self.started
        self.latest: Iteration | None = None
        self.heard = self.started
        self.choice: Iteration | None = None  # how far an automatic choice is

    def hear(self, iteration: Iteration) -> bool:
        """Take note of where the run is; whether that is a new stage."""
        self.heard = time.monotonic()
        if iteration.stage == COST:
            if self.choice is None:
                self.started = self.heard
            self.choice = iteration
            return False
        self.latest = iteration
        if iteration.stage == self.stage:
            return False
        self.stage, self.since = iteration.stage, self.heard
        return True

    @property
    def seconds_left(self) -> float | None:
        """None where nobody can know.

        Of an automatic choice the counted work says it: at first as it was announced, and the more
        of it is done, the more by how long that took. Of another stage the number of its steps.
        """
        now = time.monotonic()
        if self.choice is not None:
            announced, share = (float(self.choice.extra[key] or 0) for key in ("seconds", "share"))
            spent = self.heard - self.started
            left = (1.0 - share) * (spent + (1.0 - share) * announced)
            return max(round(left - (now - self.heard), 1), 0.0)
        if self.latest is None:
            return None
        done, of = self.latest.iteration, self.latest.extra.get("of")
        if not isinstance(of, int) or not done:
            return None
        return round((now - self.since) / done * (of - done), 1)


class Heartbeat:
    """Calls a function every ten seconds, from a thread of its own, until it is stopped."""

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
        """No beat comes afterwards: one that has begun ends first, unless it hangs."""
        self._stop.set()
        if self._thread is not None and self._thread is not current_thread():
            self._thread.join(LAST_BEAT_SECONDS)


class Log:
    """Where events go: the file of this descriptor, in this format."""

    def __init__(self, descriptor: int, style: str, *, is_stderr: bool) -> None:
        self.descriptor = descriptor
        self.style = style
        self.is_stderr = is_stderr
        self.pace = ProgressEstimate()
        self.heart = Heartbeat(self.beat)

    def event(self, event: str, level: str = "info", **fields: Any) -> None:
        """One line; a full disk or a closed pipe never decides the outcome of a run."""
        now = time.time()
        stamp = (
            time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now * 1000) % 1000:03}Z"
        )
        if self.style == "json":
            record = {"time": stamp, "level": level, "event": event, **fields}
            line = json.dumps(record, ensure_ascii=False, default=str)
        else:
            words = [
                f"{name}={_word(value)}" for name, value in fields.items() if value is not None
            ]
            line = " ".join([stamp, level, event, *words])
        with suppress(OSError):
            os.write(self.descriptor, f"{line}\n".encode("utf-8", "replace"))

    def on_iteration(self, iteration: Iteration) -> None:
        if iteration.stage == COST and self.pace.choice is None:
            extra = iteration.extra
            self.event("cost", seconds=extra["seconds"], fast_seconds=extra["fast"])
        if self.pace.hear(iteration):
            self.event("stage", stage=iteration.stage)

    def beat(self) -> None:
        """Where the run is."""
        latest = self.pace.latest
        self.event(
            "heartbeat",
            stage=self.pace.stage,
            done=None if latest is None else latest.iteration,
            of=None if latest is None else latest.extra.get("of"),
            seconds_left=self.pace.seconds_left,
        )


def _word(value: Any) -> str:
    text = str(value)
    return json.dumps(text, ensure_ascii=False) if any(c in text for c in ' "=\n') else text


@contextmanager
def writing(command: Sequence[str], style: str | None, file: str | None) -> Iterator[None]:
    """Log what happens inside; without a style and a file there is no log."""
    global current
    current = None
    if style is None and file is None:
        yield
        return
    current = log = _begun(command, style, file)
    try:
        log.heart.start()
        yield
        current = None  # after an error the log still hears what the error is
    finally:
        log.heart.stop()


def begin_with_an_error(command: Sequence[str], style: str | None, file: str | None) -> None:
    """For an error that comes before the command does: the log hears of it all the same."""
    global current
    if style is None and file is None:
        return
    with suppress(ConfigError):  # stderr hears of the first error only
        current = _begun(command, style, file)


def _begun(command: Sequence[str], style: str | None, file: str | None) -> Log:
    """A log with its first line: the command, secrets of an address left out."""
    from misc_cli.readers.remote import redact

    log = Log(_open(file), style or FORMATS[0], is_stderr=file is None)
    log.event("start", command=shlex.join(map(redact, command)), process=os.getpid())
    return log


def asked_for(words: Sequence[str]) -> tuple[str | None, str | None]:
    """Format and file that words of a command line, or variables, ask for."""
    given = [os.environ.get(name) or None for name in ("MISC_LOG_FORMAT", "MISC_LOG_FILE")]
    for at, flag in enumerate(("--log-format", "--log-file")):
        for word, following in pairwise([*words, ""]):
            if word == flag:
                given[at] = following
            elif word.startswith(f"{flag}="):
                given[at] = word.partition("=")[2]
    style, file = given
    return style if style in FORMATS else None, file


def _open(file: str | None) -> int:
    if file is None:
        return sys.stderr.fileno()
    try:
        return os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise ConfigError(f"--log-file {file}: cannot be written ({error.strerror})") from None


def told(message: str, code: int) -> bool:
    """Log an error that ends the program; whether stderr has it by that."""
    global current
    log, current = current, None
    if log is None:
        return False
    log.event("error", "error", message=message, exit_code=code)
    return log.is_stderr
