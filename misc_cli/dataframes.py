"""Data frames of any kind in, the same kind out, with the types of their columns.

pandas, polars and pyarrow are known; whatever else gives an Arrow stream (DuckDB, Ibis) comes back
as a pyarrow table. Inside, every name is text: a column's distinct values and their texts are kept
beside each other, and results are translated back. Rows come back in the order in which their item
or worker first appears.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeGuard, TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from misc_cli.data.encode import trimmed
from misc_cli.data.types import Answers, KnownLabels, LabelTable, Names
from misc_cli.errors import InputError
from misc_cli.readers.answer_table import FileInfo
from misc_cli.readers.columns import choose, truth_synonyms
from misc_cli.readers.known_labels import read_known


class ArrowStream(Protocol):
    """A data frame that gives its columns by Arrow's C interface: polars, pyarrow, pandas."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


Frame: TypeAlias = pd.DataFrame | ArrowStream
Known: TypeAlias = "Frame | pd.Series[Any] | str | PathLike[str]"
if TYPE_CHECKING:
    from typing_extensions import TypeVar as DefaultTypeVar

    # the kind of frame that came in; files come back as pandas
    F = DefaultTypeVar("F", bound=Frame, default=pd.DataFrame)
else:
    F = TypeVar("F")

# Columns of results that hold values of the answers, by whose they are.
OWNER = {
    "item": "item",
    "worker": "worker",
    **dict.fromkeys(("label", "runner_up", "majority", "truth", "old_label", "new_label"), "label"),
}


@dataclass(frozen=True)
class Column:
    """The distinct values of a column, in order of appearance, and the text of each.

    `type` is that of an Arrow column, whose `values` may have a plainer one. `order` are the texts
    of an ordered category in its order.
    """

    values: Any
    texts: Names
    type: Any = None
    order: tuple[str, ...] | None = None

    @classmethod
    def read(cls, column: Any, name: str) -> tuple[Any, Column]:
        """Return a column as dictionary-encoded text, missing values missing, and its values."""
        if isinstance(column, pa.ChunkedArray | pa.Array):
            return cls._read_arrow(column, name)
        try:
            codes, values = pd.factorize(column)
        except TypeError:
            raise InputError(f"column {name!r} holds values that cannot be compared") from None
        series = pd.Series(values)
        texts, order = _texts(series), None
        if isinstance(series.dtype, pd.CategoricalDtype) and series.dtype.ordered:
            order = tuple(texts.take(series.cat.codes.argsort().to_numpy()).to_pylist())
        return _coded(np.asarray(codes), texts), cls(values, trimmed(texts), order=order)

    @classmethod
    def _read_arrow(cls, column: Any, name: str) -> tuple[Any, Column]:
        own = column.type
        coded = _decoded(column).dictionary_encode()
        values = coded.dictionary
        try:
            if pa.types.is_boolean(values.type):
                texts = pc.if_else(values, "True", "False")
            elif pa.types.is_floating(values.type):
                texts = _texts(values.to_pandas())
            else:
                texts = values.cast(pa.string())
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            raise InputError(
                f"column {name!r} is of type {own}; give text, numbers or categories"
            ) from None
        codes = coded.indices.fill_null(-1).to_numpy()
        return _coded(codes, texts), cls(values, trimmed(texts), own)

    def named(self, names: Any) -> Any:
        """Return the values that these texts stand for; the texts, if some stand for none."""
        at = self.positions(names)
        if (at.is_null().sum().as_py() or 0) > names.null_count:
            return names
        if not isinstance(self.values, pa.Array):
            where = at.fill_null(-1).to_numpy()
            missing = bool(names.null_count)
            found = pd.Series(self.values).take(np.maximum(where, 0)).reset_index(drop=True)
            return found.where(where >= 0) if missing else found
        taken = self.values.take(at)
        if pa.types.is_dictionary(self.type):
            taken = taken.dictionary_encode()
        try:
            return taken.cast(self.type)
        except pa.ArrowNotImplementedError:  # polars' own kinds of text, which it makes again
            return taken

    def positions(self, names: Any) -> Any:
        """Return the place of each text in the order of appearance, null where it has none."""
        return pc.index_in(names, self.texts)


