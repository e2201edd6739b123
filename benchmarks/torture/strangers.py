"""Files, folders, settings and records of strangers: nothing of ours is overwritten, told or run.

Each section is a table. After every try what was there is byte for byte the same, no new file is
where none was asked for, the exit code is an allowed one, and no escape or secret is told.
"""

from __future__ import annotations

import bz2
import copy
import gzip
import hashlib
import io
import json
import os
import random
import resource
import shutil
import sqlite3
import time
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from torture.harness import Ended, Tally, answers, attempt, folder

MV = ["--aggregator", "mv"]
SECRET = "Sup3rS3cret"
VICTIM = "victim/.bashrc"
SET = {"l.csv", "l.run.json", "l.diagnostics.jsonl", "out", "err"}  # what a try may write


def prepare() -> None:
    """Make answers in every place, an earlier run, a state, a database and somebody's file."""
    for name in ("fold", "victim"):
        Path(name).mkdir()
    for name in ("fold/a.csv", "fold/b.csv", "in.csv"):
        Path(name).write_text(answers())
    Path(VICTIM).write_text("# mine\n")
    Path("truth.csv").write_text("item,label\ni1,a\ni2,b\n")
    Path("c.toml").write_text("seed = 1\n")
    os.link("in.csv", "hard.csv")
    os.symlink("in.csv", "soft.csv")
    os.symlink("fold", "lfold")
    with sqlite3.connect("base.csv") as base:
        base.execute("create table t (worker, item, label)")
        rows = [line.split(",") for line in answers().splitlines()[1:]]
        base.executemany("insert into t values (?, ?, ?)", rows)
    base.close()
    loop = sqlite3.connect("loop.db")
    loop.execute(
        "create view v as with recursive c(x) as (select 1 union all select x + 1 from c) "
        "select 'w' worker, x item, 'l' label from c where x < 0"
    )
    loop.close()
    for words in (
        ["aggregate", "in.csv", *MV, "-o", "old.csv", "--workers", "w.csv", "--state", "st"],
        ["aggregate", "in.csv", *MV, "-o", "new.csv", "--probabilities"],
    ):
        ended = attempt(words)
        assert ended.code == 0, f"{words}: {ended}"


def there() -> dict[str, str]:
    """Return the digest of every plain file here but the harness's own."""
    files = [path for path in Path().rglob("*") if path.is_file() and str(path) not in SET]
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def tried(tally: Tally, words: list[str], codes: tuple[int, ...] = (2,), **more: Any) -> Ended:
    """Run once and check what every try must leave as it was."""
    before = there()
    ended = attempt(words, **more)
    after = there()
    told = ended.err + Path("out").read_text(errors="replace")
    wrong = [name for name in {*before, *after} if before.get(name) != after.get(name)]
    held = ended.code in codes and ended.is_allowed and not wrong and "\x1b" not in ended.err
    held = held and SECRET.lower() not in told.lower()
    tally.check(held, f"{words}: changed {wrong}: {ended}")
    for name in SET:
        Path(name).unlink(missing_ok=True)
    return ended


OUTPUTS: list[list[str]] = [
    *(["aggregate", source, *MV, "-o", "fold/b.csv"] for source in ("fold", "fold/*.csv", "lfold")),
    *(
        ["aggregate", "fold", *MV, "-o", "l.csv", flag, "fold/a.csv"]
        for flag in (
            "--workers",
            "--rejects",
            "--metrics",
            "--diagnostics",
            "--changes",
            "--log-file",
        )
    ),
    ["aggregate", "fold", *MV, "--engine", "disk", "-o", "fold/b.csv"],
    *(
        ["aggregate", "in.csv", *MV, "-o", name]
        for name in (
            "in.csv",
            "hard.csv",
            "soft.csv",
            "./in.csv",
            "fold/../in.csv",
            "/proc/self/cwd/in.csv",
        )
    ),
    *(
        ["aggregate", f"{scheme}:///base.csv", *MV, "-o", "base.csv"]
        for scheme in ("sqlite", "SQLITE", "SQLite")
    ),
    ["aggregate", "base.csv", *MV, "-o", "base.csv"],
    *(
        ["aggregate", "in.csv", *MV, "-o", "l.csv", flag, "truth.csv", "--workers", "truth.csv"]
        for flag in ("--truth", "--gold")
    ),
    *(
        ["aggregate", "in.csv", *MV, "--config", "c.toml", "-o", "l.csv", flag, "c.toml"]
        for flag in ("--metrics", "--log-file")
    ),
    *(
        ["aggregate", "in.csv", *MV, "-o", "old.csv", "--log-file", f"old.{end}"]
        for end in ("csv", "run.json", "diagnostics.jsonl")
    ),
    ["aggregate", "in.csv", *MV, "-o", "l.csv", "--state", "st", "--log-file", "st/state.json"],
    *(["inspect", name, "--log-file", name] for name in ("in.csv", "base.csv")),
    ["inspect", "fold", "--log-file", "fold/a.csv"],
    ["queue", "fold", *MV, "-o", "fold/b.csv"],
    ["queue", "old.run.json", "-o", "in.csv"],
    ["compare", "fold", "--aggregators", "mv", "--completers", "none", "-o", "fold/b.csv"],
    ["rerun", "old.run.json", "-o", "hard.csv"],
    *(
        ["report", "old.run.json", "-o", "p.html", "--log-file", name]
        for name in ("in.csv", "old.csv", "old.run.json")
    ),
    *(["diff", "old.csv", "new.csv", "--changes", name] for name in ("old.csv", "new.csv")),
    ["aggregate", "fold", *MV, "-o", "a.csv", "--keep-rejected", "fold", "--fail-if", "items>1"],
]


