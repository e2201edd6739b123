"""Run with full disks, closed streams and low limits; check for the same bytes each time."""

from __future__ import annotations

import os
import random
import resource
from functools import partial
from pathlib import Path

from torture.harness import Tally, answers, attempt, folder, leftovers

AGGREGATE = ["aggregate", "in.csv", "--aggregator", "mv"]
COMMANDS = [AGGREGATE, ["simulate"], ["queue", "in.csv", "--aggregator", "mv"], ["--help"]]


def _redirect(number: int, path: str | None) -> None:
    if path is None:
        os.close(number)
    else:
        os.dup2(os.open(path, os.O_WRONLY), number)


def _limit_file(size: int) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def streams(rounds: int) -> Tally:
    """Check that labels are whole or the exit code says that they are not."""
    tally = Tally("full disks and closed streams")
    rng = random.Random(5)
    with folder():
        Path("in.csv").write_text(answers(3000, 20))
        Path("one.csv").write_text("worker,item,label\nw1,i1,a\nw1,i2,b\n")
        for number in range(rounds):
            words = COMMANDS[number % len(COMMANDS)]
            full = attempt(words, partial(_redirect, 1, "/dev/full"))
            tally.check(full.code == 2, f"{words} > /dev/full: {full}")
            for path, ending in ((None, "closed"), ("/dev/full", "full")):
                for more, code in (([], 0), (["--fail-if", "items>1"], 3)):
                    line = ["aggregate", "one.csv", "--aggregator", "mv", "-o", "l.csv", *more]
                    ended = attempt(line, partial(_redirect, 2, path))
                    tally.check(ended.code == code, f"stderr {ending}: {line}: exit {ended.code}")
            whole = attempt(AGGREGATE)
            size = Path("out").stat().st_size
            cut = rng.randrange(1, size - 1)
            short = attempt(AGGREGATE, partial(_limit_file, cut))
            tally.check(whole.code == 0 and short.code == 2, f"cut at {cut} of {size}: {short}")
            attempt([*AGGREGATE, "-o", "labels.csv"])
            before = Path("labels.csv").read_bytes()
            again = attempt([*AGGREGATE, "-o", "labels.csv"], partial(_limit_file, cut))
            untouched = Path("labels.csv").read_bytes() == before
            tally.check(again.code == 2 and untouched and not leftovers(), f"full disk: {again}")
    return tally


def determinism(rounds: int) -> Tally:
    """Check that row order and the number of threads do not change a byte."""
    tally = Tally("the same bytes")
    rng = random.Random(6)
    header, *rows = answers(300, 15).splitlines()
    methods = ["mv", "one-coin", "ds-em", "ds-mf", "mmce-c", "ebcc"]
    with folder():
        known: dict[str, bytes] = {}
        for number in range(rounds):
            rng.shuffle(rows)
            Path("in.csv").write_text("\n".join([header, *rows]) + "\n")
            method = methods[number % len(methods)]
            threads = ["--threads", str(1 + number % 3)]
            ended = attempt(["aggregate", "in.csv", "--aggregator", method, *threads])
            found = Path("out").read_bytes()
            same = found == known.setdefault(method, found)
            tally.check(ended.code == 0 and same, f"{method} {threads}: {ended}")
    return tally
