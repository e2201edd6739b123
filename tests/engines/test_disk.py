"""`--engine disk`: the labels of the local engine, from files that are read once and in pieces."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet
import pytest

from misc_cli.__main__ import run
from misc_cli.data.holdout import name_hashes
from misc_cli.data.types import Answers
from misc_cli.engines import partitioned
from misc_cli.engines import pieces as cutting
from misc_cli.engines import pieces as stream
from misc_cli.engines.partitioned import merged, split
from tests.engines.crowds import (
    METHODS,
    ORDER,
    WITH_ITEM_PARAMETERS,
    crowd,
    write_csv,
    write_parquet,
)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    # small pieces, so that a small crowd has many
    monkeypatch.setattr(cutting, "PIECE_ROWS", 100)
    monkeypatch.setattr(stream, "BLOCK_BYTES", 4096)
    monkeypatch.setattr(cutting, "SAMPLE_BYTES", 500)


FINE = 'ann,i1,"yes"\n' * 100


def aggregate(*words: str, output: str = "labels.csv") -> int:
    return run(["aggregate", *words, "-o", output, "-q", "--no-calibrate"])


def both(source: str, *words: str) -> tuple[bytes, bytes]:
    """The labels of the local engine and of the one on disk."""
    assert aggregate("local.csv", *words) == 0
    here = Path("labels.csv").read_bytes()
    assert aggregate(source, *words, "--engine", "disk", "--spill", ".") == 0
    assert not list(Path().glob("misc-spill-*"))
    return here, Path("labels.csv").read_bytes()


@pytest.mark.parametrize("method", [*METHODS, *WITH_ITEM_PARAMETERS])
def test_disk_gives_the_labels_of_memory(method: str) -> None:
    write_csv(crowd(), Path("local.csv"))
    here, there = both("local.csv", "--aggregator", method, "--probabilities", *ORDER)
    assert here == there


@pytest.mark.parametrize("name", ["a.tsv", "a.csv.gz", "a.parquet"])
def test_every_format_that_can_be_streamed(name: str) -> None:
    rows = crowd()
    write_csv(rows, Path("local.csv"))
    (write_parquet if name.endswith("parquet") else write_csv)(rows, Path(name))
    here, there = both(name, "--aggregator", "ds-em")
    assert here == there


def test_a_folder_of_hive_partitions_counts_as_one_file() -> None:
    rows = crowd()
    write_csv(rows, Path("local.csv"))
    for day in range(4):
        folder = Path("answers", f"day={day}")
        folder.mkdir(parents=True)
        part = rows[day * len(rows) // 4 : (day + 1) * len(rows) // 4]
        write_parquet(part, folder / "part-0.parquet")
        (folder / "_SUCCESS").write_text("")
    here, there = both("answers", "--aggregator", "ds-em")
    assert here == there
    here, there = both("answers/*/*.parquet", "--aggregator", "ds-em")
    assert here == there


@pytest.mark.parametrize("rule", ["last", "first", "all"])
def test_contradictions_follow_the_same_rule(rule: str) -> None:
    write_csv(crowd(), Path("local.csv"))
    here, there = both("local.csv", "--aggregator", "ds-em", "--duplicates", rule)
    assert here == there


@pytest.mark.parametrize("name", ["answers.csv", "answers.parquet"])
@pytest.mark.parametrize(
    "words",
    [
        ("--where", "device != phone", "--where", "score >= 3"),
        ("--where", "time >= 2026-01-03", "--where", "time <= 2026-02-20"),
        ("--no-answer", "b,skip", "--rename", "a=z"),
        ("--fold-case", "--where", "device = phone"),
        ("--fold-case", "--rename", "A=B"),
        (),
    ],
)
def test_rows_are_chosen_and_labels_renamed_as_in_memory(name: str, words: tuple[str, ...]) -> None:
    """The last rows have words that the first ones, by which a file's layout is told, have not."""
    rows = [(w, i.strip().replace('"', ""), label) for w, i, label in crowd() if label.strip()]
    spelled = [label.upper() if at % 3 else label for at, (*_, label) in enumerate(rows)]
    spelled[-30:] = ["skip", "N/A", "Skip"] * 10
    columns = {
        "device": [("phone", "Phone ", "desk", "")[at * 7 % 4] for at in range(len(rows))],
        "worker": [worker for worker, *_ in rows],
        "item": [item for _, item, _ in rows],
        "label": spelled,
        "score": [str(at % 5) for at in range(len(rows))],
        "time": [f"2026-{1 + at % 3:02}-{1 + at % 28:02}" for at in range(len(rows))],
    }
    write = parquet.write_table if name.endswith("parquet") else arrow_csv.write_csv
    write(pa.table(columns), name)
    arrow_csv.write_csv(pa.table(columns), "local.csv")
    given = (*words, "--aggregator", "ds-em", "--duplicates", "all", "--probabilities")
    here, there = both(name, *given)
    assert here == there
    counts = json.loads(Path("labels.run.json").read_text())["counts"]
    assert aggregate("local.csv", *given) == 0
    assert json.loads(Path("labels.run.json").read_text())["counts"] == counts


