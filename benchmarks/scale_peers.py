"""Dawid–Skene in Spark, ours and as one writes it in DataFrames; and crowd-kit's.

usage: python scale_peers.py ours|plain|crowdkit answers.parquet seconds.json
The last file gets the seconds of each iteration as they are done.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

ITERATIONS = 20
FEW = 3  # of the slowest: they are all alike
TINY = 1e-10


def session() -> Any:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.shuffle.partitions", "4")
    made = builder.config("spark.driver.memory", "4g").getOrCreate()
    made.sparkContext.setLogLevel("ERROR")
    return made


def tell(seconds: list[float], file: str) -> None:
    Path(file).write_text(json.dumps(seconds))


def ours(path: str, file: str) -> None:
    from misc_cli.spark import aggregate

    seconds: list[float] = []

    def heard(line: Any) -> None:
        seconds.append(line.seconds)
        tell(seconds, file)

    df = session().read.parquet(path)
    labels = aggregate(
        df, aggregator="ds-em", tol=0.0, max_iter=ITERATIONS, partitions=2, on_iteration=heard
    )
    labels.write.mode("overwrite").parquet(f"{path}.labels")


def crowdkit(path: str, file: str) -> None:
    import pandas as pd
    from crowdkit.aggregation import DawidSkene

    answers = pd.read_parquet(path).rename(columns={"item": "task"})
    # a tolerance that no change of the loss can undercut: exactly ITERATIONS iterations
    method = DawidSkene(n_iter=ITERATIONS, tol=float("-inf"))
    answers, started = answers.astype(str), time.perf_counter()
    method.fit_predict(answers)
    tell([(time.perf_counter() - started) / ITERATIONS] * ITERATIONS, file)


def plain(path: str, file: str) -> None:
    """Run Dawid–Skene by joins and group-bys; a checkpoint cuts the lineage."""
    from pyspark.sql import functions as f

    answers = session().read.parquet(path).select("worker", "item", "label").cache()
    n_classes = answers.select("label").distinct().count()
    n_items = answers.select("item").distinct().count()
    totals = answers.groupBy("item").agg(f.count("*").alias("n"))
    votes = answers.groupBy("item", f.col("label").alias("truth")).agg(f.count("*").alias("k"))
    posteriors = votes.join(totals, "item").select(
        "item", "truth", (f.col("k") / f.col("n")).alias("p")
    )
    seconds = []
    for _ in range(FEW):
        started = time.perf_counter()
        # M-step: p(label | truth, worker), and the classes' shares
        joint = answers.join(posteriors, "item")
        counts = joint.groupBy("worker", "truth", "label").agg(f.sum("p").alias("n"))
        row = counts.groupBy("worker", "truth").agg(f.sum("n").alias("of"))
        confusions = counts.join(row, ["worker", "truth"]).select(
            "worker",
            "truth",
            "label",
            f.log((f.col("n") + TINY) / (f.col("of") + n_classes * TINY)).alias("log_c"),
        )
        prior = posteriors.groupBy("truth").agg(f.log(f.sum("p") / n_items).alias("log_p"))
        # E-step: an answer never given under a truth has a tiny share, not none
        scores = (
            answers.crossJoin(f.broadcast(prior))
            .join(confusions, ["worker", "truth", "label"], "left")
            .groupBy("item", "truth")
            .agg(
                f.sum(f.coalesce("log_c", f.log(f.lit(TINY)))).alias("s"),
                f.first("log_p").alias("b"),
            )
            .withColumn("s", f.col("s") + f.col("b"))
        )
        top = scores.groupBy("item").agg(f.max("s").alias("top"))
        weights = scores.join(top, "item").withColumn("w", f.exp(f.col("s") - f.col("top")))
        total = weights.groupBy("item").agg(f.sum("w").alias("total"))
        posteriors = weights.join(total, "item").select(
            "item", "truth", (f.col("w") / f.col("total")).alias("p")
        )
        posteriors = posteriors.localCheckpoint()
        seconds.append(time.perf_counter() - started)
        tell(seconds, file)
    posteriors.write.mode("overwrite").parquet(f"{path}.plain")


if __name__ == "__main__":
    {"ours": ours, "plain": plain, "crowdkit": crowdkit}[sys.argv[1]](*sys.argv[2:])
