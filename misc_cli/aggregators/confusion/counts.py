"""Votes, posteriors and confusions of labels in memory, each from the others."""

from __future__ import annotations

from misc_cli.aggregators.confusion.kernels import TINY, ExpectedCounts, VoteFractions
from misc_cli.core.engines.local import LocalEngine
from misc_cli.core.engines.protocol import POSTERIORS
from misc_cli.core.types import Floats, Labels


def vote_fractions(labels: Labels) -> Floats:
    """Each item's share of votes per class, (n_items, n_classes); gold rows are certain."""
    engine = LocalEngine.of(labels)
    engine.sweep(VoteFractions())
    return engine.whole(POSTERIORS)


def expected_counts(labels: Labels, posteriors: Floats) -> Floats:
    """n_w[ck] = Σ_i T_ic · [worker w answered k on i], (n_workers, n_classes, n_classes)."""
    engine = LocalEngine(labels.votes, {POSTERIORS: posteriors})
    return engine.sweep(ExpectedCounts()).by_worker


def crowd_rows(counts: Floats) -> Floats:
    """The crowd's mean confusions, (n_classes, n_classes): what a worker is shrunk towards."""
    return normalise_rows(counts.sum(axis=0))


def shrunk_rows(counts: Floats, shrinkage: float) -> Floats:
    """Confusions from counts (n_workers, K, K), each row with so many answers of the crowd's."""
    return normalise_rows(counts + shrinkage * crowd_rows(counts))


def confusions_of(labels: Labels, posteriors: Floats, shrinkage: float) -> Floats:
    """Each worker's confusions by its own answers if these posteriors hold, (n_workers, K, K)."""
    return shrunk_rows(expected_counts(labels, posteriors), shrinkage)


def normalise_rows(counts: Floats) -> Floats:
    """Rows that sum to 1; the epsilon makes a row without counts uniform."""
    smoothed = counts + TINY
    rows: Floats = smoothed / smoothed.sum(axis=-1, keepdims=True)
    return rows
