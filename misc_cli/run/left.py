"""What one run of many leaves to the next: values for JSON, and tables of workers and items."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from misc_cli.core.start import Start, aligned
from misc_cli.core.types import Aggregation, Floats, Labels

# The name under which a choice leaves its joint result, for methods without one of their own.
JOINT = "*"

Values = Mapping[str, Any]


@dataclass(frozen=True)
class Left:
    """Plain values, and tables of workers and, where items may settle, of items."""

    about: Values
    workers: Any
    items: Any = None

    @property
    def choice(self) -> Values:
        found: Values = self.about["choice"]
        return found

    @property
    def at_choice(self) -> Any:
        """The workers that the choice knew."""
        return self.workers.filter(self.workers["at_choice"])["worker"].combine_chunks()

    def start(self, labels: Labels, member: str) -> Start | None:
        """Where a member ended, for today's workers; None if the classes are others."""
        if labels.classes.to_pylist() != self.about["classes"]:
            return None
        members = self.about["members"]
        name = member if member in members else JOINT
        if name not in members:
            return None
        where = pc.fill_null(pc.index_in(self.workers["worker"], labels.workers), -1)
        where = where.combine_chunks().to_numpy(zero_copy_only=False)
        known = np.zeros(labels.n_workers, dtype=bool)
        known[where[where >= 0]] = True
        kept = members[name]
        arrays = {
            array: aligned(self._array(f"{name}:{array}", shape), where, labels.n_workers)
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

    def _array(self, column: str, shape: list[int]) -> Floats:
        return unlisted(self.workers[column], shape)


def member_tables(members: Mapping[str, Aggregation]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Where methods ended: values by method, and columns of a table of workers."""
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
    """(n, ...) as a column of lists of one length."""
    width = int(np.prod(values.shape[1:], dtype=np.int64))
    flat = pa.array(np.ascontiguousarray(values, dtype=np.float64).reshape(-1))
    return pa.FixedSizeListArray.from_arrays(flat, width)


def unlisted(column: Any, shape: list[int]) -> Floats:
    """The column of `listed` as (n, ...)."""
    chunks = column.combine_chunks()
    values: Floats = chunks.flatten().to_numpy(zero_copy_only=False).reshape(len(chunks), *shape)
    return values
