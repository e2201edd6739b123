"""Gold that files of answers carry in a column of their own (--gold auto), read piece by piece."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from misc_cli.core.types import KnownLabels
from misc_cli.errors import InputError
from misc_cli.io.known import Known
from misc_cli.io.pieces import Piece
from misc_cli.io.readers.base import known_of
from misc_cli.io.results import FileInfo, joined
from misc_cli.io.stream import fingerprint, read_columns


def carried_gold(pieces: Sequence[Piece]) -> Known:
    """Each item once, where some row has the right answer beside it: one more pass over the files.

    What is held is as long as the gold, never as the answers.
    """
    found: list[Any] = []
    for piece in pieces:
        if piece.gold is not None:
            for batch in read_columns(piece, {"item": piece.positions[1], "label": piece.gold}):
                known = known_of(batch["item"], batch["label"])
                found += [] if known is None else [known]
    if not found:
        raise InputError(f"{pieces[0].path}: no gold in it; give --gold a file")
    whole = known_of(*(joined([one[at] for one in found]) for at in (0, 1)))
    assert whole is not None
    names = list(dict.fromkeys(piece.path for piece in pieces))
    first = fingerprint(names[0])
    labels = KnownLabels(*whole, f"{', '.join(names)}, the gold it carries")
    return Known(labels, FileInfo(names[0], first["sha256"] or "", len(whole[0]), "", None, None))
