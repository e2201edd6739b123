"""A file of labels, ours or anybody's: item, label and, where there are any, how sure it is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv

from misc_cli.core.types import Floats, LabelTable, Names
from misc_cli.errors import InputError
from misc_cli.io.formats import detect, open_records, read_records
from misc_cli.io.sniff import sniff
from misc_cli.io.source import Source, open_source, refuse_nul
from misc_cli.io.table import read_table
from misc_cli.io.vocabulary import SYNONYMS

CONFIDENCE = "confidence"
PROBABILITY = "p_"
WANTED = {"item": [*SYNONYMS["item"], {"id"}], "label": SYNONYMS["label"]}


def read_labels(path: str, ours: str | None = None) -> LabelTable:
    """Labels as `misc aggregate` writes them, or any two columns of items and labels.

    A file whose SHA-256 is `ours` was written by misc: nothing has to be found out about it.
    """
    source = open_source(path)
    if ours is not None and source.suffix == ".csv" and source.sha256() == ours:
        return _as_written(source)
    format_name = detect(source)
    found = _names(source, format_name)
    sure = [CONFIDENCE] if CONFIDENCE in found else []
    chances = [name for name in found if name.startswith(PROBABILITY)]
    given: dict[str, str | None] = {name: name for name in (*sure, *chances)}
    synonyms = {**WANTED, **{name: [] for name in given}}
    if format_name in ("csv", "tsv"):
        columns = read_table(source, given, synonyms).columns
    else:
        columns = read_records(source, format_name, given, synonyms).columns
    items, labels = _plain(columns["item"]), _plain(columns["label"])
    labelled = pc.not_equal(labels, "")
    numbers = {name: _numbers(source.name, name, columns[name], labelled) for name in given}
    return LabelTable(
        items=items.filter(labelled),
        labels=labels.filter(labelled),
        confidence=numbers[CONFIDENCE] if sure else None,
        probabilities=np.column_stack([numbers[name] for name in chances]) if chances else None,
        classes=tuple(name.removeprefix(PROBABILITY) for name in chances),
        name=source.name,
    )


def _as_written(source: Source) -> LabelTable:
    wanted = {"item": pa.string(), "label": pa.string(), CONFIDENCE: pa.float64()}
    table = csv.read_csv(
        pa.BufferReader(source.content),
        parse_options=csv.ParseOptions(newlines_in_values=True),
        convert_options=csv.ConvertOptions(column_types=wanted, include_columns=list(wanted)),
    ).combine_chunks()
    items, labels, confidence = (pa.chunked_array(table[name]).combine_chunks() for name in wanted)
    return LabelTable(items, labels, confidence.to_numpy(), name=source.name)


def _plain(column: Any) -> Names:
    """A dictionary column as plain text without the spaces around it."""
    text = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
    return pc.utf8_trim_whitespace(text.cast(pa.string()))


def _names(source: Source, format_name: str) -> list[str]:
    """The names of the columns, as far as the format has a row of them."""
    if format_name == "parquet":
        return open_records(source, format_name).names
    if format_name not in ("csv", "tsv"):
        return []
    refuse_nul(source)
    dialect = sniff(source.content, WANTED)
    return [name.strip() for name in dialect.first_row] if dialect.header else []


def _numbers(file: str, name: str, column: Any, labelled: Any) -> Floats:
    try:
        values: Floats = _plain(column).filter(labelled).cast(pa.float64()).to_numpy()
    except pa.ArrowInvalid:
        raise InputError(f"{file}: column {name} holds something that is not a number") from None
    bad = np.flatnonzero(~((values >= 0) & (values <= 1)))
    if len(bad):
        raise InputError(
            f"{file}: column {name} holds {values[bad[0]]:g}; a probability is between 0 and 1"
        )
    return values