def _decoded(column: Any) -> Any:
    """Return an Arrow column without dictionary and views, which not every function takes."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if pa.types.is_dictionary(column.type):
        return _decoded(column.dictionary).take(column.indices)
    return column.cast(pa.string()) if pa.types.is_string_view(column.type) else column


def _coded(codes: Any, texts: Names) -> Any:
    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32(), mask=codes < 0), texts)


def _texts(values: pd.Series[Any]) -> Names:
    """Return the text of each of these distinct values; whole numbers have no decimals.

    A text that looks like another value of the column (the word "1" beside the number 1) is quoted.
    """
    if pd.api.types.is_float_dtype(values.dtype):
        values = values.convert_dtypes()
    texts = values.astype("string")
    words = pd.Series([], dtype=object)
    if values.dtype == object and texts.duplicated().any():
        words = values[texts.duplicated(keep=False) & values.map(lambda one: isinstance(one, str))]
    texts[words.index] = words.map(repr)
    return pa.array(texts, pa.string(), from_pandas=True)


@dataclass(frozen=True)
class Kind:
    """The kind of data frame that results come as, and the columns whose values they hold."""

    name: str = "pandas"
    columns: Mapping[str, Column] | None = None
    schema: Mapping[str, Any] | None = None  # polars' own types, by role

    def frame(self, columns: Mapping[str, Any], by: str | None = None) -> Any:
        """Return named columns as a data frame, rows in the order of appearance of `by`."""
        own = self.columns or {}
        arrays = {name: _plain(column) for name, column in columns.items()}
        order = None
        if by is not None and by in own:
            order = np.argsort(own[by].positions(arrays[by]).to_numpy(), kind="stable")
        found = {}
        for name, array in arrays.items():
            if order is not None:
                array = array.take(pa.array(order)) if isinstance(array, pa.Array) else array[order]
            if OWNER.get(name) in own and isinstance(array, pa.Array):
                array = own[OWNER[name]].named(array)
            if self.name == "pandas" and isinstance(array, pa.Array):
                array = array.to_pandas()
            found[name] = array
        if self.name == "pandas":
            return pd.DataFrame(found)
        table = pa.table(found)
        if self.name == "polars":
            import polars

            made: Any = polars.from_arrow(table)
            own_types = {name: (self.schema or {}).get(OWNER.get(name, "")) for name in found}
            enums = {name: t for name, t in own_types.items() if isinstance(t, polars.Enum)}
            return made.cast(enums, strict=False)
        return table

    def values(self, role: str, names: Names) -> pd.Index[Any]:
        """Return the values of an owner's texts as a pandas index, in the order given."""
        own = (self.columns or {}).get(role)
        found = names if own is None else own.named(names)
        index: pd.Index[Any] = pd.Index(found.to_pandas() if isinstance(found, pa.Array) else found)
        return index


def _plain(column: Any) -> Any:
    """Return a column as numpy numbers or a plain Arrow array."""
    if isinstance(column, pd.Series):
        text = column.dtype == object or pd.api.types.is_string_dtype(column.dtype)
        if not text:
            return column.to_numpy()
        try:
            return pa.array(column, from_pandas=True)
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            return column.to_numpy()
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if isinstance(column, pa.Array) and pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return column


def is_frame(given: object) -> TypeGuard[Frame]:
    return isinstance(given, pd.DataFrame) or hasattr(given, "__arrow_c_stream__")


def columns_of(frame: Frame) -> tuple[str, list[str], list[Any]]:
    """Return the kind of a data frame, the names of its columns, and the columns."""
    if isinstance(frame, pd.DataFrame):
        columns = [frame.iloc[:, at] for at in range(frame.shape[1])]
        return "pandas", list(map(str, frame.columns)), columns
    table = pa.table(frame)
    kind = "polars" if type(frame).__module__.partition(".")[0] == "polars" else "arrow"
    return kind, table.column_names, table.columns


def frame_answers(frame: Frame, named: Mapping[str, str | None]) -> tuple[Answers, Kind]:
    """Return the answers of a data frame and its kind; `named` columns go before found ones."""
    kind, names, columns = columns_of(frame)
    chosen = choose("the DataFrame", names, named)
    if not len(columns[0]):
        raise InputError("the DataFrame has no rows: give at least one answer")
    read = {role: Column.read(columns[at], names[at]) for role, at in chosen.items()}
    answers = Answers(*(read[role][0] for role in ("worker", "item", "label")))
    schema = None
    if kind == "polars":
        types: Any = getattr(frame, "schema")  # noqa: B009
        schema = {role: types[names[at]] for role, at in chosen.items()}
    return answers, Kind(kind, {role: column for role, (_, column) in read.items()}, schema)


def frame_known(given: Frame | pd.Series[Any]) -> KnownLabels:
    """Return known labels: of two columns, or of a Series by item."""
    if isinstance(given, pd.Series):
        parts = [given.index.to_series(), given]
    else:
        _, names, columns = columns_of(given)
        chosen = choose("the DataFrame", names, {}, truth_synonyms())
        parts = [columns[chosen[role]] for role in ("item", "label")]
    return KnownLabels(*(Column.read(part, "known")[0] for part in parts))


def frame_labels(given: Frame | pd.Series[Any]) -> LabelTable:
    """Return labels of items: columns item, label and maybe confidence, or a Series by item."""
    known = frame_known(given)
    confidence = None
    if not isinstance(given, pd.Series):
        _, names, columns = columns_of(given)
        if "confidence" in names:
            confidence = np.asarray(columns[names.index("confidence")], dtype=float)
    return LabelTable(trimmed(known.items), trimmed(known.labels), confidence, name="the labels")


def text_order(order: Sequence[object] | None) -> tuple[str, ...] | None:
    """Return the texts of labels that were named in order."""
    return None if order is None else tuple(_texts(pd.Series(list(order))).to_pylist())


def known_of(given: Known | None) -> tuple[KnownLabels | None, FileInfo | None]:
    """Return known labels, if any, and the file that they were read from, if any."""
    if given is None:
        return None, None
    if isinstance(given, pd.Series):
        return frame_known(given), None
    if is_frame(given):
        return frame_known(given), None
    found = read_known(name_of(given))
    return found.labels, found.file


def name_of(source: object) -> str:
    if isinstance(source, str | PathLike):
        return fspath(source)
    raise InputError(f"{source!r:.60} is neither a data frame nor the path of a file")
