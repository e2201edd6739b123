"""A set of outputs: published together or not at all, and a set that is not whole is found out."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from misc_cli.__main__ import run
from tests.cli.test_process import REPO, write_answers

OUTPUTS = ("labels.csv", "workers.csv", "labels.diagnostics.jsonl", "labels.run.json")
WORDS = ["aggregate", "answers.csv", "--aggregator", "mv", "-o", "labels.csv"]
WORDS += ["--workers", "workers.csv"]

# `misc`, with something that happens at the N-th rename of a file to its final place.
AT_A_RENAME = """
import os, signal, sys, threading
from pathlib import Path

at, what = int(sys.argv[1]), sys.argv[2]
replace = os.replace
done = 0

def watched(source, target):
    global done
    final = not str(target).endswith(".part")
    done += final
    before = done == at and final
    if before and what == "fail":
        raise OSError(30, "Read-only file system")
    replace(source, target)
    if before and what != "fail":
        number = getattr(signal, what)
        if number == signal.SIGKILL:
            os.kill(os.getpid(), number)
        # from another thread: whichever the system gives it to, the renames must go on
        sender = threading.Thread(target=lambda: os.kill(os.getpid(), number))
        sender.start()
        sender.join()

os.replace = watched
from misc_cli.__main__ import main
main(sys.argv[3:])
"""


@pytest.fixture(autouse=True)
def _answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(REPO))
    write_answers(Path("answers.csv"), 40)


def content() -> dict[str, bytes]:
    return {name: Path(name).read_bytes() for name in OUTPUTS if Path(name).exists()}


def run_at_a_rename(at: int, what: str, *words: str) -> subprocess.CompletedProcess[str]:
    def heed_signals() -> None:
        """Whoever runs the tests may ignore some: nohup, a job in the background."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)

    return subprocess.run(
        [sys.executable, "-c", AT_A_RENAME, str(at), what, *WORDS, *words],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=heed_signals,
    )


def parts() -> list[str]:
    return [name for name in os.listdir() if name.startswith(".")]


@pytest.mark.parametrize("earlier", [True, False], ids=["again", "first"])
@pytest.mark.parametrize(("what", "code"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129)])
def test_a_signal_between_the_renames_comes_after_the_last(
    earlier: bool, what: str, code: int
) -> None:
    """Before, after, never half: the renames that have begun are finished."""
    for at in range(1, len(OUTPUTS) + 1):
        for name in OUTPUTS:
            Path(name).unlink(missing_ok=True)
        if earlier:
            assert run(WORDS) == 0
        done = run_at_a_rename(at, what, "--probabilities")
        assert (done.returncode, done.stderr.count("\n")) == (code, 1), done.stderr
        assert "p_yes" in Path("labels.csv").read_text()
        assert set(content()) == set(OUTPUTS)
        assert run(["verify", "labels.run.json"]) == 0
        assert not parts()


@pytest.mark.parametrize("earlier", [True, False], ids=["again", "first"])
def test_a_rename_that_fails_leaves_what_was_there(earlier: bool) -> None:
    if earlier:
        assert run(WORDS) == 0
    before = content()
    for at in range(1, len(OUTPUTS) + 1):
        done = run_at_a_rename(at, "fail", "--probabilities")
        assert done.returncode == 2
        assert re.search("cannot be written .Read-only file system", done.stderr)
        assert content() == before
        assert not parts()


@pytest.mark.parametrize("earlier", [True, False], ids=["again", "first"])
def test_a_set_that_was_killed_halfway_is_found_out_and_swept(earlier: bool) -> None:
    for at in range(1, len(OUTPUTS) + 1):
        for name in OUTPUTS:
            Path(name).unlink(missing_ok=True)
        if earlier:
            assert run(WORDS) == 0
            assert run(["verify", "labels.run.json"]) == 0
        done = run_at_a_rename(at, "SIGKILL", "--probabilities")
        assert done.returncode == -signal.SIGKILL
        assert run(["verify", "labels.run.json"]) == (0 if at == len(OUTPUTS) else 4)
        assert parts()
        assert run(WORDS) == 0
        assert not parts()
        assert run(["verify", "labels.run.json"]) == 0


