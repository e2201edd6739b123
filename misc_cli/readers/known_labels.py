"""Known labels (--truth, --gold) from files: item,label, or a column for each question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

from misc_cli.data.types import KnownLabels
from misc_cli.errors import InputError
from misc_cli.readers.answer_table import FileInfo
from misc_cli.readers.columns import Synonyms, listing, read_columns, truth_synonyms
from misc_cli.readers.document import open_document
from misc_cli.readers.options import ReadOptions, delimiter_of
from misc_cli.readers.source import Source, open_source
from misc_cli.readers.vocabulary import normalise

FIRST_BYTES = 1 << 16


@dataclass(frozen=True)
class Known:
    """Known labels, dictionary-encoded, and the file they are from."""

    labels: KnownLabels
    file: FileInfo


def read_known(path: str, answers: ReadOptions | None = None) -> Known:
    """Return known labels (--truth, --gold), read on their own terms.

    Of the options for the answers beside them the encoding counts here too, and the delimiter and
    the names of columns if the first row has them.
    """
    answers = answers or ReadOptions()
    source = open_source(path, answers)
    start = bytes(memoryview(source.content)[:FIRST_BYTES]).partition(b"\n")[0]
    given = delimiter_of(answers.delimiter) if answers.delimiter else "\n"
    delimiter = given if given.encode() in start else None
    return _known(source, truth_synonyms(answers.item_col, answers.label_col), delimiter)


def read_known_each(
    path: str, questions: Sequence[str], answers: ReadOptions | None = None
) -> dict[str, Known]:
    """Return the known labels of each question that has a column of its name."""
    source = open_source(path, answers or ReadOptions())
    names = open_document(source, header=True).names
    own = [question for question in questions if normalise(question) in map(normalise, names)]
    if not own:
        raise InputError(
            f"{source.name}: no column for any of {listing(questions)} among {listing(names, 30)}; "
            f"give one for each question (item,{questions[0]},…)"
        )
    items = truth_synonyms()["item"]
    return {q: _known(source, {"item": items, "label": [{normalise(q)}]}, None, q) for q in own}


def _known(
    source: Source, synonyms: Synonyms, delimiter: str | None, question: str | None = None
) -> Known:
    document = open_document(source, delimiter=delimiter, synonyms=synonyms)
    chosen, columns = read_columns(document, {}, synonyms)
    table, n_rows = document.table, len(columns["item"])
    if not n_rows:
        raise InputError(f"{source.name}: a header and no rows; give a file with labels in it")
    layout = (n_rows, document.format, table.delimiter, table.header, chosen)
    info = FileInfo(source.name, sha256(source.raw).hexdigest(), *layout, question=question)
    return Known(KnownLabels(columns["item"], columns["label"], source.name), info)
