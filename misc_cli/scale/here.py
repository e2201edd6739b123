"""Parts in this process's reach, in memory or in files: their labels merged, or written by part."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from misc_cli.core.engines.parts import Counts, PartsEngine
from misc_cli.io.render import write_pieces
from misc_cli.scale.labels import CHUNK_ROWS, PartLabels, merged


class Here(PartsEngine):
    """Parts, what was read to make them, and what the manifest says of them."""

    def __init__(self, engine: PartsEngine, counts: Counts, facts: Mapping[str, Any]) -> None:
        super().__init__(engine.parts, engine.vocabulary)
        self.counts, self._facts = counts, facts

    def facts(self) -> dict[str, Any]:
        return dict(self._facts)

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
