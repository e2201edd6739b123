"""Chosen methods in words that JSON has, back to methods, and fitted without choosing again."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from misc_cli.core.types import Aggregation, Iteration, Labels, OnIteration
from misc_cli.loop.settings import Loop
from misc_cli.run import registry
from misc_cli.select.trial import Candidate, Method, fits


def described(member: Candidate) -> dict[str, Any]:
    """A candidate as plain values."""
    method = member.method
    return {
        "name": member.name,
        "method": method.name,
        "preset": method.preset,
        "brief": method.brief,
        "passes": member.passes,
        "aggregator": _described("aggregator", method.aggregator),
        "completer": _described("completer", method.completer),
        "loop": {
            field.name: _described("aggregator", value) if field.name == "start" else value
            for field in dataclasses.fields(method.loop)
            if (value := getattr(method.loop, field.name)) is not None
        },
    }


def rebuilt(entry: Mapping[str, Any]) -> Candidate:
    """The candidate that was described."""
    aggregator = _rebuilt("aggregator", entry["aggregator"])
    completer = _rebuilt("completer", entry["completer"])
    loop = dict(entry["loop"])
    if "start" in loop:
        loop["start"] = _rebuilt("aggregator", loop["start"])
    passes = int(entry["passes"])
    method = Method(
        entry["method"],
        aggregator,
        completer,
        Loop(**loop),
        (passes,) if passes else (),
        entry["preset"],
        bool(entry.get("brief", False)),
    )
    return Candidate(method, passes)


def fit_members(
    members: Sequence[Candidate], labels: Mapping[str, Labels], on_iteration: OnIteration
) -> dict[str, Aggregation]:
    """Every member on its labels (each with a start of its own), by name."""
    fitted = {}
    for member in members:

        def observe(iteration: Iteration, name: str = member.name) -> None:
            extra = {**iteration.extra, "candidate": name}
            on_iteration(replace(iteration, extra=extra))

        *_, (_, found) = fits(member.method, labels[member.name], None, observe)
        if member.method.brief:  # it stops when it should
            found = replace(found, stopped={})
        fitted[member.name] = found
    return fitted


def _described(kind: str, method: Any) -> dict[str, Any] | None:
    if method is None:
        return None
    return {"is": registry.name_of(kind, method), "parameters": dataclasses.asdict(method)}


def _rebuilt(kind: str, entry: Mapping[str, Any] | None) -> Any:
    if entry is None:
        return None
    given = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in entry["parameters"].items()
    }
    return registry.load(kind, entry["is"])(**given)
