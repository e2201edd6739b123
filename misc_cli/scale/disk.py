"""`--engine disk`: one process, its votes and rows in files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

from misc_cli.core.engines import disk
from misc_cli.core.engines.parts import PART_ANSWERS, Counts, PartsEngine
from misc_cli.core.types import KnownLabels
from misc_cli.io.render import write_pieces
from misc_cli.io.stream import Piece, batches
from misc_cli.scale.job import Tally
from misc_cli.scale.labels import CHUNK_ROWS, PartLabels, merged

LEAST_PARTS = 4


class DiskEngine(PartsEngine):
    """Parts in files, and what was read to make them."""

    def __init__(self, engine: PartsEngine, counts: Counts) -> None:
        super().__init__(engine.parts, engine.vocabulary)
        self.counts = counts

    def facts(self) -> dict[str, Any]:
        return {"parts": len(self.parts)}

    def refuse_one_file(self) -> None:
        """They are merged a chunk at a time: any number will do."""

    def tables(self, probabilities: bool) -> Iterator[Any]:
        return merged([PartLabels(part, self.vocabulary, probabilities) for part in self])

    def write_parts(self, folder: Path, suffix: str, probabilities: bool) -> list[str]:
        return write_parts(self, folder, suffix, probabilities)


def write_parts(
    engine: PartsEngine, folder: Path, suffix: str, probabilities: bool, first: int = 0
) -> list[str]:
    """A file per part, numbered from `first` on; each is sorted by item."""
    names = []
    for number, part in enumerate(engine, start=first):
        labels = PartLabels(part, engine.vocabulary, probabilities)
        name = f"part-{number:05}{suffix}"
        starts = range(0, len(part.items), CHUNK_ROWS)
        tables = (labels.table(slice(a, min(a + CHUNK_ROWS, len(part.items)))) for a in starts)
        with (folder / name).open("wb") as stream:
            write_pieces(map(columns_of, tables), stream, name)
        names.append(name)
    return names


def columns_of(table: Any) -> dict[str, Any]:
    """A table as the columns that `render` writes: numbers as numpy, text as arrow."""
    columns = {name: table[name].combine_chunks() for name in table.column_names}
    return {
        name: column.to_numpy() if str(column.type) == "double" else column
        for name, column in columns.items()
    }


@contextmanager
def opened(
    pieces: Sequence[Piece],
    *,
    spill: str | None,
    duplicates: str,
    class_order: list[str] | None,
    gold: KnownLabels | None,
    name: str,
) -> Iterator[DiskEngine]:
    """The engine; its files are gone afterwards."""
    n_parts = max(LEAST_PARTS, -(-sum(piece.n_answers for piece in pieces) // PART_ANSWERS))
    with disk.spill_folder(spill) as folder:
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
        yield DiskEngine(engine, counts + tally.counts)
