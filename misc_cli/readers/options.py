"""ReadOptions: the record behind the reading flags of every command."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from shlex import quote

from misc_cli.errors import ConfigError
from misc_cli.readers.platforms import READERS

FORMATS = ("csv", "tsv", "json", "jsonl", "parquet", "npy")
DELIMITERS = {"comma": ",", "tab": "\t", "semicolon": ";", "pipe": "|", "space": " "}
GIBIBYTE = 1 << 30
LAYOUTS = ("long", "wide", "form", "matrix", "counts")
NOBODY = "none"  # --worker-col none: nobody knows who answered
ROW = "row"  # --item-col row: each row is an item of its own


@dataclass(frozen=True)
class ReadOptions:
    """The flags of reading; None means: find out.

    `worker_col`, `item_col` and `label_col` are names, positions (from 1) or patterns, separated
    by commas; `delimiter` is a character or one of the names comma, tab, semicolon, pipe, space;
    `format` is a file format or the name of a reader. The other fields are the flags of the same
    name, described in docs/input.md; `duplicates` is what the user said of repeated answers: then
    they are no reason to stop.
    """

    worker_col: str | None = None
    item_col: str | None = None
    label_col: str | None = None
    layout: str | None = None
    delimiter: str | None = None
    header: bool | None = None
    encoding: str | None = None
    format: str | None = None
    question: str | None = None
    group_by: str | None = None
    multi: str | None = None
    worker_from: str | None = None
    no_answer: str | None = None
    fold_case: bool | None = None
    rename: tuple[str, ...] | None = None
    labels: str | None = None
    extract: str | None = None
    where: tuple[str, ...] | None = None
    seconds_col: str | None = None
    keep: str | None = None
    max_bad_rows: str | None = None
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
        for name, choices in (("format", (*FORMATS, *READERS)), ("layout", LAYOUTS)):
            given = getattr(self, name)
            if given is not None and given not in choices:
                raise ConfigError(f"--{name} {given}: choose from {', '.join(choices)}")
        if self.delimiter is not None:
            delimiter_of(self.delimiter)
        named = [name for name in self.columns.values() if name is not None and is_name(name)]
        if self.header is False and named:
            raise ConfigError(f"--no-header leaves no column called {named[0]!r}; give a position")
        if self.extract is not None:
            try:
                re.compile(self.extract)
            except re.error as error:
                raise ConfigError(f"--extract {self.extract!r}: {error}") from None
        self.bad_rows_allowed(1)

    @property
    def columns(self) -> dict[str, str | None]:
        return {"worker": self.worker_col, "item": self.item_col, "label": self.label_col}

    @property
    def declared(self) -> dict[str, object]:
        """Return what was said of the file's form and columns."""
        form = ("delimiter", "header", "encoding", "format", "sheet", "worker_from")
        rest = ("question", "group_by", "multi", "no_answer")
        names = ("worker_col", "item_col", "label_col", *form, *rest)
        return {n: value for n in names if (value := getattr(self, n)) is not None}

    @property
    def has_filters(self) -> bool:
        """Tell whether rows or labels are looked at one by one."""
        cleaning = (self.where, self.no_answer, self.rename, self.fold_case)
        return any((*cleaning, self.labels, self.extract))

    def bad_rows_allowed(self, n_rows: int) -> int:
        """Return how many of so many rows may be set aside for their form: --max-bad-rows."""
        text = self.max_bad_rows or "0"
        match = re.fullmatch(r"(\d+(?:\.\d+)?)(%?)", text.strip())
        if match is None:
            raise ConfigError(
                f"--max-bad-rows {text}: give a number of rows, or a share such as 1%"
            )
        return int(float(match[1]) * n_rows / 100) if match[2] else int(float(match[1]))


def delimiter_of(given: str) -> str:
    """Return the character behind --delimiter: itself or by its name."""
    character = DELIMITERS.get(given.lower(), "\t" if given == "\\t" else given)
    if len(character) != 1 or character in '"\r\n' or not character.isascii():
        names = ", ".join(DELIMITERS)
        raise ConfigError(f"--delimiter {given!r}: give one character or one of {names}")
    return character


def is_name(given: str) -> bool:
    """Return whether a declared column is called by its name: then the file has a header."""
    if given.lower() in (NOBODY, ROW) or any(mark in given for mark in "*?["):
        return False
    parts = given.split(",")
    return not all(re.fullmatch(r"\s*\d{1,18}(\s*-\s*\d{1,18})?\s*", part) for part in parts)


def flags_of(options: dict[str, object]) -> str:
    """Return command-line flags for fields of `ReadOptions`, then others, as --each-question."""
    words = []
    for key in dict.fromkeys([*(field.name for field in fields(ReadOptions)), *options]):
        value, name = options.get(key), key.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{name}" if value else f"--no-{name}")
        elif value is not None:
            words.append(f"--{name} {quote(str(value))}")
    return " ".join(words)
