"""Write the tables of a report as the sheets of one workbook (.xlsx)."""

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
# A name such as `=HYPERLINK(…)` or `+1` stays text: it never becomes a formula, a link, a number.
AS_TEXT = dict.fromkeys(("strings_to_formulas", "strings_to_urls", "strings_to_numbers"), False)
TEXT, SHARE, WHOLE, NUMBER = "@", "0.0%", "#,##0", "0.000"
SHARES = {
    *("accuracy", "accuracy_low", "accuracy_high", "agreement", "confidence"),
    *("votes_share", "labels_share"),
}
RED, AMBER, GREEN = "#F8CBC8", "#FFE7B8", "#D8F0E4"
SCALES = ("accuracy", "confidence", "information")  # coloured from low (bad) to high (good)
VERDICT_COLOURS = {**dict.fromkeys(narrative.SUSPECT, RED), "check": AMBER, "fine": GREEN}
FLAGS = ("overruled", "outvoted", "tie")


def library() -> Any:
    """Import XlsxWriter; raise an error that says how to get it."""
    try:
        import xlsxwriter
    except ImportError:
        raise ConfigError(
            "a workbook needs XlsxWriter; pip install 'misc-cli[excel]', or ask for .html"
        ) from None
    return xlsxwriter


def workbook(report: Report) -> bytes:
    """Return a workbook with the sheets that `_sheets` names."""
    library()
    buffer = io.BytesIO()
    options = {"options": {"in_memory": True, **AS_TEXT}}
    with pd.ExcelWriter(buffer, engine="xlsxwriter", engine_kwargs=options) as writer:
        summary = pd.DataFrame(_summary(report)).map(_cell)
        summary.to_excel(writer, sheet_name="Summary", header=False, index=False)
        wrapped = writer.book.add_format({"text_wrap": True, "valign": "top"})
        writer.sheets["Summary"].set_column(0, 0, 12, wrapped)
        writer.sheets["Summary"].set_column(1, 1, 110, wrapped)
        for title, frame in _sheets(report).items():
            _write(writer, title, frame.iloc[:MAX_ROWS])
    return buffer.getvalue()


def one_sheet(title: str, frame: pd.DataFrame) -> bytes:
    """Return a workbook with one table."""
    library()
    buffer = io.BytesIO()
    options = {"options": {"in_memory": True, **AS_TEXT}}
    with pd.ExcelWriter(buffer, engine="xlsxwriter", engine_kwargs=options) as writer:
        _write(writer, title, frame)
    return buffer.getvalue()


def _sheets(report: Report) -> dict[str, pd.DataFrame]:
    """Return the tables by the titles of their sheets, in order."""
    frames = report.frames
    sheets = {}
    if "workers" in frames:
        workers = frames["workers"]
        matrix = confusion_columns(workers)
        sheets["Workers"] = workers.drop(columns=matrix)
        if matrix:
            sheets["Confusions"] = workers[["worker", *matrix]]
    names = {"Items": "items", "Classes": "classes", "Agreement": "agreement", "Crowd": "crowd"}
    names |= {"Over time": "progress", "Changed": "changed", "Choice": "tried"}
    names |= {"Convergence": "convergence", "Figures": "figures"}
    sheets |= {title: frames[name] for title, name in names.items() if name in frames}
    if "Crowd" in sheets:
        sheets["Crowd"] = sheets["Crowd"].reset_index()
    return sheets


def _summary(report: Report) -> list[tuple[str, str]]:
    rows = [(sentence.kind, sentence.text) for sentence in narrative.sentences(report)]
    for name, frame in report.frames.items():
        if len(frame) > MAX_ROWS:
            rows.append(("fact", f"Of {len(frame):,} {name} the first {MAX_ROWS:,} are here."))
    return rows


def _write(writer: Any, title: str, frame: pd.DataFrame) -> None:
    """Write one sheet: header frozen and filterable, numbers as numbers, the rest as text."""
    frame = frame.map(_cell).set_axis([_cell(str(name)) for name in frame.columns], axis=1)
    frame.to_excel(writer, sheet_name=title, index=False)
    sheet = writer.sheets[title]
    sheet.freeze_panes(1, 1)
    sheet.autofilter(0, 0, max(len(frame), 1), max(len(frame.columns) - 1, 0))
    header = writer.book.add_format({"bold": True, "bg_color": "#DCE6F1", "bottom": 1})
    for column, name in enumerate(frame.columns):
        values = frame.iloc[:, column]
        shown = _format(title, name, values.tolist())
        width = len(name) + 3
        if shown == TEXT:
            width = min(max([width, *(len(str(value)) for value in values.head(200))]), WIDEST)
        form = writer.book.add_format({"num_format": shown})
        sheet.set_column(column, column, max(width, NARROWEST), form)
        sheet.write_string(0, column, name, header)
        if len(frame):
            _colour(writer.book, sheet, (1, column, len(frame), column), name)


def _colour(book: Any, sheet: Any, cells: tuple[int, int, int, int], name: str) -> None:
    """Colour the cells of a column whose name says that low, true or a verdict is bad."""
    if name in SCALES:
        colours = {"min_color": RED, "mid_color": "#FFFFFF", "max_color": "#B7DFCB"}
        sheet.conditional_format(*cells, {"type": "3_color_scale", **colours})
    if name == "verdict":
        for word, colour in VERDICT_COLOURS.items():
            rule = {"type": "text", "criteria": "begins with", "value": word}
            form = book.add_format({"bg_color": colour})
            sheet.conditional_format(*cells, {**rule, "format": form})
    if name in FLAGS:
        form = book.add_format({"bg_color": AMBER})
        sheet.conditional_format(
            *cells, {"type": "cell", "criteria": "==", "value": True, "format": form}
        )


def _format(title: str, name: str, values: list[Any]) -> str:
    """Return the number format of a column: text, share (%), whole number or number."""
    numbers = [value for value in values if isinstance(value, int | float) and value == value]
    if not numbers:
        return TEXT
    if name in SHARES or title in ("Confusions", "Crowd"):
        return SHARE
    return WHOLE if all(isinstance(value, int) for value in numbers) else NUMBER


def _cell(value: Any) -> Any:
    """Return numbers as they are and everything else as text that Excel can hold."""
    if value is None or value is pd.NaT or isinstance(value, bool | int | float):
        return value
    return visible(value)[:LONGEST_CELL]
