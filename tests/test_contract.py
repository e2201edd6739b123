"""What every method promises, run over every entry of the registry under every preset.

A new method gets these tests by its line in the registry.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

import misc_cli.data.votes as votes_module
from misc_cli import registry
from misc_cli.completers.completion_loop import run_loop
from misc_cli.completers.parameters import Loop
from misc_cli.data.encode import encode
from misc_cli.data.resources import limits
from misc_cli.data.types import Answers, Codes, Iteration, Labels
from misc_cli.data.votes import LabelTensor, SparseVotes
from misc_cli.engines.local import MemoryEngine
from misc_cli.engines.protocol import POSTERIORS

AGGREGATORS = list(itertools.product(registry.AGGREGATORS, registry.PRESETS))
COMPLETERS = list(itertools.product(registry.COMPLETERS, registry.PRESETS))
# The order of the classes is part of this model: only turning it round leaves it the same.
ORDINAL = {"mmce-o"}

pytestmark = pytest.mark.filterwarnings("default::misc_cli.errors.ConvergenceWarning")


def crowd(
    n_items: int = 120, n_workers: int = 12, n_classes: int = 3, seed: int = 5
) -> tuple[Labels, Codes]:
    """A fair crowd, six answers per item, and the truth it was made from."""
    generator = np.random.default_rng(seed)
    truth = generator.integers(n_classes, size=n_items).astype(np.int32)
    item = np.repeat(np.arange(n_items), 6)
    order = generator.random((n_items, n_workers)).argsort(axis=1)
    worker = order[:, :6].ravel()
    skill = generator.uniform(0.55, 0.95, n_workers)
    right = generator.random(len(item)) < skill[worker]
    wrong = (truth[item] + generator.integers(1, n_classes, len(item))) % n_classes
    label = np.where(right, truth[item], wrong)
    return labels_of(worker, item, label, n_classes), truth


def labels_of(worker: Any, item: Any, label: Any, n_classes: int) -> Labels:
    """Labels whose codes are the numbers given: names sort as the numbers do."""
    names = [pa.array([f"{code:04}" for code in codes]) for codes in (worker, item, label)]
    order = [f"{code:04}" for code in range(n_classes)]
    return encode(Answers(*names), class_order=order).labels


def triplets(labels: Labels) -> tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]:
    assert isinstance(labels.votes, SparseVotes)
    coordinates = labels.votes.matrix.tocoo()
    worker, label = np.divmod(coordinates.col, labels.n_classes)
    return worker, coordinates.row, label


def permuted(labels: Labels, workers: Any = None, items: Any = None, classes: Any = None) -> Labels:
    """The same answers with codes renamed: code c becomes permutation[c]."""
    worker, item, label = triplets(labels)
    worker = worker if workers is None else workers[worker]
    item = item if items is None else items[item]
    label = label if classes is None else classes[label]
    return labels_of(worker, item, label, labels.n_classes)


def create_quick(name: str, preset: str) -> Any:
    """An aggregator that starts a few times at most, where more would only repeat the point."""
    few = {"restarts": 3} if "restarts" in registry.settings("aggregator", name) else {}
    return registry.create("aggregator", name, preset, **few)


def assert_alike(found: Any, expected: Any) -> None:
    """Equal but for the order of sums."""
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8)


def is_seeded(kind: str, name: str) -> bool:
    return "seed" in registry.settings(kind, name)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of a few items, so that small data has many of them."""
    monkeypatch.setattr(votes_module, "BLOCK_VOTES", 64)


def snapshot(labels: Labels) -> list[bytes]:
    assert isinstance(labels.votes, SparseVotes)
    matrix = labels.votes.matrix
    gold = labels.gold if labels.gold is not None else np.array([])
    return [array.tobytes() for array in (matrix.data, matrix.indices, matrix.indptr, gold)]


