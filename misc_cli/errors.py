"""Errors a user can act on, the exit code of each, and the one warning an algorithm may raise."""

from __future__ import annotations

EXIT_DONE = 0
EXIT_DEFECT = 1
EXIT_USAGE = 2
EXIT_GATE = 3


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


class MiscWarning(UserWarning):
    """Something the user should know about the data or the result; the run goes on."""


class ConvergenceWarning(MiscWarning):
    """An iteration stopped at its limit before it met its tolerance."""
