"""Exports that were read wrong or refused without need, each with its right reading."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from misc_cli.errors import InputError
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.read import read_answer_columns
from misc_cli.readers.values import CHOICE, CHOICES, kind_of_values

WORKERS = ("anna", "ben", "cleo")
ANSWERS = [
    (w, f"{i}.jpg", "cat" if (i + n) % 3 else "dog")
    for i in range(8)
    for n, w in enumerate(WORKERS)
]


def triplets(path: Path, **options: Any) -> list[tuple[str, str, str]]:
    answers = read_answer_columns([str(path)], ReadOptions(**options)).answers
    columns = (answers.worker, answers.item, answers.label)
    return sorted(zip(*(column.to_pylist() for column in columns), strict=True))


def written(folder: Path, header: str, rows: list[tuple[Any, ...]], delimiter: str = ",") -> Path:
    path = folder / "export.csv"
    lines = [header, *(delimiter.join(map(str, row)) for row in rows)]
    path.write_text("\n".join(lines) + "\n")
    return path


def boxed(n_boxes: int, *, same: bool = False) -> list[tuple[Any, ...]]:
    return [
        (item, worker, label if same or not box else "bird", 10 * box, 20 + box, 5, 5)
        for worker, item, label in ANSWERS
        for box in range(n_boxes)
    ]


@pytest.mark.parametrize("same", [True, False])
@pytest.mark.parametrize(
    "header", ["image,annotator,label,x,y,w,h", "filename,annotator,class,xmin,ymin,xmax,ymax"]
)
def test_a_label_per_box_is_refused(tmp_path: Path, header: str, same: bool) -> None:
    path = written(tmp_path, header, boxed(2, same=same))
    with pytest.raises(InputError, match=r"48 rows .* labels a box or a span .*--item-col"):
        triplets(path)
    assert triplets(path, allow_odd=True)


def test_spans_and_boxes_in_json_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "export.json"
    records = [
        {
            "image": i,
            "annotations": [
                {"annotator": w, "label": "x", "bbox": [n, 2, 3, 4]}
                for w in WORKERS
                for n in (1, 2)
            ],
        }
        for i in range(6)
    ]
    path.write_text(json.dumps(records))
    with pytest.raises(InputError, match="labels a box or a span"):
        triplets(path)
    spans = [(i, w, 5 * n, 5 * n + 3, "PER") for w, i, _ in ANSWERS for n in (0, 1)]
    with pytest.raises(InputError, match="'start', 'end'"):
        triplets(written(tmp_path, "doc_id,annotator,start,end,label", spans))


def test_places_of_items_are_no_boxes(tmp_path: Path) -> None:
    """One box per answer, the same place for all answers to an item, and few corrections."""
    assert triplets(written(tmp_path, "image,annotator,label,x,y,w,h", boxed(1))) == sorted(ANSWERS)
    rows = [(w, i, 50.5, 8.25, label) for w, i, label in ANSWERS]
    assert triplets(written(tmp_path, "worker,image,lat,lon,label", [*rows, *rows[:2]]))


@pytest.mark.parametrize(
    ("header", "more"),
    [
        ("worker,site_id,label,lat,lon", (50.1, 8.2)),
        ("email,sample,decision", ()),
        ("participant,stimulus,response,rt", (512,)),
        ("coder,utterance,code,ts", ("2024-01-01 10:00:00",)),
    ],
)
def test_other_names(tmp_path: Path, header: str, more: tuple[Any, ...]) -> None:
    assert triplets(written(tmp_path, header, [(*row, *more) for row in ANSWERS])) == sorted(
        ANSWERS
    )


def test_an_id_that_is_not_the_items_is_not_taken(tmp_path: Path) -> None:
    counted = [(w, n, label) for n, (w, _, label) in enumerate(ANSWERS)]
    for header, rows in (
        ("worker,entry_id,label", counted),
        ("worker,team_id,label", [(w, f"t{w}", label) for w, _, label in ANSWERS]),
    ):
        with pytest.raises(InputError, match="no item column"):
            triplets(written(tmp_path, header, rows))


def test_objects_under_keys(tmp_path: Path) -> None:
    path = tmp_path / "export.json"
    posts = {
        f"p{n}": {
            "post_tokens": ["a"],
            "annotators": [{"annotator_id": w, "label": "x"} for w in WORKERS],
        }
        for n in range(3)
    }
    path.write_text(json.dumps(posts))
    assert triplets(path, question="label") == sorted((w, p, "x") for p in posts for w in WORKERS)
    by_number = {
        str(n): {"worker": w, "word": i, "label": a} for n, (w, i, a) in enumerate(ANSWERS)
    }
    path.write_text(json.dumps(by_number))
    assert triplets(path, item_col="word") == sorted(ANSWERS)  # the key counts answers


def test_a_file_per_worker_whose_items_have_one_answer_each(tmp_path: Path) -> None:
    path = tmp_path / "anna.jsonl"
    rows = [{"id": n, "text": f"text {n}", "label": [("good", "bad")[n % 2]]} for n in range(12)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert {worker for worker, _, _ in triplets(path, worker_from="filename")} == {"anna"}


def test_an_option_twice_is_no_set() -> None:
    assert kind_of_values(["é", "é;é"], 2).name == CHOICE
    assert kind_of_values(["a", "b", "a;b"], 9).name == CHOICES


def test_an_empty_column_without_a_header_is_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "export.csv"
    for text in ("w1,,x\nw2,,y\nw1,,x\n", ",w1,x\n,w2,y\n", "w1,,\nw2,,\n"):
        path.write_text(text)
        with pytest.raises(InputError):
            triplets(path)


def test_lists_as_text_in_objects_under_keys(tmp_path: Path) -> None:
    """The form of the Learning With Disagreements datasets."""
    items = {i: [(w, a) for w, at, a in ANSWERS if at == i] for _, i, _ in ANSWERS}
    posts = {
        i: {
            "text": f"the text of {i}",
            "annotators": ",".join(w for w, _ in said),
            "annotations": ",".join(a for _, a in said),
            "soft_label": {"0": 0.3, "1": 0.7},
        }
        for i, said in items.items()
    }
    path = tmp_path / "export.json"
    path.write_text(json.dumps(posts))
    assert triplets(path) == sorted(ANSWERS)
