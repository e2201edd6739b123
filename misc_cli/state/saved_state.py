"""The state that one run saves for the next: values for JSON, and tables of workers and items."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from misc_cli.data.holdout import BYTES, Hashes, mixed, name_hashes, sums_between
from misc_cli.data.parameters import conforms
from misc_cli.data.types import Floats, Labels, Start, aligned
from misc_cli.engines.protocol import Fitted
from misc_cli.run.run_record import MEMBER, SELECTION, rebuilt
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


# The shape of state.json's values: the end of a method's fit has its arrays by worker as columns of
# the table of workers.
ABOUT = {
    "night": int,
    "written": float,
    "classes": list[str],
    "answers": int,
    "contract": dict[str, list[str]],
    "choice": {
        "settings": dict[str, Any],
        "named": bool,
        "members": [MEMBER],
        "calibration": Calibration | None,
        "selection": (SELECTION, None),
        "at": float,
        "answers": int,
        "shares": list[float],
        "changes": int,
    },
    "members": {
        "*": {
            "class_prior": list[float],
            "workers": dict[str, list[int]],
            "shared": {"*": {"shape": list[int], "values": list[float]}},
        }
    },
}


@dataclass(frozen=True)
class SavedState:
    """Plain values, a table of workers and, where items may be frozen, one of items."""

    about: Mapping[str, Any]
    workers: Any
    items: Any = None

    def check(self) -> None:
        """Decode everything once; content that does not fit together raises some exception."""
        assert conforms(self.about, ABOUT)
        n_classes = len(self.about["classes"])
        choice = self.about["choice"]
        times = [self.about["written"], choice["at"]]
        assert all(0 <= seconds < 1e12 for seconds in times)
        assert len(choice["shares"]) == n_classes
        assert choice["selection"] is not None or not choice["members"]
        assert len(self.at_choice) <= len(self.workers)
        for entry in choice["members"]:
            rebuilt(entry)
        for name, member in self.about["members"].items():
            assert len(member["class_prior"]) == n_classes
            assert member["workers"]["confusions"] == [n_classes, n_classes]
            for array, shape in member["workers"].items():
                unlisted(self.workers[f"{name}:{array}"], shape)
            for shared in member["shared"].values():
                np.array(shared["values"], dtype=float).reshape(shared["shape"])
        if self.items is not None:
            unlisted(self.items["posteriors"], [n_classes])
            assert {"item", "answers", "fingerprint"} <= set(self.items.column_names)

    @property
    def choice(self) -> Any:
        """Return how methods were chosen, and which."""
        return self.about["choice"]

    @property
    def at_choice(self) -> Any:
        """Return the workers that the choice knew."""
        return self.workers.filter(self.workers["at_choice"])["worker"].combine_chunks()

    def has_classes_of(self, labels: Labels) -> bool:
        """Tell whether these labels have the classes of the state."""
        return bool(labels.classes.to_pylist() == self.about["classes"])

    def start(self, labels: Labels, member: str) -> Start | None:
        """Return where a member ended, for today's workers; None if the classes are others."""
        members = self.about["members"]
        name = member if member in members else JOINT
        if name not in members or not self.has_classes_of(labels):
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
