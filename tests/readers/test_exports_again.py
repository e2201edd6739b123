"""More exports that were read wrong or refused without need, each with its right reading."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from misc_cli.errors import InputError, MiscWarning
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.read import read_answer_columns
from tests.readers.test_exports import ANSWERS, WORKERS, triplets, written

ROWS = "".join(f"{worker},{item},{label}\n" for worker, item, label in ANSWERS)
BY_ITEM: dict[str, dict[str, str]] = {}
for _worker, _item, _label in ANSWERS:
    BY_ITEM.setdefault(_item, {})[_worker] = _label
RIGHT = sorted(ANSWERS)


def lines(records: Iterable[Any]) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def export(folder: Path, text: str, suffix: str = "csv") -> Path:
    path = folder / f"export.{suffix}"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    "text",
    [
        f"Project X export\n\nworker,item,label\n{ROWS}",
        f"Project X export,,\nExported on,2026-11-01,\n,,\nworker,item,label\n{ROWS}",
        f"# of 2026, by nine people\n## see, below\nworker,item,label\n{ROWS}",
        "worker,item,label,,,\n" + ROWS.replace("\n", ",,,\n"),  # empty columns of a spreadsheet
        "worker,item,label\n" + ROWS.replace("\n", ",\n"),  # a delimiter at the end of rows only
        '"worker" "item" "label"\n'  # as R's write.table has it
        + "".join(f'"{n}" "{w}" "{i}" "{c}"\n' for n, (w, i, c) in enumerate(ANSWERS)),
    ],
)
def test_titles_and_rows_longer_than_their_header(tmp_path: Path, text: str) -> None:
    assert triplets(export(tmp_path, text)) == RIGHT


def test_a_title_above_an_unknown_header_is_no_answer(tmp_path: Path) -> None:
    path = export(tmp_path, f"Project X export\n\nwho,what,mood\n{ROWS}")
    with pytest.raises(InputError, match="among who, what, mood"):
        triplets(path)
    assert triplets(path, worker_col="who", item_col="what", label_col="mood") == RIGHT


def test_a_name_that_comes_again_is_a_column_of_its_own(tmp_path: Path) -> None:
    rows = [(f"i{n}", "low", "high", "cat") for n in range(9)]
    path = written(tmp_path, "item,ben,ben,", rows)
    found = triplets(path, layout="wide", item_col="item", worker_col="ben*")
    assert {(w, label) for w, _, label in found} == {("ben", "low"), ("ben_2", "high")}
    assert triplets(path, worker_col="ben", label_col="unnamed")[0] == ("low", "i0", "cat")
    path = written(tmp_path, "worker,item,label,label", [(*own, own[2]) for own in ANSWERS])
    assert triplets(path, label_col="label") == RIGHT
    with pytest.raises(InputError, match=r"'label' .*'label_2'"):
        triplets(path)


def test_null_written_as_labels_are_is_one(tmp_path: Path) -> None:
    rows = [(f"i{n}", "Null", "Low", "null") for n in range(9)]
    path = written(tmp_path, "item,rater_1,rater_2,rater_3", rows)
    with pytest.warns(MiscWarning, match="'Null' counts as a class"):
        found = triplets(path, layout="wide")
    assert {(w, label) for w, _, label in found} == {("rater_1", "Null"), ("rater_2", "Low")}


def test_marks_with_a_decimal_comma_are_no_coordinates(tmp_path: Path) -> None:
    marks = [(w, i, {"cat": "1,5", "dog": "2,0"}[label]) for w, i, label in ANSWERS]
    assert triplets(written(tmp_path, "worker;item;label", marks, ";")) == sorted(marks)


@pytest.mark.parametrize("own", ["label", "answer"])
@pytest.mark.parametrize("shape", ["objects", "keys", "lists"])
def test_a_tasks_own_label_is_nobodys_answer(tmp_path: Path, own: str, shape: str) -> None:
    answers: dict[str, Any] = {
        "objects": lambda said: {"annotations": [{"annotator": w, "label": s} for w, s in said]},
        "keys": lambda said: {"annotators": dict(said)},
        "lists": lambda said: {
            "annotators": [w for w, _ in said],
            "annotator_labels": [s for _, s in said],
        },
    }
    records = [
        {"id": item, own: "consensus", **answers[shape](list(said.items()))}
        for item, said in BY_ITEM.items()
    ]
    assert triplets(export(tmp_path, lines(records), "jsonl")) == RIGHT


def test_a_consensus_beside_the_answers_is_asked_about(tmp_path: Path) -> None:
    rows = [(w, i, "cat", label) for w, i, label in ANSWERS]
    path = written(tmp_path, "worker,item,label,answer", rows)
    with pytest.raises(InputError, match=r"'answer' and 'label' may each be the label"):
        triplets(path)
    assert triplets(path, label_col="answer") == RIGHT


def sparse() -> dict[str, dict[str, str]]:
    """By item, without one answer: not every worker answered everything."""
    found = {item: dict(said) for item, said in BY_ITEM.items()}
    del found["0.jpg"]["anna"]
    return found


def test_a_map_of_maps(tmp_path: Path) -> None:
    right = [row for row in RIGHT if row[:2] != ("anna", "0.jpg")]
    by_worker = {w: {i: c for ww, i, c in right if ww == w} for w in WORKERS}
    for content in (sparse(), by_worker, {"annotations": sparse()}):
        assert triplets(export(tmp_path, json.dumps(content), "json")) == right
    listed = {i: [{"annotator": w, "label": c} for w, c in s.items()] for i, s in BY_ITEM.items()}
    assert triplets(export(tmp_path, json.dumps(listed), "json")) == RIGHT


def test_a_map_that_may_hold_questions_is_for_the_user_to_say(tmp_path: Path) -> None:
    content = {f"{n}.jpg": {"is_cat": "yes", "is_dog": "no"} for n in range(8)}
    path = export(tmp_path, json.dumps(content), "json")
    with pytest.raises(InputError, match="no worker and item column among outer key, inner key"):
        triplets(path)
    said = {"worker_col": "inner key", "item_col": "outer key"}
    assert len(triplets(path, **said)) == 16


@pytest.mark.parametrize("field", ["answers", "predictions", "models", None])
def test_a_panel_of_language_models(tmp_path: Path, field: str | None) -> None:
    models = {"anna": "gpt-4o", "ben": "claude-3-5-sonnet", "cleo": "meta-llama/Llama-3-70b"}
    panel = {i: {models[w]: c for w, c in said.items()} for i, said in BY_ITEM.items()}
    records = [
        {"id": i, "prompt": f"What is {i}?", **({field: said} if field else said)}
        for i, said in panel.items()
    ]
    right = sorted((models[w], i, c) for w, i, c in ANSWERS)
    assert triplets(export(tmp_path, lines(records), "jsonl")) == right
    flat = [{"question_id": i, "model": models[w], "output": c} for w, i, c in ANSWERS]
    assert triplets(export(tmp_path, lines(flat), "jsonl")) == right


def test_json_whatever_its_suffix(tmp_path: Path) -> None:
    records = [{"worker": w, "item": i, "label": c} for w, i, c in ANSWERS]
    assert triplets(export(tmp_path, lines(records), "json")) == RIGHT
    assert triplets(export(tmp_path, json.dumps({"data": records}, indent=1), "jsonl")) == RIGHT


def table(rows: Iterable[Iterable[Any]]) -> str:
    return "".join(
        ",".join(f'"{str(c).replace(chr(34), chr(34) * 2)}"' for c in r) + "\n" for r in rows
    )


def test_qualtrics(tmp_path: Path) -> None:
    own = ["StartDate", "Status", "Finished", "ResponseId", "Q1"]
    asked = [f"Q{n}" for n in (2, 3, 4)]
    texts = ["Start Date", "Response Type", "Finished", "Response ID", "Do you consent?"]
    rows = [
        [*own, *asked],
        [*texts, *(f"What is image {n}?" for n in (2, 3, 4))],
        [json.dumps({"ImportId": name}) for name in (*own, *asked)],
        *(
            ["2026-11-01", "IP Address", "True", f"R_{n}", "cat", "cat", "dog", "cat"]
            for n in range(6)
        ),
        ["2026-11-01", "Survey Preview", "True", "R_9", "cat", "dog", "dog", "dog"],
    ]
    path = export(tmp_path, table(rows))
    result = read_answer_columns([str(path)])
    assert result.files[0].reader == "qualtrics"
    assert result.set_aside == {"preview, test or spam": 1}
    said = {"Q2": "cat", "Q3": "dog", "Q4": "cat"}
    assert triplets(path) == sorted((f"R_{n}", q, s) for n in range(6) for q, s in said.items())


def test_a_form_with_a_second_header_is_refused(tmp_path: Path) -> None:
    rows = [
        ["Email", "Is image 1 a cat?", "Is image 2 a cat?"],
        ["", "Response", "Response"],
        *([f"p{n}@x.org", "Yes", "No"] for n in range(6)),
    ]
    with pytest.raises(InputError, match="line 2: a label without its worker"):
        triplets(export(tmp_path, table(rows)))


def test_several_items_in_one_task_of_mechanical_turk(tmp_path: Path) -> None:
    header = ["HITId", "WorkerId", "AssignmentStatus", "Input.image1", "Input.image2"]
    rows = [
        [*header, "Answer.mood1", "Answer.mood2"],
        ["H1", "w1", "Approved", "a.jpg", "b.jpg", "good", "bad"],
        ["H1", "w2", "Approved", "a.jpg", "b.jpg", "good", "good"],
        ["H1", "w3", "Rejected", "a.jpg", "b.jpg", "bad", "bad"],
    ]
    path = export(tmp_path, table(rows))
    with pytest.warns(MiscWarning, match=r"Input.image1, Input.image2 are items, answered by"):
        found = triplets(path)
    assert found == [
        *[("w1", "a.jpg", "good"), ("w1", "b.jpg", "bad")],
        *[("w2", "a.jpg", "good"), ("w2", "b.jpg", "good")],
    ]


@pytest.mark.parametrize(
    ("label", "message"),
    [
        ("Cat", r"'Cat' and 'cat' are different classes.*--fold-case makes them one"),
        ("N/A", r"'N/A' counts as a class.*--no-answer 'N/A'"),
        ("None", r"'None' counts as a class.*--no-answer 'None'"),
    ],
)
def test_classes_that_may_be_one_are_named(tmp_path: Path, label: str, message: str) -> None:
    path = written(tmp_path, "worker,item,label", [*ANSWERS, ("zoe", "0.jpg", label)])
    with pytest.warns(MiscWarning, match=message):
        assert len(triplets(path)) == len(ANSWERS) + 1


def test_what_programs_write_for_nothing_is_no_answer(tmp_path: Path) -> None:
    rows = [*ANSWERS, ("zoe", "0.jpg", "NaN"), ("zoe", "1.jpg", "<NA>")]
    path = written(tmp_path, "worker,item,label", rows)
    assert triplets(path) == RIGHT
    assert read_answer_columns([str(path)], ReadOptions()).set_aside == {"no answer": 2}
    assert len(triplets(path, rename=("NaN=flat bread",))) == len(ANSWERS) + 1


def test_an_id_beside_a_text_names_the_item(tmp_path: Path) -> None:
    rows = [("some text" if i < "4" else f"text {i}", i, w, label) for w, i, label in ANSWERS]
    assert triplets(written(tmp_path, "text,id,rater_id,label", rows)) == RIGHT


@pytest.mark.parametrize("counts", [{"cat": 3, "dog": 1}, [3, 1, 1]])
def test_counts_are_nobodys_answers(tmp_path: Path, counts: Any) -> None:
    content: dict[str, Any] = {f"{n}.jpg": counts for n in range(8)}
    if isinstance(counts, dict):
        content["0.jpg"] = {"cat": 4}
    with pytest.raises(InputError, match="no worker"):
        triplets(export(tmp_path, json.dumps(content), "json"))


def test_workers_beside_one_label_for_all_are_refused(tmp_path: Path) -> None:
    records = [
        {"id": i, "label": "cat", "annotators": list(said), "confidence": ["low"] * len(said)}
        for i, said in BY_ITEM.items()
    ]
    with pytest.raises(InputError, match="no label column"):
        triplets(export(tmp_path, lines(records), "jsonl"))


@pytest.mark.parametrize("together", ["cat|bird", "cat\nbird"])
def test_options_chosen_together_need_not_all_come_alone(tmp_path: Path, together: str) -> None:
    rows = [*ANSWERS, *((f"z{n}", f"{n}.jpg", f'"{together}"') for n in range(4))]
    with pytest.raises(InputError, match="several choices per answer"):
        triplets(written(tmp_path, "worker,item,label", rows))


def test_labels_of_annotators_without_names(tmp_path: Path) -> None:
    records = [
        {"pairID": i, "gold_label": "cat", "annotator_labels": list(said.values())}
        for i, said in BY_ITEM.items()
    ]
    found = read_answer_columns([str(export(tmp_path, lines(records), "jsonl"))])
    assert found.anonymous
    assert len(found.answers) == len(ANSWERS)


def test_columns_that_only_look_like_models_are_asked_about(tmp_path: Path) -> None:
    rows = [(item, *said.values()) for item, said in BY_ITEM.items()]
    for header in ("item,o1,o2,o3", "item,phi,falcon,nova"):
        with pytest.raises(InputError, match="--layout wide"):
            triplets(written(tmp_path, header, rows))
