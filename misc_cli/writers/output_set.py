"""Write the files of a run as one set, and verify it: temporary names first, then all renamed.

Signals wait while the renames last: a set is the one before or the one after. Only kill -9 in that
moment can part it, which `misc verify` finds, and the next run on the set removes what it left.
"""

from __future__ import annotations

import errno
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager, suppress
from hashlib import file_digest
from pathlib import Path
from typing import Any, BinaryIO

from misc_cli import cleanup
from misc_cli.engines.protocol import Columns
from misc_cli.errors import ConfigError, InputError
from misc_cli.run.run_record import json_bytes
from misc_cli.writers.output_paths import (
    hold,
    locked,
    open_special,
    os_errors_name,
    refuse_input,
    special,
    temporary_names,
)
from misc_cli.writers.tables import write_pieces

Write = Callable[[BinaryIO], object]
# Metrics are written anew by a run that has nothing to do: they are of no set.
METRICS = "metrics"


def write_all(
    outputs: Mapping[Path, Write | bytes],
    *,
    stdout: Write | None = None,
    digests: MutableMapping[Path, str] | None = None,
    folder: Staged | None = None,
) -> None:
    """Write every output under a temporary name, then rename them all.

    An output is its content, or the function that writes it. Pipes and stdout come when all files
    are there and none is renamed: a full disk at either costs no earlier file. `digests` receives
    the SHA-256 of each file, by path, before the next is written. `folder` gets its name after all
    files.
    """
    staged: list[Staged] = []
    waiting = None if folder is None else folder.waiting
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    streams = {path: number for path in outputs if (number := special(path)) is not None}
    files = [path for path in outputs if path not in streams]
    let_go = hold([path for path in files if waiting not in path.parents])
    try:
        for path in [*files, *streams]:
            with os_errors_name(path):
                if path not in streams:
                    staged.append(Staged(path))
                    stream: BinaryIO = os.fdopen(os.open(staged[-1].waiting, flags, 0o666), "w+b")
                else:
                    stream = open_special(path, streams[path])
                with stream:
                    output = outputs[path]
                    if isinstance(output, bytes):
                        stream.write(output)
                    else:
                        output(stream)
                    digest = "" if path in streams else flush_and_sync(stream, staged[-1].final)
            if digests is not None and digest:
                digests[path] = digest
        if stdout is not None:
            to_stdout(stdout)
        cleanup.check()
        publish(staged if folder is None else [*staged, folder])
    finally:
        for piece in staged:
            piece.forget()
        let_go()


def flush_and_sync(stream: BinaryIO, final: Path) -> str:
    """Put a file on the disk, with the permissions of the one it replaces; return its SHA-256."""
    stream.flush()
    with suppress(OSError):  # there is none, or the file system has no permissions
        os.fchmod(stream.fileno(), final.stat().st_mode & 0o777)
    os.fsync(stream.fileno())
    stream.seek(0)
    return file_digest(stream, "sha256").hexdigest()  # type: ignore[arg-type]


class Staged:
    """A file or folder under its temporary name, and the name that it gets, behind links."""

    def __init__(self, path: Path) -> None:
        self.final = Path(os.path.realpath(path))
        self.waiting, self.earlier, _ = temporary_names(self.final)
        self.replaced = False
        self.forget = cleanup.at_end(self.sweep)

    def sweep(self) -> None:
        """Remove the temporary names."""
        cleanup.remove(self.waiting)
        cleanup.remove(self.earlier)

    def undo(self) -> None:
        """Put back what was there."""
        if self.final.is_dir():
            os.rename(self.final, self.waiting)
        if self.earlier.exists():
            os.replace(self.earlier, self.final)
        elif self.final.exists():
            os.unlink(self.final)


def publish(staged: Sequence[Staged]) -> None:
    """Rename all or none; signals wait meanwhile.

    What is there stays under a second name until the whole set is there. If a rename fails, the
    earlier set is put back, the last file first: run.json never vouches for files of another. One
    that cannot be put back does not keep the others from it, and its earlier content stays.
    """
    with cleanup.deferred():
        try:
            for piece in staged:
                with os_errors_name(piece.final):
                    refuse_input(piece.final)
                    is_folder, is_there = piece.waiting.is_dir(), piece.final.exists()
                    if not is_folder and piece.final.is_dir():  # made meanwhile by somebody else
                        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
                    if is_folder and is_there:
                        piece.earlier.mkdir()  # for undo: it was there, and empty
                    elif is_there:
                        try:
                            os.link(piece.final, piece.earlier)
                        except OSError:  # no hard links here
                            os.rename(piece.final, piece.earlier)
                            piece.replaced = True
                    os.replace(piece.waiting, piece.final)
                    piece.replaced = True
            for folder in dict.fromkeys(piece.final.parent for piece in staged):
                with suppress(OSError):  # renames reach the disk where the system offers it
                    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                    try:
                        os.fsync(handle)
                    finally:
                        os.close(handle)
        except (OSError, ConfigError, InputError):
            lost = []
            for piece in reversed([piece for piece in staged if piece.replaced]):
                try:
                    piece.undo()
                except OSError as error:
                    lost.append(
                        f"{piece.final}: cannot be put back ({error.strerror}); its earlier"
                    )
                    lost[-1] += f" content is {piece.earlier}"
                    piece.earlier = piece.waiting  # not to be removed
            if lost:
                raise InputError("; ".join(lost)) from None
            raise
        finally:
            for piece in staged:
                piece.forget()


