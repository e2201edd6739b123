"""A simulated year of nights: `make bench-nightly`, and a small one in the tests.

Every night some answers arrive as one more file in a folder of exports (or, with --one-file, at the
end of one file), items trickle in over a few nights. The export is labelled warm (with --state)
every night and cold on some nights, both by the command line in this process, so that what is
measured is what a cron job pays but for the start of Python. On those nights a named method runs
warm and cold, too. Seconds are of the processor, children included: other work on the machine
hardly moves them. Prints one table in Markdown.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
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
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from misc_cli.__main__ import run
from misc_cli.simulate import Simulation, answer_columns, simulate, truth_columns
from misc_cli.state import session

DAY = 86400.0
FIRST_NIGHT = 1_700_000_000.0
DELAY_NIGHTS = 2.0  # mean time that an answer comes after its item
NAMED = "ds-em"


@dataclass
class Year:
    """Figures of a year; lists are by night, dictionaries by the nights that also ran cold.

    named  of the named method, by "warm" and "cold": iterations, seconds, error
    """

    nights: int
    answers: int
    warm_seconds: list[float] = field(default_factory=list)
    flips: list[float] = field(default_factory=list)
    state_bytes: list[int] = field(default_factory=list)
    methods: list[str] = field(default_factory=list)
    whys: list[str] = field(default_factory=list)
    cold: dict[int, dict[str, float]] = field(default_factory=dict)
    named: dict[int, dict[str, dict[str, float]]] = field(default_factory=dict)

    @property
    def changes(self) -> int:
        """Count the nights whose methods differ from those of the night before."""
        return sum(a != b for a, b in zip(self.methods, self.methods[1:], strict=False))

    def ratio(self, night: int) -> float:
        """Return how many times faster the warm run of a night was than the cold one."""
        return self.cold[night]["seconds"] / max(self.warm_seconds[night - 1], 1e-9)

    def table(self, since: int) -> list[tuple[str, str, str]]:
        """Return each measure with its target and the figure found."""
        late = [night for night in self.cold if night >= since]
        last = self.cold[max(self.cold)]
        cold_nights = statistics.fmean(self.cold[night]["seconds"] for night in late)
        flips = self.flips[since - 1 :]
        choices = [n + 1 for n, why in enumerate(self.whys) if why.startswith("chosen")]
        rows = [
            ("nights, answers", "365, 730,000", f"{self.nights}, {self.answers:,}"),
            (
                "seconds of all nights, warm",
                "",
                f"{sum(self.warm_seconds):.0f} (nights that chose methods: "
                f"{sum(self.warm_seconds[n - 1] for n in choices):.0f})",
            ),
            (
                f"seconds of a night from {since} on, warm and cold",
                "",
                f"{statistics.fmean(self.warm_seconds[since - 1 :]):.2f}, {cold_nights:.2f}",
            ),
            *(
                (
                    f"night {night}: warm, cold, times faster",
                    ">= 5 times",
                    f"{self.warm_seconds[night - 1]:.2f} s, {self.cold[night]['seconds']:.2f} s, "
                    f"{self.ratio(night):.1f} times",
                )
                for night in late
            ),
            (
                "error on the last night, warm and cold, %",
                "within 0.1",
                f"{last['warm_error']:.3f}, {last['error']:.3f}",
            ),
            (
                "labels of the last night that differ from a cold run's",
                "",
                f"{last['differ']:,.0f} of {last['items']:,.0f}",
            ),
            (
                f"flips per night from {since} on, mean and most, %",
                "",
                f"{statistics.fmean(flips):.2f}, {max(flips):.2f}",
            ),
            ("changes of method", "<= 3", f"{self.changes}"),
            (
                "nights that chose, and what",
                "",
                "; ".join(f"{n}: {self.methods[n - 1]}" for n in choices),
            ),
            (
                "state, most bytes per answer",
                "bounded",
                f"{self.most_bytes(since):.1f}",
            ),
        ]
        for night, runs in self.named.items():
            warm, cold = runs["warm"], runs["cold"]
            rows.append(
                (
                    f"night {night}, {NAMED}: iterations warm, cold; seconds; errors",
                    "<= half",
                    f"{warm['iterations']:.0f}, {cold['iterations']:.0f}; {warm['seconds']:.2f}, "
                    f"{cold['seconds']:.2f}; {warm['error']:.3f}, {cold['error']:.3f}",
                )
            )
        return rows

    def most_bytes(self, since: int) -> float:
        """Return the most bytes of the state per answer so far."""
        per_night = self.answers / self.nights
        sizes = enumerate(self.state_bytes, start=1)
        return max(size / (per_night * night) for night, size in sizes if night >= since)


class Exports:
    """The place where answers arrive: one more file of a folder, or the end of one file."""

    def __init__(self, place: Path, table: pa.Table, per_night: int, one_file: bool) -> None:
        self.place = place
        self.table = table
        self.per_night = per_night
        self.one_file = one_file
        place.mkdir()

    def arrive(self, night: int) -> None:
        """Append the answers of one night to those of the nights before."""
        if self.one_file:
            arrow_csv.write_csv(self.table.slice(0, night * self.per_night), self.place / "all.csv")
            return
        rows = self.table.slice((night - 1) * self.per_night, self.per_night)
        arrow_csv.write_csv(rows, self.place / f"night{night:04}.csv")


def simulated_year(
    folder: Path,
    *,
    nights: int,
    per_night: int,
    cold_on: Sequence[int],
    workers: int = 300,
    aggregator: str | None = None,
    one_file: bool = False,
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
    truth = folder / "truth.csv"
    arrow_csv.write_csv(pa.table(truth_columns(crowd)), truth)
    exports = Exports(folder / "exports", table, per_night, one_file)
    method = [] if aggregator is None else ["--aggregator", aggregator]
    year = Year(nights, total)
    for night in range(1, nights + 1):
        session.clock = partial(float, FIRST_NIGHT + night * DAY)
        if night in cold_on:  # the named method's night before
            _named(folder, exports.place, truth, "before")
        exports.arrive(night)
        state_folder = folder / "state"
        warm = [*method, "--state", str(state_folder), "--fail-if", "flips<0"]
        seconds, record = _aggregate(exports.place, folder / "labels.csv", *warm)
        year.warm_seconds.append(seconds)
        year.flips.append(record["figures"]["flips"])
        year.state_bytes.append(sum(path.stat().st_size for path in state_folder.glob("*.*")))
        chosen: list[str] = (record["selection"] or {"chosen": [str(aggregator)]})["chosen"]
        year.methods.append(", ".join(sorted(chosen)))
        year.whys.append(record["state"]["methods"])
        if night in cold_on:
            seconds, cold = _aggregate(exports.place, folder / "cold.csv", *method)
            year.cold[night] = {
                "seconds": seconds,
                "error": _error(folder / "cold.csv", truth),
                "warm_error": _error(folder / "labels.csv", truth),
                "items": cold["figures"]["items"],
                "differ": _differing(folder / "labels.csv", folder / "cold.csv"),
            }
            runs = {how: _named(folder, exports.place, truth, how) for how in ("warm", "cold")}
            year.named[night] = runs
        if tell:
            print(
                f"night {night}: {year.warm_seconds[-1]:.2f} s, flips {year.flips[-1]:.2f} %, "
                f"{year.methods[-1]} ({year.whys[-1]}) {year.cold.get(night, '')} "
                f"{year.named.get(night, '')}",
                file=sys.stderr,
                flush=True,
            )
    return year


def _named(folder: Path, exports: Path, truth: Path, how: str) -> dict[str, float]:
    """Run a named method on tonight's answers, with its own state unless cold."""
    labels = folder / "named.csv"
    words = ["--aggregator", NAMED]
    if how == "before":
        if not any(exports.iterdir()):
            return {}
        shutil.rmtree(folder / "named-state", ignore_errors=True)
    if how != "cold":
        words += ["--state", str(folder / "named-state"), "--fail-if", "flips<0"]
    seconds, record = _aggregate(exports, labels, *words)
    iterations = record["iterations"][NAMED]
    return {"iterations": iterations, "seconds": seconds, "error": _error(labels, truth)}


