"""Spark DataFrames in and out: `aggregate(df, aggregator="ds-em")` (extra `spark`).

Answers are grouped once by item into blocks, one binary row per partition, which Spark caches. A
sweep is one `mapInArrow` over them: the kernel goes out with the task, the sums come back. Blocks
are never rewritten, so the lineage does not grow. No rows are kept: the ones there are follow from
the last kernels (see `needs` in core/engines/protocol.py), which are run again before the next one.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from misc_cli.core.engines.parts import (
    Part,
    Vocabulary,
    encode_part,
    joined,
    part_of,
    translate,
)
from misc_cli.core.engines.protocol import Kernel, Sums, add_up
from misc_cli.core.types import KnownLabels, Labels, OnIteration, ignore_iteration
from misc_cli.errors import ConfigError, InputError
from misc_cli.run.settings import Settings, build
from misc_cli.scale import choice
from misc_cli.scale.job import METHODS
from misc_cli.scale.labels import PartLabels, Wanted
from misc_cli.scale.log import KernelLog

Batches = Iterator[Any]
# mmce's rows follow from those of the round before: each sweep would make all rounds again.
TOO_LONG = ("mmce-c", "mmce-o")
# Several answers of a worker to an item: a DataFrame has no order, so there is no last one.
RULES = ("error", "all")
BLOB = pa.schema([("blob", pa.binary())])
VOCABULARY = pa.schema([("workers", pa.binary()), ("classes", pa.binary())])


def aggregate(
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
    probabilities: bool = False,
    on_iteration: OnIteration = ignore_iteration,
    **options: Any,
) -> Any:
    """A DataFrame of item, label, confidence (and p_<class>), from one of worker, item, label.

    `worker`, `item` and `label` name columns; `partitions` is the number of blocks [default: the
    DataFrame's]; `gold` has the known labels of some items; `options` are the method's parameters.
    `calibrate` softens confidences by hidden answers, which `seed` draws: one more fit.
    """
    runs = [name for name in METHODS if name not in TOO_LONG]
    if aggregator not in runs:
        raise ConfigError(f"Spark runs {', '.join(runs)}, not {aggregator!r}")
    if duplicates not in RULES:
        raise ConfigError(f"duplicates={duplicates!r}: choose from {', '.join(RULES)}")
    settings = Settings(preset, None, aggregator, seed=seed, calibrate=calibrate, options=options)
    methods = build(settings)
    known = None
    if gold:
        known = KnownLabels(pa.array(list(gold)), pa.array(list(gold.values())), "gold")
    answers = _answers(df, worker, item, label)
    engine = SparkEngine(answers, duplicates, class_order, partitions, known)
    choice.named(engine, engine.vocabulary, methods, on_iteration)
    return engine.labels(probabilities)


def _answers(df: Any, worker: str, item: str, label: str) -> Any:
    """Three text columns; rows without a label are no answers, rows without a name an error."""
    from pyspark.sql import functions as f

    names = {"worker": worker, "item": item, "label": label}
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
        self.gold = gold
        n_blocks = partitions or answers.rdd.getNumPartitions()
        grouped = answers.repartition(n_blocks, "item")
        encoded = grouped.mapInArrow(_encoder(duplicates), "blob binary").cache()
        found = encoded.mapInArrow(_vocabularies, "workers binary, classes binary").collect()
        if not found:
            raise InputError("no answers are left: every label is empty")
        self.vocabulary = Vocabulary.of(
            (pickle.loads(row.workers) for row in found),
            (pickle.loads(row.classes) for row in found),
            class_order,
        )
        self.blocks = encoded.mapInArrow(_translator(self.vocabulary), "blob binary").cache()
        self.log = KernelLog()
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

    def labels(self, probabilities: bool) -> Any:
        """item, label, confidence: decided where the blocks are, when somebody asks for them."""
        before, vocabulary, gold = self.log.payloads, self.vocabulary, self.gold
        wanted = Wanted(probabilities)

        def decided(batches: Batches) -> Batches:
            for part in _parts(batches, gold):
                _replay(part, before)
                table = PartLabels(part, vocabulary, wanted).table(slice(0, len(part.items)))
                label = table["label"].cast(pa.string())
                at = table.column_names.index("label")
                yield from table.set_column(at, "label", label).to_batches()

        schema = "item string, label string, confidence double"
        if probabilities:
            names = self.vocabulary.classes.to_pylist()
            schema += "".join(f", `p_{name.replace('`', '``')}` double" for name in names)
        return self.blocks.mapInArrow(decided, schema)

    def _collect(self, one: Callable[[Part], Any]) -> Any:
        """The sum of `one` over all blocks, in an order that does not depend on who was first."""
        gold = self.gold

        def task(batches: Batches) -> Batches:
            for part in _parts(batches, gold):
                first = part.items[0].as_py()
                blob = pickle.dumps((first, one(part)), protocol=5)
                yield pa.RecordBatch.from_arrays([pa.array([blob], pa.binary())], schema=BLOB)

        rows = self.blocks.mapInArrow(task, "blob binary").collect()
        results = sorted((pickle.loads(row.blob) for row in rows), key=lambda result: result[0])
        return add_up(result for _, result in results)


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
