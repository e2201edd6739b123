"""Streams that are full, closed, broken or files in disguise."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from misc_cli.__main__ import run
from tests.cli.test_process import MISC, REPO, write_answers

PYTHON = f"'{sys.executable}'"
AGGREGATE = f"{PYTHON} -m misc_cli aggregate answers.csv --aggregator mv"
WARNED = AGGREGATE.replace("answers.csv", "one.csv")  # a warning is due


@pytest.fixture(autouse=True)
def _answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(REPO))
    write_answers(Path("answers.csv"), 2000)
    Path("one.csv").write_text("worker,item,label\nw1,i1,a\nw1,i2,b\n")


def shell(line: str, **variables: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        ["bash", "-c", line],
        capture_output=True,
        check=False,
        env={**os.environ, **variables},
        timeout=60,
    )


COMMANDS = {
    "aggregate": AGGREGATE,
    "simulate": f"{PYTHON} -m misc_cli simulate",
    "evaluate": f"{PYTHON} -m misc_cli evaluate answers.csv answers.csv",
    "help": f"{PYTHON} -m misc_cli aggregate --help",
}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("name", ["aggregate", "simulate", "help"])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_short_write_is_an_error(name: str, unbuffered: str) -> None:
    """A limit of 8 KiB per file: the first write is cut short, the next one fails."""
    line = f"ulimit -f 8; {COMMANDS[name]} > out"
    done = shell(line, PYTHONUNBUFFERED=unbuffered)
    size = Path("out").stat().st_size
    assert (done.returncode == 2) == (size >= 8192), done.stderr
    assert done.returncode in (0, 2)
    full = shell(f"{COMMANDS[name]} > /dev/full", PYTHONUNBUFFERED=unbuffered)
    assert full.returncode == 2, full.stderr


@pytest.mark.parametrize("stderr", ["2>&-", "2>/dev/full", "2> >(true)"])
def test_stderr_never_decides_the_outcome(stderr: str) -> None:
    wait = "sleep 0.3; " if ">(" in stderr else ""
    for line, code in {
        f"{WARNED} --verbose -o labels.csv": 0,
        f"{WARNED} --fail-if 'items<100' -o labels.csv": 3,
        f"{WARNED} --fail-if nonsense -o labels.csv": 2,
    }.items():
        Path("labels.csv").unlink(missing_ok=True)
        done = shell(f"exec {stderr}; {wait}{line}")
        assert done.returncode == code, line
        assert Path("labels.csv").exists() == (code == 0)


def test_a_gate_trips_also_for_a_reader_who_leaves() -> None:
    line = f"{AGGREGATE} --fail-if 'items>1' | true; exit ${{PIPESTATUS[0]}}"
    assert shell(line).returncode == 3
    assert shell(line.replace("items>1", "items<1")).returncode == 0


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_stdout_by_another_name_is_stdout(name: str) -> None:
    Path("all.csv").write_text("earlier\n")
    done = shell(f"{AGGREGATE} -o {name} >> all.csv")
    assert done.returncode == 0, done.stderr
    assert Path("all.csv").read_text().startswith("earlier\nitem,label,confidence\n")
    assert sorted(os.listdir()) == ["all.csv", "answers.csv", "one.csv"]


def test_an_open_stream_is_written_where_it_stands() -> None:
    done = shell(f"exec 3>out; echo first >&3; {AGGREGATE} -o /dev/fd/3; echo last >&3")
    assert done.returncode == 0, done.stderr
    lines = Path("out").read_text().splitlines()
    assert (lines[0], lines[1], lines[-1]) == ("first", "item,label,confidence", "last")
    assert shell(f"{AGGREGATE} -o /dev/fd/9").returncode == 2
    assert shell(f"{AGGREGATE} -o /dev/fd/0 < one.csv").returncode == 2
    assert shell(f"{AGGREGATE} --workers /dev/stdout").returncode == 2


@pytest.mark.parametrize(
    "line",
    [
        f"{PYTHON} -m misc_cli aggregate - -o answers.csv < answers.csv",
        f"{PYTHON} -m misc_cli aggregate /dev/stdin -o answers.csv < answers.csv",
        f"{AGGREGATE} >> answers.csv",
        f"{AGGREGATE} -o /dev/fd/5 5>> answers.csv",
        f"ln answers.csv twin.csv; {AGGREGATE} -o twin.csv",
        f"{PYTHON} -m misc_cli queue - < answers.csv >> answers.csv",
    ],
)
def test_the_input_is_never_written_to(line: str) -> None:
    before = Path("answers.csv").read_bytes()
    done = shell(line)
    assert done.returncode == 2
    assert b"input" in done.stderr
    assert Path("answers.csv").read_bytes() == before


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-o", ""], "folder"),
        (["-o", "."], "folder"),
        (["-o", "/"], "folder"),
        (["-o", "x" * 252 + ".csv"], "too long"),
        (["-o", "x" * 240 + ".csv"], "too long"),
        (["-o", "loop"], "symbolic links"),
        (["-o", "nowhere/labels.csv"], "no such folder"),
        (["-o", "one.csv/labels.csv"], "Not a directory"),
        (["--workers", ""], "folder"),
    ],
)
def test_what_cannot_be_written_is_said_before_the_work(
    words: list[str], said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    Path("loop").symlink_to("loop")
    assert run(["aggregate", "no-such-input.csv", *words]) == 2
    assert said in capfd.readouterr().err


def test_a_long_name_has_room_for_its_temporary_file() -> None:
    name = "x" * 230
    assert run(["aggregate", "one.csv", "-q", "--aggregator", "mv", "-o", name]) == 0
    assert run(["verify", f"{name}.run.json"]) == 0


def test_a_pipe_is_written_to() -> None:
    os.mkfifo("pipe")
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(Path("pipe").read_bytes()))
    reader.start()
    assert run(["aggregate", "answers.csv", "--aggregator", "mv", "-o", "pipe"]) == 0
    reader.join()
    assert got[0].startswith(b"item,label,confidence\n")
    assert sorted(os.listdir()) == ["answers.csv", "one.csv", "pipe"]


def test_escapes_of_a_terminal_are_shown_and_not_obeyed() -> None:
    evil = "\x1b]0;evil\x07\x1b[2Jx\u202e"
    Path("evil.csv").write_text(f"item,label\ni1,{evil}\n")
    table = subprocess.run(
        [*MISC, "evaluate", "evil.csv", "evil.csv"], capture_output=True, check=True
    )
    message = subprocess.run([*MISC, "aggregate", evil], capture_output=True, check=False)
    assert message.returncode == 2
    for shown in (table.stdout, message.stderr):
        assert b"\x1b" not in shown
        assert b"\\x1b]0;evil" in shown
        assert "\u202e".encode() not in shown
    data = subprocess.run(
        [*MISC, "aggregate", "-", "-q"],
        input=f"worker,item,label\nw1,i1,{evil}\nw2,i1,{evil}\n".encode(),
        capture_output=True,
        check=True,
    )
    assert evil.encode() in data.stdout, "data stays as it is"
