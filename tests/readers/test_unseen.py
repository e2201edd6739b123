"""Principles found on files that nobody had seen: who answered, what is asked, what is none."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from misc_cli.errors import InputError, MiscWarning
from tests.readers.shaped import read, table, triplets

PEOPLE = [f"p{n}" for n in range(6)]
PAIRS = [(f"word{a}", f"term{b}") for a in range(6) for b in range(5)]


def said(pair: int, person: int) -> str:
    return "no" if (pair + (pair * person % 5 == 1)) % 3 else "yes"


def rows_of(line: Callable[[int, int], str], n_items: int = 30, gap: int = 7) -> list[str]:
    """Return a line for each item and person, but for those whose numbers add up to a gap."""
    pairs = [(item, at) for item in range(n_items) for at in range(len(PEOPLE))]
    return [line(item, at) for item, at in pairs if (item + at) % gap]


def refused(folder: Path, text: str, name: str = "a.csv") -> str:
    with pytest.raises(InputError) as caught:
        read(folder, text, name)
    return str(caught.value)


def test_the_fewest_columns_that_a_worker_answers_once_are_the_item(tmp_path: Path) -> None:
    rows = rows_of(lambda n, at: ",".join([*PAIRS[n], PEOPLE[at], said(n, at)]), gap=3)
    told = refused(tmp_path, table("group,attribute,annotator,annotation", rows))
    assert "--worker-col annotator --item-col group,attribute --label-col annotation" in told


def test_whose_age_follows_is_who_answered(tmp_path: Path) -> None:
    rows = rows_of(lambda n, at: f"u{at},{20 + at},doc{n},{said(n, at)}", gap=4)
    told = refused(tmp_path, table("unit_id,age,doc_id,S6", rows))
    assert "--worker-col unit_id --item-col doc_id --label-col S6" in told


def test_what_a_worker_always_says_is_about_the_worker(tmp_path: Path) -> None:
    """A mother tongue is no question about the items, though it is answered first."""
    tongue = ("no", "yes")
    rows = rows_of(lambda n, at: f"p{at},x{n}{at},{n},{tongue[at % 2]},{said(n, at)}")
    names = "WorkerId,AssignmentId,HITId,Answer.english,Answer.fits"
    assert refused(tmp_path, table(names, rows)).endswith("--question fits")


def test_what_one_judge_says_are_no_judges(tmp_path: Path) -> None:
    names = "judge_intent_preserved,judge_realistic_for_context,judge_keep"
    rows = [f"q{n}," + ",".join(said(n, at) for at in range(3)) for n in range(30)]
    refused(tmp_path, table(f"query_id,{names}", rows))
    columns = [f"annotator_{who}_{what}" for who in ("H1", "H2") for what in ("mood", "tone")]
    rows = [f"q{n}," + ",".join(said(n, at % 2) for at in range(4)) for n in range(30)]
    told = refused(tmp_path, table(f"query_id,{','.join(columns)}", rows))
    assert "--worker-col annotator_H1_mood,annotator_H2_mood --item-col query_id" in told


def test_answers_are_spread_evenly_over_items(tmp_path: Path) -> None:
    """One worker did most of it; three answered each item."""
    rows = [f"{w},{i},{said(i, w)}" for i in range(40) for w in (0, 1 + i % 9, 10 + i * i % 11)]
    with pytest.warns(MiscWarning, match="as worker, item, label: answers are spread evenly"):
        assert len(read(tmp_path, table("", rows).lstrip()).answers) == 120


def test_tables_within_json(tmp_path: Path) -> None:
    right = {(w, f"i{n}"): said(n, at) for n in range(12) for at, w in enumerate(PEOPLE[:3])}
    rows = [[who, item, label] for (who, item), label in right.items()]
    split = {"columns": ["worker_id", "message_id", "label"], "index": [0], "data": rows}
    assert triplets(read(tmp_path, json.dumps(split), "a.json")) == right
    counted = [{"id": n, "labels": {"yes": 1 + n % 4, "no": 3 - n % 3}} for n in range(12)]
    found = read(tmp_path, json.dumps(counted), "b.json")
    assert found.anonymous
    assert len(found.answers) == sum(4 + n % 4 - n % 3 for n in range(12))


def test_classes_that_are_numbered_have_a_header(tmp_path: Path) -> None:
    rows = [f"qqp-{n}-a,{n % 4},{3 - n % 4}" for n in range(20)]
    found = read(tmp_path, table("task_id,0,1", rows))
    assert found.anonymous
    assert len(found.answers) == 60


def test_columns_of_annotators_without_a_header(tmp_path: Path) -> None:
    rows = [f"verb{n}," + ",".join(said(n, at) for at in range(3)) for n in range(40)]
    with pytest.warns(MiscWarning, match="--worker-col 2,3,4 --item-col 1 --layout wide"):
        assert len(read(tmp_path, table("", rows).lstrip()).answers) == 120


def test_columns_that_name_a_pair_of_people_are_no_votes(tmp_path: Path) -> None:
    pairs = [(a, b) for a in "uvwxyz" for b in "uvwxyz" if a < b]
    told = refused(
        tmp_path,
        table("annotator_a,annotator_b,k", [f"{a},{b},0.{n}" for n, (a, b) in enumerate(pairs)]),
    )
    assert "agree in 0%" in told


def test_a_text_that_hardly_comes_again_is_no_item_of_votes(tmp_path: Path) -> None:
    rows = [f"{'ab'[n % 2]},text {n % 57}" for n in range(60)]
    assert "no worker column" in refused(tmp_path, table("Label,Tweet", rows))


def test_a_table_whose_response_is_measured_has_no_other_label(tmp_path: Path) -> None:
    """The condition of the experiment is none, though it has classes."""
    rows = [
        f"{who},pred{n},{'ab'[(n + at) % 2]},0.{n}{at}"
        for n in range(12)
        for at, who in enumerate(PEOPLE)
    ]
    told = refused(tmp_path, table("workerid,predicate,first,response", rows))
    assert "try:" not in told


def test_who_answers_again_and_otherwise_answers_about_something_else(tmp_path: Path) -> None:
    rows = [
        f"{who},img{n},caption {n} {k},{said(n + k, at)}"
        for n in range(40)
        for at, who in enumerate(PEOPLE[:3])
        for k in range(1 + (n % 2))
    ]
    told = refused(tmp_path, table("annotator,image,caption,label", rows))
    assert "a worker gives one item different labels" in told


def test_a_guess_is_read_only_if_answers_agree_clearly(tmp_path: Path) -> None:
    """The order of an experiment's slides makes a key as an item does; colours come by chance."""
    chance = random.Random(4)  # answers agree a little more than they should
    pairs = [(who, n) for who in range(20) for n in range(26)]
    rows = [f"{who},{n},{chance.choice(('red', 'blue', 'black'))}" for who, n in pairs]
    told = refused(tmp_path, table("workerid,slide_number,color_other", rows))
    assert told.endswith("--worker-col workerid --item-col slide_number --label-col color_other")


