"""The bytes of one input: opened, hashed, unpacked, and brought to plain UTF-8."""

from __future__ import annotations

import codecs
import hashlib
import mmap
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from misc_cli.errors import ConfigError, EmptyFile, InputError
from misc_cli.io.address import Access, is_address, is_database, redact
from misc_cli.io.local import read_file, read_stdin, unpack

Buffer = Any  # a pyarrow.Buffer; slicing it copies nothing

STDIN = "-"
CHUNK = 1 << 17  # small enough that its copy stays in the cache

ARROW = b"ARROW1"
ARROW_STARTS = (ARROW, b"\xff\xff\xff\xff")  # a file, and a stream
# What is no text and nothing that is read here, by its first bytes.
_KNOWN = {
    b"\x80\x04": "a pickle of Python, which may run anything",
    b"\x80\x05": "a pickle of Python, which may run anything",
    b"\x89HDF": "an HDF5 file",
    b"$FL2": "a file of SPSS",
    b"RDX": "a file of R",
    b"X\n\0\0": "a file of R",
    b"<stata_dta>": "a file of Stata",
    b"\xd0\xcf\x11\xe0": "a workbook of Excel before 2007",
    b"MATLAB": "a file of MATLAB",
    b"%PDF": "a PDF",
}
_PACKED_SUFFIXES = (".gz", ".bz2", ".xz", ".zst")


def check_stdin_once(sources: Iterable[str]) -> None:
    """A second reader of standard input would find it empty."""
    if list(sources).count(STDIN) > 1:
        raise ConfigError("standard input (-) can be read only once")


@dataclass(frozen=True)
class Source:
    """One input.

    stored   what holds its bytes: memory, or a mapped file if it is larger than that
    raw      those bytes as they are
    content  unpacked, and UTF-8 without a mark, unless binary
    digest   the SHA-256 of what was read, where that is not `raw` (rows of a database)
    quotes_span_lines  the user knows of cells with many lines
    inner    the name of the file within the archive that this is, if it is one
    """

    name: str
    stored: bytes | mmap.mmap
    raw: Buffer
    content: Buffer
    digest: str | None = None
    quotes_span_lines: bool = False
    inner: str = ""

    @property
    def suffix(self) -> str:
        """The extension that tells the format, `.gz` and the like set aside."""
        name = (self.inner or self.name).lower()
        if is_address(name):
            name = re.split(r"[?#]", name)[0]
        for packed in _PACKED_SUFFIXES:
            name = name.removesuffix(packed)
        return os.path.splitext(name)[1]

    @property
    def is_parquet(self) -> bool:
        return starts_with(self.content, b"PAR1")

    def sha256(self) -> str:
        """Of the bytes as stored, so that sha256sum on the file says the same."""
        # hashing lets other threads run meanwhile
        return self.digest or hashlib.sha256(self.raw).hexdigest()


def open_source(path: str, encoding: str | None = None, access: Access | None = None) -> Source:
    """Read one input, `-` for standard input."""
    access = access or Access()
    if is_database(path):
        from misc_cli.io.binary import open_query

        return open_query(path, access)
    name = "<stdin>" if path == STDIN else redact(path)
    stored = read_stdin(access.max_input) if path == STDIN else _fetch(path, access)
    raw = pa.py_buffer(stored)
    content, inner = unpack(name, raw, access.max_input), ""
    if bytes(memoryview(content)[:4]) in (b"PK\x03\x04", b"PK\x05\x06"):  # the latter is empty
        from misc_cli.io.archive import only_member

        inner, content = only_member(name, content, access.max_input)
        content = unpack(name, content, access.max_input)
    if is_binary(content):
        from misc_cli.io.binary import open_binary

        return open_binary(path, Source(name, stored, raw, content), access)
    source = Source(name, stored, raw, content, inner=inner)
    if source.is_parquet:
        return source
    content = _to_utf8(name, content, encoding)
    if not content.size or not any(chunk.strip() for chunk in chunks(content)):
        raise empty(name)
    spanning = access.quotes_span_lines
    return Source(name, stored, raw, content, quotes_span_lines=spanning, inner=inner)


def empty(name: str) -> EmptyFile:
    return EmptyFile(f"{name}: the file is empty; give a file with answers in it")


