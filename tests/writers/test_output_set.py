"""Outputs: whole or not at all, in the format their names promise."""

from __future__ import annotations

import csv
import gzip
import io
import os
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from misc_cli.errors import InputError
from misc_cli.writers.output_paths import locked, temporary_names
from misc_cli.writers.output_set import Staged, Write, publish, write_all
from misc_cli.writers.tables import CHUNK_ROWS, Columns, write_table

AWKWARD = ["plain", "a,b", 'say "hi"', "two\nlines", "tab\there", "cr\rhere", "ünïcode", "=1+1"]


def _fail(stream: BinaryIO) -> None:
    stream.write(b"half of ")
    raise RuntimeError("the lights went out")


def test_all_files_or_none(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_text("earlier")
    outputs: dict[Path, Write | bytes] = {first: b"new", second: _fail}
    with pytest.raises(RuntimeError):
        write_all(outputs)
    assert first.read_text() == "earlier"
    assert os.listdir(tmp_path) == ["first"]


def _set_of_two(folder: Path) -> list[Staged]:
    """Two files that are there, and what is to replace them."""
    staged = []
    for name in ("first", "second"):
        (folder / name).write_text("earlier")
        staged.append(Staged(folder / name))
        staged[-1].waiting.write_text("new")
    return staged


def test_a_set_that_is_there_has_left_nothing_beside_it(tmp_path: Path) -> None:
    """A signal right after the renames finds no second names: it would leave them for good."""
    publish(_set_of_two(tmp_path))
    assert sorted(os.listdir(tmp_path)) == ["first", "second"]
    assert (tmp_path / "first").read_text() == "new"


def _set_with_a_record(folder: Path) -> dict[Path, bytes]:
    """Three files that are there, the last of which vouches for the others."""
    names = ("labels.csv", "workers.csv", "labels.run.json")
    for name in names:
        (folder / name).write_text("earlier")
    return {folder / name: b"new" for name in names}


def test_files_get_their_names_in_order_the_record_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, order = os.replace, []

    def replace(source: Path, target: Path) -> None:
        order.append(target.name)
        real(source, target)

    monkeypatch.setattr(os, "replace", replace)
    write_all(_set_with_a_record(tmp_path))
    assert order == ["labels.csv", "workers.csv", "labels.run.json"]


def test_a_set_is_undone_the_last_file_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outputs = _set_with_a_record(tmp_path)
    real, order = os.replace, []

    def replace(source: Path, target: Path) -> None:
        order.append(target.name)
        if target.name == "labels.run.json":
            raise OSError(5, "Input/output error")
        real(source, target)

    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(InputError, match=r"labels\.run\.json: cannot be written"):
        write_all(outputs)
    assert order == [
        *("labels.csv", "workers.csv", "labels.run.json"),
        *("workers.csv", "labels.csv"),
    ]
    assert {path.read_text() for path in tmp_path.iterdir()} == {"earlier"}
    assert len(list(tmp_path.iterdir())) == 3


def test_one_lock_for_a_set_and_its_holder_removes_what_a_killed_run_left(tmp_path: Path) -> None:
    files = [tmp_path / "labels.csv", tmp_path / "parts"]
    with locked(files):
        left = [name for file in files for name in temporary_names(file)[:2]]
    for name in left[:2]:
        name.write_text("half")
    for name in left[2:]:
        name.mkdir()
        (name / "part-0.csv").write_text("half")
    others = {"labels.csv", ".labels.csv.abcdefgh.part", "labels.csv.part", ".other.csv.part"}
    for other in others:
        (tmp_path / other).write_text("somebody's")
    with locked(files):
        assert set(os.listdir(tmp_path)) == {*others, ".labels.csv.lock"}
        with locked([*files, tmp_path / "more.csv"]):  # joins the set that is locked already
            assert set(os.listdir(tmp_path)) == {*others, ".labels.csv.lock"}
    assert set(os.listdir(tmp_path)) == others


def test_what_cannot_be_put_back_is_kept_where_the_message_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    staged = [*_set_of_two(tmp_path), Staged(tmp_path / "third")]  # of which nothing is written
    waiting = {str(piece.waiting) for piece in staged}
    real = os.replace

    def replace(source: Path, target: Path) -> None:
        """The second file can be replaced, then nothing gets its name back but the first."""
        if target.name == "second" and str(source) not in waiting:
            raise OSError(5, "Input/output error")
        real(source, target)

    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(InputError, match="second: cannot be put back") as caught:
        publish(staged)
    kept = Path(str(caught.value).rsplit(" ", 1)[1])
    assert kept.read_text() == "earlier"
    assert (tmp_path / "first").read_text() == "earlier"


def test_links_and_permissions_survive(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("earlier")
    target.chmod(0o640)
    link.symlink_to(target)
    write_all({link: b"new"})
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert target.stat().st_mode & 0o777 == 0o640


def test_a_device_is_written_and_not_replaced(tmp_path: Path) -> None:
    write_all({Path("/dev/null"): b"new"})
    assert not Path("/dev/null").is_file()


def delimited(columns: Columns, delimiter: str = ",") -> str:
    stream = io.BytesIO()
    write_table(columns, stream, "x.csv" if delimiter == "," else "x.tsv")
    return stream.getvalue().decode()


@pytest.mark.parametrize("delimiter", [",", "\t"])
def test_python_reads_back_every_awkward_name(delimiter: str) -> None:
    classes = pa.array(["yes", "no, never"])
    columns = {
        "item": pa.array(AWKWARD),
        "label": pa.DictionaryArray.from_arrays(pa.array([0, 1] * 4), classes),
        'p_"x", y': np.arange(8) / 3,
    }
    content = delimited(columns, delimiter)
    rows = list(csv.reader(io.StringIO(content, newline=""), delimiter=delimiter))
    assert rows[0] == list(columns)
    assert [row[0] for row in rows[1:]] == AWKWARD
    assert [row[1] for row in rows[1:]] == ["yes", "no, never"] * 4
    assert [float(row[2]) for row in rows[1:]] == pytest.approx(np.arange(8) / 3, abs=5e-7)
    assert content.splitlines()[1].startswith("plain" + delimiter), "quoted without need"


def test_numbers_are_short_and_missing_ones_empty() -> None:
    numbers = np.array([1.0, 1 / 3, 1e-6, 4e-7, -4e-7, np.nan])
    lines = delimited({"x": numbers, "n": np.arange(6)}).splitlines()
    assert lines == ["x,n", "1,0", "0.333333,1", "0.000001,2", "0,3", "0,4", ",5"]


def test_more_rows_than_a_chunk() -> None:
    n_rows = 2 * CHUNK_ROWS + 3
    names = pa.array(np.arange(n_rows)).cast(pa.string())
    lines = delimited({"item": names}).splitlines()
    assert lines == ["item", *map(str, range(n_rows))]


def test_formats_by_suffix(tmp_path: Path) -> None:
    columns = {"item": pa.array(["a", "b"]), "confidence": np.array([0.5, 1.0])}

    def written(name: str) -> bytes:
        stream = io.BytesIO()
        write_table(columns, stream, name)
        return stream.getvalue()

    assert written("x.csv") == written("x") == b"item,confidence\na,0.5\nb,1\n"
    assert written("x.tsv") == b"item\tconfidence\na\t0.5\nb\t1\n"
    assert gzip.decompress(written("x.csv.gz")) == written("x.csv")
    assert gzip.decompress(written("x.tsv.gz")) == written("x.tsv")
    assert written("x.csv.gz") == written("y.csv.gz")
    table = parquet.read_table(io.BytesIO(written("x.parquet")))
    assert table.to_pydict() == {"item": ["a", "b"], "confidence": [0.5, 1.0]}
