"""How to read answer files: every field of `ReadOptions` as a flag."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import click

from misc_cli.cli.parameters import Duration, Names, Size
from misc_cli.cli.sections import F, apply, option
from misc_cli.core.parameters import DUPLICATES
from misc_cli.errors import InputError
from misc_cli.run.settings import Settings


def flags() -> Callable[[F], F]:
    """The flags, in one section of the help."""
    part = "Reading"
    return apply(
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
            help="csv, tsv, json, jsonl or parquet, or a platform's name [default: by content].",
        ),
        option(
            "--question",
            section=part,
            metavar="NAME",
            help="Which of several questions in the file to read.",
        ),
        option(
            "--group-by",
            section=part,
            metavar="COL",
            help="A question for each value of this column; with --question, that one.",
        ),
        option(
            "--multi",
            section=part,
            type=click.Choice(["split", "set"]),
            help="Several choices per answer: a yes/no question for each option, or each set one "
            "class [default: refused].",
        ),
        option(
            "--wide",
            section=part,
            is_flag=True,
            default=None,
            help="A row per item, a column per worker [default: where that is certain].",
        ),
        option(
            "--worker-cols",
            section=part,
            metavar="PATTERN",
            help="The columns of such a table that are workers, 'rater_*' for instance.",
        ),
        option(
            "--item-cols",
            section=part,
            metavar="PATTERN",
            help="A row per worker, a column per item, as forms have it: the columns of items.",
        ),
        option(
            "--worker-from",
            section=part,
            type=click.Choice(["filename", "folder"]),
            help="One file per worker, called by its file's name or by its folder's.",
        ),
        option(
            "--where",
            section=part,
            metavar="COND",
            multiple=True,
            help="Only rows where COLUMN OP VALUE holds; OP is = != < <= > >= ~ in. Repeatable.",
        ),
        option("--since", section=part, metavar="TIME", help="Only answers from then on."),
        option("--until", section=part, metavar="TIME", help="Only answers up to then."),
        option("--time-col", section=part, metavar="COL", help="The column of times for these."),
        option(
            "--no-answer",
            section=part,
            metavar="A,B",
            help="Labels that mean: no answer. 'n/a,skip,?' or -1 for instance.",
        ),
        option(
            "--fold-case",
            section=part,
            is_flag=True,
            default=None,
            help="Labels that differ only in case and spaces are one.",
        ),
        option(
            "--rename",
            section=part,
            metavar="OLD=NEW",
            multiple=True,
            help="Call a label by another name. Repeatable.",
        ),
        option(
            "--skip-empty-files",
            section=part,
            is_flag=True,
            default=None,
            help="Pass over files without answers.",
        ),
        option(
            "--allow-odd",
            section=part,
            is_flag=True,
            default=None,
            help="Read also what is likely read wrong.",
        ),
        option(
            "--query",
            section=part,
            metavar="SQL",
            help="What to select from sqlite:///…, postgresql://… or a DuckDB file.",
        ),
        option("--sheet", section=part, metavar="NAME", help="Which sheet of an .xlsx workbook."),
        option(
            "--max-download",
            section=part,
            type=Size(),
            metavar="SIZE",
            help="500M, 2G: the most one address, query or workbook may bring [default: 1G].",
        ),
        option(
            "--max-input",
            section=part,
            type=Size(),
            metavar="SIZE",
            help="The most that a pipe or a packed file may bring, unpacked [default: 2G].",
        ),
        option(
            "--quotes-span-lines",
            section=part,
            is_flag=True,
            default=None,
            help="Quoted cells may hold any number of lines, even such as look like rows.",
        ),
        option(
            "--net-timeout",
            section=part,
            type=Duration(),
            metavar="TIME",
            help="How long a connection may stall [default: 30s].",
        ),
        option(
            "--duplicates",
            section=part,
            type=click.Choice(DUPLICATES),
            help="Which answer counts when a worker contradicts itself on an item "
            f"[default: {Settings().duplicates_rule}, with a warning].",
        ),
        option(
            "--class-order",
            section=part,
            type=Names(),
            metavar="A,B,C",
            help="Order of the classes [default: numeric if all are numbers, else alphabetical].",
        ),
    )


def read_options_from(parameters: dict[str, Any]) -> Any:
    """Take the reading options out of a command's parameters."""
    from misc_cli.io.options import ReadOptions

    said = click.get_current_context().params.get("duplicates")  # settings_from takes it away
    names = [field.name for field in fields(ReadOptions) if field.name != "duplicates"]
    return ReadOptions(**{name: parameters.pop(name, None) for name in names}, duplicates=said)


def with_workers(read: Any) -> Any:
    """What was read, if it says who answered: else workers cannot be judged."""
    if read.anonymous:
        raise InputError(
            f"{read.files[0].name}: nobody says who answered; misc aggregate takes a plain "
            "majority vote of this, nothing more can be had"
        )
    return read
