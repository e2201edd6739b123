"""Damage files of every format; each must be read or refused."""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import warnings
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet

from torture.harness import Tally, answers, attempt, folder

SAMPLES = Path(__file__).resolve().parents[2] / "tests" / "readers" / "samples"
BITES = [
    b'"',
    b"\0",
    b"\xff",
    b"\xef\xbb\xbf",
    b"\r",
    b"\n",
    b",",
    b";",
    b"\t",
    b"{",
    b"}",
    b"[",
    b"]",
]
BITES += [b'"a\n', b"\\ud800", b"null", b"true", b"1e999", b"-0", b"\x1b[2J", b"=1+1", b"\x1f\x8b"]


def _rows() -> list[dict[str, str]]:
    lines = answers(12, 5, 3).splitlines()
    return [
        dict(zip(("worker", "item", "label"), line.split(","), strict=True)) for line in lines[1:]
    ]


def seeds() -> dict[str, bytes]:
    """Return one good file of each kind, by name, with the samples of platforms."""
    rows = _rows()
    plain = answers(12, 5, 3).encode()
    stream = io.BytesIO()
    parquet.write_table(pa.Table.from_pylist(rows), stream)
    quoted = "\n".join(",".join(f'"{cell}"' for cell in row.values()) for row in rows)
    found = {
        "a.csv": plain,
        "a.tsv": plain.replace(b",", b"\t"),
        "q.csv": f"worker,item,label\n{quoted}\n".encode(),
        "a.json": json.dumps(rows).encode(),
        "a.jsonl": "\n".join(map(json.dumps, rows)).encode(),
        "a.parquet": stream.getvalue(),
        "a.csv.gz": gzip.compress(plain),
        "u.csv": plain.decode().encode("utf-16"),
    }
    small = [path for path in sorted(SAMPLES.rglob("*")) if path.is_file()]
    found |= {path.name: path.read_bytes() for path in small if path.stat().st_size < 200_000}
    return found


def mutated(data: bytes, rng: random.Random) -> bytes:
    """Return the bytes with one to four small damages."""
    whole = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(whole) + 1)
        kind = rng.randrange(6)
        if kind == 0 and whole:
            whole[at % len(whole)] ^= 1 << rng.randrange(8)
        elif kind == 1:
            whole[at:at] = rng.choice(BITES)
        elif kind == 2:
            del whole[at : at + rng.choice([1, 3, 50])]
        elif kind == 3:
            del whole[at:]
        elif kind == 4:
            piece = whole[at : at + rng.choice([1, 20, 200])]
            whole[at:at] = piece * rng.choice([1, 2, 30])
        else:
            other = rng.randrange(len(whole) + 1)
            whole[at : at + 8], whole[other : other + 8] = (
                whole[other : other + 8],
                whole[at : at + 8],
            )
    return bytes(whole)


def mutants(count: int, batch: int = 100) -> Tally:
    """Read damaged files in children; an error that is no MiscError, or a crash, is a failure."""
    tally = Tally("mutated inputs, in process")
    good = seeds()
    with folder():
        for start in range(0, count, batch):
            for failure in _in_a_child(lambda first=start: _read_batch(good, first, batch)):  # type: ignore[misc]
                tally.failures.append(failure)
            tally.tries += batch
    return tally


def _read_batch(good: dict[str, bytes], first: int, batch: int) -> list[str]:
    from misc_cli.errors import MiscError
    from misc_cli.readers.options import ReadOptions
    from misc_cli.readers.read import read_answer_columns
    from misc_cli.writers.tables import read_labels

    failures = []
    names = sorted(good)
    for number in range(first, first + batch):
        rng = random.Random(number)
        name = names[number % len(names)]
        Path(name).write_bytes(mutated(good[name], rng))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                if rng.random() < 0.2:
                    read_labels(name)
                else:
                    read_answer_columns([name], ReadOptions(allow_odd=rng.random() < 0.5))
        except MiscError as error:
            # a second line may only propose a command
            if any(not line.startswith("  try: misc ") for line in str(error).split("\n")[1:]):
                failures.append(f"mutant {number} of {name}: two lines: {error}")
        except Exception as error:
            failures.append(f"mutant {number} of {name}: {type(error).__name__}: {error}"[:300])
    return failures


def _in_a_child(work: Callable[[], list[str]], seconds: int = 120) -> list[str]:
    """Return the failures of a batch; a crash or a hang of the child is one too."""
    import signal

    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        signal.alarm(seconds)
        try:
            os.write(writing, json.dumps(work()).encode()[: 1 << 16])
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        said = stream.read()
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if status or not said:
        return [f"a child ended with {status} in the midst of a batch"]
    found: list[str] = json.loads(said)
    return found


def mutant_runs(count: int) -> Tally:
    """Run misc on damaged files, odd streams and changing files."""
    tally = Tally("mutated inputs, as processes")
    good = seeds()
    names = sorted(good)
    commands = [
        ["aggregate", "--aggregator", "mv", "-o", "labels.csv"],
        ["aggregate", "--aggregator", "ds-em"],
        ["queue", "--aggregator", "mv"],
        ["inspect"],
    ]
    with folder():
        for number in range(count):
            rng = random.Random(10**6 + number)
            name = names[number % len(names)]
            Path(name).write_bytes(mutated(good[name], rng))
            command, *words = rng.choice(commands)
            ended = attempt([command, name, *words])
            tally.check(ended.is_allowed, f"mutant {number} of {name}: {command}: {ended}")
    return tally
