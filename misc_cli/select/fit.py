"""What came of fitting, whoever fitted: methods by name, a choice, or a night's state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from misc_cli.core.types import Aggregation

if TYPE_CHECKING:
    from misc_cli.loop.driver import Mixture
    from misc_cli.select.calibrate import Calibration
    from misc_cli.select.trial import Candidate


@dataclass(frozen=True)
class Fit:
    """The final aggregation and what led to it.

    members      those that a choice took
    selection    what an automatic choice looked at and took; goes into run.json as it is;
                 empty if nothing was to choose
    calibration  what the posteriors were softened by; None: they are raw
    loop         how the complete ⇄ slice loop ended
    mixture      what that loop returned
    """

    aggregation: Aggregation
    members: Sequence[Candidate] = ()
    selection: Mapping[str, Any] = field(default_factory=dict)
    calibration: Calibration | None = None
    loop: Mapping[str, Any] | None = None
    mixture: Mixture | None = None
