"""The record of a finished run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from misc_cli.data.decide import Decision
from misc_cli.data.encode import Encoding
from misc_cli.data.types import Aggregation, Codes, Labels
from misc_cli.engines.local import LocalEngine
from misc_cli.engines.protocol import POSTERIORS, Engine
from misc_cli.run.diagnostics import Record
from misc_cli.run.settings import Methods

if TYPE_CHECKING:
    from misc_cli.completers.completion_loop import LoopResult
    from misc_cli.quality.verdicts import Verdicts
    from misc_cli.quality.worker_dependence import Pairs
    from misc_cli.selection.candidates import Candidate

Figure = float | int | bool | None


@dataclass(frozen=True)
class Outcome:
    """Everything a run found out.

    `truth` (n_items,) holds known classes for judging, -1 where unknown; `loop` how the
    complete ⇄ slice loop ended; `selection` what an automatic choice looked at and took;
    `calibration` what posteriors were softened by; `mixture` the loop's own result;
    `members` the methods that a choice took; `figures` the numbers --fail-if can judge;
    `compared` the workers two by two; `spread` the engine that holds votes and posteriors if they
    are not here.
    """

    encoding: Encoding
    aggregation: Aggregation
    decision: Decision
    methods: Methods
    records: list[Record]
    figures: dict[str, Figure]
    truth: Codes | None = None
    loop: Mapping[str, Any] | None = None
    selection: Mapping[str, Any] | None = None
    calibration: Mapping[str, Any] | None = None
    mixture: LoopResult | None = None
    compared: Pairs | None = None
    spread: Engine | None = None
    members: Sequence[Candidate] = ()
    timings: dict[str, float] = field(default_factory=dict)

    @property
    def labels(self) -> Labels:
        return self.encoding.labels

    @cached_property
    def engine(self) -> Engine:
        """Where votes and posteriors can be walked."""
        if self.spread is not None:
            return self.spread
        return LocalEngine.of(self.labels, {POSTERIORS: self.aggregation.posteriors})

    @cached_property
    def pairs(self) -> Pairs:
        """Which workers err together."""
        from misc_cli.quality.worker_dependence import compare_pairs

        return compare_pairs(self.labels.votes) if self.compared is None else self.compared

    @cached_property
    def verdicts(self) -> Verdicts:
        """What to think of each worker."""
        from misc_cli.quality.verdicts import judge
        from misc_cli.quality.worker_scores import gather

        return judge(gather(self.engine), self.pairs)