def chunks(buffer: Buffer) -> Iterator[bytes]:
    view = memoryview(buffer)
    return (bytes(view[start : start + CHUNK]) for start in range(0, len(view), CHUNK))


def starts_with(buffer: Buffer, prefix: bytes) -> bool:
    return bytes(memoryview(buffer)[: len(prefix)]) == prefix


def count(buffer: Buffer, byte: bytes) -> int:
    return sum(chunk.count(byte) for chunk in chunks(buffer))


def line_at(buffer: Buffer, offset: int) -> int:
    """The line number, from 1, of a byte."""
    return 1 + sum(chunk.count(b"\n") for chunk in chunks(buffer.slice(0, offset)))


def refuse_nul(source: Source) -> None:
    start = 0
    for chunk in chunks(source.content):
        at = chunk.find(b"\0")
        if at >= 0:
            _refuse_known(source)
            line = line_at(source.content, start + at)
            raise InputError(
                f"{source.name}, line {line}: a NUL byte, so this is no plain text; "
                "if it is UTF-16, say --encoding utf-16, else export it anew"
            )
        start += len(chunk)


def _refuse_known(source: Source) -> None:
    """Raise with what the file is, where its first bytes say so and it is nothing to be read."""
    from misc_cli.io.archive import refuse_tar

    refuse_tar(source.name, source.content)
    for start, what in _KNOWN.items():
        if starts_with(source.content, start):
            raise InputError(f"{source.name}: {what}; write it as CSV or Parquet")


def refuse_undecodable(source: Source) -> None:
    """Raise with the line of the first byte that is no UTF-8, if there is one."""
    try:
        bytes(memoryview(source.content)).decode("utf-8")
    except UnicodeDecodeError as error:
        line = line_at(source.content, error.start)
        # latin-1 has no characters there; Windows and old Macs have
        windows = any(re.search(rb"[\x80-\x9f]", chunk) for chunk in chunks(source.content))
        which = "cp1252 (Windows) or mac-roman (old Macs)" if windows else "latin-1"
        raise InputError(
            f"{source.name}, line {line}: not UTF-8 (byte 0x{error.object[error.start]:02x}); "
            f"give its encoding, for example --encoding {which}"
        ) from None


def is_binary(content: Buffer) -> bool:
    """Whether this is a workbook, a matrix, a database or Arrow's, by its first bytes."""
    start = bytes(memoryview(content)[:16])
    known = (b"PK\x03\x04", b"\x93NUMPY", b"SQLite format 3\0", *ARROW_STARTS)
    return start.startswith(known) or (start[8:12] == b"DUCK")


def _fetch(path: str, access: Access) -> bytes | mmap.mmap:
    """A local file, or what is behind an address."""
    if not is_address(path):
        return read_file(path, access.max_input)
    from misc_cli.io.remote import fetch

    return fetch(path, access)


def _to_utf8(name: str, content: Buffer, encoding: str | None) -> Buffer:
    if encoding is not None:
        encoding = _text_encoding(encoding)
    wide = starts_with(content, codecs.BOM_UTF16_LE) or starts_with(content, codecs.BOM_UTF16_BE)
    if encoding is None and wide:
        encoding = "utf-16"
    if encoding not in (None, "utf-8", "utf-8-sig"):
        data = bytes(memoryview(content))
        try:
            return _without_mark(pa.py_buffer(data.decode(encoding).encode("utf-8")))
        except UnicodeDecodeError as error:
            line = 1 + data[: error.start].count(b"\n")
            raise InputError(
                f"{name}, line {line}: not {encoding} ({error.reason}); set --encoding"
            ) from None
        except UnicodeError as error:  # half characters, or an encoding of short names only
            raise InputError(
                f"{name}: cannot be read as {encoding} ({error}); set --encoding"
            ) from None
    return _without_mark(content)


def _text_encoding(name: str) -> str:
    """The proper name of an encoding of text: base64 and the like are none."""
    try:
        found = codecs.lookup(name)
        "".encode(name)
    except (LookupError, ValueError, UnicodeError):
        raise ConfigError(f"--encoding {name}: no such encoding of text; try utf-8") from None
    return found.name


def _without_mark(content: Buffer) -> Buffer:
    return content.slice(3) if starts_with(content, codecs.BOM_UTF8) else content
