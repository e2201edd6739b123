"""The command as a process: signals, pipes, threads, and what a script sees of them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

MISC = [sys.executable, "-m", "misc_cli"]
REPO = Path(__file__).resolve().parents[2]

# An aggregator that writes a file when it starts and then takes its time.
SLOW = """
import sys, time
from pathlib import Path
from misc_cli import registry
from misc_cli.aggregators.methods import MajorityVote

class Slow(MajorityVote):
    def solve(self, engine, on_iteration, start=None):
        Path("started").touch()
        time.sleep(30)

sys.modules["slow"] = type(sys)("slow")
sys.modules["slow"].Slow = Slow
registry.AGGREGATORS["slow"] = "slow:Slow"
from misc_cli.__main__ import main
main(sys.argv[1:])
"""


@pytest.fixture
def answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two thousand items, three workers, two classes."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(REPO))
    return write_answers(tmp_path / "answers.csv", 2000)


def write_answers(path: Path, n_items: int) -> Path:
    rows = (
        f"w{worker},item{item},{'yes' if (item * 7 + worker * item) % 3 else 'no'}\n"
        for item in range(n_items)
        for worker in range(3)
    )
    path.write_text("worker,item,label\n" + "".join(rows))
    return path


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["ctrl-c", "kill"]
)
def test_an_interrupted_run_leaves_earlier_outputs_alone(
    answers: Path, number: int, code: int
) -> None:
    outputs = ["labels.csv", "labels.run.json", "labels.diagnostics.jsonl", "workers.csv"]
    for name in outputs:
        Path(name).write_text("earlier")
    words = ["aggregate", "answers.csv", "--aggregator", "slow"]
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW, *words, "-o", "labels.csv", "--workers", "workers.csv"],
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 30
    while not Path("started").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(number)
    _, err = process.communicate(timeout=20)
    assert process.returncode == code
    assert "Traceback" not in err
    assert all(Path(name).read_text() == "earlier" for name in outputs)
    assert sorted(os.listdir()) == sorted([*outputs, "answers.csv", "started"])


def test_a_reader_who_leaves_early_ends_the_run_quietly(answers: Path) -> None:
    """With more to say than a pipe holds (64 KiB), so that somebody must be told."""
    write_answers(answers, 10_000)
    misc = f"'{sys.executable}' -m misc_cli aggregate answers.csv --aggregator mv"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {misc} | head -n 1"], capture_output=True, check=False
    )
    assert done.stdout == b"item,label,confidence\n"
    assert done.stderr == b""
    assert done.returncode == 0
    whole = subprocess.run(["bash", "-c", misc], capture_output=True, check=True)
    assert len(whole.stdout) > 1 << 17


def test_a_closed_pipe_ends_the_run_quietly(answers: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [*MISC, "aggregate", "answers.csv", "--aggregator", "mv"],
        stdout=write,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (0, b"")


def test_stdin_and_compressed_input_give_the_same_bytes(answers: Path) -> None:
    import gzip

    Path("answers.csv.gz").write_bytes(gzip.compress(answers.read_bytes()))
    plain = subprocess.run([*MISC, "aggregate", "answers.csv"], capture_output=True, check=True)
    with answers.open("rb") as stream:
        piped = subprocess.run(
            [*MISC, "aggregate", "-"], stdin=stream, capture_output=True, check=True
        )
    packed = subprocess.run([*MISC, "aggregate", "answers.csv.gz"], capture_output=True, check=True)
    assert plain.stdout == piped.stdout == packed.stdout


def test_a_defect_says_how_to_see_more(answers: Path) -> None:
    broken = SLOW.replace('Path("started").touch()', "raise KeyError('oops')")
    words = [sys.executable, "-c", broken, "aggregate", "answers.csv", "--aggregator", "slow"]
    quiet = subprocess.run(words, capture_output=True, text=True, check=False)
    assert quiet.returncode == 1
    assert quiet.stderr.count("\n") == 1
    assert "MISC_DEBUG=1" in quiet.stderr
    loud = subprocess.run(
        words, capture_output=True, text=True, check=False, env={**os.environ, "MISC_DEBUG": "1"}
    )
    assert "Traceback" in loud.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("words", [[], ["-o", "/dev/full"]], ids=["stdout", "output"])
def test_a_full_disk_is_said_in_one_line(answers: Path, words: list[str]) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*MISC, "aggregate", "answers.csv", "--aggregator", "mv", *words],
            stdout=full,
            stderr=-1,
            check=False,
        )
    assert done.returncode == 2
    assert (f"{words[1]}: cannot be written (" if words else "output: ").encode() in done.stderr
    assert b"No space left" in done.stderr
    assert done.stderr.count(b"\n") == 1


def test_closed_streams_are_no_reason_to_fall_over(answers: Path) -> None:
    misc = f"'{sys.executable}' -m misc_cli aggregate"
    cases = {f"{misc} answers.csv >&-": 2, f"{misc} answers.csv -o l.csv >&-": 0}
    cases[f"{misc} nowhere.csv 2>&-"] = 2
    cases[f"{misc} - -o l.csv <&-"] = 2
    cases[f"{misc.replace('aggregate', 'queue')} answers.csv >&-"] = 2
    cases[f"{misc.replace('aggregate', 'simulate')} -o s.csv >&-"] = 0
    for line, code in cases.items():
        done = subprocess.run(["bash", "-c", line], capture_output=True, check=False)
        assert (done.returncode, done.stdout) == (code, b""), line
        assert b"defect" not in done.stderr
    assert Path("l.csv").exists()


@pytest.mark.parametrize("encoding", ["latin-1", "ascii"])
def test_a_terminal_that_is_not_utf8_gets_what_it_can_show(
    answers: Path, encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("labels.csv").write_text("item,label\ni1,žluť\n")
    monkeypatch.setenv("PYTHONIOENCODING", encoding)
    for words in (["aggregate", "--help"], ["datasets", "list"]):
        subprocess.run([*MISC, *words], capture_output=True, check=True)
    same = ["evaluate", "labels.csv", "labels.csv"]
    table = subprocess.run([*MISC, *same], capture_output=True, check=True).stdout
    assert b"?lu?" in table
    Path("short.csv").write_text("worker,item,label\nw1,i1,žluť\n")
    for words in ([*same, "--json"], ["aggregate", "short.csv", "-q"]):
        found = subprocess.run([*MISC, *words], capture_output=True, check=True)
        assert "žluť" in found.stdout.decode(), "data is UTF-8 everywhere"


# An interrupt in the middle of an import, whatever its name.
HASTY = """
import os, signal, sys

