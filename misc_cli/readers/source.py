"""The bytes of one input: opened, hashed, unpacked, and brought to plain UTF-8."""

from __future__ import annotations

import bz2
import codecs
import gzip
import hashlib
import io
import lzma
import mmap
import os
import re
import stat
import sys
import time
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from shlex import quote
from typing import Any

import pyarrow as pa

from misc_cli.data.resources import available_bytes
from misc_cli.errors import ConfigError, EmptyFile, InputError, nearest_file
from misc_cli.readers.addresses import (
    STDIN,
    Access,
    database_kind,
    is_address,
    redact,
    suffix_of,
)

Buffer = Any  # a pyarrow.Buffer; slicing it copies nothing
Stamp = tuple[int, int, int, int]

PIECE = 1 << 20
CHUNK = 1 << 17  # small enough that its copy stays in the cache
STALE_SECONDS = 0.02  # a file system's clock may tick as slowly as this
LONGEST_LINE = 64 << 20
MOST_COLUMNS = 100_000

_ARROW = b"ARROW1"
# How a packed file begins, what it is called, how it is read unpacked.
_UNPACKERS: list[tuple[bytes, str, Callable[[Any], Any]]] = [
    (rb"\x1f\x8b\x08", "gzip", lambda packed: gzip.GzipFile(fileobj=packed)),
    (rb"BZh[1-9](1AY&SY|\x17rE8P\x90)", "bzip2", bz2.BZ2File),
    (rb"\xfd7zXZ\x00", "xz", lzma.LZMAFile),
    (rb"\x28\xb5\x2f\xfd", "zstd", lambda packed: pa.input_stream(packed, compression="zstd")),
]
# What is no text and nothing that is read here, by its first bytes.
_KNOWN = {
    rb"\x80[\x04\x05]": "a pickle of Python, which may run anything",
    rb"\x89HDF": "an HDF5 file",
    rb"\$FL2": "a file of SPSS",
    rb"RDX|X\n\0\0": "a file of R",
    rb"<stata_dta>": "a file of Stata",
    rb"\xd0\xcf\x11\xe0": "a workbook of Excel before 2007",
    rb"MATLAB": "a file of MATLAB",
    rb"%PDF": "a PDF",
    rb".{8}DUCK": "a DuckDB database",
    rb".{257}ustar": "a tar archive",
}


@dataclass(frozen=True)
class Source:
    """One input.

    raw      its bytes as they are, in memory or mapped
    content  unpacked, and UTF-8 without a mark, unless binary
    quotes_span_lines  the user knows of cells with many lines
    inner    the name of the file within the archive that this is, if it is one
    is_rows  the rows of a database, as CSV with a header
    """

    name: str
    raw: Buffer
    content: Buffer
    quotes_span_lines: bool = False
    inner: str = ""
    is_rows: bool = False

    @property
    def suffix(self) -> str:
        """Return the extension that tells the format."""
        return suffix_of(self.inner or self.name)

    @property
    def is_parquet(self) -> bool:
        return starts_with(self.content, b"PAR1")

    def sha256(self) -> str:
        """Return the hash of the bytes as stored, so that sha256sum on the file says the same."""
        # hashing lets other threads run meanwhile
        return hashlib.sha256(self.raw).hexdigest()


def open_source(path: str, encoding: str | None = None, access: Access | None = None) -> Source:
    """Read one input, `-` for standard input."""
    access = access or Access()
    name = "<stdin>" if path == STDIN else redact(path)
    if database_kind(path):
        return _rows_of_database(path, access)
    if is_address(path):
        from misc_cli.readers.remote import fetch

        raw = pa.py_buffer(fetch(path, access))
    else:
        raw = pa.py_buffer(_read_file(path, access.max_input))
    content, inner = _unpacked(name, raw, access.max_input), ""
    if starts_with(content, b"PK\x03\x04", b"PK\x05\x06"):  # the latter is empty
        inner, content = _from_zip(name, content, access)
        content = _unpacked(name, content, access.max_input)
    if starts_with(content, b"SQLite format 3\0"):
        if path == STDIN or is_address(path):
            raise InputError(f"{name}: a database; save it to a file and name that")
        from urllib.parse import quote as quote_url

        return _rows_of_database(f"sqlite:///{quote_url(path)}", access)
    if starts_with(content, _ARROW, b"\xff\xff\xff\xff"):  # a file, and a stream
        content = _arrow_as_parquet(name, content)
    if not starts_with(content, b"\x93NUMPY", b"PAR1"):
        content = _to_utf8(name, content, encoding)
        if not content.size or not any(chunk.strip() for chunk in chunks(content)):
            raise empty(name)
    return Source(name, raw, content, access.quotes_span_lines, inner)


def _rows_of_database(address: str, access: Access) -> Source:
    from misc_cli.readers.sql import run_query

    rows = run_query(address, access)
    return Source(redact(address), rows, rows, quotes_span_lines=True, is_rows=True)


