"""Signals in the worst moments, one by one; `make torture` tries them all."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from misc_cli import cleanup
from misc_cli.writers.output_set import WHOLE, verify

REPO = Path(__file__).resolve().parents[2]
WORDS = ["aggregate", "answers.csv", "--aggregator", "mv", "-o", "labels.csv", "--quiet"]
FOLDER = [*WORDS[:4], "--engine", "disk", "-o", "parts/", "--workers", "w.csv", "--quiet"]
OUTPUTS = {"labels.csv", "labels.run.json", "labels.diagnostics.jsonl"}

# `moment` is a place in the code: its first call finds the signal there, before its own first line.
PROGRAM = """
import importlib, os, signal, sys
def send(moment, number, after=False):
    module, _, name = moment.partition(":")
    owner = importlib.import_module(module)
    *path, last = name.split(".")
    for part in path:
        owner = getattr(owner, part)
    genuine, sent = getattr(owner, last), []
    def patched(*given, **named):
        if not after and not sent:
            sent.append(os.kill(os.getpid(), number))
        found = genuine(*given, **named)
        if after and not sent:
            sent.append(os.kill(os.getpid(), number))
        return found
    setattr(owner, last, patched)
{before}
from misc_cli.__main__ import main
main(sys.argv[1:])
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(REPO))
    rows = (f"w{n % 3},i{n // 3},{'ab'[n % 7 > 3]}\n" for n in range(300))
    Path("answers.csv").write_text("worker,item,label\n" + "".join(rows))


def ran(words: list[str], before: str) -> tuple[int, str]:
    # -P: as for the command `misc`, the current folder is no place to import from
    done = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM.replace("{before}", before), *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    return done.returncode, done.stderr


def here() -> set[str]:
    return set(os.listdir()) - {"answers.csv"}


def test_a_signal_as_the_locks_are_let_go_leaves_none() -> None:
    before = 'send("misc_cli.cleanup:clear_all", signal.SIGTERM)'
    assert ran(WORDS, before) == (143, "misc: terminated\n")
    assert here() == OUTPUTS


def test_a_signal_as_a_lock_is_taken_leaves_none() -> None:
    """It came between the making of the lock's file and the note that it is ours."""
    before = 'import fcntl; send("fcntl:flock", signal.SIGTERM)'
    assert ran(WORDS, before) == (143, "misc: terminated\n")
    assert here() == set()


def test_a_second_signal_does_not_keep_the_first_from_clearing_up() -> None:
    before = (
        'send("misc_cli.writers.output_set:flush_and_sync", signal.SIGTERM)\n'
        'send("misc_cli.writers.output_set:Staged.sweep", signal.SIGINT)'
    )
    assert ran(WORDS, before) == (143, "misc: terminated\n")
    assert here() == set()


def test_a_signal_while_python_ends_changes_nothing() -> None:
    """Python would print a traceback of it, or give it back to the system."""
    before = "import atexit; atexit.register(os.kill, os.getpid(), signal.SIGTERM)"
    assert ran(WORDS, before) == (0, "")
    assert here() == OUTPUTS


def test_an_error_is_one_line_whatever_comes_after_it() -> None:
    before = 'send("misc_cli.errors:printable", signal.SIGTERM)'
    code, said = ran([*WORDS[:1], "absent.csv"], before)
    assert (code, said.count("\n")) == (2, 1), said


@pytest.mark.parametrize("kept", [False, True], ids=["new", "empty folder"])
def test_a_folder_of_labels_appears_with_the_table_of_workers_or_not_at_all(kept: bool) -> None:
    if kept:
        Path("parts").mkdir()
    before = 'send("misc_cli.writers.output_set:publish", signal.SIGTERM)'
    assert ran(FOLDER, before) == (143, "misc: terminated\n")
    assert here() == ({"parts"} if kept else set())
    before = 'send("os:replace", signal.SIGTERM, after=True)'
    assert ran(FOLDER, before) == (143, "misc: terminated\n")
    assert here() == {"parts", "w.csv"}
    assert {state for _, _, state in verify(Path("parts"))} == {WHOLE}
    mode = Path("parts").stat().st_mode & 0o777
    assert mode == 0o777 & ~_umask()


def test_what_a_killed_run_left_of_a_folder_goes_with_the_next(tmp_path: Path) -> None:
    spill = tmp_path / "spill"
    spill.mkdir()
    words = [*FOLDER, "--spill", str(spill)]
    assert ran(words, 'send("misc_cli.run.run_record:peak_memory", signal.SIGKILL)')[0] == -9
    assert [name for name in here() if name.startswith(".parts.") and name.endswith(".part")]
    (left,) = spill.iterdir()
    os.utime(left, (0, 0))
    assert ran(words, "") == (0, "")
    assert here() == {"parts", "w.csv", "spill"}
    assert list(spill.iterdir()) == []


