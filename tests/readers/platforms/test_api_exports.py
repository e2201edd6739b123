"""JSON of platforms' interfaces, each with its right reading."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.readers.test_exports import ANSWERS, WORKERS, triplets

BY_ITEM: dict[str, dict[str, str]] = {}
for _worker, _item, _label in ANSWERS:
    BY_ITEM.setdefault(_item, {})[_worker] = _label
RIGHT = sorted(ANSWERS)


def written(folder: Path, content: Any, name: str = "export.json") -> Path:
    path = folder / name
    path.write_text(json.dumps(content))
    return path


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
