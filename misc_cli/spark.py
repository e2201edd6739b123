"""Spark DataFrames in and out: `aggregate(df, aggregator="ds-em")`, `fit(df)` (extra `spark`).

Answers are grouped once by item into blocks, one binary row per partition, which Spark caches. A
sweep is one `mapInArrow` over them: the kernel goes out with the task, the sums come back. Blocks
are never rewritten, so the lineage does not grow. No rows are kept: the ones there are follow from
the last kernels (see `needs` in core/engines/protocol.py), which are run again before the next one.
"""

from __future__ import annotations

import pickle
import re
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from misc_cli.data.encode import Counts
from misc_cli.data.types import KnownLabels, Labels, OnIteration, ignore_iteration
from misc_cli.engines.capabilities import methods_of
from misc_cli.engines.partitioned import (
    Part,
    PartTable,
    columns_of,
    encode_part,
    joined,
    part_of,
    translate,
    vocabulary_of,
)
from misc_cli.engines.protocol import (
    Columns,
    Kernel,
    MakeColumns,
    Sums,
    Vocabulary,
    WriteChunks,
    add_up,
)
from misc_cli.errors import ConfigError, InputError, MiscError, python_words
from misc_cli.quality.evidence import Evidence, evidence_of, warn_of, weigh
from misc_cli.quality.figures import Figure, figures
from misc_cli.quality.worker_dependence import compare_workers
from misc_cli.run import fitting
from misc_cli.run.result import RunResult
from misc_cli.run.settings import Methods, Settings, build
from misc_cli.run.tables import label_maker, worker_columns
from misc_cli.selection.ensemble import FitResult

Batches = Iterator[Any]
# Several answers of a worker to an item: a DataFrame has no order, so there is no last one.
RULES = ("error", "all")
BLOB = pa.schema([("blob", pa.binary())])
TYPES = {
    "string": "string",
    "double": "double",
    "int8": "tinyint",
    "int32": "int",
    "int64": "bigint",
}
# Figures of reading, which Spark does.
UNSEEN = ("empty", "repeats", "conflicts")
# Sums of a block, by the name of its first item, and how many of them one task adds.
SUM_CELLS, FAN_IN = "first string, blob binary", 8
# What `encode` advises where rows have an order.
OF_FILES = "choose --duplicates last, first or all"
VOCABULARY = pa.schema([("workers", pa.binary()), ("classes", pa.binary())])