def test_two_columns_of_which_one_names_each_row_are_no_votes(tmp_path: Path) -> None:
    told = refused(tmp_path, "".join(f"{n},{said(n, 0)}\n" for n in range(30)))
    assert "one answer is nothing to vote on" in told
    assert "--worker-col" not in told


def test_an_id_is_the_item_where_its_text_is_spelled_in_two_ways(tmp_path: Path) -> None:
    rows = rows_of(lambda n, at: f"{n},caf{'eé'[at % 2]} {n},{said(n, at)},{PEOPLE[at]}")
    found = read(tmp_path, table("ID,Text,Label,annotator", rows))
    assert len(found.answers.item.dictionary) == 30


def test_columns_of_who_answered_and_what_go_together(tmp_path: Path) -> None:
    rows = [
        f"text {n} of all,{PEOPLE[n % 6]},{said(n, 0)},{PEOPLE[(n + 1) % 6]},{said(n, 1)}"
        for n in range(30)
    ]
    names = "text,Worker1-id,Worker1-label,Worker2-id,Worker2-label"
    assert set(read(tmp_path, table(names, rows)).answers.worker.to_pylist()) == {*PEOPLE}


def test_rows_that_are_people_are_no_items(tmp_path: Path) -> None:
    names = ",".join(f"cb_{n}" for n in range(12))
    rows = [f"m{at}," + ",".join(str(int(n % 3 < at % 4)) for n in range(12)) for at in range(40)]
    assert "try:" not in refused(tmp_path, table(f"userid,{names}", rows))


