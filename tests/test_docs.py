"""The docs say what the code does: made pages are fresh, examples run, links lead somewhere."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from tests.conftest import REPO
from tests.generated import DOCS, layers, pages
from tests.test_imports import PACKAGE, ROOMS

PAGES = sorted([*DOCS.glob("*.md"), REPO / "CONTRIBUTING.md", REPO / "README.md"])


def test_what_is_made_from_the_code_is_fresh() -> None:
    for path, text in pages():
        assert path.read_text() == text, f"{path.name} is stale: python -m tests.generated"


def test_the_rooms_import_each_other_in_one_direction() -> None:
    assert sum(map(len, layers())) == len(ROOMS)
    assert "data" in layers()[0]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+?)(?:#[^)]*)?\)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_the_glossary_is_sorted() -> None:
    words = re.findall(r"^- \*\*(.+?)\*\*: ", (DOCS / "glossary.md").read_text(), re.MULTILINE)
    assert words == sorted(set(words))
    for page in (REPO / "README.md", DOCS / "architecture.md"):
        assert "glossary.md)" in page.read_text(), page


@pytest.mark.parametrize("name", ["architecture.md", "glossary.md"])
def test_modules_and_classes_in_backticks_exist(name: str) -> None:
    text = (DOCS / name).read_text()
    for path in re.findall(r"`([a-z_/]+(?:/|\.py))`", text):
        assert (PACKAGE / path).exists() or (REPO / path).exists(), path
    code = "".join(path.read_text() for path in PACKAGE.rglob("*.py"))
    for word in re.findall(r"`([A-Z][A-Za-z]*[a-z][A-Za-z]*)(?:\.[a-z_]+)?`", text):
        assert f"\nclass {word}" in code, word


def test_the_plugin_example_runs(tmp_path: Path) -> None:
    """docs/plugins.md: its two files, installed as a package would be, found by the command."""
    text = (DOCS / "plugins.md").read_text()
    module = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    points = re.search(r"```toml\n(.*?)```", text, re.DOTALL)
    assert module is not None
    assert points is not None
    assert len(module[1].strip().splitlines()) <= 30
    (tmp_path / "sharpvote.py").write_text(module[1])
    about = tmp_path / "sharpvote-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: sharpvote\nVersion: 1.0\n")
    group, line = re.findall(r'entry-points\."(.*?)"\]\n(.*)', points[1])[0]
    (about / "entry_points.txt").write_text(f"[{group}]\n{line.replace(chr(34), '')}\n")
    answers = tmp_path / "answers.csv"
    answers.write_text("worker,item,label\na,1,x\nb,1,y\nc,1,y\na,2,x\nb,2,x\n")

    def misc(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "misc_cli", *words],
            capture_output=True, text=True, check=False,
            env={"PYTHONPATH": f"{tmp_path}:{REPO}", "PATH": "/usr/bin:/bin"},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "-p power=X" in misc("help", "sharp-vote")
    sharp = ["aggregate", str(answers), "--aggregator", "sharp-vote", "--no-calibrate"]
    assert misc(*sharp, "-p", "power=1").splitlines()[1] == "1,y,0.666667"
    assert misc(*sharp, "-p", "power=2").splitlines()[1] == "1,y,0.8"


def test_run_json_has_the_shape_that_its_schema_says(tmp_path: Path) -> None:
    schema = json.loads((DOCS / "run.schema.json").read_text())
    for more in (["--fast"], [], ["--completer", "tucker", "--engine", "local"]):
        words = ["aggregate", str(REPO / "sample_data" / "answers.csv"), *more]
        out = tmp_path / f"{len(more)}.csv"
        command = [sys.executable, "-m", "misc_cli", *words, "-o", str(out), "-q"]
        subprocess.run(
            command, check=True, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(REPO)}
        )
        jsonschema.validate(json.loads(out.with_suffix(".run.json").read_text()), schema)


def code_of(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


GUIDES = sorted([*DOCS.glob("guide-*.md"), DOCS / "api.md", DOCS / "tutorial.md"])


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.name)
def test_the_guides_commands_run(page: Path, tmp_path: Path) -> None:
    shutil.copytree(REPO / "sample_data", tmp_path / "sample_data")
    environment = {**os.environ, "PYTHONPATH": str(REPO)}
    misc = f'misc() {{ "{sys.executable}" -m misc_cli "$@"; }}'
    for block in code_of(page, "sh"):
        script = f"set -e; {misc}; {block}"
        subprocess.run(["bash", "-c", script], check=True, cwd=tmp_path, env=environment)
    for block in code_of(page, "python"):
        words = [sys.executable, "-W", "error", "-c", block]
        subprocess.run(words, check=True, cwd=tmp_path, env=environment)


def test_nothing_tells_people_to_install_a_name_that_is_not_ours() -> None:
    """On an index nobody owns misc-cli: anybody may take it."""
    places = [*REPO.glob("misc_cli/**/*.py"), *REPO.glob("docs/**/*.md"), REPO / "README.md"]
    told = re.compile(r"(pip|pipx|tool) install [^\n]*misc-cli|misc-cli\[")
    assert [str(place) for place in places if told.search(place.read_text())] == []
