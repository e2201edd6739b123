"""Files that appear together, whole, or not at all.

Each file is written beside its final place under a temporary name and synced; when all are, they
are renamed. Until the first rename whatever stood there before is untouched.
"""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from misc_cli.errors import ConfigError, InputError

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


def write_all(outputs: Iterable[Output]) -> None:
    """Write every output under a temporary name, then rename them all."""
    staged: list[tuple[Path, Path]] = []
    place: Path | None = None
    try:
        for output in outputs:
            place = output.path
            if is_special(output.path):
                with output.path.open("wb") as stream:
                    output.write(stream)
            else:
                staged.append(_stage(output))
        with _undisturbed():
            while staged:
                temporary, place = staged[0]
                temporary.replace(place)
                staged.pop(0)
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        raise InputError(f"cannot write {place}: {error.strerror or error}") from None
    finally:
        for temporary, _ in staged:
            temporary.unlink(missing_ok=True)


def check_suffix(path: Path, known: Sequence[str] = TABLES) -> None:
    """The name of an output promises a format: refuse what would be broken."""
    name = path.name.lower()
    stem = name.removesuffix(".gz") if ".csv.gz" in known else name
    if Path(stem).suffix and not name.endswith(tuple(known)):
        raise ConfigError(
            f"{path}: this command writes no such format; end the name in {' or '.join(known)}"
        )


def check_writable(paths: Iterable[Path], inputs: Iterable[str]) -> None:
    """Find out before the work whether the outputs can be written and spare the inputs."""
    read = [Path(name) for name in inputs if name != "-" and os.path.exists(name)]
    seen: set[Path] = set()
    for path in paths:
        if path.is_dir():
            raise ConfigError(f"{path}: this is a folder; name a file in it")
        if is_special(path):
            continue
        real = path.resolve()
        if real in seen:
            raise ConfigError(f"{path}: two outputs would go to this file; name another")
        seen.add(real)
        if path.exists() and any(path.samefile(source) for source in read):
            raise ConfigError(f"{path}: this is an input; give the output another name")
        try:
            with tempfile.TemporaryFile(dir=real.parent):
                pass
        except OSError as error:
            what = "no such folder" if not real.parent.exists() else error.strerror
            raise InputError(f"{path}: cannot be written ({what}); choose another place") from None


def is_special(path: Path) -> bool:
    """A device or a pipe: written straight through, never renamed over."""
    return path.exists() and not path.is_file() and not path.is_dir()


def _stage(output: Output) -> tuple[Path, Path]:
    """The content under a temporary name, in the same folder so that a rename is atomic."""
    final = output.path.resolve()  # a link keeps pointing at the file
    handle, name = tempfile.mkstemp(prefix=f".{final.name}.", suffix=".part", dir=final.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            output.write(stream)
            stream.flush()
            os.fchmod(stream.fileno(), _mode(final))
            os.fsync(stream.fileno())
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return temporary, final


def _mode(path: Path) -> int:
    """The permissions of the file that is replaced, else those of any new file."""
    if path.exists():
        return path.stat().st_mode & 0o777
    umask = os.umask(0)
    os.umask(umask)
    return 0o666 & ~umask


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Ctrl-C waits for the renames: some new files and some old ones would match nothing."""
    waiting = {signal.SIGINT, signal.SIGTERM}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, waiting)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
