"""Bytes → a document: which format it is, and its columns or records."""

from __future__ import annotations

from misc_cli.io.document import Document
from misc_cli.io.formats import detect, open_records
from misc_cli.io.options import ReadOptions
from misc_cli.io.source import Source
from misc_cli.io.table import open_table
from misc_cli.io.vocabulary import SYNONYMS

DELIMITED = ("csv", "tsv")


def open_document(source: Source, options: ReadOptions) -> Document:
    """A file of answers, opened; nothing but its first rows is parsed if it is a table."""
    format_name = options.file_format or detect(source)
    if format_name not in DELIMITED:
        return open_records(source, format_name)
    delimiter = options.delimiter or ("tab" if options.format == "tsv" else None)
    table = open_table(source, options.columns, SYNONYMS, delimiter, options.header)
    return Document(source.name, format_name, lambda: table)
