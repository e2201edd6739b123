"""A file of workers as `misc aggregate --workers` writes it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from misc_cli.core.types import Floats, WorkerTable
from misc_cli.errors import InputError
from misc_cli.io.source import Source, open_source

NAME = "worker"
NEEDED = ("answers", "accuracy")


def read_workers(path: str) -> WorkerTable:
    """Names and numbers; a column that is no number is left out."""
    source = open_source(path)
    table = _table(source)
    for name in (NAME, *NEEDED):
        if name not in table.column_names:
            raise InputError(
                f"{source.name}: no column {name}; give a file that misc aggregate --workers wrote"
            )
    names = pc.utf8_trim_whitespace(table[NAME].combine_chunks().cast(pa.string()))
    if len(pc.unique(names)) < len(names):
        raise InputError(f"{source.name}: a worker stands in two rows; keep one")
    numbers = {
        name: _numbers(table[name])
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
        columns=numbers,
        name=source.name,
    )


def _table(source: Source) -> Any:
    if source.is_parquet:
        import pyarrow.parquet as parquet

        return parquet.read_table(pa.BufferReader(source.content))
    delimiter = "\t" if source.suffix == ".tsv" else ","
    try:
        return arrow_csv.read_csv(
            pa.BufferReader(source.content),
            parse_options=arrow_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            convert_options=arrow_csv.ConvertOptions(column_types={NAME: pa.string()}),
        )
    except pa.ArrowInvalid as error:
        raise InputError(f"{source.name}: not a table of workers ({error})") from None


def _numbers(column: Any) -> Floats:
    values: Floats = column.cast(pa.float64()).to_numpy()
    return values
