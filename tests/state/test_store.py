"""A state's folder under all kinds of damage: a clear refusal, and nothing is lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from misc_cli.__main__ import run
from misc_cli.state import store

SAMPLE = Path(__file__).parent.parent.parent / "sample_data"
LINES = (SAMPLE / "answers.csv").read_text().splitlines(keepends=True)


def flipped(at: float) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        data = bytearray(path.read_bytes())
        data[min(int(at * len(data)), len(data) - 1)] ^= 0x20
        path.write_bytes(data)

    return damage


DAMAGES: dict[str, Callable[[Path], object]] = {
    "first byte": flipped(0.0),
    "middle byte": flipped(0.5),
    "last byte": flipped(1.0),
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-7]),
    "empty": lambda path: path.write_bytes(b""),
    "longer": lambda path: path.write_bytes(path.read_bytes() + b"\n{}"),
    "gone": Path.unlink,
}


class Nights:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.answers, self.labels = folder / "answers.csv", folder / "labels.csv"
        self.state = folder / "state"
        self.words = ["aggregate", str(self.answers), "--aggregator", "one-coin"]
        self.words += ["--no-calibrate", "-o", str(self.labels), "--state", str(self.state)]

    def run(self, n_answers: int) -> int:
        self.answers.write_text("".join(LINES[: n_answers + 1]))
        return run([*self.words, "--keep-settled"])


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_to_any_file_is_refused_and_nothing_is_touched(
    damage: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    nights = Nights(tmp_path)
    assert nights.run(1700) == 0
    assert nights.run(1710) == 0
    for kind in ("state.json", "workers", "items"):
        if damage == "gone" and kind == store.POINTER:
            continue  # then there is no state
        (path, *others) = [p for p in nights.state.glob(f"{kind}*") if _is_used(p, nights.state)]
        assert not others
        whole = path.read_bytes()
        DAMAGES[damage](path)
        before = {p.name: p.read_bytes() for p in tmp_path.rglob("*.*")}
        capfd.readouterr()
        assert nights.run(1710) == 2
        assert "it is damaged or of another version" in capfd.readouterr().err
        assert {p.name: p.read_bytes() for p in tmp_path.rglob("*.*")} == before
        path.write_bytes(whole)
    assert nights.run(1720) == 0


def _is_used(path: Path, folder: Path) -> bool:
    """Whether the present state names this file."""
    return path.suffix == ".json" or path.name in (folder / store.POINTER).read_text()


def test_two_runs_at_once_on_one_state(tmp_path: Path) -> None:
    """One after the other, or the second gives up; never a state of both."""
    nights = Nights(tmp_path)
    nights.answers.write_text("".join(LINES))
    others = [[*nights.words, "-o", str(tmp_path / f"labels{n}.csv")] for n in range(3)]
    runs = [
        subprocess.Popen([sys.executable, "-m", "misc_cli", *words], stderr=subprocess.PIPE)
        for words in others
    ]
    said = [done.communicate(timeout=200)[1].decode() for done in runs]
    codes = [done.returncode for done in runs]
    assert set(codes) <= {0, 2}
    assert 0 in codes
    assert all("another run" in text for code, text in zip(codes, said, strict=True) if code == 2)
    stored = store.load(nights.state)
    assert stored is not None
    assert stored.about["night"] == codes.count(0)


def _resealed(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    whole = json.loads((folder / store.POINTER).read_text())
    change(whole)
    whole["sha256"] = store._digest(store._plain([whole["about"], whole["files"]]))
    (folder / store.POINTER).write_text(json.dumps(whole))


# What a stranger may have put into a folder, its sums right.
MADE_UP: dict[str, Callable[[dict[str, Any]], object]] = {
    "no choice": lambda whole: whole["about"].pop("choice"),
    "choice is a number": lambda whole: whole["about"].update(choice=3),
    "classes": lambda whole: whole["about"].update(classes=["yes", None]),
    "written long from now": lambda whole: whole["about"].update(written=1e300),
    "shares": lambda whole: whole["about"]["choice"].update(shares=[1.0]),
    "members": lambda whole: whole["about"].update(members={"*": []}),
    "files": lambda whole: whole["files"]["workers"].update(file="../labels.csv"),
    "file is a number": lambda whole: whole["files"].update(workers=7),
}


@pytest.mark.parametrize("name", [*MADE_UP, "deep"])
def test_a_state_that_somebody_made_up_is_refused(
    name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    nights = Nights(tmp_path)
    assert nights.run(1700) == 0
    if name == "deep":
        (nights.state / store.POINTER).write_text("[" * 100_000)
    else:
        _resealed(nights.state, MADE_UP[name])
    capfd.readouterr()
    assert nights.run(1710) == 2
    said = capfd.readouterr().err
    assert "it is damaged or of another version" in said
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize("file", ["state.json", "workers"])
@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_a_link_or_a_pipe_in_a_state_is_refused(
    file: str, kind: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    nights = Nights(tmp_path)
    assert nights.run(1700) == 0
    assert nights.run(1705) == 0
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    found = next(iter(nights.state.glob(f"{file}*")), nights.state / file)
    if found.exists():
        found.rename(elsewhere / "kept")
    if kind == "pipe":
        os.mkfifo(found)
    else:
        found.symlink_to(elsewhere / "kept")
    before = {path.name: path.read_bytes() for path in elsewhere.iterdir()}
    capfd.readouterr()
    assert nights.run(1710) == 2
    assert f"{found.name} cannot be read" in capfd.readouterr().err
    assert {path.name: path.read_bytes() for path in elsewhere.iterdir()} == before
