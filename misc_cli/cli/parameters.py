"""Options as click has them: their types, sections of them, and every parameter of every method.

An option's name is its field's (`max-iter`, `max_iter`). Its help says the default of the robust
preset, the most common value first. Nothing numeric is loaded: the records import none of it.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import click

from misc_cli import registry
from misc_cli.completers.parameters import Loop
from misc_cli.data.parameters import Parameter, parameters_of, seconds_of
from misc_cli.errors import ConfigError

SECTIONS = {
    "aggregator": "Aggregator (each takes some of these)",
    "completer": "Completer and loop (each completer takes some of these)",
}
# Parameters of methods that the help has as flags; the others are `-p NAME=VALUE`.
FLAGS = (
    *("class-prior", "shrinkage", "tol", "max-iter", "ranks", "initial-rank", "cp-rank"),
    *("passes", "sweeps", "slice", "final"),
)
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def numbers(
    *words: str, whole: bool = True, least: float = -math.inf, count: int = 1
) -> Callable[[Any], Any]:
    """Return the type of a number from `least` on, of `count` with commas, or of one of `words`."""
    kind = "a whole number" if whole else "a number"
    if count != 1:
        kind = f"{count} {'whole ' if whole else ''}numbers separated by commas"

    def convert(value: Any) -> Any:
        if value in words:
            return value
        parts = value.split(",") if isinstance(value, str) and count != 1 else value
        try:
            found = tuple(map(int if whole else float, parts if count != 1 else [parts]))
        except (TypeError, ValueError, OverflowError):
            found = ()
        if len(found) != count or (count == 1 and not whole and not math.isfinite(found[0])):
            instead = "".join(f", or {word}" for word in words)
            raise click.BadParameter(f"{value!r} is not {kind}{instead}")
        if min(found) < least:
            raise click.BadParameter(f"{value} is too small; give {kind} from {least:g}")
        return found[0] if count == 1 else found

    return convert


COUNT, SEED = numbers(least=1), numbers(least=0)


def names(value: Any) -> tuple[str, ...]:
    """Convert `a,b,c`, one row of CSV: a name that holds a comma goes in quotes."""
    if not isinstance(value, str):
        return tuple(value)
    try:
        row = next(csv.reader([value], skipinitialspace=True), [])
    except csv.Error:
        message = f"{value!r} is not one row of names separated by commas"
        raise click.BadParameter(message) from None
    return tuple(name.strip() for name in row)


def duration(value: Any) -> float:
    """Convert 90, 90s, 1.5m, 2h, 30d or 4w to seconds."""
    seconds = seconds_of(value) if isinstance(value, str) else float(value)
    if seconds is None:
        raise click.BadParameter(f"{value!r} is not a time such as 60s, 5m or 1h")
    return seconds


def scaled(value: Any, units: Mapping[str, float], wanted: str) -> float:
    """Convert a number that may end in one of `units`."""
    text = str(value).strip().upper()
    unit = units.get(text[-1:], 0)
    try:
        found = float(text[:-1]) * unit if unit else float(text)
    except ValueError:
        found = -1.0
    if not 0 <= found < math.inf:
        raise click.BadParameter(f"{value!r} is not {wanted}")
    return found


def size(value: Any) -> int:
    """Convert 1000000, 500K, 500M, 2G or 1T, powers of 1024, to bytes."""
    return int(scaled(value, UNITS, "a size such as 500M or 2G"))


def share(value: Any) -> float:
    """Convert 0.8 or 80% to a share."""
    wanted = "a share such as 0.8 or 80%"
    if (found := scaled(value, {"%": 0.01}, wanted)) > 1:
        raise click.BadParameter(f"{value!r} is not {wanted}")
    return found


class Option(click.Option):
    """An option in a section of the help; `declared` is what it is of a method's parameters.

    One that is `rare` is shown as `-p NAME=VALUE`, which means `--NAME=VALUE`.
    """

    section = "Options"
    declared: Parameter | None = None
    rare = False

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        record = super().get_help_record(ctx)
        if record is None or not self.rare:
            return record
        name, _, kind = record[0].removeprefix("--").partition(" ")
        return f"-p {name}={kind}", record[1]


# Settings of click by the metavar of an option; any other is text.
TYPES: dict[str, dict[str, Any]] = {
    "A,B": {"type": names},
    "A,B,…": {"type": names},
    "N": {"type": COUNT},
    "SIZE": {"type": size},
    "COND": {"multiple": True},
    "yes": {"type": bool},
}


def table(
    section: str,
    rows: Mapping[str, str],
    *,
    switch: bool | None = False,
    **more: Mapping[str, Any],
) -> list[click.Parameter]:
    """Return the options of a section.

    `rows` are "-s --flag METAVAR" and the help. The metavar says the type: `TYPES`, words to choose
    from (a|b), else text; without one it is a switch, whose default is `switch`. One of "-p
    name=METAVAR" is rare. `more` are settings of click, by name.
    """
    options: list[click.Parameter] = []
    for words, text in rows.items():
        flags = [word for word in words.split() if word.startswith("-")]
        metavar = " ".join(words.split()[len(flags) :])
        rare = flags == ["-p"]
        if rare:
            name, _, metavar = metavar.partition("=")
            flags = [f"--{name}"]
        given: dict[str, Any] = {"is_flag": True, "default": switch}
        if re.fullmatch(r"[a-z]+(\|[a-z]+)+", metavar):
            given = {"type": click.Choice(metavar.split("|"))}
        elif metavar:
            given = {"metavar": metavar, **TYPES.get(metavar, {})}
        given |= more.get(flags[-1].partition("/")[0].strip("-").replace("-", "_"), {})
        option = Option(flags, help=text, **given)
        option.section, option.rare = section, rare
        options.append(option)
    return options


@cache
def method_options(*, plugins: bool = False) -> list[Option]:
    """Return an option for each parameter of our methods, or of those that other packages add."""
    found: dict[str, list[tuple[str, str, Parameter, Any]]] = {}
    for kind, section in SECTIONS.items():
        for method in registry.plugin_names(kind) if plugins else registry.OWN[kind]:
            try:
                defaults = registry.settings(kind, method)
            except ConfigError:  # said when it is used; the help of the others goes on
                continue
            for name, parameter in parameters_of(registry.load(kind, method)).items():
                found.setdefault(name, []).append((section, method, parameter, defaults[name]))
    for name, parameter in {} if plugins else parameters_of(Loop).items():
        entry = (SECTIONS["completer"], "", parameter, getattr(Loop, name))
        found.setdefault(name, []).append(entry)
    options = []
    for name, entries in found.items():
        section, _, parameter, _ = entries[0]
        methods: dict[str, list[str]] = {}
        for _, owner, own, default in entries:
            methods.setdefault(default_in_words(own, default), []).append(owner)
        common = max(methods, key=lambda value: len(methods[value]))
        # the most common default, then the others: "0.001; mmce-c, mmce-o 0.005"
        others = [f"{', '.join(of)} {value}" for value, of in methods.items() if value != common]
        said = "; ".join([common, *others, *([parameter.note] if parameter.note else [])])
        number, key = parameter.number, name.replace("_", "-")
        kind_of: Any = click.Choice(parameter.choices) if parameter.choices else str
        metavar = parameter.metavar or "|".join(parameter.choices) or "TEXT"
        if number is not None:
            metavar = parameter.metavar or ("N" if number.whole else "X")
            kind_of = numbers(*parameter.words, whole=number.whole, count=parameter.length)
        text = f"{parameter.help} [default: {said}]".strip()
        option = Option([f"--{key}"], type=kind_of, metavar=metavar, help=text)
        option.section, option.declared, option.rare = section, parameter, key not in FLAGS
        options += [option] if name != "seed" else []
    return options


def default_in_words(parameter: Parameter, value: Any) -> str:
    """Return a default as one would type it; None as what it means."""
    if value is None:
        return parameter.unset or "none"
    if isinstance(value, tuple | list):
        return ",".join(default_in_words(parameter, part) for part in value)
    return f"{value:g}" if isinstance(value, float) else str(value)
