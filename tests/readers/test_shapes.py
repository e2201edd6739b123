"""Files of no platform: each shape with its right reading, or the refusal that names the flag."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from misc_cli.errors import InputError, MiscWarning
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.read import read_answer_columns
from tests.readers.shaped import ANSWERS, ITEMS, WORKERS, read, table, triplets


def wide(header: str) -> str:
    return table(header, [f"{i}," + ",".join(ANSWERS[w, i] for w in WORKERS) for i in ITEMS])


def form(header: str) -> str:
    rows = [f"{w},2024-01-01," + ",".join(ANSWERS[w, i] for i in ITEMS) for w in WORKERS]
    return table(header, rows)


def lines(records: list[Any]) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


OBJECTS = [
    {
        "id": i,
        "text": "t",
        "annotations": [{"annotator": w, "label": ANSWERS[w, i]} for w in WORKERS],
    }
    for i in ITEMS
]


PARALLEL = [
    {"id": i, "annotators": list(WORKERS), "labels": [ANSWERS[w, i] for w in WORKERS]}
    for i in ITEMS
]


ROWS = [{"worker": w, "item": i, "label": label} for (w, i), label in ANSWERS.items()]


@pytest.mark.parametrize(
    ("name", "content", "options"),
    [
        ("a.csv", wide("image,ann1,ann2,ann3"), {}),
        ("a.csv", wide("image,ann1,ann2,ann3").replace(",", ";"), {}),
        ("a.csv", wide("what,ann1,ann2,ann3"), {"layout": "wide", "worker_col": "ann*"}),
        ("a.csv", wide("image,ann1,ann2,ann3"), {"layout": "wide"}),
        ("a.csv", form("participant,date,doc1,doc2"), {"layout": "form", "item_col": "doc*"}),
        ("a.csv", form("participant,date,Mood? [doc1],Mood? [doc2]"), {}),
        ("a.csv", form("Email Address,Timestamp,Mood? [doc1],Mood? [doc2]"), {}),
        ("a.csv", form("respondent,Timestamp,doc1,doc2"), {}),
        ("a.json", json.dumps(OBJECTS), {}),
        ("a.json", json.dumps({"project": "x", "tasks": OBJECTS}), {}),
        ("a.jsonl", lines(OBJECTS), {}),
        ("a.jsonl", lines(PARALLEL), {}),
        (
            "a.jsonl",
            lines([{"id": i, "annotations": {w: ANSWERS[w, i] for w in WORKERS}} for i in ITEMS]),
            {},
        ),
        (
            "a.jsonl",
            lines(
                [
                    {"worker": w, "answers": [{"item": i, "label": ANSWERS[w, i]} for i in ITEMS]}
                    for w in WORKERS
                ]
            ),
            {},
        ),
        ("a.json", json.dumps({"results": ROWS, "exported": "today"}), {}),
        ("a.json", json.dumps({k: [row[k] for row in ROWS] for k in ROWS[0]}), {}),
        (
            "a.json",
            json.dumps({k: {str(n): row[k] for n, row in enumerate(ROWS)} for k in ROWS[0]}),
            {},
        ),
        (
            "a.csv",
            table(
                "item,workers,labels",
                [
                    f"{i},{';'.join(WORKERS)},{';'.join(ANSWERS[w, i] for w in WORKERS)}"
                    for i in ITEMS
                ],
            ),
            {},
        ),
        (
            "a.csv",
            table(
                "item;workers;labels",
                [f"{i};{list(WORKERS)};{[ANSWERS[w, i] for w in WORKERS]}" for i in ITEMS],
            ),
            {},
        ),
    ],
)
def test_the_same_answers_in_other_shapes(
    tmp_path: Path, name: str, content: str, options: dict[str, Any]
) -> None:
    found = read(tmp_path, content, name, **options)
    assert triplets(found) == ANSWERS
    words = shlex.split(found.files[0].flags or "")
    pinned = {w[2:].replace("-", "_"): v for w, v in zip(words[::2], words[1::2], strict=True)}
    assert triplets(read(tmp_path, content, name, **{**options, **pinned})) == ANSWERS


def own_names(record: dict[str, Any]) -> dict[str, Any]:
    """Return a task and its answers under names that nobody knows."""
    answers = [
        {"by": {"nick": one["annotator"]}, "v": one["label"]} for one in record["annotations"]
    ]
    return {"key": record["id"], "v": "?", "said": answers}


@pytest.mark.parametrize(
    ("worker", "item", "label"), [("by.nick", "key", "v"), ("said.by.nick", "key", "said.v")]
)
@pytest.mark.parametrize("wrap", [lambda tasks: tasks, lambda tasks: {"all": {"tasks": tasks}}])
def test_paths_into_lists_are_declared(
    tmp_path: Path, wrap: Callable[[Any], Any], worker: str, item: str, label: str
) -> None:
    text = json.dumps(wrap([own_names(task) for task in OBJECTS]))
    with pytest.raises(InputError, match=r"lists in it hold said\.by\.nick, said\.v; name them"):
        read(tmp_path, text, "a.json")
    found = read(tmp_path, text, "a.json", worker_col=worker, item_col=item, label_col=label)
    assert triplets(found) == ANSWERS
    assert found.files[0].read_as == "worker = said.by.nick, item = key, label = said.v"


def test_parallel_lists_of_any_name_are_declared(tmp_path: Path) -> None:
    lists: list[dict[str, Any]] = [
        {"key": i, "people": list(WORKERS), "they said": [ANSWERS[w, i] for w in WORKERS]}
        for i in ITEMS
    ]
    given = {"worker_col": "people", "item_col": "key", "label_col": "they said"}
    assert triplets(read(tmp_path, lines(lists), "a.jsonl", **given)) == ANSWERS
    rows = [
        ";".join([o["key"], json.dumps(o["people"]), json.dumps(o["they said"])]) for o in lists
    ]
    text = table("key;people;they said", [row.replace('"', "'") for row in rows])
    assert triplets(read(tmp_path, text, **given)) == ANSWERS


def test_objects_in_cells_are_answers_to_the_row(tmp_path: Path) -> None:
    cells = [str([{"user_id": w, "label": ANSWERS[w, i]} for w in WORKERS]) for i in ITEMS]
    text = table("score;classifications", [f"1;{cell}" for cell in cells])
    found = read(tmp_path, text, delimiter=";", header=True)
    assert found.files[0].read_as == (
        "worker = classifications.user_id, item = row, label = classifications.label"
    )
    assert sorted(triplets(found).values()) == sorted(ANSWERS.values())


def crowd(n_items: int = 40) -> dict[str, dict[str, str]]:
    """Return item → worker → label, of four who mostly agree and answer two of three items."""
    return {
        f"k{i}": {f"p{w}": "xyz"[(i + (i * w % 7 == 1)) % 3] for w in range(4) if (i + w) % 3}
        for i in range(n_items)
    }


def test_items_are_told_from_workers_of_two_keys(tmp_path: Path) -> None:
    items = crowd()
    workers = {
        f"p{w}": {i: own[f"p{w}"] for i, own in items.items() if f"p{w}" in own} for w in range(4)
    }
    right = {(w, i): label for i, own in items.items() for w, label in own.items()}
    for content in (items, workers):
        with pytest.warns(MiscWarning, match="a guess"):
            assert triplets(read(tmp_path, json.dumps(content), "a.json")) == right


def test_a_table_that_is_written_column_by_column(tmp_path: Path) -> None:
    items = crowd()
    lists = {f"rater_{w}": [own.get(f"p{w}") for own in items.values()] for w in range(4)}
    found = read(tmp_path, json.dumps({"seed": 3, "scores": lists, "n": {"items": 40}}), "a.json")
    assert len(found.answers) == sum(map(len, items.values()))


@pytest.mark.parametrize("write", ["[{}]".format, str, lambda votes: votes.replace(",", " , ")])
@pytest.mark.parametrize("header", ["word\tmean\tsd\tsaid", ""])
def test_cells_that_list_votes(tmp_path: Path, header: str, write: Callable[[str], str]) -> None:
    """Nobody is named, and each list is about its row."""
    lists = [[n % 3, n % 3, n % 3, (n + (n % 4 == 0)) % 3] for n in range(60)]
    cells = [write(",".join(map(str, own))) for own in lists]
    rows = [f"word {n}\t0.{n}5\t0.5\t{cell}" for n, cell in enumerate(cells)]
    with pytest.warns(MiscWarning, match="--worker-col none --label-col (said|4)"):
        found = read(tmp_path, "\n".join([header, *rows]).lstrip(), "a.tsv")
    assert found.anonymous
    assert found.answers.label.to_pylist()[:5] == ["0", "0", "0", "1", "1"]
    assert len(found.answers) == 240


def test_rows_of_json_without_names(tmp_path: Path) -> None:
    rows = [[w, i, ANSWERS[w, i]] for i in ITEMS for w in WORKERS]
    assert triplets(read(tmp_path, json.dumps(rows), "a.json")) == ANSWERS
    assert triplets(read(tmp_path, lines(rows), "a.jsonl")) == ANSWERS
    named = [["worker", "item", "label"], *rows]
    assert triplets(read(tmp_path, json.dumps(named), "a.json")) == ANSWERS


@pytest.mark.parametrize(
    "header",
    [
        "item,worker_1,label_1,worker_2,label_2,worker_3,label_3",
        "item,rater1_id,rater1_label,rater2_id,rater2_label,rater3_id,rater3_label",
    ],
)
def test_pairs_of_columns(tmp_path: Path, header: str) -> None:
    rows = [f"{i}," + ",".join(f"{w},{ANSWERS[w, i]}" for w in WORKERS) for i in ITEMS]
    result = read(tmp_path, table(header, rows))
    assert result.files[0].reader == "pairs"
    assert triplets(result) == ANSWERS


def test_a_raters_confidence_is_no_question(tmp_path: Path) -> None:
    text = "id,rater_1,rater_1_confidence,rater_2,rater_2_confidence\n1,a,3,b,4\n2,b,4,b,3\n"
    assert read(tmp_path, text).answers.label.to_pylist() == ["a", "b", "b", "b"]


def test_lists_in_parquet(tmp_path: Path) -> None:
    parquet.write_table(pa.Table.from_pylist(PARALLEL), tmp_path / "a.parquet")
    result = read_answer_columns([str(tmp_path / "a.parquet")])
    assert triplets(result) == ANSWERS


def test_cells_that_say_missing_are_no_answers(tmp_path: Path) -> None:
    text = "id,rater_1,rater_2,rater_3\n1,a,NA,b\n2,,b,b\n3,a,nan,a\n"
    result = read(tmp_path, text)
    assert len(result.answers) == 6
    assert result.set_aside == {"no answer": 2}


def test_minus_one_is_asked_about(tmp_path: Path) -> None:
    text = "id,rater_1,rater_2\n1,0,-1\n2,1,1\n3,-1,0\n"
    with pytest.raises(InputError, match=r"(?s)-1 may be a class or no answer.*--no-answer -1"):
        read(tmp_path, text)
    assert len(read(tmp_path, text, no_answer="-1").answers) == 4
    assert len(read(tmp_path, text, allow_odd=True).answers) == 6


def test_a_column_of_gold_in_a_wide_table(tmp_path: Path) -> None:
    result = read(tmp_path, "id,gold,rater_1,rater_2\n1,a,a,b\n2,,b,a\n")
    assert len(result.answers) == 4
    assert result.gold is not None
    assert (result.gold.items.to_pylist(), result.gold.labels.to_pylist()) == (["1"], ["a"])


def test_labels_without_workers(tmp_path: Path) -> None:
    result = read(tmp_path, "item,label\na,x\na,x\na,y\nb,y\n")
    assert result.anonymous
    assert triplets(result)["answer 3", "a"] == "y"
    votes = lines([{"id": 1, "labels": ["x", "x", "y"]}, {"id": 2, "labels": ["y"]}])
    assert read(tmp_path, votes, "a.jsonl").anonymous
    named = read(tmp_path, "item,label,page\na,x,1\na,y,2\n", worker_col="none")
    assert named.anonymous


def test_one_file_per_worker(tmp_path: Path) -> None:
    for worker in WORKERS:
        rows = [f"{i},{ANSWERS[worker, i]}" for i in ITEMS]
        (tmp_path / f"{worker}.csv").write_text(table("item,label", rows))
    result = read_answer_columns([str(tmp_path)], ReadOptions(worker_from="filename"))
    assert triplets(result) == ANSWERS
