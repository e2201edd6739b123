"""Inputs are never outputs, by identity: whatever words of the command line stand for them."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from misc_cli import cleanup
from misc_cli.__main__ import run
from misc_cli.errors import ConfigError, InputError
from misc_cli.writers.output_paths import hold, protect
from misc_cli.writers.output_set import write_all
from tests.conftest import REPO

LINES = (REPO / "sample_data" / "answers.csv").read_text().splitlines(keepends=True)
MV, EM = ["--aggregator", "mv"], ["--aggregator", "ds-em"]


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("fold").mkdir()
    for name, rows in (("a", LINES[1:900]), ("b", LINES[900:])):
        Path(f"fold/{name}.csv").write_text("".join([LINES[0], *rows]))
    os.link("fold/a.csv", "hard.csv")
    Path("soft.csv").symlink_to("fold/a.csv")
    Path("c.toml").write_text('aggregator = "mv"\n')
    with sqlite3.connect("answers.db") as base:
        base.execute("create table t (worker, item, label)")
        base.executemany("insert into t values (?, ?, ?)", [x.split(",") for x in LINES[1:200]])
    base.close()
    os.link("answers.db", "database.csv")
    Path("w.csv").write_text("worker,answers,accuracy\nw15,10,0.9\n")


def everything() -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in Path().rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    "words",
    [
        ["aggregate", "fold", *MV, "-o", "fold/b.csv"],
        ["aggregate", "fold/*.csv", *MV, "-o", "fold/b.csv"],
        ["aggregate", "fold", *MV, "-o", "l.csv", "--workers", "fold/a.csv"],
        ["aggregate", "fold", *MV, "-o", "l.csv", "--rejects", "hard.csv"],
        ["aggregate", "fold", *MV, "-o", "l.csv", "--metrics", "soft.csv"],
        ["aggregate", "fold", *MV, "-o", "l.csv", "--diagnostics", "fold/a.csv"],
        ["aggregate", "fold", *MV, "--engine", "disk", "-o", "fold/b.csv"],
        ["aggregate", "answers.db", *MV, "-o", "database.csv"],
        ["aggregate", "sqlite:///answers.db", *MV, "-o", "database.csv"],
        ["aggregate", "SQLite:///answers.db", *MV, "-o", "database.csv"],
        ["aggregate", "fold/a.csv", *MV, "--config", "c.toml", "--metrics", "c.toml"],
        ["queue", "fold", *MV, "-o", "fold/b.csv"],
        ["compare", "fold", "--aggregators", "mv", "--completers", "none", "-o", "fold/b.csv"],
        ["aggregate", "fold", *MV, "-o", "l.csv", "--log-file", "hard.csv"],
        ["aggregate", "fold/a.csv", *MV, "-o", "l.csv", "--log-file", "soft.csv"],
        ["aggregate", "answers.db", *MV, "-o", "l.csv", "--log-file", "answers.db"],
        ["aggregate", "sqlite:///answers.db", *MV, "-o", "l.csv", "--log-file", "database.csv"],
        ["aggregate", "fold", *MV, "--config", "c.toml", "-o", "l.csv", "--log-file", "c.toml"],
        ["inspect", "fold", "--log-file", "fold/b.csv"],
    ],
    ids=" ".join,
)
def test_an_input_is_never_written_to(words: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    before = everything()
    assert run(words) == 2
    assert everything() == before
    said = capfd.readouterr().err
    assert "this is an input" in said or "this file is read or written" in said


def test_the_inputs_of_a_record_are_inputs_of_its_repetition() -> None:
    assert run(["aggregate", "fold/a.csv", *MV, "-o", "l.csv", "-q"]) == 0
    before = everything()
    assert run(["rerun", "l.run.json", "-o", "hard.csv"]) == 2
    assert run(["rerun", "l.run.json", "-o", "again.csv", "--log-file", "hard.csv"]) == 2
    assert run(["report", "l.run.json", "-o", "p.html", "--log-file", "hard.csv"]) == 2
    assert run(["workers", "l.run.json", "--log-file", "l.csv"]) == 2
    assert everything() == before


@pytest.mark.parametrize("file", ["l.csv", "l.run.json", "l.diagnostics.jsonl"])
@pytest.mark.parametrize("is_there", [False, True])
def test_a_log_is_no_output(file: str, is_there: bool, capfd: pytest.CaptureFixture[str]) -> None:
    words = ["aggregate", "fold/a.csv", *MV, "-o", "l.csv"]
    if is_there:
        assert run(words) == 0
    before = everything()
    assert run([*words, "--log-file", file]) == 2
    said = capfd.readouterr().err
    assert "this is the file of the log" in said or "this file is read or written" in said
    assert everything() == (before if is_there else {**before, file: b""})


def test_an_input_that_takes_an_outputs_name_meanwhile_is_spared() -> None:
    protect(["fold/a.csv"])
    os.link("fold/a.csv", "late.csv")
    with pytest.raises(ConfigError, match="this is an input"):
        write_all({Path("late.csv"): b"labels"})
    assert Path("fold/a.csv").read_bytes().startswith(b"worker")
    cleanup.clear_all()


def test_a_missing_folder_is_said_with_its_remedy(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["aggregate", "fold", *MV, "-o", "out/labels.csv"]) == 2
    assert "out/labels.csv: no such folder; make it: mkdir -p out" in capfd.readouterr().err


def _failing_once(monkeypatch: pytest.MonkeyPatch, module: object, call: str, code: int) -> None:
    """Let the next call of a function of the system fail."""
    genuine, errors = getattr(module, call), [OSError(code, os.strerror(code))]

    def patched(*words: object, **more: object) -> object:
        if errors:
            raise errors.pop()
        return genuine(*words, **more)

    monkeypatch.setattr(module, call, patched)


@pytest.mark.parametrize(("module", "call"), [(fcntl, "flock"), (os, "fstat")])
def test_a_lock_that_a_broken_disk_refuses_leaves_no_file(
    module: object, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _failing_once(monkeypatch, module, call, errno.EIO)
    with pytest.raises(InputError, match=r"l\.csv: cannot be written \(Input/output error\)"):
        hold([Path("l.csv")])
    assert not list(Path().glob(".*"))


def test_a_lock_that_is_refused_leaves_the_file_of_its_holder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Path(".l.csv.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        _failing_once(monkeypatch, fcntl, "flock", errno.EIO)
        with pytest.raises(InputError, match="Input/output error"):
            hold([Path("l.csv")])
        assert Path(".l.csv.lock").exists()


def test_a_temporary_folder_goes_though_descriptors_ran_out_for_a_moment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with cleanup.folder("spill-", str(tmp_path)) as folder:
        (folder / "piece").write_text("1")
        _failing_once(monkeypatch, os, "open", errno.EMFILE)
    assert not folder.exists()


def test_a_temporary_folder_that_cannot_be_locked_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Without its lock the next run would take it for what a killed one left."""
    for module, call, code in ((os, "open", errno.EMFILE), (fcntl, "flock", errno.EIO)):
        _failing_once(monkeypatch, module, call, code)
        with (
            pytest.raises(OSError, match=os.strerror(code)),
            cleanup.folder("spill-", str(tmp_path)),
        ):
            pytest.fail("it was made")
    assert not list(tmp_path.glob("spill-*"))


def test_the_folder_of_a_run_that_was_killed_is_removed(tmp_path: Path) -> None:
    killed = f"""
import os, signal
from misc_cli import cleanup
with cleanup.folder("spill-", {str(tmp_path / "fold")!r}):
    os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", killed], check=False, cwd=REPO)
    assert done.returncode == -signal.SIGKILL
    (left,) = Path("fold").glob("spill-*")
    with cleanup.folder("spill-", "fold") as folder:
        assert not left.exists()
        with cleanup.folder("spill-", "fold"):
            assert folder.exists()  # its run is at work
    assert not folder.exists()


def test_a_command_starts_though_no_descriptor_is_left_for_the_watchdog() -> None:
    starved = """
import errno, signal
from misc_cli.__main__ import main
def set_wakeup_fd(*words, **more):
    raise OSError(errno.EMFILE, "Too many open files")
signal.set_wakeup_fd = set_wakeup_fd
main(["--version"])
"""
    done = subprocess.run([sys.executable, "-c", starved], capture_output=True, cwd=REPO, text=True)
    assert (done.returncode, done.stderr) == (0, "")
