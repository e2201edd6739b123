"""Values of options that are more than a word, and every parameter of every method as a flag.

A flag's name is its field's (`--max-iter`, `max_iter`). Its help says the default of the robust
preset, the most common value first. Nothing numeric is loaded: the records import none of it.
"""

from __future__ import annotations

import csv
import dataclasses
import math
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import click

from misc_cli import registry
from misc_cli.completers.parameters import Loop
from misc_cli.data.parameters import Number, Parameter, parameters_of, seconds_of
from misc_cli.errors import ConfigError

if TYPE_CHECKING:
    ParamType = click.ParamType[Any]
else:  # not generic in older versions of click
    ParamType = click.ParamType


class Numbers(ParamType):
    """`3,5,5`, or one of the words that may stand instead."""

    name = "numbers"

    def __init__(self, number: type[int] | type[float], *words: str, count: int | None = None):
        self.number, self.words, self.count = number, words, count

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[float, ...] | str:
        if isinstance(value, int | float):
            return (value,)
        if not isinstance(value, str):
            return tuple(value)
        if value in self.words:
            return value
        try:
            numbers = tuple(self.number(part) for part in value.split(","))
        except ValueError:
            numbers = ()
        if not numbers or (self.count is not None and len(numbers) != self.count):
            count = "" if self.count is None else f"{self.count} "
            kind = "whole numbers" if self.number is int else "numbers"
            words = "".join(f", or {word}" for word in self.words)
            self.fail(f"{value!r} is not {count}{kind} separated by commas{words}", param, ctx)
        return numbers


class Tries(Numbers):
    """A flag that may be given several times, for hidden answers to choose from its values.

    A value of several numbers is one word (`5,8,3`); of one number each, a word may hold several
    (`4,6`).
    """

    def is_one(self, value: Any) -> bool:
        """Tell whether a list, from a file of settings, is one value."""
        return self.count is not None and all(isinstance(part, int | float) for part in value)

    def joined(
        self, context: click.Context, parameter: click.Parameter, words: tuple[Any, ...]
    ) -> Any:
        """Return, as an option's callback, None, the one value, or all of them in a tuple."""
        values: list[Any] = []
        for word in words or ():
            values += [word] if self.count is not None or isinstance(word, str) else word
        different = tuple(dict.fromkeys(values))
        alone = [value for value in different if isinstance(value, str)]
        if alone and len(different) > 1:
            self.fail(f"{alone[0]!r} stands alone: leave the other values out", parameter, context)
        return different if len(different) > 1 else different[0] if different else None


class NumberOr(ParamType):
    """A number, or one of the words that may stand instead."""

    name = "number"

    def __init__(self, *words: str) -> None:
        self.words = words

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float | str:
        if value in self.words:
            return str(value)
        try:
            return float(value)
        except ValueError:
            self.fail(f"{value!r} is not a number, nor {' or '.join(self.words)}", param, ctx)


class Names(ParamType):
    """`a,b,c` as one row of CSV: a name that holds a comma goes in quotes."""

    name = "names"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        if not isinstance(value, str):
            return tuple(value)
        try:
            row = next(csv.reader([value], skipinitialspace=True), [])
        except csv.Error:
            self.fail(f"{value!r} is not one row of names separated by commas", param, ctx)
        return tuple(name.strip() for name in row)


class Duration(ParamType):
    """Seconds, written as 90, 90s, 1.5m, 2h, 30d or 4w."""

    name = "duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        if not isinstance(value, str):
            return float(value)
        seconds = seconds_of(value)
        if seconds is None:
            self.fail(f"{value!r} is not a time such as 60s, 5m or 1h", param, ctx)
        return seconds


class DurationOr(ParamType):
    """A duration, or one of the words that may stand instead."""

    name = "duration"

    def __init__(self, *words: str) -> None:
        self.words = words

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float | str:
        return str(value) if value in self.words else Duration().convert(value, param, ctx)


