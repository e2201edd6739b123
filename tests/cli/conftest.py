"""What several tests of commands need."""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
import sys
import termios
from pathlib import Path
from typing import NamedTuple

import pytest


class Screen(NamedTuple):
    """The lines of a terminal, what went to stderr beside it, and the exit code."""

    lines: list[str]
    stderr: str
    code: int


def on_screen(
    *words: str, columns: int = 80, together: bool = False, folder: Path | None = None
) -> Screen:
    """Run misc with a terminal as stdout and, `together`, as stderr, and read what it shows."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    hidden = ("COLUMNS", "LINES", "NO_COLOR")
    own = {name: value for name, value in os.environ.items() if name not in hidden}
    process = subprocess.Popen(
        [sys.executable, "-m", "misc_cli", *words],
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs if together else subprocess.PIPE,
        env={**own, "TERM": "dumb"},
        cwd=folder,
    )
    os.close(theirs)
    seen = b""
    while True:
        try:
            part = os.read(ours, 1 << 16)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        seen += part
    os.close(ours)
    stderr = "" if process.stderr is None else process.stderr.read().decode()
    if process.stderr is not None:
        process.stderr.close()
    return Screen(seen.decode().replace("\r\n", "\n").splitlines(), stderr, process.wait())


@pytest.fixture
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to be in, without the datasets that this machine may have."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path