class Interrupt:
    @staticmethod
    def find_spec(name, *_):
        if name == sys.argv[1]:
            sys.meta_path.remove(Interrupt)
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupt)
from misc_cli.__main__ import main
main(["--help"])
"""


@pytest.mark.parametrize("module", ["misc_cli.cli", "click", "misc_cli.errors"])
def test_an_interrupt_during_the_imports_is_one_line(answers: Path, module: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", HASTY, module], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (130, "misc: interrupted\n")


# Ctrl-C, which a terminal sends to parent and children alike, in the midst of a fork.
FORKING = """
import os, signal, sys

def interrupt():
    os.killpg(0, signal.SIGINT)

os.setsid()
os.register_at_fork(**{sys.argv[1]: interrupt})
from misc_cli.__main__ import main
from misc_cli.selection import cross_validation

cross_validation.WORTH_A_PROCESS = 0  # else so few answers are judged in one process
main(["compare", "answers.csv"])
"""


@pytest.mark.parametrize("side", ["after_in_parent", "after_in_child"])
def test_an_interrupt_during_a_fork_is_one_line(answers: Path, side: str) -> None:
    write_answers(answers, 2_000)
    done = subprocess.run(
        [sys.executable, "-c", FORKING, side],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (130, "misc: interrupted\n")


def test_threads_are_arrows_too(answers: Path) -> None:
    script = (
        "import sys, pyarrow\n"
        "from misc_cli.__main__ import main\n"
        "try:\n    main(sys.argv[1:])\n"
        "except SystemExit:\n    print(pyarrow.cpu_count(), file=sys.stderr)\n"
    )
    words = ["aggregate", "answers.csv", "--aggregator", "mv", "--threads", "3"]
    done = subprocess.run(
        [sys.executable, "-c", script, *words], capture_output=True, text=True, check=True
    )
    assert done.stderr == "3\n"


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere getrusage is all there is")
def test_the_memory_of_whoever_starts_a_run_is_not_the_runs(answers: Path) -> None:
    large = b"x" * 400_000_000
    words = ["aggregate", "answers.csv", "--aggregator", "mv", "-o", "labels.csv"]
    subprocess.run([*MISC, *words], check=True)
    peak = json.loads(Path("labels.run.json").read_text())["peak_memory_bytes"]
    assert 20_000_000 < peak < len(large)


def test_misc_alone_shows_its_help(answers: Path) -> None:
    done = subprocess.run(MISC, capture_output=True, text=True, check=True)
    assert "aggregate" in done.stdout


def test_a_terminal_gets_a_summary_and_stdout_only_labels(answers: Path) -> None:
    import fcntl
    import pty
    import struct
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 50, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color"}
    environment.pop("COLUMNS", None)  # it would overrule the terminal's width
    with open("out", "wb") as out:
        process = subprocess.Popen(
            [*MISC, "aggregate", "answers.csv", "--aggregator", "mv"],
            stdout=out,
            stderr=theirs,
            env=environment,
        )
    os.close(theirs)
    shown = everything(ours)
    assert process.wait() == 0
    written = Path("out").read_bytes()
    assert "6,000 by 3 workers on 2,000 items in 2" in shown
    assert "\n         classes: 3.0 per item" in shown, "lines break between words"
    assert written.startswith(b"item,label,confidence\nitem0,")
    assert b"\x1b" not in written


def everything(terminal: int) -> str:
    """All that a terminal is told; a busy machine gets to see a line of progress first."""
    told = b""
    try:
        while piece := os.read(terminal, 1 << 16):
            told += piece
    except OSError:  # how Linux says that the other end has closed
        pass
    os.close(terminal)
    return told.decode()


STUCK = """
import os, signal, sqlite3, sys, threading, time
from pathlib import Path
from misc_cli import cleanup

