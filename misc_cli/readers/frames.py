"""Answers and known labels from a pandas DataFrame, its columns found as a file's are."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pandas as pd
import pyarrow as pa

from misc_cli.data.types import Answers, KnownLabels
from misc_cli.errors import ConfigError, InputError
from misc_cli.readers.columns import choose, truth_synonyms
from misc_cli.readers.options import ReadOptions

# What can be said of a table that is read already.
OF_FRAMES = ("worker_col", "item_col", "label_col", "duplicates")


def frame_answers(frame: pd.DataFrame, options: ReadOptions) -> Answers:
    """The three columns of a DataFrame."""
    given = [
        field.name
        for field in fields(options)
        if getattr(options, field.name) is not None and field.name not in OF_FRAMES
    ]
    if given:
        raise ConfigError(
            f"{given[0]} says how to read a file; a DataFrame takes {', '.join(OF_FRAMES)}"
        )
    chosen = choose("the DataFrame", _names(frame), options.columns)
    if len(frame) == 0:
        raise InputError("the DataFrame has no rows: give at least one answer")
    return Answers(*(_text(frame.iloc[:, chosen[role].position]) for role in options.columns))


def frame_known(frame: pd.DataFrame) -> KnownLabels:
    """Items and their labels."""
    chosen = choose("the DataFrame", _names(frame), {}, truth_synonyms())
    columns = (_text(frame.iloc[:, chosen[role].position]) for role in ("item", "label"))
    return KnownLabels(*columns)


def _names(frame: pd.DataFrame) -> list[str]:
    return [str(name) for name in frame.columns]


def _text(column: pd.Series[Any]) -> Any:
    """As text, missing values missing; whole numbers that pandas made floats are whole again."""
    if pd.api.types.is_float_dtype(column.dtype):
        column = column.convert_dtypes()
    return pa.array(column.astype("string"), pa.string(), from_pandas=True)
