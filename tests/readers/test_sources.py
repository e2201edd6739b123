"""Sources that are no text of their own: DuckDB, s3, workbooks."""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import openpyxl
import pytest

from misc_cli.errors import ConfigError, InputError
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.read import read_answer_columns

ROWS = [("ann", "1", "cat"), ("ann", "2", ""), ("bob", "1", "dog")]


def triplets(address: str, **options: Any) -> list[tuple[str, str, str]]:
    answers = read_answer_columns([address], ReadOptions(**options)).answers
    columns = (answers.worker, answers.item, answers.label)
    return list(zip(*(column.to_pylist() for column in columns), strict=True))


def test_a_duckdb_file_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "a.duckdb"
    path.write_bytes(b"\0" * 8 + b"DUCK" + b"\0" * 600)
    with pytest.raises(InputError, match=r"no plain text; .*write it as CSV or Parquet"):
        triplets(str(path))


def test_s3(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that knows one object and checks nothing plays the store."""
    body = b"worker,item,label\nann,1,cat\nann,2,\nbob,1,dog\n"

    class Store(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            known = self.path.startswith("/bucket/a.csv")
            self.send_response(200 if known else 404)
            self.send_header("Content-Length", str(len(body) if known else 0))
            self.send_header("Content-Type", "text/csv")
            self.send_header("Last-Modified", "Mon, 16 Nov 2026 15:00:00 GMT")
            self.send_header("ETag", '"1"')
            self.end_headers()
            if known and self.command == "GET":
                self.wfile.write(body)

        do_HEAD: Callable[..., None] = do_GET

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Store)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "someone")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s3cret")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    try:
        assert triplets("s3://bucket/a.csv") == ROWS
        with pytest.raises(InputError, match="--max-download"):
            triplets("s3://bucket/a.csv", max_download=10)
        with pytest.raises(InputError, match=r"s3://bucket/b\.csv"):
            triplets("s3://bucket/b.csv")
    finally:
        server.shutdown()
        server.server_close()


def test_a_workbook(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    book.active.append(["worker", "item", "label", "when"])
    book.active.append(["ann", 1, True, dt.datetime(2026, 1, 2)])
    book.active.append(["bob", 1.0, False, None])
    book.create_sheet("empty")
    path = tmp_path / "a.xlsx"
    book.save(path)
    expected = [("ann", "1", "TRUE"), ("bob", "1", "FALSE")]
    assert triplets(str(path)) == expected
    book.create_sheet("more").append(["worker", "item", "label"])
    book.save(path)
    with pytest.raises(InputError, match=r"2 sheets \(Sheet, more\).*--sheet"):
        triplets(str(path))
    assert triplets(str(path), sheet="Sheet") == expected
    with pytest.raises(ConfigError, match="--sheet nowhere"):
        triplets(str(path), sheet="nowhere")
    with pytest.raises(InputError, match="--max-input"):
        triplets(str(path), max_input=1000)
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(InputError):
        triplets(str(path))


def test_a_workbook_with_one_cell_far_out(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    book.active.append(["worker", "item", "label"])
    book.active["XFD1048576"] = "x"
    book.save(tmp_path / "far.xlsx")
    with pytest.raises(InputError, match=r"more than 50,000,000 cells"):
        triplets(str(tmp_path / "far.xlsx"))
