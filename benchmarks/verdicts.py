"""Judge verdicts and intervals of workers on simulated crowds with known roles.

python benchmarks/verdicts.py [--crowds 20]      the tables of docs/workers.md
python benchmarks/verdicts.py --intervals        500 crowds per row: intervals of agreement
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from misc_cli import registry
from misc_cli.data.types import Codes, Labels
from misc_cli.data.votes import SparseVotes
from misc_cli.engines.local import MemoryEngine
from misc_cli.engines.protocol import POSTERIORS
from misc_cli.quality.agreement import agreement_intervals, agreement_of
from misc_cli.quality.verdicts import ALWAYS, CHECK, COPIES, FINE, SPAMMER, TOO_FEW, Verdicts, judge
from misc_cli.quality.worker_dependence import compare_workers
from misc_cli.quality.worker_scores import peer_agreement
from misc_cli.simulate import KINDS, Crowd, Simulation, simulate

USUAL = {
    "experts": 0.05,
    "honest": 0.6,
    "spammers": 0.1,
    "constants": 0.1,
    "beginners": 0.1,
    "copiers": 0.05,
}
HARSH = {
    "experts": 0.1,
    "honest": 0.35,
    "biased": 0.1,
    "adversaries": 0.05,
    "spammers": 0.15,
    "constants": 0.1,
    "beginners": 0.1,
    "copiers": 0.05,
}
LEAST = 30  # answers of the workers that are counted

Counts = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Setting:
    name: str
    crowd: Simulation


SETTINGS = [
    Setting("2 classes, accuracy .85", Simulation(classes=2, accuracy=0.85, mix=USUAL)),
    Setting("3 classes, accuracy .8", Simulation(classes=3, accuracy=0.8, mix=USUAL)),
    Setting("4 classes, accuracy .7", Simulation(classes=4, accuracy=0.7, mix=USUAL)),
    Setting(
        "4 classes, accuracy .8, 3 answers per item",
        Simulation(classes=4, accuracy=0.8, answers_per_item=3, mix=USUAL),
    ),
    Setting("8 classes, accuracy .6", Simulation(classes=8, accuracy=0.6, mix=USUAL)),
    Setting(
        "4 classes, accuracy .8, few answers each",
        Simulation(classes=4, accuracy=0.8, items=900, mix=USUAL),
    ),
    Setting("2 classes, accuracy .75 (hard)", Simulation(classes=2, accuracy=0.75, mix=USUAL)),
    Setting(
        "4 classes, accuracy .7, half of them bad (hard)",
        Simulation(classes=4, accuracy=0.7, mix=HARSH),
    ),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--crowds", type=int, default=20)
    parser.add_argument("--intervals", action="store_true")
    given = parser.parse_args()
    if given.intervals:
        print("| items | classes | alpha | intervals of alpha that hold | of pairwise agreement |")
        print("|---|---|---|---|---|")
        for row in intervals():
            print(row, flush=True)
        return
    print(
        "| crowd | spammer: precision | recall | always says: precision | recall | "
        "beginners flagged | honest flagged | copiers found |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for setting in SETTINGS:
        print(row_of(setting, given.crowds), flush=True)


def row_of(setting: Setting, crowds: int) -> str:
    found = {kind: np.zeros(6) for kind in KINDS}
    copies = np.zeros(2)
    for seed in range(crowds):
        items = 2_000 if setting.crowd.items == Simulation.items else setting.crowd.items
        crowd = simulate(replace(setting.crowd, items=items, seed=seed))
        verdicts = judged(crowd)
        enough = np.bincount(crowd.worker, minlength=len(crowd.kinds)) >= LEAST
        for code, kind in enumerate(KINDS):
            found[kind] += np.bincount(verdicts.kind[(crowd.kinds == code) & enough], minlength=6)
        copies += copies_found(crowd, verdicts, enough)
    everybody = np.sum(list(found.values()), axis=0)
    spammers, constants, beginners = (found[k] for k in ("spammers", "constants", "beginners"))
    # who answers at random and nearly always the same is rightly called either
    random = spammers + constants
    honest = found["honest"] + found["experts"]
    copied = honest[COPIES] + honest[CHECK]  # the originals of copiers: one of the two must be it
    figures = [
        random[SPAMMER] / everybody[SPAMMER],
        (spammers[SPAMMER] + spammers[ALWAYS]) / spammers.sum(),
        random[ALWAYS] / everybody[ALWAYS],
        constants[ALWAYS] / constants.sum(),
        1.0 - (beginners[FINE] + beginners[TOO_FEW]) / beginners.sum(),
        1.0 - (honest[FINE] + honest[TOO_FEW] + copied) / honest.sum(),
        copies[0] / copies[1],
    ]
    return f"| {setting.name} | " + " | ".join(f"{figure:.3f}" for figure in figures) + " |"


def judged(crowd: Crowd) -> Verdicts:
    labels = labels_of(crowd)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = registry.create("aggregator", "ds-em", "robust")(labels)
    engine = MemoryEngine(labels, {POSTERIORS: fitted.posteriors})
    return judge(peer_agreement(engine), compare_workers(MemoryEngine(labels)))


def copies_found(crowd: Crowd, verdicts: Verdicts, enough: npt.NDArray[np.bool_]) -> Counts:
    """Count the copiers that are found (either end of a pair may be called the copy), and all."""
    copiers = np.flatnonzero((crowd.originals >= 0) & enough)
    originals = crowd.originals[copiers]
    called = (verdicts.kind[copiers] == COPIES) | (verdicts.kind[originals] == COPIES)
    return np.array([called.sum(), len(copiers)], dtype=np.float64)


def labels_of(crowd: Crowd) -> Labels:
    n_classes = crowd.confusions.shape[1]
    votes = votes_of(crowd.worker, crowd.item, crowd.label, len(crowd.kinds), n_classes)
    return Labels(votes, workers=None, items=None, classes=None)


def votes_of(
    worker: Codes, item: Codes, label: Codes, n_workers: int, n_classes: int
) -> SparseVotes:
    """Return the votes on the items from the first to the last of these answers."""
    first = int(item.min())
    columns = worker.astype(np.int64) * n_classes + label
    shape = (int(item.max()) - first + 1, n_workers * n_classes)
    matrix = sp.csr_array((np.ones(len(item)), (item - first, columns)), shape=shape)
    return SparseVotes(matrix, n_workers, n_classes)


def intervals(crowds: int = 500) -> Iterator[str]:
    """Count how often the intervals of 500 samples of items hold the value of all items."""
    for n_items, n_classes in ((50, 2), (100, 4), (300, 4), (1_000, 3)):
        crowd = simulate(Simulation(workers=60, items=n_items * crowds, classes=n_classes, seed=1))
        whole = votes_of(crowd.worker, crowd.item, crowd.label, 60, n_classes)
        true = agreement_of(whole)
        hits = np.zeros(2)
        for number in range(crowds):
            edges = np.searchsorted(crowd.item, [number * n_items, (number + 1) * n_items])
            rows = slice(*edges)
            part = votes_of(crowd.worker[rows], crowd.item[rows], crowd.label[rows], 60, n_classes)
            found = agreement_intervals(part, resamples=1_000, seed=number)
            for at, interval in enumerate(found):
                hits[at] += interval.low <= true[at] <= interval.high
        shares = " | ".join(f"{100 * share:.1f} %" for share in hits / crowds)
        yield f"| {n_items:,} | {n_classes} | {true[0]:.3f} | {shares} |"


if __name__ == "__main__":
    main()