@pytest.mark.parametrize(("name", "preset"), AGGREGATORS)
def test_an_aggregation_is_made_of_probabilities(name: str, preset: str) -> None:
    labels, truth = crowd()
    before = snapshot(labels)
    seen: list[Iteration] = []
    found = registry.create("aggregator", name, preset)(labels, seen.append)
    assert found.posteriors.shape == (labels.n_items, labels.n_classes)
    assert found.confusions.shape == (labels.n_workers, labels.n_classes, labels.n_classes)
    for array in (found.posteriors, found.confusions, found.class_prior):
        assert np.isfinite(array).all()
        assert (array >= 0).all()
        np.testing.assert_allclose(array.sum(axis=-1), 1.0, atol=1e-9)
    assert snapshot(labels) == before, "the input was changed"
    assert seen
    assert all(line.stage and line.iteration >= 1 for line in seen)
    assert (found.posteriors.argmax(axis=1) == truth).mean() > 0.9


@pytest.mark.parametrize(("name", "preset"), AGGREGATORS)
@pytest.mark.usefixtures("small_blocks")
def test_the_same_call_gives_the_same_bytes_on_any_number_of_threads(
    name: str, preset: str
) -> None:
    method = create_quick(name, preset)
    results = []
    for threads in (1, 3, 1):
        with limits(threads):
            found = method(crowd()[0])
            arrays = (found.posteriors, found.confusions, found.class_prior)
            results.append((*(array.tobytes() for array in arrays), found.objective))
    assert len(set(results)) == 1


@pytest.mark.parametrize(("name", "preset"), AGGREGATORS)
def test_blocks_do_not_matter(name: str, preset: str, monkeypatch: pytest.MonkeyPatch) -> None:
    method = create_quick(name, preset)
    whole = method(crowd()[0]).posteriors
    monkeypatch.setattr(votes_module, "BLOCK_VOTES", 64)
    assert_alike(method(crowd()[0]).posteriors, whole)


@pytest.mark.parametrize(("name", "preset"), AGGREGATORS)
def test_renaming_workers_items_and_classes_renames_the_result(name: str, preset: str) -> None:
    labels, _ = crowd()
    generator = np.random.default_rng(1)
    workers = generator.permutation(labels.n_workers)
    items = generator.permutation(labels.n_items)
    classes = np.array([2, 1, 0]) if name in ORDINAL else np.array([1, 2, 0])
    method = registry.create("aggregator", name, preset)
    plain = method(labels)
    other = method(permuted(labels, workers, items, classes))
    back = other.posteriors[items][:, classes]
    if is_seeded("aggregator", name):  # a random start is drawn in the order of the codes
        assert (back.argmax(axis=1) == plain.posteriors.argmax(axis=1)).mean() > 0.98
        return
    assert_alike(back, plain.posteriors)
    confusions = other.confusions[workers][:, classes][:, :, classes]
    assert_alike(confusions, plain.confusions)


@pytest.mark.parametrize(("name", "preset"), AGGREGATORS)
def test_gold_items_stay_as_they_are(name: str, preset: str) -> None:
    labels, truth = crowd()
    gold = np.full(labels.n_items, -1, dtype=np.int32)
    gold[:10] = (truth[:10] + 1) % labels.n_classes  # against the crowd's opinion
    labels = dataclasses.replace(labels, gold=gold)
    before = snapshot(labels)
    posteriors = registry.create("aggregator", name, preset)(labels).posteriors
    np.testing.assert_array_equal(posteriors[:10], np.eye(labels.n_classes)[gold[:10]])
    assert snapshot(labels) == before


@pytest.mark.parametrize(("name", "preset"), AGGREGATORS)
@pytest.mark.parametrize(
    "triplet",
    [
        ([0], [0], [0], 1),
        ([0], [0], [0], 3),
        ([0, 1, 2], [0, 0, 0], [0, 1, 1], 2),
        ([0, 0, 0], [0, 1, 2], [0, 1, 1], 2),
        ([0, 1, 0, 1], [0, 0, 1, 1], [1, 1, 1, 1], 3),
    ],
    ids=["one of each", "one answer", "one item", "one worker", "one class used of three"],
)
def test_very_little_data_is_no_trouble(name: str, preset: str, triplet: Any) -> None:
    labels = labels_of(*triplet)
    posteriors = registry.create("aggregator", name, preset)(labels).posteriors
    assert np.isfinite(posteriors).all()
    np.testing.assert_allclose(posteriors.sum(axis=1), 1.0, atol=1e-9)


