"""What files come in: archives, Arrow, dumps of stores; and tables whose columns are people."""

from __future__ import annotations

import io
import json
import pickle
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from misc_cli.errors import InputError
from tests.readers.test_exports import ANSWERS, WORKERS, triplets, written

ROWS = "".join(f"{worker},{item},{label}\n" for worker, item, label in ANSWERS)
TEXT = f"worker,item,label\n{ROWS}".encode()
RIGHT = sorted(ANSWERS)
BY_ITEM: dict[str, dict[str, str]] = {}
for _worker, _item, _label in ANSWERS:
    BY_ITEM.setdefault(_item, {})[_worker] = _label
RECORDS = [{"worker": w, "item": i, "label": label} for w, i, label in ANSWERS]


def packed(folder: Path, files: dict[str, bytes]) -> Path:
    path = folder / "export.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


@pytest.mark.parametrize("files", [{"a.csv": TEXT}, {"a.csv": TEXT, "b.csv": TEXT}, {}])
def test_archives_are_refused_with_what_to_do(tmp_path: Path, files: dict[str, bytes]) -> None:
    with pytest.raises(InputError, match=r"a zip archive; .*unzip .*-d export"):
        triplets(packed(tmp_path, files))


def test_tar_and_pickle_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "a.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        member = tarfile.TarInfo("a.csv")
        member.size = len(TEXT)
        archive.addfile(member, io.BytesIO(TEXT))
    with pytest.raises(InputError, match=r"no plain text; .* unpack it"):
        triplets(path)
    path = tmp_path / "a.pkl"
    path.write_bytes(pickle.dumps(RECORDS + [{"n": 256 * n} for n in range(300)]))
    with pytest.raises(InputError, match="no plain text"):
        triplets(path)


def test_dumps_of_stores_are_declared_by_their_paths(tmp_path: Path) -> None:
    path = tmp_path / "dump.json"
    path.write_text(json.dumps([{"_id": n, "_source": one} for n, one in enumerate(RECORDS)]))
    roles = {f"{role}_col": f"_source.{role}" for role in ("worker", "item", "label")}
    assert triplets(path, **roles) == RIGHT


def test_objects_around_each_label(tmp_path: Path) -> None:
    models = {w: f"gpt-{n + 3}" for n, w in enumerate(WORKERS)}
    panel = [
        {"id": i, "judgments": {models[w]: {"label": c, "confidence": 0.5} for w, c in s.items()}}
        for i, s in BY_ITEM.items()
    ]
    path = tmp_path / "panel.json"
    path.write_text(json.dumps(panel))
    assert triplets(path) == sorted((models[w], i, label) for w, i, label in ANSWERS)
    said = {w: {i: {"label": c, "t": 1} for v, i, c in ANSWERS if v == w} for w in WORKERS}
    path.write_text(json.dumps({"annotations": said}))
    assert triplets(path) == RIGHT


def wide(names: list[str]) -> list[tuple[Any, ...]]:
    return [(n, item, *said.values(), "??") for n, (item, said) in enumerate(BY_ITEM.items())]


def test_a_name_that_nobody_knows_is_not_lost(tmp_path: Path) -> None:
    path = written(tmp_path, "n,image,anna,ben,xyzzy,notes", wide(list(WORKERS)))
    with pytest.raises(
        InputError, match="--worker-col anna,ben,xyzzy --item-col image --layout wide"
    ):
        triplets(path)
    found = triplets(path, layout="wide", worker_col="anna,ben,xyzzy", item_col="image")
    assert len(found) == len(ANSWERS)


def test_feelings_are_no_people(tmp_path: Path) -> None:
    path = written(tmp_path, "image,joy,hope,grace", [row[1:-1] for row in wide(list(WORKERS))])
    with pytest.raises(InputError, match="no worker"):
        triplets(path)


