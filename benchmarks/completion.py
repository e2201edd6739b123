"""`make accuracy`, second table: an aggregator completed and alone, on data with truth.

usage: python completion.py [--completer tucker] [--aggregator ds-em] [--only SET ...] [--root DIR]
The sets are the 21 of ../shared and 14 simulated crowds; none of the crowds was used to settle a
rule. Prints markdown and writes it to benchmarks/out/completion.md.
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
from accuracy import NINE, TWELVE
from measure import table

import misc_cli
from misc_cli.data.encode import encode_known
from misc_cli.data.types import KnownLabels
from misc_cli.quality.evaluation import expected_error
from misc_cli.readers.known_labels import read_known
from misc_cli.readers.options import ReadOptions
from misc_cli.simulate import Simulation, simulate

WORSE = 0.3  # points
CROWDS = {
    "groups, 4 classes": Simulation(80, 500, 4, 4.0, 0.6, groups=3, seed=101),
    "groups, 5 classes, poor": Simulation(120, 600, 5, 6.0, 0.4, groups=4, seed=102),
    "groups, 2 classes": Simulation(60, 400, 2, 5.0, 0.65, groups=2, seed=103),
    "groups, 8 classes": Simulation(150, 800, 8, 5.0, 0.5, groups=5, seed=104),
    "thin": Simulation(100, 500, 4, 2.5, 0.7, seed=105),
    "dense": Simulation(30, 200, 3, 12.0, 0.6, seed=106),
    "usual": Simulation(60, 500, 4, 3.6, 0.7, seed=107),
    "usual, 2 classes": Simulation(60, 500, 2, 3.6, 0.7, seed=108),
    "many classes": Simulation(100, 600, 12, 5.0, 0.6, seed=109),
    "few workers": Simulation(8, 400, 4, 4.0, 0.7, seed=110),
    "even activity": Simulation(80, 600, 4, 4.0, 0.65, activity_skew=0.0, seed=111),
    "spammers": Simulation(
        80, 600, 4, 5.0, 0.7, mix={"honest": 0.5, "spammers": 0.4, "biased": 0.1}, seed=112
    ),
    "experts": Simulation(50, 400, 5, 3.0, 0.8, mix={"experts": 0.5, "honest": 0.5}, seed=113),
    "biased": Simulation(70, 500, 3, 4.0, 0.6, mix={"biased": 0.7, "honest": 0.3}, seed=114),
}


def sets(root: Path, only: list[str]) -> Iterator[tuple[str, pd.DataFrame, KnownLabels]]:
    """Yield the name, the answers and the truth of each set."""
    for name in [*TWELVE, *NINE]:
        place = next(root.glob(f"datasets*/{name}"), None)
        if place is not None and (not only or name in only):
            known = read_known(str(place / "truth.csv"), ReadOptions()).labels
            yield name, pd.read_csv(place / "answers.csv", dtype=str), known
    for name, settings in CROWDS.items():
        if not only or name in only:
            crowd = simulate(settings)
            answers = pd.DataFrame(
                {"worker": crowd.worker, "item": crowd.item, "label": crowd.label}
            ).astype(str)
            items = pa.array([str(item) for item in range(settings.items)])
            yield name, answers, KnownLabels(items, pa.array(crowd.truth).cast(pa.string()))


def processor_seconds() -> float:
    """Return the processor time of this process and of its children that ended."""
    return sum(os.times()[:4])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--completer", default="tucker")
    parser.add_argument("--aggregator", default="ds-em")
    parser.add_argument("--only", nargs="+", default=[])
    parser.add_argument("--root", type=Path, default=Path(__file__).parents[2] / "shared")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    rows, differences = [], []
    for name, answers, known in sets(chosen.root, chosen.only):
        alone = misc_cli.aggregate(answers, aggregator=chosen.aggregator)
        truth = encode_known(alone.outcome.labels, known)
        began = processor_seconds()
        found = misc_cli.aggregate(
            answers, completer=chosen.completer, aggregator=chosen.aggregator
        )
        took = processor_seconds() - began
        errors = [100.0 * expected_error(one.outcome.posteriors, truth) for one in (alone, found)]
        differences.append(errors[1] - errors[0])
        rows.append([name, *(f"{error:.2f}" for error in errors)])
        rows[-1] += [f"{differences[-1]:+.2f}", f"{took:.1f}"]
        print(" | ".join(rows[-1]), flush=True)
    names = [chosen.aggregator, f"{chosen.completer} + {chosen.aggregator}"]
    means = [f"{np.mean([float(row[at]) for row in rows]):.2f}" for at in (1, 2)]
    rows.append([f"mean of {len(rows)}", *means, f"{np.mean(differences):+.2f}", ""])
    text = table(["set", *names, "difference", "CPU s"], rows)
    text += (
        f"\nWorse by more than {WORSE} points on {sum(d > WORSE for d in differences)} of "
        f"{len(differences)}, at most by {max(differences):.2f}.\n"
    )
    out = Path(__file__).parent / "out"
    out.mkdir(exist_ok=True)
    (out / "completion.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