def test_gold_and_the_order_of_classes_reach_every_part() -> None:
    rows = crowd()
    write_csv(rows, Path("local.csv"))
    known = sorted({item.strip() for _, item, _ in rows})[::9]
    write_csv([("", item, "c") for item in known], Path("gold.csv"))
    words = ("--aggregator", "ds-em", "--gold", "gold.csv", "--class-order", "c,z,b,a")
    here, there = both("local.csv", *words, "--probabilities")
    assert here == there
    assert here.startswith(b"item,label,confidence,p_c,p_z,p_b,p_a\n")


def test_labels_in_parts_are_the_same_labels() -> None:
    write_csv(crowd(), Path("local.csv"))
    assert aggregate("local.csv", "--aggregator", "ds-em", output="whole.parquet") == 0
    words = ("--aggregator", "ds-em", "--engine", "disk")
    assert aggregate("local.csv", *words, output="labels/") == 0
    parts = sorted(Path("labels").glob("part-*.parquet"))
    record = json.loads(Path("labels/run.json").read_text())
    assert [part.name for part in parts] == record["outputs"]["parts"]
    assert len(parts) == 4
    table = pa.concat_tables([parquet.read_table(part) for part in parts])
    table = table.take(pc.sort_indices(table["item"]))
    whole = parquet.read_table("whole.parquet")
    assert table["item"].equals(whole["item"])
    assert table["label"].to_pylist() == whole["label"].to_pylist()
    np.testing.assert_allclose(table["confidence"], whole["confidence"], atol=1e-8)
    assert run(["verify", "labels/run.json"]) == 0
    parts[0].write_bytes(parts[0].read_bytes()[:-1])
    assert run(["verify", "labels/run.json"]) == 4
    assert aggregate("local.csv", *words, output="labels/") == 2  # there, and not empty


def test_the_record_has_every_input_by_its_sha256() -> None:
    rows = crowd()
    Path("answers").mkdir()
    for number in range(3):
        write_csv(rows[number::3], Path("answers", f"{number}.csv"))
    words = ("answers", "--aggregator", "mv", "--engine", "disk")
    assert aggregate(*words) == 0
    found = json.loads(Path("labels.run.json").read_text())["inputs"]
    files = [Path("answers", f"{number}.csv") for number in range(3)]
    assert found == [
        {
            "name": str(file),
            "bytes": file.stat().st_size,
            "sha256": hashlib.sha256(file.read_bytes()).hexdigest(),
        }
        for file in files
    ]


def test_a_bad_row_of_a_text_file_is_found_where_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cutting, "BLOCK_BYTES", 2000)
    Path("bad.csv").write_text("worker,item,label\n" + "ann,i1,yes\n" * 999 + ",i2,no\n")
    assert aggregate("bad.csv", "--aggregator", "mv", "--engine", "disk") == 2
    assert "bad.csv, row 1000: a label without its worker" in capsys.readouterr().err


