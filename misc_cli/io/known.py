"""Known labels from files: --truth and --gold."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from misc_cli.core.types import KnownLabels
from misc_cli.errors import InputError
from misc_cli.io.columns import truth_synonyms
from misc_cli.io.formats import detect, read_records
from misc_cli.io.open import DELIMITED
from misc_cli.io.options import ReadOptions
from misc_cli.io.results import FileInfo
from misc_cli.io.sniff import delimiter_of
from misc_cli.io.source import open_source
from misc_cli.io.table import read_table

FIRST_BYTES = 1 << 16


@dataclass(frozen=True)
class Known:
    """Known labels, dictionary-encoded, and the file they are from."""

    labels: KnownLabels
    file: FileInfo


def read_known(source: str, answers: ReadOptions | None = None) -> Known:
    """Known labels (--truth, --gold), read on their own terms.

    Of the options for the answers beside them the encoding counts here too, and the delimiter and
    the names of columns if the first row has them.
    """
    answers = answers or ReadOptions()
    delimiter = delimiter_of(answers.delimiter)
    opened = open_source(source, answers.encoding, answers.access)
    start = bytes(memoryview(opened.content)[:FIRST_BYTES]).partition(b"\n")[0]
    own = delimiter if delimiter and delimiter.encode() in start else None
    format_name = detect(opened)
    synonyms = truth_synonyms(answers.item_col, answers.label_col)
    given: dict[str, str | None] = dict.fromkeys(synonyms)
    with ThreadPoolExecutor(1) as pool:
        digest = pool.submit(opened.sha256)
        if format_name in DELIMITED:
            parsed = read_table(opened, given, synonyms, own)
        else:
            parsed = read_records(opened, format_name, given, synonyms)
        if not parsed.n_rows:
            raise InputError(f"{opened.name}: a header and no rows; give a file with labels in it")
        info = FileInfo(
            name=opened.name,
            sha256=digest.result(),
            n_rows=parsed.n_rows,
            format=format_name,
            delimiter=parsed.delimiter,
            header=parsed.header,
            columns={role: str(column) for role, column in parsed.chosen.items()},
        )
    labels = KnownLabels(parsed.columns["item"], parsed.columns["label"], opened.name)
    return Known(labels, info)
