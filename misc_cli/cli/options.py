"""Options that commands share, and the request that their values make."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import click

from misc_cli import registry
from misc_cli.cli.command import CONFIG, LAST
from misc_cli.cli.command import Command as Command
from misc_cli.cli.parameters import SEED, Option, duration, method_options, names, numbers
from misc_cli.cli.parameters import table as table
from misc_cli.data.parameters import AUTO, DUPLICATES
from misc_cli.errors import ConfigError
from misc_cli.run.settings import AUTO_COMPLETER, BASELINE, NO_COMPLETER, Settings

if TYPE_CHECKING:
    from misc_cli.readers.options import ReadOptions
    from misc_cli.run.request import AggregateRequest

THREADS = {"--threads N": "Never changes a result [default: all cores, at most 8]."}
JSON = {"--json": "One JSON object."}
json_output = table("Output", JSON)
# Sections of the flags that only a new run takes.
RUN_SECTIONS = ("Method", "Reading", "Known labels")
_SHOWN = {"show_default": True}


def command(examples: str, *params: click.Parameter) -> Callable[[Callable[..., Any]], Command]:
    """Return a decorator that makes a command of a function."""
    return click.command(cls=Command, examples=examples, params=list(params))


answers_argument = click.Argument(["answers"], nargs=-1, required=True, metavar="ANSWERS...")

method_names = table(
    "Method",
    {
        "--aggregator NAME": "What decides labels: auto (the methods that forecast hidden answers "
        f"best), {', '.join(registry.AGGREGATORS)}.",
        "--fast": f"Do not choose: {BASELINE} alone, and no completion.",
        "--completer NAME": f"What fills in missing answers first: auto ({AUTO_COMPLETER}, where "
        f"hidden answers approve), {', '.join([NO_COMPLETER, *registry.COMPLETERS])} [default: "
        "auto with --aggregator auto, else none].",
    },
    aggregator={"default": Settings.aggregator, **_SHOWN},
)
search = table(
    "Method",
    {
        f"--preset {'|'.join(registry.PRESETS)}": "Parameters for real data, or those of the "
        "paper's figures; flags override both.",
        "--seed N": "Of every random start.",
        "--time-budget TIME": "60s, 5m, 1h: an automatic choice uses what it has by then, a "
        "comparison leaves out what is not done [default: none].",
        **THREADS,
    },
    preset={"default": Settings.preset, **_SHOWN},
    seed={"type": SEED, "default": 0, **_SHOWN},
    time_budget={"type": duration},
)
TEMPER = "Temper confidences by hidden answers, or leave them raw [default: temper]."
calibration = table("Method", {"--calibrate/--no-calibrate": TEMPER}, switch=Settings.calibrate)
methods = [*method_names, *search, *calibration, *method_options()]

# Every field of `ReadOptions`.
reading = table(
    "Reading",
    {
        "--worker-col COL": "Worker column: a name, a position, or a pattern such as 'rater_*' "
        "with --layout wide; none if unknown.",
        "--item-col COL": "Item column; a,b joins columns, row is the row itself.",
        "--label-col COL": "Label column; of counts, a column per class.",
        "--layout long|wide|form|matrix|counts": "A row per answer, a column per worker, a column "
        "per item, the same without names, or votes counted per class [default: where certain].",
        "--delimiter C": "Character, or comma, tab, semicolon, pipe, space [default: sniffed].",
        "--header/--no-header": "Whether the first row names the columns [default: sniffed].",
        "--encoding NAME": "[default: utf-8]",
        "--format NAME": "csv, tsv, json, jsonl, parquet or a platform [default: by content].",
        "--question NAME": "Which of several questions in the file to read.",
        "--group-by COL": "A question for each value of this column; with --question, that one.",
        "--multi split|set": "Several choices per answer: a yes/no question for each option, or "
        "each set one class [default: refused].",
        "--worker-from filename|folder": "Each file is one worker's, called by its name or folder.",
        "--where COND": "Only rows where COLUMN OP VALUE holds; OP is = != < <= > >= ~ in. "
        "Repeatable.",
        "--seconds-col COL": "The column of seconds that answers took: shown by worker as a "
        "median, it decides nothing [default: by names such as WorkTimeInSeconds, lead_time].",
        "--no-answer A,B": "Labels that mean: no answer, such as 'n/a,skip,?' or -1.",
        "--fold-case": "Labels that differ only in case and spaces are one, spelled as most often.",
        "--labels A,B,C": "All labels there are: another is an error (see --max-bad-rows).",
        "--extract REGEX": "The label is what this finds in the cell, as 'Verdict: (.)'.",
        "--max-bad-rows N|P%": "Set so many broken rows or unknown labels aside [default: 0].",
        "--keep COL": "Carry columns along into labels, items, queue and report, 'Input.*' for "
        "instance.",
        "--rename OLD=NEW": "Call a label by another name. Repeatable.",
        "--allow-odd": "Read also what is likely read wrong.",
        "--query SQL": "What to select from a SQLite file or sqlite:///….",
        "--sheet NAME": "Which sheet of an .xlsx workbook.",
        f"--duplicates {'|'.join(DUPLICATES)}": "Which answer counts when a worker contradicts "
        f"itself on an item [default: {DUPLICATES[0]}, with a warning].",
        "--class-order A,B,C": "Order of the classes [default: numeric if all are numbers, else "
        "alphabetical].",
        "-p --param NAME=VALUE": "A parameter that few need, of reading (misc help reading) or of "
        "a method (misc help ds-em); short for --NAME=VALUE. Repeatable.",
        "-p skip-empty-files=yes": "Pass over files without answers.",
        "-p max-download=SIZE": "The most an address, query or workbook may bring [default: 1G].",
        "-p max-input=SIZE": "The most a pipe or a packed file may bring [default: 2G].",
        "-p quotes-span-lines=yes": "Quoted cells may hold lines that look like rows.",
        "-p net-timeout=TIME": "How long a connection may stall [default: 30s].",
    },
    no_answer={"type": str},
    rename={"multiple": True},
    net_timeout={"type": duration},
    param={"expose_value": False, "allow_from_autoenv": False},
    class_order={"type": names},
    switch=None,
)


state = table(
    "Every night",
    {
        "--state DIR": "Start where the last run with this folder ended: methods and calibration "
        "are kept, fits start warm, and nothing is done if nothing changed. Needs -o.",
        "--accept A,B": "What may be new since the earlier nights: new-labels, columns, format, "
        "else an error; duplicates: do not warn of these copying workers again.",
        "-p rechoose=TIME": "How old a choice of methods may get: 30d, 2w, never [default: 30d]. "
        "It is also made anew when the data has clearly moved.",
        "--keep-settled": "Items that are settled keep their label until they get new answers.",
        "-p settled=C,N": "Settled: a confidence from C, at least N answers [default: 0.95,3].",
    },
    rechoose={"type": lambda value: value if value == "never" else duration(value)},
    settled={"type": numbers(whole=False, count=2)},
)
TITLE = "Of the report [default: its figures and the names of the files]."


talking = table(
    LAST,
    {
        "-q --quiet": "No warnings, no summary.",
        "-v --verbose": "The summary and, every ten seconds, how far it is, also where stderr is "
        "no terminal; tracebacks of defects.",
        "--log-file FILE": "Add the run's events to this file, each a JSON object; - is stderr.",
    },
)


def read_options_from(parameters: Mapping[str, Any]) -> ReadOptions:
    """Return the reading options that a command's parameters hold."""
    from misc_cli.readers.options import ReadOptions

    names = [field.name for field in fields(ReadOptions)]
    return ReadOptions(**{name: parameters[name] for name in names if name in parameters})


