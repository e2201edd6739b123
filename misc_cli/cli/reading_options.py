"""How to read answer files: every field of `ReadOptions` as a flag."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from misc_cli.cli.parameters import Duration, Names, Size
from misc_cli.cli.sections import F, apply, option
from misc_cli.data.parameters import DUPLICATES
from misc_cli.errors import InputError
from misc_cli.run.settings import Settings

if TYPE_CHECKING:
    from misc_cli.readers.options import ReadOptions


def flags() -> Callable[[F], F]:
    """The flags, in one section of the help."""
    reading = partial(option, section="Reading")
    return apply(
        reading("--worker-col", metavar="COL", help="Worker column, name or position."),
        reading("--item-col", metavar="COL", help="Item column."),
        reading("--label-col", metavar="COL", help="Label column."),
        reading(
            "--delimiter",
            metavar="C",
            help="Character, or comma, tab, semicolon, pipe, space [default: sniffed].",
        ),
        reading(
            "--header/--no-header",
            default=None,
            help="Whether the first row names the columns [default: sniffed].",
        ),
        reading("--encoding", metavar="NAME", help="[default: utf-8]"),
        reading(
            "--format",
            metavar="NAME",
            help="csv, tsv, json, jsonl or parquet, or a platform's name [default: by content].",
        ),
        reading(
            "--question",
            metavar="NAME",
            help="Which of several questions in the file to read.",
        ),
        reading(
            "--group-by",
            metavar="COL",
            help="A question for each value of this column; with --question, that one.",
        ),
        reading(
            "--multi",
            type=click.Choice(["split", "set"]),
            help="Several choices per answer: a yes/no question for each option, or each set one "
            "class [default: refused].",
        ),
        reading(
            "--wide",
            is_flag=True,
            default=None,
            help="A row per item, a column per worker [default: where that is certain].",
        ),
        reading(
            "--worker-cols",
            metavar="PATTERN",
            help="The columns of such a table that are workers, 'rater_*' for instance.",
        ),
        reading(
            "--item-cols",
            metavar="PATTERN",
            help="A row per worker, a column per item, as forms have it: the columns of items.",
        ),
        reading(
            "--worker-from",
            type=click.Choice(["filename", "folder"]),
            help="One file per worker, called by its file's name or by its folder's.",
        ),
        reading(
            "--where",
            metavar="COND",
            multiple=True,
            help="Only rows where COLUMN OP VALUE holds; OP is = != < <= > >= ~ in. Repeatable.",
        ),
        reading("--since", metavar="TIME", help="Only answers from then on."),
        reading("--until", metavar="TIME", help="Only answers up to then."),
        reading("--time-col", metavar="COL", help="The column of times for these."),
        reading(
            "--no-answer",
            metavar="A,B",
            help="Labels that mean: no answer. 'n/a,skip,?' or -1 for instance.",
        ),
        reading(
            "--fold-case",
            is_flag=True,
            default=None,
            help="Labels that differ only in case and spaces are one.",
        ),
        reading(
            "--rename",
            metavar="OLD=NEW",
            multiple=True,
            help="Call a label by another name. Repeatable.",
        ),
        reading(
            "--skip-empty-files",
            is_flag=True,
            default=None,
            help="Pass over files without answers.",
        ),
        reading(
            "--allow-odd",
            is_flag=True,
            default=None,
            help="Read also what is likely read wrong.",
        ),
        reading(
            "--query",
            metavar="SQL",
            help="What to select from sqlite:///…, postgresql://… or a DuckDB file.",
        ),
        reading("--sheet", metavar="NAME", help="Which sheet of an .xlsx workbook."),
        reading(
            "--max-download",
            type=Size(),
            metavar="SIZE",
            help="500M, 2G: the most one address, query or workbook may bring [default: 1G].",
        ),
        reading(
            "--max-input",
            type=Size(),
            metavar="SIZE",
            help="The most that a pipe or a packed file may bring, unpacked [default: 2G].",
        ),
        reading(
            "--quotes-span-lines",
            is_flag=True,
            default=None,
            help="Quoted cells may hold any number of lines, even such as look like rows.",
        ),
        reading(
            "--net-timeout",
            type=Duration(),
            metavar="TIME",
            help="How long a connection may stall [default: 30s].",
        ),
        reading(
            "--duplicates",
            type=click.Choice(DUPLICATES),
            help="Which answer counts when a worker contradicts itself on an item "
            f"[default: {Settings().duplicates_rule}, with a warning].",
        ),
        reading(
            "--class-order",
            type=Names(),
            metavar="A,B,C",
            help="Order of the classes [default: numeric if all are numbers, else alphabetical].",
        ),
    )


def read_options_from(parameters: Mapping[str, Any]) -> ReadOptions:
    """Return the reading options that a command's parameters hold."""
    from misc_cli.readers.options import ReadOptions

    names = [field.name for field in fields(ReadOptions)]
    return ReadOptions(**{name: parameters[name] for name in names if name in parameters})


def with_workers(read: Any) -> Any:
    """What was read, if it says who answered: else workers cannot be judged."""
    if read.anonymous:
        raise InputError(
            f"{read.files[0].name}: nobody says who answered; misc aggregate takes a plain "
            "majority vote of this, nothing more can be had"
        )
    return read
