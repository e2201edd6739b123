"""What the block kernels promise: exact arithmetic, no copies, nothing made twice by threads."""

from __future__ import annotations

import threading

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp
from scipy.special import logsumexp, softmax

from misc_cli import registry
from misc_cli.data import votes
from misc_cli.data.posteriors import normalise_scores
from misc_cli.data.resources import THREADS, limits, map_in_order
from misc_cli.data.types import Labels
from misc_cli.data.votes import DenseVotes, SparseVotes


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
    expected = scores + log_prior
    gold[3] = known = int(expected[3].argmin())  # against the scores
    open_rows = gold < 0

    normalisers = normalise_scores(scores, gold, log_prior)

    np.testing.assert_allclose(
        normalisers[open_rows], logsumexp(expected, axis=1)[open_rows], rtol=1e-14
    )
    np.testing.assert_allclose(
        scores[open_rows], softmax(expected, axis=1)[open_rows], rtol=1e-12, atol=1e-300
    )
    # what is known to be of one class is as likely as that class makes its answers
    assert normalisers[3] == expected[3, known]
    assert scores[3].tolist() == np.eye(n_classes)[known].tolist()


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


@pytest.mark.parametrize("kind", ["sparse", "dense"])
def test_class_totals_count_votes_and_no_thread_makes_what_blocks_share(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Since Python 3.12 a cached property has no lock: threads would each make their own."""
    monkeypatch.setattr(votes, "BLOCK_VOTES", 50)
    dense = crowd()
    source: DenseVotes | SparseVotes = DenseVotes(dense.label_matrix, 3)
    if kind == "sparse":
        source = as_sparse(dense)

    def kernel(rows: slice) -> bool:
        held = set(vars(source))
        by_worker = source.block(rows).toarray().reshape(-1, source.n_workers, 3)
        totals = source.class_totals(rows)
        np.testing.assert_array_equal(totals, by_worker.sum(axis=1))
        return set(vars(source)) == held

    with limits(1):  # the first block is the one that could have made something
        assert all(map_in_order(kernel, source.blocks))


def test_a_thread_limit_is_the_callers_alone() -> None:
    """Two calls that overlap: neither sees the other's limit, and nothing is left behind."""
    both_inside, first_left = threading.Barrier(2, timeout=10), threading.Event()
    seen: dict[int, list[int]] = {3: [], 5: []}

    def call(limit: int) -> None:
        with limits(limit):
            both_inside.wait()
            seen[limit].append(THREADS.get())
            if limit == 5:
                first_left.wait(10)
            seen[limit].append(THREADS.get())
        first_left.set()

    before = THREADS.get()
    callers = [threading.Thread(target=call, args=(limit,)) for limit in seen]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert seen == {3: [3, 3], 5: [5, 5]}
    assert THREADS.get() == before


@pytest.mark.parametrize("name", ["mv", "ds-em"])
def test_a_dense_label_matrix_is_the_same_votes(name: str) -> None:
    dense = crowd()
    method = registry.create("aggregator", name)
    from_dense, from_sparse = (method(as_labels(source)) for source in (dense, as_sparse(dense)))
    np.testing.assert_allclose(from_dense.posteriors, from_sparse.posteriors, atol=1e-12)
