"""What made the labels, in words that are true: methods, presets, start and last step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from misc_cli.run.settings import BASELINE

if TYPE_CHECKING:
    from misc_cli.run.outcome import Outcome
    from misc_cli.select.trial import Candidate

# More members than this are counted, not listed.
LISTED = 6


def method_in_words(outcome: Outcome) -> str:
    """The methods by name, each with the preset that it really ran under."""
    names, members = outcome.methods.names, outcome.members
    preset = outcome.methods.settings.preset
    if members and members[0].passes:
        starter = names.get("aggregator", BASELINE)
        lasts = sorted({member.method.loop.final for member in members})
        return (
            f"{names['completer']} started by {starter}, last step: {' and '.join(lasts)} "
            f"({_listed([member.name for member in members])}), preset {preset}"
        )
    if outcome.selection is not None:
        if not members:
            return _listed(outcome.selection["chosen"])
        return _mean(members)
    if "completer" not in names:
        return f"{names['aggregator']}, preset {preset}"
    loop = (outcome.loop or {}).get("settings", {})
    aggregator = names.get("aggregator", BASELINE)
    starter = outcome.methods.resolved.get("start", {}).get("aggregator", aggregator)
    last = str(loop.get("final", ""))
    own = f", judged by {aggregator}" if last == "completed" else ""
    return f"{names['completer']} started by {starter}, last step: {last}{own}, preset {preset}"


def _mean(members: Sequence[Candidate]) -> str:
    by_preset: dict[str, list[str]] = {}
    for member in members:
        by_preset.setdefault(member.method.preset, []).append(member.name)
    parts = [f"{', '.join(names)} (preset {preset})" for preset, names in by_preset.items()]
    return ("mean of " if len(members) > 1 else "") + ", ".join(parts)


def _listed(names: Sequence[str]) -> str:
    if len(names) == 1:
        return names[0]
    if len(names) <= LISTED:
        return f"mean of {', '.join(names)}"
    return f"mean of {len(names)}: {', '.join(names[:3])} and so on"
