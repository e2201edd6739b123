"""Tables as CSV, TSV, either gzipped, or Parquet, by the name of the file; labels read back.

Rows are joined by arrow, a chunk at a time, and a chunk's text buffer is the file's content: no
Python object per cell. Text is quoted only where it must be, numbers have six decimals at most.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from misc_cli.data.encode import trimmed
from misc_cli.data.types import Floats, LabelTable
from misc_cli.errors import InputError

if TYPE_CHECKING:
    from misc_cli.readers.answer_table import Rejects
    from misc_cli.readers.source import Source

Columns = Mapping[str, Any]  # name → arrow text (plain or dictionary) or a numpy array

CHUNK_ROWS = 1 << 17
DECIMALS = 6
CONFIDENCE = "confidence"
PROBABILITY = "p_"


def write_table(columns: Columns, stream: BinaryIO, name: str = "") -> None:
    """Write to `stream` in the format that a file called `name` should have; CSV by default."""
    write_pieces(iter([columns]), stream, name)


def reject_columns(rejects: Sequence[Rejects]) -> dict[str, Any]:
    """Return file, line and reason of every row that was set aside, by file and line."""
    found = sorted(
        (file, line, reason)
        for file, reason, rows, lines_of in rejects
        for line in lines_of([int(row) for row in rows])
    )
    types = {"file": pa.string(), "line": pa.int64(), "reason": pa.string()}
    places = enumerate(types.items())
    return {name: pa.array([row[at] for row in found], own) for at, (name, own) in places}


def with_kept(
    pieces: Iterable[Columns], kept: Mapping[str, Mapping[str, str]]
) -> Iterator[Columns]:
    """Yield columns of labels with those that are carried along (--keep), by their item."""
    for columns in pieces:
        items = [str(item).strip() for item in pa.array(columns["item"]).to_pylist()]
        yield {**columns, **{n: pa.array([t.get(i, "") for i in items]) for n, t in kept.items()}}


def write_pieces(pieces: Iterator[Columns], stream: BinaryIO, name: str = "") -> None:
    """Write a table that comes in chunks, at least one, as `write_table` does."""
    suffixes = [suffix.lower() for suffix in Path(name).suffixes]
    if suffixes[-1:] == [".parquet"]:
        import pyarrow.parquet as parquet

        tables = (
            pa.table({n: pa.array(c) if isinstance(c, np.ndarray) else c for n, c in piece.items()})
            for piece in pieces
        )
        head = next(tables)
        with parquet.ParquetWriter(stream, head.schema) as writer:
            for table in chain([head], tables):
                writer.write_table(table)
        return
    delimiter = "\t" if ".tsv" in suffixes[-2:] else ","
    first = next(pieces)
    header = _quoted(pa.array(list(first), pa.string()), delimiter).to_pylist()
    rows = chain.from_iterable(_lines(columns, delimiter) for columns in chain([first], pieces))
    chunks = chain([(delimiter.join(header) + "\n").encode()], rows)
    if suffixes[-1:] == [".gz"]:
        # no time and no name in the header: the same labels are the same bytes
        with gzip.GzipFile("", "wb", compresslevel=6, fileobj=stream, mtime=0) as zipped:
            zipped.writelines(chunks)
    else:
        stream.writelines(chunks)


def _lines(columns: Columns, delimiter: str) -> Iterator[bytes]:
    """Yield the rows in chunks of whole lines; NaN becomes an empty cell."""
    arrays = []  # with text quoted where needed and floats rounded, dictionaries still
    for column in columns.values():
        if not isinstance(column, np.ndarray) and pa.types.is_floating(column.type):
            column = column.to_numpy(zero_copy_only=False)  # what is missing is no number
        if isinstance(column, np.ndarray):
            column = np.round(column, DECIMALS) + 0.0 if column.dtype.kind == "f" else column
        elif pa.types.is_dictionary(column.type):
            quoted = _quoted(column.dictionary, delimiter)
            column = pa.DictionaryArray.from_arrays(column.indices, quoted)
        else:
            column = _quoted(column, delimiter)
        arrays.append(column)
    between, nothing, end = (pa.scalar(text, pa.large_string()) for text in (delimiter, "", "\n"))
    for start in range(0, len(arrays[0]), CHUNK_ROWS):
        cells = []
        for array in arrays:
            piece = array[start : start + CHUNK_ROWS]
            if isinstance(piece, np.ndarray):
                piece = pa.array(piece, from_pandas=True)
            if pa.types.is_dictionary(piece.type):
                piece = piece.dictionary_decode()
            cells.append(pc.fill_null(piece.cast(pa.large_string()), ""))
        cells[-1] = pc.binary_join_element_wise(cells[-1], nothing, end)
        lines = pc.binary_join_element_wise(*cells, between)
        yield memoryview(lines.buffers()[2]).tobytes()


def _quoted(text: Any, delimiter: str) -> Any:
    """Put cells in quotes that hold a delimiter, a quote or a line break."""
    text = text.cast(pa.string())
    buffer = text.buffers()[2]
    content = np.frombuffer(buffer, dtype=np.uint8) if buffer is not None else np.array([])
    if not any((content == ord(special)).any() for special in f'{delimiter}"\r\n'):
        return text  # the usual case, found out in a pass over the bytes
    special = pc.match_substring_regex(text, f'[{delimiter}"\r\n]')
    doubled = pc.replace_substring(text, '"', '""')
    return pc.if_else(special, pc.binary_join_element_wise('"', doubled, '"', ""), text)


def read_labels(path: str) -> LabelTable:
    """Read labels that `misc aggregate` wrote, or any two columns of items and labels."""
    from misc_cli.readers.columns import read_columns
    from misc_cli.readers.document import open_document
    from misc_cli.readers.source import open_source
    from misc_cli.readers.vocabulary import SYNONYMS

    wanted = {"item": [*SYNONYMS["item"], {"id"}], "label": SYNONYMS["label"]}
    source = open_source(path)
    document = open_document(source, synonyms=wanted)
    has_header = document.records is None and document.table.header is not False
    names = document.names if has_header else []
    sure = [CONFIDENCE] if CONFIDENCE in names else []
    chances = [name for name in names if name.startswith(PROBABILITY)]
    given: dict[str, str | None] = {name: name for name in (*sure, *chances)}
    synonyms = {**wanted, **{name: [] for name in given}}
    _, columns = read_columns(document, given, synonyms)
    items, labels = trimmed(columns["item"]), trimmed(columns["label"])
    labelled = pc.not_equal(labels, "")
    numbers = {name: _numbers(source, name, columns[name].filter(labelled)) for name in given}
    return LabelTable(
        items=items.filter(labelled),
        labels=labels.filter(labelled),
        confidence=numbers[CONFIDENCE] if sure else None,
        probabilities=np.column_stack([numbers[name] for name in chances]) if chances else None,
        classes=tuple(name.removeprefix(PROBABILITY) for name in chances),
        name=source.name,
    )


def _numbers(source: Source, name: str, column: Any) -> Floats:
    """Return a column of probabilities."""
    with suppress(pa.ArrowInvalid):
        values: Floats = trimmed(column).cast(pa.float64()).to_numpy()
        if ((values >= 0) & (values <= 1.0)).all():
            return values
    raise InputError(f"{source.name}: column {name} holds what is no number between 0 and 1")
