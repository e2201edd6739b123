"""docs/nightly.md: every example parsed, compiled or run, as far as this machine can."""

from __future__ import annotations

import importlib
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest

from misc_cli.cli import misc, settings
from misc_cli.cli.settings import File
from tests.conftest import REPO

PAGE = (REPO / "docs" / "nightly.md").read_text()
MISC = str(Path(sys.executable).parent / "misc")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_the_cron_line_has_five_fields_and_sh_runs_it(tmp_path: Path) -> None:
    (line,) = blocks("cron")
    fields, command = line.split(maxsplit=5)[:5], line.split(maxsplit=5)[5]
    assert all(re.fullmatch(r"[\d*,/-]+", entry) for entry in fields)
    assert "%" not in command  # cron would make a line break of it
    (tmp_path / "exports").mkdir()
    shutil.copy(REPO / "sample_data" / "answers.csv", tmp_path / "exports")
    command = command.replace("/srv/labels", str(tmp_path)).replace("/opt/misc/bin/misc", MISC)
    command = command.replace("aggregate", "aggregate --aggregator mv").replace("logger", "echo")
    for _ in range(2):
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (tmp_path / "labels.csv").read_text().count("\n") == 501
    (tmp_path / "exports" / "answers.csv").unlink()
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True)
    assert done.stdout == "-t misc exit 2\n"


def test_the_file_of_settings_has_only_keys_that_there_are() -> None:
    (text,) = blocks("toml")
    root = click.Context(misc, info_name="misc")
    command = misc.get_command(root, "aggregate")
    assert command is not None
    found = settings.default_map(
        click.Context(command, info_name="aggregate", parent=root),
        File("misc.toml", tomllib.loads(text)),
    )
    assert found["state"] == "state"
    assert found["fail_if"][0] == "flips>2%"


def test_the_units_are_what_systemd_accepts(tmp_path: Path) -> None:
    for text in blocks("ini"):
        name = text.splitlines()[0].rpartition("/")[2]
        (tmp_path / name).write_text(text)
    assert {path.suffix for path in tmp_path.iterdir()} == {".service", ".timer"}
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    units = [str(path) for path in sorted(tmp_path.iterdir())]
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *units], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert not [line for line in done.stderr.splitlines() if str(tmp_path) in line], done.stderr


def test_python_examples_compile() -> None:
    examples = blocks("python")
    assert len(examples) == 2
    for text in examples:
        compile(text, "docs/nightly.md", "exec")


def test_yaml_is_yaml_and_says_what_it_should() -> None:
    yaml = importlib.import_module("yaml")  # it has no types
    dbt, actions = (yaml.safe_load(text) for text in blocks("yaml"))
    assert dbt["sources"][0]["tables"][0]["name"] == "labels"
    steps = actions["jobs"]["label"]["steps"]
    assert any("misc aggregate" in step.get("run", "") for step in steps)
    hosted = yaml.safe_load((REPO / ".github" / "workflows" / "image.yml").read_text())
    assert "docker build" in str(hosted["jobs"])


def test_every_misc_command_of_the_page_has_flags_that_there_are() -> None:
    root = click.Context(misc, info_name="misc")
    text = PAGE.replace("\\\n", " ")
    lines = re.findall(r"misc ((?:aggregate|diff|rerun) [^`\n|&]*)", text)
    assert len(lines) > 8
    for line in lines:
        command = misc.get_command(root, line.split()[0])
        assert command is not None
        flags = {flag for p in command.params for flag in p.opts}
        used = re.findall(r"(?<=\s)--?[a-z][a-z-]*", line)
        assert set(used) <= flags, line
