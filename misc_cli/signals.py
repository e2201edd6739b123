"""Ctrl-C, kill and a hang-up: one exception for all three, and moments in which it must wait.

A handler of Python's runs in the main thread, whichever thread the system gave the signal to. So
holding a signal means that its handler only takes note: masking it in one thread would leave it to
another.
"""

from __future__ import annotations

import atexit
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

# What ends a run: the exit code a shell would report, and the word for it.
ENDINGS: dict[int, tuple[int, str]] = {
    signal.SIGHUP: (128 + signal.SIGHUP, "hung up"),
    signal.SIGINT: (128 + signal.SIGINT, "interrupted"),
    signal.SIGTERM: (128 + signal.SIGTERM, "terminated"),
}

# After the first signal a run clears up; others would keep it from that. Later ones mean it hangs.
WAY_OUT_SECONDS = 3.0

_received: int | None = None
_received_at = 0.0
_ours: list[int] = []  # signals that this process answers


class Ended(KeyboardInterrupt):
    """A signal that ends the run; temporary files are removed on the way out."""

    def __init__(self, number: int = signal.SIGINT) -> None:
        super().__init__(number)
        self.number = number


def install() -> None:
    """End this process by exception from now on; what its starter ignores (nohup) stays ignored."""
    for number in ENDINGS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            _ours.append(number)
            signal.signal(number, _end)


def decided() -> None:
    """The outcome of this process is known: a signal that comes now comes too late."""
    for number in _ours:
        signal.signal(number, signal.SIG_IGN)


def leaving(code: int) -> None:
    """Nothing is left to do but to end: a signal ends the process at once, with its own code.

    A thread may keep Python waiting. When it waits no more, signals are ignored: Python would give
    them back to the system while it takes itself apart.
    """

    def leave(*_: object) -> None:
        os._exit(code)

    atexit.register(decided)
    for number in _ours:
        signal.signal(number, leave)


def check() -> None:
    """Raise what a signal should have raised, if a library swallowed it on its way."""
    if _received is not None:
        raise Ended(_received)


def ending(error: BaseException) -> tuple[int, str]:
    """Exit code and word of an interrupt, ours or Python's own."""
    return ENDINGS[getattr(error, "number", signal.SIGINT)]


def _end(number: int, _: FrameType | None) -> None:
    global _received, _received_at
    now = time.monotonic()
    if _received is not None and now - _received_at < WAY_OUT_SECONDS:
        return
    _received, _received_at = number, now
    raise Ended(number)


@contextmanager
def bounded(seconds: float, give_up: Callable[[], None]) -> Iterator[None]:
    """After a signal the way out may take so long; then `give_up` is called and the process ends.

    For blocks that use a library which may wait forever for threads or processes of its own. The
    thread is started beforehand and only looks: a handler must not take locks.
    """
    over = threading.Event()

    def watch() -> None:
        while _received is None:
            if over.wait(0.5):
                return
        time.sleep(seconds)
        code, word = ENDINGS[_received]
        try:
            give_up()
            os.write(2, f"misc: {word}\n".encode())
        finally:
            os._exit(code)

    threading.Thread(target=watch, name="misc-way-out", daemon=True).start()
    try:
        yield
    finally:
        if _received is None:
            over.set()


@contextmanager
def held() -> Iterator[list[int]]:
    """Signals that would end the run wait until the end of this block; yields those that came.

    Only the main thread runs handlers, so in any other there is nothing to hold.
    """
    noted: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield noted
        return

    def note(number: int, _: FrameType | None) -> None:
        noted.append(number)

    before: dict[int, Any] = {}
    try:
        for number in ENDINGS:
            handler = signal.getsignal(number)
            if handler is not signal.SIG_IGN and handler is not None:
                before[number] = handler
                signal.signal(number, note)
        yield noted
    finally:
        try:
            _restore(before)
        except BaseException:  # one that came between two of them
            _restore(before)
            raise
        if noted:
            signal.raise_signal(noted[0])


def _restore(handlers: dict[int, Any]) -> None:
    for number, handler in handlers.items():
        signal.signal(number, handler)
