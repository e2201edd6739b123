"""Known labels (--truth, --gold) from files, also of several questions.

item,mood,spam          a column for each question, called as it is
item,question,label     a row for each item and question
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from misc_cli.data.types import KnownLabels
from misc_cli.errors import InputError
from misc_cli.readers.answer_table import FileInfo, joined
from misc_cli.readers.columns import listing, read_columns, rivals, truth_synonyms
from misc_cli.readers.document import Document, compact, open_document
from misc_cli.readers.options import ReadOptions, delimiter_of
from misc_cli.readers.reading import known_of
from misc_cli.readers.source import open_source
from misc_cli.readers.vocabulary import find_roles, normalise

if TYPE_CHECKING:
    from misc_cli.readers.chunks import Piece


def carried_gold(pieces: Sequence[Piece]) -> Known:
    """Return each item once, where some row has the right answer beside it.

    One more pass over the files; what is held is as long as the gold, never as the answers.
    """
    from misc_cli.readers.chunks import fingerprint, piece_columns  # loads Arrow's file systems

    found: list[Any] = []
    for piece in pieces:
        if piece.gold is not None:
            item = piece.positions[1]
            for batch in piece_columns(piece, [item, piece.gold]):
                known = known_of(batch[item], batch[piece.gold])
                found += [] if known is None else [known]
    if not found:
        raise InputError(f"{pieces[0].path}: no gold in it; give --gold a file")
    whole = known_of(*(joined([one[at] for one in found]) for at in (0, 1)))
    assert whole is not None
    names = list(dict.fromkeys(piece.path for piece in pieces))
    first = fingerprint(names[0])
    labels = KnownLabels(*whole, f"{', '.join(names)}, the gold it carries")
    return Known(labels, FileInfo(names[0], first["sha256"] or "", len(whole[0]), "", None, None))


FIRST_BYTES = 1 << 16


@dataclass(frozen=True)
class Known:
    """Known labels, dictionary-encoded, and the file they are from."""

    labels: KnownLabels
    file: FileInfo


def read_known(source: str, answers: ReadOptions | None = None) -> Known:
    """Return known labels (--truth, --gold), read on their own terms.

    Of the options for the answers beside them the encoding counts here too, and the delimiter and
    the names of columns if the first row has them.
    """
    answers = answers or ReadOptions()
    delimiter = answers.delimiter and delimiter_of(answers.delimiter)
    opened = open_source(source, answers)
    start = bytes(memoryview(opened.content)[:FIRST_BYTES]).partition(b"\n")[0]
    own = delimiter if delimiter and delimiter.encode() in start else None
    synonyms = truth_synonyms(answers.item_col, answers.label_col)
    with ThreadPoolExecutor(1) as pool:
        digest = pool.submit(opened.sha256)
        parsed = read_columns(opened, dict.fromkeys(synonyms), synonyms, own)
        if not parsed.n_rows:
            raise InputError(f"{opened.name}: a header and no rows; give a file with labels in it")
        layout = (parsed.format, parsed.delimiter, parsed.header, parsed.chosen)
        info = FileInfo(opened.name, digest.result(), parsed.n_rows, *layout)
    labels = KnownLabels(parsed.columns["item"], parsed.columns["label"], opened.name)
    return Known(labels, info)


_QUESTION = {"question", "questionname", "questionid", "attribute", "aspect", "variable"}


def read_known_each(
    path: str, questions: Sequence[str], answers: ReadOptions | None = None
) -> dict[str, Known]:
    """Return the known labels of each question that the file knows; an error if it knows none."""
    answers = answers or ReadOptions()
    source = open_source(path, answers)
    document = open_document(source, header=True)
    table, names = document.table, document.names
    columns = {normalise(name): name for name in names}
    own = {q: columns[normalise(q)] for q in questions if normalise(q) in columns}
    asked = [name for name in names if normalise(name) in _QUESTION]
    roles = {role: _only(document, role, [*own.values(), *asked]) for role in ("item", "label")}
    words: list[str] | None = None
    if not own and len(asked) == 1 and roles["label"]:  # a row for each item and question
        own = dict.fromkeys(questions, roles["label"])
        words = [normalise(word) for word in document.columns(asked)[0].to_pylist()]
    item = roles["item"]
    if not own or not item:
        raise InputError(
            f"{document.name}: no item column, or no column for any of {listing(questions)} among "
            f"{listing(names, 30)}; give one for each question (item,{questions[0]},…), or "
            "item,question,label"
        )
    digest, found = source.sha256(), {}
    for question, name in own.items():
        values = document.columns([item, name])
        if words is not None:
            rows = pa.array(np.flatnonzero([word == normalise(question) for word in words]))
            values = [compact(column.take(rows)) for column in values]
        if len(values[0]):
            layout = (document.format, table.delimiter, table.header, {"item": item, "label": name})
            info = FileInfo(document.name, digest, len(values[0]), *layout, question=question)
            found[question] = Known(KnownLabels(values[0], values[1], document.name), info)
    return found


def _only(document: Document, role: str, taken: Sequence[str]) -> str | None:
    """Return the column of a role among those that are not taken; None if there is none."""
    rest = [name for name in document.names if name not in taken]
    found = [rest[at] for at in find_roles(rest, {role: truth_synonyms()[role]})[role]]
    if len(found) > 1 and role == "item":
        raise rivals(document.name, role, found)
    return found[0] if len(found) == 1 else None
