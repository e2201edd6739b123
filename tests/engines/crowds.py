"""Answers for engines to agree on, with everything that has tripped a reader up."""

from __future__ import annotations

import csv
import gzip
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet

Row = tuple[str, str, str]
METHODS = ("mv", "one-coin", "ds-em", "ds-mf", "ebcc")
# Their rows follow from earlier rows, so Spark, which keeps none, does not run them.
WITH_ITEM_PARAMETERS = ("mmce-c", "mmce-o")
# mmce-o needs the classes in order.
ORDER = ("--class-order", "a,b,c")


def crowd(n_items: int = 400, seed: int = 5) -> list[Row]:
    """Repeats, contradictions, empty labels, spaces, quotes, line breaks, other alphabets."""
    generator = random.Random(seed)
    skill = {f"wörker {n}": 0.35 + 0.6 * generator.random() for n in range(12)}
    rows: list[Row] = []
    for number in range(n_items):
        name = f"{'éx' if number % 7 == 0 else 'it'}em, {number}" + '"' * (number % 11 == 0)
        name += "\nbelow" * (number % 13 == 0)
        truth = generator.choice("abc")
        for worker in generator.sample(sorted(skill), 4):
            right = generator.random() < skill[worker]
            rows.append((worker, name, truth if right else generator.choice("abc")))
    for row in generator.sample(rows, 40):
        worker, name, _ = row
        rows.append(row if generator.random() < 0.5 else (worker, f" {name} ", "b"))
        rows.append((worker, name, " "))
    generator.shuffle(rows)
    return rows


def write_csv(rows: list[Row], path: Path) -> Path:
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "wt", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, delimiter="\t" if ".tsv" in path.name else ",")
        writer.writerow(["worker", "item", "label"])
        writer.writerows(rows)
    return path


def write_parquet(rows: list[Row], path: Path, row_group: int = 100) -> Path:
    columns = dict(
        zip(("worker", "item", "label"), map(list, zip(*rows, strict=True)), strict=True)
    )
    parquet.write_table(pa.table(columns), path, row_group_size=row_group)
    return path