def _aggregate(exports: Path, labels: Path, *words: str) -> tuple[float, dict[str, Any]]:
    """Return processor seconds and run.json of one run."""
    before = os.times()
    code = run(["aggregate", str(exports), "-o", str(labels), "--quiet", *words])
    after = os.times()
    if code != 0:
        raise SystemExit(f"misc aggregate {' '.join(words)} ended with {code}")
    record: dict[str, Any] = json.loads(labels.with_suffix(".run.json").read_text())
    return sum(after[:4]) - sum(before[:4]), record


def _error(labels: Path, truth: Path) -> float:
    """Return the per cent of wrong labels; only this function reads the truth, never a run."""
    found, known = (arrow_csv.read_csv(path) for path in (labels, truth))
    where = pc.index_in(found["item"], known["item"].combine_chunks())
    wrong = pc.not_equal(found["label"], known["label"].take(where))
    return 100.0 * float(pc.mean(wrong.cast(pa.float64())).as_py())


def _differing(one: Path, other: Path) -> int:
    tables = [arrow_csv.read_csv(path) for path in (one, other)]
    labels = [table["label"].to_pylist() for table in tables]
    return sum(a != b for a, b in zip(*labels, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nights", type=int, default=365)
    parser.add_argument("--per-night", type=int, default=2000)
    parser.add_argument("--cold-on", default="100,200,300,365")
    parser.add_argument("--since", type=int, default=100)
    parser.add_argument("--one-file", action="store_true", help="one file that grows at its end")
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
            one_file=given.one_file,
            tell=True,
        )
    given.output.parent.mkdir(parents=True, exist_ok=True)
    given.output.write_text(json.dumps(asdict(year), indent=1))
    rows = [("what", "asked", "measured"), ("---",) * 3, *year.table(given.since)]
    print("\n".join(f"| {' | '.join(row)} |" for row in rows))


if __name__ == "__main__":
    main()