def request_from(
    sources: tuple[str, ...],
    parameters: Mapping[str, Any],
    *names: str,
    of: click.Command | None = None,
) -> AggregateRequest:
    """Return the request that a command's parameters make.

    `names` are the fields besides settings and reading that are the command's, all unless given;
    `of` is the command whose parameters they are, the present one unless given.
    """
    from misc_cli.run.request import AggregateRequest

    chosen = {f.name: parameters[f.name] for f in fields(Settings) if f.name in parameters}
    if parameters.get("fast", False):
        named = chosen.get("aggregator", AUTO)
        if named not in (AUTO, BASELINE):
            raise ConfigError(f"--fast is {BASELINE}: leave out --aggregator {named}")
        chosen["aggregator"] = BASELINE
    given = {}
    for one in (of or click.get_current_context().command).params:
        declared, value = getattr(one, "declared", None), parameters.get(one.name or "")
        if declared is not None and value is not None:
            given[one.name or ""] = value
    made = {"sources", "settings", "reading"}
    others = names or {field.name for field in fields(AggregateRequest)} - made
    return AggregateRequest(
        sources,
        Settings(**chosen, options=given),
        read_options_from(parameters),
        **{name: parameters[name] for name in others if parameters.get(name) is not None},
    )


def command_line() -> list[str]:
    """Return the words after `misc`; secrets of an address are left out."""
    from misc_cli.redaction import redact_all

    words: list[str] = redact_all(sys.argv[1:])
    return words


def request_of_run(
    sources: tuple[str, ...], parameters: Mapping[str, Any], *names: str
) -> AggregateRequest:
    """Return the request of `misc aggregate` on these answers, by the same settings.

    What the settings and variables of `misc aggregate` say holds; flags of this command go first.
    """
    from misc_cli.cli.aggregate import command as aggregate

    here = click.get_current_context()
    config = here.meta[CONFIG]
    words = ["--config", config.name] if config.name and config.is_trusted else []
    default = click.core.ParameterSource.DEFAULT
    own = {n: v for n, v in parameters.items() if here.get_parameter_source(n) != default}
    with aggregate.make_context("aggregate", [*words, "--", *sources], here.parent) as there:
        return request_from(sources, {**there.params, **own}, *names, of=aggregate)


def refuse_run_flags(run_file: str, but: Collection[str]) -> None:
    """Refuse flags of a new run, given on the command line, where the run is finished."""
    context = click.get_current_context()
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        given = source is click.core.ParameterSource.COMMANDLINE
        of_a_run = isinstance(parameter, Option) and parameter.section in RUN_SECTIONS
        if given and of_a_run and parameter.name not in but:
            raise ConfigError(
                f"{max(parameter.opts, key=len)} does nothing here: {run_file} is a finished run; "
                "leave it out, or name files of answers"
            )
