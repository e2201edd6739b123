"""Read the tables of labels and workers that misc writes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv

from misc_cli.data.encode import trimmed
from misc_cli.data.types import Floats, LabelTable, WorkerTable
from misc_cli.errors import InputError
from misc_cli.readers.columns import read_columns
from misc_cli.readers.dialect import sniff
from misc_cli.readers.formats import detect, open_records
from misc_cli.readers.source import Source, open_source, refuse_odd_bytes
from misc_cli.readers.vocabulary import SYNONYMS

CONFIDENCE = "confidence"
PROBABILITY = "p_"
WANTED = {"item": [*SYNONYMS["item"], {"id"}], "label": SYNONYMS["label"]}


def read_labels(path: str) -> LabelTable:
    """Read labels that `misc aggregate` wrote, or any two columns of items and labels."""
    source = open_source(path)
    format_name = detect(source)
    found = _names(source, format_name)
    sure = [CONFIDENCE] if CONFIDENCE in found else []
    chances = [name for name in found if name.startswith(PROBABILITY)]
    given: dict[str, str | None] = {name: name for name in (*sure, *chances)}
    synonyms = {**WANTED, **{name: [] for name in given}}
    columns = read_columns(source, given, synonyms).columns
    items, labels = trimmed(columns["item"]), trimmed(columns["label"])
    labelled = pc.not_equal(labels, "")
    numbers = {name: _label_numbers(source.name, name, columns[name], labelled) for name in given}
    return LabelTable(
        items=items.filter(labelled),
        labels=labels.filter(labelled),
        confidence=numbers[CONFIDENCE] if sure else None,
        probabilities=np.column_stack([numbers[name] for name in chances]) if chances else None,
        classes=tuple(name.removeprefix(PROBABILITY) for name in chances),
        name=source.name,
    )


def _names(source: Source, format_name: str) -> list[str]:
    """Return the names of the columns, if the format has a header."""
    if format_name == "parquet":
        return open_records(source, format_name).names
    if format_name not in ("csv", "tsv"):
        return []
    refuse_odd_bytes(source, is_table=True)
    dialect = sniff(source.content, WANTED)
    return [name.strip() for name in dialect.first_row] if dialect.header else []


def _label_numbers(file: str, name: str, column: Any, labelled: Any) -> Floats:
    try:
        values: Floats = trimmed(column).filter(labelled).cast(pa.float64()).to_numpy()
    except pa.ArrowInvalid:
        raise InputError(f"{file}: column {name} holds something that is not a number") from None
    bad = np.flatnonzero(~((values >= 0) & (values <= 1)))
    if len(bad):
        raise InputError(
            f"{file}: column {name} holds {values[bad[0]]:g}; a probability is between 0 and 1"
        )
    return values


NAME = "worker"
NEEDED = ("answers", "accuracy")


def read_workers(path: str) -> WorkerTable:
    """Read a table of workers: their names and all columns of numbers."""
    import pyarrow.parquet as parquet

    source = open_source(path)
    delimiter = "\t" if source.suffix == ".tsv" else ","
    try:
        if detect(source) == "parquet":
            table = parquet.read_table(pa.BufferReader(source.content))
        else:
            table = csv.read_csv(
                pa.BufferReader(source.content),
                parse_options=csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
                convert_options=csv.ConvertOptions(column_types={NAME: pa.string()}),
            )
    except pa.ArrowInvalid as error:
        raise InputError(f"{source.name}: not a table of workers ({error})") from None
    for name in (NAME, *NEEDED):
        if name not in table.column_names:
            raise InputError(
                f"{source.name}: no column {name}; give a file that misc aggregate --workers wrote"
            )
    names = trimmed(table[NAME])
    if len(pc.unique(names)) < len(names):
        raise InputError(f"{source.name}: a worker stands in two rows; keep one")
    numbers = {
        name: table[name].cast(pa.float64()).to_numpy()
        for name in table.column_names
        if pa.types.is_floating(table[name].type) or pa.types.is_integer(table[name].type)
    }
    for name in NEEDED:
        if name not in numbers or not np.isfinite(numbers[name]).all():
            raise InputError(f"{source.name}: column {name} holds something that is not a number")
    return WorkerTable(
        workers=names,
        answers=numbers.pop("answers"),
        accuracy=numbers.pop("accuracy"),
        low=numbers.pop("accuracy_low", None),
        high=numbers.pop("accuracy_high", None),
        name=source.name,
    )
