"""Time the methods of this checkout beside those of an older one and beside plain C.

usage: python benchmarks/kernels.py --against CHECKOUT [--answers N] [--repeats N] [--only NAME ...]
Processor time of `misc_cli.aggregate` with one thread, in alternation, the least of the repeats,
less that of few steps or of mv on the same answers. The unit of the last columns is 100 iterations
of ds-em in yardstick.c, timed in the same run.
"""

from __future__ import annotations

import argparse
import csv
import math
import os
import shutil
import subprocess
import sys
import tempfile
from array import array
from pathlib import Path

HERE = Path(__file__).resolve().parent
FLAGS = ("-O3", "-march=native", "-ffast-math", "-pthread")
ITERATIONS = 100
MV = "aggregator='mv'"
TUCKER = "aggregator='ds-em', completer='tucker', ranks=(3, 5, 4), tol=0.0, max_iter=5"
LARGE = TUCKER.replace("(3, 5, 4)", "(14, 42, 4)")
# What is timed, and what is taken off: the same with fewer steps, or mv, which only encodes.
METHODS = {
    "mv": (MV, None),
    "ds-em": ("aggregator='ds-em', tol=0.0, max_iter=105", "aggregator='ds-em', max_iter=5"),
    "ds-mf": ("aggregator='ds-mf'", MV),
    "one-coin": (
        "aggregator='one-coin', tol=0.0, max_iter=105",
        "aggregator='one-coin', max_iter=5",
    ),
    "ebcc": ("aggregator='ebcc', restarts=1, tol=0.0, max_iter=20", MV),
    "ebcc-8": ("aggregator='ebcc', restarts=8", MV),
    "mmce-c": ("aggregator='mmce-c', tol=0.0, max_iter=3", MV),
    "tucker": (f"{TUCKER}, passes=4", f"{TUCKER}, passes=1"),
    "tucker-14": (f"{LARGE}, passes=4", f"{LARGE}, passes=1"),
}
JOB = """
import sys, time, warnings
import pandas as pd
import misc_cli
warnings.simplefilter("ignore")
answers = pd.read_csv(sys.argv[1], dtype=str)
def spent(**options):
    if hasattr(misc_cli, "Loop"):  # else a checkout from before methods were objects
        options = as_methods(**options)
    began = time.process_time()
    misc_cli.aggregate(answers, threads=1, calibrate=False, **options)
    return time.process_time() - began
def as_methods(aggregator, completer=None, **given):
    from misc_cli import registry
    from misc_cli.completers.parameters import LOOP_OPTIONS
    made = {{}}
    if completer is not None:
        made["loop"] = misc_cli.Loop(**{{k: given.pop(k) for k in LOOP_OPTIONS if k in given}})
        own = {{k: given.pop(k) for k in registry.settings("completer", completer) if k in given}}
        made["completer"] = registry.create("completer", completer, **own)
    return {{"aggregator": registry.create("aggregator", aggregator, **given), **made}}
spent(aggregator="mv")  # loads what is loaded late
{off}
print(spent({options}) - off)
"""


def environment(checkout: Path) -> dict[str, str]:
    """Return the variables that make Python take misc from a checkout, on one core."""
    single = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return {**os.environ, **single, "PYTHONPATH": str(checkout.resolve())}


def seconds(checkout: Path, method: str, answers: Path) -> float:
    """Return the processor time of one run in a process of its own."""
    options, less = METHODS[method]
    off = "off = 0.0" if less is None else f"spent({less}); off = spent({less})"
    command = [sys.executable, "-c", JOB.format(options=options, off=off), str(answers)]
    said = subprocess.run(
        command,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env=environment(checkout),
        cwd=answers.parent,
    )
    return float(said.stdout)


def yardstick(answers: Path) -> list[str]:
    """Compile yardstick.c for the answers; return its command, or none without a compiler."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        return []
    binary, votes = answers.with_name("yardstick"), answers.with_name("votes.bin")
    source = str(HERE / "yardstick.c")
    subprocess.run([compiler, *FLAGS, "-o", str(binary), source, "-lm"], check=True)
    workers: dict[str, int] = {}
    classes: dict[str, int] = {}
    said: dict[str, list[tuple[int, int]]] = {}
    with answers.open(newline="") as stream:
        for row in csv.DictReader(stream):
            who = workers.setdefault(row["worker"], len(workers))
            what = classes.setdefault(row["label"], len(classes))
            said.setdefault(row["item"], []).append((who, what))
    pointers, columns = array("i", [0]), array("i")
    for item in sorted(said):
        columns.extend(who * len(classes) + what for who, what in sorted(said[item]))
        pointers.append(len(columns))
    with votes.open("wb") as out:
        for part in (array("i", [len(said), len(workers), len(classes)]), pointers, columns):
            part.tofile(out)
    return [str(binary), str(votes), str(ITERATIONS), "1"]


def plain_c(command: list[str]) -> float:
    """Return the seconds of 100 iterations as fast as C's fastest; NaN without a compiler."""
    if not command:
        return math.nan
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return ITERATIONS * float(said.split()[0])


def main() -> None:
    """Print a line per method: both times and new / old."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--against", type=Path, required=True, help="a checkout of older code")
    parser.add_argument("--answers", type=int, default=500_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=METHODS, default=list(METHODS))
    asked = parser.parse_args()
    new, old = HERE.parent, asked.against
    with tempfile.TemporaryDirectory(prefix="kernels-") as folder:
        answers = Path(folder) / "answers.csv"
        items = asked.answers // 5
        shape = ("--workers", str(max(20, items // 100)), "--items", str(items), "--classes", "4")
        words = [sys.executable, "-m", "misc_cli", "simulate", *shape, "-o", str(answers)]
        subprocess.run(words, check=True, env=environment(old), cwd=folder)
        command = yardstick(answers)
        unit = plain_c(command)
        heads = ("old, s", "new, s", "new/old", "old/C", "new/C")
        print("method  ", *(f"{head:>8}" for head in heads))
        for method in asked.only:
            spent = dict.fromkeys((old, new), math.inf)
            for repeat in range(asked.repeats):
                for checkout in (old, new) if repeat % 2 else (new, old):
                    took = seconds(checkout, method, answers)
                    spent[checkout] = min(spent[checkout], took)
                unit = min(unit, plain_c(command))
            before, after = spent[old], spent[new]
            cells = (before, after, after / before, before / unit, after / unit)
            print(f"{method:8}", *(f"{cell:8.3f}" for cell in cells), flush=True)


if __name__ == "__main__":
    main()
