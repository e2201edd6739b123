"""`misc aggregate` as a user meets it: files in, files and exit codes out."""

from __future__ import annotations

import csv
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from misc_cli import registry
from misc_cli.__main__ import run

ANSWERS = """worker,item,label
ann,q1,yes
bob,q1,yes
eve,q1,no
ann,q2,no
bob,q2,no
eve,q2,yes
ann,q3,yes
bob,q3,yes
ann,q4,no
bob,q4,yes
"""

Row = tuple[str, str, str]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("answers.csv").write_text(ANSWERS)


def rows(path: str) -> list[dict[str, str]]:
    with open(path, newline="") as stream:
        return list(csv.DictReader(stream))


def manifest(path: str = "labels.run.json") -> dict[str, Any]:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    loaded: dict[str, Any] = json.loads(Path(path).read_text(), parse_constant=refuse)
    return loaded


def crowd(n_items: int = 80) -> list[Row]:
    """Five workers of different reliability; names sort as their numbers do."""
    generator = random.Random(3)
    classes = ["bird", "cat", "dog"]
    answers = []
    for item in range(n_items):
        truth = generator.choice(classes)
        for worker in range(5):
            right = generator.random() < 0.5 + 0.1 * worker
            label = truth if right else generator.choice(classes)
            answers.append((f"w{worker}", f"i{item:03}", label))
    return answers


def write(answers: list[Row], path: str) -> str:
    lines = ["worker,item,label", *(",".join(answer) for answer in answers)]
    Path(path).write_text("\n".join(lines) + "\n")
    return path


def few_restarts(aggregator: str) -> list[str]:
    return ["-p", "restarts=3"] if "restarts" in registry.settings("aggregator", aggregator) else []


def test_majority_vote_to_stdout(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert run(["aggregate", "answers.csv", "--aggregator", "mv"]) == 0
    out, err = capfdbinary.readouterr()
    expected = b"item,label,confidence\nq1,yes,0.666667\nq2,no,0.666667\nq3,yes,1\nq4,no,0.5\n"
    assert out == expected
    assert err == b"", "stderr is for people and for warnings"
    assert [path.name for path in Path().iterdir()] == ["answers.csv"]


NAMES = st.sampled_from(["a", "b", "c", "d"])


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.tuples(NAMES, NAMES, NAMES), min_size=1, max_size=30))
def test_majority_vote_counts_as_the_standard_library_does(answers: list[Row]) -> None:
    """A worker's last word on an item counts; the first of tied labels in the alphabet wins."""
    last = {(worker, item): label for worker, item, label in answers}
    votes: dict[str, Counter[str]] = {}
    for (_, item), label in last.items():
        votes.setdefault(item, Counter())[label] += 1
    expected = {}
    for item, counts in votes.items():
        winner = min(counts, key=lambda label: (-counts[label], label))
        share, tied = counts[winner] / counts.total(), [*counts.values()].count(counts[winner]) > 1
        expected[item] = (winner, round(share, 6), str(int(tied)))
    write(answers, "answers.csv")
    words = ["--aggregator", "mv", "--item-details", "--quiet", "-o", "labels.csv"]
    rules = ["--duplicates", "last", "--allow-odd"]
    assert run(["aggregate", "answers.csv", *words, *rules]) == 0
    found = {
        row["item"]: (row["label"], float(row["confidence"]), row["tie"])
        for row in rows("labels.csv")
    }
    assert found == expected
    assert list(found) == sorted(found)


