"""A state's folder under all kinds of damage: a clear message, a cold run, and nothing is lost."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

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
def test_damage_to_any_file_costs_a_cold_run_and_nothing_else(
    damage: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    nights = Nights(tmp_path)
    assert nights.run(1700) == 0
    assert nights.run(1710) == 0
    n_answers = 1711
    kinds = sorted({path.name.split("-")[0] for path in nights.state.glob("*.*")})
    assert {"state.json", "previous.json", "workers", "items"} <= set(kinds)
    for kind in kinds:
        if damage == "gone" and kind == store.POINTER:
            continue  # then there is no state: nothing to warn of
        stored = store.load(nights.state)
        assert stored is not None
        current = {path.name for path in nights.state.iterdir()}
        (path, *others) = [p for p in nights.state.glob(f"{kind}*") if _is_used(p, nights.state)]
        assert not others
        DAMAGES[damage](path)
        left = {p.name: p.read_bytes() for p in nights.state.glob("*.parquet")}
        capfd.readouterr()
        n_answers += 2
        assert nights.run(n_answers) == 0, (kind, current)
        said = capfd.readouterr().err
        assert len(nights.labels.read_text().splitlines()) > 400
        if kind == "previous.json":
            assert "starts from nothing" not in said  # only misc rerun looks at it
        else:
            assert said.startswith("misc: warning: --state"), (kind, said)
            assert "starts from nothing" in said
            aside = {p.name: p.read_bytes() for p in (nights.state / store.ASIDE).iterdir()}
            assert left.items() <= aside.items()
        n_answers += 2
        assert nights.run(n_answers) == 0
        assert "starts from nothing" not in capfd.readouterr().err


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
