"""A database as input: SQLite, which the standard library brings along."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from misc_cli.errors import ConfigError, InputError, MiscError
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.read import read_answer_columns
from misc_cli.readers.remote import BATCH_ROWS


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "answers.db"
    connection = sqlite3.connect(path)
    connection.execute("create table votes (rater text, picture integer, verdict real, at text)")
    rows = [("ann", 1, 1.0, "x"), ("bob", 1, 2.5, "x"), ("ann", 2, None, "y")]
    connection.executemany("insert into votes values (?, ?, ?, ?)", rows)
    connection.commit()
    connection.close()
    return path


def triplets(address: str, **options: str) -> list[tuple[str, str, str]]:
    answers = read_answer_columns([address], ReadOptions(**options)).answers  # type: ignore[arg-type]
    columns = (answers.worker, answers.item, answers.label)
    return list(zip(*(column.to_pylist() for column in columns), strict=True))


QUERY = "select rater as worker, picture as item, verdict as label from votes order by 1, 2"


def test_a_query(database: Path) -> None:
    expected = [("ann", "1", "1.0"), ("ann", "2", ""), ("bob", "1", "2.5")]
    assert triplets(f"sqlite:///{database}", query=QUERY) == expected
    assert triplets(str(database), query=QUERY) == expected


def test_the_only_table_needs_no_query(database: Path) -> None:
    names = {"worker_col": "rater", "item_col": "picture", "label_col": "verdict"}
    assert len(triplets(f"sqlite:///{database}", **names)) == 3
    connection = sqlite3.connect(database)
    connection.execute("create table other (x)")
    connection.close()
    with pytest.raises(ConfigError, match=r"2 tables \(other, votes\).*--query"):
        triplets(f"sqlite:///{database}")


@pytest.mark.filterwarnings("ignore:.*one class only", "ignore:.*one answer")
def test_many_batches_and_the_hash_of_the_rows(tmp_path: Path) -> None:
    rows = [(f"w{at % 7}", f"i{at}", "yes") for at in range(BATCH_ROWS + 5)]
    hashes = set()
    for name, kept in (("a.db", rows), ("b.db", rows), ("c.db", rows[:-1])):
        connection = sqlite3.connect(tmp_path / name)
        connection.execute("create table answers (worker, item, label)")
        connection.executemany("insert into answers values (?, ?, ?)", kept)
        connection.commit()
        connection.close()
        result = read_answer_columns([f"sqlite:///{tmp_path / name}"])
        assert len(result.answers.label) == len(kept)
        hashes.add(result.files[0].sha256)
    assert len(hashes) == 2


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("select * from nowhere", "no such table"),
        ("delete from votes", "one select"),
        ("select * from votes where 0", "no rows"),
    ],
)
def test_queries_that_fail(database: Path, query: str, words: str) -> None:
    with pytest.raises(MiscError, match=words):
        triplets(f"sqlite:///{database}", query=query)


@pytest.mark.parametrize("address", ["sqlite:///nowhere.db", "sqlite://x/y.db", "sqlite://"])
def test_addresses_that_fail(address: str) -> None:
    with pytest.raises((ConfigError, InputError)):
        triplets(address, query="select 1")


def test_the_size_limit(database: Path) -> None:
    with pytest.raises(InputError, match="--max-download"):
        read_answer_columns([f"sqlite:///{database}"], ReadOptions(query=QUERY, max_download=8))


def test_the_manifest_keeps_no_secret(tmp_path: Path) -> None:
    """The password of an address is neither printed nor written, whatever becomes of the run."""
    path = tmp_path / "a.db"
    connection = sqlite3.connect(path)
    connection.execute("create table answers (worker, item, label)")
    rows = [(f"w{at % 3}", f"i{at // 3}", "yn"[at % 2]) for at in range(30)]
    connection.executemany("insert into answers values (?, ?, ?)", rows)
    connection.commit()
    connection.close()
    address = f"sqlite:///{path}?token=s3cret"
    words = ["aggregate", address, "--aggregator", "mv", "-o", str(tmp_path / "labels.csv")]
    command = [sys.executable, "-m", "misc_cli", *words, "--verbose", "--log-file", "-"]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    text = (tmp_path / "labels.run.json").read_text()
    assert "s3cret" not in text + ended.stdout + ended.stderr
    assert json.loads(text)["inputs"][0]["name"].endswith("?token=***")


@pytest.mark.parametrize(
    "query",
    [
        "vacuum into 'copy.db'",
        "attach 'file:new.db?mode=rwc' as other",
        "pragma journal_mode=wal",
        "select load_extension('x')",
        "with x as (select 1) delete from votes",
        "select 1; select 2",
    ],
)
def test_only_a_select_is_run(database: Path, query: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(database.parent)
    with pytest.raises(MiscError):
        triplets("answers.db", query=query)
    assert [path.name for path in database.parent.iterdir()] == ["answers.db"]


def test_a_signal_or_the_deadline_ends_an_endless_query(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "loop.db")
    connection.execute(
        "create view v as with recursive c(x) as (select 1 union all select x + 1 from c) "
        "select 'w' worker, x item, 'l' label from c where x < 0"
    )
    connection.close()
    began = time.monotonic()
    with pytest.raises(InputError, match=r"not done after 1 s \(see --net-timeout\)"):
        triplets(str(tmp_path / "loop.db"), net_timeout=1 / 60)  # type: ignore[arg-type]
    assert time.monotonic() - began < 3
    words = ["aggregate", str(tmp_path / "loop.db"), "-o", str(tmp_path / "l.csv")]
    with subprocess.Popen([sys.executable, "-m", "misc_cli", *words]) as process:
        time.sleep(2)
        assert process.poll() is None
        process.terminate()
        assert process.wait(1.5) == 143


@pytest.mark.parametrize(
    "query",
    [
        "attach 'other.db' as o; select * from o.answers",
        "select 1; drop table answers",
        "insert into answers values ('w', 'i', 'x')",
        "pragma journal_mode = wal",
        "",
    ],
)
def test_a_query_is_one_select(tmp_path: Path, query: str) -> None:
    path = tmp_path / "a.db"
    connection = sqlite3.connect(path)
    connection.execute("create table answers (worker, item, label)")
    connection.executemany(
        "insert into answers values (?, ?, ?)", [("w", "i", "x"), ("v", "i", "y")]
    )
    connection.commit()
    connection.close()
    with pytest.raises(MiscError, match="one select"):
        read_answer_columns([str(path)], ReadOptions(query=query or " ; "))
    said = "with a as (select *, ';' as mark from answers) select worker, item, label from a"
    assert len(read_answer_columns([str(path)], ReadOptions(query=said)).answers) == 2
