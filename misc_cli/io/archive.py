"""Archives: the one file in a zip is read as if it lay beside it; several are the user's to unpack.

Qualtrics and Google Forms hand out a zip with one CSV in it.
"""

from __future__ import annotations

import io
import os
import zipfile
import zlib
from shlex import quote
from typing import Any

import pyarrow as pa

from misc_cli.errors import InputError
from misc_cli.io.excel import is_workbook
from misc_cli.io.local import limited

_TAR = b"ustar"  # at byte 257
_TAR_AT = 257


def only_member(name: str, content: Any, limit: int) -> tuple[str, Any]:
    """The file in a zip, its name and its bytes; a workbook, which is a zip, stays as it is."""
    data = bytes(memoryview(content))
    if is_workbook(data):
        return "", content
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = [one for one in archive.infolist() if _is_file(one)]
            if any(one.filename == "mimetype" for one in members):
                raise InputError(
                    f"{name}: a spreadsheet or document that is no .xlsx; save it as CSV"
                )
            if len(members) != 1:
                raise _several(name, [one.filename for one in members])
            with archive.open(members[0]) as stream:
                return members[0].filename, pa.py_buffer(limited(name, stream, limit))
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError) as error:
        raise InputError(f"{name}: damaged zip file ({error}); fetch or pack it again") from None
    except (RuntimeError, NotImplementedError) as error:  # a password, or a way of packing
        raise InputError(f"{name}: cannot be unpacked here ({error}); unpack it first") from None


def _is_file(member: zipfile.ZipInfo) -> bool:
    parts = member.filename.split("/")
    hidden = any(part.startswith(".") for part in parts) or "__MACOSX" in parts
    return not member.is_dir() and not hidden


def _several(name: str, members: list[str]) -> InputError:
    if not members:
        return InputError(f"{name}: a zip archive without files; fetch or pack it again")
    shown = ", ".join(members[:3]) + (", …" if len(members) > 3 else "")
    folder = os.path.splitext(os.path.basename(name))[0] or "export"
    return InputError(
        f"{name}: a zip archive of {len(members)} files ({shown}); unpack it, "
        f"`unzip {quote(name)} -d {quote(folder)}`, and name the folder in its place, with "
        "--worker-from filename if each file is one worker's"
    )


def refuse_tar(name: str, content: Any) -> None:
    """Raise if the bytes are a tar archive."""
    if bytes(memoryview(content)[_TAR_AT : _TAR_AT + len(_TAR)]) == _TAR:
        raise InputError(
            f"{name}: a tar archive; unpack it, `tar xf {quote(name)}`, and name the files in it"
        )
