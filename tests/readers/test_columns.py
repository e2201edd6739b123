"""Which columns hold worker, item and label: by their names, or by the user's word."""

from __future__ import annotations

from pathlib import Path

import pytest

from misc_cli.errors import InputError
from misc_cli.readers.vocabulary import SYNONYMS
from tests.conftest import REPO
from tests.readers.texts import ROWS, read_text, rows_of


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("task,worker,label", "worker task label"),
        ("task,performer,label", "performer task label"),
        ("HITId,AssignmentId,WorkerId,Input.url,Answer.mood", "WorkerId HITId Answer.mood"),
        (
            "INPUT:image,OUTPUT:result,GOLDEN:result,ASSIGNMENT:task_id,ASSIGNMENT:worker_id",
            "ASSIGNMENT:worker_id INPUT:image OUTPUT:result",
        ),
        (
            "INPUT:a,INPUT:b,OUTPUT:result,ASSIGNMENT:task_id,ASSIGNMENT:worker_id",
            "ASSIGNMENT:worker_id ASSIGNMENT:task_id OUTPUT:result",
        ),
        (
            "_unit_id,_id,_trust,_worker_id,mood,mood_gold,tweet",
            "_worker_id _unit_id mood",
        ),
        ("annotation_id,annotator,choice,id,image,lead_time", "annotator id choice"),
        (
            "!amt_annotation_ids,!amt_worker_ids,orig_id,response",
            "!amt_worker_ids orig_id response",
        ),
        ("amt_annotation_ids,amt_people,orig_id,response", None),
        ("user_id,annotator_id,item,label", "annotator_id item label"),
        ("worker,worker_id,item,item_id,label,value", "worker item label"),
        ("question,user,answer", "user question answer"),
        ("text,annotator,label", "annotator text label"),
        ("text,example_id,annotator,label", "annotator example_id label"),
    ],
)
def test_columns_by_name(tmp_path: Path, header: str, expected: str | None) -> None:
    text = header + "\n" + ",".join("abcdefgh"[: header.count(",") + 1]) + "\n"
    if expected is None:
        with pytest.raises(InputError, match="--worker-col"):
            read_text(tmp_path, text, worker_col=None, label_col="response")  # type: ignore[arg-type]
        return
    assert " ".join(read_text(tmp_path, text).files[0].columns.values()) == expected


def test_columns_by_the_users_word(tmp_path: Path) -> None:
    text = "who,what,said,label\nw1,i1,cat,x\nw2,i1,dog,x\nw1,i2,cat,x\n"
    options = {"worker_col": "WHO", "item_col": "2", "label_col": "said"}
    assert rows_of(read_text(tmp_path, text, **options)) == ROWS
    headerless = "cat i1 w1\ndog i1 w2\ncat i2 w1\n"
    options = {"worker_col": "3", "item_col": "2", "label_col": "1"}
    assert rows_of(read_text(tmp_path, headerless, "a.txt", **options)) == ROWS


def test_the_documented_names_are_the_known_ones() -> None:
    text = (REPO / "docs" / "input.md").read_text()
    for role, tiers in SYNONYMS.items():
        row = next(line for line in text.splitlines() if line.startswith(f"| {role} |"))
        groups = row.strip("| ").partition("|")[2].split("·")
        documented = [set(group.replace(",", " ").split()) for group in groups]
        assert documented == tiers
