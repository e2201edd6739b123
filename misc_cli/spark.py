"""Spark DataFrames in and out: `aggregate(df, aggregator="ds-em")`, `fit(df)` (extra `spark`).

Answers are grouped once by item into blocks, one binary row per partition, which Spark caches. A
sweep is one `mapInArrow` over them: the kernel goes out with the task, the sums come back. Blocks
are never rewritten, so the lineage does not grow. No rows are kept: the ones there are follow from
the last kernels (see `needs` in engines/protocol.py), which are run again before the next one.
"""

from __future__ import annotations

import pickle
import re
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from misc_cli.data.encode import Counts, plain
from misc_cli.data.parameters import AUTO
from misc_cli.data.resources import limits
from misc_cli.data.types import KnownLabels, OnIteration, ignore_iteration
from misc_cli.engines.capabilities import methods_of
from misc_cli.engines.partitioned import (
    EncodingRules,
    PartitionedEngine,
    Summary,
    columns_of,
    encode_part,
    part_of,
)
from misc_cli.engines.protocol import (
    Columns,
    Kernel,
    MakeColumns,
    Sums,
    WriteChunks,
    add_up,
    row_names,
)
from misc_cli.errors import ConfigError, InputError, MiscError, python_words
from misc_cli.quality.figures import Figure
from misc_cli.run import pipeline
from misc_cli.run.result import RunResult, label_columns, label_maker, worker_columns
from misc_cli.run.settings import Settings, build

Batches = Iterator[Any]
# Several answers of a worker to an item: a DataFrame has no order, so there is no last one.
RULES = ("error", "all")
# Figures of reading, which Spark does.
UNSEEN = ("empty", "repeats", "conflicts")
# A block, or its sums, pickled, by the name of its first item; how many sums one task adds.
CELLS, FAN_IN = "first string, blob binary", 8
# What `encode` advises where rows have an order.
OF_FILES = "choose --duplicates last, first or all"


def aggregate(df: Any, *, probabilities: bool = False, **options: Any) -> Any:
    """Return a DataFrame of item, label, confidence (p_<class>) from one of worker, item, label.

    `options` are those of `fit`.
    """
    found = fit(df, **options)
    labels = found.labels(probabilities=probabilities)
    weakref.finalize(labels, found.unpersist)
    return labels


def fit(
    df: Any,
    *,
    aggregator: str = "ds-em",
    preset: str = "robust",
    worker: str = "worker",
    item: str = "item",
    label: str = "label",
    gold: Mapping[str, str] | None = None,
    calibrate: bool = True,
    seed: int = 0,
    duplicates: str = "error",
    class_order: list[str] | None = None,
    partitions: int | None = None,
    on_iteration: OnIteration = ignore_iteration,
    **options: Any,
) -> Fit:
    """Return one label per item of a DataFrame of answers, and what there is to know of the run.

    `worker`, `item` and `label` name columns; `partitions` is the number of blocks [default: the
    DataFrame's]; `gold` has the known labels of some items; `options` are the method's parameters.
    `calibrate` softens confidences by hidden answers, which `seed` draws: one more fit. With
    aggregator="auto" hidden answers choose the method.
    """
    from pyspark.sql import functions as f

    runs = (*methods_of("spark"), AUTO)
    if aggregator not in runs:
        raise ConfigError(f"Spark runs {', '.join(runs)}, not {aggregator!r}")
    if duplicates not in RULES:
        raise ConfigError(f"duplicates={duplicates!r}: choose from {', '.join(RULES)}")
    settings = Settings(preset, None, aggregator, seed=seed, calibrate=calibrate, options=options)
    methods, known = build(settings), None
    if gold:
        known = KnownLabels(pa.array(list(gold)), pa.array(list(gold.values())), "gold")
    names = {"worker": worker, "item": item, "label": label}
    for name in names.values():
        if name not in df.columns:
            found = ", ".join(df.columns)
            raise InputError(
                f"no column {name!r} among {found}; name it with worker=, item=, label="
            )
    columns = [  # text; rows without a label are no answers
        f.coalesce(f.trim(f.col(name).cast("string")), f.lit("")).alias(role)
        for role, name in names.items()
    ]
    answers = df.select(*columns).where("label != ''")
    rules = EncodingRules(duplicates, class_order, known, "the DataFrame")
    engine = SparkEngine(answers, rules, partitions)
    try:
        result = pipeline.run(engine, methods, gold=known, on_iteration=on_iteration)
    except BaseException:
        engine.blocks.unpersist()
        raise
    types = {role: df.schema[name].dataType for role, name in names.items()}
    return Fit(engine, result, types)