def identity() -> Tally:
    """Name inputs as outputs in every way: always refused, and they stay as they are."""
    tally = Tally("inputs named as outputs and logs")
    with folder():
        prepare()
        for words in OUTPUTS:
            tried(tally, words)
    return tally


PLACES = (
    *("log-file", "metrics", "diagnostics", "workers", "report", "changes", "rejects", "state"),
    *("keep-rejected", "output", "gold", "truth", "spill", "scheduler", "query"),
    *("answers", "engine", "log_file"),
)
ODD_TOML = (
    *("[1]", "[[1]]", "[]", "true", '""', '"\\u0000"', '"\\u001b[2J"', "1e308", "inf", "nan", "-1"),
    *("1979-05-27", "{a = 1}", "9223372036854775808", f'"{"x" * 5000}"', "9" * 5000, "[" * 90_000),
)
KEYS = ("seed", "header", "max-input", "class-order", "fail-if", "ranks", "no-answer", "where")


def settings(share: float) -> Tally:
    """Put settings into the current folder: none names a place, an odd one is an error."""
    tally = Tally("settings of a strange folder")
    lines = [f'{key} = "../{VICTIM}"' for key in PLACES]
    tries: list[tuple[str, tuple[int, ...]]] = [
        (head + line, (2,)) for head in ("", "[aggregate]\n") for line in lines
    ]
    tries += [(f"{key} = {value}", (0, 2)) for key in KEYS for value in ODD_TOML]
    with folder():
        prepare()
        for text, codes in tries[:: max(1, round(1 / share))]:
            Path("misc.toml").write_text(text)
            tried(tally, ["aggregate", "in.csv", *MV, "-o", "l.csv"], codes)
            Path("misc.toml").unlink()
    return tally


ODD_JSON: list[Any] = [
    *(None, True, -1, 3, 1e308, float("inf"), 10**400, "", "\0", "/etc/passwd", "/dev/zero"),
    *("x" * 5000, [], {}, [[]], {"a": {}}, ["a"], [None], "\ud800", "\x1b]0;x\x07", "tcp://e:1"),
]
RECORD_COMMANDS = [
    ["rerun", "x.run.json", "-o", "l.csv"],
    *([name, "x.run.json"] for name in ("workers", "items", "queue")),
    ["report", "x.run.json", "-o", "-"],
]


