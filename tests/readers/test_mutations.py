"""Files of every format, damaged at random: read or refused in one line, never a traceback.

Bounded here; MISC_MUTATIONS=10000 makes it a long one.
"""

from __future__ import annotations

import json
import os
import random
import time
from pathlib import Path
from typing import Any

import pytest

from misc_cli.errors import MiscError
from misc_cli.job.inspection import inspected
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.read import read_questions
from tests.readers.test_filters import CLEAN
from tests.readers.test_questions import MULTI, TWO
from tests.readers.test_shapes import OBJECTS, PARALLEL, form, lines, wide

SAMPLES = Path(__file__).parent / "samples"
N_MUTATIONS = int(os.environ.get("MISC_MUTATIONS", "300"))
LONGEST = 20.0  # seconds for one small file, on the busiest machine
PIECES = [b'"', b",", b"\n", b"{", b"}", b"[", b"]", b"null", b"\xff", b"\0", b";", b"\t", b'""']
PIECES += [b":", b"-1", b"true", b"[]", b"{}", b"\r", b" ", b"1e999", b'"a":', b"|"]
VALUES: list[Any] = [None, True, [], {}, "", "x", 3.5, [None], {"a": None}, [[1]], -1]
OPTIONS = [
    ReadOptions(),
    ReadOptions(allow_odd=True, multi="set"),
    ReadOptions(allow_odd=True, multi="split", fold_case=True, no_answer="x"),
    ReadOptions(layout="wide", allow_odd=True),
]


def corpus() -> list[tuple[str, bytes]]:
    texts = {
        "wide.csv": wide("image,ann1,ann2,ann3"),
        "form.csv": form("participant,date,Mood? [doc1],Mood? [doc2]"),
        "objects.json": json.dumps(OBJECTS),
        "parallel.jsonl": lines(PARALLEL),
        "two.csv": TWO,
        "multi.csv": MULTI,
        "clean.csv": CLEAN,
    }
    own = [(name, text.encode()) for name, text in texts.items()]
    platforms = [path for path in sorted(SAMPLES.rglob("*")) if path.is_file()]
    return [*own, *((path.name, path.read_bytes()) for path in platforms)]


def damaged_json(value: Any, rng: random.Random) -> Any:
    """The same with a value replaced, left out or added here and there."""
    if rng.random() < 0.03:
        return rng.choice(VALUES)
    if isinstance(value, dict):
        return {k: damaged_json(v, rng) for k, v in value.items() if rng.random() > 0.02}
    if isinstance(value, list):
        kept = [damaged_json(one, rng) for one in value if rng.random() > 0.02]
        return [*kept, rng.choice(VALUES)] if rng.random() < 0.02 else kept
    return value


def damaged(name: str, content: bytes, rng: random.Random) -> bytes:
    if name.endswith((".json", ".jsonl", ".ndjson")) and rng.random() < 0.6:
        whole = [content] if name.endswith(".json") else content.splitlines()
        try:
            return b"\n".join(json.dumps(damaged_json(json.loads(t), rng)).encode() for t in whole)
        except ValueError:
            pass  # a sample that is damaged already
    data = bytearray(content)
    for _ in range(rng.randint(1, 6)):
        at = rng.randrange(len(data) + 1)
        match rng.randrange(4):
            case 0:
                data[at:at] = rng.choice(PIECES)
            case 1:
                del data[at : at + rng.randint(1, 40)]
            case 2:
                data[at:at] = data[at : at + rng.randint(1, 60)] * rng.randint(1, 3)
            case _:
                del data[at + 200 :]
    return bytes(data)


def _read(sources: list[str], options: ReadOptions) -> Any:
    return read_questions(sources, options, each=True)


@pytest.mark.filterwarnings("ignore::misc_cli.errors.MiscWarning")
def test_damaged_files_are_read_or_refused(tmp_path: Path) -> None:
    files = corpus()
    outcomes = {"read": 0, "refused": 0}
    for n in range(N_MUTATIONS):
        name, content = files[n % len(files)]
        path = tmp_path / name
        turn = n // len(files)
        # by name and turn, so that a new sample changes nothing for the others
        path.write_bytes(damaged(name, content, random.Random(f"{name} {turn}")))
        started = time.monotonic()
        asked = OPTIONS[turn % len(OPTIONS)]
        for call, options in ((_read, asked), (inspected, ReadOptions())):
            try:
                call([str(path)], options)
                outcomes["read"] += 1
            except MiscError as error:
                outcomes["refused"] += 1
                assert str(error).count("\n") <= 1, path.read_bytes()  # noqa: PT017
        assert time.monotonic() - started < LONGEST, path.read_bytes()
    assert min(outcomes.values()) > N_MUTATIONS / 10  # it damages some, and not all


@pytest.mark.parametrize("depth", [500, 100_000])
@pytest.mark.parametrize("pair", [("[", "]"), ('{"a":', "}")])
def test_deep_nesting_is_refused(tmp_path: Path, depth: int, pair: tuple[str, str]) -> None:
    path = tmp_path / "deep.json"
    path.write_text("[" + '{"id": 1, "a": ' + pair[0] * depth + "1" + pair[1] * depth + "}]")
    with pytest.raises(MiscError):
        read_questions([str(path)])
