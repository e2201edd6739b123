"""The extras are installed where they are tested."""

from __future__ import annotations

import subprocess
import sys


def test_the_installed_packages_fit_together() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pip", "check"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout
