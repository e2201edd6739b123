"""Input that lies, changes, never ends or is damaged: refused in one line, never read wrong."""

from __future__ import annotations

import csv
import gzip
import io
import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from misc_cli.__main__ import run
from misc_cli.errors import InputError
from misc_cli.readers import source
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.read import read_answer_columns
from tests.cli.test_process import MISC

ROWS = [(f"w{n % 7}", f"i{n // 5}", "xy"[n % 3 % 2]) for n in range(200)]
PLAIN = "worker,item,label\n" + "".join(f"{w},{i},{v}\n" for w, i, v in ROWS)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def n_read(text: str, quotes_span_lines: bool = False) -> int:
    Path("answers.csv").write_text(text, newline="")
    return len(
        read_answer_columns(
            ["answers.csv"], ReadOptions(quotes_span_lines=quotes_span_lines)
        ).answers
    )


def test_two_stray_quotes_never_swallow_rows() -> None:
    """At the start or the end of a cell, where a parser takes them for quotes of a cell."""
    rng = random.Random(15)
    starts = [at + 1 for at, c in enumerate(PLAIN) if c in ",\n" and at > 17][:-1]
    for _ in range(300):
        opening = rng.choice(starts)
        closing = rng.choice([at for at, c in enumerate(PLAIN) if c in ",\n" and at > opening])
        text = PLAIN[:opening] + '"' + PLAIN[opening:closing] + '"' + PLAIN[closing:]
        if "\n" not in PLAIN[opening:closing]:
            continue  # a cell in quotes, or a row that is too short
        with pytest.raises(InputError, match=r"line \d+"):
            n_read(text)


@pytest.mark.parametrize(
    ("bad", "line"),
    [
        ('w1,"i1"x,y\n', 202),
        ('w1,"i1" ,y\n', 202),
        ('w1,"i1"é,y\n', 202),
        ('w1,"i1,y\nw2,i2,y\nw3,"i3,y\n', 202),
        ('w1,"i1,y\nw2,i2,y\n', 202),
        ('w1,"i1,y\nw2,i2",y\n', 202),
    ],
)
def test_a_stray_quote_is_said_with_its_line(bad: str, line: int) -> None:
    with pytest.raises(InputError, match=f"line {line}:"):
        n_read(PLAIN + bad)


def test_quotes_that_are_meant_are_read() -> None:
    assert n_read(PLAIN + 'w1,5" pipe,x\nw1,"say ""hi""",y\nw2,"two\nlines",x\n') == 203
    assert n_read(PLAIN + 'w1,"i1,y\nw2,i2",y\n', quotes_span_lines=True) == 201
    long = "\n".join(["no comma"] * 1500)
    with pytest.raises(InputError, match="--quotes-span-lines"):
        n_read(f'{PLAIN}w1,"{long}",x\n')
    assert n_read(f'{PLAIN}w1,"{long}",x\n', quotes_span_lines=True) == 201
    stream = io.StringIO(newline="")
    csv.writer(stream, quoting=csv.QUOTE_ALL).writerows([("worker", "item", "label"), *ROWS])
    assert n_read(stream.getvalue()) == 200