@dataclass(frozen=True)
class Fit:
    """A method that has run; its labels are made where the blocks are, when somebody asks."""

    engine: SparkEngine
    result: RunResult
    types: Mapping[str, Any]

    def labels(self, *, probabilities: bool = False, item_details: bool = False) -> Any:
        """Return a DataFrame of item, label, confidence; p_<class>, what --item-details adds."""
        wanted = {"probabilities": probabilities, "item_details": item_details}
        if self.result.fit.engine is self.engine:
            return self._as_given(self.engine.labels(label_maker(self.result.fit, **wanted)))
        return self._table(label_columns(self.result, **wanted))  # few answers, in memory

    def workers(self) -> Any:
        """Return a DataFrame with a row per worker: the table of --workers. Some sweeps more."""
        return self._table(worker_columns(self.result))

    @property
    def figures(self) -> dict[str, Figure]:
        """Return the run in numbers, as run.json has them."""
        figures = self.result.figures
        return {name: figures[name] for name in figures if name not in UNSEEN}

    def unpersist(self) -> None:
        """Free the blocks that Spark caches; labels that are asked for later read `df` again."""
        self.engine.blocks.unpersist()

    def _table(self, columns: Columns) -> Any:
        frame = pa.table(dict(columns)).to_pandas()
        return self._as_given(self.engine.session.createDataFrame(frame))

    def _as_given(self, table: Any) -> Any:
        """Return a DataFrame whose workers, items and labels have the types of the answers."""
        roles = [role for role in self.types if role in table.columns]
        return table.withColumns({role: table[role].cast(self.types[role]) for role in roles})


@contextmanager
def _plainly() -> Iterator[None]:
    """Raise what an executor said as if it had been said here, in words of Python."""
    try:
        yield
    except MiscError:
        raise
    except Exception as error:
        said = re.search(r"misc_cli\.errors\.(\w+): ([^\n]+)", str(error))
        if said:
            text = said[2].replace(OF_FILES, 'count all of them with duplicates="all"')
            raise InputError(python_words(text)) from None
        if "No module named 'misc_cli" in str(error):
            raise ConfigError(
                "the executors have no misc-cli: install it there, or let PYSPARK_PYTHON name a "
                "Python that has it"
            ) from None
        raise


