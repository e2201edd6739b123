"""Parts in this process's reach, in memory or in files: their labels merged, or written by part."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from misc_cli.engines.partitioned import Counts, PartsEngine
from misc_cli.scale.labels import CHUNK_ROWS, PartLabels, Wanted, columns_of, merged
from misc_cli.writers.output_set import flush_and_sync, sha256_of
from misc_cli.writers.render import write_pieces


class LocalPartsEngine(PartsEngine):
    """Parts, what was read to make them, and what the manifest says of them.

    inputs  name, size and SHA-256 of every file that was read
    """

    def __init__(
        self,
        engine: PartsEngine,
        counts: Counts,
        inputs: Sequence[Mapping[str, Any]],
        facts: Mapping[str, Any],
    ) -> None:
        super().__init__(engine.parts, engine.vocabulary)
        self.counts, self.inputs, self._facts = counts, inputs, facts

    def facts(self) -> dict[str, Any]:
        return dict(self._facts)

    def refuse_one_file(self) -> None:
        """They are merged a chunk at a time: any number will do."""

    def tables(self, wanted: Wanted) -> Iterator[Any]:
        return merged([PartLabels(part, self.vocabulary, wanted) for part in self])

    def write_parts(self, folder: Path, suffix: str, wanted: Wanted) -> dict[str, str]:
        return write_parts(self, folder, suffix, wanted)


def write_parts(
    engine: PartsEngine, folder: Path, suffix: str, wanted: Wanted, first: int = 0
) -> dict[str, str]:
    """A file per part, numbered from `first` on, each sorted by item: its SHA-256 by its name."""
    digests = {}
    for number, part in enumerate(engine, start=first):
        labels = PartLabels(part, engine.vocabulary, wanted)
        name = f"part-{number:05}{suffix}"
        starts = range(0, len(part.items), CHUNK_ROWS)
        tables = (labels.table(slice(a, min(a + CHUNK_ROWS, len(part.items)))) for a in starts)
        with (folder / name).open("w+b") as stream:
            write_pieces(map(columns_of, tables), stream, name)
            flush_and_sync(stream, folder / name)
            stream.seek(0)
            digests[name] = sha256_of(stream)
    return digests
