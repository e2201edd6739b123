"""lrtc as a record of its parameters. The algebra is in descent.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from misc_cli.completers.parameters import completer_max_iter, completer_tol, observed
from misc_cli.data.parameters import COUNT, POSITIVE, WEIGHT, Checked, parameter
from misc_cli.data.solver import OnIteration, ignore_iteration
from misc_cli.errors import ConfigError

if TYPE_CHECKING:
    from misc_cli.completers.lrtc.lowrank import LowRankCompletion
    from misc_cli.data.votes import LabelTensor


@dataclass(frozen=True)
class LRTC(Checked):
    """lrtc: nuclear-norm completion; `rho` None means `descent.default_rho`."""

    lrtc_weights: tuple[float, float, float] = parameter(
        (1.0, 1.0, 1.0),
        "lrtc: weights of the worker, item and class unfoldings.",
        WEIGHT,
        length=3,
        metavar="A,B,C",
    )
    rho: float | None = parameter(
        None, "lrtc: singular values below 1/X go.", POSITIVE, unset="by size"
    )
    completer_cells: int = parameter(
        100_000_000, "lrtc: numbers its low-rank form may hold.", COUNT
    )
    observed: str = observed()
    completer_tol: float = completer_tol()
    completer_max_iter: int = completer_max_iter()
    seed: int = 0

    slow: ClassVar[bool] = True  # calibrated on a sample

    def __post_init__(self) -> None:
        super().__post_init__()
        if sum(self.lrtc_weights) <= 0:
            raise ConfigError("--lrtc-weights must not all be 0")

    def __call__(
        self, tensor: LabelTensor, on_iteration: OnIteration = ignore_iteration
    ) -> LowRankCompletion:
        from misc_cli.completers.lrtc.descent import complete

        return complete(self, tensor, on_iteration)

    def bytes_needed(self, shape: tuple[int, int, int], n_votes: int) -> int:
        """Return the most memory that a call holds beside the tensor."""
        from misc_cli.completers.lrtc.descent import bytes_needed

        return bytes_needed(shape, n_votes)
