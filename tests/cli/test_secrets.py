"""No secret of an address reaches a message, a log, a record or a page."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from misc_cli.__main__ import run
from tests.conftest import REPO

ANSWERS = REPO / "sample_data" / "answers.csv"
S = "Sup3rS3cret"
PASSWORDS = [
    *(
        S,
        f"{S}/x",
        f"x/{S}",
        f"x#{S}",
        f"x?{S}",
        f"x@{S}",
        f"{S}@x",
        f"x@{S}/y",
        f"x:{S}",
        f"1/{S}",
    ),
    *(f"x?{S}=1", f"x?a=1&b={S}", f"{S}%2Fx", f"{S}'x", f"x[{S}]"),
]
SHAPES = [
    *(f"http://ann:{password}@127.0.0.1:9/a.csv" for password in PASSWORDS),
    *(f"postgresql://ann:{password}@127.0.0.1:9/db" for password in PASSWORDS),
    f"https://{S}@127.0.0.1:9/a.csv",
    f"https://{S}:@127.0.0.1:9/a.csv",
    f"https://{S}:x-oauth-basic@127.0.0.1:9/a.csv",
    f"http://127.0.0.1:9/a.csv?token={S}",
    f"http://127.0.0.1:9/a.csv?x=1&sig={S}&y=2",
    f"http://127.0.0.1:9/a.csv?X-Amz-Credential=a&X-Amz-Signature={S}",
    f"http://127.0.0.1:9/a.csv?api_key={S}#t",
    f"http://127.0.0.1:9/a.csv#access_token={S}",
    f"http://127.0.0.1:9/a.csv?u={S}{S}",
    f"s3://AKIAKEY:{S}@bucket/x.csv?endpoint_override=127.0.0.1:9&scheme=http",
    f"s3://AKIAKEY:x/{S}@bucket/x.csv",
    f"s3://bucket/x.csv?secret_key={S}",
    f"ftp://ann:{S}@127.0.0.1/a.csv",
    f"sqlite:///none.db?token={S}",
]
COMMANDS = [
    ["aggregate", "{}", "-o", "labels.csv", "--aggregator", "mv"],
    ["aggregate", "{}", "--engine", "disk", "--aggregator", "mv"],
    ["aggregate", "answers.csv", "--gold", "{}", "-o", "labels.csv", "--aggregator", "mv"],
    ["aggregate", "answers.csv", "-o", "{}", "--aggregator", "mv"],
    ["aggregate", "answers.csv", "--label-col", "{}", "--delimiter", "{}"],
    ["aggregate", "{}", "--no-such-flag"],
    ["inspect", "{}"],
    ["compare", "{}"],
    ["queue", "{}"],
    ["rerun", "{}"],
    ["report", "{}", "-o", "page.html"],
    ["verify", "{}"],
    ["diff", "{}", "{}"],
    ["{}"],
]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    shutil.copy(ANSWERS, "answers.csv")
    return tmp_path


def written(folder: Path) -> str:
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != "answers.csv"]
    return "".join(path.read_text(errors="replace") for path in files)


@pytest.mark.parametrize("address", SHAPES)
def test_no_secret_is_told_by_a_command_that_fails(
    address: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    for command in COMMANDS:
        words = [word.format(address) for word in command]
        words += [] if len(words) == 1 else ["-p", "net-timeout=1s"] * (words[0] in READING)
        words += ["--log-file", "misc.log"] * (words[0] not in ("diff", "verify", address))
        monkeypatch.setattr("sys.argv", ["misc", *words])
        monkeypatch.setattr("misc_cli.readers.remote.time.sleep", lambda _: None)
        run(words)
        said = capfd.readouterr()
        assert S.lower() not in (said.out + said.err + written(folder)).lower(), words


READING = ("aggregate", "inspect", "compare", "queue")


def test_no_secret_is_told_by_a_run_that_is_done(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Neither by its record, page and log, nor by commands that are given its files."""
    import sqlite3

    table = sqlite3.connect("a.db")
    table.execute("create table t (worker, item, label)")
    table.executemany(
        "insert into t values (?, ?, ?)",
        [(f"w{at % 3}", at // 3, "xy"[at % 2]) for at in range(60)],
    )
    table.commit()
    second = f"/* http://a:b@h/ */ select * from t where label != 'postgresql://u:{S}@h/d?key={S}'"
    address = f"sqlite:///a.db?token={S}"
    log = ["--log-file", "misc.log", "-v"]
    for words in (
        ["aggregate", address, "--query", second, "-o", "l.csv", "--report", "l.html", *log],
        ["inspect", address, "--query", second, *log],
        ["inspect", address, "--query", second, "--json"],
        ["compare", address, "--query", second, "-o", "c.csv", *log],
        ["rerun", "l.run.json", *log],
        ["report", "l.run.json", "-o", "p.html", *log],
        ["verify", "l.run.json"],
        ["workers", "l.run.json", *log],
    ):
        monkeypatch.setattr("sys.argv", ["misc", *words])
        run(words)
        said = capfd.readouterr()
        assert S.lower() not in (said.out + said.err + written(folder)).lower(), words
    assert json.loads(Path("l.run.json").read_text())["inputs"][0]["name"] == (
        "sqlite:///a.db?token=***"
    )
