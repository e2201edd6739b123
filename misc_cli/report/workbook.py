"""Write a report as one workbook (.xlsx): the three questions first, a sheet for each table."""

from __future__ import annotations

import io
from typing import Any

import pandas as pd

from misc_cli.errors import needs_extra, printable
from misc_cli.report import narrative
from misc_cli.report.frames import Report, confusion_columns

MAX_ROWS = 50_000
LONGEST_CELL = 32_767  # Excel's own limit
WIDEST, NARROWEST = 60, 9
# A name such as `=HYPERLINK(…)` or `+1` stays text: it never becomes a formula, a link, a number.
AS_TEXT = dict.fromkeys(("strings_to_formulas", "strings_to_urls", "strings_to_numbers"), False)
TEXT, SHARE, WHOLE, NUMBER = "@", "0.0%", "#,##0", "0.000"
# The sheets and their frames, in order.
SHEETS = {
    "Workers": "workers",
    "Ask again": "ask_again",
    "Items": "items",
    "Confusions": "confusions",
    "Classes": "classes",
    "Agreement": "agreement",
    "Methods tried": "tried",
}
# Columns by their plain names and what they mean; those that are not listed keep their own name.
COLUMNS = {
    **{name: (name.capitalize(), "") for name in ("worker", "item", "label", "truth", "class")},
    "verdict": ("Verdict", "what to think of the worker; “Why” has the reason"),
    "reason": ("Why", ""),
    "answers": ("Answers", "number of answers"),
    "seconds": ("Seconds", "that half of the answers took at most; no verdict looks at it"),
    "accuracy": ("Right", "chance of being right on an item drawn from the classes"),
    "accuracy_low": ("Right, at least", "its 95 % interval"),
    "accuracy_high": ("Right, at most", ""),
    "agreement": ("Agrees with labels", "share of the answers that equal the final label"),
    "alike": ("Alike with", "another worker who makes the same mistakes"),
    "likeness": ("Likeness", "1: makes all mistakes together with that one"),
    "effective_votes": ("Counts as", "votes, where those who err together share theirs"),
    "changes": ("Labels that change", "items that get another label without this worker"),
    "confidence": ("Sure", "probability that the label is right"),
    "runner_up": ("Next best", "the second most probable class"),
    "gain": ("Gain", "expected rise of that probability for each further answer"),
    "gain_once": ("Gain of one answer", "that rise if the item is asked only once more"),
    "votes": ("Votes for it", "answers that equal the label"),
    "majority": ("Most said", "the most frequent answer"),
    "outvoted": ("Against the votes", "the label is not the most frequent answer"),
    "overruled": ("Against all votes", "all answers agree, on another label"),
    "tie": ("Tie", "two classes are equally probable"),
    "right": ("Is right", "the label is the truth"),
    "gold": ("Known before", "the label was given (--gold)"),
    "true": ("Item is", "the class of the items"),
    "said": ("Called", "what workers say"),
    "share": ("Share of its answers", "of the answers to items of that class"),
    "labels": ("Labels", "items with that label"),
    "votes_share": ("Share of the answers", ""),
    "labels_share": ("Share of the labels", ""),
}
SHARES = {
    *("accuracy", "accuracy_low", "accuracy_high", "agreement", "confidence", "share", "gain"),
    *("votes_share", "labels_share", "gain_once"),
}
FIRST = ("worker", "verdict", "answers", "seconds", "accuracy", "accuracy_low", "accuracy_high")


def library() -> Any:
    """Import XlsxWriter; raise an error that says how to get it."""
    try:
        import xlsxwriter
    except ImportError:
        raise needs_extra("a workbook (.html needs nothing)", "excel") from None
    return xlsxwriter


def workbook(report: Report) -> bytes:
    """Return a workbook: a summary and legend, then the tables."""
    frames = dict(report.frames)
    frames["classes"] = frames["classes"].rename(columns={"votes": "answers"})
    workers = frames.get("workers")
    if workers is not None:
        left_out = ("information", *confusion_columns(workers))  # bits: too high of few answers
        others = [name for name in workers if name not in (*FIRST, *left_out, "reason")]
        order = [name for name in (*FIRST, *others, "reason") if name in workers]
        frames["workers"] = workers[order]
    return made({title: frames[name] for title, name in SHEETS.items() if name in frames}, report)