def test_two_runs_on_one_folder() -> None:
    """The second says that the first is at work; the lock is that of the folder."""
    words = [word for word in FOLDER if word not in ("--workers", "w.csv")]
    slow = "import misc_cli.run.pipeline as job, time, pathlib\n"
    slow += "def late(*given, **more):\n    pathlib.Path('started').touch(); time.sleep(30)\n"
    slow += "job.run = late"
    program = [sys.executable, "-c", PROGRAM.replace("{before}", slow), *words]
    with subprocess.Popen(program, stderr=subprocess.DEVNULL) as first:
        while not Path("started").exists() and first.poll() is None:
            time.sleep(0.02)
        code, said = ran(
            words, "import misc_cli.writers.output_paths as l; l.PATIENCE_SECONDS = 0.1"
        )
        first.send_signal(signal.SIGTERM)
    assert code == 2
    assert "parts: another run is at work on it" in said
    assert here() == {"started"}


def test_a_folder_made_meanwhile_is_not_moved() -> None:
    before = "import misc_cli.writers.output_set as w; genuine = w.publish\n"
    before += "def late(staged):\n    os.mkdir('labels.csv'); genuine(staged)\nw.publish = late"
    code, said = ran(WORDS, before)
    place = Path("labels.csv").resolve()
    assert code == 2
    assert said.startswith(f"misc: error: {place}: cannot be written (Is a directory)")
    assert here() == {"labels.csv"}
    assert Path("labels.csv").is_dir()


def test_a_full_disk_under_the_state_leaves_the_labels_as_they_were() -> None:
    """State and outputs are one: exit 2 means that nothing was written."""
    words = [*WORDS, "--state", "st"]
    assert ran(words, "") == (0, "")
    labels, state = Path("labels.csv").read_bytes(), Path("st/state.json").read_bytes()
    with Path("answers.csv").open("a") as file:
        file.write("w1,another,a\n")
    full = "import misc_cli.writers.output_set as p, errno; genuine = p.flush_and_sync\n"
    full += "def flush_and_sync(stream, final):\n"
    full += "    if final.parent.name == 'st': raise OSError(errno.ENOSPC, 'No space left')\n"
    full += "    return genuine(stream, final)\np.flush_and_sync = flush_and_sync"
    code, said = ran(words, full)
    assert code == 2
    assert said.startswith("misc: error: st/")
    assert Path("labels.csv").read_bytes() == labels
    assert Path("st/state.json").read_bytes() == state
    assert json.loads(Path("labels.run.json").read_text())["counts"] is not None
    assert ran(words, "") == (0, "")


def test_a_state_that_cannot_be_read_just_now_is_not_set_aside() -> None:
    words = [*WORDS, "--state", "st"]
    assert ran(words, "") == (0, "")
    broken = "genuine = os.open\n"
    broken += "def failing(path, *given, **named):\n"
    broken += "    if str(path).endswith('.parquet'): raise OSError(5, 'Input/output error')\n"
    broken += "    return genuine(path, *given, **named)\nos.open = failing"
    code, said = ran(words, broken)
    assert (code, said.count("\n")) == (2, 1)
    assert "cannot be read (Input/output error)" in said


def test_a_full_stdout_costs_no_file_and_a_reader_who_leaves_none_either() -> None:
    assert ran(WORDS, "") == (0, "")
    words = [sys.executable, "-m", "misc_cli", "diff", "labels.csv", "labels.csv"]
    words += ["--changes", "changes.csv"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 2
    assert here() == OUTPUTS
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(words, stdout=write, stderr=subprocess.PIPE, check=False)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, b"")
    assert here() == {*OUTPUTS, "changes.csv"}


def _umask() -> int:
    umask = os.umask(0)
    os.umask(umask)
    return umask


def test_a_current_folder_that_is_gone_is_said() -> None:
    Path("gone").mkdir()
    gone = "os.chdir('gone'); os.rmdir('../gone')"
    assert ran(["aggregate", "../answers.csv", "-o", "labels.csv"], gone) == (
        2,
        "misc: error: output: No such file or directory\n",
    )


def test_the_root_is_no_folder_for_labels() -> None:
    code, said = ran([*FOLDER[:-3], "-o", "/"], "")
    assert (code, said) == (2, "misc: error: /: this is there and not empty; name a new folder\n")


def test_something_mounted_is_no_place_for_a_folder() -> None:
    """As a container has it: the rename would fail, after all the work."""
    Path("parts").mkdir()
    code, said = ran(FOLDER, "os.path.ismount = lambda path: True")
    assert code == 2
    assert "parts: something is mounted here" in said
    assert here() == {"parts"}


@pytest.mark.parametrize("change", ["grown", "replaced"])
def test_a_file_that_changes_while_an_engine_reads_it_is_refused(change: str) -> None:
    after = {
        "grown": "open('answers.csv', 'a').write('w1,late,a\\n')",
        "replaced": "open('new', 'w').close(); os.rename('new', 'answers.csv')",
    }
    before = "import misc_cli.engines.partitioned as disk; genuine = disk._spill\n"
    before += f"def spill(*given):\n    found = genuine(*given); {after[change]}; return found\n"
    before += "disk._spill = spill"
    code, said = ran(FOLDER, before)
    assert (code, said) == (
        2,
        "misc: error: answers.csv: the file changed while it was read; wait until it is written\n",
    )
    assert here() == set()


def test_a_temporary_folder_that_cannot_be_looked_at_stops_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "spill").mkdir()

    def fails(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fstat", fails)
        cleanup.remove(tmp_path / "spill")
    cleanup.remove(tmp_path / "spill")
    assert not (tmp_path / "spill").exists()
