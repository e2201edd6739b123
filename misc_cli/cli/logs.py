"""The log of a run: the standard logger "misc_cli", one line per event, text or JSON.

Every line has a time, a level, an event and the id of its run; docs/nightly.md lists the events and
their fields. A program that uses misc as a library adds a handler of its own to that logger.
"""

from __future__ import annotations

import json
import logging
import os
import shlex
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from misc_cli.errors import ConfigError, printable
from misc_cli.version import __version__

FORMATS = ("text", "json")
START = "start"
LOGGER = logging.getLogger("misc_cli")
LOGGER.addHandler(logging.NullHandler())  # without a log, warnings are not printed twice

current: Log | None = None  # the log that flags asked for


def told(value: Any) -> Any:
    """Return what may be said of a text, or of a log's fields: nothing secret of any address."""
    if not any("://" in word for word in (*sys.argv, str(value))):
        return value
    from misc_cli.readers.addresses import hide_secrets, redact_all

    if isinstance(value, str):
        return hide_secrets(value, sys.argv)
    return {
        name: told(text) if isinstance(text, str) else text
        for name, text in redact_all(value).items()
    }


def event(name: str, level: int = logging.INFO, **fields: Any) -> None:
    """Log one event with its fields."""
    LOGGER.log(level, name, extra={"fields": fields})


class Log(logging.Handler):
    """Write events to a descriptor, one write per line, so that lines of several runs never mix.

    A full disk or a closed pipe never decides the outcome of a run. Opened, it writes the first
    line: the command without secrets. `others` are what else the command was given: a log must be
    none of these files.
    """

    def __init__(
        self, command: Sequence[str], style: str | None, file: str | None, others: Sequence[str]
    ) -> None:
        global current
        from misc_cli.readers.addresses import redact
        from misc_cli.writers import output_paths

        super().__init__()
        self.style = style or FORMATS[0]
        self.path = None if file is None else Path(file)
        self.descriptor = sys.stderr.fileno()
        if self.path is not None:
            if output_paths.is_among(self.path, others):
                raise ConfigError(f"--log-file {file}: this file is read or written; name another")
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
            try:
                self.descriptor = os.open(self.path, flags, 0o666)
            except OSError as error:
                reason = f"cannot be written ({error.strerror})"
                raise ConfigError(f"--log-file {file}: {reason}") from None
            output_paths.appended[:] = [self.path]
        self.run = os.urandom(8).hex()
        self.waiting: list[str] = []  # the first line, until it is known what is read
        LOGGER.addHandler(self)
        LOGGER.setLevel(logging.INFO)
        current = self
        words = shlex.join(map(redact, command))
        event(START, command=words, process=os.getpid(), misc=__version__)

    @property
    def is_stderr(self) -> bool:
        """Tell whether the log is all that stderr gets."""
        return self.path is None

    def emit(self, record: logging.LogRecord) -> None:
        """Write one event."""
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        stamp += f".{int(record.msecs):03}Z"
        level, name = record.levelname.lower(), record.getMessage()
        fields = {"run": self.run, **told(dict(getattr(record, "fields", {})))}
        if self.style == "json":
            start = {"time": stamp, "level": level, "event": name}
            line = json.dumps({**start, **fields}, ensure_ascii=False, default=_plain)
        else:
            line = " ".join([stamp, level, name])
            for key, value in fields.items():
                word = value if isinstance(value, str) else json.dumps(value, default=_plain)
                quoted = any(sign in word for sign in ' "=\n')
                word = json.dumps(word, ensure_ascii=False) if quoted else word
                line += "" if value is None else f" {key}={word}"
        self.waiting.append(f"{printable(line)}\n")
        if name != START:
            self.write_out()

    def write_out(self) -> None:
        """Write the lines that wait; nothing is ever added to an input."""
        from misc_cli.writers.output_paths import is_input

        if self.path is None or not is_input(self.path):
            with suppress(OSError):
                os.write(self.descriptor, "".join(self.waiting).encode("utf-8", "replace"))
        self.waiting.clear()


def _plain(value: Any) -> Any:
    """Return a number of numpy as Python's, anything else as text."""
    return value.item() if hasattr(value, "item") else str(value)


def open_log(
    command: Sequence[str], style: str | None, file: str | None, words: Sequence[str]
) -> None:
    """Log what happens from now on; without a style and a file there is no log.

    The file must be none of those that `words` of the command line stand for.
    """
    if style is not None or file is not None:
        others = list(words)
        if file in others:
            others.remove(file)  # once: as the log's own name
        Log(command, style, file, others)


def end_with_an_error(message: str, code: int) -> bool:
    """Log the error that ends the program; return True if stderr has it by that."""
    log = current
    if log is None:
        return False
    event("error", logging.ERROR, message=message, exit_code=code)
    close()
    return log.is_stderr


def close() -> None:
    """Take the log away from the logger."""
    global current
    if current is not None:
        from misc_cli.writers import output_paths

        if current.waiting:
            current.write_out()
        LOGGER.removeHandler(current)
        LOGGER.setLevel(logging.NOTSET)
        if current.path is not None:
            os.close(current.descriptor)
            output_paths.appended.clear()
        current = None
