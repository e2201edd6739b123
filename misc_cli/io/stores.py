"""A file here, or at an address that arrow knows (s3://, gs://, hdfs://), opened by its path."""

from __future__ import annotations

import os
from typing import Any

import pyarrow as pa
import pyarrow.fs as arrow_fs

from misc_cli.errors import InputError


def open_store(path: str) -> tuple[Any, str]:
    """Arrow's file system of a path, and the path within it."""
    if "://" not in path:
        return arrow_fs.LocalFileSystem(), os.path.abspath(path)
    try:
        filesystem, inner = arrow_fs.FileSystem.from_uri(path)
    except (pa.ArrowException, ValueError, OSError) as error:
        raise InputError(f"{path}: {one_line(error)}; check the address") from None
    return filesystem, inner


def unpacked(filesystem: Any, inner: str) -> Any:
    """A file as a stream of what was packed, if it was."""
    try:
        return filesystem.open_input_stream(inner, compression="detect", buffer_size=1 << 20)
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{inner}: cannot be read ({one_line(error)}); check the file") from None


def one_line(error: Exception) -> str:
    """What arrow says, short enough for a message."""
    return " ".join((str(error) or type(error).__name__).split())[:200].rstrip(".")
