"""Records that flow between the stages, and the protocols of aggregators and completers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from misc_cli.data.solver import Iteration as Iteration
from misc_cli.data.solver import Lighten as Lighten
from misc_cli.data.solver import OnIteration as OnIteration
from misc_cli.data.solver import ignore_iteration as ignore_iteration
from misc_cli.data.solver import without_posteriors as without_posteriors
from misc_cli.data.votes import Floats as Floats
from misc_cli.data.votes import LabelCodes, Rows, Votes

if TYPE_CHECKING:
    from misc_cli.data.votes import LabelTensor


@dataclass(frozen=True)
class Start:
    """The start of a method: an earlier fit.

    confusions   (n_workers, K, K) of the earlier fit; new workers have the crowd's. None: the
                 method starts from the votes
    class_prior  (K,) of the earlier fit
    known        (n_workers,): True if the earlier fit knew the worker
    workers      name → (n_workers, ...): the method's own parameters, zeros where unknown
    shared       name → the method's own parameters that belong to no worker
    """

    confusions: Floats | None = None
    class_prior: Floats | None = None
    known: Any = None
    workers: Mapping[str, Floats] = field(default_factory=dict)
    shared: Mapping[str, Floats] = field(default_factory=dict)


def aligned(values: Floats, where: Any, n_workers: int) -> Floats:
    """Return rows of an earlier fit in today's order of workers, (n_workers, ...), zeros if new.

    `where` (n_earlier,) is the new row of each earlier worker, -1 if it is gone.
    """
    rows = np.zeros((n_workers, *values.shape[1:]))
    here = where >= 0
    rows[where[here]] = values[here]
    return rows


Codes = npt.NDArray[np.int32]
Names = Any  # a pyarrow string array: names stay out of Python objects until they are written


@dataclass(frozen=True)
class Answers:
    """Answers as read: three dictionary-encoded arrow columns of equal length.

    `name` is the name of the input in error messages; `seconds`, (n_answers,), is how long each
    answer took, NaN or None if unknown: to be shown, no more.
    """

    worker: Any
    item: Any
    label: Any
    name: str = ""
    seconds: Floats | None = None

    def __len__(self) -> int:
        return len(self.label)


@dataclass(frozen=True)
class KnownLabels:
    """Known labels: two text columns of equal length, and the input's name for messages."""

    items: Any
    labels: Any
    name: str = ""

    def called(self, role: str) -> str:
        """Return the file and its flag for messages; `role` is "gold" or "truth"."""
        return f"{self.name} (--{role})" if self.name else f"the {role}"


@dataclass(frozen=True)
class LabelTable:
    """A labels file as written: text columns, confidences if there are any.

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
class Labels:
    """Encoded answers: the votes and the names behind their codes.

    `gold` (n_items,) is the known class of an item, -1 where unknown; None without gold.
    `start` is prior knowledge of workers, for the methods that can use it.
    `ordered` is True if the order of `classes` has a meaning (numbers, or --class-order).
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

    @property
    def matrix(self) -> sp.csr_array:
        """Return the answers, CSR (n_items, n_workers * n_classes).

        Column `worker * n_classes + class` is 1 where the worker gave the item that class.
        """
        blocks = [self.votes.block(rows) for rows in self.votes.blocks]
        return blocks[0] if len(blocks) == 1 else sp.csr_array(sp.vstack(blocks))

    @property
    def triplets(self) -> tuple[Codes, Codes, Codes]:
        """Return the codes of worker, item and class of every answer, (n_votes,) each."""
        cells = self.matrix.tocoo()
        workers, classes = np.divmod(cells.col, self.n_classes)
        return workers, cells.row, classes

    @property
    def counts(self) -> Floats:
        """Return how many answers each item has for each class, (n_items, n_classes)."""
        return np.concatenate([self.votes.class_totals(rows) for rows in self.votes.blocks])


# A forecast of unseen answers: codes of workers and items → P(answer), (n_pairs, n_classes).
Predictor = Callable[[Codes, Codes], Floats]


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """Result of a method on an engine. The posteriors stay there (`POSTERIORS`).

    confusions   (n_workers, n_classes, n_classes): [worker, true, observed], rows sum to 1
    class_prior  (n_classes,)
    stopped      stage → why its loop ended, a constant of `data.solver`; a vote has no loop
    own_workers  name → (n_workers, ...): parameters that a later fit of the same method starts from
    own_shared   name → such parameters that belong to no worker
    predictor    the model's own forecast of answers, where all rows are in this process
    """

    confusions: Floats
    class_prior: Floats
    iterations: int
    stopped: Mapping[str, str] = field(default_factory=dict)
    objective: float | None = None
    own_workers: Mapping[str, Floats] = field(default_factory=dict)
    own_shared: Mapping[str, Floats] = field(default_factory=dict)
    predictor: Predictor | None = None

    @property
    def converged(self) -> bool:
        """True if every loop that ran stopped by its tolerance."""
        return all(reason == "tolerance" for reason in self.stopped.values())


@dataclass(frozen=True)
class Aggregation(Fitted):
    """The result of an aggregator that was called on labels.

    posteriors    (n_items, n_classes), rows sum to 1
    """

    posteriors: Floats

    def predict(self, workers: Codes, items: Codes) -> Floats:
        """Return the model's forecast, (n_pairs, n_classes); by default Σ_c posterior·confusion."""
        if self.predictor is not None:
            return self.predictor(workers, items)
        forecast: Floats = np.einsum("pc,pck->pk", self.posteriors[items], self.confusions[workers])
        return forecast


if TYPE_CHECKING:  # protocols, which only annotations name

    class Aggregator(Protocol):
        """A method that turns labels into posteriors: a frozen dataclass; a call changes nothing.

        Optional class attributes, with their defaults:
        presets       preset → parameters that differ from the fields' defaults (none)
        slow          True: calibrate on one fold, which takes no longer than the fit (False)
        calibratable  True: hidden answers may temper its confidences (True)
        needs_order   True: leave it out of a comparison if the classes have no order (False)
        Optional property `cv_variant`, or method `cv_variant_of(whole)` that knows the fit on all
        answers: the quicker variant that cross-validation fits.
        Optional method `solve(engine, on_iteration, start)`: fit the answers of any engine.
        Optional method `refit_subset(engine, whole, start)`: fit a part of the answers, starting
        from what the fit `whole` of all answers knows of workers (not of items).
        """

        def __call__(self, labels: Labels, on_iteration: OnIteration = ...) -> Aggregation: ...

    class Completion(Protocol):
        """A completed label tensor, (n_workers + 1) × n_items × n_classes, never held as one array.

        slice        (n_items, n_classes): the completed last slice, real-valued
        """

        @property
        def slice(self) -> Floats: ...

        def label_rows(self, rows: Rows) -> LabelCodes:
            """Return the argmax of each fibre of these items, (n_block_items, n_workers + 1)."""

    class Completer(Protocol):
        """A method that completes the label tensor: a frozen dataclass; a call changes nothing.

        A field `ranks` or `cp_rank` is its rank, which hidden answers may choose. Optional are the
        class attributes `presets` and `slow` (see Aggregator) and two methods, whose `shape` is
        (n_workers + 1, n_items, n_classes):
        resolve_ranks(shape)          return the ranks that a call would use, for the record
        bytes_needed(shape, n_votes)  return the most memory that a call holds beside the tensor, so
                                      that a run is refused beforehand rather than killed
        """

        def __call__(self, tensor: LabelTensor, on_iteration: OnIteration = ...) -> Completion: ...

else:
    Aggregator = Completion = Completer = Any
