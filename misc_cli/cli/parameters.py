"""Values of options that are more than a number or a word."""

from __future__ import annotations

import csv
import math
from typing import TYPE_CHECKING, Any, ClassVar

import click

from misc_cli.data.parameters import seconds_of

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
        """Whether a list, from a file of settings, is one value."""
        return self.count is not None and all(isinstance(part, int | float) for part in value)

    def joined(
        self, context: click.Context, parameter: click.Parameter, words: tuple[Any, ...]
    ) -> Any:
        """As an option's callback: nothing, the one value, or all of them in a tuple."""
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
