"""Addresses: a local server plays the web; secrets never show."""

from __future__ import annotations

import base64
import hashlib
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from misc_cli.errors import ConfigError, InputError
from misc_cli.readers import remote
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.read import read_answer_columns
from misc_cli.redaction import hide_secrets, redact

ROWS = b"worker,item,label\nw1,i1,cat\nw2,i1,dog\n"
Answer = Callable[[BaseHTTPRequestHandler, int], None]


def send(handler: BaseHTTPRequestHandler, code: int, body: bytes = b"", **headers: str) -> None:
    handler.send_response(code)
    for name, value in {"Content_Length": str(len(body)), **headers}.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(body)


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Answer], str]]:
    """A function that starts a server with one answer and gives its address."""
    monkeypatch.setattr("misc_cli.readers.remote.time.sleep", lambda _: None)
    monkeypatch.setenv("NETRC", "/nonexistent")
    servers = []

    def start(answer: Answer) -> str:
        counts = iter(range(1, 1000))

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                answer(self, next(counts))

            def log_message(self, *_: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def test_a_table_behind_an_address(serve: Callable[[Answer], str]) -> None:
    address = serve(lambda handler, _: send(handler, 200, ROWS)) + "/a.csv?token=abc"
    result = read_answer_columns([address])
    assert result.answers.label.to_pylist() == ["cat", "dog"]
    (file,) = result.files
    assert file.sha256 == hashlib.sha256(ROWS).hexdigest()
    assert file.name.endswith("/a.csv?token=***")


def test_passing_faults_are_tried_again(serve: Callable[[Answer], str]) -> None:
    def answer(handler: BaseHTTPRequestHandler, count: int) -> None:
        if count == 1:
            send(handler, 503, Retry_After="1")
        elif count == 2:
            send(handler, 200, ROWS[:-4], Content_Length=str(len(ROWS)))
        else:
            send(handler, 200, ROWS)

    assert remote.fetch(serve(answer), ReadOptions()) == ROWS


@pytest.mark.parametrize(
    ("code", "words"),
    [(404, "HTTP 404"), (401, "netrc"), (403, "may read it"), (500, "tried 4 times")],
)
def test_faults_that_stay(serve: Callable[[Answer], str], code: int, words: str) -> None:
    with pytest.raises(InputError, match=words):
        remote.fetch(serve(lambda handler, _: send(handler, code)), ReadOptions())


@pytest.mark.parametrize("told", [True, False])
def test_the_size_limit(serve: Callable[[Answer], str], told: bool) -> None:
    def answer(handler: BaseHTTPRequestHandler, _: int) -> None:
        if told:
            return send(handler, 200, ROWS)
        handler.send_response(200)  # no length: the body ends with the connection
        handler.end_headers()
        handler.wfile.write(ROWS)

    address = serve(answer)
    with pytest.raises(InputError, match="--max-download"):
        remote.fetch(address, ReadOptions(max_download=10))
    assert remote.fetch(address, ReadOptions(max_download=len(ROWS))) == ROWS


def test_a_server_that_stalls(serve: Callable[[Answer], str]) -> None:
    release = threading.Event()

    def stall(_: BaseHTTPRequestHandler, __: int) -> None:
        release.wait(5)

    address = serve(stall)
    with pytest.raises(InputError, match="timed out"):
        remote.fetch(address, ReadOptions(net_timeout=0.05))
    release.set()


def test_nobody_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("misc_cli.readers.remote.time.sleep", lambda _: None)
    with pytest.raises(InputError, match=r"refused.*\(tried 4 times\)"):
        remote.fetch("http://127.0.0.1:9/x", ReadOptions())


def test_a_login_goes_to_its_own_server_only(
    serve: Callable[[Answer], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def note(handler: BaseHTTPRequestHandler, _: int) -> None:
        seen.append(handler.headers.get("Authorization"))
        send(handler, 200, ROWS)

    other = serve(note).replace("127.0.0.1", "localhost")

    def send_on(handler: BaseHTTPRequestHandler, _: int) -> None:
        seen.append(handler.headers.get("Authorization"))
        send(handler, 302, Location=other)

    first = serve(send_on)
    expected = "Basic " + base64.b64encode(b"ann:pa/ss").decode()
    remote.fetch(first.replace("//", "//ann:pa%2Fss@"), ReadOptions())
    assert seen == [expected, None]
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login ann password pa/ss\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    remote.fetch(first, ReadOptions())
    assert seen[2:] == [expected, None]


@pytest.mark.parametrize("address", ["ftp://x/y.csv", "foo://x"])
def test_unknown_schemes(address: str) -> None:
    with pytest.raises(ConfigError, match="no way to read"):
        read_answer_columns([address])


@pytest.mark.parametrize("address", ["http://", "http://[::1/x", "http://x y/z", "http://x:port/"])
def test_addresses_that_are_none(address: str) -> None:
    with pytest.raises(InputError):
        remote.fetch(address, ReadOptions(net_timeout=1))


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("https://ann:s3cret@x.org/a.csv", "https://***@x.org/a.csv"),
        (
            "postgresql://ann:s3cret@h:5432/db?sslmode=off",
            "postgresql://***@h:5432/db?sslmode=off",
        ),
        ("https://x.org/a?format=csv&api_key=abc#t", "https://x.org/a?format=csv&api_key=***#t"),
        (
            "https://b/k?X-Amz-Signature=ff&X-Amz-Date=2",
            "https://b/k?X-Amz-Signature=***&X-Amz-Date=2",
        ),
        ("https://x/a?sv=2020&u=Zm9vYmFyMTIzNDU2Nzg5MGFi", "https://x/a?sv=2020&u=***"),
        ("--gold=https://a:b@x/y", "--gold=https://***@x/y"),
        ("sqlite:////tmp/x.db", "sqlite:////tmp/x.db"),
        ("http://a:b@[::1/x", "http://***@[::1/x"),
        ("answers.csv", "answers.csv"),
        ("a@b:c", "a@b:c"),
    ],
)
def test_secrets_are_hidden(address: str, shown: str) -> None:
    assert redact(address) == shown
    if "s3cret" in address:
        assert "s3cret" not in hide_secrets(f"cannot open {address} with s3cret", [address])


def test_a_redirect_on_the_same_host_keeps_the_login(serve: Callable[[Answer], str]) -> None:
    seen = []

    def answer(handler: BaseHTTPRequestHandler, at: int) -> None:
        seen.append(handler.headers.get("Authorization"))
        if at > 1:
            send(handler, 200, ROWS)
        else:
            send(handler, 302, Location="/there")

    remote.fetch(serve(answer).replace("//", "//ann:pass@"), ReadOptions())
    assert seen[0] == seen[1] is not None


def test_headers_that_never_end_have_a_deadline(serve: Callable[[Answer], str]) -> None:
    ended = threading.Event()

    def drip(handler: BaseHTTPRequestHandler, _: int) -> None:
        with suppress(OSError):
            handler.wfile.write(b"HTTP/1.1 200 OK\r\nX: ")
            while not ended.wait(0.02):
                handler.wfile.write(b"x")

    began = time.monotonic()
    with pytest.raises(InputError, match="too slow, not done after 6 s"):
        remote.fetch(serve(drip), ReadOptions(net_timeout=0.1))
    assert time.monotonic() - began < 8
    ended.set()


def test_lines_and_columns_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.csv"
    path.write_text("worker,item,label\n" + ",".join(f"c{at}" for at in range(200_000)))
    monkeypatch.setattr("misc_cli.readers.source.LONGEST_LINE", 1 << 20)
    with pytest.raises(InputError, match=r"a.csv, line 2: longer than 1 MiB"):
        read_answer_columns([str(path)])
    path.write_text(",".join(f"c{at}" for at in range(100_002)) + "\n")
    with pytest.raises(InputError, match="more than 100,000 columns"):
        read_answer_columns([str(path)])