def test_an_output_file_brings_diagnostics_and_manifest() -> None:
    assert run(["aggregate", "answers.csv", "--aggregator", "ds-em", "-o", "out.labels.csv"]) == 0
    names = {path.name for path in Path().iterdir()}
    beside = {"out.labels.csv", "out.labels.diagnostics.jsonl", "out.labels.run.json"}
    assert names == {"answers.csv"} | beside
    found = manifest("out.labels.run.json")
    assert found["counts"]["answers"] == 10
    assert found["options"]["aggregator"] == "ds-em"
    assert found["methods"]["aggregator"]["class_prior"] == "estimated"
    lines = Path("out.labels.diagnostics.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    assert len(records) == found["iterations"]["ds-em"]
    assert {"stage", "pass", "iteration", "objective", "change", "seconds"} <= set(records[0])


def test_the_manifest_knows_the_input_as_sha256sum_does() -> None:
    import hashlib

    assert run(["aggregate", "answers.csv", "-o", "labels.csv"]) == 0
    (source,) = manifest()["inputs"]
    assert source["sha256"] == hashlib.sha256(ANSWERS.encode()).hexdigest()
    known = {"gold": "item,label\nq1,yes\n", "truth": "item,label\nq2,no\n"}
    for name, content in known.items():
        Path(f"{name}.csv").write_text(content)
    words = ["--gold", "gold.csv", "--truth", "truth.csv", "-o", "labels.csv"]
    assert run(["aggregate", "answers.csv", *words]) == 0
    found = {name: (file["name"], file["sha256"]) for name, file in manifest()["known"].items()}
    assert found == {
        name: (f"{name}.csv", hashlib.sha256(content.encode()).hexdigest())
        for name, content in known.items()
    }


def test_probabilities_and_details_stand_in_class_order() -> None:
    words = ["--probabilities", "--item-details", "--class-order", "yes,no,maybe"]
    assert run(["aggregate", "answers.csv", "--aggregator", "mv", "-o", "l.csv", *words]) == 0
    header, *_ = Path("l.csv").read_text().splitlines()
    assert header == (
        "item,label,confidence,answers,tie,runner_up,entropy,agreement,"
        "votes_yes,votes_no,votes_maybe,p_yes,p_no,p_maybe"
    )
    last = rows("l.csv")[-1]
    assert (last["label"], last["tie"], last["runner_up"]) == ("yes", "1", "no")
    assert (last["p_yes"], last["p_no"], last["p_maybe"]) == ("0.5", "0.5", "0")
    assert (last["entropy"], last["answers"], last["agreement"]) == ("1", "2", "0")
    assert (last["votes_yes"], last["votes_no"], last["votes_maybe"]) == ("1", "1", "0")


def test_workers_are_reported_with_their_confusions() -> None:
    assert run(["aggregate", "answers.csv", "--aggregator", "mv", "--workers", "w.csv"]) == 0
    ann, bob, eve = rows("w.csv")
    assert [worker["worker"] for worker in (ann, bob, eve)] == ["ann", "bob", "eve"]
    assert [worker["answers"] for worker in (ann, bob, eve)] == ["4", "4", "2"]
    # labels are yes, no, yes, and no for the tie; eve contradicts both of hers
    assert [worker["agreement"] for worker in (ann, bob, eve)] == ["1", "0.75", "0"]
    for worker in (ann, bob, eve):
        for true in ("no", "yes"):
            row = [float(worker[f"true_{true}_said_{said}"]) for said in ("no", "yes")]
            assert sum(row) == pytest.approx(1, abs=2e-6)
        assert 0 <= float(worker["accuracy"]) <= 1
    assert float(eve["accuracy"]) < float(bob["accuracy"])


@pytest.mark.parametrize("aggregator", registry.AGGREGATORS)
@pytest.mark.filterwarnings("default::misc_cli.errors.ConvergenceWarning")
def test_the_order_of_rows_and_the_threads_leave_no_trace(aggregator: str) -> None:
    answers = crowd()
    write(answers, "straight.csv")
    random.Random(1).shuffle(answers)
    write(answers, "shuffled.csv")
    words = ["--aggregator", aggregator, "--probabilities", "--class-order", "bird,cat,dog"]
    words += few_restarts(aggregator)
    runs = [("straight", "1"), ("shuffled", "3")]
    for name, threads in runs:
        source, target = f"{name}.csv", f"{name}.labels.csv"
        command = ["aggregate", source, *words, "--threads", threads, "-o", target, "-q"]
        assert run([*command, "--workers", f"{name}.workers.csv"]) == 0
    for table in ("labels", "workers"):
        contents = {Path(f"{name}.{table}.csv").read_bytes() for name, _ in runs}
        assert len(contents) == 1


@pytest.mark.parametrize("aggregator", registry.AGGREGATORS)
@pytest.mark.filterwarnings("default::misc_cli.errors.ConvergenceWarning")
def test_new_names_in_the_same_order_change_only_the_names(aggregator: str) -> None:
    names = {"bird": "apple", "cat": "banana, ripe", "dog": "cherry"}
    renamed = [
        (worker.replace("w", "annotator "), item.replace("i", "task/"), f'"{names[label]}"')
        for worker, item, label in crowd()
    ]
    orders = {"plain": "bird,cat,dog", "renamed": 'apple,"banana, ripe",cherry'}
    for name, answers in (("plain", crowd()), ("renamed", renamed)):
        write(answers, f"{name}.csv")
        words = ["--aggregator", aggregator, "--class-order", orders[name], "-q"]
        words += few_restarts(aggregator)
        assert run(["aggregate", f"{name}.csv", *words, "-o", f"{name}.labels.csv"]) == 0
    plain, other = rows("plain.labels.csv"), rows("renamed.labels.csv")
    assert [row["item"].replace("i", "task/") for row in plain] == [row["item"] for row in other]
    assert [names[row["label"]] for row in plain] == [row["label"] for row in other]
    assert [row["confidence"] for row in plain] == [row["confidence"] for row in other]


def test_gold_is_kept_and_truth_only_judges() -> None:
    write(crowd(), "crowd.csv")
    Path("known.csv").write_text("item,label\ni000,bird\ni001,cat\nelsewhere,dog\n")
    words = ["aggregate", "crowd.csv", "-q"]
    assert run([*words, "-o", "plain.csv"]) == 0
    assert run([*words, "-o", "judged.csv", "--truth", "known.csv"]) == 0
    assert Path("plain.csv").read_bytes() == Path("judged.csv").read_bytes()
    found = manifest("judged.run.json")["figures"]
    assert found["items-with-truth"] == 2
    assert 0 <= found["error"] <= 100
    lines = Path("judged.diagnostics.jsonl").read_text().splitlines()
    fitted = [line for line in map(json.loads, lines) if line["stage"] not in ("search", "fitted")]
    assert fitted
    assert all("error" in line for line in fitted)

    assert run([*words, "-o", "gold.csv", "--gold", "known.csv"]) == 0
    first, second, *_ = rows("gold.csv")
    assert (first["label"], first["confidence"]) == ("bird", "1")
    assert (second["label"], second["confidence"]) == ("cat", "1")


def test_a_truth_nobody_answered_is_an_error_of_the_crowd() -> None:
    Path("truth.csv").write_text("item,label\nq1,yes\nq2,unheard of\n")
    assert run(["aggregate", "answers.csv", "--truth", "truth.csv", "-o", "l.csv"]) == 0
    assert manifest("l.run.json")["figures"]["error"] == 50


def test_a_gate_trips_before_anything_is_published(capfd: pytest.CaptureFixture[str]) -> None:
    words = ["aggregate", "answers.csv", "--aggregator", "mv", "-o", "labels.csv"]
    assert run([*words, "--fail-if", "ties>0", "--fail-if", "confidence>2"]) == 3
    assert "ties>0 (ties is 1)" in capfd.readouterr().err
    assert not Path("labels.csv").exists()
    assert Path("labels.rejected/labels.run.json").exists()
    assert run([*words, "--fail-if", "ties>1"]) == 0
    assert Path("labels.csv").exists()


@pytest.mark.parametrize(
    ("content", "warning"),
    [
        ("a,1,x\nb,1,x\na,2,x\n", "only one class"),
        ("a,1,x\na,2,y\n", "only one worker"),
        ("a,1,x\nb,1,y\n", "only one item"),
        ("a,1,x\na,1,y\nb,1,x\na,2,y\nb,2,x\n", "once a worker gave an item"),
    ],
)
def test_odd_data_gets_a_result_and_a_warning(
    content: str, warning: str, capfd: pytest.CaptureFixture[str]
) -> None:
    Path("odd.csv").write_text("worker,item,label\n" + content)
    assert run(["aggregate", "odd.csv", "-o", "labels.csv"]) == 0
    err = capfd.readouterr().err
    assert f"misc: warning: {warning}" in err
    assert all(line.startswith("misc: warning: ") for line in err.splitlines())
    assert any(warning in text for text in manifest()["warnings"])
    assert run(["aggregate", "odd.csv", "-o", "labels.csv", "--quiet"]) == 0
    assert capfd.readouterr().err == ""


def test_known_labels_that_fit_only_in_part_are_said(capfd: pytest.CaptureFixture[str]) -> None:
    Path("known.csv").write_text("item,label\nq1,yes\nq9,no\n")
    assert run(["aggregate", "answers.csv", "--gold", "known.csv", "-o", "labels.csv"]) == 0
    assert "known.csv (--gold): 1 of 2 items have no answers" in capfd.readouterr().err
    Path("known.csv").write_text("item,label\nq1,Yes\nq2,No\nq3,yes\n")
    assert run(["aggregate", "answers.csv", "--truth", "known.csv", "-o", "labels.csv"]) == 0
    said = "known.csv (--truth): item 'q1' is 'Yes', which no worker answered (2 such items)"
    assert said in capfd.readouterr().err


def test_who_chose_a_rule_for_contradictions_is_not_warned(
    capfd: pytest.CaptureFixture[str],
) -> None:
    write([("a", "1", "x"), ("a", "1", "y"), ("b", "1", "x"), ("b", "2", "y")], "odd.csv")
    words = ["aggregate", "odd.csv", "-o", "labels.csv", "--fail-if", "warnings>0"]
    assert run(words) == 3
    assert run([*words, "--duplicates", "last"]) == 0
    assert manifest()["options"]["duplicates"] == "last"


def test_verbose_sums_up_on_stderr(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["aggregate", "answers.csv", "-o", "labels.csv", "-v"]) == 0
    out, err = capfd.readouterr()
    assert out == ""
    for text in ("10 by 3 workers on 4 items in 2 classes", "converged after", "labels.run.json"):
        assert text in err


def test_columns_by_name_position_and_several_files() -> None:
    Path("one.tsv").write_text("who\twhat\tsaid\nann\tq1\tyes\nbob\tq1\tyes\n")
    Path("two.tsv").write_text("who\twhat\tsaid\nann\tq2\tno\n")
    words = ["--worker-col", "who", "--item-col", "what", "--label-col", "3", "-q"]
    assert run(["aggregate", "one.tsv", "two.tsv", *words, "-o", "labels.tsv"]) == 0
    assert Path("labels.tsv").read_text().splitlines()[0] == "item\tlabel\tconfidence"
    assert manifest()["counts"]["rows"] == 3
    assert len(manifest()["inputs"]) == 2


@pytest.mark.filterwarnings("default::misc_cli.errors.ConvergenceWarning")
def test_a_completer_runs_and_the_manifest_says_how() -> None:
    write(crowd(), "crowd.csv")
    words = ["--completer", "tucker", "--ranks", "2,4,3", "--passes", "2", "--slice", "hard", "-q"]
    assert run(["aggregate", "crowd.csv", *words, "-o", "labels.csv"]) == 0
    found = manifest()
    assert found["methods"]["completer"]["ranks"] == [2, 4, 3]
    assert found["loop"]["settings"]["passes"] == 2
    assert found["loop"]["settings"]["slice"] == "hard"
    assert found["loop"]["passes"] <= 2
    confidences = np.array([float(row["confidence"]) for row in rows("labels.csv")])
    assert ((confidences > 1 / 3) & (confidences <= 1)).all()
