"""Several questions in one file, several choices in one answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from misc_cli.errors import InputError
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.read import read_questions
from tests.readers.shaped import ANSWERS, read, triplets

TWO = "annotator,item,question,answer\n" + "".join(
    f"{w},{i},mood,{label}\n{w},{i},spam,{'yes' if label == 'neg' else 'no'}\n"
    for (w, i), label in ANSWERS.items()
)


TWO_COLUMNS = "annotator,doc_id,mood,spam,created_at\n" + "".join(
    f"{w},{i},{label},{'yes' if label == 'neg' else 'no'},2024-01-01T10:00:00\n"
    for (w, i), label in ANSWERS.items()
)


def test_two_questions_are_asked_about_and_read_by_name(tmp_path: Path) -> None:
    text = TWO_COLUMNS
    with pytest.raises(InputError, match=r"(?s)2 questions, 'mood' \(choice\), 'spam'.*--question"):
        read(tmp_path, text)
    assert triplets(read(tmp_path, text, question="mood")) == ANSWERS
    with pytest.raises(InputError, match="no question 'x'; there are 'mood'"):
        read(tmp_path, text, question="x")
    both = read_questions([str(tmp_path / "a.csv")], each=True)
    assert [result.question for result in both] == ["mood", "spam"]


@pytest.mark.parametrize("name", ["question", "round"])
def test_any_column_can_group(tmp_path: Path, name: str) -> None:
    text = TWO.replace("question", name)
    with pytest.raises(InputError, match=f"--group-by {name} reads"):
        read(tmp_path, text)
    assert triplets(read(tmp_path, text, group_by=name, question="mood")) == ANSWERS
    assert len(read(tmp_path, text, duplicates="last").answers) == 12


MULTI = 'worker,item,label\na,1,"[""x"", ""y""]"\nb,1,"[""y"", ""x""]"\na,2,"[""x""]"\nb,2,[]\n'


@pytest.mark.parametrize("text", [MULTI, "worker,item,label\na,1,x|y\nb,1,y|x\na,2,x\nb,2,y\n"])
def test_several_choices(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError, match=r"(?s)several choices per answer.*--multi split"):
        read(tmp_path, text)
    sets = triplets(read(tmp_path, text, multi="set"))
    assert sets["a", "1"] == sets["b", "1"] == "x|y"
    split = read_questions([str(tmp_path / "a.csv")], ReadOptions(multi="split"), each=True)
    assert [result.question for result in split] == ["label.x", "label.y"]
    assert triplets(split[0])["a", "2"] == "yes"
    assert triplets(split[1])["a", "2"] == "no"
    assert len(read(tmp_path, text, multi="split", question="label.x").answers) == 4
