"""No answer as a label that was said: labelling functions that abstain on purpose."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from misc_cli.__main__ import run
from misc_cli.aggregators.methods import DawidSkene, MajorityVote, MeanField
from misc_cli.data.types import Codes, Floats, Labels, Start
from misc_cli.errors import ConfigError
from tests.crowds import labels_from

N_ITEMS, N_CLASSES = 1_500, 3


def functions(seed: int = 0) -> tuple[Labels, Codes, Floats]:
    """Twelve functions, four per class, that only ever say their class, mostly where it is true.

    With them the truth and, for comparison, the scores of who knows how often each speaks.
    """
    rng = np.random.default_rng(seed)
    truth = rng.integers(N_CLASSES, size=N_ITEMS, dtype=np.int32)
    speaks_for = np.repeat(np.arange(N_CLASSES, dtype=np.int32), 4)
    often, seldom = rng.uniform(0.3, 0.8, (2, len(speaks_for)))
    rates = np.where(np.arange(N_CLASSES)[:, None] == speaks_for, often, 0.2 * seldom)
    spoke = rng.random((N_ITEMS, len(speaks_for))) < rates[truth]
    item, worker = (codes.astype(np.int32) for codes in np.nonzero(spoke))
    shape = (N_ITEMS, len(speaks_for), N_CLASSES)
    knowing: Floats = spoke @ np.log(rates).T + ~spoke @ np.log(1.0 - rates).T
    return labels_from(worker, item, speaks_for[worker], shape), truth, knowing


def dense_reference(labels: Labels, iterations: int, shrinkage: float) -> Floats:
    """EM over every cell of workers × items, silence spelled out, a uniform class prior."""
    n_items, n_workers = labels.n_items, labels.n_workers
    said = np.zeros((n_items, n_workers, N_CLASSES + 1))
    said[..., :N_CLASSES] = (
        labels.votes.block(slice(0, n_items)).toarray().reshape(n_items, n_workers, N_CLASSES)
    )
    said[..., N_CLASSES] = 1.0 - said.sum(axis=2)
    votes = said[..., :N_CLASSES].sum(axis=1)
    posteriors = np.full((n_items, N_CLASSES), 1.0 / N_CLASSES)
    answered = votes.sum(axis=1) > 0
    posteriors[answered] = votes[answered] / votes[answered].sum(axis=1, keepdims=True)
    for _ in range(iterations):
        counts = np.einsum("ic,iwk->wck", posteriors, said)
        crowd = counts.sum(axis=0) / counts.sum(axis=(0, 2))[:, None]
        rows = counts + shrinkage * crowd + np.finfo(float).eps
        logs = np.log(rows / rows.sum(axis=2, keepdims=True))
        scores = np.einsum("iwk,wck->ic", said, logs)
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        posteriors = weights / weights.sum(axis=1, keepdims=True)
    return posteriors


def errors(posteriors: Floats, truth: Codes) -> float:
    return float((posteriors.argmax(axis=1) != truth).mean())


@pytest.mark.parametrize("shrinkage", [0.0, 2.0])
def test_it_is_dawid_skene_with_silence_spelled_out(shrinkage: float) -> None:
    labels, _, _ = functions()
    method = DawidSkene("uniform", shrinkage, "informative", tol=0.0, max_iter=7)
    found = method(labels)
    np.testing.assert_allclose(found.posteriors, dense_reference(labels, 7, shrinkage), atol=1e-9)
    assert found.posteriors.shape == (N_ITEMS, N_CLASSES)
    np.testing.assert_allclose(found.confusions.sum(axis=2), 1.0)


@pytest.mark.parametrize("kind", [DawidSkene, MeanField])
def test_silence_tells_what_one_word_cannot(kind: type[DawidSkene | MeanField]) -> None:
    labels, truth, knowing = functions()
    ignored = kind("uniform")(labels)
    found = kind("uniform", missing="informative")(labels)
    # as good as who knows the rates; a vote hears only who speaks, and a model that is told no
    # more finds everybody who says one word only always right
    assert errors(found.posteriors, truth) < errors(knowing, truth) + 0.01
    assert errors(found.posteriors, truth) < errors(MajorityVote()(labels).posteriors, truth) - 0.02
    assert errors(found.posteriors, truth) < errors(ignored.posteriors, truth) - 0.02
    gold = np.full(N_ITEMS, -1, dtype=np.int32)
    gold[:5] = (truth[:5] + 1) % N_CLASSES
    kept = kind("uniform", missing="informative")(replace(labels, gold=gold))
    assert (kept.posteriors.argmax(axis=1)[:5] == gold[:5]).all()


def test_it_cannot_go_on_from_an_earlier_run() -> None:
    labels, _, _ = functions()
    confusions = np.ones((labels.n_workers, N_CLASSES, N_CLASSES)) / N_CLASSES
    with pytest.raises(ConfigError, match="earlier run"):
        DawidSkene(missing="informative")(replace(labels, start=Start(confusions)))


def test_the_flag_alone_is_ds_em_with_a_uniform_prior(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labels, truth, knowing = functions()
    matrix = labels.votes.block(slice(0, N_ITEMS)).tocoo()
    rows = [
        f"w{column // N_CLASSES},i{item:04d},c{column % N_CLASSES}"
        for item, column in zip(matrix.row, matrix.col, strict=True)
    ]
    file, output = tmp_path / "answers.csv", tmp_path / "labels.csv"
    file.write_text("\n".join(["worker,item,label", *rows, ""]))
    words = ["aggregate", str(file), "-p", "missing=informative", "--probabilities"]
    assert run([*words, "-o", str(output)]) == 0
    header, *lines = output.read_text().splitlines()
    assert header == "item,label,confidence,p_c0,p_c1,p_c2"
    found = {line.split(",")[0]: line.split(",")[1] for line in lines}
    wrong = [label != f"c{truth[int(item[1:])]}" for item, label in found.items()]
    assert np.mean(wrong) < errors(knowing, truth) + 0.01  # silent items are not in the file
    facts = json.loads((tmp_path / "labels.run.json").read_text())
    text = json.dumps(facts)
    assert '"missing": "informative"' in text
    assert '"class_prior": "uniform"' in text
    for more in (["--completer", "tucker"], ["--duplicates", "all"], ["--aggregator", "mv"]):
        assert run([*words, *more]) == 2
        assert "-p missing" in capsys.readouterr().err