def _arrow_as_parquet(name: str, data: Buffer) -> Buffer:
    """Return a file or a stream of Arrow, as Feather and Hugging Face write it, as Parquet."""
    import pyarrow.parquet as parquet

    try:
        opened = pa.ipc.open_file(data) if starts_with(data, _ARROW) else pa.ipc.open_stream(data)
        sink = pa.BufferOutputStream()
        parquet.write_table(opened.read_all(), sink)
    except (pa.ArrowException, OSError) as error:
        raise InputError(
            f"{name}: not a whole Arrow file ({one_line(error)}); write it again"
        ) from None
    return sink.getvalue()


def _from_zip(name: str, content: Buffer, access: Access) -> tuple[str, Buffer]:
    """Return name and bytes of the only file in a zip; of a workbook, which is one, its CSV."""
    try:
        with zipfile.ZipFile(io.BytesIO(memoryview(content))) as archive:
            if "xl/workbook.xml" in archive.namelist():
                from misc_cli.readers.excel import sheet_as_csv

                return "sheet.csv", sheet_as_csv(name, archive, access)
            members = [
                one
                for one in archive.infolist()
                if not one.is_dir() and not re.search(r"(^|/)(\.|__MACOSX/)", one.filename)
            ]
            names = [one.filename for one in members]
            if len(names) == 1:
                with archive.open(members[0]) as stream:
                    return names[0], pa.py_buffer(_limited(name, stream, access.max_input))
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError) as error:
        raise InputError(f"{name}: damaged zip file ({error}); fetch or pack it again") from None
    except (RuntimeError, NotImplementedError) as error:  # a password, or a way of packing
        raise InputError(f"{name}: cannot be unpacked here ({error}); unpack it first") from None
    if not names:
        raise InputError(f"{name}: a zip archive without files; fetch or pack it again")
    if "mimetype" in names:
        raise InputError(f"{name}: a spreadsheet or document that is no .xlsx; save it as CSV")
    shown = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
    folder = os.path.splitext(os.path.basename(name))[0] or "export"
    raise InputError(
        f"{name}: a zip archive of {len(names)} files ({shown}); unpack it, "
        f"`unzip {quote(name)} -d {quote(folder)}`, and name the folder in its place, with "
        "--worker-from filename if each file is one worker's"
    )


def _unpacked(name: str, raw: Buffer, limit: int) -> Buffer:
    """Return the content of a packed file, at most `limit` bytes; any other as it is."""
    start = bytes(memoryview(raw)[:16])
    for magic, kind, opened in _UNPACKERS:
        if re.match(magic, start):
            try:
                return pa.py_buffer(_limited(name, opened(pa.BufferReader(raw)), limit))
            except (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError) as error:
                raise InputError(
                    f"{name}: damaged {kind} file ({error}); fetch or pack it again"
                ) from None
    return raw


def _read_file(path: str, limit: int) -> bytes | mmap.mmap:
    """Return the bytes of a file; of a pipe or a device at most `limit` of them."""
    if path == STDIN and sys.stdin is None:
        raise InputError("<stdin>: standard input is closed; name a file, or pipe answers in")
    try:
        if path == STDIN:
            return _limited("<stdin>", sys.stdin.buffer, limit)
        if os.path.isdir(path):
            raise InputError(f"{path}: this is a folder; name the files in it")
        with open(path, "rb", buffering=0) as file:
            before = os.fstat(file.fileno())
            # a size of 0 says nothing, as in /proc
            if not stat.S_ISREG(before.st_mode) or not before.st_size:
                return _limited(path, file, limit)
            if before.st_size > available_bytes() // 2:
                return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            return _copied(path, file, before)
    except FileNotFoundError:
        near = nearest_file(path) or "; check the path"
        raise InputError(f"{path}: no such file{near}") from None
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise InputError(f"{path}: cannot be read ({reason}); check the permissions") from None


def _copied(name: str, file: io.FileIO, before: os.stat_result) -> mmap.mmap:
    """Return the bytes of a file in large pages, once it is sure that nobody writes it."""
    size, at = before.st_size, 0
    memory = mmap.mmap(-1, size)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):
            memory.madvise(mmap.MADV_HUGEPAGE)
    with memoryview(memory) as view:
        while at < size and (n_read := file.readinto(view[at : at + (PIECE << 3)])):
            at += n_read
    if at < size or file.read(1) or _stamp(file.fileno()) != _stamp_of(before):
        raise _changed(name)
    return memory


def stamps(paths: Iterable[str]) -> dict[str, Stamp]:
    """Return the state of local files, for `refuse_changed` when they have been read."""
    return {path: _stamp(path) for path in paths if os.path.isfile(path)}


