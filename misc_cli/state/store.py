"""The state that one run saves for the next, and its folder: state.json and tables.

state.json has plain values and names its tables, of workers and of items, with their SHA-256. A
table's name has its content's SHA-256, so state.json alone decides which state there is. Nothing is
pickled. Files are opened by names that misc gives, and never through a link: a folder may come from
a stranger.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as parquet

from misc_cli import cleanup
from misc_cli.data.holdout import BYTES, Hashes, mixed, name_hashes, sums_between
from misc_cli.data.parameters import conforms
from misc_cli.data.types import Floats, Labels, Start, aligned
from misc_cli.engines.protocol import Fitted
from misc_cli.errors import InputError
from misc_cli.run.run_record import MEMBER, SELECTION, rebuilt
from misc_cli.selection.calibration import Calibration

FORMAT = 4
POINTER = "state.json"
OURS = re.compile(r"[a-z]+-[0-9a-f]{16}\.parquet")
LEFT = re.compile(rf"\.{OURS.pattern}\.[0-9a-f]{{8}}\.(part|old)")


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


def load(folder: Path) -> SavedState | None:
    """Return the state in a folder, every byte checked; None if there is none.

    Tables that only earlier states named, and what killed runs left, are removed: only the holder
    of the folder's lock may call this.
    """
    text = _read(folder / POINTER)
    if text is None:
        return None
    tables: dict[str, Any] = {}
    try:
        whole = json.loads(text)
        about, files = whole["about"], whole["files"]
        if whole["format"] != FORMAT or whole["sha256"] != _digest(_plain([about, files])):
            raise ValueError
        for name, file in files.items():
            data = _read(folder / file["file"]) if OURS.fullmatch(file["file"]) else None
            if data is None or _digest(data) != file["sha256"]:
                raise ValueError
            tables[name] = parquet.read_table(pa.BufferReader(data))
        state = SavedState(about, tables["workers"], tables.get("items"))
        state.check()
    except InputError:
        raise
    except Exception:  # whatever a decoder says of content that somebody made up
        raise InputError(
            f"--state {folder}: it is damaged or of another version of misc; remove it to start "
            "from nothing, or name another folder"
        ) from None
    named = {file["file"] for file in files.values()}
    for path in folder.iterdir():
        if LEFT.fullmatch(path.name) or (OURS.fullmatch(path.name) and path.name not in named):
            cleanup.remove(path)
    return state


def outputs(folder: Path, about: Mapping[str, Any], tables: Mapping[str, Any]) -> dict[Path, bytes]:
    """Return the files of a new state, for `write_all`; state.json is the last."""
    files: dict[str, dict[str, str]] = {}
    found: dict[Path, bytes] = {}
    for name, table in tables.items():
        sink = pa.BufferOutputStream()
        parquet.write_table(table, sink, compression="zstd")
        data = sink.getvalue().to_pybytes()
        digest = _digest(data)
        file = f"{name}-{digest[:16]}.parquet"
        files[name] = {"file": file, "sha256": digest}
        if not os.path.lexists(folder / file):  # its name is its content: the state before has it
            found[folder / file] = data
    digest = _digest(_plain([about, files]))
    whole = {"format": FORMAT, "sha256": digest, "about": about, "files": files}
    return {**found, folder / POINTER: _plain(whole, indent=1)}


def _read(path: Path) -> bytes | None:
    """Return the content of a plain file; None if it is not there."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as stream:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise OSError(0, "no plain file")
            return stream.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(
            f"--state {path.parent}: {path.name} cannot be read ({error.strerror}); mend that, or "
            "name another folder"
        ) from None


def _plain(value: Any, indent: int | None = None) -> bytes:
    return json.dumps(value, indent=indent, sort_keys=True, allow_nan=False).encode()


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
