"""Fetching: what is kept is exactly the published data, and nothing else is ever kept."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote

import pytest

from misc_cli.errors import ConfigError, InputError
from misc_cli.paper import datasets
from tests.conftest import dataset_folder

# How the publishers wrote the same rows: separator, line end, and whether the last line has one.
LAYOUT = {
    "web": ("\t", "\r\n", True),
    "bm": ("\t", "\n", True),
    "rte": ("\t", "\n", True),
    "dog": ("\t", "\n", True),
    "temp": (",", "\r\n", True),
    "bluebirds": ("\t", "\r\n", False),
    **dict.fromkeys(("product", "face", "ms", "cf"), (",", "\n", True)),
}


def published(name: str) -> dict[str, bytes]:
    """The published files rebuilt from the converted ones; the checksums say if we got it right."""
    separator, end, last = LAYOUT[name]
    folder = dataset_folder(name)
    tables = {}
    for file in ("answers.csv", "truth.csv"):
        lines = (folder / file).read_text().splitlines()
        tables[file] = [
            dict(zip(lines[0].split(","), r.split(","), strict=True)) for r in lines[1:]
        ]
    if name == "dog":  # its truth has a row for every answer
        truth = {row["item"]: row for row in tables["truth.csv"]}
        tables["truth.csv"] = [truth[row["item"]] for row in tables["answers.csv"]]
    files = {}
    for file, source in datasets.get(name).files.items():
        rows = [separator.join(row[column] for column in source.columns) for row in tables[file]]
        if source.header:
            rows.insert(0, ",".join(source.columns).replace("item,label", "item,truth"))
        files[quote(source.path)] = (end.join(rows) + (end if last else "")).encode()
    return files


class Publisher:
    """A web server on this machine that serves, refuses or truncates files."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.truncate = False
        publisher = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                content = publisher.files.get(self.path)
                if content is None:
                    self.send_error(404)
                    return
                self.send_response(200)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content[: len(content) // 2] if publisher.truncate else content)

            def log_message(self, format: str, *arguments: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()

    def publish(self, name: str) -> None:
        known = datasets.get(name)
        for path, content in published(name).items():
            self.files[f"/{known.repository}/{known.commit}/{path}"] = content

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def publisher() -> Iterator[Publisher]:
    server = Publisher()
    yield server
    server.close()


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def kept(cache: Path) -> list[Path]:
    return [path for path in cache.rglob("*") if path.is_file()]


@pytest.mark.parametrize("name", LAYOUT)
def test_fetch_converts_the_published_files_byte_for_byte(name: str, publisher: Publisher) -> None:
    publisher.publish(name)
    folder = datasets.fetch(name, base_url=publisher.url)
    for file in ("answers.csv", "truth.csv"):
        assert (folder / file).read_bytes() == (dataset_folder(name) / file).read_bytes()
    assert datasets.locate(name) == folder
    publisher.files.clear()  # a copy that is there is not downloaded again
    assert datasets.fetch(name, base_url=publisher.url) == folder


def test_altered_file_is_refused_and_nothing_kept(publisher: Publisher, own_cache: Path) -> None:
    publisher.publish("rte")
    truth = next(path for path in publisher.files if path.endswith("truth.txt"))
    publisher.files[truth] = publisher.files[truth].replace(b"\t1\n", b"\t2\n", 1)
    with pytest.raises(InputError, match=r"rte_truth.txt: SHA-256 is .* expected 0782ff"):
        datasets.fetch("rte", base_url=publisher.url)
    assert kept(own_cache) == []


def test_half_a_download_is_refused_and_nothing_kept(publisher: Publisher, own_cache: Path) -> None:
    publisher.publish("rte")
    publisher.truncate = True
    with pytest.raises(InputError, match="IncompleteRead"):
        datasets.fetch("rte", base_url=publisher.url)
    assert kept(own_cache) == []


def test_missing_file_and_missing_network_are_errors_that_say_so(
    publisher: Publisher, own_cache: Path
) -> None:
    with pytest.raises(InputError, match="404"):
        datasets.fetch("web", base_url=publisher.url)
    publisher.close()
    with pytest.raises(InputError, match=r"cannot be had .*refused"):
        datasets.fetch("web", base_url=publisher.url)
    assert kept(own_cache) == []


def test_a_folder_that_has_them_needs_no_network(tmp_path: Path) -> None:
    shared = dataset_folder("temp").parent
    with pytest.raises(InputError, match="misc datasets fetch temp"):
        datasets.locate("temp")
    assert datasets.locate("temp", shared) == shared / "temp"
    with pytest.raises(InputError, match=r"answers.csv: no such file; .*--from"):
        datasets.locate("temp", tmp_path)


def test_unknown_name() -> None:
    with pytest.raises(ConfigError, match="there are web, bm, rte, dog, temp, bluebirds"):
        datasets.get("cats")
