"""Arguments of the Python functions: data frames of any kind in, the same kind out; files; session.

pandas, polars and pyarrow are known; whatever else gives an Arrow stream (DuckDB, Ibis) comes back
as a pyarrow table. Inside, every name is text: a column's distinct values and their texts are kept
beside each other, and results are translated back. Rows come back in the order in which their item
or worker first appears.
"""

from __future__ import annotations

import contextlib
import sys
import time
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from os import PathLike, fspath
from pathlib import Path as FilePath
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    Protocol,
    TypeAlias,
    TypeGuard,
    TypeVar,
)

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from threadpoolctl import threadpool_limits

from misc_cli.data.encode import plain, text_frame, trimmed
from misc_cli.data.resources import limits
from misc_cli.data.types import (
    Aggregator,
    Answers,
    Completer,
    Iteration,
    KnownLabels,
    LabelTable,
    Names,
    OnIteration,
)
from misc_cli.errors import ConfigError, InputError, MiscWarning, in_python, python_words
from misc_cli.readers import options as readers
from misc_cli.readers.answer_table import FileInfo
from misc_cli.readers.columns import choose, truth_synonyms
from misc_cli.readers.known_labels import read_known
from misc_cli.readers.read import read_answer_columns

if TYPE_CHECKING:
    from misc_cli.run.settings import OwnMethod


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

Path: TypeAlias = str | PathLike[str]
Source: TypeAlias = Path | Sequence[Path]
AggregatorName = Literal["auto", "mv", "one-coin", "ds-em", "ds-mf", "mmce-c", "mmce-o", "ebcc"]
CompleterName = Literal["auto", "none", "tucker", "tenals", "lrtc"]
Preset = Literal["robust", "paper"]
Duplicates = Literal["last", "first", "error", "all"]
Method: TypeAlias = "AggregatorName | Aggregator | OwnMethod"
Completion: TypeAlias = CompleterName | Completer


# Columns of results that hold values of the answers, by whose they are.
OWNER = {
    "item": "item",
    "worker": "worker",
    **dict.fromkeys(("label", "runner_up", "majority", "truth", "old_label", "new_label"), "label"),
}


@dataclass(frozen=True)
class Column:
    """The distinct values of a column, in order of appearance, and the text of each.

    `order` are the texts of an ordered category in its order, `type` is that of an Arrow column.
    """

    values: pd.Series[Any]
    texts: Names
    order: tuple[str, ...] | None = None
    type: Any = None

    @classmethod
    def read(cls, column: Any, name: str) -> tuple[Any, Column]:
        """Return a column as dictionary-encoded text, missing values missing, and its values."""
        order = own = None
        try:
            if isinstance(column, pa.ChunkedArray):
                own = column.type
                column = pd.Series(pd.arrays.ArrowExtensionArray(plain(column)))
            codes, distinct = pd.factorize(column)
        except (TypeError, pa.ArrowNotImplementedError):
            raise InputError(
                f"column {name!r}: its values cannot be compared; give text, numbers or categories"
            ) from None
        values = pd.Series(distinct)
        texts = texts_of(values)
        if isinstance(values.dtype, pd.CategoricalDtype) and values.dtype.ordered:
            order = tuple(texts.take(values.cat.codes.argsort().to_numpy()).to_pylist())
        indices = pa.array(codes, pa.int32(), mask=codes < 0)
        text = pa.DictionaryArray.from_arrays(indices, texts)
        return text, cls(values, trimmed(texts), order, own)

    def named(self, given: Any) -> pd.Series[Any]:
        """Return the values that these texts stand for; the texts, if some stand for none."""
        names = given if isinstance(given, pa.Array) else pa.array(given, pa.string())
        at = pc.index_in(plain(names), self.texts)
        if at.null_count > names.null_count:
            found: pd.Series[Any] = names.to_pandas()
            return found
        return self.values.reindex(at.to_pandas()).reset_index(drop=True)


def texts_of(values: pd.Series[Any]) -> Names:
    """Return the text of each of these distinct values; whole numbers have no decimals.

    A text that looks like another value of the column (the word "1" beside the number 1) is quoted.
    """
    values = values.astype(object).infer_objects()
    if pd.api.types.is_float_dtype(values.dtype):
        values = values.convert_dtypes()
    texts = values.astype("string")
    twice = texts.duplicated(keep=False) & values.map(lambda one: isinstance(one, str)).astype(bool)
    texts[twice] = values[twice].map(repr)
    return pa.array(texts, pa.string(), from_pandas=True)


@dataclass(frozen=True)
class Kind:
    """The kind of data frame that results come as, and the columns whose values they hold."""

    name: str = "pandas"
    columns: Mapping[str, Column] = field(default_factory=dict)
    schema: Mapping[str, Any] = field(default_factory=dict)  # polars' own types, by role

    def frame(self, columns: Mapping[str, Any], by: str | None = None) -> Any:
        """Return named columns as a data frame, rows in the order of appearance of `by`."""
        owned = {
            name: self.columns[OWNER[name]] for name in columns if name in OWNER and self.columns
        }
        values = {name: own.named(columns[name]) for name, own in owned.items()}
        found = text_frame({**columns, **values})
        if by in owned:
            order = pc.index_in(plain(columns[by]), owned[by].texts).to_numpy()
            found = found.iloc[order.argsort(kind="stable")].reset_index(drop=True)
        if self.name == "pandas":
            return found
        table = pa.Table.from_pandas(found, preserve_index=False)
        for name, own in owned.items():
            column = table[name]
            column = column.dictionary_encode() if pa.types.is_dictionary(own.type) else column
            with contextlib.suppress(pa.ArrowNotImplementedError):  # polars makes its own text
                table = table.set_column(found.columns.get_loc(name), name, column.cast(own.type))
        if self.name == "arrow":
            return table
        import polars

        made: Any = polars.from_arrow(table)
        kinds = {name: self.schema.get(OWNER[name]) for name in owned}
        enums = {name: kind for name, kind in kinds.items() if isinstance(kind, polars.Enum)}
        return made.cast(enums, strict=False)

    def values(self, role: str, names: Names) -> pd.Index[Any]:
        """Return the values of an owner's texts as a pandas index, in the order given."""
        own = self.columns.get(role)
        index: pd.Index[Any] = pd.Index(names.to_pandas() if own is None else own.named(names))
        return index


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


