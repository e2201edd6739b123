"""Errors and warnings that a user can act on, and the exit codes."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice

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
    EXIT_GATE: "a --fail-if condition holds: not published (see --publish-anyway)",
    EXIT_NOT_WHOLE: "misc verify: the files are not one whole set",
    129: "hung up (SIGHUP): no output is half new",
    130: "interrupted (SIGINT, Ctrl-C): the same",
    143: "terminated (SIGTERM): the same",
}

# Control characters (a terminal would obey them), marks that change the direction of text, spaces
# of no width, halves of surrogate pairs. The joiners U+200C and U+200D stay: emoji use them.
_INVISIBLE = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060\u2066-\u2069\ufeff\ud800-\udfff]"
)


def printable(text: object) -> str:
    """Return the text with invisible characters spelt out, `\\x1b` for an escape."""
    spelt = lambda found: found[0].encode("unicode_escape").decode("ascii")  # noqa: E731
    return _INVISIBLE.sub(spelt, str(text))


def did_you_mean(word: str, names: Iterable[str]) -> str:
    """Return "; did you mean …?" with the nearest names, or an empty text."""
    from difflib import get_close_matches

    near = get_close_matches(word, list(names), n=3)
    return f"; did you mean {' or '.join(near)}?" if near else ""


def nearest_file(path: str) -> str:
    """Return "; did you mean …?" with the files beside a path that are spelled almost so."""
    folder, name = os.path.split(path)
    try:
        files = [entry.name for entry in islice(os.scandir(folder or "."), 10_000)]
    except (OSError, ValueError):
        return ""
    found = did_you_mean(name, files)
    return found.replace("mean ", f"mean {folder}/") if folder else found


_FLAG = re.compile(r"(?<![\w-])--(no-(?!answer))?([a-z][a-z0-9-]*)( (?=[^\s:]+: ))?")


def python_words(text: str) -> str:
    """Return a message with Python's arguments in place of flags: worker_col= for --worker-col.

    A command to paste, on a second line, goes: it is no Python.
    """

    def argument(found: re.Match[str]) -> str:
        return f"{found[2].replace('-', '_')}={'False' if found[1] else ''}"

    return _FLAG.sub(argument, text.partition("\n  try: ")[0])


@contextmanager
def in_python() -> Iterator[None]:
    """Let errors of this block name arguments, not flags."""
    try:
        yield
    except MiscError as error:
        error.args = (python_words(str(error)), *error.args[1:])
        raise


class MiscError(Exception):
    """Base of all errors that are no defect of misc: printed as one line, without a traceback."""

    def __init__(self, text: str, exit_code: int = EXIT_USAGE) -> None:
        super().__init__(text)
        self.exit_code = exit_code


class InputError(MiscError):
    """The data cannot be used as it is; the message says file, row, what is wrong, what to do."""


class EmptyFile(InputError):
    """A file has no answers; --skip-empty-files skips it."""


class ConfigError(MiscError):
    """The options contradict each other or the data."""


def needs_extra(what: str, extra: str) -> ConfigError:
    """Return the error that names the extra that `what` needs and how to install misc with it."""
    return ConfigError(
        f"{what} needs the extra {extra}: install misc again with it, in its clone: "
        f"pip install '.[{extra}]'"
    )


class MiscWarning(UserWarning):
    """Something the user should know about the data or the result; the run goes on."""

    copies: frozenset[str] = frozenset()  # workers who copy another, where it is about them


class ConvergenceWarning(MiscWarning):
    """An iteration stopped at its limit before it met its tolerance."""