def refuse_changed(before: Mapping[str, Stamp]) -> None:
    for path, stamp in before.items():
        if not os.path.exists(path) or _stamp(path) != stamp:
            raise _changed(path)


def _changed(name: str) -> InputError:
    return InputError(f"{name}: the file changed while it was read; wait until it is written")


def _stamp(file: str | int) -> Stamp:
    """Return what tells a file from itself after a change, once the clock has moved on."""
    now = os.stat(file)
    young = STALE_SECONDS - (time.time() - now.st_mtime)
    if 0 < young <= STALE_SECONDS:
        time.sleep(young)
        now = os.stat(file)
    return _stamp_of(now)


def _stamp_of(found: os.stat_result) -> Stamp:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _limited(name: str, stream: Any, limit: int) -> bytes:
    pieces, total = [], 0
    read = getattr(stream, "read1", stream.read)  # of a terminal the first Ctrl-D is the end
    while piece := read(PIECE):
        pieces.append(piece)
        total += len(piece)
        if total > limit:
            raise InputError(
                f"{name}: more than {limit / 2**30:.3g} GiB when read and unpacked; if that is "
                "meant, raise --max-input"
            )
    return b"".join(pieces)


def one_line(error: Exception) -> str:
    """Return what a library says, short enough for a message."""
    return " ".join((str(error) or type(error).__name__).split())[:200].rstrip(".")


def empty(name: str) -> EmptyFile:
    return EmptyFile(f"{name}: the file is empty; give a file with answers in it")


def chunks(buffer: Buffer) -> Iterator[bytes]:
    view = memoryview(buffer)
    return (bytes(view[start : start + CHUNK]) for start in range(0, len(view), CHUNK))


def starts_with(buffer: Buffer, *prefixes: bytes) -> bool:
    return bytes(memoryview(buffer)[:16]).startswith(prefixes)


def count(buffer: Buffer, byte: bytes) -> int:
    return sum(chunk.count(byte) for chunk in chunks(buffer))


def line_at(buffer: Buffer, offset: int) -> int:
    """Return the line number, from 1, of a byte."""
    return 1 + count(buffer.slice(0, offset), b"\n")


def refuse_endless(source: Source) -> None:
    """Raise if a table has a line or a number of columns that no export has."""
    since = 0  # bytes since the last end of a line
    for at, chunk in enumerate(chunks(source.content)):
        last = max(chunk.rfind(b"\n"), chunk.rfind(b"\r"))
        since = since + len(chunk) if last < 0 else len(chunk) - last - 1
        if since > LONGEST_LINE:
            raise InputError(
                f"{source.name}, line {line_at(source.content, at * CHUNK)}: longer than "
                f"{LONGEST_LINE >> 20} MiB, so this is no table; export it anew, or say --format"
            )
    first = re.match(rb"[^\n]*", memoryview(source.content))
    n_columns = max(first[0].count(mark) for mark in (b",", b"\t", b";", b"|")) if first else 0
    if n_columns > MOST_COLUMNS:
        raise InputError(
            f"{source.name}, line 1: more than {MOST_COLUMNS:,} columns; give a row per answer"
        )


def refuse_nul(source: Source) -> None:
    """Raise with what the file is, where its first bytes say so, else with the line of a NUL."""
    for number, chunk in enumerate(chunks(source.content)):
        at = chunk.find(b"\0")
        if at < 0:
            continue
        start = bytes(memoryview(source.content)[:512])
        for pattern, what in _KNOWN.items():
            if re.match(pattern, start, re.DOTALL):
                raise InputError(f"{source.name}: {what}; unpack it, or write it as CSV or Parquet")
        raise InputError(
            f"{source.name}, line {line_at(source.content, number * CHUNK + at)}: a NUL byte, so "
            "this is no plain text; if it is UTF-16, say --encoding utf-16, else export it anew"
        )


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


def _to_utf8(name: str, content: Buffer, encoding: str | None) -> Buffer:
    """Return text as UTF-8 without a mark, given in any encoding of text: base64 is none."""
    if encoding is None and starts_with(content, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        encoding = "utf-16"
    try:
        known = codecs.lookup(encoding or "utf-8").name
        "".encode(known)
    except (LookupError, ValueError, UnicodeError):
        raise ConfigError(f"--encoding {encoding}: no such encoding of text; try utf-8") from None
    if known not in ("utf-8", "utf-8-sig"):
        data = bytes(memoryview(content))
        try:
            content = pa.py_buffer(data.decode(known).encode("utf-8"))
        except UnicodeError as error:  # half characters, or an encoding of short names only
            at = error.start if isinstance(error, UnicodeDecodeError) else 0
            line = 1 + data[:at].count(b"\n")
            raise InputError(
                f"{name}, line {line}: not {known} ({getattr(error, 'reason', error)}); "
                "set --encoding"
            ) from None
    return content.slice(3) if starts_with(content, codecs.BOM_UTF8) else content
