"""The folder of a state: state.json, which names its tables and their SHA-256, and the tables.

A table's name has its content's SHA-256, so an old state and a new one share what did not change,
and state.json alone decides which state there is. The state before stays (previous.json), so that
the last run can be repeated. Nothing is pickled. Files are opened by names that misc gives, and
never through a link: a folder may come from a stranger.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import stat
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet

from misc_cli import cleanup
from misc_cli.errors import ConfigError, InputError, MiscWarning
from misc_cli.state.saved_state import SavedState

FORMAT = 4
POINTER = "state.json"
PREVIOUS = "previous.json"  # the state before this one
ASIDE = "set-aside"  # a folder for a state that could not be used, the last of them
OURS = re.compile(r"[a-z]+-[0-9a-f]{16}\.parquet")
LEFT = re.compile(rf"\.({OURS.pattern}|{re.escape(PREVIOUS)})\.[0-9a-f]{{8}}\.(part|old)")


def check_folder(folder: Path) -> None:
    """Make the folder of a state; refuse one with a link or a pipe by one of our names."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        aside = folder / ASIDE
        odd = [aside] if aside.is_symlink() or (aside.exists() and not aside.is_dir()) else []
        for path in [*folder.iterdir(), *(aside.iterdir() if aside.is_dir() and not odd else [])]:
            ours = path.name in (POINTER, PREVIOUS) or OURS.fullmatch(path.name)
            if ours and (path.is_symlink() or not path.is_file()):
                odd.append(path)
    except OSError as error:
        raise ConfigError(f"--state {folder}: {error.strerror}; name a folder") from None
    for path in odd:
        raise ConfigError(
            f"--state {path.parent}: {path.name} is no plain file or folder of misc; remove it, or "
            "name another folder"
        )
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ConfigError(f"--state {folder}: cannot be written; check the permissions")


def open_state(folder: Path) -> SavedState | None:
    """Return the state in a folder; one that cannot be used is set aside with a warning."""
    try:
        found = load(folder)
    except ValueError as why:
        aside = new_aside(folder)
        tables = [path for path in folder.iterdir() if OURS.fullmatch(path.name)]
        for path in [*tables, folder / POINTER]:  # the pointer last: it says there is one
            path.replace(aside / path.name)
        warnings.warn(
            f"--state {folder}: {why}; it is kept in {aside}, this run starts from nothing",
            MiscWarning,
            stacklevel=3,
        )
        return None
    if found is not None:
        prune(folder)
    return found


def load(folder: Path) -> SavedState | None:
    """Return the state in a folder, every byte checked; None if there is none.

    Only what is damaged is a ValueError: a disk that fails now may have it tomorrow.
    """
    text = _read(folder / POINTER)
    if text is None:
        return None
    form, tables = FORMAT, {}
    try:
        whole = json.loads(text)
        form, about, files = whole["format"], whole["about"], whole["files"]
        if form != FORMAT or whole["sha256"] != _digest(_plain([about, files])):
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
        if form != FORMAT:
            told = f"it is of another version (format {form!r:.20}, this misc has {FORMAT})"
            raise ValueError(told) from None
        raise ValueError("it is damaged, a file of it is gone or was changed") from None
    return state


def outputs(folder: Path, about: Mapping[str, Any], tables: Mapping[str, Any]) -> dict[Path, bytes]:
    """Return the files of a new state, for `write_all`; state.json is the last."""
    before = _bytes(folder / POINTER)
    files: dict[str, dict[str, str]] = {}
    found: dict[Path, bytes] = {}
    for name, table in tables.items():
        sink = pa.BufferOutputStream()
        parquet.write_table(table, sink, compression="zstd")
        data = sink.getvalue().to_pybytes()
        digest = _digest(data)
        file = f"{name}-{digest[:16]}.parquet"
        files[name] = {"file": file, "sha256": digest}
        if not (folder / file).exists():  # its name is its content: the state before has it, too
            found[folder / file] = data
    if before is not None:
        found[folder / PREVIOUS] = before
    digest = _digest(_plain([about, files]))
    whole = {"format": FORMAT, "sha256": digest, "about": about, "files": files}
    return {**found, folder / POINTER: _plain(whole, indent=1)}


def prune(folder: Path) -> None:
    """Remove tables that only earlier states named, and what runs that were killed left.

    Only for the holder of the folder's lock, and where state.json is whole. What cannot be removed
    does no harm.
    """
    named = {table for name in (POINTER, PREVIOUS) for table in _tables_of(_bytes(folder / name))}
    for path in folder.iterdir():
        if LEFT.fullmatch(path.name) or (OURS.fullmatch(path.name) and path.name not in named):
            cleanup.remove(path)


def fingerprint(folder: Path) -> str | None:
    """Return what tells the state in a folder from any other; None if there is none."""
    pointer = _bytes(folder / POINTER)
    return None if pointer is None else _digest(pointer)


def copy(folder: Path, wanted: str, target: Path) -> bool:
    """Copy the state of this fingerprint, the present or the one before; return False if gone."""
    for name in (POINTER, PREVIOUS):
        pointer = _bytes(folder / name)
        if pointer is None or _digest(pointer) != wanted:
            continue
        tables = {table: _bytes(folder / table) for table in _tables_of(pointer)}
        if None in tables.values():
            return False
        for table, data in {**tables, POINTER: pointer}.items():
            (target / table).write_bytes(data or b"")
        return True
    return False


def new_aside(folder: Path) -> Path:
    """Return the folder for a state that is set aside, empty."""
    aside = folder / ASIDE
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir()
    return aside


def _tables_of(pointer: bytes | None) -> list[str]:
    """Return the files that a pointer names; none if there is no pointer or it is not whole."""
    try:
        files = [str(file["file"]) for file in json.loads(pointer or b"")["files"].values()]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return []
    return [file for file in files if OURS.fullmatch(file)]


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


def _bytes(path: Path) -> bytes | None:
    """Return the content of a plain file; None if it cannot be read."""
    try:
        return _read(path)
    except InputError:
        return None


def _plain(value: Any, indent: int | None = None) -> bytes:
    return json.dumps(value, indent=indent, sort_keys=True, allow_nan=False).encode()


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
