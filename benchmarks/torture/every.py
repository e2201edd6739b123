"""Send a signal at every step of the writing; let every system call fail.

A step is one of Python's instructions (`sys.settrace`), counted in the files that write. A call is
one of the C library's that changes or reads a file (faults.c, preloaded). A first run counts them;
then each is tried by itself, from the same start.
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from torture.harness import Ended, Tally, answers, attempt, folder

CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129, signal.SIGKILL: -9}
STEPS, FIRED = "steps", "fired"
OWN = {"out", "err", STEPS, FIRED}  # the harness's files in the folder
# Whose instructions are steps: whatever writes, and what it is made of.
WRITING = {
    *("__main__", "cleanup", "writers/output_set"),
    *(
        "writers/output_paths",
        "state/store",
        "job/outputs",
        "state/session",
        "cli/evaluate",
        "engines/partitioned",
    ),
}
LIBRARY = ("contextlib", "tempfile", "shutil")
CHANGES, READS = 1, 2  # kinds of calls
PRELOADED = "MISC_FAULTS_PRELOADED"
MV = ["--aggregator", "mv"]
SPILL = ["--engine", "disk", *MV]
FEW = ["--aggregators", "mv,one-coin", "--completers", "none"]


@dataclass(frozen=True)
class Case:
    """A command that writes; the files of each group are all old or all new."""

    name: str
    words: list[str]
    groups: list[list[str]]
    before: tuple[list[str], ...] = ()
    run_json: str | None = None


LABELS = ["labels.csv", "w.csv", "labels.diagnostics.jsonl", "labels.run.json"]
PLAIN = ["aggregate", "in.csv", *MV, "-o", "labels.csv", "--workers", "w.csv"]
NIGHT = ["aggregate", "in.csv", *MV, "-o", "labels.csv", "--workers", "w.csv", "--state", "st"]
EACH = ["aggregate", "two.csv", *MV, "--each-question", "-o", "l.csv"]
EACH_SET = [f"l.{q}.{end}" for q in ("mood", "spam") for end in ("csv", "diagnostics.jsonl")]
CASES = [
    Case("set", [*PLAIN, "--probabilities"], [LABELS], (PLAIN,), "labels.run.json"),
    Case(
        "state",
        ["aggregate", "in.csv", "more.csv", *NIGHT[2:]],
        [LABELS, ["st/state.json"]],
        (NIGHT,),
        "labels.run.json",
    ),
    Case("each", EACH, [[*EACH_SET, "l.run.json"]], (EACH,), "l.run.json"),
    Case(
        "folder",
        ["aggregate", "in.csv", *SPILL, "-o", "parts/", "--workers", "w.csv"],
        [["parts", "w.csv"]],
        (),
        "parts/run.json",
    ),
    Case("disk", ["aggregate", "in.csv", *SPILL, *PLAIN[4:]], [LABELS], (PLAIN,), LABELS[-1]),
    Case(
        "rerun",
        ["rerun", "labels.run.json", "-o", "again.csv"],
        [["again.csv"]],
        (NIGHT, ["rerun", "labels.run.json", "-o", "again.csv"]),
    ),
    Case(
        "diff",
        ["diff", "labels.csv", "other.csv", "--changes", "c.csv"],
        [["c.csv"]],
        (PLAIN, ["aggregate", "more.csv", *MV, "-o", "other.csv"]),
    ),
    Case("report", ["report", "in.csv", *MV, "-o", "p.html"], [["p.html"]]),
    Case("simulate", ["simulate", "-o", "s.csv", "--truth", "t.csv"], [["s.csv", "t.csv"]]),
    Case("compare", ["compare", "in.csv", *FEW, "-o", "b.csv"], [["b.csv"]]),
    Case("queue", ["queue", "in.csv", *MV, "-o", "q.csv"], [["q.csv"]]),
]


@contextmanager
def beginning(case: Case) -> Iterator[Callable[[], None]]:
    """Make a folder with the earlier files; yield a function that restores it."""
    with folder() as here:
        start, work = here / "start", here / "work"
        start.mkdir()
        os.chdir(start)
        Path("in.csv").write_text(answers())
        Path("more.csv").write_text(answers(30).replace("i1", "j1"))
        rows = (f"w{at % 3},{at},{'xy'[at % 2]},{'yn'[at % 5 > 2]}\n" for at in range(30))
        Path("two.csv").write_text("annotator,doc_id,mood,spam\n" + "".join(rows))
        Path("tmp").mkdir()
        for words in case.before:
            ended = attempt(words)
            assert ended.code == 0, f"{words}: {ended}"

        def again() -> None:
            os.chdir(here)
            shutil.rmtree(work, ignore_errors=True)
            shutil.copytree(start, work)
            os.chdir(work)
            os.environ["TMPDIR"] = str(work / "tmp")

        before = os.environ.get("TMPDIR")
        try:
            again()
            yield again
        finally:
            os.environ.pop("TMPDIR") if before is None else os.environ.update(TMPDIR=before)


Found = dict[str, tuple[int, str]]


def found() -> Found:
    """Return each file and folder here with its inode and the SHA-256 of its content."""
    everything = [path for path in Path().rglob("*") if path.parts[0] not in OWN]
    return {str(path): (path.stat().st_ino, _digest(path)) for path in everything}


def _digest(path: Path) -> str:
    return "" if path.is_dir() else hashlib.sha256(path.read_bytes()).hexdigest()


@dataclass
class Judge:
    """Check what must hold after a run that began with `before`; a whole run leaves `names`."""

    case: Case
    before: Found
    names: set[str]

    @classmethod
    def of(cls, case: Case) -> Judge:
        before = found()
        ended = attempt(case.words)
        assert ended.code == 0, f"{case.words}: {ended}"
        return cls(case, before, set(found()))

    def complaints(self, ended: Ended, sent: int | None, *, tidy: bool = True) -> Iterator[str]:
        """Return what is wrong; `tidy` is false if the call that failed was one of the cleanup."""
        now = found()
        states = [self._state(group, now) for group in self.case.groups]
        killed = sent == signal.SIGKILL
        codes = {0, 2} if sent is None else {0, CODES[signal.Signals(sent)]}
        early = sent is not None and ended.code == -sent and now == self.before  # no line of ours
        if ended.code not in codes and not early:
            yield "wrong exit code"
        if any(word in ended.err for word in ("Traceback", "Exception ignored")):
            yield "traceback"
        kinds = (
            *("misc: warning", "misc: the labels are those", "misc: labels.run.json: reads"),
            "misc: written: ",  # says `misc report`
        )
        last = [line for line in ended.err.splitlines() if not line.startswith(kinds)]
        expected = 0 if ended.code == 0 or killed or early else 1
        if len(last) != expected:
            yield f"{len(last)} lines on stderr"
        found_out = self.case.run_json is None or not self._is_whole()
        same = all(now.get(name, (0, ""))[1] == told for name, (_, told) in self.before.items())
        if "mixed" in states and not (killed and (found_out or same)):  # same: bytes, not inodes
            yield f"mixed set {states}"
        if len(set(states)) > 1 and not killed:  # a kill may leave new labels and the old state
            yield f"one set new, one old {states}"
        if ended.code == 0 and set(states) != {"new"}:
            yield f"exit 0 and {states}"
        if ended.code == 2 and set(states) != {"old"}:
            yield f"exit 2 and {states}"
        if "mixed" not in states and states[0] == "new" and not self._is_whole():
            yield "not a whole set"
        if not killed and tidy and (left := self._left()):
            yield f"left {sorted(left)}"

    def after_another(self) -> Iterator[str]:
        """Check that the next run repairs what a killed one left."""
        shutil.rmtree("parts", ignore_errors=True)
        ended = attempt(self.case.words)
        if ended.code != 0 or "kept in" in ended.err:
            yield f"the next run: {ended}"
        elif not self._is_whole():
            yield "the next run: not a whole set"
        if left := self._left():
            yield f"the next run left {sorted(left)}"

    def _left(self) -> set[str]:
        """Return the files that should not be here."""
        state = Path("st/state.json")
        named = state.read_text() if state.exists() else ""
        more = set(found()) - {*self.before, *self.names}
        python = re.compile(r"tmp/[a-z0-9_]{8}")
        return {n for n in more if os.path.basename(n) not in named and not python.fullmatch(n)}

    def _state(self, group: list[str], now: Found) -> str:
        same = {now.get(name) == self.before.get(name) for name in group}
        return "mixed" if len(same) > 1 else "old" if same == {True} else "new"

    def _is_whole(self) -> bool:
        from misc_cli.writers.output_set import WHOLE, verify

        if self.case.run_json is None:
            return True
        return all(state == WHOLE for _, _, state in verify(Path(self.case.run_json)))


def _is_traced(file: str) -> bool:
    place, _, module = file.removesuffix(".py").rpartition("/misc_cli/")
    return module in WRITING if place else os.path.basename(module) in LIBRARY


def _stepping(wanted: Sequence[tuple[int, int]]) -> None:
    """Send signals of these numbers at these steps of this process; with none, list all steps."""
    taken, waiting = 0, sorted(wanted)
    log = None if wanted else os.open(STEPS, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)

    def at_step(frame: FrameType, event: str, _: object) -> Any:
        nonlocal taken
        if event == "opcode":
            taken += 1
            if log is not None:
                code = frame.f_code
                os.write(log, f"{code.co_filename}:{code.co_qualname}:{frame.f_lasti}\n".encode())
            elif waiting and taken == waiting[0][0]:
                number = waiting.pop(0)[1]
                if not waiting:
                    sys.settrace(None)
                os.kill(os.getpid(), number)
        return at_step

    def at_call(frame: FrameType, event: str, _: object) -> Any:
        if not _is_traced(frame.f_code.co_filename):
            return None
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        return at_step

    sys.settrace(at_call)


def steps_of(case: Case) -> list[int]:
    """Return the steps of a run: of each instruction the first and the last time."""
    attempt(case.words, partial(_stepping, []))
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for number, place in enumerate(Path(STEPS).read_text().splitlines(), start=1):
        first.setdefault(place, number)
        last[place] = number
    return sorted({*first.values(), *last.values()})


def spread(wanted: list[int], most: int, rng: random.Random) -> list[int]:
    """Return all steps, or a random sample of this size."""
    return wanted if len(wanted) <= most else sorted(rng.sample(wanted, most))


def steps(most: int, names: Sequence[str] | None = None) -> Tally:
    """Send a signal at every step; of two, the second at every step after the first."""
    tally = Tally("signals at every step of the writing")
    rng = random.Random(7)
    for case in [case for case in CASES if names is None or case.name in names]:
        with beginning(case) as again:
            all_steps = steps_of(case)
            again()
            judge = Judge.of(case)
            for step in spread(all_steps, most, rng):
                twice = rng.random() < 0.3
                sent = rng.choice(list(CODES))
                wanted = [(step, sent)]
                if twice and sent != signal.SIGKILL:
                    wanted.append((step + 1 + int(rng.expovariate(1 / 40)), sent))
                again()
                judge.before = found()
                ended = attempt(case.words, partial(_stepping, wanted))
                wrong = [*judge.complaints(ended, sent)]
                if sent == signal.SIGKILL:
                    wrong += judge.after_another()
                what = f"{case.name}: {signal.Signals(sent).name} at {[at for at, _ in wanted]}"
                tally.check(not wrong, f"{what}: {'; '.join(wrong)}; {ended}")
    return tally


def preload() -> None:
    """Start this program again, with faults.c compiled and loaded before all else."""
    compiler = shutil.which("cc")
    if compiler is None or PRELOADED in os.environ:
        return
    with tempfile.TemporaryDirectory() as place:
        library = f"{place}/faults.so"
        source = str(Path(__file__).with_name("faults.c"))
        subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
        environment = {**os.environ, "LD_PRELOAD": library, PRELOADED: "1"}
        done = subprocess.run([sys.executable, *sys.argv], env=environment, check=False)
    sys.exit(done.returncode)


def _arm(kind: int, at: int, for_good: bool, error: int, number: int) -> None:
    log = os.open(FIRED, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    ctypes.CDLL(None).faults_arm(kind, ctypes.c_long(at), for_good, error, number, log)


def calls_of(case: Case, kind: int) -> list[str]:
    attempt(case.words, partial(_arm, kind, 0, False, 0, 0))
    return [line.split()[1] for line in Path(FIRED).read_text().splitlines()]


# What a call may say. Reading fails in its own ways, and a full disk stays full.
FAILURES = {
    CHANGES: [(errno.ENOSPC, True), (errno.EIO, False), (errno.EDQUOT, True), (errno.EROFS, False)],
    READS: [(errno.EIO, False), (errno.EMFILE, False)],
}
TIDIES = {"unlink", "unlinkat", "rmdir", "rename", "renameat"}


def calls(most: int, names: Sequence[str] | None = None) -> Tally:
    """Let each call that touches a file fail once or from then on, or stop the machine there."""
    tally = Tally("failures at every system call")
    if not hasattr(ctypes.CDLL(None), "faults_arm"):
        warnings.warn("no failing calls: they need a C compiler", stacklevel=1)
        return tally
    rng = random.Random(8)
    for case in [case for case in CASES if names is None or case.name in names]:
        with beginning(case) as again:
            for kind, failures in FAILURES.items():
                again()
                called = calls_of(case, kind)
                again()
                judge = Judge.of(case)
                for at in spread([*range(1, len(called) + 1)], most, rng):
                    error, for_good = failures[rng.randrange(len(failures))]
                    again()
                    judge.before = found()
                    prepare = partial(_arm, kind, at, for_good, error, 0)
                    ended = attempt(case.words, prepare)
                    tidy = called[at - 1] not in TIDIES
                    wrong = [*judge.complaints(ended, None, tidy=tidy)]
                    wrong += judge.after_another() if not tidy else []
                    what = f"{case.name}: {errno.errorcode[error]} at {at} {called[at - 1]}"
                    tally.check(not wrong, f"{what}: {'; '.join(wrong)}; {ended}")
    return tally
