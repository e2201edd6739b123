"""The state that one run saves for the next: values for JSON, and tables of workers and items."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from misc_cli.data.types import Aggregation, Floats, Labels, Names, Start, aligned
from misc_cli.run.run_record import rebuilt
from misc_cli.selection.calibration import Calibration
from misc_cli.selection.ensemble import FitResult

Hashes = npt.NDArray[np.uint64]

# Odd multipliers of 64 bits (Steele, Lea & Flood 2014, SplitMix64).
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


def item_fingerprints(labels: Labels) -> Hashes:
    """Return the sum over each item's answers of a hash of worker and label, (n_items,)."""
    votes = labels.votes
    workers, classes = text_hashes(labels.workers), text_hashes(labels.classes)
    answers = _mixed(workers[:, None] * _GOLDEN + classes[None, :]).reshape(-1)
    found = np.zeros(votes.n_items, dtype=np.uint64)
    for rows in votes.blocks:
        block = votes.block(rows)
        weights = np.rint(block.data).astype(np.uint64)
        found[rows] = _segments(answers[block.indices] * weights, block.indptr)
    return found


def text_hashes(names: Names) -> Hashes:
    """Return a polynomial in each text's bytes, modulo 2⁶⁴, mixed, (n_names,)."""
    text: Any = pa.concat_arrays([names.cast(pa.large_string())])
    offsets = np.frombuffer(text.buffers()[1], dtype=np.int64)[: len(text) + 1]
    data = text.buffers()[2]
    letters = np.frombuffer(data, dtype=np.uint8) if data is not None else np.zeros(0, np.uint8)
    letters = letters[offsets[0] : offsets[-1]].astype(np.uint64) + np.uint64(1)
    lengths = np.diff(offsets)
    place = np.arange(len(letters)) - np.repeat(offsets[:-1] - offsets[0], lengths)
    powers = np.cumprod(np.full(int(lengths.max(initial=0)) + 1, _GOLDEN, dtype=np.uint64))
    return _mixed(_segments(letters * powers[place], offsets - offsets[0]))


def _segments(values: Hashes, ends: npt.NDArray[Any]) -> Hashes:
    """Return sums modulo 2⁶⁴ between the places `ends`, (len(ends) - 1,)."""
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(values, dtype=np.uint64)])
    between: Hashes = sums[ends[1:]] - sums[ends[:-1]]
    return between


def _mixed(values: Hashes) -> Hashes:
    values = (values ^ (values >> np.uint64(30))) * _FIRST
    values = (values ^ (values >> np.uint64(27))) * _SECOND
    return values ^ (values >> np.uint64(31))


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
        fits = [
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
                self._array(f"{name}:{array}", shape)
            for entry in member["shared"].values():
                np.array(entry["values"], dtype=float).reshape(entry["shape"])
        if self.items is not None:
            unlisted(self.items["posteriors"], [n_classes])
            assert {"item", "answers", "fingerprint"} <= set(self.items.column_names)

    @property
    def run(self) -> Values | None:
        """Return what the last run of the command line read and wrote; None if it was Python's."""
        found: Values | None = self.about["run"]
        return found

    @property
    def choice(self) -> Values:
        """Return how methods were chosen, and which."""
        found: Values = self.about["choice"]
        return found

    @property
    def at_choice(self) -> Any:
        """Return the workers that the choice knew."""
        return self.workers.filter(self.workers["at_choice"])["worker"].combine_chunks()

    def start(self, labels: Labels, member: str) -> Start | None:
        """Return where a member ended, for today's workers; None if the classes are others."""
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


def member_tables(
    members: Mapping[str, Aggregation | FitResult],
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
