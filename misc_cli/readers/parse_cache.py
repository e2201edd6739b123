"""Answers of files that were read before: bytes that did not change are not parsed again.

All remembered answers stand in one long table, of which every file has some rows. The table is kept
in segments, each of them two tables of a state: codes, and the names that they stand for. Tonight's
new rows are a segment, and as long as the one before it is hardly larger the two become one (as in
a binary counter), so there are few of them, and an old row is written again only a few times in
all. A file that is gone leaves its rows behind until half of the table is unused.

A delimited file that grew at its end is yesterday's file and a tail: only the tail is parsed, under
the same header, as if it were a file of its own; if that reads otherwise, the whole file is.
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from misc_cli.errors import MiscError
from misc_cli.readers.answer_table import FileInfo, Part, joined
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.platforms.base import Question
from misc_cli.readers.source import Source
from misc_cli.state import store
from misc_cli.version import __version__

CODES, NAMES = "answers", "names"  # tables of a segment are called this and its number
ROLES = ("worker", "item", "label")
# A segment is at least so many times as long as the next, else they become one.
LONGER = 2.0
LEAST_USED = 0.5  # of the rows; below, the table is written anew without the others
MOST_BYTES = 1 << 28  # a larger file is not held twice in memory to spare its parsing

Pieces = tuple[tuple[int, int], ...]
# a path, and the bytes to read in its place
Anew = Callable[[str, Source | None], list[Part]]


@dataclass(frozen=True)
class Entry:
    """How one file was read: `pieces` are its rows in the table, first and count."""

    key: str
    size: int
    pieces: Pieces
    info: Mapping[str, Any]
    kind: str
    has_workers: bool


@dataclass(frozen=True)
class Segment:
    """Some rows: role → dictionary array, and the same as Parquet, codes and names."""

    columns: Mapping[str, Any]
    codes: bytes
    names: bytes

    def __len__(self) -> int:
        return len(self.columns["label"])

    @classmethod
    def of(cls, columns: Mapping[str, Any]) -> Segment:
        codes = pa.table({role: columns[role].indices for role in ROLES})
        words = [columns[role].dictionary.cast(pa.string()) for role in ROLES]
        role = np.repeat(np.arange(len(ROLES), dtype=np.int8), list(map(len, words)))
        names = pa.table({"role": role, "name": pa.concat_arrays(words)})
        return cls(columns, store.packed(codes), store.packed(names, use_dictionary=["role"]))

    @classmethod
    def stored(cls, number: int, tables: Mapping[str, Any], raw: Mapping[str, bytes]) -> Segment:
        codes, names = (tables[f"{kind}{number}"].combine_chunks() for kind in (CODES, NAMES))
        ends = np.searchsorted(names["role"].to_numpy(), np.arange(len(ROLES) + 1))
        words = _array(names["name"])
        columns = {
            role: pa.DictionaryArray.from_arrays(
                _array(codes[role]), words.slice(ends[at], ends[at + 1] - ends[at])
            )
            for at, role in enumerate(ROLES)
        }
        return cls(columns, raw[f"{CODES}{number}"], raw[f"{NAMES}{number}"])


@dataclass
class Memory:
    """What earlier runs read, and what this one does; `columns` is the whole table."""

    reading: str
    segments: list[Segment] = field(default_factory=list)
    columns: dict[str, Any] = field(default_factory=dict)
    entries: dict[str, Entry] = field(default_factory=dict)
    used: dict[str, Entry] = field(default_factory=dict)
    n_rows: int = 0
    fresh: list[Question] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        options: ReadOptions,
        about: Mapping[str, Any] | None = None,
        tables: Mapping[str, Any] | None = None,
        raw: Mapping[str, bytes] | None = None,
    ) -> Memory:
        """From what `leave` gave; empty where files are read in another way now."""
        reading = _digest(json.dumps([__version__, asdict(options)], sort_keys=True).encode())
        memory = cls(reading)
        if about is None or tables is None or raw is None or about["reading"] != reading:
            return memory
        numbers = range(about["segments"])
        memory.segments = [Segment.stored(number, tables, raw) for number in numbers]
        memory.n_rows = sum(map(len, memory.segments))
        if memory.segments:
            memory.columns = _together([segment.columns for segment in memory.segments])
        found = [Entry(**{**entry, "pieces": _pairs(entry["pieces"])}) for entry in about["files"]]
        memory.entries = {entry.key: entry for entry in found}
        return memory

    def read(self, path: str, anew: Anew) -> list[Part]:
        """The answers of a file; `anew` reads what is not remembered."""
        data = _bytes(path)
        if data is None:
            return anew(path, None)
        suffix = os.path.splitext(path)[1].lower()
        digest = _digest(data)
        key = f"{digest}{suffix}"
        known = self.entries.get(key)
        if known is not None:
            self.used[key] = known
            return [self._part(known, path, digest)]
        found = self._grown(path, suffix, data, digest, anew)
        if found is None:
            parts, said = _heard(anew, path, None)
            for warning in said:
                warnings.warn(str(warning.message), warning.category, stacklevel=2)
            if said or not _is_plain(parts) or parts[0].info.sha256 != digest:
                return parts
            found = parts[0], (self._keep(parts[0].question),)
        part, pieces = found
        kind, has_workers = part.question.kind, part.has_workers
        self.used[key] = Entry(key, len(data), pieces, asdict(part.info), kind, has_workers)
        return [part]

    def leave(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """What the next run needs: values for JSON, and tables by name, as Parquet's bytes."""
        entries = list(self.used.values())
        rows = {piece for entry in entries for piece in entry.pieces}
        total = self.n_rows + sum(map(len, self.fresh))
        if sum(count for _, count in rows) < LEAST_USED * total:
            entries = self._compact(entries)
        elif self.fresh:
            self._append()
        about = {
            "reading": self.reading,
            "segments": len(self.segments),
            "files": [asdict(entry) for entry in entries],
        }
        tables: dict[str, Any] = {}
        for number, segment in enumerate(self.segments):
            tables |= {f"{CODES}{number}": segment.codes, f"{NAMES}{number}": segment.names}
        return about, tables

    def _part(self, entry: Entry, path: str, digest: str) -> Part:
        info = FileInfo(**{**entry.info, "name": path, "sha256": digest})
        question = Question(
            str(info.question), entry.kind, **self._rows(entry), columns=dict(info.columns)
        )
        return Part(question, info, [], entry.has_workers)

    def _rows(self, entry: Entry) -> dict[str, Any]:
        return {
            role: joined([self.columns[role].slice(*piece) for piece in entry.pieces])
            for role in ROLES
        }

    def _keep(self, question: Question) -> tuple[int, int]:
        """Remember tonight's rows; where they will stand."""
        first = self.n_rows + sum(map(len, self.fresh))
        self.fresh.append(question)
        return first, len(question)

    def _grown(
        self, path: str, suffix: str, data: bytes, digest: str, anew: Anew
    ) -> tuple[Part, Pieces] | None:
        """A file that only grew at its end; None if it did not, or not plainly."""
        earlier = next((e for e in self.entries.values() if e.info["name"] == path), None)
        if earlier is None or not _can_grow(earlier) or len(data) <= earlier.size:
            return None
        start, tail = data[: earlier.size], data[earlier.size :]
        header, end, _ = start.partition(b"\n")
        if f"{_digest(start)}{suffix}" != earlier.key or not start.endswith(b"\n"):
            return None
        if header.count(b'"') % 2 or not tail.strip() or _is_packed(data):
            return None
        short = header + end + tail
        source = Source(path, short, pa.py_buffer(short), pa.py_buffer(short))
        try:
            parts, said = _heard(anew, path, source)
        except MiscError:  # reading the whole file says what is wrong, and where
            return None
        if said or not _is_plain(parts):
            return None
        before, (part,) = self._part(earlier, path, digest), parts
        if _manner(part.info) != _manner(before.info):
            return None
        columns = {
            role: joined([getattr(one.question, role) for one in (before, part)]) for role in ROLES
        }
        grown = replace(
            before,
            question=replace(before.question, **columns),
            info=replace(before.info, n_rows=before.info.n_rows + part.info.n_rows),
        )
        return grown, _merged((*earlier.pieces, self._keep(part.question)))

    def _append(self) -> None:
        """Tonight's rows as a segment; one with those before it that are hardly longer."""
        parts: list[Mapping[str, Any]] = [self._new_rows()]
        length = len(parts[0]["label"])
        while self.segments and len(self.segments[-1]) < LONGER * length:
            parts.insert(0, self.segments.pop().columns)
            length += len(parts[0]["label"])
        self.segments.append(Segment.of(_together(parts)))

    def _compact(self, entries: list[Entry]) -> list[Entry]:
        """Only the rows that are used, in one segment."""
        if self.fresh:
            new = self._new_rows()
            self.columns = _together([self.columns, new]) if self.columns else new
        parts, moved, at = [], [], 0
        for entry in entries:
            parts.append(self._rows(entry))
            count = len(parts[-1]["label"])
            moved.append(replace(entry, pieces=((at, count),)))
            at += count
        self.segments = [Segment.of(_together(parts))] if parts else []
        return moved

    def _new_rows(self) -> dict[str, Any]:
        return _together(
            [{role: _text(getattr(one, role)) for role in ROLES} for one in self.fresh]
        )