cleanup.install()
cleanup.at_end(lambda: Path("temporary").unlink(missing_ok=True))
Path("temporary").touch()
threading.Timer(0.1, os.kill, [os.getpid(), signal.SIGTERM]).start()
try:
    if sys.argv[1] == "library":  # no line of Python runs in the main thread
        endless = "with recursive c(x) as (select 1 union all select x+1 from c) select x from c"
        sqlite3.connect(":memory:").execute(f"select count(*) from ({endless})").fetchone()
    time.sleep(60)
finally:
    time.sleep(60)
"""


@pytest.mark.parametrize("where", ["library", "way out"])
def test_a_run_that_does_not_give_way_is_ended_after_two_seconds(answers: Path, where: str) -> None:
    started = time.monotonic()
    command = [sys.executable, "-c", STUCK, where]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stderr) == (143, "misc: terminated\n")
    assert time.monotonic() - started < 10
    assert not Path("temporary").exists()


def test_a_warning_is_not_kept_until_the_end(answers: Path) -> None:
    """Containers set PYTHONUNBUFFERED; a line on stderr must come when it is said."""
    code = (
        "import os, sys; from misc_cli.cli.startup import prepare; prepare(); "
        "print('said', file=sys.stderr); os._exit(0)"
    )
    for unbuffered in ("", "1"):
        environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
        done = subprocess.run(
            [sys.executable, "-c", code], stderr=subprocess.PIPE, env=environment, timeout=30
        )
        assert done.stderr == b"said\n"
