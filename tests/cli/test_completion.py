"""Shell completion is made from the commands themselves."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from misc_cli.__main__ import run

PROGRAM = str(Path(sys.executable).parent)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_that_its_shell_accepts(shell: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["shell-completion", shell]) == 0
    script = capfd.readouterr().out
    assert f"_MISC_COMPLETE={shell}_complete" in script
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    subprocess.run([shell, "-n"], input=script, text=True, check=True)


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_completes_commands_and_flags(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["shell-completion", "bash"]) == 0
    script = capfd.readouterr().out
    script += 'COMP_WORDS=(misc agg); COMP_CWORD=1; _misc_completion misc; echo "${COMPREPLY[@]}"\n'
    script += (
        "COMPREPLY=(); COMP_WORDS=(misc aggregate --prob); COMP_CWORD=2; _misc_completion misc\n"
    )
    script += 'echo "${COMPREPLY[@]}"\n'
    environment = {**os.environ, "PATH": f"{PROGRAM}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash"], input=script, text=True, capture_output=True, check=True, env=environment
    )
    assert done.stdout.split() == ["aggregate", "--probabilities"]
