"""Files of no platform: each shape with its right reading, or the refusal that names the flag."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from misc_cli.errors import ConfigError, InputError, MiscWarning
from misc_cli.io.read import ReadOptions, ReadResult, read_answer_columns, read_questions

ANSWERS = {
    ("ann1", "doc1"): "pos",
    ("ann2", "doc1"): "pos",
    ("ann3", "doc1"): "neg",
    ("ann1", "doc2"): "neg",
    ("ann2", "doc2"): "pos",
    ("ann3", "doc2"): "neg",
}
WORKERS, ITEMS = ("ann1", "ann2", "ann3"), ("doc1", "doc2")


def triplets(result: ReadResult) -> dict[tuple[str, str], str]:
    answers = result.answers
    columns = [c.to_pylist() for c in (answers.worker, answers.item, answers.label)]
    found = list(zip(*columns, strict=True))
    assert len({(worker, item) for worker, item, _ in found}) == len(found)
    return {(worker, item): label for worker, item, label in found}


def read(folder: Path, content: str | bytes, name: str = "a.csv", **options: Any) -> ReadResult:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_answer_columns([str(path)], ReadOptions(**options))


def table(header: str, rows: list[str]) -> str:
    return "\n".join([header, *rows, ""])


def wide(header: str) -> str:
    return table(header, [f"{i}," + ",".join(ANSWERS[w, i] for w in WORKERS) for i in ITEMS])


def form(header: str) -> str:
    rows = [f"{w},2024-01-01," + ",".join(ANSWERS[w, i] for i in ITEMS) for w in WORKERS]
    return table(header, rows)


def lines(records: list[dict[str, Any]]) -> str:
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
        ("a.csv", wide("what,ann1,ann2,ann3"), {"worker_cols": "ann*"}),
        ("a.csv", wide("image,ann1,ann2,ann3"), {"wide": True}),
        ("a.csv", form("participant,date,doc1,doc2"), {"item_cols": "doc*"}),
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
    assert triplets(read(tmp_path, content, name, **options)) == ANSWERS


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
    with pytest.raises(InputError, match=r"-1 may be a class or no answer.*--no-answer -1"):
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


TWO = "annotator,item,question,answer\n" + "".join(
    f"{w},{i},mood,{label}\n{w},{i},spam,{'yes' if label == 'neg' else 'no'}\n"
    for (w, i), label in ANSWERS.items()
)
TWO_COLUMNS = "annotator,doc_id,mood,spam,created_at\n" + "".join(
    f"{w},{i},{label},{'yes' if label == 'neg' else 'no'},2024-01-01T10:00:00\n"
    for (w, i), label in ANSWERS.items()
)


@pytest.mark.parametrize("text", [TWO, TWO_COLUMNS, TWO.replace("item,", "text,")])
def test_two_questions_are_asked_about_and_read_by_name(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError, match=r"2 questions, 'mood' \(choice\), 'spam'.*--question"):
        read(tmp_path, text)
    assert triplets(read(tmp_path, text, question="mood")) == ANSWERS
    with pytest.raises(InputError, match="no question 'x'; there are 'mood'"):
        read(tmp_path, text, question="x")
    both = read_questions([str(tmp_path / "a.csv")], each=True)
    assert [result.question for result in both] == ["mood", "spam"]


def test_any_column_can_group(tmp_path: Path) -> None:
    text = TWO.replace("question", "round")
    with pytest.raises(InputError, match="--group-by 'round'"):
        read(tmp_path, text)
    assert triplets(read(tmp_path, text, group_by="round", question="mood")) == ANSWERS
    assert len(read(tmp_path, text, duplicates="last").answers) == 12


MULTI = 'worker,item,label\na,1,"[""x"", ""y""]"\nb,1,"[""y"", ""x""]"\na,2,"[""x""]"\nb,2,[]\n'


@pytest.mark.parametrize("text", [MULTI, "worker,item,label\na,1,x|y\nb,1,y|x\na,2,x\nb,2,y\n"])
def test_several_choices(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError, match=r"several choices per answer.*--multi split"):
        read(tmp_path, text)
    sets = triplets(read(tmp_path, text, multi="set"))
    assert sets["a", "1"] == sets["b", "1"] == "x|y"
    split = read_questions([str(tmp_path / "a.csv")], ReadOptions(multi="split"), each=True)
    assert [result.question for result in split] == ["label.x", "label.y"]
    assert triplets(split[0])["a", "2"] == "yes"
    assert triplets(split[1])["a", "2"] == "no"
    assert len(read(tmp_path, text, multi="split", question="label.x").answers) == 4


def answers_with(label: str, n_rows: int = 12) -> str:
    rows = [f"w{n % 3},i{n // 3},{label.format(n=n, m=n % 10)}" for n in range(n_rows)]
    return table("worker,item,label", rows)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (answers_with('"{{""x"": {n}, ""y"": 2, ""width"": 3}}"'), "boxes.*--label-col"),
        (answers_with('"[{{""start"": {n}, ""end"": 9}}]"'), "spans of text"),
        (answers_with('"{{""a"": {{""b"": {n}}}}}"'), "JSON"),
        (answers_with('"{n}.5, {n}.25"'), "coordinates"),
        (answers_with("2024-01-{n:02d} 10:00"), "dates or times"),
        (answers_with("I think that it is the number {n} of them"), "free text"),
        (answers_with("0.{n}37"), "12 classes in 12 answers"),
        (answers_with("thing{n}"), "12 classes in 12 answers.*--allow-odd"),
        ("photo,rater,answer\na,cat,dog\nb,dog,cat\nc,cat,cat\n", "workers and labels at once"),
        (
            "image,anna,bob,eve\na,x,y,y\nb,y,x,x\nc,x,x,y\nd,y,y,x\ne,x,x,x\n",
            "anna, bob, eve.*--wide",
        ),
        ("id,label_1,label_2\na,x,y\nb,y,x\nc,x,x\nd,y,y\ne,x,y\n", "label_1, label_2.*--wide"),
        (
            "tekijä,kuva,vastaus\nw1,i1,ja\nw2,i1,ei\n",
            "no worker, item and label column among",
        ),
        (
            table("id,annotator,label", [f"{n},w{n % 3},x{n % 2}" for n in range(12)]),
            "no item column",
        ),
        (
            table("tweet_id,user,label", [f"{n},u{n % 3},x{n % 2}" for n in range(12)]),
            "'user' may be its author",
        ),
        (
            table("session_id,item,label", [f"{n},i{n % 3},x{n % 2}" for n in range(12)]),
            "a worker of its own",
        ),
        (
            table("annotator,image,land", [f"w{n % 4},i{n // 4},x{n % 4 // 2}" for n in range(24)]),
            "no label column among annotator, image, land",  # it is about the worker
        ),
        (
            table("annotator,image,sort", [f"w{n % 4},i{n // 4},x{n // 4 % 2}" for n in range(24)]),
            "no label column among annotator, image, sort",  # it is about the item
        ),
        (
            table(
                "worker_id,item_1,answer_1,item_2,answer_2",
                [f"w{n},{'ab'[n % 2]},x,{'ba'[n % 2]},y" for n in range(6)],
            ),
            "no item and label column",
        ),
        ("1,w1,i1,x\n2,w2,i1,y\n", "no header and 4 columns"),
        ("x,i1,w1\ny,i1,w2\nx,i2,w1\n", "column 3 does not look like labels"),
    ],
)
def test_what_is_likely_wrong_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read(tmp_path, text)
    assert "--" in str(caught.value)


def test_odd_labels_are_read_when_asked_for(tmp_path: Path) -> None:
    assert len(read(tmp_path, answers_with("thing{n}"), allow_odd=True).answers) == 12
    assert len(read(tmp_path, answers_with('"[{n}, 2]"'), allow_odd=True).answers) == 12


@pytest.mark.parametrize("label", ["{m}", "{n}"])
def test_a_scale_is_not_odd(tmp_path: Path, label: str) -> None:
    assert len(read(tmp_path, answers_with(label, 11)).answers) == 11


CLEAN = (
    "worker,item,label,status,submitted_at\n"
    "a,1,Yes,approved,2024-01-01T10:00:00Z\n"
    "b,1,yes ,rejected,2024-01-02T10:00:00Z\n"
    "c,1,YES,approved,2024-01-03T10:00:00Z\n"
    "a,2,n/a,approved,2024-01-04T10:00:00Z\n"
    "worker,item,label,status,submitted_at\n"
    "b,2,no,approved,2024-01-05T10:00:00Z\n"
)


def test_filters_and_cleaning(tmp_path: Path) -> None:
    result = read(tmp_path, CLEAN)
    assert result.set_aside == {"rejected": 1, "repeated header": 1}
    folded = read(tmp_path, CLEAN, fold_case=True, no_answer="n/a,?", rename=("no=nope",))
    assert triplets(folded) == {("a", "1"): "yes", ("c", "1"): "yes", ("b", "2"): "nope"}
    assert folded.set_aside == {"rejected": 1, "repeated header": 1, "no answer": 1}
    late = read(tmp_path, CLEAN, since="2024-01-03", until="2024-01-04T12:00")
    assert list(triplets(late)) == [("c", "1"), ("a", "2")]
    lines_of = [line for r in late.rejects for line in r.lines(list(map(int, r.rows)))]
    assert lines_of == [6, 3, 2, 7]
    for condition, n_left in {
        "worker != a": 2,
        "worker in (a, c)": 3,
        "label ~ YE": 2,
        "item >= 2": 2,
        '"submitted_at" < 2024-01-02': 1,
    }.items():
        assert len(read(tmp_path, CLEAN, where=(condition,)).answers) == n_left, condition


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"where": ("__import__('os')",)}, "write COLUMN OP VALUE"),
        ({"where": ("nobody = 1",)}, "no column 'nobody' among worker, item"),
        ({"where": ("item > x",)}, "needs a number or a date"),
        ({"where": ("worker = nobody",)}, "no answers are left"),
        ({"since": "yesterday"}, "write a date"),
        ({"since": "2024-01-01", "time_col": "label"}, "not a time"),
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
