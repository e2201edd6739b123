"""Files of answers, well and badly made, and what becomes of them."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import lzma
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from misc_cli.errors import ConfigError, InputError, MiscError, MiscWarning
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.read import read_answer_columns
from tests.readers.texts import PLAIN, ROWS, read_text, rows_of


@pytest.mark.parametrize(
    "text",
    [
        PLAIN,
        PLAIN.replace(",", "\t"),
        PLAIN.replace(",", ";"),
        PLAIN.replace(",", "|"),
        PLAIN.replace(",", "   "),
        PLAIN.replace("\n", "\r\n"),
        PLAIN.replace("\n", "\r"),
        PLAIN.rstrip("\n"),
        "\n\n" + PLAIN + "\n\n",
        "\ufeff" + PLAIN,
        PLAIN.encode("utf-16"),
        PLAIN.removeprefix("worker,item,label\n"),
        " w1  i1 cat \n  w2 i1   dog\nw1\ti2 cat\n\n",
        "label,Item ID,Worker_ID\ncat,i1,w1\ndog,i1,w2\ncat,i2,w1\n",
        '"worker","item","label"\n"w1","i1","cat"\n"w2",i1,"dog"\nw1,i2,"cat"\n',
        'worker,note,item,label\nw1,"a, ""b""\nc",i1,cat\nw2,,i1,dog\nw1,x,i2,cat\n',
        'worker,item,"the\nlabel",label\nw1,i1,x,cat\nw2,i1,x,dog\nw1,i2,x,cat\n',
        "sep=;\n" + PLAIN.replace(",", ";"),
        '\ufeff"sep=,"\r\n' + PLAIN.replace("\n", "\r\n"),
        "# exported, yesterday\n#\n" + PLAIN,
    ],
)
def test_layouts_of_the_same_answers(tmp_path: Path, text: str | bytes) -> None:
    assert rows_of(read_text(tmp_path, text)) == ROWS


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress])
def test_packed_files_and_their_hash(tmp_path: Path, pack: object) -> None:
    packed = pack(PLAIN.encode())  # type: ignore[operator]
    result = read_text(tmp_path, packed, "a.csv.gz")
    assert rows_of(result) == ROWS
    assert result.files[0].sha256 == hashlib.sha256(packed).hexdigest()


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(PLAIN.encode())))
    result = read_answer_columns(["-"])
    assert rows_of(result) == ROWS
    assert result.files[0].name == "<stdin>"


def test_files_are_joined_in_order_each_on_its_own_terms(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(PLAIN)
    (tmp_path / "b.tsv").write_text("label\ttask\tannotator\nowl\ti9\tw9\n")
    (tmp_path / "c.jsonl").write_text('{"user": "w1", "question": 7, "answer": "cat"}\n')
    result = read_answer_columns([str(tmp_path / name) for name in ("a.csv", "b.tsv", "c.jsonl")])
    assert rows_of(result) == [*ROWS, ("w9", "i9", "owl"), ("w1", "7", "cat")]
    assert [file.n_rows for file in result.files] == [3, 1, 1]
    assert result.files[1].columns == {"worker": "annotator", "item": "task", "label": "label"}


@pytest.mark.filterwarnings("ignore:.*count as classes")
def test_text_stays_text(tmp_path: Path) -> None:
    text = "worker,item,label\n007,NA,1\n7,null,1.0\nNone,1e3,null\ntrue,-0,N/A\n"
    expected = [tuple(line.split(",")) for line in text.splitlines()[1:]]
    assert rows_of(read_text(tmp_path, text)) == expected


@pytest.mark.parametrize(
    "text",
    [
        "w1,i1,cat\nw2,i1,dog\nw1,i2,cat\n",
        "w1,i1,object\nw2,i1,cat\nw1,i2,object\n",  # a label that is also a synonym
        "w1,i1,big\nw2,i1,1\nw1,i2,2\n",  # only the first label is no number
        "A1XYAAAAAA,201,!\nA2ZQAAAAAA,201,1\nA3BAAAAAAA,202,0\n",
        "#1,i1,cat\n#2,i1,dog\n#1,i2,cat\n",  # no comments: they have as many columns
        "#1,i1,cat\nw2,i1,dog\nw1,i2,cat\n",
        "w1,i1,a very big cat\nw2,i1,a very old dog\nw1,i2,a very big cat\n",  # as many words
    ],
)
def test_a_headerless_file_loses_no_row(tmp_path: Path, text: str) -> None:
    result = read_text(tmp_path, text)
    assert rows_of(result) == [tuple(line.split(",")) for line in text.splitlines()]
    assert result.files[0].header is False


def test_a_first_row_that_may_be_a_header_is_asked_about(tmp_path: Path) -> None:
    text = "scorer name,picture,mood\nann,alpha,good\nbob,alpha,bad\n"
    with pytest.raises(InputError, match=r"a.csv: is the first row \(scorer name, picture, mood"):
        read_text(tmp_path, text)
    named = {"worker_col": "1", "item_col": "2", "label_col": "3"}
    assert len(read_text(tmp_path, text, header=True, **named).answers) == 2  # type: ignore[arg-type]
    first = {"worker_col": "1"}
    assert len(read_text(tmp_path, text, header=False, **first).answers) == 3  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["1,1,5\n2,1,5\n3,1,5\n", "alice,berlin,yes\nbob,paris,no\n"])
def test_a_headerless_file_that_tells_nothing_is_asked_about(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError, match=r"column 1 or 2 is the worker.*--worker-col 2"):
        read_text(tmp_path, text, header=False)  # type: ignore[arg-type]
    swapped = read_text(tmp_path, text, header=False, worker_col="2", item_col="1")  # type: ignore[arg-type]
    assert rows_of(swapped)[0][1] in ("1", "alice")


def test_who_is_the_worker_of_a_headerless_file_is_told_by_looks_or_counts(tmp_path: Path) -> None:
    by_looks = read_text(tmp_path, "a.jpg,w1,cat\na.jpg,w2,dog\nb.jpg,w1,cat\n")
    assert rows_of(by_looks)[0] == ("w1", "a.jpg", "cat")
    rows = [f"{n // 3},{n * n % 11},{n % 2}\n" for n in range(60)]  # three answers to each item
    with pytest.warns(
        MiscWarning, match="taken as item, worker, label: answers are spread evenly over column 1"
    ):
        by_counts = read_text(tmp_path, "".join(rows))
    assert rows_of(by_counts)[3] == ("9", "1", "1")


def test_lines_are_counted_from_the_files_first(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="line 5: 2 columns"):
        read_text(tmp_path, "# note\nworker,item,label\nw1,i1,cat\nw2,i1,dog\nw3,i1\n")


@pytest.mark.parametrize(
    "text",
    [
        "foo,bar,baz\n1,2,3\n2,2,4\n",
        "foo,bar,baz\nw1,i1,a\nw2,i1,b\n",
        ",foo,bar,baz\n0,ann,bee,cat\n1,ann,dog,cat\n",  # the index of a data frame
    ],
)
def test_names_that_say_nothing_are_still_a_header(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError, match=r"foo, bar, baz.*--worker-col"):
        read_text(tmp_path, text)
    named = read_text(tmp_path, text, worker_col="foo", item_col="bar", label_col="baz")
    assert len(named.answers) == 2


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "studio.json",
            '[{"id": 1, "data": {"text": "x"}, "annotations": ['
            '{"completed_by": {"id": 7, "email": "w1"}, "result":'
            ' [{"value": {"choices": ["cat"]}}]},'
            '{"completed_by": 2, "result": [{"value": {"rating": 4}}]},'
            '{"completed_by": 3, "result": [], "was_cancelled": true}]}]',
        ),
        (
            "prodigy.jsonl",
            '{"_input_hash": 1, "_task_hash": 9, "_session_id": "w1", "accept": ["cat"],'
            ' "answer": "accept"}\n'
            '{"_input_hash": 1, "_task_hash": 1, "_annotator_id": "2", "accept": [4]}\n'
            '{"_input_hash": 1, "_task_hash": 9, "_session_id": "3", "accept": [],'
            ' "answer": "ignore"}\n',
        ),
        (
            "plain.json",
            '[{"annotator": {"id": "w1"}, "item": 1, "label": "cat"},'
            ' {"annotator": {"id": 2}, "item": 1, "label": 4}]',
        ),
    ],
)
def test_json_exports(tmp_path: Path, name: str, text: str) -> None:
    expected = [("w1", "1", "cat"), ("2", "1", "4")]
    assert rows_of(read_text(tmp_path, text, name)) == expected


def test_parquet(tmp_path: Path) -> None:
    path = tmp_path / "answers.parquet"
    table = pa.table({"worker": ["w1", "w2", "w1"], "item": [1, 1, 2], "label": ["cat", None, "b"]})
    parquet.write_table(table, path)
    assert rows_of(read_answer_columns([str(path)])) == [
        ("w1", "1", "cat"),
        ("w2", "1", ""),
        ("w1", "2", "b"),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty"),
        ("\n \n", "empty"),
        ("worker,item,label\n", "no rows"),
        ("worker,thing,label\na,b,c\n", "no item column among worker, thing, label.*--item-col"),
        ("annotator,rater,item,label\na,b,c,d\n", "'annotator' and 'rater'.*--worker-col"),
        ("worker,item,label\na,b,c\n\nd,e\n", "line 4: 2 columns.*3"),
        ("worker,item,label\na,b,c\nd,e,f,g\n", "line 3: 4 columns.*3"),
        ('worker,item,label\na,b,"c\nd"\n\ne,f\n', "line 5: 2 columns"),
        ('worker,item,label\na,b,c\na,b,"c\nd,e,f\n', "line 3: a quote"),
        (b"worker,item,label\na,b,c\na,b,\xe9\n", r"line 3: not UTF-8 \(byte 0xe9\).*--encoding"),
        (b"worker,item,label,caf\xe9\na,b,c,d\n", "line 1: not UTF-8"),
        (b"worker,item,label\na,b,c\na,\0,d\n", "line 3: a NUL byte"),
        ("worker,item,label\na,b,\n\n ,b,c\n", "line 4: a label without its worker"),
        ("worker,item,label\na,b,c\na,,c\n", "line 3: a label without its item"),
        ("w1,i1\nw2,i2\n", "no header and 2 columns"),
        ('{"worker": 1, "item": 2, "label": 3}\n{"worker":\n', "line 2: not JSON"),
        (gzip.compress(PLAIN.encode(), mtime=0)[:-9], "damaged gzip"),
        (bz2.compress(PLAIN.encode())[:-9], "damaged bz2"),
        (lzma.compress(PLAIN.encode())[:-9], "NUL byte.*unpack it"),
        (b"PK\x03\x04", "a zip archive"),
        (b"PAR1 is not enough", "not a whole Parquet file"),
    ],
)
def test_bad_input_is_one_line_that_says_where(
    tmp_path: Path, text: str | bytes, message: str
) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read_text(tmp_path, text)
    assert str(tmp_path / "a.csv") in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_answer_columns([str(tmp_path / "none.csv")])
    with pytest.raises(InputError, match="folder"):
        read_answer_columns([str(tmp_path)])


@pytest.mark.parametrize(
    "options",
    [{"delimiter": "ab"}, {"encoding": "klingon"}, {"format": "xls"}, {"label_col": "said"}],
)
def test_bad_options(tmp_path: Path, options: dict[str, str]) -> None:
    with pytest.raises(MiscError):
        read_text(tmp_path, PLAIN, **options)


def test_no_header_contradicts_a_name() -> None:
    with pytest.raises(ConfigError, match="position"):
        ReadOptions(header=False, worker_col="who")


def test_encoding_is_taken_at_its_word(tmp_path: Path) -> None:
    latin = "worker,item,label\nw1,i1,café\n".encode("latin-1")
    assert rows_of(read_text(tmp_path, latin, encoding="latin-1")) == [("w1", "i1", "café")]


def test_rows_longer_than_a_block(tmp_path: Path) -> None:
    long = "x" * 9_000_000
    text = f"worker,item,label,note\nw1,i1,cat,{long}\nw2,i1,dog,y\nw1,i2,cat,z\n"
    assert rows_of(read_text(tmp_path, text)) == ROWS