class Size(ParamType):
    """Bytes, written as 1000000, 500K, 500M, 2G or 1T: powers of 1024."""

    name = "size"
    units: ClassVar[dict[str, int]] = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if not isinstance(value, str):
            return int(value)
        text = value.upper().removesuffix("IB").removesuffix("B")
        unit = self.units.get(text[-1:], 0)
        try:
            size = float(text[:-1]) * unit if unit else float(text)
        except ValueError:
            size = -1.0
        if not 1 <= size < math.inf:
            self.fail(f"{value!r} is not a size such as 500M or 2G", param, ctx)
        return int(size)


AGGREGATOR = "Aggregator (each takes some of these)"
COMPLETER = "Completer and loop (each completer takes some of these)"
SECTIONS = {"aggregator": AGGREGATOR, "completer": COMPLETER}

COUNT = click.IntRange(min=1)
SEED = click.IntRange(min=0)


class Row(NamedTuple):
    """One flag: where the help shows it, what it may be, and its default in words."""

    section: str
    parameter: Parameter
    default: str

    @property
    def type(self) -> Any:
        return click_type(self.parameter)

    @property
    def metavar(self) -> str:
        declared = self.parameter.metavar or "|".join(self.parameter.choices)
        return declared or _metavar_of(self.parameter.number)

    @property
    def help(self) -> str:
        several = " Several: hidden answers choose." if self.parameter.several else ""
        return f"{self.parameter.help}{several} [default: {self.default}]".strip()


def click_type(parameter: Parameter) -> Any:
    """Return the type that lets through what the parameter may be."""
    number = parameter.number
    if parameter.choices:
        return click.Choice(parameter.choices)
    if number is None:
        return str
    kind = int if number.whole else float
    if parameter.several:
        count = parameter.length if parameter.length > 1 else None
        return Tries(kind, *parameter.words, count=count)
    if parameter.length > 1:
        return Numbers(kind, *parameter.words, count=parameter.length)
    if parameter.words:
        return NumberOr(*parameter.words)
    return click.INT if number.whole else click.FLOAT  # the record's own check says the range


@cache
def method_options(*, plugins: bool = False) -> dict[str, Row]:
    """Return the row of each flag, of our methods or of those that other packages add."""
    found: dict[str, list[tuple[str, str, Parameter, Any]]] = {}
    for section, owner, name, parameter, default in _declared(plugins):
        found.setdefault(name, []).append((section, owner, parameter, default))
    return {
        name.replace("_", "-"): Row(entries[0][0], entries[0][2], _default_in_words(entries))
        for name, entries in found.items()
    }


def _declared(plugins: bool) -> Iterator[tuple[str, str, str, Parameter, Any]]:
    for kind, section in SECTIONS.items():
        for method in registry.plugin_names(kind) if plugins else registry.own_names(kind):
            try:
                defaults = registry.settings(kind, method)
            except ConfigError:  # said when it is used; the help of the others goes on
                continue
            for name, parameter in registry.parameters(kind, method).items():
                if name == "seed" or (plugins and name.replace("_", "-") in method_options()):
                    continue
                if plugins and not parameter.help:
                    parameter = dataclasses.replace(parameter, help=f"Of {kind} {method}.")
                yield section, method, name, parameter, defaults[name]
    if not plugins:
        defaults = {field.name: field.default for field in dataclasses.fields(Loop)}
        for name, parameter in parameters_of(Loop).items():
            yield COMPLETER, "", name, parameter, defaults[name]


def _default_in_words(entries: list[tuple[str, str, Parameter, Any]]) -> str:
    """Return the most common default, then the others: "0.001; mmce-c, mmce-o 0.005"."""
    methods: dict[str, list[str]] = {}
    for _, owner, parameter, default in entries:
        methods.setdefault(_in_words(parameter, default), []).append(owner)
    common = max(methods, key=lambda value: len(methods[value]))
    others = [f"{', '.join(names)} {value}" for value, names in methods.items() if value != common]
    note = entries[0][2].note
    return "; ".join([common, *others, *([note] if note else [])])


def _in_words(parameter: Parameter, value: Any) -> str:
    if value is None:
        return parameter.unset or "none"
    if isinstance(value, tuple | list):
        return ",".join(_in_words(parameter, part) for part in value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def _metavar_of(number: Number | None) -> str:
    if number is None:
        return "TEXT"
    return "N" if number.whole else "X"
