"""`misc workers`, `misc items`, `misc queue`: on a screen, in a pipe, in a file."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pandas as pd
import pytest

from misc_cli.__main__ import run
from misc_cli.cli.console import columns_of
from misc_cli.cli.tables import Table, plain
from misc_cli.simulate import Simulation, answer_columns, simulate
from tests.cli.conftest import on_screen
from tests.report.crowds import answers

EM = ["--aggregator", "ds-em"]


@pytest.fixture(scope="module")
def batch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run on the ids of a platform: 14 letters a worker, 30 an item."""
    folder = tmp_path_factory.mktemp("batch")
    mix = {"honest": 0.75, "spammers": 0.1, "constants": 0.05, "copiers": 0.1}
    crowd = simulate(Simulation(workers=60, items=500, classes=4, mix=mix, seed=1))
    columns = {name: column.to_pylist() for name, column in answer_columns(crowd).items()}
    table = pd.DataFrame(columns)
    table["worker"] = "A" + table["worker"].str[1:].str.zfill(13)
    table["item"] = "3" + table["item"].str[1:].str.zfill(29)
    table.to_csv(folder / "answers.csv", index=False)
    words = [*EM, "--probabilities", "--workers", str(folder / "workers.csv")]
    output = str(folder / "labels.csv")
    assert run(["aggregate", str(folder / "answers.csv"), *words, "-o", output]) == 0
    return folder


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("name", ["workers", "items", "queue"])
def test_a_row_is_a_line_with_its_id_whole(batch: Path, name: str, columns: int) -> None:
    shown = on_screen(name, "labels.run.json", "--top", "40", columns=columns, folder=batch)
    assert shown.code == 0
    header, *rows = shown.lines
    assert len(rows) == 40
    assert max(map(columns_of, shown.lines)) <= columns
    known = set(pd.read_csv(batch / "answers.csv", dtype=str)[header.split()[0]])
    assert {row.split()[0] for row in rows} <= known
    assert not any("…" in line for line in shown.lines)
    assert f"40 of {'60 workers' if name == 'workers' else ''}" in shown.stderr


def test_a_worker_has_a_verdict_its_accuracy_and_why(batch: Path) -> None:
    shown = on_screen("workers", "labels.run.json", "--top", "60", folder=batch)
    assert shown.lines[0].split() == ["worker", "verdict", "answers", "accuracy", "why"]
    rows = {line.split()[0]: line for line in shown.lines[1:]}
    written = pd.read_csv(batch / "workers.csv", dtype=str, keep_default_na=False)
    spammer = written[written["verdict"] == "spammer"].iloc[0]
    low, mean, high = (float(spammer[f"accuracy{end}"]) for end in ("_low", "", "_high"))
    assert f"spammer  {spammer['answers']:>8}" in rows[spammer["worker"]]
    assert f"{mean:.2f} ({low:.2f}–{high:.2f})  no better than guessing" in rows[spammer["worker"]]
    constant = written[written["verdict"].str.startswith("always says")].iloc[0]
    assert rows[constant["worker"]].endswith(constant["verdict"])
    copy = written[written["verdict"].str.startswith("copies")].iloc[0]
    assert rows[copy["worker"]].endswith(f"copies {copy['alike']}")
    assert "no room for agreement, information, alike, likeness" in shown.stderr


def test_all_columns_are_shown_when_asked_for(batch: Path) -> None:
    shown = on_screen("workers", "labels.run.json", "--all-columns", "--top", "1", folder=batch)
    written = pd.read_csv(batch / "workers.csv")
    assert set(shown.lines[0].split()) == {*written.columns, "effective_votes", "changes"}


