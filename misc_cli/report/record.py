"""Everything that a page, a workbook or a table on the terminal is made from."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd

from misc_cli.core.types import Answers, Labels
from misc_cli.report.names import anonymous
from misc_cli.report.progress import progress_frame
from misc_cli.report.statistics import Frames, frames, who_said_what
from misc_cli.run.outcome import Outcome

# Columns of the workers' frame that may name another worker.
TELLING = ("alike", "reason", "verdict")


@dataclass(frozen=True)
class Report:
    """A run's frames (see `statistics`), its facts (run.json's content) and what there is not.

    `missing` says in words what the run's files cannot tell and how to have it. `labels` are the
    encoded answers, None where they are gone: then nobody knows who said what. `aliases` holds a
    name to show in place of each worker's, where a report is to leave the house.
    """

    frames: Frames
    facts: Mapping[str, Any]
    missing: tuple[str, ...] = ()
    labels: Labels | None = None
    aliases: Mapping[str, str] = field(default_factory=dict)

    def answers_on(self, items: list[str]) -> pd.DataFrame:
        """item, worker, label of every answer on these items; empty where answers are gone."""
        if self.labels is None or not items:
            return pd.DataFrame(columns=["item", "worker", "label"])
        found = who_said_what(self.labels, items)
        return found.replace({"worker": dict(self.aliases)}) if self.aliases else found


def build(
    outcome: Outcome, facts: Mapping[str, Any], answers: Answers | None = None, times: Any = None
) -> Report:
    """The report of a run; `times` is when each of these answers was given, where that is known."""
    found = frames(outcome)
    if answers is not None:
        progress = progress_frame(answers, times, outcome)
        found.update({"progress": progress} if len(progress) else {})
    return Report(found, facts, labels=outcome.labels)


def anonymized(report: Report) -> Report:
    """The same report with a number in place of every worker's name.

    The command and the files' names go too: either may hold a name.
    """
    workers = report.frames.get("workers")
    if workers is None:
        return replace(report, facts=_without_names(report.facts, {}))
    aliases = anonymous(workers["worker"])
    hidden = workers.assign(worker=workers["worker"].map(aliases))
    if "alike" in workers:
        others = workers["alike"]
        for name in TELLING:
            hidden[name] = [
                _hide(text, other, aliases)
                for text, other in zip(hidden[name], others, strict=True)
            ]
    frames = {**report.frames, "workers": hidden}
    if "worker_map" in frames:
        points = frames["worker_map"]
        frames["worker_map"] = points.assign(worker=points["worker"].map(aliases))
    return replace(
        report,
        frames=frames,
        facts=_without_names(report.facts, aliases),
        aliases=aliases,
    )


def _hide(text: Any, other: Any, aliases: Mapping[str, str]) -> Any:
    """A text without the name it may hold: that of the worker whom this one is alike with."""
    if not isinstance(text, str) or other not in aliases:
        return text
    return re.sub(rf"(?<!\w){re.escape(other)}(?!\w)", lambda _: aliases[other], text)


def _unquoted(text: str, aliases: Mapping[str, str]) -> str:
    """A message without the names that it quotes."""
    return re.sub(r"'([^']*)'", lambda found: aliases.get(found[1], found[0]), text)


def _without_names(facts: Mapping[str, Any], aliases: Mapping[str, str]) -> dict[str, Any]:
    """Facts without the command and the paths, and warnings without names."""
    kept = {name: value for name, value in facts.items() if name not in ("command", "outputs")}
    kept["warnings"] = [_unquoted(str(text), aliases) for text in facts.get("warnings", [])]
    kept["inputs"] = [{**source, "name": "(hidden)"} for source in facts.get("inputs", [])]
    kept["known"] = {
        name: {**source, "name": "(hidden)"} for name, source in facts.get("known", {}).items()
    }
    return kept
