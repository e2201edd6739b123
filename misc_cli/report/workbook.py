"""The same tables as sheets of one workbook (.xlsx).

XlsxWriter writes text as text when it is told so (`write_string`): a name such as `=HYPERLINK(…)`
or `+1` never becomes a formula, and nothing becomes a link.
"""

from __future__ import annotations

import io
from typing import Any

import pandas as pd

from misc_cli.errors import ConfigError
from misc_cli.report import narrative
from misc_cli.report.frames import Report, confusion_columns, visible

MAX_ROWS = 50_000
LONGEST_CELL = 32_767  # Excel's own limit
WIDEST, NARROWEST = 60, 9
PER_CENT = (
    "accuracy",
    "accuracy_low",
    "accuracy_high",
    "agreement",
    "confidence",
    "votes_share",
    "labels_share",
)
# Colours from bad to good, as cells of these columns go from low to high.
SCALES = ("accuracy", "confidence", "information")
VERDICT_COLOURS = {
    "spammer": "#F8CBC8",
    "always says": "#F8CBC8",
    "copies": "#F8CBC8",
    "check": "#FFE7B8",
    "fine": "#D8F0E4",
}


def library() -> Any:
    """XlsxWriter, or what to do without it."""
    try:
        import xlsxwriter
    except ImportError:
        raise ConfigError(
            "a workbook needs XlsxWriter; pip install 'misc-cli[excel]', or ask for .html"
        ) from None
    return xlsxwriter


def workbook(report: Report) -> bytes:
    """Sheets: summary, workers, confusions, items, classes, crowd, agreement, choice, run."""
    buffer = io.BytesIO()
    options = {"in_memory": True, "strings_to_formulas": False, "strings_to_urls": False}
    book = library().Workbook(buffer, {**options, "strings_to_numbers": False})
    sheets = _Sheets(book)
    frames = report.frames
    sheets.text("Summary", _summary(report))
    if "workers" in frames:
        matrix = confusion_columns(frames["workers"])
        sheets.table("Workers", frames["workers"].drop(columns=matrix))
        if matrix:
            sheets.table("Confusions", frames["workers"][["worker", *matrix]], shares=matrix)
    for title, name in (("Items", "items"), ("Classes", "classes"), ("Agreement", "agreement")):
        if name in frames:
            sheets.table(title, frames[name])
    if "crowd" in frames:
        crowd = frames["crowd"].reset_index()
        sheets.table("Crowd", crowd, shares=list(crowd.columns[1:]))
    for title, name in (
        ("Over time", "progress"),
        ("Changed", "changed"),
        ("Choice", "tried"),
        ("Convergence", "convergence"),
        ("Figures", "figures"),
    ):
        if name in frames:
            sheets.table(title, frames[name])
    book.close()
    return buffer.getvalue()


def _summary(report: Report) -> list[tuple[str, str]]:
    rows = [(sentence.kind, sentence.text) for sentence in narrative.sentences(report)]
    for name, frame in report.frames.items():
        if len(frame) > MAX_ROWS:
            rows.append(("fact", f"Of {len(frame):,} {name} the first {MAX_ROWS:,} are here."))
    return rows


class _Sheets:
    """Writes one frame after another into a workbook, all in the same style."""

    def __init__(self, book: Any) -> None:
        self.book = book
        self.header = book.add_format({"bold": True, "bg_color": "#DCE6F1", "bottom": 1})
        self.wrapped = book.add_format({"text_wrap": True, "valign": "top"})
        self.formats = {
            "text": book.add_format({"num_format": "@"}),
            "share": book.add_format({"num_format": "0.0%"}),
            "whole": book.add_format({"num_format": "#,##0"}),
            "number": book.add_format({"num_format": "0.000"}),
        }

    def text(self, title: str, rows: list[tuple[str, str]]) -> None:
        sheet = self.book.add_worksheet(title)
        sheet.set_column(0, 0, 12)
        sheet.set_column(1, 1, 110)
        for at, (kind, said) in enumerate(rows):
            sheet.write_string(at, 0, kind, self.wrapped)
            sheet.write_string(at, 1, _cell(said), self.wrapped)

    def table(self, title: str, frame: pd.DataFrame, shares: list[str] | None = None) -> None:
        """Header frozen and filterable, numbers as numbers, everything else as text."""
        frame = frame.iloc[:MAX_ROWS]
        sheet = self.book.add_worksheet(title)
        sheet.freeze_panes(1, 1)
        for column, name in enumerate(frame.columns):
            sheet.write_string(0, column, _cell(name), self.header)
            values = frame[name].tolist()
            kind = _kind(str(name), values, shares or [])
            self._column(sheet, column, values, kind)
            self._colour(sheet, column, str(name), len(values))
            longest = max([len(str(name)) + 3, *(len(str(value)) for value in values[:200])])
            width = min(longest, WIDEST) if kind == "text" else max(len(str(name)) + 3, NARROWEST)
            sheet.set_column(column, column, max(width, NARROWEST))
        sheet.autofilter(0, 0, max(len(frame), 1), max(len(frame.columns) - 1, 0))

    def _column(self, sheet: Any, column: int, values: list[Any], kind: str) -> None:
        form = self.formats[kind]
        for row, value in enumerate(values, 1):
            if value is None or value != value:
                continue
            if isinstance(value, bool):
                sheet.write_boolean(row, column, value)
            elif isinstance(value, int | float):
                sheet.write_number(row, column, value, form)
            else:
                sheet.write_string(row, column, _cell(value), form)

    def _colour(self, sheet: Any, column: int, name: str, n_rows: int) -> None:
        if not n_rows:
            return
        place = (1, column, n_rows, column)
        if name in SCALES:
            colours = {"min_color": "#F8CBC8", "mid_color": "#FFFFFF", "max_color": "#B7DFCB"}
            sheet.conditional_format(*place, {"type": "3_color_scale", **colours})
        if name == "verdict":
            for word, colour in VERDICT_COLOURS.items():
                rule = {"type": "text", "criteria": "begins with", "value": word}
                form = self.book.add_format({"bg_color": colour})
                sheet.conditional_format(*place, {**rule, "format": form})
        if name in ("overruled", "outvoted", "tie"):
            form = self.book.add_format({"bg_color": "#FFE7B8"})
            sheet.conditional_format(
                *place, {"type": "cell", "criteria": "==", "value": True, "format": form}
            )


def _kind(name: str, values: list[Any], shares: list[str]) -> str:
    """How a column is shown: text, share (%), whole number, number."""
    numbers = [value for value in values if isinstance(value, int | float) and value == value]
    if not numbers:
        return "text"
    if name in PER_CENT or name in shares:
        return "share"
    return "whole" if all(isinstance(value, int) for value in numbers) else "number"


def _cell(value: object) -> str:
    return visible(value)[:LONGEST_CELL]
