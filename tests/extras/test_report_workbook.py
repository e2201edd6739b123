"""The workbook: every table a sheet, text as text, whatever it begins with."""

from __future__ import annotations

import io
import zipfile

import pytest

from misc_cli.report.frames import visible
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
    assert set(workers) == {visible(name) for name in HOSTILE[:6]}
    assert all(cell.data_type == "s" for cell in book["Items"]["A"])


def test_sheets_have_formats_frozen_headers_and_colours() -> None:
    from misc_cli.report.workbook import workbook

    book = openpyxl.load_workbook(io.BytesIO(workbook(report())))
    assert book.sheetnames[:4] == ["Summary", "Workers", "Confusions", "Items"]
    sheet = book["Workers"]
    header = [cell.value for cell in sheet[1]]
    assert sheet.freeze_panes == "B2"
    assert sheet.auto_filter.ref
    accuracy = sheet.cell(2, header.index("accuracy") + 1)
    assert accuracy.number_format == "0.0%"
    assert 0 <= accuracy.value <= 1
    assert sheet.conditional_formatting
    assert book["Items"].max_row == 121
