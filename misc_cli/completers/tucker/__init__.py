"""tucker as a record of its parameters, and the rules for its ranks. The algebra is in hooi.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from misc_cli.data.parameters import AUTO, COUNT, FEW, Checked, parameter
from misc_cli.data.solver import OnIteration, ignore_iteration
from misc_cli.errors import ConfigError

if TYPE_CHECKING:
    from misc_cli.completers.label_matrix import FactorCompletion
    from misc_cli.data.types import Floats
    from misc_cli.data.votes import LabelTensor
    from misc_cli.engines.protocol import Engine

Ranks = tuple[int, int, int]


@dataclass(frozen=True)
class Tucker(Checked):
    """tucker: `ranks` None means `rule_of_thumb`, `initial_rank` None the largest of the ranks.

    `seed` only chooses the start vector of the Lanczos iteration.
    """

    ranks: Ranks | None = parameter(
        None,
        "tucker: ranks of the worker, item and class modes.",
        COUNT,
        length=3,
        words=(AUTO,),
        metavar="R1,R2,R3|auto",
        several=True,
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
        from misc_cli.completers.tucker.hooi import complete

        return complete(self, tensor, on_iteration)

    def slice_table(
        self, engine: Engine, on_iteration: OnIteration, known: dict[str, Any]
    ) -> Floats:
        """Return the table, ((n_workers + 1) * K, K), for which T_(2) @ table is the slice of L.

        It runs on any engine. `known` caches what depends on the votes alone.
        """
        from misc_cli.completers.tucker.hooi import fit
        from misc_cli.completers.tucker.unfolding import Unfolding

        return fit(self, Unfolding(engine, known), on_iteration).slice_table

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
    """Raise a ConfigError that names the inequality these ranks break and what would help."""
    given = f"--ranks {ranks[0]},{ranks[1]},{ranks[2]}"
    modes = (f"{shape[0] - 1} workers and the slice", f"{shape[1]} items", f"{shape[2]} classes")
    for number, (rank, size, mode) in enumerate(zip(ranks, shape, modes, strict=True), start=1):
        if rank < 1:
            raise ConfigError(f"{given}: R{number} must be at least 1")
        if rank > size:
            raise ConfigError(
                f"{given}: R{number} = {rank} is too large; {mode} allow at most {size}"
            )
    for number, rank in enumerate(ranks):
        a, b = (k for k in range(3) if k != number)
        product = ranks[a] * ranks[b]
        if rank > product:
            raise ConfigError(
                f"{given}: R{number + 1} = {rank} exceeds R{a + 1}·R{b + 1} = {product}; "
                f"lower R{number + 1} to {product} or raise R{a + 1} or R{b + 1}"
            )


def check_initial_rank(initial_rank: int, ranks: Ranks, shape: tuple[int, int, int]) -> None:
    """Raise a ConfigError if the HOSVD has too few directions for R1."""
    if initial_rank < 1:
        raise ConfigError(f"--initial-rank {initial_rank}: must be at least 1")
    reach = min(initial_rank, shape[1]) * min(initial_rank, shape[2])
    if ranks[0] > reach:
        raise ConfigError(
            f"--initial-rank {initial_rank} leaves R1 = {ranks[0]} of --ranks at most {reach} "
            f"directions in the first sweep; give --initial-rank {ranks[0]} or more"
        )
