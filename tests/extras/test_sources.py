"""Sources that need an optional package or a server: PostgreSQL, DuckDB, s3, workbooks."""

from __future__ import annotations

import datetime as dt
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from misc_cli.errors import ConfigError, InputError
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.read import read_answer_columns

ROWS = [("ann", "1", "cat"), ("ann", "2", ""), ("bob", "1", "dog")]
QUERY = "select worker, item, label from votes order by 1, 2;"


def triplets(address: str, **options: Any) -> list[tuple[str, str, str]]:
    answers = read_answer_columns([address], ReadOptions(**options)).answers
    columns = (answers.worker, answers.item, answers.label)
    return list(zip(*(column.to_pylist() for column in columns), strict=True))


def _program(name: str) -> str | None:
    """A program of the PostgreSQL server, which Debian keeps out of the path."""
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return str(found[-1]) if found else shutil.which(name)


def _unprivileged() -> dict[str, Any]:
    """Who starts the server: it refuses to run as root."""
    if os.getuid() != 0:
        return {}
    import pwd

    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


@pytest.fixture(scope="module")
def postgresql(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server of our own, on a free port of this machine, gone at the end."""
    pytest.importorskip("adbc_driver_postgresql", reason="misc-cli[sql] is not installed")
    initdb, server = _program("initdb"), _program("postgres")
    if initdb is None or server is None:
        pytest.skip("no PostgreSQL server is installed")
    # the server's user must be able to enter every folder above its own
    folder = Path(subprocess.check_output(["mktemp", "-d"], text=True).strip())
    who = _unprivileged()
    if who:
        os.chown(folder, who["user"], who["group"])
    password = folder / "password"
    password.write_text("s3cret/word")
    password.chmod(0o644)
    data = folder / "data"
    arguments = ["-D", data, "-U", "ann", "-A", "scram-sha-256", f"--pwfile={password}", "-N"]
    run = {"cwd": folder, "env": {"PATH": os.environ["PATH"], "LC_ALL": "C"}, **who}
    process = None
    try:
        subprocess.run(
            [initdb, *map(str, arguments)], check=True, capture_output=True, timeout=60, **run
        )
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        flags = ["-D", data, "-p", port, "-h", "127.0.0.1", "-k", folder, "-F"]
        process = subprocess.Popen(
            [server, *map(str, flags)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, **run
        )
        assert process.stderr is not None
        for line in process.stderr:
            if b"ready to accept connections" in line:
                break
        drain = threading.Thread(target=process.stderr.read, daemon=True)
        drain.start()
        address = f"postgresql://ann:s3cret%2Fword@127.0.0.1:{port}/postgres"
        _fill(address)
        yield address
    finally:
        if process is not None:
            process.terminate()
            process.wait(20)
            drain.join(5)
            assert process.stderr is not None
            process.stderr.close()
        shutil.rmtree(folder, ignore_errors=True)


def _fill(address: str) -> None:
    from adbc_driver_postgresql import dbapi

    with dbapi.connect(address) as connection, connection.cursor() as cursor:
        cursor.execute("create type animal as enum ('cat', 'dog')")
        cursor.execute("create table votes (worker text, item int, label animal, score numeric)")
        cursor.execute(
            "insert into votes values ('ann', 1, 'cat', 1.50), ('ann', 2, null, 2), "
            "('bob', 1, 'dog', 3)"
        )
        cursor.execute("create sequence s")
        connection.commit()


def test_postgresql(postgresql: str) -> None:
    assert triplets(postgresql, query=QUERY) == ROWS
    assert triplets(postgresql.replace("postgresql:", "postgres:"), query=QUERY) == ROWS
    numeric = "select worker, item, score as label from votes order by 1, 2"
    assert [label for _, _, label in triplets(postgresql, query=numeric)] == ["1.50", "2", "3"]


def test_the_password_may_come_from_the_environment(
    postgresql: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", "s3cret/word")
    assert triplets(postgresql.replace(":s3cret%2Fword", ""), query=QUERY) == ROWS


@pytest.mark.parametrize(
    ("change", "query", "words"),
    [
        (("", ""), "select * from nowhere", "nowhere"),
        (("", ""), "delete from votes returning *", "read-only|COPY"),
        (("", ""), None, "--query"),
        (("s3cret%2Fword", "wrong%2Fword"), QUERY, "password"),
        (("127.0.0.1", "127.0.0.2"), QUERY, "refused|127.0.0.2"),
    ],
)
def test_postgresql_faults_without_the_secret(
    postgresql: str, change: tuple[str, str], query: str | None, words: str
) -> None:
    with pytest.raises((InputError, ConfigError), match=words) as caught:
        triplets(postgresql.replace(*change), query=query)
    assert "/word" not in str(caught.value)
    assert "2Fword" not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.filterwarnings("ignore:.*one answer")
def test_many_rows_in_batches(postgresql: str) -> None:
    query = "select 'w' || g % 9 as worker, g as item, g % 2 as label from generate_series(1, {}) g"
    assert len(triplets(postgresql, query=query.format(300_000))) == 300_000
    with pytest.raises(InputError, match="--max-download"):
        triplets(postgresql, query=query.format(300_000), max_download=100_000)


def test_a_duckdb_file_is_called_what_it_is(tmp_path: Path) -> None:
    path = tmp_path / "a.duckdb"
    path.write_bytes(b"\0" * 8 + b"DUCK" + b"\0" * 600)
    with pytest.raises(InputError, match=r"a DuckDB database; .*write it as CSV or Parquet"):
        triplets(str(path))


def test_a_signal_ends_a_query(postgresql: str, tmp_path: Path) -> None:
    query = "select 'w' worker, 1 item, pg_sleep(60)::text label"
    words = ["aggregate", postgresql, "--query", query, "-o", str(tmp_path / "l.csv")]
    with subprocess.Popen([sys.executable, "-m", "misc_cli", *words]) as process:
        time.sleep(3)
        assert process.poll() is None
        process.terminate()
        assert process.wait(1.5) == 143


def test_arrays_are_lists_of_choices(postgresql: str) -> None:
    query = "select worker, item, array['a', 'b'] as label from votes order by 1, 2"
    assert triplets(postgresql, query=query, multi="set")[0] == ("ann", "1", "a|b")


def test_postgresql_runs_one_select_and_no_program(postgresql: str, tmp_path: Path) -> None:
    written = Path("/tmp") / f"{tmp_path.name}-program"
    program = f"copy (select 1) to program 'touch {written}'"
    for query in (program, f"select 1; {program}", f"with x as (select 1) {program}"):
        with pytest.raises((InputError, ConfigError)):
            triplets(postgresql, query=query)
    lax = f"{postgresql}?options=-c%20default_transaction_read_only%3Doff"
    with pytest.raises(InputError, match="read-only"):
        triplets(lax, query="select setval('s', 1) worker, 1 item, 1 label")
    assert not written.exists()


def test_postgresql_by_a_socket(postgresql: str) -> None:
    from urllib.parse import urlsplit

    from adbc_driver_postgresql import dbapi

    with dbapi.connect(postgresql) as connection, connection.cursor() as cursor:
        cursor.execute("select current_setting('unix_socket_directories')")
        ((folder,),) = cursor.fetchall()
    place = f"host={folder}&port={urlsplit(postgresql).port}&user=ann&password=s3cret%2Fword"
    assert triplets(f"postgresql:///postgres?{place}", query=QUERY) == ROWS


def test_s3(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that knows one object and checks nothing plays the store."""
    pytest.importorskip("s3fs", reason="misc-cli[remote] is not installed")
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
    openpyxl = pytest.importorskip("openpyxl", reason="misc-cli[excel] is not installed")
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
    with pytest.raises(InputError, match="--max-download"):
        triplets(str(path), max_download=100)
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(InputError):
        triplets(str(path))


def test_a_workbook_with_one_cell_far_out(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl", reason="misc-cli[excel] is not installed")
    book = openpyxl.Workbook()
    book.active.append(["worker", "item", "label"])
    book.active["XFD1048576"] = "x"
    book.save(tmp_path / "far.xlsx")
    with pytest.raises(InputError, match=r"more than 50,000,000 cells"):
        triplets(str(tmp_path / "far.xlsx"))
