"""The figures of an engine's run, and what it warns of: those of memory, whatever the parts."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from misc_cli import registry
from misc_cli.__main__ import run
from misc_cli.data.encode import encode
from misc_cli.engines.local import MemoryEngine
from misc_cli.engines.partitioned import (
    EncodingRules,
    PartsEngine,
    Summary,
    encode_part,
    part_of,
    split,
)
from misc_cli.engines.protocol import add_up
from misc_cli.quality.figures import figures
from misc_cli.quality.worker_dependence import compare_workers
from misc_cli.readers.read import read_answer_columns
from tests.conftest import dataset_folder
from tests.engines.crowds import crowd, write_csv
from tests.engines.test_choice import many, simulated

__all__ = ["many"]  # a fixture
DISK = ("--engine", "disk", "--spill", ".")
OF_VOTES = ("alpha", "agreement", "unanimous", "overruled", "classes-lost", "effective-votes")


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def record(*words: str) -> dict[str, Any]:
    assert run(["aggregate", "answers.csv", *words, "-o", "labels.csv", "-q"]) == 0
    found: dict[str, Any] = json.loads(Path("labels.run.json").read_text())
    return found


def same(*words: str) -> dict[str, Any]:
    """run.json of the disk, whose figures and warnings are those of memory."""
    of_memory, of_disk = record(*words), record(*words, *DISK)
    assert list(of_disk["figures"]) == list(of_memory["figures"])
    assert of_disk["figures"] == pytest.approx(of_memory["figures"], abs=2e-6, nan_ok=False)
    assert of_disk["warnings"] == of_memory["warnings"]
    return of_disk


def add_copies(*workers: str) -> None:
    """Each of them gives all of its answers once more, under another name."""
    lines = Path("answers.csv").read_text().splitlines()
    again = [f"again-{line}" for line in lines if line.split(",")[0] in workers]
    Path("answers.csv").write_text("\n".join([*lines, *again]) + "\n")


@pytest.mark.usefixtures("many")
@pytest.mark.parametrize(
    "words", [(), ("--aggregator", "ds-em"), ("--aggregator", "mv", "--gold", "gold.csv")]
)
def test_many_answers_and_workers_who_err_together(words: tuple[str, ...]) -> None:
    simulated("answers.csv")
    add_copies(*(f"w{number}" for number in range(50)))
    Path("gold.csv").write_text("item,label\n" + "".join(f"i{n},c{n % 3}\n" for n in range(90)))
    found = same(*words)
    assert "gathered" not in found["engine"]
    assert found["figures"]["alike-pairs"] >= 50
    assert found["figures"]["effective-votes"] < 0.8 * found["figures"]["answers-per-item"]
    assert any("workers err together" in text for text in found["warnings"])


def test_labels_that_should_not_be_believed() -> None:
    """All answers agree and the label is another; a class that leads the vote gets none."""
    shutil.copy(dataset_folder("youtube_lf") / "answers.csv", "answers.csv")
    said = " ".join(same("--aggregator", "ds-em", "--no-calibrate")["warnings"])
    assert "all answers agree got another label" in said
    assert "no item got the label 'SPAM'" in said


def test_contradictions_and_odd_names() -> None:
    write_csv(crowd(), Path("answers.csv"))
    same("--aggregator", "one-coin")


@pytest.mark.parametrize("known", ["i1,c1\nnobody's,c2\n", "nobody's,c2\n"])
def test_gold_that_nobody_answered(known: str) -> None:
    simulated("answers.csv", 300)
    Path("gold.csv").write_text(f"item,label\n{known}")
    said = same("--aggregator", "ds-em", "--gold", "gold.csv", "--no-calibrate")["warnings"]
    assert any("gold" in text for text in said)


@pytest.mark.parametrize("n_parts", [1, 2, 7])
def test_whatever_the_parts(n_parts: int) -> None:
    simulated("answers.csv", 2_000)
    add_copies("w1", "w2")
    answers = read_answer_columns(["answers.csv"]).answers
    method = registry.create("aggregator", "ds-em", "robust")
    whole = encode(answers)
    here = MemoryEngine(whole.labels)
    method.solve(here, lambda _: None)
    ended: dict[str, Any] = {"iterations": 1, "converged": True}
    of_memory = figures(here, compare_workers(here), **ended)
    encoded = [encode_part([table], EncodingRules()) for table in split(answers, n_parts)]
    vocabulary = add_up(map(Summary.of, encoded)).vocabulary(EncodingRules())
    parts = [part_of(part.labels, vocabulary, None) for part in encoded if part is not None]
    there = PartsEngine(parts, vocabulary)
    method.solve(there, lambda _: None)
    of_parts = figures(there, compare_workers(there), **ended)
    assert of_parts == pytest.approx(of_memory, abs=2e-6)
    assert of_parts["alike-pairs"] == 2


def test_gates_judge_them(capsys: pytest.CaptureFixture[str]) -> None:
    simulated("answers.csv", 300)
    command = ["aggregate", "answers.csv", "--aggregator", "ds-em", *DISK, "-q", "-o", "labels.csv"]
    gates = [word for name in OF_VOTES for word in ("--fail-if", f"{name}>=0")]
    assert run([*command, *gates, "--fail-if", "cut-short=false"]) == 3
    said = capsys.readouterr().err
    assert all(f"{name} is" in said for name in (*OF_VOTES, "cut-short"))
    Path("answers.csv").write_text("worker,item,label\nann,i1,yes\nbob,i2,no\n")
    assert run([*command, "--fail-if", "alpha<0.5"]) == 2
    assert "no alpha to judge: too few answers" in capsys.readouterr().err
