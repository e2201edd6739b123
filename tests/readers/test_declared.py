"""What is declared is done: four flags, with and without a header; and what a refusal proposes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from misc_cli.errors import InputError, MiscWarning
from misc_cli.readers.options import ReadOptions, flags_of
from misc_cli.readers.read import read_answer_columns
from misc_cli.writers.tables import with_kept
from tests.readers.shaped import read, table


def counted(folder: Path, text: str, name: str = "a.csv", **options: Any) -> tuple[int, int, int]:
    """Return answers, workers and items."""
    answers = read(folder, text, name, **options).answers
    return len(answers), len(set(answers.worker.to_pylist())), len(set(answers.item.to_pylist()))


WIDE = table("word1,word2,r1,r2,r3", [f"a{n},b{n},{n % 2},{n % 2},1" for n in range(12)])
BARE = "\n".join(f"i{n % 5},{'xy'[n % 2]}" for n in range(25)) + "\n"


def test_an_item_of_several_columns(tmp_path: Path) -> None:
    given = {"layout": "wide", "worker_col": "r*", "item_col": "word1,word2"}
    result = read(tmp_path, WIDE, **given)
    assert result.answers.item.to_pylist()[0] == "a0 | b0"
    assert len(result.answers) == 36
    assert result.files[0].flags == "--worker-col 'r*' --item-col word1,word2 --layout wide"


def test_the_row_is_the_item(tmp_path: Path) -> None:
    assert counted(tmp_path, WIDE, layout="wide", worker_col="3-5", item_col="row") == (36, 3, 12)


def test_nobody_without_a_header(tmp_path: Path) -> None:
    """No row becomes a header, and none that equals the first is lost."""
    given: dict[str, Any] = {
        "worker_col": "none",
        "item_col": "1",
        "label_col": "2",
        "header": False,
    }
    assert counted(tmp_path, BARE, **given)[::2] == (25, 5)


def test_a_nameless_matrix(tmp_path: Path) -> None:
    text = "\n".join(f"{n % 3},-1,{n % 3},{(n + n // 7) % 3}" for n in range(30)) + "\n"
    with pytest.warns(MiscWarning, match="--layout matrix --no-answer -1 declares it"):
        guessed = read(tmp_path, text)
    assert len(guessed.answers) == 90
    assert counted(tmp_path, text, layout="matrix", no_answer="-1") == (90, 3, 30)
    # 0 or -1: the answers agree so, but not clearly
    with pytest.raises(InputError, match="--layout matrix --no-answer -1"):
        read(tmp_path, text.replace("2", "0"))


def test_the_only_reading_in_which_answers_agree_is_read(tmp_path: Path) -> None:
    def rows(n_columns: int) -> list[str]:
        said = [[(n // 2 + (n % 7 == at)) % 2 for at in range(n_columns)] for n in range(60)]
        return [f"t{n},{n * 7}," + ",".join(map(str, own)) for n, own in enumerate(said)]

    people = table("id,length,opinion1,opinion2,opinion3", rows(3))
    with pytest.warns(MiscWarning, match=r"'opinion\*' --item-col id --layout wide declares it"):
        assert len(read(tmp_path, people).answers) == 180
    strangers = people.replace("opinion1,opinion2,opinion3", "Eva,Bob,Cem")
    with pytest.raises(InputError, match=r"try: misc aggregate .*Eva,Bob,Cem"):
        read(tmp_path, strangers)
    two = table("id,length,hate_a,hate_b,spam_a,spam_b", rows(4))
    with pytest.raises(InputError, match=r"no worker, item and label column") as refusal:
        read(tmp_path, two)
    assert "try:" not in str(refusal.value)  # two of many columns may be two things


def test_what_only_looks_like_answers_is_refused(tmp_path: Path) -> None:
    about_workers = [f"w{n},{n % 9 + 20},{n % 9 + 20}" for n in range(40)]
    with pytest.raises(InputError, match="come with one item only"):
        read(tmp_path, table("worker,unit,judgment", about_workers))
    unlike = [f"w{at},i{n},{'abcd'[2 * at + n % 2]}" for n in range(40) for at in range(2)]
    with pytest.raises(InputError, match="agree in 0%"):
        read(tmp_path, table("worker,item,label", unlike))
    measured = [f"w{at},i{n},0.{10 + (n + 3 * at) % 30}" for n in range(40) for at in range(3)]
    with pytest.raises(InputError, match="measured, not chosen"):
        read(tmp_path, table("worker,item,label", measured))


def test_counts_with_a_total_are_votes(tmp_path: Path) -> None:
    rows = [f"{n},5,{5 - n % 4},{n % 4},t{n}" for n in range(12)]
    result = read(tmp_path, table("id,count,hate,other,tweet", rows))
    assert result.anonymous
    assert len(result.answers) == 60
    assert set(result.answers.label.to_pylist()) == {"hate", "other"}


def test_a_matrix_of_counts_is_told_from_labels(tmp_path: Path) -> None:
    counts = np.array([[9, 1, 0], [0, 8, 2], [1, 0, 9], [10, 0, 0]] * 5)
    np.save(tmp_path / "counts.npy", counts)
    with pytest.warns(MiscWarning, match="--layout counts declares it"):
        found = read_answer_columns([str(tmp_path / "counts.npy")])
    assert len(found.answers) == 200


def test_ids_of_workers_are_no_labels(tmp_path: Path) -> None:
    rows = [f"{n},A{n:012d},A{n + 7:012d}" for n in range(30)]
    with pytest.raises(InputError):
        read(tmp_path, table("text_id,Worker1-id,Worker2-id", rows))


def test_a_line_of_sizes_is_no_answer(tmp_path: Path) -> None:
    rows = [f"{n // 3} w{n % 5 + n % 3} {n % 2}" for n in range(30)]
    assert counted(tmp_path, "\n".join(["10 7 30", *rows]) + "\n", "a.txt")[0] == 30


def test_broken_rows_within_a_budget(tmp_path: Path) -> None:
    text = "worker,item,label\nw1,i1,x\nw2,i1\nw1,i2,y\nw2,i2,y,z\n"
    with pytest.raises(InputError, match="line 3: 2 columns"):
        read(tmp_path, text)
    result = read(tmp_path, text, max_bad_rows="2")
    assert result.set_aside == {"broken row": 2}
    assert [line for *_, rows, lines_of in result.rejects for line in lines_of(list(rows))] == [
        3,
        5,
    ]
    with pytest.raises(InputError):
        read(tmp_path, text, max_bad_rows="1%")


def test_a_closed_list_and_what_is_extracted(tmp_path: Path) -> None:
    said = ("Verdict: A", "[[A]]", "Verdict: B", "My answer is B")
    text = table("judge,id,verdict", [f"m{n % 4},i{n // 4},{said[n % 4]}" for n in range(12)])
    result = read(tmp_path, text, extract=r"\b([AB])\b")
    assert set(result.answers.label.to_pylist()) == {"A", "B"}
    with pytest.raises(InputError, match="none of --labels A"):
        read(tmp_path, text, extract=r"\b([AB])\b", labels="A")
    few = read(tmp_path, text, extract=r"\b([AB])\b", labels="A", max_bad_rows="50%")
    assert few.set_aside == {"unknown label": 6}


def test_the_guess_is_said_and_can_be_pinned(tmp_path: Path) -> None:
    rows = [f"w{n % 3},i{n // 3},{'xy'[n % 2]},approved" for n in range(12)]
    result = read(tmp_path, table("worker,item,label,status", [*rows, "w9,i0,x,rejected"]))
    assert (
        result.files[0].read_as
        == "worker = worker, item = item, label = label; 1 rejected set aside"
    )
    assert result.files[0].flags == "--worker-col worker --item-col item --label-col label"


def test_columns_are_carried_along(tmp_path: Path) -> None:
    rows = [f"w{n % 3},i{n // 3},{'xy'[n % 2]},u{n // 3}.jpg" for n in range(12)]
    result = read(tmp_path, table("worker,item,label,Input.url", rows), keep="Input.*")
    (chunk,) = with_kept([{"item": ["i0", "i3"], "label": ["x", "y"]}], result.kept)
    assert chunk["Input.url"].to_pylist() == ["u0.jpg", "u3.jpg"]


ITEM_AND_LABEL = table("id,text,label", [f"{n},text {n},{'xy'[n % 2]}" for n in range(12)])
SENTENCES = "".join(f"what is {n},answer {n},{'xyz'[n % 3]}\n" for n in range(40))
MEASURED = table(
    "HITId,WorkerId,AssignmentStatus,Answer.height,Answer.width",
    [f"i{n // 3},w{n % 3},Approved,{n * 7},{n * 3}" for n in range(60)],
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (ITEM_AND_LABEL, "nothing to vote on"),
        (SENTENCES, "hardly a value of column 1"),
        (MEASURED, "measured, not chosen"),
    ],
)
def test_what_holds_no_votes_is_refused_without_a_flag_that_reads_it(
    tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read(tmp_path, text)
    assert "try:" not in str(caught.value)
    assert "--worker-from" not in str(caught.value)


def test_shares_of_votes_are_no_votes(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([[0.25, 0.75], [1.0, 0.0]] * 6))
    with pytest.raises(InputError, match="counts nothing"):
        read_answer_columns([str(tmp_path / "a.npy")], ReadOptions(layout="counts"))


@pytest.mark.filterwarnings("ignore:.*nobody is named")
def test_a_form_with_several_questions_about_each_image(tmp_path: Path) -> None:
    """Names with numbers above nothing but numbers are a header, however few the rows."""
    names = [f"image_{n:02}_{what}" for n in range(3) for what in ("stress", "calm")]
    said = ["1,5,2,4,2,4", "1,4,2,4,1,5", "2,5,1,4,2,4"]
    rows = [f"2024-01-0{n + 1},{cells}" for n, cells in enumerate(said)]
    text = table(",".join(["Timestamp", *names]), rows)
    with pytest.raises(InputError, match=r"2 questions, 'stress'.*'calm'"):
        read(tmp_path, text)
    assert counted(tmp_path, text, question="calm") == (9, 3, 3)


def test_flags_stand_in_one_order_and_none_is_lost() -> None:
    given = {"each_question": True, "header": False, "worker_col": "a b", "sheet": None}
    assert flags_of(given) == "--worker-col 'a b' --no-header --each-question"
