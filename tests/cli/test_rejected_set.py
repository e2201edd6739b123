"""`--fail-if`: a set is judged before it is published, and one that fails replaces nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from misc_cli.__main__ import run
from tests.conftest import REPO

LINES = (REPO / "sample_data" / "answers.csv").read_text().splitlines(keepends=True)
WORDS = ["aggregate", "answers.csv", "--aggregator", "mv", "-o", "labels.csv"]
SET = ("labels.csv", "labels.run.json", "labels.diagnostics.jsonl", "w.csv")
POOR = ["--fail-if", "items>1"]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    answers(1700)


def answers(count: int) -> None:
    Path("answers.csv").write_text("".join(LINES[: count + 1]))


def everything(folder: str = ".") -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}


def record(path: str) -> dict[str, object]:
    found: dict[str, object] = json.loads(Path(path).read_text())
    return found


def test_a_rejected_set_leaves_labels_and_state_and_the_next_night_starts_from_the_last_good(
    capfd: pytest.CaptureFixture[str],
) -> None:
    words = [*WORDS, "--workers", "w.csv", "--state", "st"]
    assert run([*words, "--fail-if", "items<1"]) == 0
    assert record("labels.run.json")["published"] is True
    answers(1750)
    before = everything()
    capfd.readouterr()
    assert run([*words, *POOR, "--verbose"]) == 3
    said = capfd.readouterr().err
    assert "labels.csv is as it was; the new set is in labels.rejected/" in said
    assert "misc: error: --fail-if items>1" in said
    after = everything()
    assert {path: after[path] for path in before} == before
    assert set(after) - set(before) == {f"labels.rejected/{name}" for name in SET}
    assert run(["verify", "labels.run.json"]) == 0
    assert run(["verify", "labels.rejected/labels.run.json"]) == 0
    kept = record("labels.rejected/labels.run.json")
    assert (kept["published"], kept["tripped"]) == (False, [f"items>1 (items is {_items(kept)})"])
    answers(1760)
    capfd.readouterr()
    assert run([*words, "--fail-if", "items<1", "--verbose"]) == 0
    said = capfd.readouterr().err
    assert "night 2: methods kept" in said
    assert "nothing to do" not in said
    assert record("labels.run.json")["published"] is True


def _items(found: dict[str, object]) -> int:
    return found["figures"]["items"]  # type: ignore[index,no-any-return]


def test_published_anyway() -> None:
    words = [*WORDS, "--state", "st"]
    assert run([*words, *POOR, "--publish-anyway"]) == 3
    found = record("labels.run.json")
    assert (found["published"], len(found["tripped"])) == (True, 1)  # type: ignore[arg-type]
    assert Path("st/state.json").exists()
    assert not Path("labels.rejected").exists()


@pytest.mark.parametrize("engine", ["local", "disk"])
def test_where_a_rejected_set_is_kept(engine: str, capfd: pytest.CaptureFixture[str]) -> None:
    words = [*WORDS, "--engine", engine, "--metrics", "m.prom", *POOR]
    assert run([*words, "--keep-rejected", "no"]) == 3
    assert set(everything()) == {"answers.csv", "m.prom"}  # a collector hears of every run
    assert "no labels.csv yet" in capfd.readouterr().err
    assert run([*words, "--keep-rejected", "deep/down"]) == 3
    assert Path("deep/down/labels.csv").exists()
    assert run([*words[:4], "--engine", engine, *POOR]) == 3  # labels would go to stdout
    out, err = capfd.readouterr()
    assert out == ""
    assert "nothing is written" in err


def test_a_folder_of_labels_is_judged_too() -> None:
    words = [*WORDS[:-1], "parts/", "--engine", "disk", *POOR]
    for _ in range(2):
        assert run(words) == 3
        assert not Path("parts").exists()
        assert run(["verify", "parts.rejected/parts"]) == 0


def test_each_question_is_judged_before_any_is_published() -> None:
    rows = (f"w{n % 3},i{n},{'xy'[n % 2]},{'yn'[n % 5 > 2]}\n" for n in range(30))
    Path("two.csv").write_text("annotator,doc_id,mood,spam\n" + "".join(rows))
    words = ["aggregate", "two.csv", "--aggregator", "mv", "--each-question", "-o", "l.csv", "-q"]
    assert run([*words, *POOR]) == 3
    assert set(everything()) == {
        *("answers.csv", "two.csv", "l.rejected/l.run.json"),
        *(
            f"l.rejected/l.{q}.{end}"
            for q in ("mood", "spam")
            for end in ("csv", "diagnostics.jsonl")
        ),
    }
    assert run(["verify", "l.rejected/l.run.json"]) == 0


@pytest.mark.parametrize("flag", [["--publish-anyway"], ["--keep-rejected", "no"]])
def test_flags_that_need_a_condition(flag: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert run([*WORDS, *flag]) == 2
    assert "needs --fail-if" in capfd.readouterr().err
