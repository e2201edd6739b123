"""`--engine disk`: one process, its votes and rows in files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from threading import Thread
from typing import Any

from misc_cli.core.engines import disk
from misc_cli.core.engines.parts import PART_ANSWERS
from misc_cli.core.types import KnownLabels
from misc_cli.errors import InputError
from misc_cli.io.pieces import Piece
from misc_cli.io.stream import batches, fingerprint
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
    with disk.spill_folder(spill) as folder:
        inputs = _Fingerprints([piece.path for piece in pieces])
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
        yield Here(engine, counts + tally.counts, inputs.result(), facts)


class _Fingerprints:
    """The files of the input hashed while they are read, on a thread that keeps no exit waiting."""

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths = list(dict.fromkeys(paths))
        self.found: list[dict[str, Any]] = []
        self.thread = Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        with suppress(InputError, OSError):  # who reads the file says so
            for path in self.paths:
                self.found.append(fingerprint(path))

    def result(self) -> list[dict[str, Any]]:
        self.thread.join()
        return [*self.found, *map(fingerprint, self.paths[len(self.found) :])]