@contextmanager
def new_folder(path: Path) -> Iterator[Staged]:
    """Make a folder under a temporary name, to be filled and given to `write_all`."""
    with locked([path]), os_errors_name(path):
        staged = Staged(path)
        try:
            staged.waiting.mkdir()
            yield staged
        finally:
            staged.forget()


def write_part(chunks: Iterable[Columns], path: Path) -> str:
    """Write chunks of a table to a file, as its name says; return its SHA-256."""
    with path.open("w+b") as stream:
        write_pieces(iter(chunks), stream, path.name)
        return flush_and_sync(stream, path)


def to_stdout(write: Write) -> None:
    """Write all of something to stdout; a reader that has left has all it wanted."""
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
    """Point stdout at nothing: Python flushes it once more as it ends."""
    if sys.stdout is not None:
        stdout = sys.stdout.fileno()
        with suppress(OSError):
            os.close(stdout)
            os.open(os.devnull, os.O_WRONLY)  # the first free descriptor, which is this one


def beside(labels: Path) -> dict[str, Path]:
    """Return the paths of what appears beside a file of labels: diagnostics and run.json."""
    stem = labels.name.removesuffix(".gz")
    stem = Path(stem).stem or stem
    return {
        "diagnostics": labels.with_name(f"{stem}.diagnostics.jsonl"),
        "run": labels.with_name(f"{stem}.run.json"),
    }


def with_question(path: Path, question: str) -> Path:
    """Return the path of one question's file: labels.csv → labels.mood.csv.

    A character that a file's name cannot hold becomes an underscore.
    """
    escaped = re.sub(r"[^\w.\-]+", "_", question).strip("._")[:100] or "question"
    stem, dot, suffix = path.name.partition(".")
    return path.with_name(f"{stem}.{escaped}{dot}{suffix}")


def write_set(
    outputs: Mapping[str, tuple[Path, Write]],
    run_file: Path | None,
    record: Callable[[], Mapping[str, Any]],
    *,
    stdout: Write | None = None,
    written: Mapping[Path, str] | None = None,
    folder: Staged | None = None,
    also: Mapping[Path, bytes] | None = None,
) -> None:
    """Publish all files at once; run.json is written last and has the SHA-256 of each.

    outputs   files by name, "labels" or "labels.mood" where there are several questions
    record    makes the content of `run_file`, but for the list of files
    stdout    writes the labels, if they go there
    written   SHA-256 of labels that are there already, in parts; they wait in `folder`
    also      files that appear with the set but are not of it
    """
    digests: dict[Path, str] = dict(written or {})
    names = {
        **{path: path.name for path in digests},
        **{p: name for name, (p, _) in outputs.items()},
    }
    files: dict[Path, Write | bytes] = dict(outputs.values())
    if run_file is not None:
        base = os.path.realpath(run_file.parent)  # paths from there: a set can be moved

        def write_run(stream: BinaryIO) -> None:
            content = record()
            listed = [
                {
                    "name": names[path],
                    "file": os.path.relpath(os.path.realpath(path), base),
                    "sha256": digest,
                }
                for path, digest in digests.items()
                if names[path].partition(".")[0] != METRICS
            ]
            stream.write(json_bytes({**content, "files": listed}, indent=2))

        files[run_file] = write_run
    write_all({**files, **(also or {})}, stdout=stdout, digests=digests, folder=folder)


WHOLE, CHANGED, MISSING, UNKNOWN = "whole", "changed", "missing", "not a run.json"


def verify(run_file: Path) -> list[tuple[str, Path, str]]:
    """Check run.json and each file of the set; return name, file and state of each, run.json first.

    A folder of labels is one that has its run.json in it.
    """
    if (run_file / "run.json").is_file():
        run_file = run_file / "run.json"
    try:
        listed = json.loads(run_file.read_bytes())["files"]
        files = [(str(one["name"]), run_file.parent / str(one["file"]), one) for one in listed]
        found = [(name, file, _state(file, one["sha256"])) for name, file, one in files]
    except FileNotFoundError:
        return [("run", run_file, MISSING)]
    except OSError as error:
        raise InputError(f"{run_file}: cannot be read ({error.strerror})") from None
    except (ValueError, TypeError, KeyError, RecursionError):
        return [("run", run_file, UNKNOWN)]
    return [("run", run_file, WHOLE), *found]


def _state(file: Path, digest: object) -> str:
    """Return the state of a file that should have this SHA-256."""
    try:
        if file.exists() and not file.is_file():  # a pipe would never end
            return CHANGED
        with file.open("rb") as stream:
            return WHOLE if file_digest(stream, "sha256").hexdigest() == digest else CHANGED
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return MISSING
    except OSError as error:
        raise InputError(f"{file}: cannot be read ({error.strerror})") from None
