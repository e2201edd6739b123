"""What a user may choose, and the default of everything that is not a method's own parameter.

No numeric imports: the command line reads its defaults from here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from misc_cli import registry
from misc_cli.errors import ConfigError

NO_COMPLETER = "none"

# Parameters of the complete ⇄ slice loop, by flag: the argument of `mixing.mix` they set.
LOOP_OPTIONS = {
    "passes": "passes",
    "slice": "slice_mode",
    "final": "final",
    "max_cells": "max_cells",
}
LOOP_PRESETS: dict[str, dict[str, Any]] = {"paper": {"final": "completed"}}

# These two words mean the aggregator's stopping rule even where a completer has one of its own.
AGGREGATOR_ONLY = ("tol", "max_iter")


@dataclass(frozen=True)
class Settings:
    """Everything that decides a run's labels.

    `options` holds method parameters by field name (`class_prior`, `ranks`, ...); None counts as
    not given. `threads` changes how long a run takes and nothing else.
    """

    preset: str = "robust"
    completer: str = NO_COMPLETER
    aggregator: str = "ds-em"
    duplicates: str = "last"
    class_order: tuple[str, ...] | None = None
    seed: int = 0
    threads: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Methods:
    """The chosen methods, built, and every parameter they ended up with.

    `loop` holds the arguments of `mixing.mix` that were given or that the preset sets.
    """

    aggregator: Any
    completer: Any | None
    loop: dict[str, Any]
    resolved: dict[str, dict[str, Any]]


def build(settings: Settings) -> Methods:
    """Hand every option to the method that has a field of its name; what nobody has is an error."""
    if settings.preset not in registry.PRESETS:
        known = ", ".join(registry.PRESETS)
        raise ConfigError(f"no preset is called {settings.preset!r}; there are {known}")
    given = {name: value for name, value in settings.options.items() if value is not None}
    shares: dict[str, dict[str, Any]] = {"aggregator": {}, "completer": {}, "loop": {}}
    chosen = {"aggregator": settings.aggregator}
    if settings.completer != NO_COMPLETER:
        chosen["completer"] = settings.completer
    fields = {kind: registry.settings(kind, name, settings.preset) for kind, name in chosen.items()}
    for name, value in given.items():
        shares[_owner(name, fields, settings)][name] = value
    for kind in fields:
        if "seed" in fields[kind]:
            shares[kind]["seed"] = settings.seed
    built = {
        kind: registry.create(kind, name, settings.preset, **shares[kind])
        for kind, name in chosen.items()
    }
    resolved = {kind: {**fields[kind], **shares[kind]} for kind in fields}
    asked = {**LOOP_PRESETS.get(settings.preset, {}), **shares["loop"]}
    loop = {LOOP_OPTIONS[name]: value for name, value in asked.items()}
    return Methods(built["aggregator"], built.get("completer"), loop, resolved)


def _owner(name: str, fields: Mapping[str, Mapping[str, Any]], settings: Settings) -> str:
    kinds = ("aggregator",) if name in AGGREGATOR_ONLY else ("aggregator", "completer")
    for kind in kinds:
        if name in fields.get(kind, {}):
            return kind
    if name in LOOP_OPTIONS and "completer" in fields:
        return "loop"
    takes = {
        f"{kind} {getattr(settings, kind)}": ", ".join(map(flag, own)) or "no options"
        for kind, own in fields.items()
    }
    listing = "; ".join(f"{method} takes {options}" for method, options in takes.items())
    wanting = "completer" not in fields and name not in AGGREGATOR_ONLY
    hint = " (and there is no --completer)" if wanting else ""
    raise ConfigError(f"{flag(name)} does not apply here{hint}: {listing}")


def flag(name: str) -> str:
    return "--" + name.replace("_", "-")
