"""The workbook: every table a sheet, text as text, whatever it begins with."""

from __future__ import annotations

import io
import zipfile
from dataclasses import replace

import pytest

from misc_cli.errors import printable
from misc_cli.report import narrative
from tests.report.crowds import HOSTILE
from tests.report.test_page import report

openpyxl = pytest.importorskip("openpyxl", reason="openpyxl is not installed")
pytest.importorskip("xlsxwriter", reason="XlsxWriter is not installed")


def test_nothing_becomes_a_formula_or_a_link() -> None:
    from misc_cli.report.workbook import workbook

    made = workbook(report(hostile=True))
    with zipfile.ZipFile(io.BytesIO(made)) as parts:
        for name in parts.namelist():
            if name.startswith("xl/worksheets/"):
                text = parts.read(name).decode()
                assert "<f>" not in text
                assert "hyperlink" not in text.lower()
    book = openpyxl.load_workbook(io.BytesIO(made))
    workers = [cell.value for cell in book["Workers"]["A"][1:]]
    assert set(workers) == {printable(name) for name in HOSTILE[:6]}
    assert all(cell.data_type == "s" for cell in book["Items"]["A"])


def test_the_three_questions_come_first_with_title_date_and_legend() -> None:
    from misc_cli.report.workbook import workbook

    made = report()
    made = replace(made, title="Birds", facts={**made.facts, "date": "2026-11-18T03:04:05+00:00"})
    book = openpyxl.load_workbook(io.BytesIO(workbook(made)))
    assert book.sheetnames[:5] == ["Summary", "Workers", "Ask again", "Items", "Confusions"]
    rows = list(book["Summary"].iter_rows(values_only=True))
    assert rows[0][0] == "Birds"
    assert rows[1][0] == "2026-11-18"
    first = [row[0] for row in rows]
    asked = [answer.question for answer in narrative.answers(made)]
    assert [name for name in first if name in asked] == asked
    assert "chance of being right on an item drawn from the classes" in dict(rows)["Right"]


def test_sheets_have_plain_names_numbers_and_frozen_headers() -> None:
    from misc_cli.report.workbook import workbook

    book = openpyxl.load_workbook(io.BytesIO(workbook(report())))
    sheet = book["Workers"]
    header = [cell.value for cell in sheet[1]]
    assert header[:4] == ["Worker", "Verdict", "Answers", "Right"]
    assert not [name for name in header if "_" in name or name == "information"]
    assert sheet.freeze_panes == "B2"
    assert sheet.auto_filter.ref
    answers, right = sheet.cell(2, 3), sheet.cell(2, 4)
    assert (answers.value, answers.number_format) == (120, "#,##0")
    assert right.number_format == "0.0%"
    assert 0 <= right.value <= 1
    assert book["Items"].max_row == 121
