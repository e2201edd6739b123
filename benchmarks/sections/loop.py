"""Measure the completion loop with its aggregator."""

from __future__ import annotations

import json

from measure import Run, run, seconds, table

from sections.bench import NAMES, Bench

PASSES = 5
SIZES = (100_000, 1_000_000)


def misc_loop(bench: Bench) -> str:
    """tucker (5,10,5) + ds-em at 100 thousand and 1 million answers."""
    # the paper's last step, which holds the completed matrix, is the heavy one
    loop = ("--completer", "tucker", "--aggregator", "ds-em", "--ranks", "5,10,5")
    options = (*loop, "--passes", str(PASSES), "--final", "completed")
    rows: list[list[str]] = []
    found: dict[int, Run] = {}
    for n_answers in (size for size in SIZES if size in bench.sizes):
        found[n_answers] = measured = run(bench.ours("misc", bench.answers(n_answers), *options))
        made = json.loads((bench.out / "ours.run.json").read_text())["loop"]["passes"]
        spent = [measured.wall, measured.inner["fit"], measured.cpu]
        cells = [str(made), *map(seconds, spent), f"{measured.peak_mib:,.0f}"]
        rows.append([NAMES[n_answers], *cells])
    if len(found) == len(SIZES):
        small, large = (found[size] for size in SIZES)
        growth = large.inner["fit"] / small.inner["fit"]
        bench.promise(
            f"1 M answers, tucker (5,10,5) + ds-em, {PASSES} passes: under 180 s and 6 GiB, "
            "at most 15 times the fit of 100 k",
            f"{seconds(large.wall)} s, {large.peak_mib:,.0f} MiB, {growth:.1f}×",
            large.wall < 180 and large.peak_mib < 6 * 1024 and growth <= 15,
        )
    return table(
        ["answers", "passes", "start to exit, s", "fit alone, s", "CPU, s", "peak, MiB"], rows
    )
