"""How to read answers: the record behind the reading flags of every command."""

from __future__ import annotations

from dataclasses import dataclass

from misc_cli.errors import ConfigError
from misc_cli.readers.columns import is_position
from misc_cli.readers.dialect import delimiter_of
from misc_cli.readers.formats import FORMATS
from misc_cli.readers.platforms import READERS
from misc_cli.readers.remote import Access


@dataclass(frozen=True)
class ReadOptions:
    """How to read; None means: find out.

    A column is a name or a position (from 1); `delimiter` is a character or one of the names
    comma, tab, semicolon, pipe, space; `format` is a file format or the name of a reader.
    The other fields are the flags of the same name, described in docs/input.md; `duplicates` is
    what the user said of repeated answers: then they are no reason to stop.
    """

    worker_col: str | None = None
    item_col: str | None = None
    label_col: str | None = None
    delimiter: str | None = None
    header: bool | None = None
    encoding: str | None = None
    format: str | None = None
    question: str | None = None
    group_by: str | None = None
    multi: str | None = None
    wide: bool | None = None
    worker_cols: str | None = None
    item_cols: str | None = None
    worker_from: str | None = None
    no_answer: str | None = None
    fold_case: bool | None = None
    rename: tuple[str, ...] | None = None
    where: tuple[str, ...] | None = None
    since: str | None = None
    until: str | None = None
    time_col: str | None = None
    allow_odd: bool | None = None
    skip_empty_files: bool | None = None
    duplicates: str | None = None
    query: str | None = None
    sheet: str | None = None
    max_download: int | None = None
    net_timeout: float | None = None
    max_input: int | None = None
    quotes_span_lines: bool | None = None

    def __post_init__(self) -> None:
        if self.format is not None and self.format not in (*FORMATS, *READERS):
            known = ", ".join((*FORMATS, *READERS))
            raise ConfigError(f"--format {self.format}: choose from {known}")
        delimiter_of(self.delimiter)
        named = [name for name in self.columns.values() if name and not is_position(name)]
        if self.header is False and named:
            raise ConfigError(f"--no-header leaves no column called {named[0]!r}; give a position")

    @property
    def columns(self) -> dict[str, str | None]:
        return {"worker": self.worker_col, "item": self.item_col, "label": self.label_col}

    @property
    def has_filters(self) -> bool:
        """Whether rows or labels are looked at one by one."""
        cleaning = (self.where, self.since, self.until, self.no_answer, self.rename, self.fold_case)
        return any(cleaning)

    @property
    def is_shape_given(self) -> bool:
        """Whether the user says which columns are whose: then no platform is looked for."""
        return bool(self.wide or self.worker_cols or self.item_cols)

    @property
    def access(self) -> Access:
        """How inputs that are no plain local file are read; what was not given is the default."""
        given = {
            "query": self.query,
            "sheet": self.sheet,
            "max_bytes": self.max_download,
            "timeout": self.net_timeout,
            "max_input": self.max_input,
            "quotes_span_lines": self.quotes_span_lines,
        }
        return Access(**{name: value for name, value in given.items() if value is not None})  # type: ignore[arg-type]

    @property
    def file_format(self) -> str | None:
        """The format of the bytes, if that is what --format names."""
        return self.format if self.format in FORMATS else None

    @property
    def reader(self) -> str | None:
        """The reader, if that is what --format names."""
        return self.format if self.format in READERS else None
