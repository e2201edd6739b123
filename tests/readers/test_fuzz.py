"""Reading never crashes, and agrees with Python's csv module on whatever that can write."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from misc_cli.errors import MiscError
from misc_cli.readers.answer_table import AnswerTable
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.read import read_answer_columns


def read_bytes(data: bytes, options: ReadOptions | None = None) -> AnswerTable:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "answers"
        path.write_bytes(data)
        return read_answer_columns([str(path)], options)


NAMES = ["worker", "item", "label", '"item"', "worker,item,label\n"]
CELLS = ["a", "b7", "1", "", " ", "é", "a,b,c\n"]
MARKS = [
    ",",
    "\t",
    ";",
    "|",
    '"',
    "\n",
    "\r\n",
    "\ufeff",
    "\0",
    "{",
    "}",
    "[",
    "]",
    ":",
    "#",
    "sep=;\n",
]
pieces = st.sampled_from([*NAMES, *CELLS, *MARKS])


@pytest.mark.filterwarnings("ignore::misc_cli.errors.MiscWarning")
@settings(max_examples=300, deadline=None)
@given(st.one_of(st.binary(max_size=60), st.lists(pieces, max_size=25).map("".join)))
def test_any_bytes_are_read_or_refused_in_one_line(data: bytes | str) -> None:
    try:
        result = read_bytes(data if isinstance(data, bytes) else data.encode())
    except MiscError as error:
        assert str(error).count("\n") <= 1  # noqa: PT017 (a refusal is as good as a result)
    else:
        assert len(result.answers) == sum(file.n_rows for file in result.files) > 0


cell = st.text(st.sampled_from("ab1 ,;|\t\n\"'é#\\"), max_size=5)
name = cell.filter(lambda text: text.strip() != "")


@pytest.mark.filterwarnings("ignore::misc_cli.errors.MiscWarning")  # labels that are likely one
@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(name, cell, name, cell), min_size=1, max_size=8),
    st.sampled_from(",;\t|"),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
)
def test_reads_what_the_csv_module_writes(
    rows: list[tuple[str, str, str, str]], delimiter: str, end: str, quoting: int
) -> None:
    stream = io.StringIO(newline="")
    writer = csv.writer(stream, delimiter=delimiter, lineterminator=end, quoting=quoting)  # type: ignore[arg-type]
    writer.writerow(["worker", "note", "item", "label"])
    writer.writerows(rows)
    answers = read_bytes(
        stream.getvalue().encode(),
        ReadOptions(
            delimiter=delimiter, allow_odd=True, quotes_span_lines=True, worker_col="worker"
        ),
    ).answers
    columns = (answers.worker, answers.item, answers.label)
    expected = [(worker, item, label) for worker, _, item, label in rows]
    assert list(zip(*(c.to_pylist() for c in columns), strict=True)) == expected
