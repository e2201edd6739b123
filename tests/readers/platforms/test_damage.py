"""Damaged exports: read or refused in one line, never another error."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from misc_cli.errors import InputError, MiscError
from misc_cli.readers.read import read_answer_columns
from tests.readers.platforms.look import SAMPLES, written

DAMAGE: list[Any] = [None, True, "x", 3, [], {}, [None], ["x"], [[]], [{}], {"a": None}, "\ud800"]


@pytest.mark.filterwarnings("ignore::misc_cli.errors.MiscWarning")
@pytest.mark.parametrize("name", sorted(p.name for p in SAMPLES.glob("*.*json*")))
def test_damaged_exports_end_in_a_line(tmp_path: Path, name: str) -> None:
    """Every value of every sample in turn replaced by something else: read or refused."""
    text = (SAMPLES / name).read_text()
    lines = name.endswith(("jsonl", "ndjson"))
    whole = [json.loads(line) for line in text.splitlines()] if lines else json.loads(text)
    places = list(_places(whole))
    for path in places[:: max(1, len(places) // 8)]:
        for damage in DAMAGE:
            content = _replaced(whole, path, damage)
            file = tmp_path / name
            if lines:
                file.write_text("".join(json.dumps(one) + "\n" for one in content))
            else:
                file.write_text(json.dumps(content))
            with suppress(MiscError):
                read_answer_columns([str(file)])


def _places(value: Any, path: tuple[Any, ...] = ()) -> Any:
    if path:
        yield path
    inner = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, one in inner:
        yield from _places(one, (*path, key))


def _replaced(value: Any, path: tuple[Any, ...], damage: Any) -> Any:
    if not path:
        return damage
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = _replaced(value[path[0]], path[1:], damage)
    return copy


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, '[{"annotations":' * 50_000])
@pytest.mark.parametrize("name", ["a.json", "a.jsonl"])
def test_json_nested_without_end(tmp_path: Path, text: str, name: str) -> None:
    with pytest.raises(InputError):
        read_answer_columns([str(written(tmp_path, text, name))])


def test_parquet_with_two_columns_of_one_name(tmp_path: Path) -> None:
    columns = [pa.array(["a"]), pa.array(["b"]), pa.array(["c"]), pa.array(["d"])]
    for names in (["worker", "item", "label", "label"], ["worker", "worker", "item", "label"]):
        parquet.write_table(pa.Table.from_arrays(columns, names), tmp_path / "a.parquet")
        with pytest.raises(InputError):
            read_answer_columns([str(tmp_path / "a.parquet")])


@pytest.mark.filterwarnings("ignore::misc_cli.errors.MiscWarning")
@pytest.mark.parametrize("name", sorted(p.name for p in SAMPLES.glob("*.[ct]sv")))
def test_damaged_tables_end_in_a_line(tmp_path: Path, name: str) -> None:
    """Columns left out, cells cut or replaced: read or refused, never another error."""
    delimiter = "\t" if name.endswith("tsv") else ","
    rows = [line.split(delimiter) for line in (SAMPLES / name).read_text().splitlines()]
    for at in range(len(rows[0])):
        cut = [row[:at] + row[at + 1 :] for row in rows]
        for cell in ("", "[null]", "true"):
            changed = [rows[0], *([*row[:at], cell, *row[at + 1 :]] for row in rows[1:])]
            for content in (cut, changed):
                lines = [delimiter.join(row) for row in content]
                with suppress(MiscError):
                    read_answer_columns([str(written(tmp_path, "\n".join(lines), name))])
