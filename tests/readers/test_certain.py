"""Guesses are certain or refused: readings that strangers' files were once given, and why not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from misc_cli.errors import InputError
from tests.readers.shaped import read, table

SAID = ("yes", "no", "no", "yes", "yes")


def refused(folder: Path, text: str, name: str = "a.csv") -> str:
    with pytest.raises(InputError) as caught:
        read(folder, text, name)
    return str(caught.value)


def test_names_beside_labels_are_workers(tmp_path: Path) -> None:
    rows = [f"t{n},{SAID[n % 5]},{'ABC'[n % 3]},{SAID[n % 4]},D" for n in range(20)]
    result = read(tmp_path, table("text,hate_G1,annotator_G1,hate_G2,annotator_G2", rows))
    assert result.files[0].reader == "pairs"
    assert set(result.answers.worker.to_pylist()) == {"A", "B", "C", "D"}
    assert set(result.answers.label.to_pylist()) == {"yes", "no"}
    text = table("text,said_x,by_x,said_y,by_y", rows)
    declared = read(tmp_path, text, worker_col="by_*", label_col="said_*", item_col="text")
    assert declared.answers.worker.to_pylist() == result.answers.worker.to_pylist()


def test_raters_go_before_the_counts_that_were_made_of_them(tmp_path: Path) -> None:
    votes = [[SAID[(n + m // 2) % 5] for m in range(3)] for n in range(30)]
    rows = [f"{n},{','.join(v)},{v.count('yes')},{v.count('no')}" for n, v in enumerate(votes)]
    text = table("case_id,label_1,label_2,label_3,count_yes,count_no", rows)
    assert "--worker-col 'label_*' --item-col case_id --layout wide" in refused(tmp_path, text)


def test_questions_are_not_offered_as_workers(tmp_path: Path) -> None:
    """A row may be a person, and numbered columns what each was asked."""
    rows = [f"2024-01-{n + 1:02},{','.join(SAID)}" for n in range(20)]
    header = "SubmitTime," + ",".join(f"Answer {n}" for n in range(5))
    assert "try:" not in refused(tmp_path, table(header, rows))


def test_lists_of_votes(tmp_path: Path) -> None:
    records = [
        {"id": n, "size": list(SAID[:3]), "weight": [SAID[n % 5], "no", "no", "no"]}
        for n in range(8)
    ]
    lines = "".join(json.dumps(one) + "\n" for one in records)
    told = refused(tmp_path, lines, "a.jsonl")
    assert "lists of votes stand in 'weight', 'size'" in told
    assert "--label-col weight" in told
    rows = [f'o{n},"{one["size"]}","{one["weight"]}"' for n, one in enumerate(records)]
    result = read(tmp_path, table("object,size,weight", rows), label_col="weight")
    assert result.anonymous
    assert (len(result.answers), len(set(result.answers.item.to_pylist()))) == (32, 8)


def test_raters_called_by_their_names_are_proposed_for_three_rows(tmp_path: Path) -> None:
    text = "name,anna,ben,carl\nx,cat,dog,cat\ny,cat,cat,dog\nz,dog,dog,dog\n"
    assert "--worker-col anna,ben,carl --item-col name --layout wide" in refused(tmp_path, text)


def test_an_item_that_a_worker_answers_many_times_is_not_the_item(tmp_path: Path) -> None:
    rows = [f"w{n % 3},d{n // 48},s{n // 3 % 16},{SAID[n // 5 % 5]},x" for n in range(240)]
    told = refused(tmp_path, table("rater,doc_id,segment,label,note", rows))
    assert "times a worker gives one item different labels" in told
    assert "--duplicates" not in told


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            table("judge_id,pair_id,label", [f"j,{n},{SAID[n % 5]}" for n in range(30)]),
            "one worker",
        ),
        (
            "".join(f"he {n % 9},it {n},{SAID[n % 5]}\n" for n in range(60)),
            "hardly a value of column 2",
        ),
    ],
)
def test_one_answer_to_each_item_is_nothing_to_vote_on(
    tmp_path: Path, text: str, message: str
) -> None:
    assert message in refused(tmp_path, text)


@pytest.mark.parametrize(
    "header", ["Group,Subject,Raters,Var1,Var2,Var2", ",Subject,Raters,Var1,Var1,Var2"]
)
def test_a_name_that_is_doubled_or_empty_is_still_in_a_header(tmp_path: Path, header: str) -> None:
    rows = [f"{n},{n // 3},R{n % 3},{n % 4},{n % 3},5" for n in range(24)]
    assert "no header" not in refused(tmp_path, table(header, rows))


def test_two_unlike_questions_of_a_survey_are_no_items(tmp_path: Path) -> None:
    care = ("Yes", "No", "Maybe", "No")
    rows = [f"2024-01-01,{SAID[n % 5].title()},{care[n % 4]}" for n in range(40)]
    told = refused(tmp_path, table("Timestamp,Has conflict,Do you care?", rows))
    assert "unlike questions" in told or "no worker" in told


def test_many_regions_of_a_task_take_no_more_than_their_text(tmp_path: Path) -> None:
    """Each region once doubled the text of those before it: 1 MB of JSON became gigabytes."""
    regions = [
        {"from_name": "label", "value": {"start": n, "end": n + 2, "labels": ["Date"], "text": "x"}}
        for n in range(60)
    ]
    tasks = [
        {"id": n, "data": {"text": "t"}, "annotations": [{"completed_by": who, "result": regions}]}
        for n in range(3)
        for who in (1, 2)
    ]
    assert "kind regions" in refused(tmp_path, json.dumps(tasks), "a.json")


WHO, TRUE = ("ann", "ben", "eve"), ("yes", "no", "no", "yes")


def said(n: int, worker: int) -> str:
    """Return what most say of item n; each worker errs with some items."""
    return TRUE[n % 4] if (n + worker) % 5 else TRUE[(n + 1) % 4]


TWO_COLUMNS = table(
    "worker_id,doc,system,summary,is_good",
    [
        f"{w},{n % 10},{'ab'[n // 10]},text {n},{said(n, at)}"
        for n in range(20)
        for at, w in enumerate(WHO)
    ],
)
BY_RATERS = table(
    "text,hate_1,hate_2,hate_3,spam_1,spam_2,spam_3,rude_1,rude_2,rude_3",
    [f"t{n % 30}," + ",".join(said(n, w) for _ in range(3) for w in range(3)) for n in range(40)],
)
ASKED = table(
    "SubmitTime," + ",".join(f"Answer {n}" for n in range(12)),
    [f"2024-01-{w + 1:02}," + ",".join(said(n, w) for n in range(12)) for w in range(9)],
)


@pytest.mark.parametrize(
    ("text", "command"),
    [
        (TWO_COLUMNS, "--worker-col worker_id --item-col doc,system --label-col is_good"),
        (BY_RATERS, "--worker-col 'hate_*' --item-col row --layout wide"),
        (ASKED, "--worker-col row --item-col 'Answer *' --layout form"),
    ],
)
def test_the_likeliest_reading_is_proposed(tmp_path: Path, text: str, command: str) -> None:
    assert f"try: misc aggregate {tmp_path}/a.csv {command}" in refused(tmp_path, text)


TYPED = ("soup", "stew", "bread", "tea", "pie", "rice", "fish", "ham")


def test_answers_of_mechanical_turk_are_names(tmp_path: Path) -> None:
    text = table("Answer.a1,Answer.b2,Answer.c3", ["yes,no,yes", "no,no,yes", "yes,yes,no"])
    assert "among Answer.a1, Answer.b2, Answer.c3" in refused(tmp_path, text)


@pytest.mark.parametrize(
    ("first", "second", "is_chosen"),
    [
        # each word is of one item, beside "none" for all others
        (
            lambda n, w: TYPED[n] if n < 4 else "none",
            lambda n, w: TYPED[-n] if n > 4 else "none",
            False,
        ),
        # one price in two forms
        (lambda n, w: "$6.00" if w == 0 else "67"[n % 2], lambda n, w: TYPED[n], False),
        (lambda n, w: said(n, w), lambda n, w: TYPED[n] if n < 4 else "none", True),
    ],
)
def test_what_is_typed_is_not_proposed(
    tmp_path: Path,
    first: Callable[[int, int], str],
    second: Callable[[int, int], str],
    is_chosen: bool,
) -> None:
    rows = [
        f"h{n},{who},Approved,{first(n, w)},{second(n, w) if w else 'none'}"
        for n in range(8)
        for w, who in enumerate(WHO)
    ]
    header = "HITId,WorkerId,AssignmentStatus,Answer.one,Answer.two"
    message = refused(tmp_path, table(header, rows))
    assert ("--question one" in message) is is_chosen
    assert "--question two" not in message
    assert is_chosen or ("typed, not chosen" in message and "--" not in message)