def frame_labels(given: Frame | pd.Series[Any]) -> LabelTable:
    """Return labels of items: columns item, label and maybe confidence, or a Series by item."""
    if isinstance(given, pd.Series):
        given = given.rename_axis("item").reset_index(name="label")
    _, names, columns = columns_of(given)
    chosen = choose("the DataFrame", names, {}, truth_synonyms())
    items, labels = (Column.read(columns[chosen[role]], role)[0] for role in ("item", "label"))
    confidence = None
    if "confidence" in names:
        confidence = np.asarray(columns[names.index("confidence")], dtype=float)
    return LabelTable(trimmed(items), trimmed(labels), confidence, name="the labels")


def known_of(given: Known | None) -> tuple[KnownLabels | None, FileInfo | None]:
    """Return known labels, if any, and the file that they were read from, if any."""
    if given is None:
        return None, None
    if isinstance(given, pd.Series) or is_frame(given):
        table = frame_labels(given)
        return KnownLabels(table.items, table.labels), None
    found = read_known(name_of(given))
    return found.labels, found.file


def name_of(source: object) -> str:
    if isinstance(source, str | PathLike):
        return fspath(source)
    raise InputError(f"{source!r:.60} is neither a data frame nor the path of a file")


class ReadOptions(readers.ReadOptions):
    """Options of reading: the reading flags of the commands, with underscores (docs/input.md)."""

    def __post_init__(self) -> None:
        with in_python():
            super().__post_init__()


@contextmanager
def session(processes: bool = False) -> Iterator[list[str]]:
    """Run as the command line does, with one BLAS thread; yield the warnings, in Python's words.

    They reach the caller's filters when the block ends, as if its own line had given them.
    """
    said: list[str] = []
    with (
        in_python(),
        warnings.catch_warnings(record=True) as caught,
        threadpool_limits(1, "blas"),
        limits(processes=processes),
    ):
        warnings.simplefilter("always", MiscWarning)
        yield said
    ours = (str(FilePath(__file__).parent), contextlib.__file__)
    files = [frame.f_code.co_filename for frame, _ in traceback.walk_stack(sys._getframe())]
    level = next((at for at, file in enumerate(files, 1) if not file.startswith(ours)), 1)
    for warning in caught:
        said.append(python_words(str(warning.message)))
        warnings.warn(said[-1], warning.category, stacklevel=level)


def telling(forward: OnIteration) -> OnIteration:
    """Return an observer that also says on stderr how far a run is, once a second."""
    shown = time.monotonic()

    def tell(iteration: Iteration) -> None:
        nonlocal shown
        forward(iteration)
        if time.monotonic() - shown > 1:
            shown = time.monotonic()
            what = iteration.extra.get("candidate", iteration.stage)
            of = f" of {iteration.extra['of']}" if "of" in iteration.extra else ""
            print(f"{what} {iteration.iteration}{of}", file=sys.stderr)

    return tell


def is_record(run: object) -> bool:
    return isinstance(run, str | PathLike) and fspath(run).endswith("run.json")


def class_order_of(class_order: Sequence[object] | None, kind: Kind) -> tuple[str, ...] | None:
    """Return the texts of labels in the order that was given, or that their category has."""
    if class_order is None:
        return kind.columns["label"].order if "label" in kind.columns else None
    if isinstance(class_order, str) or not isinstance(class_order, Sequence):
        raise ConfigError(f"class_order {class_order!r}: give a list of labels")
    return tuple(texts_of(pd.Series(list(class_order))).to_pylist())


def answers_of(
    given: Frame | Source, reading: readers.ReadOptions
) -> tuple[Answers, tuple[FileInfo, ...], Kind]:
    """Return answers, the files that they were read from, and the kind of their frame."""
    if not is_frame(given):
        read = read_answer_columns(names_of(given), reading)
        return read.answers, tuple(read.files), Kind()
    said = {name for name, value in vars(reading).items() if value is not None}
    of_files = sorted(said - {"worker_col", "item_col", "label_col", "duplicates"})
    if of_files:
        raise ConfigError(f"{of_files[0]} says how to read a file; a data frame is read already")
    kind, names, columns = columns_of(given)
    chosen = choose("the DataFrame", names, reading.columns)
    if not len(columns[0]):
        raise InputError("the DataFrame has no rows: give at least one answer")
    parts = {role: Column.read(columns[at], names[at]) for role, at in chosen.items()}
    answers = Answers(*(parts[role][0] for role in ("worker", "item", "label")))
    types: Any = getattr(given, "schema", {}) if kind == "polars" else {}
    schema = {role: types[names[at]] for role, at in chosen.items() if types}
    return answers, (), Kind(kind, {role: column for role, (_, column) in parts.items()}, schema)


def names_of(sources: object) -> list[str]:
    if isinstance(sources, Sequence) and not isinstance(sources, str):
        return [name_of(source) for source in sources]
    return [name_of(sources)]
