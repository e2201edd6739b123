"""Seconds of the fit and peak memory by size, for every method, with the exponent."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from measure import Failed, Run, best, run, say, seconds, table

from misc_cli import registry
from sections.bench import NAMES, TWENTY, Bench

THREE = ("-p", "completer-tol=0", "-p", "completer-max-iter=3")
# a fixed amount of work per method, so that times compare sizes and not stopping rules
WORK: Mapping[str, Sequence[str]] = {
    "mv": (),
    "mmce-c": ("--tol", "0", "--max-iter", "1"),
    "mmce-o": ("--tol", "0", "--max-iter", "1", "--class-order", "c1,c2,c3,c4,c5"),
    "ebcc": (*TWENTY, "-p", "restarts=1"),
    "none": (),
    "tucker": ("--ranks", "3,5,5", "--passes", "1"),
    "tenals": ("--cp-rank", "5", "--passes", "1", *THREE),
    "lrtc": ("--passes", "1", *THREE),
}


def growth(bench: Bench) -> str:
    """Seconds of the fit and peak memory by size, for every method, with the exponent."""
    aggregators = [(name, "none", name) for name in registry.names("aggregator")]
    completers = [(name, name, "mv") for name in registry.names("completer") if name != "none"]
    time_rows, memory_rows = [], []
    for name, completer, aggregator in [*aggregators, *completers]:
        say(f"growth of {name}")
        options = ("--completer", completer, "--aggregator", aggregator, "--no-calibrate")
        runs = _sizes(bench, [*options, *WORK.get(name, TWENTY)])
        spent = {size: measured.inner["fit"] for size, measured in runs.items()}
        memory = {size: measured.peak_mib for size, measured in runs.items()}
        whole = {size: measured.wall for size, measured in runs.items()}
        factors = [_factor(spent), _factor(whole)]
        time_rows.append(
            [name, *(_cell(spent, size) for size in bench.sizes), *factors, exponent(spent)]
        )
        memory_rows.append([name, *(_cell(memory, size, "{:,.0f}") for size in bench.sizes)])
        if name in ("mv", "ds-em", "ds-mf", "mmce-c") and 10_000_000 in bench.sizes:
            done = 10_000_000 in whole
            bench.promise(
                f"{name}, 1 M → 10 M answers, start to exit: at most 12 times the time",
                f"{factors[1]}, the fit alone {factors[0]}" if done else "stopped",
                done and whole[10_000_000] <= 12 * whole[1_000_000],
            )
    sizes = [NAMES[size] for size in bench.sizes]
    return (
        table(["fit, s", *sizes, "last tenfold: fit", "start to exit", "exponent"], time_rows)
        + "\n"
        + table(["peak, MiB", *sizes], memory_rows)
    )


def _sizes(bench: Bench, options: Iterable[str]) -> dict[int, Run]:
    """Run one method from small to large, until the next size would exceed the cap."""
    runs: dict[int, Run] = {}
    expected = 0.0
    for size in bench.sizes:
        if expected > bench.growth_cap:
            break
        case = bench.ours("misc", bench.answers(size), *options, cap=2 * bench.growth_cap)
        try:
            done = [run(case)]
        except Failed as reason:
            say(f"{NAMES[size]}: {reason}")
            break
        if done[0].capped:
            break
        repeats = bench.repeats if bench.patient else 1
        while len(done) < repeats and sum(each.wall for each in done) < 30:
            done.append(run(case))
        runs[size] = best(done)
        say(f"{NAMES[size]}: {runs[size].inner['fit']:.3f} s")
        expected = 10 * runs[size].inner["fit"]
    return runs


def _cell(values: Mapping[int, float], size: int, form: str | None = None) -> str:
    if size not in values:
        return "–"
    return seconds(values[size]) if form is None else form.format(values[size])


def _factor(spent: Mapping[int, float]) -> str:
    sizes = sorted(spent)
    return f"{spent[sizes[-1]] / spent[sizes[-2]]:.1f}×" if len(sizes) > 1 else "–"


def exponent(spent: Mapping[int, float]) -> str:
    """Return the slope of log seconds over log answers, from 100 k on."""
    points = [(math.log(n), math.log(t)) for n, t in spent.items() if n >= 100_000]
    if len(points) < 2:
        return "–"
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points)
    return f"{slope / sum((x - mean_x) ** 2 for x, _ in points):.2f}"
