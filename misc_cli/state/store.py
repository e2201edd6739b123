"""The folder of a state, from the command line and from Python: opened before a run, left after."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as parquet

from misc_cli import cleanup
from misc_cli.data.types import Aggregation
from misc_cli.errors import ConfigError, InputError, MiscWarning
from misc_cli.state.incremental import IncrementalRun
from misc_cli.state.saved_state import SavedState
from misc_cli.writers.output_paths import locked
from misc_cli.writers.output_set import Output, content, write_all

FORMAT = 3
POINTER = "state.json"
PREVIOUS = "previous.json"  # the state before this one, so that the last run can be repeated
ASIDE = "set-aside"  # a folder for one that could not be used, the last of them
TABLE = ".parquet"
OURS = re.compile(r"[a-z]+\d*-[0-9a-f]{16}\.parquet")
LEFT = re.compile(rf"\.({OURS.pattern}|{re.escape(PREVIOUS)})\.[0-9a-f]{{8}}\.(part|old)")


@dataclass(frozen=True)
class Stored:
    """Hold the plain values and the tables that a run saved."""

    about: dict[str, Any]
    tables: dict[str, Any]


class UnusableState(Exception):
    """There is a state, but it cannot be used; says why."""


def check_folder(folder: Path) -> None:
    """Find out before the work whether a state can be kept there; makes the folder."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"--state {folder}: {error.strerror}; name a folder") from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ConfigError(f"--state {folder}: cannot be written; check the permissions")


def load(folder: Path) -> Stored | None:
    """The state in a folder, every byte checked; None if there is none.

    Only what is damaged is unusable: a disk or a system that fails now may have it tomorrow.
    """
    text = _read(folder / POINTER)
    if text is None:
        return None
    try:
        whole = json.loads(text)
        form, digest, about, files = (whole[key] for key in ("format", "sha256", "about", "files"))
    except (ValueError, TypeError, KeyError):
        raise UnusableState("it is damaged (state.json is not whole)") from None
    if form != FORMAT:
        raise UnusableState(f"it is of another version (format {form}, this misc has {FORMAT})")
    if digest != _digest(_plain([about, files])):
        raise UnusableState("it is damaged (state.json was changed)")
    tables = {}
    for name, file in files.items():
        data = _read(folder / file["file"])
        if data is None:
            raise UnusableState(f"it is damaged ({file['file']} is gone)")
        if _digest(data) != file["sha256"]:
            raise UnusableState(f"it is damaged ({file['file']} was changed)")
        tables[name] = parquet.read_table(pa.BufferReader(data))
    return Stored(about, tables)


def outputs(
    folder: Path,
    about: Callable[[], Mapping[str, Any]],
    tables: Mapping[str, Any],
    *,
    keep_aside: bool = False,
) -> list[Output]:
    """The files of a new state, for `write_all`; state.json is the last.

    `about` is asked when all other
    files are written. `keep_aside` is for a state that this one does not go on from.
    """
    before = _bytes(folder / POINTER)
    files, found = {}, []
    if keep_aside:
        (folder / ASIDE).mkdir(exist_ok=True)
        for name in [*_tables_of(before), POINTER]:
            data = _bytes(folder / name)
            if data is not None:
                found.append(Output(folder / ASIDE / name, content(data)))
    for name, table in tables.items():
        data = packed(table)
        digest = _digest(data)
        file = f"{name}-{digest[:16]}{TABLE}"
        files[name] = {"file": file, "sha256": digest}
        if not (folder / file).exists():  # its name is its content: the state before has it, too
            found.append(Output(folder / file, content(data)))
    if before is not None:
        found.append(Output(folder / PREVIOUS, content(before)))

    def write_pointer(stream: BinaryIO) -> None:
        told = dict(about())
        digest = _digest(_plain([told, files]))
        whole = {"format": FORMAT, "sha256": digest, "about": told, "files": files}
        stream.write(_plain(whole, indent=1))

    return [*found, Output(folder / POINTER, write_pointer)]


def tidy(folder: Path) -> None:
    """Remove tables that only earlier states named, and what runs that were killed left.

    Only for the holder of the folder's lock, and where state.json is whole. What cannot be removed
    does no harm.
    """
    named = {table for name in (POINTER, PREVIOUS) for table in _tables_of(_bytes(folder / name))}
    for path in folder.iterdir():
        if LEFT.fullmatch(path.name) or (OURS.fullmatch(path.name) and path.name not in named):
            cleanup.remove(path)


