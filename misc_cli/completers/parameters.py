"""The completers tucker, tenals and lrtc as records of their parameters, and those of the loop.

No numeric imports: the command line and the settings read names and help from here. The algebra is
in the modules of these names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar

from misc_cli.data.parameters import (
    AUTO,
    COUNT,
    FEW,
    POSITIVE,
    SHARE,
    WEIGHT,
    Checked,
    Parameter,
    parameter,
)
from misc_cli.data.solver import OnIteration, ignore_iteration
from misc_cli.errors import ConfigError

if TYPE_CHECKING:
    from misc_cli.completers.label_matrix import FactorCompletion
    from misc_cli.completers.lrtc import LowRankCompletion
    from misc_cli.data.types import Aggregator, Floats
    from misc_cli.data.votes import LabelTensor
    from misc_cli.engines.protocol import Engine

# Fields of a completer that are its rank.
RANK_OPTIONS = ("ranks", "cp_rank")


# Parameters that tenals and lrtc share.
TOL = Parameter("tenals, lrtc: stop when the fit gains less.", WEIGHT)
MAX_ITER = Parameter("tenals, lrtc: iterations per pass.", COUNT)

FINALS = ("answers", "completed")


@dataclass(frozen=True)
class Loop(Checked):
    """Parameters of the completion loop; fields have the names of the flags."""

    passes: int = parameter(
        3,
        "Passes of the complete ⇄ slice loop at most.",
        FEW,
        note="4 or 6 where hidden answers choose the rank",
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

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"paper": {"final": "completed"}}


DEFAULT_LOOP = Loop()
LOOP_OPTIONS = tuple(field.name for field in fields(Loop))


Ranks = tuple[int, int, int]


@dataclass(frozen=True)
class Tucker(Checked):
    """Fills in the answers that nobody gave, by groups of workers and kinds of items.

    Reference: MiSC, IJCAI 2019; De Lathauwer, De Moor & Vandewalle 2000, SIAM J. Matrix Anal. 21

    `ranks` None means `rule_of_thumb`, `initial_rank` None the largest of the ranks; `seed` only
    chooses the start vector of the Lanczos iteration.
    """

    ranks: Ranks | None = parameter(
        None,
        "tucker: ranks of the worker, item and class modes.",
        COUNT,
        length=3,
        words=(AUTO,),
        metavar="R1,R2,R3|auto",
        unset="hidden answers choose",
    )
    initial_rank: int | None = parameter(
        None, "tucker: rank of the first HOSVD.", COUNT, metavar="R0", unset="by size"
    )
    sweeps: int = parameter(3, "tucker: HOOI sweeps per pass at most.", FEW)
    seed: int = 0

    def __call__(
        self, tensor: LabelTensor, on_iteration: OnIteration = ignore_iteration
    ) -> FactorCompletion:
        from misc_cli.completers.tucker import complete

        return complete(self, tensor, on_iteration)

    def slice_table(
        self, engine: Engine, on_iteration: OnIteration, known: dict[str, Any]
    ) -> Floats:
        """Return the table, ((n_workers + 1) * K, K), for which T_(2) @ table is the slice of L.

        It runs on any engine. `known` caches what depends on the votes alone.
        """
        from misc_cli.completers.tucker import Unfolding, fit

        return fit(self, Unfolding(engine, known), on_iteration).slice

    def resolve_ranks(self, shape: tuple[int, int, int]) -> Ranks:
        """Return the ranks for a tensor of this shape; raise if given ranks are impossible."""
        if self.ranks is None:
            return rule_of_thumb(shape)
        check_ranks(self.ranks, shape)
        return self.ranks

    def bytes_needed(self, shape: tuple[int, int, int], n_votes: int) -> int:
        """Return the most memory that a call holds beside the tensor, within a few per cent."""
        n_workers, n_items, n_classes = shape
        r1, r2, r3 = self.resolve_ranks(shape)
        r0 = min(self.initial_rank or max(r1, r2, r3), n_items)
        n_columns = n_workers * n_classes
        of_block = min(1.0, max(1 << 16, 4 * n_columns) / max(n_votes, 1))  # see data/votes.py
        lanczos = n_items * (n_classes + 2) + n_columns * (2 * r0 + 1)
        sweeps = n_columns * (3 * r1 * r3 + 2 * max(r0, r2)) + n_items * of_block * 2 * r1 * r3
        items = n_items * r2 * (1 + 2 * of_block) + n_columns * r2
        return int(8 * (n_columns * max(r0, r2) + max(lanczos, sweeps, items)))


def rule_of_thumb(shape: tuple[int, int, int]) -> Ranks:
    """Return ranks from the shape alone: (5, 5 · n_classes, n_classes), less if data are small.

    Five kinds of workers, as many kinds of items as those can tell apart, all classes. Over eleven
    public datasets R1 = 3, 5 and 10 erred alike with three passes and `--final answers` (15.4,
    15.3 and 15.4 % with ds-em, which alone has 16.1).
    """
    n_workers, n_items, n_classes = shape
    r3 = n_classes
    r1 = min(5, n_workers, n_items * r3)
    r2 = min(r1 * r3, n_items)
    return r1, r2, min(r3, r1 * r2)


def check_ranks(ranks: Ranks, shape: tuple[int, int, int]) -> None:
    """Raise a ConfigError that names the inequality these ranks break.

    No rank may be above the size of its mode, nor above the product of the two others.
    """
    given = f"--ranks {ranks[0]},{ranks[1]},{ranks[2]}"
    modes = (f"{shape[0] - 1} workers and the slice", f"{shape[1]} items", f"{shape[2]} classes")
    for at, (rank, size) in enumerate(zip(ranks, shape, strict=True)):
        a, b = (k for k in range(3) if k != at)
        product = ranks[a] * ranks[b]
        if rank > min(size, product):
            limit = f"at most R{a + 1}·R{b + 1} = {product}"
            if rank > size:
                limit = f"{modes[at]} allow at most {size}"
            raise ConfigError(f"{given}: R{at + 1} = {rank} is too large; {limit}")


# The normal matrices of a block, n_block_items × R², should fit a few megabytes.
BLOCK_CELLS = 1 << 19


@dataclass(frozen=True)
class TenALS(Checked):
    """Fills in the answers that nobody gave, by alternating least squares (CP).

    Reference: Jain & Oh 2014, Provable Tensor Factorization with Missing Data, NIPS
    """

    cp_rank: int | None = parameter(
        None,
        "tenals: number of components.",
        COUNT,
        words=(AUTO,),
        metavar="R|auto",
        unset="hidden answers choose",
    )
    ridge: float = parameter(1.0, "tenals: weight of the factors' squares.", WEIGHT)
    restarts: int = parameter(10, "ebcc, tenals: starts, of which the best counts.", FEW)
    completer_tol: float = field(default=1e-4, metadata={"parameter": TOL})
    completer_max_iter: int = field(default=200, metadata={"parameter": MAX_ITER})
    seed: int = 0

    slow: ClassVar[bool] = True  # calibrated on a sample

    def __call__(
        self, tensor: LabelTensor, on_iteration: OnIteration = ignore_iteration
    ) -> FactorCompletion:
        from misc_cli.completers.tenals import complete

        return complete(self, tensor, on_iteration)

    def resolve_rank(self, n_classes: int) -> int:
        """Return the number of components; by default two per class.

        Workers who never err give rank K, one term per class; the second term is for errors. With
        ds-em, one pass and `--final answers` on eight datasets, K terms cost product 1.6 points and
        bluebirds 0.9 against 2 K, and 3 K terms kept a quarter of what 2 K gain on web.
        """
        return 2 * n_classes if self.cp_rank is None else self.cp_rank

    def bytes_needed(self, shape: tuple[int, int, int], n_votes: int) -> int:
        """Return the most memory that a call holds beside the tensor."""
        n_rows, n_items, n_classes = shape
        rank = self.resolve_rank(n_classes)
        starts = n_classes + self.restarts
        of_items = n_items * (2 * rank + 2 * starts)
        of_workers = n_rows * (2 * rank**2 + n_classes * (2 * rank + starts))
        return 8 * (of_items + of_workers + 3 * BLOCK_CELLS)


@dataclass(frozen=True)
class LRTC(Checked):
    """Fills in the answers that nobody gave, by nuclear norms.

    Reference: Liu, Musialski, Wonka & Ye 2013, IEEE TPAMI 35(1)
    """

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
    completer_tol: float = field(default=1e-4, metadata={"parameter": TOL})
    completer_max_iter: int = field(default=200, metadata={"parameter": MAX_ITER})
    seed: int = 0

    slow: ClassVar[bool] = True  # calibrated on a sample

    def __call__(
        self, tensor: LabelTensor, on_iteration: OnIteration = ignore_iteration
    ) -> LowRankCompletion:
        from misc_cli.completers.lrtc import complete

        return complete(self, tensor, on_iteration)

    def bytes_needed(self, shape: tuple[int, int, int], n_votes: int) -> int:
        """Return the most memory that a call holds beside the tensor."""
        from misc_cli.completers.lrtc import bytes_needed

        return bytes_needed(shape, n_votes)
