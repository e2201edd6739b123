"""Which rows count: statuses, flags, consensus rows, and the newest of several answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from misc_cli.errors import InputError
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.read import read_answer_columns
from tests.readers.test_exports import ANSWERS, triplets, written

RIGHT = sorted(ANSWERS)
OTHER = {"cat": "dog", "dog": "cat"}


def with_late(column: str, good: str, bad: str) -> tuple[str, list[tuple[Any, ...]]]:
    """Rows that do not count, behind more rows than are looked at first."""
    many = [(w, f"{n}-{i}", label, good) for n in range(10) for w, i, label in ANSWERS]
    return f"worker,item,label,{column}", [*many, ("zoe", "0-0.jpg", "dog", bad)]


@pytest.mark.parametrize(
    ("column", "good", "bad", "reason"),
    [
        ("status", "approved", "Rejected", "rejected"),
        ("phase", "main", "training", "training"),
        ("type", "annotation", "adjudication", "adjudication"),
        ("deleted_at", "", "2026-11-16T10:00:00", "deleted_at"),
        ("is_valid", "1", "0", "not is_valid"),
        ("is_latest", "True", "False", "not is_latest"),
        ("approved", "yes", "no", "not approved"),
        ("exclude", "0", "1", "exclude"),
    ],
)
def test_rows_that_do_not_count_are_set_aside_wherever_they_stand(
    tmp_path: Path, column: str, good: str, bad: str, reason: str
) -> None:
    path = written(tmp_path, *with_late(column, good, bad))
    result = read_answer_columns([str(path)], ReadOptions())
    assert result.set_aside == {reason: 1}
    assert "zoe" not in result.answers.worker.to_pylist()


# Every word that takes a row out, as people write it (docs/input.md, "known statuses").
STATUSES = (
    *("rejected", "reject", "cancelled", "canceled", "skipped", "skip", "tainted", "expired"),
    *("abandoned", "returned", "deleted", "draft", "invalid", "ignored", "ignore", "discarded"),
    *("spam", "failed", "timed-out", "timed out"),
)
KINDS = (
    *("training", "practice", "tutorial", "warmup", "warm-up", "qualification", "onboarding"),
    *("consensus", "adjudication", "adjudicated", "curation", "curated", "aggregated"),
    *("majority", "prediction", "predicted", "pre-annotation", "preannotation"),
)
BAD_FLAGS = (
    *("rejected", "cancelled", "canceled", "was_cancelled", "skipped", "tainted", "deleted"),
    *("is_deleted", "discarded", "is_spam", "ignored", "is_skipped", "is_rejected"),
    *("is_cancelled", "is_training", "is_practice", "is_draft", "superseded", "exclude"),
    *("excluded", "is_excluded", "is_invalid", "invalid"),
)
GOOD_FLAGS = (
    *("is_valid", "valid", "is_latest", "latest", "is_current", "approved", "is_approved"),
    *("accepted", "is_accepted"),
)
BAD_TIMES = (
    *("deleted_at", "rejected_at", "cancelled_at", "canceled_at", "skipped_at", "discarded_at"),
)
KINDS_OF = (
    *("phase", "stage", "type", "kind", "label_type", "annotation_type", "block", "part", "mode"),
)
YES, NO = ("true", "1", "yes", "t", "y", "1.0"), ("false", "0", "no", "f", "n", "0.0")
NEVER, TIMES = ("", "null", "NaN", "NaT", "None", "NA"), ("2026-11-16T10:00:00", "1762000000")


@pytest.mark.parametrize(
    ("column", "good", "bad"),
    [
        *((column, "submitted", STATUSES) for column in ("status", "review_status", "state")),
        *((column, "main", KINDS) for column in KINDS_OF),
    ],
)
def test_every_word_of_a_status_takes_its_rows_out(
    tmp_path: Path, column: str, good: str, bad: tuple[str, ...]
) -> None:
    header, rows = with_late(column, good, bad[0])
    rows += [("zoe", f"1-{at % 8}.jpg", "dog", word.upper()) for at, word in enumerate(bad[1:])]
    result = read_answer_columns([str(written(tmp_path, header, rows))], ReadOptions())
    assert result.set_aside == dict.fromkeys(bad, 1)
    assert "zoe" not in result.answers.worker.to_pylist()


@pytest.mark.parametrize(
    ("column", "good", "bad", "reason"),
    [
        *((flag, NO, YES, flag) for flag in BAD_FLAGS),
        *((flag, YES, NO, f"not {flag}") for flag in GOOD_FLAGS),
        *((time, NEVER, TIMES, time) for time in BAD_TIMES),
    ],
)
def test_every_flag_takes_its_rows_out(
    tmp_path: Path, column: str, good: tuple[str, ...], bad: tuple[str, ...], reason: str
) -> None:
    rows = [(*answer, good[at % len(good)]) for at, answer in enumerate(ANSWERS)]
    rows += [("zoe", f"{at}.jpg", "dog", word) for at, word in enumerate(bad)]
    path = written(tmp_path, f"worker,item,label,{column}", rows)
    result = read_answer_columns([str(path)], ReadOptions())
    assert result.set_aside == {reason: len(bad)}
    assert triplets(path) == RIGHT


@pytest.mark.parametrize("columns", ["status,review_status", "phase,type"])
def test_the_first_of_two_columns_counts_as_the_second_does(tmp_path: Path, columns: str) -> None:
    bad = "rejected" if "status" in columns else "training"
    for said in ((bad, "done"), ("done", bad)):
        rows = [*((*answer, "done", "done") for answer in ANSWERS), ("zoe", "0.jpg", "dog", *said)]
        assert triplets(written(tmp_path, f"worker,item,label,{columns}", rows)) == RIGHT


@pytest.mark.parametrize("column", ["is_spam", "deleted", "is_valid", "type"])
def test_what_was_asked_is_no_status(tmp_path: Path, column: str) -> None:
    said = {"cat": "true", "dog": "false"} if column != "type" else {"cat": "majority", "dog": "x"}
    rows = [(w, i, said[label]) for w, i, label in ANSWERS]
    assert triplets(written(tmp_path, f"worker,item,{column}", rows)) == sorted(rows)


def test_a_kind_that_all_rows_share_takes_none_out(tmp_path: Path) -> None:
    rows = [(*answer, "prediction") for answer in ANSWERS]
    assert triplets(written(tmp_path, "model,item,label,type", rows)) == RIGHT


def test_answers_that_nobody_has_approved_yet_count(tmp_path: Path) -> None:
    rows = [(*answer, "no") for answer in ANSWERS]
    assert triplets(written(tmp_path, "worker,item,label,approved", rows)) == RIGHT


def test_a_status_is_no_second_question(tmp_path: Path) -> None:
    rows = [(w, i, label, "0") for w, i, label in ANSWERS] + [("zoe", "1.jpg", "cat", "1")]
    assert triplets(written(tmp_path, "worker,item,mood,deleted", rows)) == RIGHT


@pytest.mark.parametrize(
    "nobody",
    [
        *("consensus", "majority", "majority vote", "majority_vote", "MajorityVote", "aggregated"),
        *("aggregate", "adjudicated", "Gold", "gold standard", "gold_standard", "ground truth"),
        *("ground_truth", "groundtruth", "truth", "Final label", "final_label"),
    ],
)
def test_a_consensus_among_the_workers_is_nobodys_answer(tmp_path: Path, nobody: str) -> None:
    rows = [*ANSWERS, *((nobody, f"{n}.jpg", "cat") for n in range(8))]
    path = written(tmp_path, "worker,item,label", rows)
    assert triplets(path) == RIGHT
    assert read_answer_columns([str(path)]).set_aside == {"consensus or gold": 8}
    assert len(triplets(path, allow_odd=True)) == len(rows)


def test_a_text_of_the_item_is_not_what_was_said(tmp_path: Path) -> None:
    rows = [(w, i, f"text of {i}", label) for w, i, label in ANSWERS]
    path = written(tmp_path, "rater_id,item_id,response,Q_overall", rows)
    with pytest.raises(InputError, match=r"'Q_overall' and 'response' may each .*"):
        triplets(path)
    assert triplets(path, label_col="Q_overall") == RIGHT


def last_answers(path: Path) -> list[tuple[str, str, str]]:
    """What `--duplicates last` keeps."""
    answers = read_answer_columns([str(path)]).answers
    columns = [c.to_pylist() for c in (answers.worker, answers.item, answers.label)]
    kept = {(w, i): label for w, i, label in zip(*columns, strict=True)}
    return sorted((w, i, label) for (w, i), label in kept.items())


@pytest.mark.parametrize(
    ("column", "new", "old"),
    [
        ("version", "2", "1"),
        ("submitted_at", "2026-11-02T10:00:00", "2026-11-01T23:00:00"),
        ("timestamp", "1762000001", "1762000000"),
    ],
)
def test_the_newest_answer_is_the_last_wherever_it_stands(
    tmp_path: Path, column: str, new: str, old: str
) -> None:
    rows = [(*answer, new) for answer in ANSWERS]
    rows += [(w, i, OTHER[label], old) for w, i, label in ANSWERS[:4]]
    path = written(tmp_path, f"worker,item,label,{column}", rows)
    assert last_answers(path) == RIGHT


@pytest.mark.parametrize("column", ["lead_time", "time"])
def test_how_long_it_took_orders_nothing(tmp_path: Path, column: str) -> None:
    rows = [(w, i, OTHER[label], 99) for w, i, label in ANSWERS[:4]]
    rows += [(*answer, 3) for answer in ANSWERS]
    assert last_answers(written(tmp_path, f"worker,item,label,{column}", rows)) == RIGHT


def test_numbers_of_no_year_are_no_times(tmp_path: Path) -> None:
    rows = [(*answer, "9" * 30) for answer in ANSWERS]
    rows += [(w, i, OTHER[label], "9" * 29) for w, i, label in ANSWERS[:2]]
    path = written(tmp_path, "worker,item,label,timestamp", rows)
    assert len(triplets(path)) == len(rows)


def batch(folder: Path, answer: str, said: Any) -> Path:
    """A batch of Mechanical Turk of which half was posted again, under other HITs."""
    header = ["HITId", "WorkerId", "AssignmentStatus", "Input.url", "Input.lang", answer]
    rows = [
        (f"H{n % 2}{item}", worker, "Approved", item, "en", said(label))
        for n, (worker, item, label) in enumerate(ANSWERS)
    ]
    lines = ["\t".join(row) for row in [header, *rows]]
    path = folder / "batch.tsv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_the_input_of_a_batch_that_was_posted_again_is_the_item_if_named(tmp_path: Path) -> None:
    path = batch(tmp_path, "Answer.animal", str)
    assert triplets(path, item_col="Input.url") == RIGHT
    assert len({item for _, item, _ in triplets(path)}) == 16
    path = batch(tmp_path, "Answer.taskAnswers", lambda said: json.dumps([{"animal": said}]))
    assert triplets(path.rename(tmp_path / "json.tsv"), item_col="Input.url") == RIGHT
