"""Compare our ds-em iteration with a fused C kernel on the same votes and threads."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import sys
from pathlib import Path

from measure import Failed, run, table

from sections.bench import HERE, ITERATIONS, LEAST, NAMES, PURE, TWENTY, Bench

FLAGS = ("-O3", "-march=native", "-ffast-math", "-pthread")
# Both sum the same numbers in other orders; more than that is another algorithm.
SAME = 1e-6


def limit(bench: Bench) -> str:
    """Compare the fastest iterations; both must end at the same likelihood."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        return "No C compiler here: the limit row is left out.\n"
    binary, votes = bench.out / "yardstick", bench.out / "votes.bin"
    source = str(HERE / "yardstick.c")
    subprocess.run([compiler, *FLAGS, "-o", str(binary), source, "-lm"], check=True)
    rows = []
    for n_answers in (1_000_000, 10_000_000):
        if n_answers > max(LEAST, *bench.sizes):
            continue
        answers = bench.answers(n_answers)
        export = [sys.executable, str(HERE / "ours.py"), "votes", str(answers), str(votes), "-"]
        subprocess.run(export, check=True)
        for threads in (1, 2):
            command = [str(binary), str(votes), str(ITERATIONS), str(threads)]
            ours, theirs = _fastest(bench, answers, command, threads)
            ratio = ours / theirs
            cells = [f"{1000 * spent:.1f}" for spent in (ours, theirs)]
            rows.append([f"ds-em, {NAMES[n_answers]}", str(threads), *cells, f"{ratio:.2f}×"])
            if n_answers == LEAST:
                bench.promise(
                    f"ds-em per iteration, 1 M answers, {threads} thread(s): at most 3 times C",
                    f"{ratio:.2f}×",
                    ratio <= 3,
                )
    return table(["fastest iteration", "threads", "ours, ms", "fused C, ms", "ours / C"], rows)


def _fastest(bench: Bench, answers: Path, command: list[str], threads: int) -> tuple[float, float]:
    """Return the seconds of our fastest iteration and of C's."""
    options = ("--aggregator", "ds-em", *PURE, *TWENTY, "--threads", str(threads))
    ours = theirs = math.inf
    for _ in range(bench.repeats):
        run(bench.ours("misc", answers, *options))
        text = (bench.out / "ours.diagnostics.jsonl").read_text()
        lines = [json.loads(line) for line in text.splitlines()]
        ours = min(ours, *(line["seconds"] for line in lines))
        said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        fastest, _, likelihood = map(float, said.split())
        theirs = min(theirs, fastest)
        if not math.isclose(lines[-1]["objective"], likelihood, rel_tol=SAME):
            both = f"{lines[-1]['objective']} and {likelihood}"
            raise Failed(f"ds-em and yardstick.c end at different likelihoods: {both}")
    return ours, theirs
