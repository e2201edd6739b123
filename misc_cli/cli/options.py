"""Options that commands share, written once, and help that shows them in sections.

`METHOD_OPTIONS` maps flags to the methods' dataclass fields by name: a flag here plus a field
there is all that a new parameter needs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any, TypeVar

import click

from misc_cli import registry
from misc_cli.cli import startup
from misc_cli.cli.parameters import Names, NumberOr, Numbers
from misc_cli.settings import NO_COMPLETER, Settings

F = TypeVar("F", bound=Callable[..., Any])
DEFAULTS = Settings()
LAST = "Messages"


class Option(click.Option):
    """An option that knows which section of the help it belongs to."""

    def __init__(self, *args: Any, section: str = "Options", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.section = section

    def get_help_extra(self, ctx: click.Context) -> Any:
        """Without the ranges: the help text says what matters, an error message the rest."""
        extra = super().get_help_extra(ctx)
        extra.pop("range", None)
        return extra


class Command(click.Command):
    """A command whose help has sections, and examples as they were typed."""

    def __init__(self, *args: Any, examples: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = examples

    def invoke(self, ctx: click.Context) -> Any:
        startup.load_arrow()
        return super().invoke(ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and isinstance(parameter, click.Option):
                sections.setdefault(getattr(parameter, "section", LAST), []).append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records, col_max=34)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(ctx, formatter)
        if self.examples:
            with formatter.section("Examples"):
                for line in self.examples.strip().splitlines():
                    formatter.write(f"{'':>{formatter.current_indent}}{line.strip()}\n")


_COUNT = click.IntRange(min=1)
_WEIGHT = click.FloatRange(min=0.0)

_AGGREGATOR = "Aggregator (each method takes some of these)"
_COMPLETER = "Completer and loop (each completer takes some of these)"

# flag → (section, click type, metavar, help)
METHOD_OPTIONS: dict[str, tuple[str, Any, str, str]] = {
    "tol": (
        _AGGREGATOR,
        _WEIGHT,
        "X",
        "Stop when posteriors move less than this; 0 runs all iterations "
        "[default: 1e-3; mmce 5e-3].",
    ),
    "max-iter": (_AGGREGATOR, _COUNT, "N", "Iterations at most [default: the method's]."),
    "class-prior": (
        _AGGREGATOR,
        click.Choice(["estimated", "uniform"]),
        "estimated|uniform",
        "How common the classes are taken to be [default: estimated; paper preset uniform].",
    ),
    "shrinkage": (
        _AGGREGATOR,
        _WEIGHT,
        "X",
        "Pseudo-answers that pull a worker towards the crowd [default: the method's; "
        "paper preset 0].",
    ),
    "regularization": (
        _AGGREGATOR,
        NumberOr("auto"),
        "X|auto",
        "mmce: multiple of the usual weights; auto picks by cross-validated likelihood.",
    ),
    "diagonal": (
        _AGGREGATOR,
        _WEIGHT,
        "X",
        "ds-mf, ebcc: pseudo-answers on the true class [default: the method's].",
    ),
    "off-diagonal": (_AGGREGATOR, _WEIGHT, "X", "ds-mf, ebcc: on every other class."),
    "subtype-prior": (_AGGREGATOR, _WEIGHT, "X", "ebcc: shared out over a class's subtypes."),
    "subtypes": (_AGGREGATOR, _COUNT, "N", "ebcc: subtypes of each class."),
    "restarts": (_AGGREGATOR, _COUNT, "N", "ebcc, tenals: starts, of which the best is kept."),
    "ranks": (
        _COMPLETER,
        Numbers(int, "auto", count=3),
        "R1,R2,R3|auto",
        "tucker: ranks of the worker, item and class modes.",
    ),
    "initial-rank": (_COMPLETER, _COUNT, "R0", "tucker: rank of the starting HOSVD."),
    "sweeps": (_COMPLETER, _COUNT, "N", "tucker, tenals: sweeps per pass at most."),
    "cp-rank": (_COMPLETER, _COUNT, "R", "tenals: number of components."),
    "ridge": (_COMPLETER, _WEIGHT, "X", "tenals: weight of the factors' squares."),
    "completer-tol": (
        _COMPLETER,
        _WEIGHT,
        "X",
        "tenals, lrtc: stop when the fit gains less than this.",
    ),
    "completer-max-iter": (_COMPLETER, _COUNT, "N", "tenals, lrtc: iterations per pass at most."),
    "lrtc-weights": (
        _COMPLETER,
        Numbers(float, count=3),
        "A,B,C",
        "lrtc: weights of the worker, item and class unfoldings.",
    ),
    "rho": (
        _COMPLETER,
        click.FloatRange(min=0, min_open=True),
        "X",
        "lrtc: singular values below 1/X go [default: 1/√(answers per worker)].",
    ),
    "completer-cells": (_COMPLETER, _COUNT, "N", "lrtc: numbers its low-rank form may hold."),
    "observed": (
        _COMPLETER,
        click.Choice(["fibres", "ones"]),
        "fibres|ones",
        "tenals, lrtc: which entries count as seen [default: fibres].",
    ),
    "passes": (_COMPLETER, _COUNT, "N", "Passes of the complete ⇄ slice loop at most."),
    "slice": (
        _COMPLETER,
        click.Choice(["soft", "hard"]),
        "soft|hard",
        "What goes back into the loop: the completed slice as it is, or binarised [default: soft].",
    ),
    "max-cells": (
        _COMPLETER,
        _COUNT,
        "N",
        "Cells of the completed matrix held exactly; above it workers are grouped.",
    ),
}


def _apply(*options: Callable[[F], F]) -> Callable[[F], F]:
    def decorate(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def option(*flags: str, section: str, **settings: Any) -> Callable[[F], F]:
    """A click option in a section of the help."""
    return click.option(*flags, cls=Option, section=section, **settings)


def answers_argument() -> Callable[[F], F]:
    return click.argument("answers", nargs=-1, required=True, metavar="ANSWERS...")


def reading() -> Callable[[F], F]:
    """How to read answer files: the fields of `io.read.ReadOptions`."""
    part = "Reading"
    return _apply(
        option(
            "--worker-col", section=part, metavar="COL", help="Worker column, name or position."
        ),
        option("--item-col", section=part, metavar="COL", help="Item column."),
        option("--label-col", section=part, metavar="COL", help="Label column."),
        option(
            "--delimiter",
            section=part,
            metavar="C",
            help="Character, or comma, tab, semicolon, pipe, space [default: sniffed].",
        ),
        option(
            "--header/--no-header",
            section=part,
            default=None,
            help="Whether the first row names the columns [default: sniffed].",
        ),
        option("--encoding", section=part, metavar="NAME", help="[default: utf-8]"),
        option(
            "--format",
            section=part,
            metavar="NAME",
            help="csv, tsv, json, jsonl or parquet [default: by content].",
        ),
        option(
            "--duplicates",
            section=part,
            type=click.Choice(["last", "first", "error", "all"]),
            default=DEFAULTS.duplicates,
            show_default=True,
            help="Which answer counts when a worker contradicts itself on an item.",
        ),
        option(
            "--class-order",
            section=part,
            type=Names(),
            metavar="A,B,C",
            help="Order of the classes [default: numeric if all are numbers, else alphabetical].",
        ),
    )


def methods() -> Callable[[F], F]:
    """Which method, with which parameters."""
    part = "Method"
    aggregators = ", ".join(registry.AGGREGATORS)
    completers = ", ".join([NO_COMPLETER, *registry.COMPLETERS])
    return _apply(
        option(
            "--aggregator",
            section=part,
            default=DEFAULTS.aggregator,
            show_default=True,
            metavar="NAME",
            help=f"{aggregators}.",
        ),
        option(
            "--completer",
            section=part,
            default=DEFAULTS.completer,
            show_default=True,
            metavar="NAME",
            help=f"{completers}.",
        ),
        option(
            "--preset",
            section=part,
            type=click.Choice(list(registry.PRESETS)),
            default=DEFAULTS.preset,
            show_default=True,
            help="Parameters for real data, or those of the paper's figures; flags override both.",
        ),
        option(
            "--seed",
            section=part,
            type=int,
            default=DEFAULTS.seed,
            show_default=True,
            help="Of every random start.",
        ),
        option(
            "--threads",
            section=part,
            type=_COUNT,
            metavar="N",
            help="Never changes a result [default: all cores, at most 8].",
        ),
        *(
            option(f"--{flag}", section=section, type=kind, metavar=metavar, help=text)
            for flag, (section, kind, metavar, text) in METHOD_OPTIONS.items()
        ),
    )


def talking() -> Callable[[F], F]:
    """How much to say on stderr."""
    part = LAST
    return _apply(
        option("-q", "--quiet", section=part, is_flag=True, help="No warnings, no summary."),
        option(
            "-v",
            "--verbose",
            section=part,
            is_flag=True,
            help="The summary also where stderr is no terminal; tracebacks of defects.",
        ),
    )


def settings_from(parameters: dict[str, Any]) -> Settings:
    """Take a run's settings out of a command's parameters."""
    own = {field.name for field in fields(Settings)} - {"options"}
    chosen = {name: parameters.pop(name) for name in own if name in parameters}
    names = [flag.replace("-", "_") for flag in METHOD_OPTIONS]
    given = {name: parameters.pop(name, None) for name in names}
    options = {name: value for name, value in given.items() if value is not None}
    return Settings(**chosen, options=options)


def read_options_from(parameters: dict[str, Any]) -> Any:
    """Take the reading options out of a command's parameters."""
    from misc_cli.io.read import ReadOptions

    return ReadOptions(**{f.name: parameters.pop(f.name, None) for f in fields(ReadOptions)})