@pytest.mark.parametrize("n_gold", [0, 40, 80])
@pytest.mark.parametrize("name", ["ds-em", "one-coin"])
def test_em_never_lowers_the_likelihood(name: str, n_gold: int) -> None:
    """With a fixed prior and no shrinkage these two are plain EM (Dempster, Laird & Rubin 1977).

    Known classes are part of what is observed; here they are drawn without a look at the answers.
    """
    labels, _ = crowd()
    gold = np.random.default_rng(0).integers(labels.n_classes, size=labels.n_items)
    gold[n_gold:] = -1
    labels = dataclasses.replace(labels, gold=gold.astype(np.int32))
    values: list[float] = []

    def watch(line: Iteration) -> None:
        assert line.objective is not None
        values.append(line.objective)

    registry.create("aggregator", name, "paper", tol=0.0, max_iter=40)(labels, watch)
    assert (np.diff(values) > -1e-9).all()
    assert values[-1] > values[0]


@pytest.mark.parametrize(("name", "preset"), COMPLETERS)
def test_a_completion_is_finite_repeatable_and_leaves_its_input(name: str, preset: str) -> None:
    labels, truth = crowd()
    assert isinstance(labels.votes, SparseVotes)
    before = snapshot(labels)
    first = np.eye(labels.n_classes)[truth]
    kept = first.copy()
    completer = registry.create("completer", name, preset)
    results = [completer(LabelTensor(labels.votes, first)) for _ in range(2)]
    for completion in results:
        assert completion.slice.shape == first.shape
        assert np.isfinite(completion.slice).all()
        codes = completion.label_rows(slice(0, labels.n_items))
        assert codes.shape == (labels.n_items, labels.n_workers + 1)
        assert codes.max() < labels.n_classes
    assert results[0].slice.tobytes() == results[1].slice.tobytes()
    assert snapshot(labels) == before
    np.testing.assert_array_equal(first, kept)


@pytest.mark.parametrize("aggregator", ["mv", "ds-em"])
@pytest.mark.parametrize(("completer", "preset"), COMPLETERS)
def test_the_loop_runs_with_every_completer(completer: str, preset: str, aggregator: str) -> None:
    labels, truth = crowd()
    gold = np.full(labels.n_items, -1, dtype=np.int32)
    gold[:5] = (truth[:5] + 1) % labels.n_classes
    engine = MemoryEngine(dataclasses.replace(labels, gold=gold))
    looped = run_loop(
        engine,
        registry.create("completer", completer, preset),
        registry.create("aggregator", aggregator, preset),
        Loop(passes=2),
    )
    posteriors = engine.whole(POSTERIORS)
    np.testing.assert_allclose(posteriors.sum(axis=1), 1.0, atol=1e-9)
    np.testing.assert_array_equal(posteriors[:5], np.eye(labels.n_classes)[gold[:5]])
    assert looped.fitted.confusions.shape[0] == labels.n_workers
    assert (posteriors.argmax(axis=1) == truth)[5:].mean() > 0.85


def test_defaults_made_by_a_factory_are_settings_too(monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclasses.dataclass(frozen=True)
    class Other:
        weights: list[float] = dataclasses.field(default_factory=lambda: [1.0])

    monkeypatch.setattr(registry, "load", lambda kind, name: Other)
    assert registry.settings("aggregator", "other") == {"weights": [1.0]}
    assert registry.create("aggregator", "other") == Other([1.0])


def in_words(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(map(in_words, value))
    return "by size" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def default_in_words(values: dict[str, list[str]]) -> str:
    """The most common value, then the others and whose they are."""
    common = max(values, key=lambda value: len(values[value]))
    others = (
        f"{', '.join(who)} {value}".strip() for value, who in values.items() if value != common
    )
    return "; ".join([common, *others])


@pytest.mark.parametrize("kind", ["aggregator", "completer"])
def test_presets_name_only_real_parameters(kind: str) -> None:
    table = registry.AGGREGATORS if kind == "aggregator" else registry.COMPLETERS
    for name in table:
        method = registry.load(kind, name)
        fields = {field.name for field in dataclasses.fields(method)}
        for preset, overrides in getattr(method, "presets", {}).items():
            assert preset in registry.PRESETS
            assert set(overrides) <= fields
        instance = registry.create(kind, name)
        with pytest.raises(dataclasses.FrozenInstanceError):
            instance.anything = 1
