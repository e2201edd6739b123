"""What the block kernels promise: exact arithmetic, no copies, and threads that change nothing."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp
from scipy.special import logsumexp, softmax

from misc_cli import registry, votes
from misc_cli.solver import normalise_scores
from misc_cli.types import Labels
from misc_cli.votes import DenseVotes, SparseVotes, thread_limit


def crowd(n_items: int = 300, n_workers: int = 9, n_classes: int = 3) -> DenseVotes:
    """Everyone answers everything, right seven times in ten."""
    rng = np.random.default_rng(7)
    shape = (n_items, n_workers)
    truth = rng.integers(0, n_classes, (n_items, 1))
    codes = np.where(rng.random(shape) < 0.7, truth, rng.integers(0, n_classes, shape))
    return DenseVotes(codes.astype(np.uint8), n_classes)


def as_sparse(dense: DenseVotes) -> SparseVotes:
    blocks = [dense.block(rows) for rows in dense.blocks]
    return SparseVotes(sp.vstack(blocks, format="csr"), dense.n_workers, dense.n_classes)


def as_labels(source: votes.Votes) -> Labels:
    workers, items, classes = (
        pa.array([str(code) for code in range(size)])
        for size in (source.n_workers, source.n_items, source.n_classes)
    )
    return Labels(source, workers, items, classes, ordered=True)


@pytest.mark.parametrize("n_classes", [1, 2, 5])
def test_posteriors_and_normalisers_agree_with_scipy(n_classes: int) -> None:
    rng = np.random.default_rng(0)
    scores = rng.normal(scale=500.0, size=(40, n_classes))  # far beyond what exp() can hold
    log_prior = np.log(rng.dirichlet(np.ones(n_classes)))
    gold = np.full(40, -1, dtype=np.int32)
    gold[3] = n_classes - 1
    expected = scores + log_prior

    normalisers = normalise_scores(scores, gold, log_prior)

    np.testing.assert_allclose(normalisers, logsumexp(expected, axis=1), rtol=1e-14)
    np.testing.assert_allclose(
        scores[gold < 0], softmax(expected, axis=1)[gold < 0], rtol=1e-12, atol=1e-300
    )
    assert scores[3].tolist() == [0.0] * (n_classes - 1) + [1.0]


def test_blocks_cover_every_item_once_and_are_cut_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(votes, "BLOCK_VOTES", 50)
    sparse = as_sparse(crowd())
    assert len(sparse.blocks) > 5
    covered = np.concatenate([np.arange(rows.start, rows.stop) for rows in sparse.blocks])
    assert covered.tolist() == list(range(sparse.n_items))
    for rows in sparse.blocks:
        block = sparse.block(rows)
        assert sparse.block(rows) is block
        # scipy must not find a reason to copy the votes in each transposed product
        assert np.shares_memory(block.T.indices, block.indices)
        assert (block.toarray() == sparse.matrix.toarray()[rows]).all()


@pytest.mark.parametrize("name", list(registry.AGGREGATORS))
def test_threads_change_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(votes, "BLOCK_VOTES", 50)
    labels = as_labels(as_sparse(crowd()))
    method = registry.create("aggregator", name)
    outcomes = []
    for threads in (1, 2, 5):
        with thread_limit(threads):
            outcomes.append(method(labels))
    for other in outcomes[1:]:
        assert (other.posteriors == outcomes[0].posteriors).all()
        assert (other.confusions == outcomes[0].confusions).all()
        assert other.objective == outcomes[0].objective


@pytest.mark.parametrize("name", ["mv", "ds-em"])
def test_a_dense_label_matrix_is_the_same_votes(name: str) -> None:
    dense = crowd()
    method = registry.create("aggregator", name)
    from_dense, from_sparse = (method(as_labels(source)) for source in (dense, as_sparse(dense)))
    np.testing.assert_allclose(from_dense.posteriors, from_sparse.posteriors, atol=1e-12)
