"""Every parameter of every method as a flag: one row here, one dataclass field there.

A flag's name is its field's (`--max-iter`, `max_iter`). Defaults are said as the robust preset has
them, the most common value first; a test compares them with the fields, which nothing here loads.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import click

from misc_cli.cli.parameters import NumberOr, Numbers
from misc_cli.core.limits import CHOICES

AGGREGATOR = "Aggregator (each takes some of these)"
COMPLETER = "Completer and loop (each completer takes some of these)"

COUNT = click.IntRange(min=1)
SEED = click.IntRange(min=0)
WEIGHT = click.FloatRange(min=0.0)
POSITIVE = click.FloatRange(min=0.0, min_open=True)


class Row(NamedTuple):
    section: str
    type: Any
    metavar: str
    text: str
    default: str

    @property
    def help(self) -> str:
        return f"{self.text} [default: {self.default}]"


METHOD_OPTIONS: dict[str, Row] = {
    "tol": Row(
        AGGREGATOR,
        WEIGHT,
        "X",
        "Stop when posteriors move less than this; 0 runs all iterations.",
        "0.001; mmce-c, mmce-o 0.005",
    ),
    "max-iter": Row(AGGREGATOR, COUNT, "N", "Iterations at most.", "100; ebcc 500"),
    "class-prior": Row(
        AGGREGATOR,
        click.Choice(CHOICES["class_prior"]),
        "estimated|uniform",
        "How common the classes are taken to be.",
        "estimated; one-coin uniform",
    ),
    "shrinkage": Row(
        AGGREGATOR, WEIGHT, "X", "Pseudo-answers that pull a worker towards the crowd.", "2; ebcc 4"
    ),
    "diagonal": Row(AGGREGATOR, WEIGHT, "X", "Pseudo-answers on the true class.", "0.1; ebcc 2"),
    "off-diagonal": Row(
        AGGREGATOR, WEIGHT, "X", "Pseudo-answers on every other class.", "0.01; ebcc 0.5"
    ),
    "regularization": Row(
        AGGREGATOR,
        NumberOr("auto"),
        "X|auto",
        "mmce: multiple of both weights; auto picks by cross-validated likelihood.",
        "1",
    ),
    "worker-regularization": Row(AGGREGATOR, POSITIVE, "X", "mmce: weight of workers.", "0.0625"),
    "item-regularization": Row(
        AGGREGATOR, POSITIVE, "X", "mmce: weight of items, relative to the workers'.", "4"
    ),
    "center": Row(
        AGGREGATOR,
        click.Choice(CHOICES["center"]),
        "crowd|zero",
        "mmce: what a worker is shrunk towards.",
        "crowd",
    ),
    "subtypes": Row(AGGREGATOR, COUNT, "N", "ebcc: subtypes of each class.", "10"),
    "subtype-prior": Row(AGGREGATOR, WEIGHT, "X", "ebcc: shared out over the subtypes.", "0.1"),
    "restarts": Row(
        AGGREGATOR, COUNT, "N", "ebcc, tenals: starts, of which the best counts.", "40; tenals 10"
    ),
    "ranks": Row(
        COMPLETER,
        Numbers(int, "auto", count=3),
        "R1,R2,R3|auto",
        "tucker: ranks of the worker, item and class modes.",
        "hidden answers choose",
    ),
    "initial-rank": Row(COMPLETER, COUNT, "R0", "tucker: rank of the first HOSVD.", "by size"),
    "sweeps": Row(COMPLETER, COUNT, "N", "tucker: HOOI sweeps per pass at most.", "3"),
    "cp-rank": Row(COMPLETER, COUNT, "R", "tenals: number of components.", "hidden answers choose"),
    "ridge": Row(COMPLETER, WEIGHT, "X", "tenals: weight of the factors' squares.", "1"),
    "lrtc-weights": Row(
        COMPLETER,
        Numbers(float, count=3),
        "A,B,C",
        "lrtc: weights of the worker, item and class unfoldings.",
        "1,1,1",
    ),
    "rho": Row(COMPLETER, POSITIVE, "X", "lrtc: singular values below 1/X go.", "by size"),
    "completer-cells": Row(
        COMPLETER, COUNT, "N", "lrtc: numbers its low-rank form may hold.", "100000000"
    ),
    "observed": Row(
        COMPLETER,
        click.Choice(CHOICES["observed"]),
        "fibres|ones",
        "tenals, lrtc: the entries that count as seen.",
        "fibres",
    ),
    "completer-tol": Row(
        COMPLETER, WEIGHT, "X", "tenals, lrtc: stop when the fit gains less.", "0.0001"
    ),
    "completer-max-iter": Row(COMPLETER, COUNT, "N", "tenals, lrtc: iterations per pass.", "200"),
    "passes": Row(
        COMPLETER,
        COUNT,
        "N",
        "Passes of the complete ⇄ slice loop at most.",
        "3; 4 or 6 where hidden answers choose the rank",
    ),
    "slice": Row(
        COMPLETER,
        click.Choice(CHOICES["slice"]),
        "soft|hard",
        "What goes back into the loop: the completed slice as it is, or binarised.",
        "soft",
    ),
    "final": Row(
        COMPLETER,
        click.Choice(CHOICES["final"]),
        "answers|completed",
        "Judged last: the answers with the slice as prior, or (as in the paper) completed labels.",
        "answers; completed where hidden answers choose the rank",
    ),
    "start": Row(
        COMPLETER,
        str,
        "NAME",
        "The aggregator whose pure result is the first slice.",
        "as --aggregator",
    ),
    "max-cells": Row(
        COMPLETER,
        COUNT,
        "N",
        "Cells of the completed matrix held exactly; above it workers are grouped.",
        "1073741824",
    ),
}
