"""`--engine disk`: one process, its votes and rows in files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import chain

from misc_cli.core.engines import disk
from misc_cli.core.engines.parts import PART_ANSWERS
from misc_cli.core.types import KnownLabels
from misc_cli.io.stream import Piece, batches, fingerprint
from misc_cli.scale.here import Here
from misc_cli.scale.job import Tally

LEAST_PARTS = 4


@contextmanager
def opened(
    pieces: Sequence[Piece],
    *,
    spill: str | None,
    duplicates: str,
    class_order: list[str] | None,
    gold: KnownLabels | None,
    name: str,
) -> Iterator[Here]:
    """The engine; its files are gone afterwards."""
    n_parts = max(LEAST_PARTS, -(-sum(piece.n_answers for piece in pieces) // PART_ANSWERS))
    with disk.spill_folder(spill) as folder, ThreadPoolExecutor(1) as pool:
        # hashing lets others run meanwhile
        digests = pool.map(fingerprint, dict.fromkeys(piece.path for piece in pieces))
        tally = Tally(chain.from_iterable(map(batches, pieces)))
        engine, counts = disk.build(
            tally,
            folder,
            n_parts=n_parts,
            duplicates=duplicates,
            class_order=class_order,
            gold=gold,
            name=name,
        )
        facts = {"parts": len(engine.parts)}
        yield Here(engine, counts + tally.counts, list(digests), facts)
