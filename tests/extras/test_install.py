"""The wheel holds all that it needs, and misc runs with the oldest versions that it allows."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pytest

from tests.conftest import REPO

ANSWERS = str(REPO / "sample_data" / "answers.csv")


def environment(folder: Path) -> str:
    """Return the Python of a new environment with pip."""
    venv.create(folder, with_pip=True)
    return str(folder / "bin" / "python")


def run(*words: str, cwd: Path) -> str:
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("build", reason="the package build is not installed")
    out = tmp_path_factory.mktemp("dist")
    source = out / "source"
    run("git", "clone", "--quiet", str(REPO), str(source), cwd=out)
    run(sys.executable, "-m", "build", "--outdir", str(out), str(source), cwd=out)
    return next(out.glob("*.whl"))


def test_the_files_of_a_release_are_well_formed(wheel: Path) -> None:
    pytest.importorskip("twine")
    files = [str(path) for path in wheel.parent.glob("misc_cli-*")]
    assert len(files) == 2  # a wheel and the sources
    run(sys.executable, "-m", "twine", "check", "--strict", *files, cwd=wheel.parent)


def test_the_wheel_works_with_the_oldest_versions_that_it_allows(
    wheel: Path, tmp_path: Path
) -> None:
    project = tomllib.loads((REPO / "pyproject.toml").read_text())["project"]
    oldest = [re.sub(">=", "==", need) for need in project["dependencies"]]
    python = environment(tmp_path / "oldest")
    run(python, "-m", "pip", "install", "--quiet", str(wheel), *oldest, cwd=tmp_path)
    misc = str(Path(python).with_name("misc"))
    made = run(misc, "aggregate", ANSWERS, "--aggregator", "ds-em", cwd=tmp_path)
    assert made.splitlines()[0] == "item,label,confidence"
    run(misc, "aggregate", ANSWERS, "-o", "labels.csv", "--report", "page.html", cwd=tmp_path)
    run(misc, "verify", "labels.run.json", cwd=tmp_path)
    call = f"import misc_cli; print(len(misc_cli.aggregate({ANSWERS!r}, aggregator='mv').labels))"
    assert run(python, "-c", call, cwd=tmp_path).strip() == "500"