def aggregate(df: Any, *, probabilities: bool = False, **options: Any) -> Any:
    """A DataFrame of item, label, confidence (and p_<class>), from one of worker, item, label.

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
    """One label per item, from a DataFrame of answers, and what there is to know of the run.

    `worker`, `item` and `label` name columns; `partitions` is the number of blocks [default: the
    DataFrame's]; `gold` has the known labels of some items; `options` are the method's parameters.
    `calibrate` softens confidences by hidden answers, which `seed` draws: one more fit.
    """
    runs = methods_of("spark")
    if aggregator not in runs:
        raise ConfigError(f"Spark runs {', '.join(runs)}, not {aggregator!r}")
    if duplicates not in RULES:
        raise ConfigError(f"duplicates={duplicates!r}: choose from {', '.join(RULES)}")
    settings = Settings(preset, None, aggregator, seed=seed, calibrate=calibrate, options=options)
    methods = build(settings)
    known = None
    if gold:
        known = KnownLabels(pa.array(list(gold)), pa.array(list(gold.values())), "gold")
    names = {"worker": worker, "item": item, "label": label}
    answers = _answers(df, names)
    engine = SparkEngine(answers, duplicates, class_order, partitions, known)
    try:
        found = fitting.fit(engine, methods, on_iteration)
        evidence = evidence_of(engine)
        if calibrate:
            weigh(engine, evidence)
    except BaseException:
        engine.blocks.unpersist()
        raise
    types = {role: df.schema[name].dataType for role, name in names.items()}
    return Fit(engine, methods, found, evidence, types)


@dataclass(frozen=True)
class Fit:
    """A method that has run; its labels are made where the blocks are, when somebody asks."""

    engine: SparkEngine
    methods: Methods
    found: FitResult
    evidence: Evidence
    types: Mapping[str, Any]

    def labels(self, *, probabilities: bool = False, item_details: bool = False) -> Any:
        """A DataFrame of item, label, confidence; p_<class>, and what --item-details adds."""
        maker = label_maker(self.found, probabilities=probabilities, item_details=item_details)
        return self._as_given(self.engine.labels(maker))

    def unpersist(self) -> None:
        """Free the blocks that Spark caches; labels that are asked for later read `df` again."""
        self.engine.blocks.unpersist()

    def _as_given(self, table: Any) -> Any:
        """Return a DataFrame whose workers, items and labels have the types of the answers."""
        roles = [role for role in self.types if role in table.columns]
        return table.withColumns({role: table[role].cast(self.types[role]) for role in roles})

    @property
    def figures(self) -> dict[str, Figure]:
        """The run in numbers, as run.json has them; warns of what looks wrong. Some sweeps."""
        return {
            name: self._outcome.figures[name]
            for name in self._outcome.figures
            if name not in UNSEEN
        }

    def workers(self) -> Any:
        """A DataFrame with a row per worker: the table of --workers. Some sweeps more."""
        columns = pa.table(worker_columns(self._outcome)).to_pandas()
        return self._as_given(self.engine.session.createDataFrame(columns))

    @cached_property
    def _outcome(self) -> RunResult:
        pairs = compare_workers(self.engine)
        found = self.found
        warn_of(self.evidence)
        numbers = figures(
            self.engine,
            pairs,
            self.evidence.probability,
            iterations=found.iterations,
            converged=found.converged,
        )
        return RunResult(found, self.methods, [], numbers, pairs)


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


def _answers(df: Any, names: Mapping[str, str]) -> Any:
    """Three text columns; rows without a label are no answers, rows without a name an error."""
    from pyspark.sql import functions as f

    missing = [name for name in names.values() if name not in df.columns]
    if missing:
        found = ", ".join(df.columns)
        raise InputError(
            f"no column {missing[0]!r} among {found}; name it with worker=, item=, label="
        )
    columns = [
        f.coalesce(f.trim(f.col(name).cast("string")), f.lit("")).alias(role)
        for role, name in names.items()
    ]
    answers = df.select(*columns).where("label != ''")
    nameless = answers.where("worker = '' or item = ''").limit(1).collect()
    if nameless:
        raise InputError(f"a label without its worker or item: {nameless[0].asDict()}")
    return answers


class SparkEngine:
    """Blocks cached by Spark; rows made anew for every sweep."""

    def __init__(
        self,
        answers: Any,
        duplicates: str,
        class_order: list[str] | None,
        partitions: int | None,
        gold: KnownLabels | None = None,
    ) -> None:
        self.gold, self.session = gold, answers.sparkSession
        self.counts, self.inputs = Counts(), ()
        self.n_blocks = partitions or _n_partitions(answers)
        grouped = answers.repartition(self.n_blocks, "item")
        encoded = grouped.mapInArrow(_encoder(duplicates), "blob binary").cache()
        try:
            with _plainly():
                told = encoded.mapInArrow(_vocabularies, "workers binary, classes binary")
                found = told.collect()
            if not found:
                raise InputError("no answers are left: every label is empty")
        except BaseException:
            encoded.unpersist()
            raise
        self.vocabulary = vocabulary_of(
            (pickle.loads(row.workers) for row in found),
            (pickle.loads(row.classes) for row in found),
            class_order,
        )
        self.blocks = encoded.mapInArrow(_translator(self.vocabulary), "blob binary").cache()
        self.log = KernelLineage()
        n_items, n_votes = self._collect(_sizes)
        self.n_items, self.n_votes = int(n_items), int(n_votes)
        encoded.unpersist()

    @property
    def n_workers(self) -> int:
        return len(self.vocabulary.workers)

    @property
    def n_classes(self) -> int:
        return len(self.vocabulary.classes)

    @property
    def ordered(self) -> bool:
        return self.vocabulary.ordered

    def whole(self, name: str) -> None:
        return None

    def sweep(self, kernel: Kernel[Sums]) -> Sums:
        before, payload = self.log.payloads, pickle.dumps(kernel, protocol=5)

        def one(part: Part) -> Any:
            _replay(part, before)
            return part.engine.sweep(pickle.loads(payload))

        sums: Sums = self._collect(one)
        self.log.add(kernel, payload)
        return sums

    def facts(self) -> dict[str, Any]:
        return {}

    def refuse_one_file(self) -> None:
        """Refuse nothing: who asks for chunks asks the driver to hold them."""

    def chunks(self, make: MakeColumns) -> Iterator[Columns]:
        table = pa.Table.from_pandas(self.labels(make).toPandas(), preserve_index=False)
        yield columns_of(table.take(pc.sort_indices(table["item"])))

    def write_parts(
        self, folder: Path, suffix: str, make: MakeColumns, write: WriteChunks
    ) -> dict[str, str]:
        raise ConfigError("Spark writes files itself: fit(df).labels().write")

    def labels(self, make: MakeColumns) -> Any:
        """Return a DataFrame whose rows are made where the blocks are."""
        before, gold = self.log.payloads, self.gold

        def decided(batches: Batches) -> Batches:
            for part in _parts(batches, gold):
                _replay(part, before)
                rows = slice(0, len(part.items))
                yield from _plain(PartTable(part, make).table(rows)).to_batches()

        nothing = _plain(pa.table(make.of_nothing(self.n_classes)))
        return self.blocks.mapInArrow(decided, _schema(nothing.schema))

    def _collect(self, one: Callable[[Part], Any]) -> Any:
        """The sum of `one` over all blocks, added by the executors in a tree of fixed order."""
        gold = self.gold

        def task(batches: Batches) -> Batches:
            for part in _parts(batches, gold):
                yield _sum_cell(part.items[0].as_py(), one(part))

        sums, left = self.blocks.mapInArrow(task, SUM_CELLS), self.n_blocks
        while left > FAN_IN:
            left = -(-left // FAN_IN)
            sums = sums.repartition(left, "first").mapInArrow(_add_cells, SUM_CELLS)
        with _plainly():
            rows = sums.collect()
        return _added((row.first, row.blob) for row in rows)[1]


def _n_partitions(df: Any) -> int:
    try:
        return int(df.rdd.getNumPartitions())
    except AttributeError:  # Spark Connect has no RDDs
        return int(df.sparkSession.conf.get("spark.sql.shuffle.partitions"))


def _sum_cell(first: str, sums: Any) -> Any:
    cells = [
        pa.array([first], pa.string()),
        pa.array([pickle.dumps(sums, protocol=5)], pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(cells, names=["first", "blob"])


def _add_cells(batches: Batches) -> Batches:
    cells = [
        (first.as_py(), blob.as_buffer())
        for batch in batches
        for first, blob in zip(batch["first"], batch["blob"], strict=True)
    ]
    if cells:
        yield _sum_cell(*_added(cells))


def _added(cells: Iterable[tuple[str, Any]]) -> tuple[str, Any]:
    """Return the sum in the order of the blocks' first items: never by who was first."""
    in_order = sorted(cells, key=lambda cell: cell[0])
    return in_order[0][0], add_up(pickle.loads(blob) for _, blob in in_order)


@dataclass(frozen=True)
class _Entry:
    """A kernel and the names of the rows it needs and writes; None where not declared."""

    needs: frozenset[str] | None
    writes: frozenset[str] | None
    payload: bytes


class KernelLineage:
    """The pickled kernels that are needed to make the current rows again, in their order."""

    def __init__(self) -> None:
        self._entries: list[_Entry] = []

    @property
    def payloads(self) -> list[bytes]:
        return [entry.payload for entry in self._entries]

    def add(self, kernel: Kernel[Any], payload: bytes) -> None:
        """Add a kernel; drop those whose rows are all overwritten before a kernel needs them."""
        entry = _Entry(_names(kernel, "needs"), _names(kernel, "writes"), payload)
        if entry.writes is not None and not entry.writes:
            return
        kept: list[_Entry] = []
        rewritten: frozenset[str] = frozenset()  # by kernels after this one, and not needed by them
        for one in (entry, *reversed(self._entries)):
            if one.writes is not None and one.writes <= rewritten:
                continue
            kept.append(one)
            if one.needs is None:
                rewritten = frozenset()
            else:
                rewritten = (rewritten | (one.writes or frozenset())) - one.needs
        self._entries = kept[::-1]


def _names(kernel: Kernel[Any], which: str) -> frozenset[str] | None:
    names = getattr(kernel, which, None)
    return None if names is None else frozenset(names)


def _plain(table: Any) -> Any:
    """Return a table with its dictionary columns as plain text."""
    columns = {
        name: table[name].cast(pa.string())
        if pa.types.is_dictionary(table[name].type)
        else table[name]
        for name in table.column_names
    }
    return pa.table(columns)


def _schema(schema: Any) -> str:
    """In Spark's words."""
    columns = [f"`{field.name.replace('`', '``')}` {TYPES[str(field.type)]}" for field in schema]
    return ", ".join(columns)


def _encoder(duplicates: str) -> Callable[[Batches], Batches]:
    def encode(batches: Batches) -> Batches:
        tables = [
            pa.Table.from_batches([batch.select(["worker", "item", "label"])]) for batch in batches
        ]
        encoded_columns = [
            pa.table({name: table[name].dictionary_encode() for name in table.column_names})
            for table in tables
            if table.num_rows
        ]
        part = encode_part(joined(encoded_columns), duplicates, "the DataFrame")
        if part is not None:
            yield _blob(part.labels)

    return encode


def _vocabularies(batches: Batches) -> Batches:
    for labels in _loaded(batches):
        cells = [pa.array([pickle.dumps(names)]) for names in (labels.workers, labels.classes)]
        yield pa.RecordBatch.from_arrays(cells, schema=VOCABULARY)


def _translator(vocabulary: Vocabulary) -> Callable[[Batches], Batches]:
    def translated(batches: Batches) -> Batches:
        for labels in _loaded(batches):
            yield _blob(translate(labels, vocabulary))

    return translated


def _sizes(part: Part) -> Any:
    return np.array([part.engine.n_items, part.engine.n_votes])


def _replay(part: Part, payloads: list[bytes]) -> None:
    for payload in payloads:
        part.engine.sweep(pickle.loads(payload))


def _blob(labels: Labels) -> Any:
    cell = pa.array([pickle.dumps(labels, protocol=5)], pa.binary())
    return pa.RecordBatch.from_arrays([cell], schema=BLOB)


def _loaded(batches: Batches) -> Iterator[Labels]:
    for batch in batches:
        for cell in batch["blob"]:
            yield pickle.loads(cell.as_buffer())


def _parts(batches: Batches, gold: KnownLabels | None) -> Iterator[Part]:
    for labels in _loaded(batches):
        yield part_of(labels, gold, labels.votes)
