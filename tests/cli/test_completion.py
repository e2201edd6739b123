"""Shell completion is click's own, made from the commands themselves."""

from __future__ import annotations

import os
import subprocess
import sys


def test_commands_and_flags_are_completed() -> None:
    for words, at, meant in (("misc agg", 1, "aggregate"), ("misc aggregate --prob", 2, "--prob")):
        told = {"_MISC_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(at)}
        done = subprocess.run(
            [sys.executable, "-m", "misc_cli"],
            env={**os.environ, **told},
            capture_output=True,
            text=True,
        )
        assert meant in done.stdout
