"""The log of a run: the standard logger "misc_cli", one JSON object per event, added to a file.

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
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from misc_cli import cleanup
from misc_cli.errors import ConfigError, printable
from misc_cli.version import __version__

LOGGER = logging.getLogger("misc_cli")
LOGGER.addHandler(logging.NullHandler())  # without a log, warnings are not printed twice


def told(value: Any) -> Any:
    """Return what may be said of a text, or of a log's fields: nothing secret of any address."""
    if not any("://" in word for word in (*sys.argv, str(value))):
        return value
    from misc_cli.redaction import hide_secrets, redact_all

    if isinstance(value, str):
        return hide_secrets(value, sys.argv)
    fields = redact_all(value).items()
    return {name: told(text) if isinstance(text, str) else text for name, text in fields}


def event(name: str, level: int = logging.INFO, **fields: Any) -> None:
    """Log one event with its fields."""
    LOGGER.log(level, name, extra={"fields": fields})


class Log(logging.Handler):
    """Add events to a file, one write per line, so that lines of several runs never mix.

    A full disk or a closed pipe never decides the outcome of a run. The first line is the command
    without secrets; it waits for the second, by when it is known what is read. `others` are what
    else the command was given: the log must be none of these files.
    """

    def __init__(self, file: str, others: Iterable[Any]) -> None:
        from misc_cli.redaction import redact
        from misc_cli.writers import output_paths

        super().__init__()
        self.path, self.run = Path(file), os.urandom(8).hex()
        words = [word for one in others for word in (one if isinstance(one, tuple) else [one])]
        if output_paths.is_among(self.path, [word for word in words if isinstance(word, str)]):
            raise ConfigError(f"--log-file {file}: this file is read or written; name another")
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        try:
            self.descriptor = os.dup(2) if file == "-" else os.open(self.path, flags, 0o666)
        except OSError as error:
            reason = f"cannot be written ({error.strerror})"
            raise ConfigError(f"--log-file {file}: {reason}") from None
        cleanup.at_end(self.close)
        output_paths.appended[:] = [self.path]
        self.waiting: list[str] = []
        LOGGER.addHandler(self)
        LOGGER.setLevel(logging.INFO)
        command = shlex.join(map(redact, sys.argv))
        event("start", command=command, process=os.getpid(), misc=__version__)

    def emit(self, record: logging.LogRecord) -> None:
        """Write one event."""
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line = {"time": f"{stamp}.{int(record.msecs):03}Z", "level": record.levelname.lower()}
        line |= {"event": record.getMessage(), "run": self.run}
        line |= told(dict(getattr(record, "fields", {})))
        text = json.dumps(line, ensure_ascii=False, default=_plain)
        self.waiting.append(f"{printable(text)}\n")
        if record.getMessage() != "start":
            self.flush()

    def flush(self) -> None:
        """Write the lines that wait; nothing is ever added to an input."""
        from misc_cli.writers.output_paths import is_input

        if self.waiting and not is_input(self.path):
            with suppress(OSError):
                os.write(self.descriptor, "".join(self.waiting).encode("utf-8", "replace"))
        self.waiting.clear()

    def close(self) -> None:
        """Take the log away from the logger."""
        from misc_cli.writers import output_paths

        if self in LOGGER.handlers:
            self.flush()
            LOGGER.removeHandler(self)
            LOGGER.setLevel(logging.NOTSET)
            os.close(self.descriptor)
            output_paths.appended.clear()
        super().close()


def _plain(value: Any) -> Any:
    """Return a number of numpy as Python's, anything else as text."""
    return value.item() if hasattr(value, "item") else str(value)
