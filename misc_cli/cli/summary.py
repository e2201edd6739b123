"""What a person reads after a run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from misc_cli.cli.console import Row
    from misc_cli.run.outcome import Outcome


def summary(
    outcome: Outcome, places: Mapping[str, Path], read_aside: Mapping[str, int] | None = None
) -> list[Row]:
    """The run in a few lines: what was asked, what went in, what came out, what it cost."""
    from misc_cli.run.manifest import peak_memory

    figures, encoding = outcome.figures, outcome.encoding
    labels = encoding.labels
    rows = [
        ("method", f"{_method(outcome)}, preset {outcome.methods.settings.preset}"),
        (
            "answers",
            f"{figures['answers']:,} by {_count(labels.n_workers, 'worker')} on "
            f"{_count(labels.n_items, 'item')} in {_count(labels.n_classes, 'class')}: "
            f"{figures['answers-per-item']:.1f} per item, {figures['density']:.2f} % filled",
        ),
    ]
    aside = {
        **(read_aside or {}),
        "empty": encoding.n_empty,
        "repeated": encoding.n_repeats,
        "contradictory": encoding.n_conflicts,
    }
    if any(aside.values()):
        listing = ", ".join(f"{count:,} {what}" for what, count in aside.items() if count)
        rows.append(("set aside", f"{sum(aside.values()):,}: {listing}"))
    if outcome.selection is not None:
        rows.append(("because", str(outcome.selection["why"])))
    if outcome.loop is not None:
        rows.append(("loop", _count(outcome.loop["passes"], "pass")))
    rows.append(
        (
            "result",
            f"{_ending(outcome)}, "
            f"mean confidence {figures['confidence']:.3f}, {_count(figures['ties'] or 0, 'tie')}",
        )
    )
    if "error" in figures:
        rows.append(
            ("error", f"{figures['error']:.2f} % of {figures['items-with-truth']:,} known items")
        )
    if places:
        rows.append(("written", ", ".join(str(path) for path in places.values())))
    seconds = sum(outcome.timings.values())
    rows.append(("cost", f"{seconds:.2f} s, {peak_memory() / 2**20:,.0f} MiB"))
    return rows


# In the words of a reader; `core.solver` says when each is the case.
_STOPS = {"limit": "its limit came first", "fixed": "its number of iterations was set"}


def _ending(outcome: Outcome) -> str:
    """Whether the run converged, and if not, which loops did not and why."""
    aggregation = outcome.aggregation
    if not aggregation.stopped:
        return "nothing to iterate"
    after = f"after {_count(aggregation.iterations, 'iteration')}"
    if aggregation.converged:
        return f"converged {after}"
    open_ends = [
        f"{stage}: {_STOPS[reason]}"
        for stage, reason in aggregation.stopped.items()
        if reason in _STOPS
    ]
    return f"NOT converged {after} ({'; '.join(open_ends)})"


def _method(outcome: Outcome) -> str:
    """What made the labels, by name."""
    if outcome.selection is not None:
        chosen = outcome.selection["chosen"]
        return str(chosen[0]) if len(chosen) == 1 else f"mean of {', '.join(chosen)}"
    names = outcome.methods.names
    return " + ".join(names[kind] for kind in ("completer", "aggregator") if kind in names)


def _count(number: float, noun: str) -> str:
    plural = noun + ("es" if noun.endswith("s") else "s")
    return f"{number:,} {noun if number == 1 else plural}"
