"""Formats other than delimited text, and the exports of crowd platforms.

Everything is flattened just enough to find worker, item and label; numbers keep the spelling they
have in the file (`1.0` and `1` are different labels).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from misc_cli.errors import InputError
from misc_cli.io.columns import Parsed, choose, first_nameless
from misc_cli.io.source import Source, empty, refuse_nul, refuse_undecodable

FORMATS = ("csv", "tsv", "json", "jsonl", "parquet")
_BY_SUFFIX = {
    ".tsv": "tsv",
    ".json": "json",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
}

Record = dict[str, Any]
Fetch = Callable[[str], Any]  # a column by its name


def detect(source: Source) -> str:
    """The format by its first bytes where they tell, else by the extension, else CSV."""
    if source.is_parquet:
        return "parquet"
    start = bytes(memoryview(source.content)[: 1 << 16]).lstrip()
    if start.startswith(b"[") and start[1:].lstrip().startswith((b"{", b"]")):
        return "json"
    if start.startswith(b"{"):
        return "json" if _BY_SUFFIX.get(source.suffix) == "json" else "jsonl"
    return _BY_SUFFIX.get(source.suffix, "csv")


def platform_columns(names: list[str], synonyms: dict[str, list[set[str]]]) -> dict[str, str]:
    """Columns whose role only the platform's habits give away; empty for other files."""
    if "worker" not in synonyms:
        return {}
    # Label Studio: `id` is the task's, next to annotation_id; image or text are its data.
    if {"annotation_id", "annotator", "id"} <= set(names):
        return {"item": "id"}
    # Appen, CrowdFlower: the question's column is the one that has a gold column beside it.
    if {"_unit_id", "_worker_id"} <= set(names):
        questions = [name for name in names if f"{name}_gold" in names]
        if len(questions) == 1:
            return {"label": questions[0]}
    return {}


def read_records(
    source: Source,
    format_name: str,
    given: dict[str, str | None],
    synonyms: dict[str, list[set[str]]],
) -> Parsed:
    """The columns sought, by role, of a Parquet, JSON or JSON-lines file."""
    open_format = _parquet if format_name == "parquet" else _json
    names, fetch = open_format(source, format_name)
    asked = {**platform_columns(names, synonyms), **{k: v for k, v in given.items() if v}}
    chosen = choose(source.name, names, asked, synonyms)
    try:
        found = {role: _encoded(fetch(names[c.position])) for role, c in chosen.items()}
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{source.name}: {_first_line(error)}; export it as CSV") from None
    for role in found:
        row = first_nameless(found, role)
        if row is not None:
            raise InputError(
                f"{source.name}, record {row + 1}: a label without its {role}; "
                "fill it in or drop the record"
            )
    return Parsed(found, chosen, len(found["label"]))


def _encoded(column: Any) -> Any:
    """Text, dictionary-encoded; a missing value is an empty one."""
    if isinstance(column, list):
        return pa.array(column, pa.string()).dictionary_encode()
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    return array.cast(pa.string()).fill_null("").dictionary_encode()


def _parquet(source: Source, _: str) -> tuple[list[str], Fetch]:
    import pyarrow.parquet as parquet

    try:
        file = parquet.ParquetFile(pa.BufferReader(source.content))
    except (pa.ArrowException, OSError) as error:
        raise InputError(
            f"{source.name}: not a whole Parquet file ({_first_line(error)}); write it again"
        ) from None
    return file.schema_arrow.names, lambda name: file.read(columns=[name])[name]


def _json(source: Source, format_name: str) -> tuple[list[str], Fetch]:
    refuse_nul(source)
    refuse_undecodable(source)
    read = _json_lines if format_name == "jsonl" else _json_array
    records = [flat for record in read(source) for flat in _flatten(record)]
    if not records:
        raise empty(source.name)
    names = dict.fromkeys(name for record in records for name in record)
    return list(names), lambda name: [record.get(name, "") for record in records]


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0].rstrip(".")


def _json_lines(source: Source) -> Iterator[Record]:
    lines = bytes(memoryview(source.content)).splitlines()
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield _record(_loads(source, line, number), f"{source.name}, line {number}")


def _json_array(source: Source) -> Iterator[Record]:
    whole = _loads(source, bytes(memoryview(source.content)), None)
    for number, record in enumerate(whole if isinstance(whole, list) else [whole], start=1):
        yield _record(record, f"{source.name}, record {number}")


def _loads(source: Source, text: bytes, line: int | None) -> Any:
    try:
        return json.loads(text, parse_int=str, parse_float=str)
    except json.JSONDecodeError as error:
        raise InputError(
            f"{source.name}, line {line or error.lineno}: not JSON ({error.msg}); "
            "set --format if it is something else"
        ) from None


def _record(value: Any, where: str) -> Record:
    if not isinstance(value, dict):
        raise InputError(f"{where}: expected an object with worker, item and label")
    return value


def _flatten(record: Record) -> Iterator[dict[str, str]]:
    """Flat records of text: one per annotation for nested exports, else the record itself."""
    if isinstance(record.get("annotations"), list) and "data" in record:
        yield from _label_studio(record)
    elif "_input_hash" in record:
        yield _prodigy(record)
    else:
        yield _flat(record)


def _label_studio(task: Record) -> Iterator[dict[str, str]]:
    for annotation in task["annotations"]:
        who = annotation.get("completed_by")
        if isinstance(who, dict):
            who = who.get("email") or who.get("id")
        # value holds {"choices": [...]}, {"rating": 4}, {"number": 2}, {"text": [...]} or such
        values = [
            value
            for result in annotation.get("result") or []
            for value in (result.get("value") or {}).values()
        ]
        skipped = annotation.get("was_cancelled") or not values
        yield {
            "worker": _text(who),
            "item": _text(task.get("id")),
            "label": "" if skipped else "|".join(_text(value) for value in values),
        }


def _prodigy(task: Record) -> dict[str, str]:
    """A choice is its accepted options; a yes/no question is the task's hash and the verdict."""
    who = task.get("_annotator_id") or task.get("_session_id")
    is_choice = "accept" in task
    label = task["accept"] if is_choice else task.get("answer")
    return {
        "worker": _text(who),
        "item": _text(task["_input_hash"] if is_choice else task.get("_task_hash")),
        "label": "" if task.get("answer") == "ignore" else _text(label),
    }


def _flat(record: Record, prefix: str = "") -> dict[str, str]:
    """Nested objects as dotted names: {"annotator": {"id": 3}} → annotator.id."""
    flat: dict[str, str] = {}
    for name, value in record.items():
        if isinstance(value, dict):
            flat.update(_flat(value, f"{prefix}{name}."))
        else:
            flat[prefix + name] = _text(value)
    return flat


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return "|".join(map(_text, value))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
