"""Every parameter of every method as a flag, read from the methods' own records.

A flag's name is its field's (`--max-iter`, `max_iter`). Its help says the default of the robust
preset, the most common value first. Nothing numeric is loaded: the records import none of it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import click

from misc_cli import registry
from misc_cli.cli.parameters import NumberOr, Numbers, Tries
from misc_cli.completers.parameters import Loop
from misc_cli.data.parameters import Number, Parameter, parameters_of
from misc_cli.errors import ConfigError

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
    """The type that lets through what the parameter may be."""
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
    """Flag → row, of our methods, or of those that other packages add."""
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
    """The most common default first, then whose differ: "0.001; mmce-c, mmce-o 0.005"."""
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
