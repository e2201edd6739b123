"""tenals as a record of its parameters, and its default rank. The algebra is in als.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from misc_cli.completers.parameters import completer_max_iter, completer_tol, observed
from misc_cli.data.parameters import AUTO, COUNT, FEW, WEIGHT, Checked, parameter
from misc_cli.data.solver import OnIteration, ignore_iteration

if TYPE_CHECKING:
    from misc_cli.completers.label_matrix import FactorCompletion
    from misc_cli.data.votes import LabelTensor

# The normal matrices of a block, n_block_items × R², should fit a few megabytes.
BLOCK_CELLS = 1 << 19


@dataclass(frozen=True)
class TenALS(Checked):
    """tenals: CP completion; `cp_rank` None means `default_rank`."""

    cp_rank: int | None = parameter(
        None,
        "tenals: number of components.",
        COUNT,
        words=(AUTO,),
        metavar="R|auto",
        several=True,
        unset="hidden answers choose",
    )
    ridge: float = parameter(1.0, "tenals: weight of the factors' squares.", WEIGHT)
    restarts: int = parameter(10, "ebcc, tenals: starts, of which the best counts.", FEW)
    observed: str = observed()
    completer_tol: float = completer_tol()
    completer_max_iter: int = completer_max_iter()
    seed: int = 0

    slow: ClassVar[bool] = True  # calibrated on a sample

    def __call__(
        self, tensor: LabelTensor, on_iteration: OnIteration = ignore_iteration
    ) -> FactorCompletion:
        from misc_cli.completers.tenals.als import complete

        return complete(self, tensor, on_iteration)

    def resolve_rank(self, n_classes: int) -> int:
        """Return the number of components."""
        return default_rank(n_classes) if self.cp_rank is None else self.cp_rank

    def bytes_needed(self, shape: tuple[int, int, int], n_votes: int) -> int:
        """Return the most memory that a call holds beside the tensor."""
        n_rows, n_items, n_classes = shape
        rank = self.resolve_rank(n_classes)
        starts = n_classes + self.restarts
        n_slots = 1 if self.observed == "fibres" else n_classes
        of_items = n_items * (2 * rank + 2 * starts)
        of_workers = n_rows * (2 * n_slots * rank**2 + n_classes * (2 * rank + starts))
        return 8 * (of_items + of_workers + 3 * BLOCK_CELLS)


def default_rank(n_classes: int) -> int:
    """Return two terms per class.

    Workers who never err give rank K, one term per class; the second term is for errors. With
    ds-em, one pass and `--final answers` on eight datasets, K terms cost product 1.6 points and
    bluebirds 0.9 against 2 K, and 3 K terms kept a quarter of what 2 K gain on web.
    """
    return 2 * n_classes
