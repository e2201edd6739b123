"""The README's commands run, its outputs are what they print, its Python works."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from tests.conftest import REPO

README = (REPO / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


@pytest.fixture(autouse=True)
def _copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(REPO / "sample_data", tmp_path / "sample_data")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(REPO))


def shell(line: str) -> str:
    """What a command line prints, stderr included; `misc` is this checkout."""
    script = f'set -eo pipefail; misc() {{ "{sys.executable}" -m misc_cli "$@"; }}; {line}'
    done = subprocess.run(
        ["bash", "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{line}\n{done.stdout}"
    # what it will cost and how far it is are other numbers on another machine, or go unsaid
    return re.sub(r"^misc: (about .*|.*\b\d+ s( · .*)?)\n", "", done.stdout, flags=re.MULTILINE)


@pytest.mark.parametrize("block", blocks("sh"))
def test_commands_run(block: str) -> None:
    for line in block.splitlines():
        shell(line)


@pytest.mark.parametrize("block", blocks("console"))
def test_outputs_are_real(block: str) -> None:
    """A line of three dots stands for one line that is different each time."""
    for entry in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, *expected = entry.splitlines()
        printed = shell(command).splitlines()
        assert len(printed) == len(expected), printed
        for found, wanted in zip(printed, expected, strict=True):
            assert wanted == "..." or found == wanted


@pytest.mark.parametrize("block", blocks("python"))
def test_python_runs(block: str) -> None:
    subprocess.run([sys.executable, "-W", "error", "-c", block], check=True)


def test_flags_and_files_that_are_named_exist() -> None:
    from misc_cli.cli import COMMANDS, misc

    context = click.Context(misc)
    commands = [misc.get_command(context, name) for name in COMMANDS]
    flags = {
        flag
        for command in commands
        if command is not None
        for parameter in command.params
        for flag in [*parameter.opts, *parameter.secondary_opts]
    }
    for flag in re.findall(r"`[^`]*?(--[a-z][a-z-]+)", README):
        assert flag in flags | {"--help"}, flag
    for name in re.findall(r"`misc ([a-z]+)", README):
        assert name in COMMANDS, name
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (REPO / target).exists(), target


def refresh() -> None:
    """Put what the commands print now into the README: `python -m tests.test_readme`."""
    text = README
    for block in blocks("console"):
        fresh = ""
        for command in re.findall(r"^\$ (.*)", block, re.MULTILINE):
            printed = re.sub(r"^cost .*", "...", shell(command), flags=re.MULTILINE)
            fresh += f"$ {command}\n{printed}"
        text = text.replace(block, fresh)
    for leftover in Path().glob("labels.*"):
        leftover.unlink()
    (REPO / "README.md").write_text(text)


if __name__ == "__main__":
    refresh()