def packed(table: Any) -> bytes:
    """Return a table as the bytes of a Parquet file."""
    sink = pa.BufferOutputStream()
    parquet.write_table(table, sink, compression="zstd")
    data: bytes = sink.getvalue().to_pybytes()
    return data


def fingerprint(folder: Path) -> str | None:
    """What tells the state in a folder from any other; None if there is none."""
    pointer = _bytes(folder / POINTER)
    return None if pointer is None else _digest(pointer)


def copy(folder: Path, wanted: str, target: Path) -> bool:
    """Copy the state of this fingerprint, the present or the one before; whether it was there."""
    for name in (POINTER, PREVIOUS):
        pointer = _bytes(folder / name)
        if pointer is None or _digest(pointer) != wanted:
            continue
        tables = [folder / table for table in _tables_of(pointer)]
        if not all(table.is_file() for table in tables):
            return False
        for table in tables:
            shutil.copyfile(table, target / table.name)
        (target / POINTER).write_bytes(pointer)
        return True
    return False


def set_aside(folder: Path) -> Path:
    """Keep a state that cannot be used, with its tables, in a folder of its own."""
    aside = folder / ASIDE
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir()
    for path in [*_tables_in(folder), folder / POINTER]:  # the pointer last: it says there is one
        path.replace(aside / path.name)
    return aside


def size(folder: Path) -> int:
    """Bytes of the state itself."""
    paths = [*_tables_in(folder), folder / POINTER, folder / PREVIOUS]
    return sum(path.stat().st_size for path in paths if path.exists())


def _tables_in(folder: Path) -> list[Path]:
    """The tables of states. Whatever else lies in the folder is somebody's and is left alone."""
    return [path for path in folder.glob(f"*{TABLE}") if OURS.fullmatch(path.name)]


def _read(path: Path) -> bytes | None:
    """None if it is not there."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(
            f"--state {path.parent}: {path.name} cannot be read ({error.strerror}); mend that, or "
            "name another folder"
        ) from None


def _bytes(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def _tables_of(pointer: bytes | None) -> list[str]:
    """The files that a pointer names; none if there is no pointer or it is not whole."""
    try:
        return [str(file["file"]) for file in json.loads(pointer or b"")["files"].values()]
    except (ValueError, TypeError, KeyError, AttributeError):
        return []


def _plain(value: Any, indent: int | None = None) -> bytes:
    return json.dumps(value, indent=indent, sort_keys=True, allow_nan=False).encode()


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


RECHOOSE = 30 * 86400.0  # seconds after which a choice is old


def opened(folder: Path) -> Stored | None:
    """The state, checked; None with a warning if it cannot be used: it is set aside, not lost."""
    try:
        found = load(folder)
    except UnusableState as why:
        aside = set_aside(folder)
        warnings.warn(
            f"--state {folder}: {why}; it is kept in {aside}, this run starts from nothing",
            MiscWarning,
            stacklevel=3,
        )
        return None
    if found is not None:
        tidy(folder)
    return found


def left_of(stored: Stored | None) -> SavedState | None:
    """What the last run left."""
    if stored is None:
        return None
    return SavedState(stored.about, stored.tables["workers"], stored.tables.get("items"))


def state_outputs(
    folder: Path,
    night: IncrementalRun,
    aggregation: Aggregation,
    more: Callable[[], Mapping[str, Any]],
) -> list[Output]:
    """Return the files of the new state; `more` gives the caller's values, asked for last."""
    about, tables = night.leave(aggregation)
    return outputs(folder, lambda: {**about, **more()}, tables, keep_aside=night.of_other_data)


def leave(folder: Path, night: IncrementalRun, aggregation: Aggregation) -> None:
    """Keep what the next run needs, after a run from Python."""
    write_all(state_outputs(folder, night, aggregation, lambda: {"run": None}))
    kept(folder, night)


def kept(folder: Path, night: IncrementalRun) -> None:
    """The new state is there: what only older ones need can go."""
    tidy(folder)
    if night.of_other_data:
        tidy(folder / ASIDE)


@contextmanager
def night_of(folder: Path) -> Iterator[IncrementalRun]:
    """A run from Python: the folder is ours meanwhile."""
    check_folder(folder)
    with locked([folder / POINTER]):
        yield IncrementalRun(left=left_of(opened(folder)), rechoose=RECHOOSE)