def test_an_index_without_a_name_is_below_a_header(tmp_path: Path) -> None:
    rows = [(n, *said.values()) for n, said in enumerate(BY_ITEM.values())]
    path = written(tmp_path, ",A0001,A0002,A0003", rows)
    with pytest.raises(InputError, match=r"(?s)--worker-col 'A000\*'.*--layout wide"):
        triplets(path)
    assert len(triplets(path, layout="wide", worker_col="A0001,A0002,A0003")) == len(ANSWERS)


def test_trials_of_an_experiment(tmp_path: Path) -> None:
    """As jsPsych writes them: `task` names the kind of trial, fixations have no response."""
    rows: list[tuple[Any, ...]] = []
    for worker, item, label in ANSWERS:
        rows.append((worker, "key", 2 * len(rows), "<p>+</p>", "", "fixation", 500))
        rows.append((worker, "key", 2 * len(rows), item, label, "test", 700))
    path = written(tmp_path, "subject,trial_type,trial_index,stimulus,response,task,rt", rows)
    assert [answer for answer in triplets(path, item_col="stimulus") if answer[2]] == RIGHT


@pytest.mark.parametrize("name", ["data", "items", "solutions", "results"])
def test_a_table_with_a_column_as_interfaces_call_it(tmp_path: Path, name: str) -> None:
    path = written(tmp_path, f"worker,item,label,{name}", [(*answer, "x") for answer in ANSWERS])
    assert triplets(path) == RIGHT


def test_what_was_judged_is_no_question(tmp_path: Path) -> None:
    rows = [(w, i, f"what is in {i}", label) for w, i, label in ANSWERS]
    assert triplets(written(tmp_path, "model,id,prompt,parsed", rows)) == RIGHT


def test_a_name_that_no_tool_gives_is_asked_about(tmp_path: Path) -> None:
    path = written(tmp_path, "radiologist,image_id,label", ANSWERS)
    with pytest.raises(InputError, match="no worker column among radiologist"):
        triplets(path)
    assert triplets(path, worker_col="radiologist") == RIGHT
    path = written(tmp_path, "annotator,headline,label", ANSWERS)
    with pytest.raises(InputError, match=r"(?s)no item column.*try: .*--item-col headline"):
        triplets(path)


def test_what_may_be_two_things_is_asked_about(tmp_path: Path) -> None:
    rows = [(*answer, f"desk of {answer[0]}") for answer in ANSWERS]
    with pytest.raises(InputError, match="no worker column"):
        triplets(written(tmp_path, "radiologist,image_id,label,desk", rows))
    nth = [(WORKERS.index(w) + 1, i, label) for w, i, label in ANSWERS]
    with pytest.raises(InputError, match="no worker column"):  # the first, second, third answer
        triplets(written(tmp_path, "slot,image_id,label", nth))
    sites = [("north" if w == "anna" else "south", i, label) for w, i, label in ANSWERS]
    with pytest.raises(InputError, match="no worker column"):
        triplets(written(tmp_path, "site,image_id,label", sites))


@pytest.mark.parametrize(("encoding", "said"), [("latin-1", "latin-1"), ("cp1252", "cp1252")])
def test_the_encoding_that_is_named_reads_the_file(
    tmp_path: Path, encoding: str, said: str
) -> None:
    text = TEXT.decode().replace("cat", "Kätzchen" if encoding == "latin-1" else "5 €")
    path = tmp_path / "a.csv"
    path.write_bytes(text.encode(encoding))
    with pytest.raises(InputError, match=f"(?s)not UTF-8 .*--encoding {said}"):
        triplets(path)
    assert len(triplets(path, encoding=encoding)) == len(ANSWERS)


def test_verdicts_in_double_brackets_are_classes(tmp_path: Path) -> None:
    rows = [(w, i, f"[[{'A' if label == 'cat' else 'B'}]]") for w, i, label in ANSWERS]
    assert triplets(written(tmp_path, "judge,id,verdict", rows)) == sorted(rows)
