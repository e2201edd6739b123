"""A reading that is likely wrong is refused, with the flag that settles it."""

from __future__ import annotations

from pathlib import Path

import pytest

from misc_cli.errors import InputError
from tests.readers.shaped import read, table


def answers_with(label: str, n_rows: int = 12) -> str:
    rows = [f"w{n % 3},i{n // 3},{label.format(n=n, m=n % 10)}" for n in range(n_rows)]
    return table("worker,item,label", rows)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (answers_with('"{{""x"": {n}, ""y"": 2, ""width"": 3}}"'), "kind JSON.*--label-col"),
        (answers_with('"[{{""start"": {n}, ""end"": 9}}]"'), "kind JSON"),
        (answers_with('"{{""a"": {{""b"": {n}}}}}"'), "JSON"),
        (answers_with('"{n}.5, {n}.25"'), "12 classes in 12 answers"),
        (answers_with("2024-01-{n:02d} 10:00"), "kind dates"),
        (answers_with("I think that it is the number {n} of them"), "kind text"),
        (answers_with("0.{n}37"), "12 classes in 12 answers"),
        (answers_with("thing{n}"), "12 classes in 12 answers.*--allow-odd"),
        ("photo,rater,answer\na,cat,dog\nb,dog,cat\nc,cat,cat\n", "workers and labels at once"),
        (
            "image,anna,bob,xyz\na,x,y,y\nb,y,x,x\nc,x,x,y\nd,y,y,x\ne,x,x,x\n",
            "--worker-col anna,bob,xyz --item-col image --layout wide",
        ),
        (
            "id,label_1,label_2\na,x,y\nb,y,x\nc,x,x\nd,y,y\ne,x,y\n",
            r"--worker-col 'label_\*' --item-col id --layout wide",
        ),
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
            "'user' may be who wrote an item",
        ),
        (
            table("session_id,item,label", [f"{n},i{n % 3},x{n % 2}" for n in range(12)]),
            "'session_id' may be who wrote an item",
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
        ("x,i1,w1\ny,i1,w2\nx,i2,w1\n", "nobody knows which is what"),
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