def test_statistics_are_no_workers(tmp_path: Path) -> None:
    rows = [f"p{n},{n % 5},0.{n},{(n + n % 3 // 2) % 5}" for n in range(40)]
    told = refused(tmp_path, table("part,phase 1 human max,phase 1 sd,phase 2 human max", rows))
    assert "try:" not in told


def test_lists_of_votes_between_blanks(tmp_path: Path) -> None:
    rows = [f"t{n}\t{n % 2} {n % 2} {n % 2} {n // 8 % 2}\t0.{n}" for n in range(30)]
    told = refused(tmp_path, table("tweet_id\tirony_answers\tmean_answer", rows), "a.tsv")
    assert told.endswith("--worker-col none --label-col irony_answers")


def test_votes_beside_counts_are_asked_about(tmp_path: Path) -> None:
    """The hundred that were counted are more than the five that were kept."""
    records = [
        {"uid": f"u{n}", "label_counter": {"e": 60 + n, "c": 40 - n}, "old_labels": list("eecec")}
        for n in range(12)
    ]
    told = refused(tmp_path, json.dumps(records), "a.json")
    assert "'old_labels', without names, beside counts, label_counter.e" in told
    assert "--label-col 'label_counter.*' --layout counts" in told


def test_tags_of_words_are_no_votes(tmp_path: Path) -> None:
    records = [
        {
            "utt": n,
            "tokens": [f"word{n}{at}" for at in range(5 + n)],
            "tags": ["noun", "noun", *["verb"] * (3 + n)],
            "more_tags": ["en", "en", *["fr"] * (3 + n)],
        }
        for n in range(10)
    ]
    assert "votes" not in refused(tmp_path, json.dumps(records), "a.json")


def test_a_question_with_one_answer_for_all_is_none(tmp_path: Path) -> None:
    rows = rows_of(lambda n, at: f"{PEOPLE[at]},{n},0.{n}{at},1 cond")
    told = refused(tmp_path, table("workerid,item,response,annotation", rows))
    assert "are measured, not chosen" in told


def test_a_comment_with_commas_above_a_table_is_no_header(tmp_path: Path) -> None:
    rows = rows_of(lambda n, at: f"{PEOPLE[at]},i{n},{said(n, at)},{n}")
    text = "# exported by ann, bea, carl\n" + table("worker,item,label,seconds", rows)
    assert len(read(tmp_path, text).answers) == len(rows)


def test_a_name_of_two_lines_is_no_title(tmp_path: Path) -> None:
    rows = rows_of(lambda n, at: f"{PEOPLE[at]},i{n},{said(n, at)},{n}")
    found = read(tmp_path, table('"worker\nid",item,label,seconds', rows), worker_col="worker\nid")
    assert len(found.answers) == len(rows)


def test_rows_under_their_numbers_keep_their_item(tmp_path: Path) -> None:
    pairs = [(n, who) for n in range(20) for who in range(3)]
    rows = [{"annotator": PEOPLE[w], "image_id": f"a{n}", "label": said(n, w)} for n, w in pairs]
    found = read(tmp_path, json.dumps(dict(enumerate(rows))), "a.json")
    assert len(found.answers.item.dictionary) == 20


def test_marked_words_beside_a_number_are_asked_about(tmp_path: Path) -> None:
    words = [f"w{n % 50}|v{n % 40}|u{n % 30}" for n in range(150)]
    rows = rows_of(lambda n, at: f"{PEOPLE[at]},h{n},{words[n * 5 + at % 5]},0.{n}{at}")
    told = refused(tmp_path, table("WorkerId,HITId,Answer.words,Answer.score", rows))
    assert "2 questions" in told


def test_a_worker_may_be_called_max(tmp_path: Path) -> None:
    rows = [f"a{n}.jpg,{said(n, 0)},{said(n, 0)},{said(n, n % 5)}" for n in range(30)]
    found = read(tmp_path, table("image,rater_anna,rater_max,rater_tom", rows))
    assert set(found.answers.worker.to_pylist()) == {"anna", "max", "tom"}
    told = refused(tmp_path, table("image,anna,max,tom", rows))
    assert told.endswith("--worker-col anna,max,tom --item-col image --layout wide")
