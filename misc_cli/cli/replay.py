"""`--as-chosen`: what an earlier run chose, used again without choosing."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from misc_cli.errors import ConfigError, InputError

if TYPE_CHECKING:
    from misc_cli.run.request import Fitter


def fitter_of(run_file: str) -> Fitter:
    """Fits the methods that a run.json lists, with its weights and its calibration."""
    from misc_cli.run.fitting import fit_as_chosen

    try:
        facts: Any = json.loads(Path(run_file).read_text("utf-8"))
        members = facts["members"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(
            f"{run_file} (--as-chosen): not the run.json of a run ({error!r:.80}); name one"
        ) from None
    if not members:
        raise ConfigError(
            f"{run_file} (--as-chosen): that run chose nothing, its methods were named; "
            "repeat its own command"
        )
    fitter: Fitter = fit_as_chosen(facts, run_file)
    return fitter


def repeating(
    command: Sequence[str], members: Sequence[Any], places: Mapping[str, Path]
) -> list[str]:
    """The words that repeat a run without choosing again: its own if it chose nothing."""
    words = list(command)
    if not members or "run" not in places or "--as-chosen" in words:
        return words
    return [*words, "--as-chosen", str(places["run"])]
