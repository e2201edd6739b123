"""Bytes of local files and of standard input: copied whole, so that nobody changes them under us.

A mapped file that somebody truncates kills its reader, and one that is rewritten gives labels with
the checksum of other bytes. So a file is read once into memory of our own, which is hashed, parsed
and thrown away; if it changed meanwhile, that is an error. Only a file larger than half of the free
memory is mapped. What has no size beforehand (a pipe, a device, a packed file) has a limit.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import mmap
import os
import re
import stat
import sys
import time
import zlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

import pyarrow as pa

from misc_cli.core.memory import available_bytes
from misc_cli.errors import InputError

Stamp = tuple[int, int, int, int]

PIECE = 1 << 20
STALE_SECONDS = 0.02  # a file system's clock may tick as slowly as this

# How a packed file begins, what it is called, how it is read unpacked.
_UNPACKERS: list[tuple[bytes, str, Callable[[Any], Any]]] = [
    (rb"\x1f\x8b\x08", "gzip", lambda packed: gzip.GzipFile(fileobj=packed)),
    (rb"BZh[1-9](1AY&SY|\x17rE8P\x90)", "bzip2", bz2.BZ2File),
    (rb"\xfd7zXZ\x00", "xz", lzma.LZMAFile),
    (rb"\x28\xb5\x2f\xfd", "zstd", lambda packed: pa.input_stream(packed, compression="zstd")),
]


def read_stdin(limit: int) -> bytes | mmap.mmap:
    if sys.stdin is None:
        raise InputError("<stdin>: standard input is closed; name a file, or pipe answers in")
    try:
        number = sys.stdin.fileno()
    except (OSError, ValueError, AttributeError):  # a program that put something else there
        whole: bytes = sys.stdin.buffer.read()
        return whole
    try:
        with open(number, "rb", buffering=0, closefd=False) as file:
            return _read("<stdin>", file, limit)
    except OSError as error:
        raise _unreadable("<stdin>", error) from None


def read_file(path: str, limit: int) -> bytes | mmap.mmap:
    """The bytes of a file; of a pipe or a device at most `limit` of them."""
    try:
        if os.path.isdir(path):
            raise InputError(f"{path}: this is a folder; name the files in it")
        with open(path, "rb", buffering=0) as file:
            return _read(path, file, limit)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; check the path") from None
    except OSError as error:
        raise _unreadable(path, error) from None


def unpack(name: str, raw: Any, limit: int) -> Any:
    """The content of a packed file, at most `limit` bytes; any other as it is."""
    start = bytes(memoryview(raw)[:16])
    for magic, kind, opened in _UNPACKERS:
        if re.match(magic, start):
            try:
                return pa.py_buffer(limited(name, opened(pa.BufferReader(raw)), limit))
            except (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError) as error:
                raise InputError(
                    f"{name}: damaged {kind} file ({error}); fetch or pack it again"
                ) from None
    return raw


def _read(name: str, file: io.FileIO, limit: int) -> bytes | mmap.mmap:
    before = os.fstat(file.fileno())
    start = 0
    with suppress(OSError):  # a pipe has no place in it
        start = file.tell()
    size = before.st_size - start
    if not stat.S_ISREG(before.st_mode) or size <= 0:  # a size of 0 says nothing, as in /proc
        return limited(name, file, limit)
    if size > available_bytes() // 2 and not start:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    memory = mmap.mmap(-1, size)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):
            memory.madvise(mmap.MADV_HUGEPAGE)
    at = 0
    with memoryview(memory) as view:
        while at < size and (n_read := file.readinto(view[at : at + (PIECE << 3)])):
            at += n_read
    if at < size or file.read(1) or _stamp(file.fileno()) != _stamp_of(before):
        raise _changed(name)
    return memory


def stamps(paths: Iterable[str]) -> dict[str, Stamp]:
    """How files on this machine are now; for `refuse_changed` when they have been read."""
    return {path: _stamp(path) for path in paths if os.path.isfile(path)}


def refuse_changed(before: Mapping[str, Stamp]) -> None:
    for path, stamp in before.items():
        try:
            now = _stamp(path)
        except OSError:
            raise _changed(path) from None
        if now != stamp:
            raise _changed(path)


def _changed(name: str) -> InputError:
    return InputError(f"{name}: the file changed while it was read; wait until it is written")


def _stamp(file: str | int) -> Stamp:
    """What tells a file from itself after a change, when the clock has moved on from the last."""
    now = os.stat(file)
    young = STALE_SECONDS - (time.time() - now.st_mtime)
    if 0 < young <= STALE_SECONDS:
        time.sleep(young)
        now = os.stat(file)
    return _stamp_of(now)


def _stamp_of(found: os.stat_result) -> Stamp:
    """Which file, its size, and the time of its last change."""
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def limited(name: str, stream: Any, limit: int) -> bytes:
    pieces, total = [], 0
    while piece := stream.read(PIECE):
        pieces.append(piece)
        total += len(piece)
        if total > limit:
            raise InputError(
                f"{name}: more than {limit / 2**30:.3g} GiB when read and unpacked; if that is "
                "meant, raise --max-input"
            )
    return b"".join(pieces)


def _unreadable(name: str, error: OSError) -> InputError:
    reason = os.strerror(error.errno) if error.errno else str(error)
    return InputError(f"{name}: cannot be read ({reason}); check the permissions")
