"""A panel is all columns that share one vocabulary and agree; what only looks like one is none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from misc_cli.errors import InputError
from tests.readers.shaped import read, table

WORDS = ("Benign", "EIN", "Cancer")


def columns(n_columns: int, n_rows: int, share: float = 0.8) -> list[list[int]]:
    """Return rows of choices among three; a column has the row's own with this probability."""
    random = np.random.default_rng(7)
    own = random.integers(0, 3, (n_rows, 1))
    said = np.where(random.random((n_rows, n_columns)) < share, own, random.integers(0, 3))
    return [[int(cell) for cell in row] for row in said]


def refused(folder: Path, text: str) -> str:
    with pytest.raises(InputError) as caught:
        read(folder, text)
    return str(caught.value)


def test_no_member_is_left_out_for_its_name(tmp_path: Path) -> None:
    """N is a pathologist here, and no number; a reference beside them is none of them."""
    rows = columns(8, 60)
    cells = [
        f"{at},{WORDS[row[0]]},No," + ",".join(WORDS[c] for c in row) for at, row in enumerate(rows)
    ]
    with pytest.warns(match="a guess"):
        table_read = read(tmp_path, table("case_id,reference,discordant,T,S,R,N,H,J,K,B", cells))
    assert len(table_read.answers) == 480
    assert sorted(set(table_read.answers.worker.to_pylist())) == list("BHJKNRST")


def test_families_that_agree_alike_are_one_panel(tmp_path: Path) -> None:
    names = [f"{stem}{n}" for stem in ("EXP", "NOR", "STU") for n in range(1, 4)]
    rows = [f"{at // 2}," + ",".join(map(str, row)) for at, row in enumerate(columns(9, 60))]
    told = refused(tmp_path, table(",".join(["patient", *names]), rows))
    assert "--worker-col EXP1,EXP2,EXP3,NOR1,NOR2,NOR3,STU1,STU2,STU3 --item-col row" in told


def test_what_is_numbered_with_texts_is_shown_not_asked(tmp_path: Path) -> None:
    """option_label_2 is about option_2: five things, no five people."""
    rows = []
    for at, row in enumerate(columns(4, 60)):
        kept = 2 + at % 3
        texts = [f"thing {at} {n}" if n < kept else "" for n in range(4)]
        rows.append(",".join([*texts, *(str(c) if n < kept else "" for n, c in enumerate(row))]))
    names = [f"{stem}_{n}" for stem in ("option", "option_label") for n in range(1, 5)]
    assert "try:" not in refused(tmp_path, table(",".join(names), rows))


def test_properties_judged_in_the_same_words_are_questions(tmp_path: Path) -> None:
    rows = [f"t{at}," + ",".join(WORDS[c] for c in row) for at, row in enumerate(columns(3, 60))]
    assert "try:" not in refused(tmp_path, table("texts,plot,character,creativity", rows))


def test_more_columns_than_rows_are_items(tmp_path: Path) -> None:
    names = [f"i{n}_{m}" for n in range(20) for m in range(1, 6)]
    rows = [f"{at}," + ",".join(map(str, row)) for at, row in enumerate(columns(100, 60))]
    told = refused(tmp_path, table(",".join(["casenum", *names]), rows))
    assert "--item-col 'i*'" in told
    assert "--layout form" in told


def counts(total: int, n_rows: int = 20) -> list[list[int]]:
    random = np.random.default_rng(5)
    shares = np.where(np.arange(n_rows)[:, None] % 3 == np.arange(3), 8.0, 1.0)
    return [[int(n) for n in random.multinomial(total, own / own.sum())] for own in shares]


def test_rows_of_one_sum_are_counts_and_their_sum_is_no_class(tmp_path: Path) -> None:
    """Whatever the columns are called, and if they sum to a column, that is none of them."""
    rows = [f"{at},{','.join(map(str, row))}" for at, row in enumerate(counts(5))]
    assert len(read(tmp_path, table("id,yes,no,perhaps", rows)).answers) == 100
    rows = [f"{at},{sum(row)},{','.join(map(str, row))}" for at, row in enumerate(counts(20))]
    found = read(tmp_path, table("question,n_physicians,stay,fly,drive", rows)).answers
    assert (len(found), sorted(set(found.label.to_pylist()))) == (400, ["drive", "fly", "stay"])


def test_ranks_and_columns_that_are_equal_are_no_counts(tmp_path: Path) -> None:
    ranks = [f"{at},{at % 3 + 1},{(at + 1) % 3 + 1},{(at + 2) % 3 + 1}" for at in range(20)]
    refused(tmp_path, table("ballot,Ann,Bob,Eve", ranks))
    equal = [f"{at},{at % 4 + 1},{at % 4 + 1}" for at in range(20)]
    refused(tmp_path, table("subject_ids,num_class,num_votes", equal))


def test_the_vocabulary_closes_a_panel_that_names_began(tmp_path: Path) -> None:
    rows = [",".join(WORDS[c] for c in row) + ",5" for row in columns(4, 30)]
    names = "Annot1,Annot-Peter,Annot3,Annot-Eve,annot_total"
    workers = read(tmp_path, table(names, rows)).answers.worker.to_pylist()
    assert sorted(set(workers)) == ["Annot1", "Annot3", "Eve", "Peter"]


def test_people_in_rows_answer_columns(tmp_path: Path) -> None:
    rows = [
        f"Member {at}," + ",".join(WORDS[c] for c in row)
        for at, row in enumerate(columns(4, 30, 0.3))
    ]
    told = refused(tmp_path, table("Name,Vote1,Vote2,Vote3,Vote4", rows))
    assert "--worker-col Name --item-col 'Vote*' --layout form" in told


def test_the_mark_of_no_answer_is_the_one_that_is_unlike(tmp_path: Path) -> None:
    """o beside -1, 0 and 1: two of four raters see each case, and -1 is a class."""
    rows = []
    for at, row in enumerate(columns(4, 60)):
        rows.append(
            "\t".join("o" if n in (at % 4, (at + 1) % 4) else str(c - 1) for n, c in enumerate(row))
        )
    with pytest.warns(match="--layout matrix --no-answer o"):
        found = read(tmp_path, "\n".join(rows) + "\n", "a.txt").answers
    assert (len(found), set(found.label.to_pylist())) == (120, {"-1", "0", "1"})