def _heard(anew: Anew, path: str, source: Source | None) -> tuple[list[Part], list[Any]]:
    """What was read, and what was warned of meanwhile."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        return anew(path, source), said


def _is_plain(parts: list[Part]) -> bool:
    """Whether the columns and the record of a file are all there is to it."""
    return len(parts) == 1 and parts[0].question.gold is None


def _can_grow(entry: Entry) -> bool:
    """Whether a tail of it can be read under its header."""
    info = entry.info
    return info["format"] in ("csv", "tsv") and bool(info["header"]) and not info["set_aside"]


def _manner(info: FileInfo) -> FileInfo:
    """How a file was read, whatever was in it."""
    return replace(info, sha256="", n_rows=0)


def _is_packed(data: bytes) -> bool:
    """gzip, bzip2, xz, zstd, or text in 16 bits."""
    return data[:2] in (b"\x1f\x8b", b"BZ", b"\xfd7", b"\x28\xb5", b"\xff\xfe", b"\xfe\xff")


def _merged(pieces: Pieces) -> Pieces:
    """Pieces that follow each other as one."""
    found: list[tuple[int, int]] = []
    for first, count in pieces:
        if found and sum(found[-1]) == first:
            found[-1] = (found[-1][0], found[-1][1] + count)
        else:
            found.append((first, count))
    return tuple(found)


def _together(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The rows of several, one after the other."""
    return {role: joined([part[role] for part in parts]) for role in ROLES}


def _text(column: Any) -> Any:
    array = _array(column)
    if pa.types.is_dictionary(array.type):
        return array
    return array.cast(pa.string()).dictionary_encode()


def _array(column: Any) -> Any:
    if not isinstance(column, pa.ChunkedArray):
        return column
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _pairs(pieces: Any) -> Pieces:
    return tuple((int(first), int(count)) for first, count in pieces)


def _bytes(path: str) -> bytes | None:
    """Of a file on this machine, if it is not too large; None of anything else."""
    try:
        if not os.path.isfile(path) or os.path.getsize(path) > MOST_BYTES:
            return None
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return None  # whoever reads it says what is wrong


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
