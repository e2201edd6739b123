"""What flows between the stages: plain frozen records, no behaviour worth a file of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from misc_cli.data.iteration import Iteration as Iteration
from misc_cli.data.iteration import Lighten as Lighten
from misc_cli.data.iteration import OnIteration as OnIteration
from misc_cli.data.iteration import ignore_iteration as ignore_iteration
from misc_cli.data.iteration import without_posteriors as without_posteriors
from misc_cli.data.votes import Floats as Floats
from misc_cli.data.votes import LabelCodes, Rows, Votes

if TYPE_CHECKING:
    from misc_cli.data.tensor import LabelTensor


@dataclass(frozen=True)
class Start:
    """Where a method may begin instead of at the votes, and what it may add to them.

    confusions     (n_workers, K, K): where an earlier fit ended; workers it did not know have the
                   crowd's. None: begin at the votes
    class_prior    (K,): of the same fit
    known          (n_workers,): whether the earlier fit knew the worker
    workers        name → (n_workers, ...): the method's own parameters then, zeros where unknown
    shared         name → its own parameters that belong to no worker
    pseudo_counts  (n_workers, K, K): answers [worker, true, observed] that count beside the real
    """

    confusions: Floats | None = None
    class_prior: Floats | None = None
    known: Any = None
    workers: Mapping[str, Floats] = field(default_factory=dict)
    shared: Mapping[str, Floats] = field(default_factory=dict)
    pseudo_counts: Floats | None = None

    @property
    def prior_only(self) -> Start | None:
        """Without what the answers themselves taught: for those of whom some are hidden."""
        if self.pseudo_counts is None:
            return None
        return Start(pseudo_counts=self.pseudo_counts)


def with_prior(start: Start | None, pseudo_counts: Floats | None) -> Start | None:
    """A start, warm or not, that also has these pseudo-answers."""
    if pseudo_counts is None:
        return start
    return replace(start or Start(), pseudo_counts=pseudo_counts)


def aligned(values: Floats, where: Any, n_workers: int) -> Floats:
    """Rows of earlier workers at their place of today, (n_workers, ...); zeros for the others.

    `where` (n_earlier,) is each earlier worker's row of today, -1 if it is gone.
    """
    rows = np.zeros((n_workers, *values.shape[1:]))
    here = where >= 0
    rows[where[here]] = values[here]
    return rows


Codes = npt.NDArray[np.int32]
Names = Any  # a pyarrow string array: names stay out of Python objects until they are written


@dataclass(frozen=True)
class Answers:
    """Three text columns of equal length, dictionary-encoded arrow arrays, as they were read.

    `name` is what errors call them: the files they came from.
    """

    worker: Any
    item: Any
    label: Any
    name: str = ""

    def __len__(self) -> int:
        return len(self.label)


@dataclass(frozen=True)
class KnownLabels:
    """Items and their known labels: two text columns of equal length, and what errors call them."""

    items: Any
    labels: Any
    name: str = ""

    def called(self, role: str) -> str:
        """Their file and the flag that names it, "gold" or "truth"."""
        return f"{self.name} (--{role})" if self.name else f"the {role}"


@dataclass(frozen=True)
class LabelTable:
    """Labels as they were written: text columns and, where there are any, confidences.

    confidence     (n_rows,) or None
    probabilities  (n_rows, n_classes) or None, their columns named by `classes`
    """

    items: Names
    labels: Names
    confidence: Floats | None = None
    probabilities: Floats | None = None
    classes: tuple[str, ...] = ()
    name: str = ""


@dataclass(frozen=True)
class WorkerTable:
    """Workers as they were written: names, (n_workers,) numbers, and what else the file has.

    low, high  the interval of the accuracy, where the file has one
    columns    every other column of numbers, by name
    """

    workers: Names
    answers: Floats
    accuracy: Floats
    low: Floats | None = None
    high: Floats | None = None
    columns: Mapping[str, Floats] = field(default_factory=dict)
    name: str = ""


@dataclass(frozen=True)
class Labels:
    """Encoded answers: the votes and the names behind their codes.

    `gold` is (n_items,): the known class of an item, -1 where unknown; None without gold.
    `start` is what is known of the workers beforehand, for the methods that can use it.
    `ordered` says that the order of `classes` means something (numbers, or --class-order).
    """

    votes: Votes
    workers: Names
    items: Names
    classes: Names
    ordered: bool = False
    gold: Codes | None = None
    start: Start | None = None

    @property
    def n_workers(self) -> int:
        return self.votes.n_workers

    @property
    def n_items(self) -> int:
        return self.votes.n_items

    @property
    def n_classes(self) -> int:
        return self.votes.n_classes


class Predictor(Protocol):
    """A fitted model's own forecast of answers it has not seen."""

    def __call__(self, workers: Codes, items: Codes) -> Floats:
        """Probability of each class being answered, (n_pairs, n_classes), rows sum to 1."""


