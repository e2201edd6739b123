"""The bytes of one input: opened, hashed, unpacked, and brought to plain UTF-8."""

from __future__ import annotations

import codecs
import csv
import datetime as dt
import io
import mmap
import os
import re
import stat
import sys
import warnings
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from shlex import quote
from typing import Any

import pyarrow as pa

from misc_cli.data.resources import available_bytes
from misc_cli.errors import ConfigError, EmptyFile, InputError, MiscError, nearest_file
from misc_cli.readers.addresses import STDIN, scheme_of
from misc_cli.readers.options import GIBIBYTE, ReadOptions
from misc_cli.redaction import redact

Buffer = Any  # a pyarrow.Buffer; slicing it copies nothing

PIECE = 1 << 20
CHUNK = 1 << 17  # small enough that its copy stays in the cache
LONGEST_LINE = 64 << 20
MOST_CELLS = 50_000_000  # of a sheet

_SQLITE = b"SQLite format 3\0"
_PACKED = {rb"\x1f\x8b\x08": "gzip", rb"BZh[1-9]1AY&SY": "bz2", rb"\x28\xb5\x2f\xfd": "zstd"}


@dataclass(frozen=True)
class Source:
    """One input.

    raw      its bytes as stored, which are hashed; of a database the rows
    content  unpacked, and UTF-8 without a mark, unless binary
    quotes_span_lines  the user knows of cells with many lines
    is_rows  the rows of a database, as CSV with a header
    """

    name: str
    raw: Buffer
    content: Buffer
    quotes_span_lines: bool = False
    is_rows: bool = False


def open_source(path: str, options: ReadOptions | None = None) -> Source:
    """Read one input, `-` for standard input."""
    options = options or ReadOptions()
    scheme, name = scheme_of(path), "<stdin>" if path == STDIN else redact(path)
    limit = options.max_input or 2 * GIBIBYTE
    if scheme is None:
        raw = content = pa.py_buffer(_read_file(path, limit))
    elif scheme == "sqlite":
        raw = content = pa.py_buffer(_SQLITE)
    else:
        from misc_cli.readers.remote import fetch

        raw = content = pa.py_buffer(fetch(path, options))
    start = bytes(memoryview(raw)[:16])
    kind = next((kind for begin, kind in _PACKED.items() if re.match(begin, start)), None)
    if kind is not None:
        try:
            stream = pa.CompressedInputStream(pa.BufferReader(raw), kind)
            content = pa.py_buffer(limited(name, stream, limit))
        except (pa.ArrowException, OSError) as error:
            raise InputError(
                f"{name}: damaged {kind} file ({error}); fetch or pack it again"
            ) from None
        start = bytes(memoryview(content)[:16])
    if start.startswith((b"PK\x03\x04", b"PK\x05\x06")):  # the latter is empty
        if re.search(rb"xl/workbook\.xml", memoryview(content)):
            rows = pa.py_buffer(sheet_as_csv(name, content, options))
            return Source(name, raw, rows, quotes_span_lines=True)
        folder = os.path.splitext(os.path.basename(name))[0] or "export"
        raise InputError(
            f"{name}: a zip archive; unpack it, "
            f"`unzip {quote(name)} -d {quote(folder)}`, and name the folder in its place"
        )
    if start == _SQLITE:
        if path == STDIN or scheme not in (None, "sqlite"):
            raise InputError(f"{name}: a database; save it to a file and name that")
        from misc_cli.readers.remote import run_query

        rows = pa.py_buffer(run_query(path, options))
        return Source(name, rows, rows, quotes_span_lines=True, is_rows=True)
    if not start.startswith((b"\x93NUMPY", b"PAR1")):
        marks = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
        if options.encoding is not None or start.startswith(marks):
            content = _to_utf8(name, content, options.encoding)
        if not re.search(rb"\S", memoryview(content)):
            raise empty(name)
    return Source(name, raw, content, bool(options.quotes_span_lines))


def _read_file(path: str, limit: int) -> bytes | mmap.mmap:
    """Return the bytes of a file; of a pipe or a device at most `limit` of them."""
    if path == STDIN and sys.stdin is None:
        raise InputError("<stdin>: standard input is closed; name a file, or pipe answers in")
    try:
        if path == STDIN:
            return limited("<stdin>", sys.stdin.buffer, limit)
        with open(path, "rb", buffering=0) as file:
            before = os.fstat(file.fileno())
            # a size of 0 says nothing, as in /proc
            if not stat.S_ISREG(before.st_mode) or not before.st_size:
                return limited(path, file, limit)
            if before.st_size > available_bytes() // 2:
                return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            data = file.readall()
            after = os.fstat(file.fileno())
            if len(data) != before.st_size or after.st_mtime_ns != before.st_mtime_ns:
                raise changed(path)
            return data
    except FileNotFoundError:
        near = nearest_file(path) or "; check the path"
        raise InputError(f"{path}: no such file{near}") from None
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise InputError(
            f"{path}: cannot be read ({reason}); name a file that may be read"
        ) from None


def changed(name: str) -> InputError:
    return InputError(f"{name}: the file changed while it was read; wait until it is written")


def limited(name: str, stream: Any, limit: int, flag: str = "--max-input") -> bytes:
    """Return all bytes of a stream, at most so many as the flag allows."""
    pieces, total = [], 0
    read = getattr(stream, "read1", stream.read)  # of a terminal the first Ctrl-D is the end
    while piece := read(PIECE):
        pieces.append(piece)
        total += len(piece)
        if total > limit:
            raise InputError(
                f"{name}: more than {limit / GIBIBYTE:.3g} GiB when read and unpacked; if that is "
                f"meant, raise {flag}"
            )
    return b"".join(pieces)


