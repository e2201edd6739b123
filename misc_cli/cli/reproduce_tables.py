"""What `misc reproduce` prints and writes: our figures beside the paper's."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from misc_cli.run.settings import NO_COMPLETER

if TYPE_CHECKING:
    from misc_cli.cli.text_table import Table
    from misc_cli.paper.sparse_noisy import Point
    from misc_cli.paper.table import CellResult


def of_results(results: Sequence[CellResult]) -> list[Table]:
    """One table per dataset, rows by completer: ours, then the paper's."""
    from misc_cli.cli.text_table import Table
    from misc_cli.paper.datasets import get

    aggregators = list(dict.fromkeys(result.cell.aggregator for result in results))
    shown = []
    for name in dict.fromkeys(result.cell.dataset for result in results):
        rows = []
        own = [result for result in results if result.cell.dataset == name]
        for completer in dict.fromkeys(result.cell.completer for result in own):
            line = [result for result in own if result.cell.completer == completer]
            rows.append((_row_name(completer), "ours", [r.ours for r in line]))
            if any(r.auto is not None for r in line):
                rows.append(
                    ("", "auto", [float("nan") if r.auto is None else r.auto for r in line])
                )
            rows.append(("", "paper", [r.paper for r in line]))
        size = get(name)
        title = f"{name}: {size.workers} workers, {size.items} items, {size.classes} classes"
        cells = [
            (first, which, *(f"{value:.2f}" for value in values)) for first, which, values in rows
        ]
        shown.append(Table(title, ("error, %", "", *aggregators), cells, left=2))
    return [*shown, Table("Ours against the paper's", notes=verdicts(results))]


def _row_name(completer: str) -> str:
    return "pure" if completer == NO_COMPLETER else completer


def verdicts(results: Sequence[CellResult]) -> list[str]:
    """How many cells of each completer are at the paper's figure or below, how far the others."""

    lines = []
    for completer in dict.fromkeys(result.cell.completer for result in results):
        own = [result for result in results if result.cell.completer == completer]
        reached = sum(result.reached for result in own)
        worst = max(own, key=lambda result: result.ours - result.paper)
        line = f"{_row_name(completer)}: {reached} of {len(own)} at or below"
        if not worst.reached:
            cell = f"{worst.cell.dataset} {worst.cell.aggregator}"
            line += f", the others at most {worst.ours - worst.paper:.2f} points above ({cell})"
        lines.append(line)
    return lines


def columns_of_results(results: Sequence[CellResult]) -> dict[str, Any]:
    import numpy as np
    import pyarrow as pa

    names = ("dataset", "completer", "aggregator")
    texts = {name: pa.array([getattr(r.cell, name) for r in results]) for name in names}
    judged = any(r.auto is not None for r in results)
    auto = np.array([float("nan") if r.auto is None else r.auto for r in results])
    return {
        **texts,
        "paper": np.array([r.paper for r in results]),
        "ours": np.array([r.ours for r in results]),
        **({"auto": auto} if judged else {}),
        "seconds": np.array([r.seconds for r in results]),
        "options": pa.array([json.dumps(dict(r.options)) for r in results]),
    }


def of_points(points: Sequence[Point]) -> list[Table]:
    """One table per noise: mean ± standard deviation over the seeds."""
    from misc_cli.cli.text_table import Table
    from misc_cli.paper.sparse_noisy import TITLES

    rates = list(dict.fromkeys(point.error_rate for point in points))
    header = ("error, %", "", *(f"{100 * rate:.1f}" for rate in rates))
    shown = []
    for noise in dict.fromkeys(point.noise for point in points):
        own = [point for point in points if point.noise == noise]
        rows = []
        for key in dict.fromkeys((point.aggregator, point.strategy) for point in own):
            curve = [p for p in own if (p.aggregator, p.strategy) == key]
            how = "pure" if key[1] == "pure" else f"tucker, {key[1]}"
            rows.append((key[0], how, *(f"{p.mean:.1f} ± {p.deviation:.1f}" for p in curve)))
        shown.append(Table(TITLES[noise], header, rows, left=2))
    return shown


def columns_of_points(points: Sequence[Point]) -> dict[str, Any]:
    import numpy as np
    import pyarrow as pa

    names = ("noise", "aggregator", "strategy")
    texts = {name: pa.array([getattr(point, name) for point in points]) for name in names}
    return {
        **texts,
        "error_rate": np.array([100 * point.error_rate for point in points]),
        "mean": np.array([point.mean for point in points]),
        "deviation": np.array([point.deviation for point in points]),
        "seeds": np.array([len(point.errors) for point in points]),
    }
