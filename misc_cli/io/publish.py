"""Files that appear together, whole, or not at all.

    stage     each content under a temporary name beside its final place, synced
    keep      a second name for each file that is there already
    rename    all, one after the other; signals wait
    undo      if one fails or a signal came: every earlier file gets its name back
    forget    the second names, before signals may end the run again

Only kill -9 or a power cut between two renames leaves some new files and some old ones. The last
file of a set tells: run.json has the SHA-256 of the others.
"""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from misc_cli import leavings, signals
from misc_cli.errors import InputError
from misc_cli.io.locks import beside, remove


@dataclass
class Staged:
    """A file on its way: where it waits, where it goes, where what it replaces is kept."""

    waiting: Path
    final: Path
    earlier: Path | None = None
    replaced: bool = False

    def __post_init__(self) -> None:
        self._entry = leavings.enter(self._remove)

    def keep_earlier(self) -> None:
        """A second name, so that there is no moment without the first; not everywhere possible."""
        if self.final.exists():
            name = _temporary_name(self.final)
            with suppress(OSError):
                os.link(self.final, name)
                self.earlier = name

    def rename(self) -> None:
        if self.final.is_dir():  # made meanwhile: it is somebody's, not ours to move
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if self.earlier is None and self.final.exists():
            aside = _temporary_name(self.final)
            os.rename(self.final, aside)
            self.earlier = aside
        try:
            os.replace(self.waiting, self.final)
        except OSError:
            if self.earlier is not None and not self.final.exists():
                os.rename(self.earlier, self.final)
            raise
        self.replaced = True

    def undo(self) -> None:
        if self.earlier is not None:
            os.replace(self.earlier, self.final)
        else:
            os.unlink(self.final)
        self.replaced = False

    def forget(self) -> None:
        """Remove the second names; if a signal comes first, the end of the process does it."""
        leavings.clear(self._entry)

    def _remove(self) -> None:
        for path in (self.waiting, self.earlier):
            if path is not None:
                remove(path)


class StagedFolder(Staged):
    """A folder on its way; where it goes there is nothing, or an empty one."""

    emptied = False

    def keep_earlier(self) -> None:
        self.emptied = self.final.exists()

    def rename(self) -> None:
        os.rename(self.waiting, self.final)
        self.replaced = True

    def undo(self) -> None:
        os.rename(self.final, self.waiting)
        if self.emptied:
            os.mkdir(self.final)
        self.replaced = False


def new_folder(final: Path) -> StagedFolder:
    """A folder that waits beside its final place."""
    prefix = beside(final, "").name
    folder = Path(tempfile.mkdtemp(prefix=prefix, suffix=".part", dir=final.parent))
    staged = StagedFolder(folder, final)
    with suppress(OSError):  # not every file system has permissions
        folder.chmod(0o777 & ~_umask())
    return staged


def new_file(final: Path) -> tuple[BinaryIO, Staged]:
    """An open file that waits beside its final place, in the same folder for an atomic rename."""
    prefix = beside(final, "").name
    handle, name = tempfile.mkstemp(prefix=prefix, suffix=".part", dir=final.parent)
    staged = Staged(Path(name), final)
    try:
        return os.fdopen(handle, "w+b"), staged
    except OSError:
        os.close(handle)
        staged.forget()
        raise


def settle(stream: BinaryIO, final: Path) -> None:
    """The whole content on the disk, with the permissions that the final file should have."""
    stream.flush()
    with suppress(OSError):  # not every file system has permissions
        os.fchmod(stream.fileno(), _mode(final))
    os.fsync(stream.fileno())


def publish(staged: Sequence[Staged]) -> None:
    """Rename all or none."""
    if not staged:
        return
    with signals.held() as noted:
        try:
            _rename(staged, noted)
        finally:
            for piece in staged:
                piece.forget()


def _rename(staged: Sequence[Staged], noted: Sequence[int]) -> None:
    """All, or none if one cannot be renamed or a signal was noted."""
    at = staged[0].final
    try:
        for piece in staged:
            piece.keep_earlier()
        for piece in staged:
            at = piece.final
            if noted:
                break
            piece.rename()
        if not noted:
            _sync_folders(staged)
    except OSError as error:
        _undo(staged)
        raise InputError(f"cannot write {at}: {error.strerror or error}") from None
    if noted:  # it came in time: what stood there before stands there again
        _undo(staged)


def _undo(staged: Sequence[Staged]) -> None:
    """The last first, so that the manifest never vouches for files that it does not know.

    One that cannot be put back does not keep the others from it, and its earlier content stays.
    """
    complaint = None
    for piece in reversed(staged):
        if piece.replaced:
            try:
                piece.undo()
            except OSError as error:
                complaint = (
                    f"{piece.final}: cannot be put back ({error.strerror}); its earlier content is "
                    f"{piece.earlier}"
                )
                piece.earlier = None  # not to be forgotten
    if complaint is not None:
        raise InputError(complaint)


def _sync_folders(staged: Sequence[Staged]) -> None:
    """Renames are on the disk when their folder is; some systems do not offer it."""
    for folder in dict.fromkeys(piece.final.parent for piece in staged):
        with suppress(OSError):
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)


def _temporary_name(final: Path) -> Path:
    """A name of our own that does not exist: only the holder of the lock makes such names."""
    token = os.urandom(4).hex()
    return beside(final, f"{token}.part")


def _mode(path: Path) -> int:
    """The permissions of the file that is replaced, else those of any new file."""
    if path.exists():
        return path.stat().st_mode & 0o777
    return 0o666 & ~_umask()


def _umask() -> int:
    umask = os.umask(0)
    os.umask(umask)
    return umask
