"""`make torture`: run misc under signals, faults and damage; print tries and failures.

quick   seconds: the part that runs in `make test`
minutes about fifteen minutes of two quiet cores (the default)
full    ten thousand mutants, a thousand kills at the renames, three hundred budgets: half an hour
every   every step of the writing and every system call: hours
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from torture import every, moments, mutants, nights, option_tries, places, strangers
from torture.harness import Tally, load

from misc_cli.data.resources import limits
from misc_cli.selection.worker_pool import NEVER, run_all

Section = Callable[[], Tally]
SIZES = ("quick", "minutes", "full", "every")


def sections(size: str) -> dict[str, Section]:
    """Return the sections with their number of tries: quick, minutes, full, every."""
    at = SIZES.index(size)

    def of(*counts: int) -> int:
        return counts[at]

    sets = ("set", "state", "folder") if size == "quick" else None
    return {
        "mutants": lambda: mutants.mutants(of(200, 10_000, 10_000, 20_000)),
        "runs": lambda: mutants.mutant_runs(of(10, 300, 300, 2_000)),
        "options": lambda: option_tries.option_tries((0.02, 0.15, 0.15, 1.0)[at]),
        "steps": lambda: every.steps(of(6, 60, 60, 100_000), sets),
        "calls": lambda: every.calls(of(4, 40, 40, 100_000), sets),
        "renames": lambda: moments.renames(of(12, 300, 1_000, 1_000)),
        "random": lambda: moments.at_random(of(4, 100, 400, 400)),
        "budgets": lambda: moments.budgets(of(2, 40, 300, 300)),
        "races": lambda: moments.races(of(1, 10, 50, 50)),
        "changing": lambda: moments.changing(of(3, 45, 300, 300)),
        "streams": lambda: places.streams(of(1, 8, 40, 40)),
        "determinism": lambda: places.determinism(of(2, 24, 120, 120)),
        "identity": strangers.identity,
        "settings": lambda: strangers.settings((0.1, 1.0, 1.0, 1.0)[at]),
        "replay": lambda: strangers.replay(of(20, 600, 600, 3_000)),
        "databases": strangers.databases,
        "secrets": lambda: strangers.secrets((0.03, 0.5, 1.0, 1.0)[at]),
        "limits": lambda: strangers.limits((0.2, 1.0, 1.0, 1.0)[at]),
        "signals": lambda: nights.signals(of(3, 60, 60, 300)),
        "gates": lambda: nights.gates(of(4, 60, 300, 300)),
        "contract": lambda: nights.contract(of(4, 60, 300, 300)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=SIZES, default="minutes")
    parser.add_argument("--only", nargs="*", help="sections by name")
    given = parser.parse_args()
    every.preload()
    load()
    chosen = sections(given.size)
    names = [name for name in chosen if not given.only or name in given.only]

    def tally_of(name: str) -> Tally:
        started = time.monotonic()
        with limits(2):
            tally = chosen[name]()
        tally.seconds = time.monotonic() - started
        return tally

    done: list[Tally] = []
    with limits(2):
        found = run_all(tally_of, names, deadline=NEVER, parallel=True)
        done = list(found)
    for name, tally in zip(names, done, strict=True):
        print(f"{name}: {tally.tries:,} tries, {len(tally.failures)} failures", file=sys.stderr)
        for failure in tally.failures[:20]:
            print(f"  {failure}", file=sys.stderr)
    print("| what | tries | failures | seconds |\n|---|---:|---:|---:|")
    for tally in done:
        print(f"| {tally.name} | {tally.tries:,} | {len(tally.failures)} | {tally.seconds:.0f} |")
    sys.exit(any(tally.failures for tally in done))


if __name__ == "__main__":
    main()