def test_a_file_that_changes_while_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Truncated, rewritten or appended to after each piece: refused, and never a crash."""
    path = Path("answers.csv")
    monkeypatch.setattr(source, "PIECE", 16)
    fstat = os.fstat

    for change in ("truncate", "rewrite", "append"):
        path.write_text(PLAIN)
        old = time.time() - 60
        os.utime(path, (old, old))
        calls = 0

        def watched(number: int, change: str = change) -> os.stat_result:
            nonlocal calls
            calls += 1
            found = fstat(number)
            if calls == 1:  # after the size was asked for
                if change == "truncate":
                    os.truncate(path, 1000)
                else:
                    with path.open("r+" if change == "rewrite" else "a") as stream:
                        stream.write("w9,i9,z\n")
            return found

        monkeypatch.setattr(os, "fstat", watched)
        with pytest.raises(InputError, match="changed while it was read"):
            read_answer_columns(["answers.csv"])
        monkeypatch.setattr(os, "fstat", fstat)
    path.write_text(PLAIN)
    assert len(read_answer_columns(["answers.csv"]).answers) == 200


def test_a_file_cut_short_under_a_run_is_no_crash() -> None:
    rows = "".join(f"w{n % 9},i{n // 5},{n % 2}\n" for n in range(400_000))
    path = Path("large.csv")
    for delay in (0.35, 0.45, 0.6):
        path.write_text("worker,item,label\n" + rows)
        timer = threading.Timer(delay, os.truncate, (path, 4096))
        timer.start()
        words = [*MISC, "aggregate", "large.csv", "--aggregator", "mv", "-q"]
        done = subprocess.run(words, capture_output=True, check=False)
        timer.join()
        assert done.returncode in (0, 2), done.stderr


@pytest.mark.parametrize("packed", [True, False])
def test_what_never_ends_has_a_limit(packed: bool, capfd: pytest.CaptureFixture[str]) -> None:
    name = "/dev/zero"
    if packed:
        name = "bomb.csv.gz"
        with gzip.open(name, "wb") as stream:
            stream.write(PLAIN.encode() + b"w1,i1,x\n" * 2_000_000)
    assert run(["aggregate", name, "-p", "max-input=8M"]) == 2
    assert "raise --max-input" in capfd.readouterr().err
    if packed:
        assert run(["aggregate", name, "-p", "max-input=20M", "--aggregator", "mv", "-q"]) == 0


BAD_JSON = {
    "surrogate": b'[{"worker": "a", "item": "b", "label": "\\ud800"}]',
    "surrogate name": b'[{"worker": "a", "item": "b", "label\\ud800": "c", "label": "c"}]',
    "deep list": b'[{"worker": ' + b"[" * 100_000 + b"]" * 100_000 + b"}]",
    "deep object": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
}


@pytest.mark.parametrize("case", BAD_JSON)
@pytest.mark.parametrize("command", ["aggregate", "evaluate"])
def test_damaged_json(case: str, command: str, capfd: pytest.CaptureFixture[str]) -> None:
    for suffix in ("json", "jsonl"):
        name = f"bad.{suffix}"
        Path(name).write_bytes(BAD_JSON[case])
        assert run([command, name, *([name] if command == "evaluate" else [])]) == 2
        assert capfd.readouterr().err.count("\n") == 1


def test_odd_parquet(capfd: pytest.CaptureFixture[str]) -> None:
    columns = [pa.array(["a", "b"]), pa.array(["i", "i"]), pa.array(["x", "y"]), pa.array([1, 2])]
    parquet.write_table(
        pa.table(columns, names=["worker", "item", "label", "label"]), "two.parquet"
    )
    assert run(["aggregate", "two.parquet", "-q"]) in (0, 2)
    parquet.write_table(pa.table(columns[:3], names=["worker", "item", "label"]), "ok.parquet")
    whole = Path("ok.parquet").read_bytes()
    rng = random.Random(0)
    for _ in range(30):
        damaged = bytearray(whole)
        for _ in range(3):
            damaged[rng.randrange(4, len(whole))] ^= 1 << rng.randrange(8)
        Path("bad.parquet").write_bytes(damaged)
        assert run(["evaluate", "bad.parquet", "ok.parquet"]) in (0, 2)
        assert run(["aggregate", "bad.parquet", "-q", "--aggregator", "mv"]) in (0, 2)
    assert "defect" not in capfd.readouterr().err


@pytest.mark.parametrize(
    "encoding", ["base64", "rot13", "punycode", "undefined", "hex", "idna", "zlib", "no such", ""]
)
def test_encodings_that_are_none(encoding: str, capfd: pytest.CaptureFixture[str]) -> None:
    Path("answers.csv").write_text(PLAIN)
    assert run(["aggregate", "answers.csv", "-q", "--encoding", encoding]) in (0, 2)
    assert "defect" not in capfd.readouterr().err
    Path("odd.csv").write_bytes(b"worker,item,label\na,b,+2AA-\n")  # half a character in UTF-7
    assert run(["aggregate", "odd.csv", "--encoding", "utf-7"]) == 2


def test_stdin_may_be_a_file_that_was_read_in_part() -> None:
    Path("answers.csv").write_text("a line before\n" + PLAIN)
    line = (
        f"(read first; '{sys.executable}' -m misc_cli aggregate - --aggregator mv -q) < answers.csv"
    )
    repo = str(Path(__file__).resolve().parents[2])
    done = subprocess.run(
        ["bash", "-c", line],
        capture_output=True,
        check=True,
        env={**os.environ, "PYTHONPATH": repo},
    )
    assert done.stdout.startswith(b"item,label,confidence\ni0,")


def test_half_a_character_in_json_within_a_cell_is_refused() -> None:
    rows = ["id,annotator,annotation_id,mood", '1,a,1,"{""choices"": [""\\ud800"", ""x""]}"']
    Path("answers.csv").write_text("\n".join([*rows, '1,b,2,"{""choices"": [""x"", ""y""]}"', ""]))
    with pytest.raises(InputError, match="half a character"):
        read_answer_columns(["answers.csv"], ReadOptions(multi="set"))
