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
class Size:
    """A simulated crowd, and the most processor seconds and the most times `--fast` for it."""

    name: str
    workers: int
    items: int
    classes: int
    most: float | None
    most_ratio: float | None


SIZES = (
    Size("2 k", 60, 400, 4, 1.2, 2.0),
    Size("10 k", 200, 2_000, 4, 2.0, 3.5),
    Size("20 k", 600, 4_000, 4, 2.5, 4.0),
    Size("100 k", 2_000, 20_000, 4, 3.5, 4.0),
    Size("10 k, 2,000 workers, 8 classes", 2_000, 2_000, 8, 8.0, None),
    Size("1 M", 2_000, 200_000, 4, None, None),
)
MOST_OF_SETS = {"web": 10.0, "cf": 5.0}
MOST_OF_ALL_SETS = 50.0


def default(bench: Bench) -> str:
    """Measure the processor time of the default by size, beside `--fast` and another checkout."""
    rows = []
    for size in SIZES:
        say(f"default, {size.name}")
        file = simulated(bench, size.workers, size.items, size.classes)
        cases = [bench.ours("misc", file), bench.ours("--fast", file, "--fast")]
        if bench.against is not None:
            cases.append(bench.before("before", file))
        runs = in_turn(cases, bench.repeats)
        ours, fast = runs["misc"], runs["--fast"]
        ratio = ours.cpu / fast.cpu
        before = runs["before"].cpu if bench.against is not None else None
        cells = [seconds(ours.cpu), seconds(fast.cpu), f"{ratio:.2f}×"]
        cells += ["" if before is None else seconds(before)]
        limit = "" if size.most is None else f"{size.most:g}"
        rows.append([size.name, *cells, limit, seconds(ours.wall), f"{ours.peak_mib:,.0f}"])
        if size.most is not None:
            promise = f"default, {size.name}: at most {size.most:g} processor seconds"
            bench.promise(promise, seconds(ours.cpu), ours.cpu <= size.most)
        if size.most_ratio is not None:
            promise = f"default, {size.name}: at most {size.most_ratio:g} times --fast"
            bench.promise(promise, f"{ratio:.2f}×", ratio <= size.most_ratio)
    header = ["answers", "default, CPU s", "--fast, CPU s", "ratio", "before, CPU s"]
    sizes = table([*header, "at most, CPU s", "start to exit, s", "peak, MiB"], rows)
    return f"{sizes}\n{_on_shared_sets(bench)}\n{_beside_crowd_kit(bench)}"


def _on_shared_sets(bench: Bench) -> str:
    """Measure the default on every public set beside this checkout."""
    files = sorted(SHARED.glob("datasets*/*/answers.csv"))
    if not files:
        return "The public sets were not measured: there is no ../shared.\n"
    rows, sums = [], [0.0, 0.0]
    for file in files:
        name = file.parent.name
        say(f"default, {name}")
        cases = [bench.ours("misc", file)]
        if bench.against is not None:
            cases.append(bench.before("before", file))
        runs = in_turn(cases, min(bench.repeats, 2))
        cpu = [run.cpu for run in runs.values()]
        sums = [old + new for old, new in zip(sums, [*cpu, 0.0], strict=False)]
        rows.append([name, *map(seconds, cpu), *[""] * (2 - len(cpu)), _chosen(bench)])
        if name in MOST_OF_SETS:
            promise = f"default, {name}: at most {MOST_OF_SETS[name]:g} processor seconds"
            bench.promise(promise, seconds(cpu[0]), cpu[0] <= MOST_OF_SETS[name])
    promise = f"default, {len(files)} public sets: at most {MOST_OF_ALL_SETS:g} processor seconds"
    bench.promise(promise, seconds(sums[0]), sums[0] <= MOST_OF_ALL_SETS)
    rows.append(["all", seconds(sums[0]), seconds(sums[1]) if sums[1] else "", ""])
    return table(["set", "default, CPU s", "before, CPU s", "chosen"], rows)


def _beside_crowd_kit(bench: Bench) -> str:
    """Measure a million answers beside crowd-kit, and many workers with few answers each."""
    rows = []
    million = simulated(bench, 2_000, 200_000)
    cases = [
        bench.ours("misc", million, with_children=True),
        bench.script(CROWD_KIT, "peers.py", "crowdkit-ds", million),
    ]
    runs = in_turn(cases, min(bench.repeats, 2))
    rows += [["1 M", tool, *_figures(measured)] for tool, measured in runs.items()]
    ratio = runs["misc"].wall / runs[CROWD_KIT].wall
    promise = f"default, 1 M: at most 1.5 times {CROWD_KIT}"
    bench.promise(promise, f"{ratio:.2f}×", ratio <= 1.5)
    many = run(bench.ours("misc", many_workers(bench), with_children=True))
    rows.append(["200 k by 37,000 workers", "misc", *_figures(many)])
    promise = "default, 200 k by 37,000 workers: at most 600 MiB"
    bench.promise(promise, f"{many.peak_mib:,.0f} MiB", many.peak_mib <= 600.0)
    note = (
        "\nMemory with all child processes (proportional set sizes, added up ten times a second). "
        "crowd-kit makes 20 iterations, reading and writing included.\n"
    )
    return table(["answers", "tool", "start to exit, s", "CPU, s", "peak, MiB"], rows) + note


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


def _chosen(bench: Bench) -> str:
    selection = json.loads((bench.out / "ours.run.json").read_text()).get("selection") or {}
    chosen = selection.get("chosen", [])
    more = f" and {len(chosen) - 3} others" if len(chosen) > 3 else ""
    return ", ".join(chosen[:3]) + more