@dataclass(frozen=True)
class Aggregation:
    """What an aggregator returns.

    posteriors   (n_items, n_classes), rows sum to 1
    confusions   (n_workers, n_classes, n_classes): [worker, true, observed], rows sum to 1
    class_prior  (n_classes,)
    item_details name → (n_items,), for example mmce's difficulty
    own_workers  name → (n_workers, ...): parameters that a later fit of the same method starts from
    own_shared   name → those that belong to no worker
    stopped      stage → what ended its loop, as `core.solver` names it; a vote has no loop
    """

    posteriors: Floats
    confusions: Floats
    class_prior: Floats
    iterations: int
    objective: float | None = None
    predictor: Predictor | None = None
    item_details: Mapping[str, Floats] = field(default_factory=dict)
    own_workers: Mapping[str, Floats] = field(default_factory=dict)
    own_shared: Mapping[str, Floats] = field(default_factory=dict)
    stopped: Mapping[str, str] = field(default_factory=dict)

    @property
    def converged(self) -> bool:
        """Whether every loop that ran stopped because it moved less than its tolerance."""
        return all(reason == "tolerance" for reason in self.stopped.values())

    def predict(self, workers: Codes, items: Codes) -> Floats:
        """The model's own forecast, (n_pairs, n_classes); by default Σ_c posterior·confusion."""
        if self.predictor is not None:
            return self.predictor(workers, items)
        forecast: Floats = np.einsum("pc,pck->pk", self.posteriors[items], self.confusions[workers])
        return forecast


class Aggregator(Protocol):
    """Parameters frozen at construction; a call returns a result and changes nothing.

    A frozen dataclass. Class attributes that it may have, and what goes without them:
    presets       preset → parameters that differ from the fields' defaults (none do)
    slow          calibrated on one fold, so as not to outlast the fit (False)
    calibratable  whether hidden answers may temper its confidences (True)
    needs_order   left out of a comparison where the classes have no order (False)
    It may have a method `again(labels, whole)`: the fit on a part of the answers, begun with what
    the aggregation `whole` of all of them knows of workers (not of items).
    """

    def __call__(self, labels: Labels, on_iteration: OnIteration = ...) -> Aggregation: ...


class Completion(Protocol):
    """A filled and smoothed label tensor, (n_workers + 1) × n_items × n_classes, held as a recipe.

    slice        (n_items, n_classes): the completed last slice, real-valued
    directions   (n_workers + 1, R), the slice's last, if a worker's completed labels depend on
                 the direction of its row alone (its length does not change an argmax); else None
    """

    @property
    def slice(self) -> Floats: ...
    @property
    def directions(self) -> Floats | None: ...

    def label_rows(self, rows: Rows, directions: Floats | None = None) -> LabelCodes:
        """Labels of these items, (n_block_items, n_workers + 1): the argmax of each fibre.

        `directions` (n_prototypes, R) asks for the labels that workers of these directions give.
        """


class Completer(Protocol):
    """Parameters frozen at construction; a call returns a result and changes nothing.

    A frozen dataclass; a field `ranks` or `cp_rank` is its rank, for hidden answers to choose. It
    may have the class attributes `presets` and `slow` (see Aggregator), and two methods, whose
    `shape` is (n_workers + 1, n_items, n_classes):
    resolve_ranks(shape)          the ranks a call would use, for the record
    bytes_needed(shape, n_votes)  the most memory a call holds beside the tensor, to be refused
                                  beforehand rather than killed
    """

    def __call__(self, tensor: LabelTensor, on_iteration: OnIteration = ...) -> Completion: ...
