"""Which kernels an engine must run again to have its rows back."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from misc_cli.engines.protocol import Block, FusedKernels, RowArrays, copy_rows
from misc_cli.spark import lineage


@dataclass(frozen=True)
class Makes:
    """Rows of this name; without `needs` from nothing but the votes."""

    name: str
    needs: tuple[str, ...] | None = ()

    @property
    def writes(self) -> tuple[str, ...]:
        return (self.name,)

    def __call__(self, block: Block, rows: RowArrays) -> tuple[RowArrays, int]:
        return {self.name: np.zeros(1)}, 0


def kept(*kernels: object) -> str:
    """The letters of the kernels that are left."""
    own: list[Any] = [copy(kernel) for kernel in kernels]
    left: list[Any] = []
    for kernel in own:
        left = lineage([*left, kernel])
    letters = {id(kernel): letter for letter, kernel in zip("abcdefgh", own, strict=False)}
    return "".join(letters[id(kernel)] for kernel in left)


def test_rows_that_follow_from_the_votes_alone_need_the_last_kernel() -> None:
    assert kept(Makes("x"), Makes("x"), Makes("x")) == "c"
    assert kept(Makes("x"), Makes("y"), Makes("x")) == "bc"
    assert kept(Makes("x"), Makes("y"), FusedKernels((Makes("x"), Makes("y")))) == "c"


def test_rows_that_follow_from_earlier_rows_need_all_of_them() -> None:
    again = Makes("x", needs=("x",))
    assert kept(Makes("x"), again, again) == "abc"
    assert kept(Makes("x"), again, Makes("x"), again) == "cd"
    assert kept(Makes("x"), FusedKernels((again, Makes("y"))), Makes("y")) == "abc"


def test_what_a_copy_was_made_from_stays_until_the_copy_is_made_anew() -> None:
    copy = copy_rows("x", "y")
    assert kept(Makes("x"), copy, Makes("x")) == "abc"
    assert kept(Makes("x"), copy, Makes("x"), Makes("y")) == "cd"


def test_a_kernel_that_says_nothing_may_need_everything() -> None:
    silent = Makes("x", needs=None)
    assert kept(Makes("x"), Makes("y"), silent) == "abc"
    assert kept(Makes("x"), silent, Makes("x")) == "c"
