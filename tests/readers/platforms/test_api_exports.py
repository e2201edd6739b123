"""JSON of platforms' interfaces, each with its right reading."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from misc_cli.errors import InputError
from misc_cli.readers.read import read_answer_columns
from tests.readers.test_exports import ANSWERS, WORKERS, triplets

BY_ITEM: dict[str, dict[str, str]] = {}
for _worker, _item, _label in ANSWERS:
    BY_ITEM.setdefault(_item, {})[_worker] = _label
RIGHT = sorted(ANSWERS)


def written(folder: Path, content: Any, name: str = "export.json") -> Path:
    path = folder / name
    path.write_text(json.dumps(content))
    return path


def assignment(worker: str, status: str = "ACCEPTED") -> dict[str, Any]:
    said = [(item, label) for who, item, label in ANSWERS if who == worker]
    return {
        "id": f"as-{worker}",
        "user_id": worker,
        "status": status,
        "tasks": [{"id": f"t{i}", "input_values": {"image": i}} for i, _ in said],
        "solutions": [{"output_values": {"animal": label}} for _, label in said],
    }


def test_assignments_of_toloka(tmp_path: Path) -> None:
    items = [assignment(worker) for worker in WORKERS]
    items.append({**assignment("anna", "REJECTED"), "user_id": "zoe"})
    items[0]["tasks"][0]["known_solutions"] = [{"output_values": {"animal": "cat"}}]
    path = written(tmp_path, {"items": items, "has_more": False})
    assert triplets(path) == RIGHT
    result = read_answer_columns([str(path)])
    assert result.set_aside == {"rejected": 1}
    items[0]["solutions"].pop()
    with pytest.raises(InputError, match="8 tasks and 7 solutions"):
        triplets(written(tmp_path, items))


def test_units_of_appen(tmp_path: Path) -> None:
    units = [
        {
            "id": item,
            "data": {"text": "…", "animal_gold": ["cat"] if item == "0.jpg" else None},
            "results": {
                "judgments": [
                    {"worker_id": w, "tainted": w == "zoe", "data": {"animal": label}}
                    for w, label in {**said, "zoe": "cat"}.items()
                ],
                "animal": {"agg": "cat", "confidence": 0.8},
            },
        }
        for item, said in BY_ITEM.items()
    ]
    path = written(tmp_path, units)
    assert triplets(path) == RIGHT
    assert read_answer_columns([str(path)]).set_aside == {"tainted": 8}


def test_items_of_dataloop(tmp_path: Path) -> None:
    def annotation(who: str, label: str, automated: bool = False) -> dict[str, Any]:
        system = {"system": {"automated": automated}}
        kind = {"type": "class", "label": label, "creator": who, "itemId": "x"}
        return {**kind, "metadata": system, "datasetId": "d"}

    items: list[dict[str, Any]] = [
        {
            "id": f"it{item}",
            "filename": item,
            "annotations": [annotation(*pair) for pair in said.items()]
            + [annotation("model@x.org", "dog", automated=True)],
        }
        for item, said in BY_ITEM.items()
    ]
    path = written(tmp_path, items)
    assert triplets(path) == RIGHT
    assert read_answer_columns([str(path)]).set_aside == {"automated": 8}
    for item in items:
        for one in item["annotations"]:
            one["type"] = "box"
    with pytest.raises(InputError, match="boxes or other shapes"):
        triplets(written(tmp_path, items))


def test_a_manifest_with_all_workers_answers(tmp_path: Path) -> None:
    def row(item: str, said: dict[str, str]) -> dict[str, Any]:
        answers = [
            {
                "workerId": who,
                "annotationData": {"content": json.dumps({"animal": {"label": label}})},
            }
            for who, label in said.items()
        ]
        return {
            "source-ref": item,
            "job": {"annotationsFromAllWorkers": answers},
            "job-metadata": {"type": "groundtruth/custom", "human-annotated": "yes"},
        }

    text = "".join(json.dumps(row(*pair)) + "\n" for pair in BY_ITEM.items())
    path = tmp_path / "output.manifest"
    path.write_text(text)
    assert triplets(path) == RIGHT


def test_a_quiz_of_google_forms(tmp_path: Path) -> None:
    items = [f"Is image {n} a cat?" for n in range(8)]
    extra = [name for i in items for name in (i, f"{i} [Score]", f"{i} [Feedback]")]
    lines = [",".join(["Timestamp", "Email Address", "Total score", *extra])]
    for worker in WORKERS:
        said = [label for who, _, label in ANSWERS if who == worker]
        cells = [cell for label in said for cell in (label, "1.00 / 1", "")]
        lines.append(",".join(["2026/11/01 10:00:00", f"{worker}@x.org", "3 / 8", *cells]))
    path = tmp_path / "quiz.csv"
    path.write_text("\n".join(lines) + "\n")
    assert [label for _, _, label in triplets(path)] == [label for _, _, label in RIGHT]
