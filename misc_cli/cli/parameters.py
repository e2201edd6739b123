"""Values of options that are more than a number or a word."""

from __future__ import annotations

import csv
import math
from typing import TYPE_CHECKING, Any, ClassVar

import click

from misc_cli.core.parameters import seconds_of

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
