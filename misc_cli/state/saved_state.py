"""The state that one run saves for the next: values for JSON, and tables of workers and items."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from misc_cli.data.holdout import BYTES, Hashes, mixed, name_hashes, sums_between
from misc_cli.data.types import Floats, Labels, Start, aligned
from misc_cli.engines.protocol import Fitted
from misc_cli.run.run_record import rebuilt
from misc_cli.selection.calibration import Calibration


def item_fingerprints(labels: Labels) -> Hashes:
    """Return the sum over each item's answers of a hash of worker and label, (n_items,)."""
    votes = labels.votes
    workers, classes = name_hashes(labels.workers), name_hashes(labels.classes)
    answers = mixed(workers[:, None] * np.uint64(BYTES) + classes[None, :]).reshape(-1)
    found = np.zeros(votes.n_items, dtype=np.uint64)
    for rows in votes.blocks:
        block = votes.block(rows)
        weights = np.rint(block.data).astype(np.uint64)
        found[rows] = sums_between(answers[block.indices] * weights, block.indptr)
    return found


# The name of a choice's joint result, for methods without a saved one of their own.
JOINT = "*"

Values = Mapping[str, Any]

RUN_KEYS = ("misc", "options", "inputs", "outputs", "figures", "method")


@dataclass(frozen=True)
class SavedState:
    """Plain values, a table of workers and, where items may be frozen, one of items."""

    about: Values
    workers: Any
    items: Any = None

    def check(self) -> None:
        """Decode everything once; content that does not fit together raises some exception."""
        n_classes = len(self.about["classes"])
        numbers = [self.about[key] for key in ("night", "written", "answers")]
        numbers += [self.choice[key] for key in ("at", "answers", "changes")]
        selection, calibration = self.choice["selection"] or {}, self.choice["calibration"]
        weights = dict(selection.get("weights", {}))
        run = {key: {} for key in RUN_KEYS} if self.run is None else self.run
        contract = [text for texts in self.about["contract"].values() for text in texts]
        fits = [
            all(isinstance(text, str) for text in contract),
            all(isinstance(name, str) for name in [*self.about["classes"], *weights]),
            all(type(number) in (int, float) and 0 <= number < 1e12 for number in numbers),
            np.array([*weights.values(), *self.choice["shares"]], dtype=float).ndim == 1,
            len(self.choice["shares"]) == n_classes,
            isinstance(self.choice["named"], bool),
            isinstance(selection.get("why", ""), str),
            set(run) == set(RUN_KEYS),
            all("\0" not in path for path in run["outputs"]),
            all(isinstance(float(figure or 0), float) for figure in run["figures"].values()),
            len(self.at_choice) <= len(self.workers),
        ]
        assert all(fits)
        if calibration is not None:
            Calibration(**calibration)
        for entry in self.choice["members"]:
            rebuilt(entry)
        for name, member in self.about["members"].items():
            assert np.array(member["class_prior"], dtype=float).shape == (n_classes,)
            assert member["workers"]["confusions"] == [n_classes, n_classes]
            for array, shape in member["workers"].items():
                unlisted(self.workers[f"{name}:{array}"], shape)
            for entry in member["shared"].values():
                np.array(entry["values"], dtype=float).reshape(entry["shape"])
        if self.items is not None:
            unlisted(self.items["posteriors"], [n_classes])
            assert {"item", "answers", "fingerprint"} <= set(self.items.column_names)

    @property
    def run(self) -> Any:
        """Return what the last run of the command line read and wrote; None if it was Python's."""
        return self.about["run"]

    @property
    def choice(self) -> Any:
        """Return how methods were chosen, and which."""
        return self.about["choice"]

    @property
    def at_choice(self) -> Any:
        """Return the workers that the choice knew."""
        return self.workers.filter(self.workers["at_choice"])["worker"].combine_chunks()

    def start(self, labels: Labels, member: str) -> Start | None:
        """Return where a member ended, for today's workers; None if the classes are others."""
        members = self.about["members"]
        name = member if member in members else JOINT
        if name not in members or labels.classes.to_pylist() != self.about["classes"]:
            return None
        where = pc.fill_null(pc.index_in(self.workers["worker"], labels.workers), -1)
        where = where.combine_chunks().to_numpy(zero_copy_only=False)
        known = np.zeros(labels.n_workers, dtype=bool)
        known[where[where >= 0]] = True
        kept = members[name]
        arrays = {
            array: aligned(
                unlisted(self.workers[f"{name}:{array}"], shape), where, labels.n_workers
            )
            for array, shape in kept["workers"].items()
        }
        confusions = arrays.pop("confusions")
        if not known.all():
            confusions[~known] = confusions[known].mean(axis=0)
        shared = {
            array: np.array(entry["values"]).reshape(entry["shape"])
            for array, entry in kept["shared"].items()
        }
        return Start(confusions, np.array(kept["class_prior"]), known, arrays, shared)


def member_tables(
    members: Mapping[str, Fitted],
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return where methods ended: values by method, and columns of a table of workers."""
    columns: dict[str, Any] = {}
    values: dict[str, Any] = {}
    for name, fitted in members.items():
        arrays = {"confusions": fitted.confusions, **fitted.own_workers}
        for array, numbers in arrays.items():
            columns[f"{name}:{array}"] = listed(numbers)
        values[name] = {
            "class_prior": fitted.class_prior.tolist(),
            "workers": {array: list(numbers.shape[1:]) for array, numbers in arrays.items()},
            "shared": {
                array: {"shape": list(numbers.shape), "values": numbers.ravel().tolist()}
                for array, numbers in fitted.own_shared.items()
            },
        }
    return values, columns


def listed(values: Floats) -> Any:
    """Return an array (n, ...) as a column of lists of one length."""
    width = int(np.prod(values.shape[1:], dtype=np.int64))
    flat = pa.array(np.ascontiguousarray(values, dtype=np.float64).reshape(-1))
    return pa.FixedSizeListArray.from_arrays(flat, width)


def unlisted(column: Any, shape: list[int]) -> Floats:
    """Return the column of `listed` as an array (n, ...)."""
    chunks = column.combine_chunks()
    values: Floats = chunks.flatten().to_numpy(zero_copy_only=False).reshape(len(chunks), *shape)
    return values
