"""Flags of a run among many: --state and its like."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import click

from misc_cli.cli import options
from misc_cli.cli.parameters import DurationOr, Numbers

F = TypeVar("F", bound=Callable[..., Any])

_nightly = partial(options.option, section="Every night")
NEVER = "never"


def flags() -> Callable[[F], F]:
    """The flags of a run among many."""
    return options.apply(
        _nightly(
            "--state",
            metavar="DIR",
            help="Start where the last run with this folder ended: methods and calibration are "
            "kept, fits start warm, and nothing is done if nothing changed. Needs -o.",
        ),
        _nightly(
            "--rechoose",
            type=DurationOr(NEVER),
            metavar="TIME",
            help="How old a choice of methods may get: 30d, 2w, never [default: 30d]. It is also "
            "made anew when the data has clearly moved.",
        ),
        _nightly(
            "--keep-settled",
            is_flag=True,
            help="Items that are settled keep their label until they get new answers.",
        ),
        _nightly(
            "--settled",
            type=Numbers(float, count=2),
            metavar="C,N",
            help="Settled means a confidence from C and at least N answers [default: 0.95,3].",
        ),
        _nightly(
            "--workers-prior",
            metavar="FILE",
            help="What is known of workers, as --workers wrote it, also in another project; for "
            "ds-em, ds-mf, ebcc and one-coin.",
        ),
        _nightly(
            "--prior-weight",
            type=click.FloatRange(min=0.0, min_open=True),
            metavar="N",
            help="Answers per class that it counts for, at most those it rests on [default: 10].",
        ),
    )
