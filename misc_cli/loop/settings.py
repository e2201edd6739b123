"""Parameters of the complete ⇄ slice loop, declared once; fields have the names of the flags.

No numeric imports: the command line and the settings read the names from here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from misc_cli.core.types import Aggregator


@dataclass(frozen=True)
class Loop:
    """How `mixing.mix` goes round and ends.

    passes     the most that are made
    slice      what goes back in: the completed slice as it is (soft), or one class per item (hard)
    final      what is judged last: the answers with the slice as prior, or completed labels
    start      whose pure result is the first slice; None: the aggregator's own
    max_cells  bounds the completed label matrix, which only `final="completed"` holds; one byte
               per cell: 1 GiB of completed labels, and about ten seconds per pass over them
    """

    passes: int = 3
    slice: str = "soft"
    final: str = "answers"
    start: Aggregator | None = None
    max_cells: int = 1 << 30

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"paper": {"final": "completed"}}


DEFAULT_LOOP = Loop()
LOOP_OPTIONS = tuple(field.name for field in fields(Loop))
