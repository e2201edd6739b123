"""Parameters that completers share, and those of the completion loop (`Loop`).

No numeric imports: the command line and the settings read names and help from here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar

from misc_cli.data.parameters import COUNT, FEW, SHARE, WEIGHT, parameter

if TYPE_CHECKING:
    from misc_cli.data.types import Aggregator

# Fields of a completer that are its rank.
RANK_OPTIONS = ("ranks", "cp_rank")


def observed() -> Any:
    text = "tenals, lrtc: the entries that count as seen."
    return parameter("fibres", text, choices=("fibres", "ones"))


def completer_tol() -> Any:
    return parameter(1e-4, "tenals, lrtc: stop when the fit gains less.", WEIGHT)


def completer_max_iter() -> Any:
    return parameter(200, "tenals, lrtc: iterations per pass.", COUNT)


FINALS = ("answers", "completed")


@dataclass(frozen=True)
class Loop:
    """Parameters of the completion loop; fields have the names of the flags.

    passes     most passes
    slice      soft: the completed slice goes back as it is; hard: as one class per item
    final      last step: "answers" with the slice as prior, or aggregate "completed" labels
    start      aggregator of the first slice; None: the one that `--aggregator` names
    max_cells  most cells of the completed label matrix, which only `final="completed"` holds, one
               byte each: 1 GiB of completed labels, and about ten seconds per pass over them
    """

    passes: int = parameter(
        3,
        "Passes of the complete ⇄ slice loop at most.",
        FEW,
        note="4 or 6 where hidden answers choose the rank",
        several=True,
        metavar="N",
    )
    slice: str = parameter(
        "soft",
        "What goes back into the loop: the completed slice as it is, or binarised.",
        choices=("soft", "hard"),
    )
    final: str = parameter(
        "answers",
        "Judged last: the answers with the slice as prior, or (as in the paper) completed labels.",
        choices=FINALS,
        note="hidden answers choose it with the rank",
    )
    start: Aggregator | None = parameter(
        None,
        "The aggregator whose pure result is the first slice.",
        metavar="NAME",
        unset="as --aggregator",
    )
    strength: float = parameter(
        1.0,
        "Weight of the completed labels; the aggregator's own have the rest.",
        SHARE,
        note="by its lead where hidden answers choose the rank",
    )
    max_cells: int = parameter(
        1 << 30,
        "Cells of the completed matrix held exactly; above it workers are grouped.",
        COUNT,
    )

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"paper": {"final": "completed"}}


DEFAULT_LOOP = Loop()
LOOP_OPTIONS = tuple(field.name for field in fields(Loop))