def test_a_list_that_is_piped_is_csv_and_nothing_else(
    batch: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run_file = str(batch / "labels.run.json")
    for name, n_rows in (("workers", 60), ("items", 500)):
        assert run([name, run_file]) == 0
        table = pd.read_csv(io.StringIO(capfd.readouterr().out))
        assert len(table) == n_rows
        assert not any(str(column).startswith("true_") for column in table)
    assert run(["workers", run_file, "--verdict", "spammer,constant"]) == 0
    rows = list(csv.DictReader(io.StringIO(capfd.readouterr().out)))
    written = pd.read_csv(batch / "workers.csv", dtype=str, keep_default_na=False)
    wanted = written["verdict"].str.startswith(("spammer", "always says"))
    assert {row["worker"] for row in rows} == set(written["worker"][wanted])
    assert run(["items", run_file, "--below", "80%", "--top", "9"]) == 0
    sure = [float(row["confidence"]) for row in csv.DictReader(io.StringIO(capfd.readouterr().out))]
    labels = pd.read_csv(batch / "labels.csv")["confidence"]
    assert sure == sorted(labels[labels < 0.8])[:9]


def test_files_have_the_format_of_their_name(
    batch: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run_file = str(batch / "labels.run.json")
    found = {}
    for name in ("w.csv", "w.tsv", "w.json", "w.parquet"):
        assert run(["workers", run_file, "--top", "5", "-o", str(tmp_path / name)]) == 0
    found["w.csv"] = pd.read_csv(tmp_path / "w.csv")
    found["w.tsv"] = pd.read_csv(tmp_path / "w.tsv", sep="\t")
    found["w.parquet"] = pd.read_parquet(tmp_path / "w.parquet")
    found["w.json"] = pd.DataFrame(json.loads((tmp_path / "w.json").read_text())["workers"])
    for table in found.values():
        assert list(table["worker"]) == list(found["w.csv"]["worker"])
        assert len(table) == 5
    assert run(["items", run_file, "--json", "--top", "3"]) == 0
    assert len(json.loads(capfd.readouterr().out)["items"]) == 3
    assert run(["queue", run_file, "-o", str(tmp_path / "q.pdf")]) == 2
    assert ".csv or .tsv" in capfd.readouterr().err


def test_wrong_columns_verdicts_and_shares_are_told(
    batch: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run_file = str(batch / "labels.run.json")
    for words, said in {
        ("workers", "--verdict", "spamer"): "--verdict spamer: no such verdict; did you mean spam",
        ("workers", "--below", "lots"): "'lots' is not a share such as 0.8 or 80%",
    }.items():
        assert run([words[0], run_file, *words[1:]]) == 2
        assert said in capfd.readouterr().err


def test_a_new_run_takes_what_is_set_for_aggregate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    answers().to_csv("answers.csv", index=False)
    Path("own.toml").write_text('[aggregate]\naggregator = "mv"\nlabel-col = "label"\n')
    found = {}
    for name, words in {
        "set": ["--config", "own.toml"],
        "mv": ["--aggregator", "mv"],
        "over": ["--config", "own.toml", *EM],
        "em": EM,
    }.items():
        assert run(["items", "answers.csv", *words]) == 0
        found[name] = capfd.readouterr().out
    assert found["set"] == found["mv"] != found["em"] == found["over"]


def test_hostile_names_cannot_steer_a_terminal(tmp_path: Path) -> None:
    answers(hostile=True).to_csv(tmp_path / "odd.csv", index=False)
    for table in ("workers", "items"):
        shown = on_screen(table, "odd.csv", *EM, "--top", "500", columns=200, folder=tmp_path)
        text = "\n".join(shown.lines)
        assert not {"\x1b", "\x07", "\u202e"} & set(text)
        assert r"\x1b[31mred" in text


def test_columns_give_way_in_turn_and_no_cell_is_cut() -> None:
    rows = [["anna", "spammer", "1,024"], ["李小龍", "fine", "7"]]
    table = Table("", ["who", "verdict", "answers"], rows, texts=["verdict"], spare=["answers"])
    assert plain([table]) == (
        "who     verdict  answers\nanna    spammer    1,024\n李小龍  fine           7\n"
    )
    assert plain([table], 24) == plain([table])
    assert plain([table], 23) == "who     verdict\nanna    spammer\n李小龍  fine\n"
    assert plain([table], 3) == plain([table], 23)
    fact = Table("", rows=[("path", "one two three four five six"), ("x", "y")])
    assert plain([fact], 26) == "path  one two three four\n      five six\nx     y\n"


def test_the_queue_says_what_asking_buys_and_what_a_person_must_decide(
    batch: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ["queue", str(batch / "labels.run.json"), "--price", "0.03", "--reach", "99%"]
    assert run([*words, "--top", "50"]) == 0
    out, err = capfd.readouterr()
    rows = pd.read_csv(io.StringIO(out))
    assert len(rows) == 50
    assert rows["gain_once"].is_monotonic_decreasing
    doubts = 1 - pd.read_csv(batch / "labels.csv")["confidence"]
    now, then = 100 * doubts.mean(), 100 * (doubts.sum() - rows["gain_once"].sum()) / len(doubts)
    said = f"50 items once more: 1.50 $, expected error {now:.1f} → {then:.1f} %"
    assert err.splitlines()[0] == f"misc: {said}"
    assert "another answer no longer pays" in err
    left = doubts.sum() - doubts.sort_values(ascending=False).cumsum()
    number = 1 + int((left > 0.01 * len(doubts)).sum())
    assert f"99 % right: a person must decide {number} of 500 items" in err
