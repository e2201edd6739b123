"""Which rows and files are read: filters, cleaning, folders and patterns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from misc_cli.errors import ConfigError, InputError, MiscWarning
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.read import read_answer_columns
from tests.readers.shaped import read, triplets

CLEAN = (
    "worker,item,label,status,submitted_at\n"
    "a,1,Yes,approved,2024-01-01T10:00:00Z\n"
    "b,1,yes ,rejected,2024-01-02T10:00:00Z\n"
    "c,1,YES,approved,2024-01-03T10:00:00Z\n"
    "a,2,n/a,approved,2024-01-04T10:00:00Z\n"
    "worker,item,label,status,submitted_at\n"
    "b,2,no,approved,2024-01-05T10:00:00Z\n"
)


@pytest.mark.filterwarnings("ignore:.*--fold-case", "ignore:.*--no-answer")
def test_filters_and_cleaning(tmp_path: Path) -> None:
    result = read(tmp_path, CLEAN)
    assert result.set_aside == {"rejected": 1, "repeated header": 1}
    folded = read(tmp_path, CLEAN, fold_case=True, no_answer="n/a,?", rename=("no=nope",))
    assert triplets(folded) == {("a", "1"): "Yes", ("c", "1"): "Yes", ("b", "2"): "nope"}
    assert folded.set_aside == {"rejected": 1, "repeated header": 1, "no answer": 1}
    late = read(
        tmp_path, CLEAN, where=("submitted_at >= 2024-01-03", "submitted_at <= 2024-01-04T12:00")
    )
    assert list(triplets(late)) == [("c", "1"), ("a", "2")]
    lines_of = [n for *_, rows, lines_of in late.rejects for n in lines_of(list(map(int, rows)))]
    assert lines_of == [6, 3, 2, 7]
    for condition, n_left in {
        "worker != a": 2,
        "worker in (a, c)": 3,
        "label ~ YE": 2,
        "item >= 2": 2,
        '"submitted_at" < 2024-01-02': 1,
    }.items():
        assert len(read(tmp_path, CLEAN, where=(condition,)).answers) == n_left, condition


@pytest.mark.filterwarnings("ignore:.*--fold-case", "ignore:.*--no-answer")
def test_an_answer_at_the_very_moment_of_a_bound_counts(tmp_path: Path) -> None:
    third, fourth = "2024-01-03T10:00:00Z", "2024-01-04T10:00:00Z"
    within = (f"submitted_at >= {third}", f"submitted_at <= {fourth}")
    assert list(triplets(read(tmp_path, CLEAN, where=within))) == [("c", "1"), ("a", "2")]
    later = ("submitted_at > 2024-01-03T10:00:00Z", "submitted_at < 2024-01-05T10:00:00Z")
    assert list(triplets(read(tmp_path, CLEAN, where=later))) == [("a", "2")]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"where": ("__import__('os')",)}, "write COLUMN OP VALUE"),
        ({"where": ("nobody = 1",)}, "no column 'nobody' among worker, item"),
        ({"where": ("item > x",)}, "needs a number or a date"),
        ({"where": ("worker = nobody",)}, "no answers are left"),
        ({"rename": ("x",)}, "write old=new"),
    ],
)
def test_filters_that_cannot_be(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises((InputError, ConfigError), match=message):
        read(tmp_path, CLEAN, **options)


def test_folders_and_patterns_without_our_outputs(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    for name, row in {"b.csv": "a,1,x", "deep/a.csv": "b,1,x", ".hidden.csv": "c,1,x"}.items():
        (tmp_path / name).write_text(f"worker,item,label\n{row}\n")
    (tmp_path / "labels.csv").write_text("item,label,confidence\n1,x,1\n")
    (tmp_path / "labels.run.json").write_text('{"outputs": {"labels": "labels.csv"}}')
    (tmp_path / "notes.md").write_text("read me")
    result = read_answer_columns([str(tmp_path)])
    assert [Path(file.name).name for file in result.files] == ["b.csv", "a.csv"]
    assert len(read_answer_columns([str(tmp_path / "*.csv")]).files) == 1
    assert len(read_answer_columns([str(tmp_path / "**/*.csv")]).files) == 2
    with pytest.raises(InputError, match="no file matches"):
        read_answer_columns([str(tmp_path / "*.tsv")])


def test_empty_files_are_passed_over_when_asked(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("")
    (tmp_path / "b.csv").write_text("worker,item,label\n")
    (tmp_path / "c.csv").write_text("worker,item,label\na,1,x\n")
    with pytest.raises(InputError, match="empty"):
        read_answer_columns([str(tmp_path)])
    with pytest.warns(MiscWarning, match="left out"):
        result = read_answer_columns([str(tmp_path)], ReadOptions(skip_empty_files=True))
    assert len(result.answers) == 1