def made(sheets: dict[str, pd.DataFrame], report: Report | None = None) -> bytes:
    """Return a workbook of these sheets; of a report it has the summary first."""
    buffer = io.BytesIO()
    with library().Workbook(
        buffer, {"in_memory": True, "nan_inf_to_errors": True, **AS_TEXT}
    ) as book:
        if report is not None:
            _write_summary(book, report, sheets)
        for title, frame in sheets.items():
            _write(book, title, frame if report is None else frame.head(MAX_ROWS))
    return buffer.getvalue()


def _write_summary(book: Any, report: Report, sheets: dict[str, pd.DataFrame]) -> None:
    """Write title, date, the three questions with their answers, and the legend of columns."""
    sheet = book.add_worksheet("Summary")
    wrapped = {"text_wrap": True, "valign": "top"}
    big = book.add_format({"bold": True, "font_size": 18})
    heading = book.add_format({**wrapped, "bold": True, "font_size": 12, "bottom": 1})
    bold, plain = book.add_format({**wrapped, "bold": True}), book.add_format(wrapped)
    sheet.set_column(0, 0, 26)
    sheet.set_column(1, 1, 110)
    date = str(report.facts.get("date", ""))[:10]
    lines: list[tuple[str, str, Any]] = [(narrative.title(report), "", big)]
    lines.append((date, " ".join(narrative.how_made(report)), plain))
    for answer in narrative.answers(report):
        lines += [("", "", plain), (answer.question, "", heading)]
        lines.append((answer.figure, answer.headline, bold))
        lines += [("", str(sentence), plain) for sentence in answer.sentences]
    lines += [
        ("", f"The sheet {title} has the first {MAX_ROWS:,} of {len(frame):,} rows.", plain)
        for title, frame in sheets.items()
        if len(frame) > MAX_ROWS
    ]
    lines += [("", "", plain), ("What the columns mean", "", heading)]
    used = dict.fromkeys(name for frame in sheets.values() for name in frame.columns)
    legend = [COLUMNS[name] for name in used if name in COLUMNS]
    lines += [(name, meaning, plain) for name, meaning in legend if meaning]
    for row, (left, right, form) in enumerate(lines):
        sheet.write_string(row, 0, _text(left), form)
        sheet.write_string(row, 1, _text(right), form if form is not big else plain)


def _write(book: Any, title: str, frame: pd.DataFrame) -> None:
    """Write one sheet: header frozen and filterable, numbers as numbers, the rest as text."""
    sheet = book.add_worksheet(title)
    sheet.freeze_panes(1, 1)
    sheet.autofilter(0, 0, max(len(frame), 1), max(len(frame.columns) - 1, 0))
    header = book.add_format({"bold": True, "bg_color": "#DCE6F1", "bottom": 1})
    for column, name in enumerate(frame.columns):
        values = [
            value if value is None or isinstance(value, bool | int | float) else _text(value)
            for value in frame[name].astype(object).where(frame[name].notna(), None)
        ]
        numbers = [value for value in values if isinstance(value, int | float)]
        form = TEXT
        if name in SHARES:
            form = SHARE
        elif numbers:
            form = WHOLE if all(float(value).is_integer() for value in numbers) else NUMBER
        head = _text(COLUMNS[name][0] if name in COLUMNS else name)
        width = len(head) + 4
        if form == TEXT:
            width = min(max([width, *(len(str(value)) for value in values[:200])]), WIDEST)
        cells = book.add_format({"num_format": form})
        sheet.set_column(column, column, max(width, NARROWEST), cells)
        sheet.write_string(0, column, head, header)
        sheet.write_column(1, column, values, cells)


def _text(value: object) -> str:
    return printable(value)[:LONGEST_CELL]