def test_merged_rows_are_sorted_whatever_the_chunks() -> None:
    names = [f"item {number}" for number in range(5000)]
    table = pa.table({"item": names, "label": pa.array(names).dictionary_encode()})
    answers = Answers(table["item"], table["item"], table["label"])
    parts = [part.select(["item", "label"]) for part in split(answers, 7)]
    parts = [
        pa.table({"item": part["item"].cast(pa.string()).combine_chunks(), "label": part["label"]})
        for part in parts
    ]
    parts = [part.take(pc.sort_indices(part["item"])) for part in parts]
    items = [part["item"].combine_chunks() for part in parts]
    chunks = list(merged(items, lambda at, rows: parts[at][rows], chunk_rows=300))
    assert len(chunks) > 5
    assert [name for chunk in chunks for name in chunk["item"].to_pylist()] == sorted(names)


def test_a_part_that_somebody_removed_is_no_part_without_answers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    spill = partitioned._spill

    def spoilt(batches: Any, folder: Path, n_parts: int) -> Any:
        numbers = spill(batches, folder, n_parts)
        (folder / "00001.pieces").unlink()
        return numbers

    monkeypatch.setattr(partitioned, "_spill", spoilt)
    write_csv(crowd(), Path("local.csv"))
    assert aggregate("local.csv", "--aggregator", "mv", "--engine", "disk", "--spill", ".") == 2
    assert "00001.pieces" in capsys.readouterr().err
    assert not Path("labels.csv").exists()


def test_hashes_are_those_of_the_text_and_spread_evenly() -> None:
    names = pa.array([f"i{number}" for number in range(100_000)] + ["", "é", "ee"])
    hashes = name_hashes(names)
    assert len(set(hashes.tolist())) == len(names)
    assert name_hashes(names[50:60]).tolist() == hashes[50:60].tolist()
    share = np.bincount((hashes % 16).astype(int))
    assert share.min() > 0.95 * share.mean()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--aggregator", "mmce-o"), "--class-order a,b,c"),
        (("--aggregator", "ds-em", "--gold", "auto"), "--gold auto is for --engine local"),
        (("--aggregator", "ds-em", "--rejects", "r.csv"), "--rejects is for --engine local"),
        (("--aggregator", "ds-em", "--fail-if", "error>5"), "needs --truth"),
        (("--aggregator", "ds-em", "--workers", "-"), "stdout is for the labels"),
    ],
)
def test_what_is_for_one_machine_says_so(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_csv(crowd(20), Path("local.csv"))
    command = ["aggregate", "local.csv", "--engine", "disk", "--no-calibrate", *words]
    assert run([*command, "-o", "labels.csv"]) == 2
    assert said in capsys.readouterr().err
    assert not Path("labels.csv").exists()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('worker,item,label\nann,i1,"yes\nbob,i2,no\n', "quote"),
        ("worker,item,label\nann,i1,yes\nbob,i2\n", "line 3: 2 columns"),
        (f"worker,item,label\n{FINE}bob,i2\n", "line 102: 2 columns"),
        (f"worker,item,label\n{FINE},i2,no\n", "row 101: a label without its worker"),
        (f'worker,item,label\n{FINE}ann,i2,"no\n', "quote"),
        (f"worker,item,label\n{FINE}ann,i2,n\0\n", "NUL"),
        ("worker,item,label\nann,i1,\nbob,i2,\n", "every label is empty"),
        ("worker,item,label\nann,i1,y\0s\nbob,i2,no\n", "NUL"),
        ("", "empty"),
    ],
)
def test_a_bad_file_is_refused(content: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("bad.csv").write_text(content)
    assert aggregate("bad.csv", "--aggregator", "mv", "--engine", "disk") == 2
    assert said in capsys.readouterr().err
    assert not Path("labels.csv").exists()


def test_a_full_disk_is_one_line_and_leaves_nothing() -> None:
    """A limit on the size of files stands for the disk's end: the same error, the same places."""
    write_parquet(crowd(4000), Path("local.parquet"), 5000)
    script = (
        "import resource, signal, sys\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))\n"
        "from misc_cli.__main__ import main\n"
        "main(['aggregate', 'local.parquet', '--aggregator', 'ds-em', '--no-calibrate',"
        " '--engine', 'disk', '--spill', '.', '-o', 'labels.csv'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "--spill" in done.stderr
    assert done.stderr.count("\n") == 1
    assert sorted(path.name for path in Path().iterdir()) == ["local.parquet"]
