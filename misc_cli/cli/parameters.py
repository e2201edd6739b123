"""Values of options that are more than a word, and every parameter of every method as an option.

An option's name is its field's (`max-iter`, `max_iter`). Its help says the default of the robust
preset, the most common value first. Nothing numeric is loaded: the records import none of it.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import click

from misc_cli import registry
from misc_cli.completers.parameters import Loop
from misc_cli.data.parameters import Parameter, parameters_of, seconds_of
from misc_cli.errors import ConfigError

SECTIONS = {
    "aggregator": "Aggregator (each takes some of these)",
    "completer": "Completer and loop (each completer takes some of these)",
}
# Parameters of methods that have a flag of their own; -p sets the others.
FLAGS = (
    *("class-prior", "shrinkage", "tol", "max-iter", "ranks", "initial-rank", "cp-rank"),
    *("passes", "sweeps", "slice", "final"),
)
RARE: set[str] = set()  # names of options that are no flags: -p sets them
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def numbers(
    *words: str, whole: bool = True, least: float = -math.inf, count: int | None = 1
) -> Callable[[Any], Any]:
    """Return the type of a number from `least` on, of `count` with commas, or of one of `words`.

    A count of None lets any number of them through.
    """
    kind = "a whole number" if whole else "a number"
    if count != 1:
        many = "" if count is None else f"{count} "
        kind = f"{many}{'whole ' if whole else ''}numbers separated by commas"

    def convert(value: Any) -> Any:
        if value in words:
            return value
        parts = value.split(",") if isinstance(value, str) and count != 1 else value
        try:
            found = tuple(map(int if whole else float, parts if count != 1 else [parts]))
        except (TypeError, ValueError, OverflowError):
            found = ()
        wrong = not found or count not in (None, len(found))
        if wrong or (count == 1 and not whole and not math.isfinite(found[0])):
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


def size(value: Any) -> int:
    """Convert 1000000, 500K, 500M, 2G or 1T, powers of 1024, to bytes."""
    text = str(value).upper().removesuffix("IB").removesuffix("B")
    unit = UNITS.get(text[-1:], 0)
    try:
        found = float(text[:-1]) * unit if unit else float(text)
    except ValueError:
        found = -1.0
    if not 1 <= found < math.inf:
        raise click.BadParameter(f"{value!r} is not a size such as 500M or 2G")
    return int(found)


def share(value: Any) -> float:
    """Convert 0.8 or 80% to a share."""
    text = str(value).strip()
    try:
        found = float(text.removesuffix("%")) / (100.0 if text.endswith("%") else 1.0)
    except ValueError:
        found = -1.0
    if not 0.0 <= found <= 1.0:
        raise click.BadParameter(f"{value!r} is not a share such as 0.8 or 80%")
    return found


def click_type(parameter: Parameter) -> Any:
    """Return the type of what a parameter may be; the record's own check says the range."""
    number = parameter.number
    if parameter.choices:
        return click.Choice(parameter.choices)
    if number is None:
        return str
    return numbers(*parameter.words, whole=number.whole, count=parameter.length)


class Row(NamedTuple):
    """One option: its section of the help, what it may be, its default and kind in words."""

    section: str
    parameter: Parameter
    default: str
    metavar: str


@cache
def method_options(*, plugins: bool = False) -> dict[str, Row]:
    """Return the row of each parameter, of our methods or only of those other packages add."""
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
    known = {"seed", *(method_options() if plugins else ())}
    rows: dict[str, Row] = {}
    for name, entries in found.items():
        section, _, parameter, _ = entries[0]
        methods: dict[str, list[str]] = {}
        for _, owner, own, default in entries:
            methods.setdefault(default_in_words(own, default), []).append(owner)
        common = max(methods, key=lambda value: len(methods[value]))
        # the most common default, then the others: "0.001; mmce-c, mmce-o 0.005"
        others = [f"{', '.join(of)} {value}" for value, of in methods.items() if value != common]
        said = "; ".join([common, *others, *([parameter.note] if parameter.note else [])])
        if (key := name.replace("_", "-")) not in known:
            rows[key] = Row(section, parameter, said, kind_in_words(parameter))
    return rows


def as_typed(name: str, value: str) -> str:
    """Return a parameter and its value as one types it: --tol X, or -p subtypes=N."""
    key = name.replace("_", "-")
    return f"--{key} {value}" if key in ("seed", *FLAGS) else f"-p {key}={value}"


def kind_in_words(parameter: Parameter) -> str:
    """Return what stands for a value in the help: N, X, TEXT or the choices."""
    number = parameter.number
    plain = "TEXT" if number is None else "N" if number.whole else "X"
    return parameter.metavar or "|".join(parameter.choices) or plain


def default_in_words(parameter: Parameter, value: Any) -> str:
    """Return a default as one would type it; None as what it means."""
    if value is None:
        return parameter.unset or "none"
    if isinstance(value, tuple | list):
        return ",".join(default_in_words(parameter, part) for part in value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def in_flags(text: str) -> str:
    """Return a message of the library with -p in place of a parameter that has no flag."""
    # what follows is its value if it is a number, a word that it takes, or ends in a colon
    value = r" (?=-?[\d(]|informative|auto\b|[\w.]+: )"
    found = re.compile(rf"(?<![\w-])--({'|'.join(sorted(RARE))})(?![\w-])({value})?")
    return found.sub(lambda one: f"-p {one[1]}{'=' if one[2] else ''}", text)
