"""Files of known labels, gold or truth: item,label."""

from __future__ import annotations

from pathlib import Path

import pytest

from misc_cli.readers.known_labels import read_known
from misc_cli.readers.options import ReadOptions


@pytest.mark.parametrize(
    "text",
    ["item,label\na,1\nb,2\n", "a,1\nb,2\n", "id\ttruth\na\t1\nb\t2\n", "gold,task\n1,a\n2,b\n"],
)
def test_known_labels(tmp_path: Path, text: str) -> None:
    path = tmp_path / "truth.csv"
    path.write_text(text)
    known = read_known(str(path)).labels
    items, labels = known.items, known.labels
    assert (items.to_pylist(), labels.to_pylist()) == (["a", "b"], ["1", "2"])


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("item,label\na,é\nb,2\n", {"encoding": "latin-1"}),
        ("item:label\na,x:é\nb:2\n".replace("a,x", "a"), {"delimiter": ":"}),
        ("item,label\na,é\nb,2\n", {"delimiter": "pipe", "item_col": "2", "label_col": "3"}),
        ("url,n,mood\na,7,é\nb,7,2\n", {"item_col": "URL", "label_col": "mood"}),
        ("mood,truth,item\n7,é,a\n7,2,b\n", {"label_col": "mood"}),
    ],
    ids=["encoding", "delimiter", "not the answers' layout", "columns", "truth before names"],
)
def test_known_labels_beside_answers_that_needed_options(
    tmp_path: Path, text: str, options: dict[str, str]
) -> None:
    path = tmp_path / "truth.csv"
    path.write_bytes(text.encode(options.get("encoding", "utf-8")))
    known = read_known(str(path), ReadOptions(**options))  # type: ignore[arg-type]
    columns = (known.labels.items, known.labels.labels)
    assert [column.to_pylist() for column in columns] == [["a", "b"], ["é", "2"]]
