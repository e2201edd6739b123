"""Measure the default, `misc aggregate answers.csv`, also under a time budget."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from measure import Run, in_turn, run, say, seconds, table

from sections.bench import HERE, Bench

SHARED = HERE.parent.parent / "shared"
CROWD_KIT = "crowd-kit's DawidSkene"


@dataclass(frozen=True)
class Row:
    """Some answers and the limits of seconds and MiB for them."""

    name: str
    file: Path | None
    most: float | None = None
    most_mib: float | None = None
    beside: bool = False  # crowd-kit


def default(bench: Bench) -> str:
    """Measure wall clock, processor time and peak memory of the automatic choice."""
    rows = []
    for row in (
        Row("100 k simulated", simulated(bench, 600, 20_000), 10.0),
        Row("200 k simulated", simulated(bench, 900, 40_000), 15.0),
        Row("1 M simulated", simulated(bench, 2_000, 200_000), 25.0, beside=True),
        Row("relevance, 97 k", shared("relevance"), 15.0),
        Row("web, 16 k", shared("web")),
        Row("200 k by 37,000 workers", many_workers(bench), 30.0, 600.0),
    ):
        if row.file is None:
            rows.append([row.name, "misc", *["not measured: no ../shared"], *[""] * 5])
            continue
        rows += _measured(bench, row, row.file)
    header = ["answers", "tool", "start to exit, s", "CPU, s", "peak, MiB", "at most, s"]
    header += ["announced, s", "chosen"]
    note = (
        "\nCPU and memory with all child processes (memory: their proportional set sizes, added "
        "up ten times a second). crowd-kit makes 20 iterations, reading and writing included.\n"
    )
    return table(header, rows) + note


def _measured(bench: Bench, row: Row, file: Path) -> list[list[str]]:
    say(f"default, {row.name}")
    log = ("--log-format", "json", "--log-file", str(bench.out / "ours.log"))
    cases = [bench.ours("misc", file, *log, with_children=True)]
    if row.beside:
        cases.append(bench.script(CROWD_KIT, "peers.py", "crowdkit-ds", file))
    runs = in_turn(cases, min(bench.repeats, 2))
    ours = runs["misc"]
    kept = row.most is None or ours.wall <= row.most
    if row.most is not None:
        took = f"{seconds(ours.wall)} s"
        bench.promise(f"default, {row.name}: at most {row.most:.0f} s", took, kept)
    if row.most_mib is not None:
        promise = f"default, {row.name}: at most {row.most_mib:.0f} MiB"
        bench.promise(promise, f"{ours.peak_mib:,.0f} MiB", ours.peak_mib <= row.most_mib)
    if row.beside:
        ratio = ours.wall / runs[CROWD_KIT].wall
        promise = f"default, {row.name}: at most 1.5 times {CROWD_KIT}"
        bench.promise(promise, f"{ratio:.2f}×", ratio <= 1.5)
    limit = "" if row.most is None else f"{row.most:.0f}"
    told = f"{_announced(bench):.1f}"
    lines = [[row.name, "misc", *_figures(ours), limit, told, _chosen(bench)]]
    for tool, measured in list(runs.items())[1:]:
        lines.append([row.name, tool, *_figures(measured), "", "", ""])
    return lines


def budget(bench: Bench) -> str:
    """Check that `--time-budget T` ends within 1.1 T + 2 s, reading included."""
    jobs: Sequence[tuple[str, Path | None, Sequence[float]]] = (
        ("1 M simulated", simulated(bench, 2_000, 200_000), (0.5, 2.0, 5.0, 20.0)),
        ("relevance, 97 k", shared("relevance"), (3.0, 5.0, 10.0)),
        ("web, 16 k", shared("web"), (2.0, 5.0)),
        # long fits of ebcc, mmce-c and tucker: 8 classes, near the most work they are tried on
        ("25 k in 5 classes", simulated(bench, 150, 5_000), (2.0, 4.0, 8.0)),
        ("55 k in 8 classes", simulated(bench, 300, 11_000, classes=8), (3.0, 6.0)),
    )
    rows = []
    for name, file, budgets in jobs:
        if file is None:
            rows.append([name, "not measured: no ../shared", *[""] * 6])
            continue
        for most in budgets:
            say(f"budget of {most:g} s, {name}")
            case = bench.ours("misc", file, "--time-budget", f"{most:g}s")
            took = run(case)
            allowed = 1.1 * most + 2.0
            kept = took.wall <= allowed
            figures = json.loads((bench.out / "ours.run.json").read_text())["figures"]
            rows.append(
                [
                    name,
                    f"{most:g}",
                    seconds(took.wall),
                    f"{took.wall / most:.2f}",
                    seconds(took.cpu),
                    f"{allowed:.1f}",
                    "yes" if figures["cut-short"] else "no",
                    _chosen(bench),
                ]
            )
            promise = f"--time-budget {most:g}s, {name}: at most {allowed:.1f} s"
            bench.promise(promise, f"{seconds(took.wall)} s", kept)
    header = ["answers", "T, s", "start to exit, s", "÷ T", "CPU, s", "allowed, s", "cut short"]
    return table([*header, "chosen"], rows)


def simulated(bench: Bench, workers: int, items: int, classes: int = 5) -> Path:
    """Simulate a file with 5 answers per item, seed 7."""
    name = f"seed7-{workers}-{items}-{classes}"
    crowd = ("--workers", workers, "--items", items, "--classes", classes, "--seed", 7)
    return bench.simulated(name, *crowd)


def many_workers(bench: Bench) -> Path:
    """Simulate 200,000 answers of some 37,000 workers; 87 % of them gave 1 to 10."""
    crowd = ("--workers", 40_300, "--items", 40_000, "--classes", 4, "--seed", 7)
    return bench.simulated("many-workers", *crowd, "--activity-skew", 0.8)


def shared(name: str) -> Path | None:
    """Return the answers of a public set beside this checkout, if they are there."""
    return next(SHARED.glob(f"datasets*/{name}/answers.csv"), None)


def _figures(measured: Run) -> list[str]:
    return [seconds(measured.wall), seconds(measured.cpu), f"{measured.peak_mib:,.0f}"]


def _announced(bench: Bench) -> float:
    """What the last run said that it would take."""
    events = [json.loads(line) for line in (bench.out / "ours.log").read_text().splitlines()]
    costs = [float(event["seconds"]) for event in events if event.get("event") == "cost"]
    return costs[-1]


def _chosen(bench: Bench) -> str:
    selection = json.loads((bench.out / "ours.run.json").read_text()).get("selection") or {}
    chosen = selection.get("chosen", [])
    more = f" and {len(chosen) - 3} others" if len(chosen) > 3 else ""
    return ", ".join(chosen[:3]) + more
