"""A small part of `make torture`, on every run of the tests: none of it may fail."""

from __future__ import annotations

import subprocess
import sys

from tests.conftest import REPO


def test_a_hostile_minute() -> None:
    script = REPO / "benchmarks" / "run_torture.py"
    done = subprocess.run(
        [sys.executable, str(script), "--size", "quick"],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    rows = [line.split("|") for line in done.stdout.splitlines()[2:]]
    assert [row[3].strip() for row in rows] == ["0"] * 21, "21 sections, none with a failure"