class SparkEngine(PartitionedEngine):
    """Blocks cached by Spark; rows made anew for every sweep."""

    def __init__(self, answers: Any, rules: EncodingRules, partitions: int | None) -> None:
        self.session = answers.sparkSession
        self.kernels: list[Kernel[Any]] = []  # that make the rows of now
        try:
            self.n_blocks = partitions or int(answers.rdd.getNumPartitions())
        except AttributeError:  # Spark Connect has no RDDs
            self.n_blocks = int(self.session.conf.get("spark.sql.shuffle.partitions"))

        def encoded(batches: Batches) -> Batches:
            tables = []
            for batch in batches:
                columns = {name: batch[name] for name in ("worker", "item", "label")}
                for role in ("worker", "item"):
                    at = pc.index(columns[role], "").as_py()
                    if at >= 0:
                        row = {name: column[at].as_py() for name, column in columns.items()}
                        raise InputError(f"a label without its {role}: {row}")
                tables.append(pa.table({n: c.dictionary_encode() for n, c in columns.items()}))
            part = encode_part(tables, rules)
            if part is not None:
                yield _cell(part.labels.items[0].as_py(), part)

        own = answers.repartition(self.n_blocks, "item").mapInArrow(encoded, CELLS).cache()
        self.blocks = own
        try:
            found = self._added(own, Summary.of)
            if found is None:
                raise InputError("no answers are left: every label is empty")
            vocabulary = found.vocabulary(rules)
            super().__init__(vocabulary, found.sizes, Counts())
            common = _each(lambda part: part_of(part.labels, vocabulary, rules.gold))
            self.blocks = own.mapInArrow(common, CELLS).cache()
            with _plainly():
                self.blocks.count()
        except BaseException:
            self.blocks.unpersist()
            raise
        finally:
            own.unpersist()

    def sweep(self, kernel: Kernel[Sums]) -> Sums:
        kernels = [*self.kernels, kernel]
        sums: Sums = self._added(self.blocks, lambda part: list(map(part.sweep, kernels))[-1])
        self.kernels = lineage(kernels)
        return sums

    def _added(self, blocks: Any, one: Callable[[Any], Any]) -> Any:
        """Return the sum of `one` over all blocks, added by executors in a tree of fixed order."""
        sums, left = blocks.mapInArrow(_each(one), CELLS), self.n_blocks
        while left > FAN_IN:
            left = -(-left // FAN_IN)
            sums = sums.repartition(left, "first").mapInArrow(_add, CELLS)
        with _plainly():
            rows = sums.collect()
        return _sum([(row.first, row.blob) for row in rows])[1] if rows else None

    def labels(self, make: MakeColumns) -> Any:
        """Return a DataFrame whose rows are made where the blocks are."""
        from pyspark.sql.pandas.types import from_arrow_schema

        kernels = self.kernels

        def decided(batches: Batches) -> Batches:
            for _, blob in _cells(batches):
                part = pickle.loads(blob)
                for kernel in kernels:
                    part.sweep(kernel)
                yield from _plain(part.columns(make, slice(0, part.n_items))).to_batches()

        nothing = _plain(make.of_nothing(self.n_classes))
        return self.blocks.mapInArrow(decided, from_arrow_schema(nothing.schema))

    facts: ClassVar[Mapping[str, Any]] = {}

    def chunks(self, make: MakeColumns) -> Iterator[Columns]:
        table = pa.Table.from_pandas(self.labels(make).toPandas(), preserve_index=False)
        yield columns_of(table.take(pc.sort_indices(table["item"])))

    def write_parts(
        self, folder: Path, suffix: str, make: MakeColumns, write: WriteChunks
    ) -> dict[str, str]:
        raise ConfigError("Spark writes files itself: fit(df).labels().write")


def _cell(first: str, value: Any) -> Any:
    blob = pickle.dumps(value, protocol=5)
    cells = [pa.array([first], pa.string()), pa.array([blob], pa.binary())]
    return pa.RecordBatch.from_arrays(cells, names=["first", "blob"])


def _cells(batches: Batches) -> Iterator[tuple[str, Any]]:
    for batch in batches:
        for first, blob in zip(batch["first"], batch["blob"], strict=True):
            yield first.as_py(), blob.as_buffer()


def _each(one: Callable[[Any], Any]) -> Callable[[Batches], Batches]:
    """Return a task that turns every cell into that of `one` of its value."""

    def task(batches: Batches) -> Batches:
        for first, blob in _cells(batches):
            with limits(1):
                yield _cell(first, one(pickle.loads(blob)))

    return task


def _add(batches: Batches) -> Batches:
    cells = list(_cells(batches))
    if cells:
        yield _cell(*_sum(cells))


def _sum(cells: list[tuple[str, Any]]) -> tuple[str, Any]:
    """Return the sum in the order of the blocks' first items: never by who was first."""
    in_order = sorted(cells, key=lambda cell: cell[0])
    return in_order[0][0], add_up(pickle.loads(blob) for _, blob in in_order)


def _plain(columns: Columns) -> Any:
    """Return a table with its dictionary columns as plain text."""
    table = pa.table(dict(columns))
    return pa.table({name: plain(table[name]) for name in table.column_names})


def lineage(kernels: Sequence[Kernel[Any]]) -> list[Kernel[Any]]:
    """Return those of these kernels that are needed to make the current rows again, in order.

    The others' rows are all overwritten before a kernel needs them.
    """
    kept = []
    rewritten: frozenset[str] = frozenset()  # by kernels after this one, and not needed by them
    for kernel in reversed(kernels):
        needs, writes = row_names("needs", kernel), row_names("writes", kernel)
        if writes is None or not writes <= rewritten:
            kept.append(kernel)
            later = rewritten | (writes or frozenset())
            rewritten = frozenset() if needs is None else later - needs
    return kept[::-1]
