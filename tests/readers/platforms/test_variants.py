"""Exports as they really come: other versions, several annotators, skipped tasks, damage."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from misc_cli.errors import InputError, MiscWarning
from misc_cli.readers.answer_table import AnswerTable
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.read import read_answer_columns
from tests.readers.platforms.look import SAMPLES, look, written


def test_mturk_forms(tmp_path: Path) -> None:
    def rows(*answers: str, column: str = "Answer.taskAnswers") -> Path:
        lines = [f"HITId,WorkerId,{column}"]
        for at, answer in enumerate(answers):
            quoted = answer.replace('"', '""')
            lines.append(f'H{at // 2},W{at % 2},"{quoted}"')
        return written(tmp_path, "\n".join(lines) + "\n", "a.csv")

    radio = [json.dumps([{"q": {"yes": v, "no": not v}, "comment": "hm"}]) for v in (True, False)]
    seen = look(rows(*radio))
    assert seen.answers["q"] == [("W0", "H0", "yes"), ("W1", "H0", "no")]
    assert seen.kinds == {"q": "choice", "comment": "text"}
    several = [
        json.dumps([{"q": {"a": True, "b": True}}]),
        json.dumps([{"q": {"a": False, "b": True}}]),
    ]
    assert look(rows(*several)).answers["q"] == [("W0", "H0", ["a", "b"]), ("W1", "H0", ["b"])]
    boxes = json.dumps([{"box": {"boundingBoxes": [{"left": 1, "top": 2, "label": "x"}]}}])
    assert look(rows(boxes)).kinds == {"box": "JSON"}
    with pytest.raises(InputError, match="line 2"):
        look(rows("not json"))
    assert look(rows("cat", "dog", column="Answer.q.label")).answers["q"][0] == ("W0", "H0", "cat")


def test_mturk_checkboxes_and_missing_status(tmp_path: Path) -> None:
    text = (
        "HITId,WorkerId,RejectionTime,Answer.tag.a,Answer.tag.b\n"
        "H1,W1,,true,true\nH1,W2,Mon Jan 05,false,true\nH2,W1,,false,false\n"
    )
    seen = look(written(tmp_path, text, "a.csv"))
    assert seen.answers == {"tag": [("W1", "H1", ["a", "b"]), ("W1", "H2", [])]}
    assert seen.aside == {"rejected": 1}


def test_toloka_variants(tmp_path: Path) -> None:
    aggregated = "INPUT:image\tOUTPUT:result\tCONFIDENCE:result\na.jpg\tcat\t98%\n"
    with pytest.raises(InputError, match="aggregated"):
        look(written(tmp_path, aggregated, "a.tsv"))
    two = (
        "INPUT:a\tINPUT:b\tOUTPUT:x\tOUTPUT:y\tASSIGNMENT:task_id\tASSIGNMENT:worker_id\n"
        "1\t2\tcat\tyes\tt1\tw1\n1\t2\tdog\tno\tt1\tw2\n"
    )
    path = written(tmp_path, two, "a.tsv")
    assert look(path).answers["x"] == [("w1", "t1", "cat"), ("w2", "t1", "dog")]
    with pytest.raises(InputError, match="2 questions"):
        read_answer_columns([str(path)])
    no_item = two.replace("ASSIGNMENT:task_id", "ASSIGNMENT:other")
    with pytest.raises(InputError, match="--item-col"):
        look(written(tmp_path, no_item, "a.tsv"))


def test_appen_variants(tmp_path: Path) -> None:
    no_gold = (
        "_unit_id,_worker_id,_tainted,animal,url\n"
        "1,a,false,cat,u1\n1,b,false,dog,u1\n2,a,false,dog,u2\n2,b,true,dog,u2\n"
    )
    seen = look(written(tmp_path, no_gold, "a.csv"))
    assert seen.answers == {"animal": [("a", "1", "cat"), ("a", "2", "dog"), ("b", "1", "dog")]}
    aggregated = (
        "_unit_id,_golden,_unit_state,_trusted_judgments,animal,animal:confidence\n"
        "1,false,finalized,3,cat,0.9\n"
    )
    with pytest.raises(InputError, match="aggregated report"):
        look(written(tmp_path, aggregated, "a.csv"))
    accepted = '_unit_id,_worker_id,animal,animal_gold\n1,a,cat,"cat\ndog"\n2,a,dog,dog\n'
    assert look(written(tmp_path, accepted, "a.csv")).gold == {"animal": {"2": "dog"}}


def test_appen_with_thirty_thousand_columns(tmp_path: Path) -> None:
    names = [f"q{at}{end}" for at in range(15_000) for end in ("", "_gold")]
    lines = ["_unit_id,_worker_id," + ",".join(names)]
    lines += [f"{row},w{row % 3}," + ",".join(["a", ""] * 15_000) for row in range(3)]
    path = written(tmp_path, "\n".join(lines) + "\n", "a.csv")
    start = time.process_time()
    with pytest.raises(InputError, match="15,000 questions"):
        look(path)
    assert look(path, question="q7").answers["q7"][0] == ("w0", "0", "a")
    assert time.process_time() - start < 10


def test_prodigy_variants(tmp_path: Path) -> None:
    base = {"_input_hash": 1, "_task_hash": 2, "answer": "accept", "text": "x"}
    several = [
        {**base, "_session_id": "a", "options": [], "accept": ["A", "B"]},
        {**base, "_session_id": "b", "options": [], "accept": []},
    ]
    seen = look(written(tmp_path, several, "a.jsonl"))
    assert seen.answers == {"accept": [("a", "1", ["A", "B"]), ("b", "1", [])]}
    spans = [{**base, "_session_id": "a", "spans": [{"start": 0, "end": 1, "label": "PER"}]}]
    assert look(written(tmp_path, spans, "a.jsonl")).kinds == {"spans": "regions"}
    none = [{**base, "_session_id": "a", "tokens": [{"text": "x", "start": 0, "end": 1}]}]
    assert look(written(tmp_path, none, "a.jsonl")).kinds == {"spans": "regions"}
    drawn = [{**base, "_session_id": "a", "spans": [{"points": [[1, 2]], "label": "CAR"}]}]
    assert look(written(tmp_path, drawn, "a.jsonl")).kinds == {"spans": "regions"}
    nobody = [{**base, "_session_id": None, "accept": ["A"]} for _ in range(2)]
    assert not look(written(tmp_path, nobody, "a.jsonl")).has_workers
    with pytest.raises(InputError, match="no worker is named"):
        look(written(tmp_path, [{**base, "versions": []}], "a.jsonl"))


def test_doccano_variants(tmp_path: Path) -> None:
    spans = [{"id": 1, "text": "x", "label": [[0, 1, "PER"]], "Comments": []}]
    assert look(written(tmp_path, spans, "a.jsonl")).kinds == {"label": "regions"}
    table = "id,text,label,user\n1,x,pos,7\n1,x,neg,8\n2,y,pos,7\n3,z,,7\n"
    answers = read_answer_columns([str(written(tmp_path, table, "a.csv"))]).answers
    assert answers.worker.to_pylist() == ["7", "8", "7", "7"]
    assert answers.item.to_pylist() == ["x", "x", "y", "z"]


def test_one_file_for_each_worker(tmp_path: Path) -> None:
    for name, label in (("ann", "pos"), ("ben", "neg")):
        rows = [{"id": 1, "text": "x", "label": [label], "Comments": []}]
        written(tmp_path, rows, f"{name}.jsonl")
        (tmp_path / name).mkdir()
        state = [{"id": 1, "displayed_text": "x", "label_annotations": {"q": {label: "1"}}}]
        written(tmp_path / name, state, "annotated_instances.jsonl")
    files = [str(tmp_path / f"{name}.jsonl") for name in ("ann", "ben")]
    read = read_answer_columns(files, ReadOptions(worker_from="filename"))
    assert read.answers.worker.to_pylist() == ["ann", "ben"]
    files = [str(tmp_path / name / "annotated_instances.jsonl") for name in ("ann", "ben")]
    read = read_answer_columns(files, ReadOptions(worker_from="folder"))
    assert read.answers.worker.to_pylist() == ["ann", "ben"]
    with pytest.raises(InputError, match="--worker-from"):
        look(files[0])


def test_argilla_variants(tmp_path: Path) -> None:
    response = {"user_id": "u1", "value": "a", "status": "submitted"}
    hub = [
        {
            "text": "x",
            "q": [response, {**response, "user_id": "u2", "status": "discarded"}],
            "q-suggestion": "b",
            "external_id": None,
        }
    ]
    seen = look(written(tmp_path, hub))
    assert seen.answers == {"q": [("u1", "x", "a")]}
    assert seen.aside == {"discarded": 1}
    columns = {
        "id": ["1", "2"],
        "status": ["completed", "pending"],
        "q.responses": [["a"], ["b"]],
        "q.responses.users": [["u"], ["u"]],
    }
    with pytest.raises(InputError, match="a list for each column"):
        look(written(tmp_path, columns))
    parquet.write_table(pa.table(columns), tmp_path / "a.parquet")
    assert look(tmp_path / "a.parquet").answers == {"q": [("u", "1", "a"), ("u", "2", "b")]}
    several = [{**hub[0], "q": [{**response, "value": ["a", "b"]}]}]
    assert look(written(tmp_path, several)).kinds == {"q": "choices"}
    ranks = [{**hub[0], "q": [{**response, "value": [{"value": "a", "rank": 1}]}]}]
    assert look(written(tmp_path, ranks)).kinds == {"q": "other"}
    uneven = {"id": "1", "status": "x", "q.responses": ["a"], "q.responses.users": []}
    with pytest.raises(InputError, match="same length"):
        look(written(tmp_path, [uneven, uneven]))


def test_zooniverse_kinds(tmp_path: Path) -> None:
    def one(value: Any) -> Path:
        cell = json.dumps([{"task": "T0", "value": value}]).replace('"', '""')
        text = f'classification_id,user_name,annotations,subject_ids\n1,ann,"{cell}",9\n'
        return written(tmp_path, text, "a.csv")

    assert look(one(["a", "b"])).answers == {"T0": [("ann", "9", ["a", "b"])]}
    assert look(one([{"x": 1.5, "y": 2, "tool": 0}])).kinds == {"T0": "regions"}
    assert look(one([{"choice": "DEER", "answers": {}}])).answers["T0"] == [("ann", "9", "DEER")]
    combined = [{"task": "T1", "value": "Yes"}, {"task": "T2", "value": "No"}]
    assert set(look(one(combined)).answers) == {"T1", "T2"}
    assert look(one([{"select_label": "a", "value": "x"}])).kinds == {"T0": "other"}


def test_worker_responses_of_ground_truth(tmp_path: Path) -> None:
    folder = tmp_path / "iteration-1" / "17"
    folder.mkdir(parents=True)
    content = {"crowd-classifier": {"label": "cat"}}
    answers = {"answers": [{"workerId": "w1", "answerContent": content, "submissionTime": "x"}]}
    seen = look(written(folder, answers))
    assert seen.answers == {"crowd-classifier": [("w1", "17", "cat")]}


def test_doccano_with_a_user_in_each_record(tmp_path: Path) -> None:
    rows = [
        {"id": 1, "text": "x", "label": [label], "user": who, "Comments": []}
        for who, label in (("ann", "pos"), ("ben", "neg"))
    ]
    seen = look(written(tmp_path, rows, "a.jsonl"))
    assert seen.answers == {"label": [("ann", "1", "pos"), ("ben", "1", "neg")]}


def test_a_batch_as_mechanical_turk_writes_it(tmp_path: Path) -> None:
    """The site names Approve and Reject in the header and writes no cells for them."""
    lines = (SAMPLES / "mturk.csv").read_text().splitlines()
    plain = [line for line in lines[1:] if line.endswith(",,")]
    whole = look(written(tmp_path, "\n".join([lines[0], *plain]), "whole.csv"))
    batch = [lines[0], *(line.removesuffix(",,") for line in plain)]
    assert look(written(tmp_path, "\n".join(batch), "batch.csv")) == whole


def test_a_survey_mixes_no_scales_and_says_what_it_leaves_out(tmp_path: Path) -> None:
    head = "StartDate,EndDate,Status,Progress,Finished,RecordedDate,ResponseId,Q_Straightlining"
    own = [f"2024-05-0{n},2024-05-0{n},0,100,1,2024-05-0{n},R_{n},{n}" for n in range(1, 9)]
    path = tmp_path / "survey.csv"

    def read(names: str, rows: list[str]) -> AnswerTable:
        lines = [f"{head},{names}", *(f"{a},{b}" for a, b in zip(own, rows, strict=True))]
        path.write_text("\n".join(lines) + "\n")
        return read_answer_columns([str(path)])

    rated = [f"{1 + n // 7},{2 + n // 6},{2 - n // 7},{1 + n // 6},{n}" for n in range(8)]
    with pytest.warns(MiscWarning, match="Q9 have other answers and are left out"):
        found = read("Q1_1,Q1_2,Q1_3,Q1_4,Q9", rated)
    assert sorted(found.answers.item.unique().to_pylist()) == ["Q1_1", "Q1_2", "Q1_3", "Q1_4"]
    with pytest.raises(InputError, match="answered in words of their own"):
        read("Q1_1,Q1_2,Q9,Q10,Q11", [f"{1 + n % 2},{1 + n % 3},a,b,c" for n in range(8)])
