"""Values of options that are more than a word, and every parameter of every method as a flag.

A flag's name is its field's (`--max-iter`, `max_iter`). Its help says the default of the robust
preset, the most common value first. Nothing numeric is loaded: the records import none of it.
"""

from __future__ import annotations

import csv
import dataclasses
import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import click

from misc_cli import registry
from misc_cli.completers.parameters import Loop
from misc_cli.data.parameters import Parameter, parameters_of, seconds_of
from misc_cli.errors import ConfigError

AGGREGATOR = "Aggregator (each takes some of these)"
COMPLETER = "Completer and loop (each completer takes some of these)"
SECTIONS = {"aggregator": AGGREGATOR, "completer": COMPLETER}


class NumberType(click.ParamType):  # type: ignore[type-arg]
    """A number, whole or not, from `least` on."""

    name = "number"

    def __init__(self, *, whole: bool = True, least: float = -math.inf) -> None:
        self.whole, self.least = whole, least

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        kind = "a whole number" if self.whole else "a number"
        try:
            found = int(value) if self.whole else float(value)
        except ValueError:
            self.fail(f"{value!r} is not {kind}", param, ctx)
        if not self.whole and not math.isfinite(found):
            self.fail(f"{value!r} is not {kind}", param, ctx)
        if found < self.least:
            self.fail(f"{value} is too small; give {kind} from {self.least}", param, ctx)
        return found


COUNT, SEED = NumberType(least=1), NumberType(least=0)
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def numbers(
    number: type[int] | type[float], *words: str, count: int | None = None
) -> Callable[[Any], Any]:
    """Return the type of `3,5,5`, or of one of the words that may stand instead."""

    def convert(value: Any) -> tuple[float, ...] | str:
        if isinstance(value, int | float):
            return (value,)
        if not isinstance(value, str):
            return tuple(value)
        if value in words:
            return value
        try:
            found = tuple(number(part) for part in value.split(","))
        except ValueError:
            found = ()
        if not found or (count is not None and len(found) != count):
            many = "" if count is None else f"{count} "
            kind = "whole numbers" if number is int else "numbers"
            instead = "".join(f", or {word}" for word in words)
            raise click.BadParameter(f"{value!r} is not {many}{kind} separated by commas{instead}")
        return found

    return convert


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
    if not isinstance(value, str):
        return int(value)
    text = value.upper().removesuffix("IB").removesuffix("B")
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
    """Return the type that lets through what the parameter may be."""
    number = parameter.number
    if parameter.choices:
        return click.Choice(parameter.choices)
    if number is None:
        return str
    if parameter.several or parameter.length > 1:
        count = parameter.length if parameter.length > 1 else None
        return numbers(int if number.whole else float, *parameter.words, count=count)
    if not parameter.words:
        return NumberType(whole=number.whole)  # the record's own check says the range

    def number_or_word(value: Any) -> float | str:
        if value in parameter.words:
            return str(value)
        try:
            return float(value)
        except ValueError:
            instead = " or ".join(parameter.words)
            raise click.BadParameter(f"{value!r} is not a number, nor {instead}") from None

    return number_or_word


def joined(parameter: Parameter, words: tuple[Any, ...]) -> Any:
    """Return the value of a flag that may be repeated: None, one value, or all in a tuple.

    A value of several numbers is one word (`5,8,3`); of one number each, a word may hold several
    (`4,6`).
    """
    values: list[Any] = []
    for word in words or ():
        values += [word] if parameter.length > 1 or isinstance(word, str) else word
    different = tuple(dict.fromkeys(values))
    alone = [value for value in different if isinstance(value, str)]
    if alone and len(different) > 1:
        raise click.BadParameter(f"{alone[0]!r} stands alone: leave the other values out")
    return different if len(different) > 1 else different[0] if different else None


class Row(NamedTuple):
    """One flag: its section of the help, what it may be, its default and kind in words."""

    section: str
    parameter: Parameter
    default: str
    metavar: str


@cache
def method_options(*, plugins: bool = False) -> dict[str, Row]:
    """Return the row of each flag, of our methods or of those that other packages add."""
    found: dict[str, list[tuple[str, str, Parameter, Any]]] = {}
    for kind, section in SECTIONS.items():
        for method in registry.plugin_names(kind) if plugins else registry.OWN[kind]:
            try:
                defaults = registry.settings(kind, method)
            except ConfigError:  # said when it is used; the help of the others goes on
                continue
            for name, parameter in registry.parameters(kind, method).items():
                if name == "seed" or (plugins and name.replace("_", "-") in method_options()):
                    continue
                if plugins and not parameter.help:
                    parameter = dataclasses.replace(parameter, help=f"Of {kind} {method}.")
                found.setdefault(name, []).append((section, method, parameter, defaults[name]))
    if not plugins:
        defaults = {field.name: field.default for field in dataclasses.fields(Loop)}
        for name, parameter in parameters_of(Loop).items():
            found.setdefault(name, []).append((COMPLETER, "", parameter, defaults[name]))
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
        rows[name.replace("_", "-")] = Row(section, parameter, said, kind_in_words(parameter))
    return rows


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
