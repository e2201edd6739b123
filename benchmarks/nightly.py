"""A simulated year of nights: `make bench-nightly`, and a small one in the tests.

Every night some answers arrive, items trickle in over a few nights, workers come and go. The same
export is labelled warm (with --state) every night and cold on some nights, both by the command line
in this process, so that what is measured is what a cron job pays but for the start of Python.
Seconds are of the processor, children included: other work on the machine hardly moves them.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv

from misc_cli.__main__ import run
from misc_cli.cli import nightly
from misc_cli.io import state
from misc_cli.simulate import Simulation, answer_columns, simulate, truth_columns

DAY = 86400.0
FIRST_NIGHT = 1_700_000_000.0
DELAY_NIGHTS = 2.0  # mean time that an answer comes after its item
NAMED = "ds-em"


@dataclass
class Year:
    """What a year of nights showed; lists are by night or by the nights that also ran cold."""

    nights: int
    answers: int
    warm_seconds: list[float] = field(default_factory=list)
    flips: list[float] = field(default_factory=list)
    state_bytes: list[int] = field(default_factory=list)
    methods: list[str] = field(default_factory=list)
    cold: dict[int, dict[str, float]] = field(default_factory=dict)
    named: dict[int, dict[str, float]] = field(default_factory=dict)

    @property
    def changes(self) -> int:
        """How often the methods were others than the night before."""
        return sum(a != b for a, b in zip(self.methods, self.methods[1:], strict=False))

    def summary(self, since: int) -> dict[str, Any]:
        """The figures of the issue, from night `since` on where it asks for that."""
        late = [night for night in self.cold if night >= since]
        ratios = [self.cold[n]["seconds"] / max(self.warm_seconds[n - 1], 1e-9) for n in late]
        mean = statistics.fmean(self.warm_seconds[since - 1 :])
        last = self.cold[max(self.cold)]
        return {
            "nights": self.nights,
            "answers": self.answers,
            "warm seconds in all": round(sum(self.warm_seconds), 1),
            "warm seconds per night": round(mean, 3),
            "cold seconds": {n: round(row["seconds"], 2) for n, row in self.cold.items()},
            "cold / warm, same night": [round(ratio, 1) for ratio in ratios],
            "cold / mean warm": round(
                statistics.fmean(self.cold[n]["seconds"] for n in late) / mean, 1
            ),
            "error, warm and cold, last night": [last["warm_error"], last["error"]],
            "labels that differ, last night": last["differ"],
            "flips per night, mean and most": [
                round(statistics.fmean(self.flips[1:]), 3),
                round(max(self.flips[1:]), 3),
            ],
            "changes of method": self.changes,
            "state bytes per item, most": round(max(self.state_bytes) / last["items"], 1),
            f"iterations of {NAMED}, warm and cold": {
                n: [row["warm"], row["cold"]] for n, row in self.named.items()
            },
        }


def simulated_year(
    folder: Path,
    *,
    nights: int,
    per_night: int,
    cold_on: Sequence[int],
    workers: int = 300,
    aggregator: str | None = None,
    seed: int = 1,
    tell: bool = False,
) -> Year:
    """Run the nights; on those of `cold_on` also cold, and with a named method warm and cold."""
    total = nights * per_night
    items = total // 5
    crowd = simulate(
        Simulation(
            workers=workers, items=items, classes=4, answers_per_item=5, accuracy=0.6, seed=seed
        )
    )
    random = np.random.default_rng(seed)
    when = crowd.item * (nights / items) + random.exponential(DELAY_NIGHTS, len(crowd.item))
    table = pa.table(answer_columns(crowd)).take(pa.array(np.argsort(when, kind="stable")))
    truth, answers = folder / "truth.csv", folder / "answers.csv"
    arrow_csv.write_csv(pa.table(truth_columns(crowd)), truth)
    method = [] if aggregator is None else ["--aggregator", aggregator]
    year = Year(nights, total)
    for night in range(1, nights + 1):
        nightly.clock = partial(float, FIRST_NIGHT + night * DAY)
        arrow_csv.write_csv(table.slice(0, night * per_night), answers)
        words = ["--truth", str(truth), *method]
        warm = ["--state", str(folder / "state"), "--fail-if", "flips<0"]
        seconds, record = _aggregate(answers, folder / "labels.csv", *words, *warm)
        year.warm_seconds.append(seconds)
        year.flips.append(record["figures"]["flips"])
        year.state_bytes.append(state.size(folder / "state"))
        chosen: list[str] = (record["selection"] or {"chosen": [str(aggregator)]})["chosen"]
        year.methods.append(", ".join(sorted(chosen)))
        if night in cold_on:
            seconds, cold = _aggregate(answers, folder / "cold.csv", *words)
            year.cold[night] = {
                "seconds": seconds,
                "error": cold["figures"]["error"],
                "warm_error": record["figures"]["error"],
                "items": cold["figures"]["items"],
                "differ": _differing(folder / "labels.csv", folder / "cold.csv"),
            }
            year.named[night] = _named(folder, table, night, per_night)
        if tell:
            print(
                f"night {night}: {year.warm_seconds[-1]:.2f} s, flips {year.flips[-1]:.2f} %, "
                f"{year.methods[-1]}, {year.cold.get(night, '')} {year.named.get(night, '')}",
                file=sys.stderr,
                flush=True,
            )
    return year


def _named(folder: Path, table: pa.Table, night: int, per_night: int) -> dict[str, float]:
    """Iterations of a named method on this night, warm from the night before and cold."""
    answers, place = folder / "named_answers.csv", folder / f"named-{night}"
    counts = {}
    words = ["--aggregator", NAMED, "--no-calibrate"]
    arrow_csv.write_csv(table.slice(0, (night - 1) * per_night), answers)
    _aggregate(answers, folder / "named.csv", *words, "--state", str(place))
    arrow_csv.write_csv(table.slice(0, night * per_night), answers)
    for name, more in (("warm", ["--state", str(place)]), ("cold", [])):
        _, record = _aggregate(answers, folder / "named.csv", *words, *more)
        counts[name] = record["iterations"][NAMED]
    return counts


def _aggregate(answers: Path, labels: Path, *words: str) -> tuple[float, dict[str, Any]]:
    """Processor seconds and run.json of one run."""
    before = os.times()
    code = run(["aggregate", str(answers), "-o", str(labels), "--quiet", *words])
    after = os.times()
    if code != 0:
        raise SystemExit(f"misc aggregate {' '.join(words)} ended with {code}")
    record: dict[str, Any] = json.loads(labels.with_suffix(".run.json").read_text())
    return sum(after[:4]) - sum(before[:4]), record


def _differing(one: Path, other: Path) -> int:
    tables = [arrow_csv.read_csv(path) for path in (one, other)]
    labels = [table["label"].to_pylist() for table in tables]
    return sum(a != b for a, b in zip(*labels, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nights", type=int, default=365)
    parser.add_argument("--per-night", type=int, default=2000)
    parser.add_argument("--cold-on", default="1,30,100,150,200,250,300,365")
    parser.add_argument("--since", type=int, default=100)
    parser.add_argument("--aggregator")
    parser.add_argument("--output", type=Path, default=Path("benchmarks/out/nightly.json"))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        year = simulated_year(
            Path(folder),
            nights=given.nights,
            per_night=given.per_night,
            cold_on=[int(night) for night in given.cold_on.split(",")],
            aggregator=given.aggregator,
            tell=True,
        )
    summary = year.summary(given.since)
    given.output.parent.mkdir(parents=True, exist_ok=True)
    given.output.write_text(json.dumps({"summary": summary, "year": asdict(year)}, indent=1))
    for name, value in summary.items():
        print(f"{name:<40} {value}")


if __name__ == "__main__":
    main()
