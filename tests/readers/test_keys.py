"""Worker and item name each answer once: that tells them where names do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from misc_cli.errors import InputError, MiscWarning
from tests.readers.shaped import read, table

CASES, PEOPLE = range(12), "stuv"


def answer(case: int, who: int) -> str:
    return "yes" if (case * 7 + who * (case % 3 == 0)) % 2 else "no"


# about the case: site; about the person: years; of the row: code; of all: study
ROWS = [
    f"c{c},site{c % 4},{p},{9 - n},A{c}{p},trial,{answer(c, n)}"
    for c in CASES
    for n, p in enumerate(PEOPLE)
]
LONG = table("specimen code,site,pathologist,years,code,study,finding", ROWS)


def test_what_is_left_beside_a_person_and_an_item_is_the_label(tmp_path: Path) -> None:
    with pytest.warns(MiscWarning, match="a guess"):
        answers = read(tmp_path, LONG).answers
    assert set(answers.worker.to_pylist()) == set(PEOPLE)
    assert set(answers.item.to_pylist()) == {f"c{n}" for n in CASES}
    assert set(answers.label.to_pylist()) == {"yes", "no"}


def test_of_several_questions_the_first_is_proposed_and_none_joined_to_the_item(
    tmp_path: Path,
) -> None:
    rows = [f"{row},{n % 3}" for n, row in enumerate(ROWS)]
    text = table("specimen code,site,pathologist,years,code,study,finding,grade_of", rows)
    with pytest.raises(InputError, match=r"--item-col 'specimen code' --label-col finding$"):
        read(tmp_path, text)


def test_an_id_that_comes_again_beside_choices_alone_is_answered_by_nobody(tmp_path: Path) -> None:
    rows = [f"{n},{n // 5},{'ab'[n // 5 % 2 ^ (n % 5 == 0)]},{'xyz'[n % 3]}" for n in range(60)]
    with pytest.raises(InputError, match=r"--worker-col none --item-col id --label-col mood$"):
        read(tmp_path, table("index,id,mood,tone", rows))


def test_rows_that_an_id_names_once_are_nothing_to_vote_on(tmp_path: Path) -> None:
    rows = [f"{n},text {n},{'xyz'[n % 3]}" for n in range(30)]
    with pytest.raises(InputError, match=r"'id' names each row once, .* nothing to vote on$"):
        read(tmp_path, table("id,body,mood", rows))
    with pytest.warns(MiscWarning, match="one answer to each item"):
        read(
            tmp_path,
            table("id,body,mood", rows),
            worker_col="none",
            item_col="id",
            label_col="mood",
        )


def test_without_a_header_a_text_of_each_row_is_the_item_and_the_rest_vote(tmp_path: Path) -> None:
    rows = [f"{n % 2},{(n % 2) ^ (n % 9 == 0)},The {n}th of them rode the storm" for n in range(40)]
    for n_voters in (2, 3):
        more = [f"{n % 2}," * (n_voters - 2) + row for n, row in enumerate(rows)]
        with pytest.warns(MiscWarning, match="a guess"):
            answers = read(tmp_path, "\n".join(more) + "\n").answers
        assert (len(answers), len(set(answers.worker.to_pylist()))) == (40 * n_voters, n_voters)