def one_line(error: object) -> str:
    """Return what a library says, short enough for a message."""
    return " ".join((str(error) or type(error).__name__).split())[:200].rstrip(".")


def empty(name: str) -> EmptyFile:
    return EmptyFile(f"{name}: the file is empty; give a file with answers in it")


def chunks(buffer: Buffer) -> Iterator[bytes]:
    view = memoryview(buffer)
    return (bytes(view[start : start + CHUNK]) for start in range(0, len(view), CHUNK))


def line_at(buffer: Buffer, offset: int) -> int:
    """Return the line number, from 1, of a byte."""
    return 1 + sum(chunk.count(b"\n") for chunk in chunks(buffer.slice(0, offset)))


def refuse_odd_bytes(source: Source, *, is_table: bool) -> None:
    """Raise if this is no text, or a table with longer lines than any export has."""
    name, content, since = source.name, source.content, 0  # bytes since the last end of a line
    for at, chunk in enumerate(chunks(content)):
        if (nul := chunk.find(b"\0")) >= 0:
            raise InputError(
                f"{name}, line {line_at(content, at * CHUNK + nul)}: a NUL byte, so this is no "
                "plain text; if it is UTF-16, say --encoding utf-16, else unpack it, or write it "
                "as CSV or Parquet"
            )
        last = max(chunk.rfind(b"\n"), chunk.rfind(b"\r"))
        since = since + len(chunk) if last < 0 else len(chunk) - last - 1
        if is_table and since > LONGEST_LINE:
            raise InputError(
                f"{name}, line {line_at(content, at * CHUNK)}: longer than {LONGEST_LINE >> 20} "
                "MiB, so this is no table; export it anew, or say --format"
            )


def refuse_undecodable(source: Source) -> None:
    """Raise with the line of the first byte that is no UTF-8, if there is one."""
    try:
        bytes(memoryview(source.content)).decode("utf-8")
    except UnicodeDecodeError as error:
        try:  # latin-1 has no characters where Windows has some
            is_windows = re.search(rb"[\x80-\x9f]", error.object) and error.object.decode("cp1252")
        except UnicodeDecodeError:
            is_windows = None
        raise InputError(
            f"{source.name}, line {line_at(source.content, error.start)}: not UTF-8 (byte "
            f"0x{error.object[error.start]:02x}); give its encoding, for example --encoding "
            f"{'cp1252' if is_windows else 'latin-1'}"
        ) from None


def _to_utf8(name: str, content: Buffer, encoding: str | None) -> Buffer:
    """Return text as UTF-8 without a mark, given in any encoding of text: base64 is none."""
    data = bytes(memoryview(content))
    if encoding is None:
        encoding = "utf-8" if data.startswith(codecs.BOM_UTF8) else "utf-16"
    try:
        known = codecs.lookup(encoding).name
        "".encode(known)
    except (LookupError, ValueError, UnicodeError):
        raise ConfigError(f"--encoding {encoding}: no such encoding of text; try utf-8") from None
    if known not in ("utf-8", "utf-8-sig"):
        try:
            content = pa.py_buffer(data.decode(known).encode("utf-8"))
        except UnicodeError as error:  # half characters, or an encoding of short names only
            raise InputError(f"{name}: not {known} ({one_line(error)}); set --encoding") from None
    return content.slice(3) if bytes(memoryview(content)[:3]) == codecs.BOM_UTF8 else content


def sheet_as_csv(name: str, content: Buffer, options: ReadOptions) -> bytes:
    """Return the only sheet with anything in it, or the one that `options.sheet` names."""
    import openpyxl

    file = io.BytesIO(memoryview(content))
    try:
        size = sum(member.file_size for member in zipfile.ZipFile(file).infolist())
        if size > (options.max_input or GIBIBYTE):
            raise InputError(f"{name}: too large when unpacked; raise --max-input, or save as CSV")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # on styles and extensions, which do not matter here
            book = openpyxl.load_workbook(file, read_only=True, data_only=True)
            sheets = {title: text for title in book.sheetnames if (text := _csv(name, book[title]))}
    except MiscError:
        raise
    except Exception as error:  # openpyxl lets those of zip, XML and its own checks through
        reason = one_line(error)
        raise InputError(f"{name}: not a whole workbook ({reason}); save it as CSV") from None
    if not sheets:
        raise InputError(f"{name}: the workbook is empty; give a file with answers in it")
    listed = ", ".join(sheets)
    if options.sheet is None and len(sheets) > 1:
        raise InputError(f"{name}: {len(sheets)} sheets ({listed}); pick one with --sheet")
    if options.sheet is not None and options.sheet not in sheets:
        raise ConfigError(f"--sheet {options.sheet}: {name} has {listed}")
    return sheets[options.sheet or listed]


def _csv(name: str, sheet: Any) -> bytes:
    """Return the sheet's rows, without the empty rows and columns around them."""
    rows, n_cells = [], 0
    for values in sheet.iter_rows(values_only=True):
        n_cells += len(values)
        if n_cells > MOST_CELLS:  # one cell in the last row and column makes all others
            raise InputError(
                f"{name}: more than {MOST_CELLS:,} cells, most of them empty? Delete what lies "
                "beside the table, or save it as CSV"
            )
        row = [] if values.count(None) == len(values) else list(map(_text, values))
        while row and not row[-1]:
            row.pop()
        rows += [row] if row else []
    width = max(map(len, rows), default=0)
    stream = io.StringIO(newline="")
    csv.writer(stream).writerows(row + [""] * (width - len(row)) for row in rows)
    return stream.getvalue().encode("utf-8", "replace")


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, float) and value.is_integer():  # Excel knows no integers
        return str(int(value))
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    return "" if value is None else str(value).strip()
