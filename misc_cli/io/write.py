"""The writing end of every command: files whole and together (publish.py), streams, stdout."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator, MutableMapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from misc_cli import signals
from misc_cli.errors import ConfigError, InputError
from misc_cli.io import locks
from misc_cli.io.places import check_writable as check_writable
from misc_cli.io.places import is_special as is_special
from misc_cli.io.places import open_special, real
from misc_cli.io.publish import Staged, new_file, new_folder, publish, settle

# What a table may be called; no suffix at all is CSV.
TABLES = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet")

Write = Callable[[BinaryIO], None]


@dataclass(frozen=True)
class Output:
    """A file to be: its path and the function that writes its content."""

    path: Path
    write: Write


def content(whole: bytes) -> Write:
    """The writer of content that is already there."""

    def write(stream: BinaryIO) -> None:
        stream.write(whole)

    return write


def write_all(
    outputs: Iterable[Output],
    *,
    stdout: Write | None = None,
    digests: MutableMapping[Path, str] | None = None,
    folder: Staged | None = None,
) -> None:
    """Write every output under a temporary name, then rename them all.

    Pipes and stdout come when all files are there and none is renamed: a full disk at either costs
    no earlier file. `digests` receives the SHA-256 of each file, by path, before the next is
    written. `folder` gets its name after all files.
    """
    chosen = list(outputs)
    files = [output for output in chosen if not is_special(output.path)]
    staged: list[Staged] = []
    places = [real(output.path) for output in files]
    if folder is not None:  # nobody else knows of what is in it, and it would take locks along
        places = [place for place in places if folder.waiting not in place.parents]
    with locks.holding(places):
        try:
            for output in files:
                with _said_where(output.path):
                    _stage(output, staged, digests)
            for output in chosen:
                if output not in files:
                    with _said_where(output.path), open_special(output.path) as stream:
                        output.write(stream)
            if stdout is not None:
                to_stdout(stdout)
            signals.check()
            publish(staged if folder is None else [*staged, folder])
        finally:
            for piece in staged:
                piece.forget()


@contextmanager
def folder_to_be(path: Path) -> Iterator[Staged]:
    """A folder under a temporary name, to be filled and given to `write_all`; else it goes."""
    final = real(path)
    with locks.holding([final]):
        with _said_where(path), signals.held():
            staged = new_folder(final)
        try:
            with _said_where(path):
                yield staged
        finally:
            staged.forget()


def to_stdout(write: Write) -> None:
    """Data on stdout, all of it; a reader that has left has all it wanted."""
    if sys.stdout is None:
        raise ConfigError("stdout is closed; name a file with -o")
    try:
        sys.stdout.flush()
        write(sys.stdout.buffer)
        sys.stdout.flush()
    except BrokenPipeError:
        abandon_stdout()
    except OSError as error:
        abandon_stdout()
        raise InputError(f"output: {error.strerror or error}") from None


def abandon_stdout() -> None:
    """Python flushes stdout once more as it ends: give what is left somewhere to go."""
    if sys.stdout is None:
        return
    stdout = sys.stdout.fileno()
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
    except OSError:  # no place is left (ulimit -n) but its own: closed, it takes nothing
        with suppress(OSError):
            os.close(stdout)
        return
    os.dup2(nowhere, stdout)
    os.close(nowhere)


def check_suffix(path: Path, known: Sequence[str] = TABLES) -> None:
    """The name of an output promises a format: refuse what would be broken."""
    name = path.name.lower()
    if name in ("", ".."):
        raise ConfigError(f"{str(path)!r}: this is a folder; name a file in it")
    if is_special(path):
        return
    stem = name.removesuffix(".gz") if ".csv.gz" in known else name
    if Path(stem).suffix and not name.endswith(tuple(known)):
        raise ConfigError(
            f"{path}: this command writes no such format; end the name in {' or '.join(known)}"
        )


def _stage(output: Output, staged: list[Staged], digests: MutableMapping[Path, str] | None) -> None:
    with signals.held():  # no file without somebody who knows of it
        stream, piece = new_file(real(output.path))
        staged.append(piece)
    with stream:
        output.write(stream)
        settle(stream, piece.final)
        if digests is not None:
            stream.seek(0)
            digests[output.path] = sha256_of(stream)


def sha256_of(stream: BinaryIO) -> str:
    """Of all that follows in a file."""
    digest = hashlib.sha256()
    while piece := stream.read(1 << 20):
        digest.update(piece)
    return digest.hexdigest()


@contextmanager
def _said_where(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from None