def test_verify_says_what_is_wrong(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(WORDS) == 0
    Path("workers.csv").unlink()
    Path("labels.csv").write_text("item,label\n")
    assert run(["verify", "labels.run.json", "--json"]) == 4
    out, err = capfd.readouterr()
    assert "labels.csv is changed; workers.csv is missing" in err
    found = json.loads(out)
    assert (found["schema"], found["whole"]) == (1, False)
    assert {one["name"]: one["state"] for one in found["files"]} == {
        "run": "whole",
        "labels": "changed",
        "workers": "missing",
        "diagnostics": "whole",
    }
    for damaged in (b"", b"{", b"[]", b'{"files": 3}', b"[" * 100_000, b"\xff"):
        Path("labels.run.json").write_bytes(damaged)
        assert run(["verify", "labels.run.json"]) == 4
    assert run(["verify", "nowhere.run.json"]) == 4
    assert run(["verify", "."]) == 2


def test_a_set_can_be_moved(tmp_path: Path) -> None:
    folder = Path("out")
    folder.mkdir()
    assert run([*WORDS[:-4], "-o", "out/labels.csv", "--workers", "out/workers.csv"]) == 0
    folder.rename("elsewhere")
    assert run(["verify", "elsewhere/labels.run.json"]) == 0


def test_names_that_are_not_utf8() -> None:
    odd = os.fsdecode(b"l\xffbels.csv")
    os.rename("answers.csv", os.fsdecode(b"\xe9.csv"))
    words = ["aggregate", os.fsdecode(b"\xe9.csv"), "--aggregator", "mv", "-o", odd]
    assert run(words) == 0
    manifest = json.loads(Path(os.fsdecode(b"l\xffbels.run.json")).read_text("utf-8"))
    assert manifest["outputs"]["labels"] == odd
    assert run(["verify", os.fsdecode(b"l\xffbels.run.json")]) == 0


# Another process that holds the lock of an output, until it is killed.
HOLDER = """
import sys, time
from pathlib import Path
from misc_cli.writers.output_paths import hold
hold([Path(sys.argv[1])])
print("held", flush=True)
time.sleep(60)
"""


def test_one_run_at_a_time_and_the_dead_hold_nothing(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from misc_cli.writers import output_paths

    monkeypatch.setattr(output_paths, "PATIENCE_SECONDS", 0.2)
    words = [sys.executable, "-c", HOLDER, os.path.realpath("labels.csv")]
    holder = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    assert run(WORDS) == 2
    assert "another run is at work on it" in capfd.readouterr().err
    assert content() == {}
    holder.kill()
    holder.wait()
    holder.stdout.close()
    assert parts() == [".labels.csv.lock"]
    assert run(WORDS) == 0
    assert not parts()


def test_what_is_written_is_on_the_disk_before_it_gets_its_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done: list[str] = []
    fsync, replace = os.fsync, os.replace

    def synced(handle: int) -> None:
        done.append("folder" if os.path.isdir(f"/proc/self/fd/{handle}") else "file")
        fsync(handle)

    def renamed(source: Path, target: Path) -> None:
        done.append("rename")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", renamed)
    assert run(WORDS) == 0
    assert done == ["file"] * 4 + ["rename"] * 4 + ["folder"]


def test_exit_codes_are_one_table(capfd: pytest.CaptureFixture[str]) -> None:
    from misc_cli.errors import EXIT_CODES

    page = (REPO / "docs" / "reliability.md").read_text()
    assert all(f"| {code} | {meaning} |" in page for code, meaning in EXIT_CODES.items())
    assert run(["help", "exit-codes"]) == 0
    shown = " ".join(capfd.readouterr().out.split())
    assert all(f"{code} {meaning}" in shown for code, meaning in EXIT_CODES.items())


def test_every_json_of_a_command_has_the_schema() -> None:
    """One function makes them all; what else calls json.dumps in cli/ prints no --json."""
    others = {"logs.py", "reproduce.py"}
    for path in (REPO / "misc_cli" / "cli").glob("*.py"):
        if path.name not in others:
            assert path.read_text().count("json.dumps(") == (path.name == "tables.py"), path
