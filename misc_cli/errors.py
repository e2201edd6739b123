"""Errors a user can act on, the exit code of each, and the one warning an algorithm may raise."""

from __future__ import annotations

import re
from collections.abc import Iterable

EXIT_DONE = 0
EXIT_DEFECT = 1
EXIT_USAGE = 2
EXIT_GATE = 3
EXIT_NOT_WHOLE = 4

# The one table of exit codes: the help prints it and a test compares it with the docs.
EXIT_CODES: dict[int, str] = {
    EXIT_DONE: "done (also when whoever reads stdout stops early)",
    EXIT_DEFECT: "a defect of misc; MISC_DEBUG=1 shows the traceback",
    EXIT_USAGE: "bad usage or bad input: one line on stderr says what to do; nothing is written",
    EXIT_GATE: "done and written, but a --fail-if condition holds",
    EXIT_NOT_WHOLE: "misc verify: the files are not one whole set",
    129: "hung up (SIGHUP): no output is half new",
    130: "interrupted (SIGINT, Ctrl-C): the same",
    143: "terminated (SIGTERM): the same",
}

# Characters that move a terminal's cursor, colour it, turn its text around or are none at all.
_UNSEEN = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    """Text for a person's eyes: what is not seen is spelt out, `\\x1b` for an escape."""
    return _UNSEEN.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def did_you_mean(word: str, names: Iterable[str]) -> str:
    """A question to put after a message; nothing if no name is near."""
    from difflib import get_close_matches

    near = get_close_matches(word, list(names), n=3)
    return f"; did you mean {' or '.join(near)}?" if near else ""


class MiscError(Exception):
    """Anything that is not a defect of ours: printed as one line, never as a traceback."""

    exit_code = EXIT_USAGE


class InputError(MiscError):
    """The data cannot be used as it is: says the file, the row, what is wrong and what to do."""


class EmptyFile(InputError):
    """A file without answers: --skip-empty-files passes over it."""


class ConfigError(MiscError):
    """The options contradict each other or the data."""


class GateTripped(MiscError):
    """The run is done and written, but a condition given with --fail-if holds."""

    exit_code = EXIT_GATE


class NotWhole(MiscError):
    """`misc verify`: the files of a run are not the ones that its run.json describes."""

    exit_code = EXIT_NOT_WHOLE


class MiscWarning(UserWarning):
    """Something the user should know about the data or the result; the run goes on."""


class ConvergenceWarning(MiscWarning):
    """An iteration stopped at its limit before it met its tolerance."""