def ways(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the way to every value inside, of a list to the first two."""
    entries = list(value.items()) if isinstance(value, dict) else []
    entries += enumerate(value[:2]) if isinstance(value, list) else []
    for key, inside in entries:
        yield (*at, key)
        yield from ways(inside, (*at, key))


def changed(value: Any, rng: random.Random) -> Any:
    """Return a copy in which one value is odd or gone."""
    found = copy.deepcopy(value)
    *way, last = rng.choice(list(ways(found)))
    inside = found
    for key in way:
        inside = inside[key]
    if rng.random() < 0.25 and isinstance(inside, dict):
        del inside[last]
    else:
        inside[last] = rng.choice(ODD_JSON)
    return found


def replay(count: int) -> Tally:
    """Change one value of a run.json or, its sums right, of a state: refused, or done as asked."""
    from misc_cli.state import store

    tally = Tally("made-up records and states")
    rng = random.Random(11)
    with folder():
        prepare()
        attempt(["aggregate", "in.csv", "-o", "auto.csv", "--state", "sta", "--keep-settled"])
        records = [json.loads(Path(f"{name}.run.json").read_text()) for name in ("old", "auto")]
        states = {name: json.loads(Path(name, "state.json").read_text()) for name in ("st", "sta")}
        for number in range(count):
            if number % 3:
                Path("x.run.json").write_text(json.dumps(changed(rng.choice(records), rng)))
                tried(tally, rng.choice(RECORD_COMMANDS), (0, 2))
                continue
            name = rng.choice(list(states))
            shutil.copytree(name, "x")
            whole = changed({k: states[name][k] for k in ("about", "files")}, rng)
            whole = {"about": {}, "files": {}, **whole, "format": store.FORMAT}
            told = json.dumps([whole["about"], whole["files"]], sort_keys=True)
            whole["sha256"] = hashlib.sha256(told.encode()).hexdigest()
            Path("x/state.json").write_text(json.dumps(whole))
            ended = attempt(["aggregate", "in.csv", "fold/a.csv", "-o", "l.csv", "--state", "x"])
            tally.check(ended.is_allowed and ended.code in (0, 2), f"{whole}: {ended}"[:600])
            shutil.rmtree("x")
    return tally


QUERIES = [
    *(
        "vacuum into 'n.db'",
        "attach 'n.db' as o",
        "select 1; drop table t",
        "pragma user_version=3",
    ),
    *("with x as (select 1) delete from t returning *", "insert into t values (1, 2, 3)", ""),
    *("/* a */ delete from t", "-- a\ndelete from t", "select load_extension('x')", "/**/;;drop t"),
    *("SELECT 1;\u00a0DELETE FROM t", "(delete from t)", "explain delete from t", "reindex", "\0"),
    *("select * from t where 1 in (select 1); --", "select ';' ; delete from t", "begin", "'"),
    "with x as (values (1)) insert into t select 1, 2, 3 from x",
    "select readfile('/etc/passwd'), writefile('n.txt', 'x'), 1",
    "select 1 worker, 1 item, edit('x') label",
]


def databases() -> Tally:
    """Ask a database for more than to read: no file changes, none is new."""
    tally = Tally("queries that do more than read")
    with folder():
        prepare()
        for query in QUERIES:
            for source in ("base.csv", "sqlite:///base.csv"):
                tried(tally, ["aggregate", source, *MV, "-o", "l.csv", "--query", query], (0, 2))
        tried(tally, ["inspect", "loop.db", "-p", "net-timeout=0.02s"])
    return tally


PASSWORDS = [
    f.format(SECRET)
    for f in (
        *("{}", "{}/x", "x/{}", "x#{}", "x?{}", "x@{}", "{}@x", "x@{}/y", "x:{}", "1/{}", "x?{}=1"),
        *("x?a=1&b={}", "{}%2Fx", "{}'x", "x[{}]", "{} x", "x\\{}", "%{}", "é{}", "{}%"),
    )
]
ADDRESSES = [
    *(
        f"{scheme}://ann:{password}@127.0.0.1:9/a.csv"
        for scheme in ("http", "postgresql", "HTTPS")
        for password in PASSWORDS
    ),
    *(f"http://127.0.0.1:9/a.csv?{key}={SECRET}" for key in ("token", "sig", "api_key")),
    *(f"https://{SECRET}{end}@127.0.0.1:9/a.csv" for end in ("", ":", ":x-oauth-basic")),
    f"http://127.0.0.1:9/a.csv#access_token={SECRET}",
    *(f"s3://AKIA:{SECRET}@bucket/x.csv", f"s3://bucket/x.csv?secret_key={SECRET}"),
    *(f"ftp://ann:{SECRET}@127.0.0.1/a.csv", f"sqlite:///none.db?token={SECRET}"),
]
TOLD_TO: list[list[str]] = [
    *(["aggregate", "{}", *MV, "-o", "l.csv", *more] for more in ([], ["--engine", "disk"])),
    ["aggregate", "in.csv", *MV, "-o", "l.csv", "--gold", "{}"],
    ["aggregate", "in.csv", *MV, "-o", "{}"],
    ["aggregate", "in.csv", *MV, "-o", "l.csv", "--query", "select '{}' from '{}'"],
    *(["inspect", "{}"], ["rerun", "{}"], ["report", "{}"], ["verify", "{}"], ["{}"]),
]


def _without_pauses() -> None:
    """Try an address again at once."""
    time.sleep = lambda _: None


def secrets(share: float) -> Tally:
    """Give addresses with secrets to every command: no output, log or record has them."""
    tally = Tally("secrets of addresses")
    tries = [(address, words) for address in ADDRESSES for words in TOLD_TO]
    with folder():
        prepare()
        for address, words in tries[:: max(1, round(1 / share))]:
            line = [word.replace("{}", address) for word in words]
            reads = words[0] in ("aggregate", "inspect")
            line += ["-p", "net-timeout=0.1s", "--log-file", "l.log"] if reads else []
            ended = attempt(line, _without_pauses)
            written = [path for path in Path().glob("l.*") if path.is_file()]
            told = ended.err + "".join(p.read_text(errors="replace") for p in written)
            told += Path("out").read_text(errors="replace")
            held = ended.is_allowed and SECRET.lower() not in told.lower()
            tally.check(held, f"{line}: {ended}")
            for path in written:
                path.unlink()
    return tally


def _archive(content: bytes, name: str = "a.csv") -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
    return stream.getvalue()


def bombs() -> Iterator[tuple[str, Callable[[], bytes]]]:
    """Yield files that are small, or plain, and want much: names and how each is made."""
    many = b"worker,item,label\n" + b"w,i,l\n" * 8_000_000
    yield "gz.csv.gz", lambda: gzip.compress(many, 1)
    yield "twice.csv.gz", lambda: gzip.compress(gzip.compress(many, 1), 1)
    yield "bz2.csv.bz2", lambda: bz2.compress(many)
    yield "zip.zip", lambda: _archive(many)
    yield "nested.zip", lambda: _archive(_archive(many), "b.zip")
    yield "names.zip", lambda: _archive(b"worker,item,label\nw,i,l\n", "../../victim/.bashrc")
    yield "line.csv", lambda: b"worker,item,label\nw,i," + b"x" * (70 << 20)
    yield "one.csv", lambda: b"x" * (70 << 20)
    yield "columns.csv", lambda: b",".join(b"c%d" % n for n in range(200_000)) + b"\n1\n"
    yield "deep.json", lambda: b"[" * 1_000_000
    yield "deeper.json", lambda: b'{"a":' * 200_000
    yield "number.json", lambda: b'[{"worker": 1e999999, "item": ' + b"9" * 5000 + b"}]"
    yield (
        "pickle.npy",
        lambda: (
            b"\x93NUMPY\x01\x00v\x00{'descr': '|O', 'fortran_order': False, 'shape': (1,), }".ljust(
                128
            )
            + b"cos\nsystem\n(S'touch PWNED'\ntR."
        ),
    )
    yield (
        "huge.npy",
        lambda: (
            b"\x93NUMPY\x01\x00v\x00{'descr': '<f8', 'fortran_order': False, "
            b"'shape': (99999999, 99999999), }".ljust(128)
        ),
    )
    yield "cut.parquet", lambda: b"PAR1" + b"\xff" * 64 + b"PAR1"
    yield (
        "entities.xml",
        lambda: b'<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><a>&b;</a>',
    )


def _addresses(mebibytes: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (mebibytes << 20, mebibytes << 20))


def limits(share: float) -> Tally:
    """Read bombs in 3 GiB of addresses: an error within half a minute."""
    tally = Tally("bombs")
    with folder():
        prepare()
        for name, make in [*bombs()][:: max(1, round(1 / share))]:
            Path(name).write_bytes(make())
            for words in (["aggregate", name, *MV, "-o", "l.csv"], ["inspect", name]):
                given = [*words, "-p", "max-input=32M"]
                codes = (2,) if words[0] == "aggregate" else (0, 2)
                tried(tally, given, codes, prepare=partial(_addresses, 3072), seconds=60)
            Path(name).unlink()
        for file in ("state.json", next(Path("st").glob("workers*")).name):
            shutil.rmtree("y", ignore_errors=True)
            shutil.copytree("st", "y")
            Path("y", file).unlink(missing_ok=True)
            os.mkfifo(f"y/{file}")
            tried(tally, ["aggregate", "in.csv", *MV, "-o", "l.csv", "--state", "y"], seconds=20)
    return tally
