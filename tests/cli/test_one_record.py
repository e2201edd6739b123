"""A run.json is enough to show its run and to repeat it, whatever that was told."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest

from misc_cli.__main__ import run
from misc_cli.cli import misc
from misc_cli.cli.aggregate import command as aggregate
from misc_cli.cli.options import request_from
from misc_cli.errors import ConfigError
from misc_cli.run.request import AggregateRequest
from tests.report.crowds import answers

EM = ["--aggregator", "ds-em"]
COMMANDS = ["report", "items", "workers"]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    answers().to_csv("answers.csv", index=False)


@pytest.fixture
def aggregated(monkeypatch: pytest.MonkeyPatch) -> Aggregated:
    return Aggregated(monkeypatch)


class Aggregated:
    """Calls `misc aggregate` as a shell does: run.json has the words of the command."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.monkeypatch = monkeypatch

    def __call__(self, *words: str) -> None:
        command = ["aggregate", *words, "--quiet"]
        self.monkeypatch.setattr("sys.argv", ["misc", *command])
        if run(command) != 0:
            pytest.fail(f"misc {' '.join(command)} failed, which is not the fault meant here")


@pytest.mark.parametrize("is_kept", [True, False], ids=["kept", "gone"])
@pytest.mark.parametrize("command", COMMANDS)
def test_columns_that_the_settings_file_named_are_in_the_record(
    aggregated: Aggregated, capfd: pytest.CaptureFixture[str], command: str, is_kept: bool
) -> None:
    table = answers()
    other = ["xy"[at % 2] for at in range(len(table))]
    table.assign(verdict=table["label"], label=other).to_csv("answers.csv", index=False)
    Path("misc.toml").write_text('label-col = "verdict"\n')
    aggregated("answers.csv", *EM, "-o", "labels.csv")
    if not is_kept:
        Path("misc.toml").unlink()
    capfd.readouterr()
    shown = ["-o", "page.html"] if command == "report" else ["--json"]
    assert run([command, "labels.run.json", *shown]) == 0
    out, said = capfd.readouterr()
    page = Path("page.html").read_text() if command == "report" else ""
    assert "run.json does not hold" not in said + page
    if command == "items":
        rows = json.loads(out)["items"]
        assert len(rows) == 120
        assert all({"votes", "majority"} <= row.keys() for row in rows)
        assert {row["majority"] for row in rows} == {"bird", "cat", "dog"}
        assert max(row["votes"] for row in rows) == 6
    if command == "workers":
        assert len(json.loads(out)["workers"]) == 6


def test_a_run_on_disk_can_be_repeated(
    aggregated: Aggregated, capfd: pytest.CaptureFixture[str]
) -> None:
    aggregated("answers.csv", *EM, "--engine", "disk", "-o", "labels.csv")
    recorded = Path("labels.csv").read_bytes()
    capfd.readouterr()
    assert run(["rerun", "labels.run.json", "-o", "again.csv"]) == 0
    assert "byte for byte" in capfd.readouterr().err
    assert Path("again.csv").read_bytes() == recorded


def test_a_run_of_several_questions_can_be_shown(aggregated: Aggregated) -> None:
    table = answers()
    table = table.assign(mood=table["label"], tone=table["label"].str.upper()).drop(columns="label")
    table.to_csv("two.csv", index=False)
    aggregated("two.csv", *EM, "--each-question", "-o", "out.csv")
    assert run(["report", "out.run.json", "-o", "page.html"]) == 0
    shown = "".join(path.read_text() for path in Path().glob("page*.html"))
    for word in ("mood", "tone", "bird", "BIRD"):
        assert word in shown


@pytest.mark.parametrize(
    ("flag", "value"), [("--aggregator", "mv"), ("--where", "nonsense"), ("--gold", "nofile.csv")]
)
@pytest.mark.parametrize("command", COMMANDS)
def test_flags_that_a_finished_run_cannot_heed_are_refused(
    aggregated: Aggregated, capfd: pytest.CaptureFixture[str], command: str, flag: str, value: str
) -> None:
    aggregated("answers.csv", *EM, "-o", "labels.csv")
    capfd.readouterr()
    assert run([command, "labels.run.json", flag, value]) == 2
    assert flag in capfd.readouterr().err


RUNS = {
    "local": ["answers.csv", *EM, "--probabilities", "--class-order", "dog,cat,bird"],
    "automatic": ["answers.csv", "--seed", "3"],
    "disk": ["answers.csv", *EM, "--engine", "disk", "--item-details"],
    "each": ["two.csv", "--aggregator", "one-coin", "--each-question", "--workers", "w.csv"],
    "state": ["answers.csv", *EM, "--state", "state", "--keep-settled", "-p", "settled=0.9,2"],
    "ranks": ["answers.csv", *EM, "--completer", "tucker", "--ranks", "2,3,2"],
    "reading": ["answers.csv", *EM, "--where", "item != item 0", "--rename", "dog=wolf"],
}


@pytest.mark.parametrize("name", RUNS)
def test_the_record_holds_the_request_and_repeats_it(
    aggregated: Aggregated, capfd: pytest.CaptureFixture[str], name: str
) -> None:
    """Whatever the order in which flags are looked at: the record is the request itself."""
    table = answers()
    table = table.assign(mood=table["label"], tone=table["label"].str.upper()).drop(columns="label")
    table.to_csv("two.csv", index=False)
    words = [*RUNS[name], "-o", "labels.csv"]
    aggregated(*words)
    content = json.loads(Path("labels.run.json").read_text())
    assert content["schema"] == 2
    recorded = AggregateRequest.from_json(content["request"])
    assert recorded == made_from(words)
    assert recorded.to_json() == content["request"]
    labels = {path.name: path.read_bytes() for path in Path().glob("labels*.csv")}
    capfd.readouterr()
    assert run(["rerun", "labels.run.json", "-o", "again.csv"]) == 0
    assert "byte for byte" in capfd.readouterr().err
    for path, data in labels.items():
        assert Path(path.replace("labels", "again")).read_bytes() == data


def made_from(words: list[str]) -> AggregateRequest:
    """Return the request that `misc aggregate` makes of these words."""
    root = click.Context(misc, info_name="misc")
    with aggregate.make_context("aggregate", list(words), parent=root) as context:
        given = dict(context.params)
        sources = given.pop("answers")
        return request_from(sources, given)


def test_a_request_keeps_no_secret_and_refuses_what_cannot_be() -> None:
    address = "https://user:secret@example.com/a.csv?token=abcdef"
    request = AggregateRequest((address,), gold=address)
    assert "secret" not in json.dumps(request.to_json())
    assert "abcdef" not in json.dumps(request.to_json())
    for given, said in [
        ({"engine": "disk", "rejects": "r.csv"}, "--rejects is for --engine local"),
        ({"engine": "dask", "spill": "x"}, "--spill is for --engine disk"),
        ({"settled": (0.9, 2.0)}, "--settled needs --keep-settled"),
        ({"each_question": True, "state": "s"}, "--state is for one question"),
    ]:
        with pytest.raises(ConfigError, match=said):
            AggregateRequest(("a.csv",), **given)  # type: ignore[arg-type]


def test_a_question_of_a_finished_run_can_be_picked(
    aggregated: Aggregated, capfd: pytest.CaptureFixture[str]
) -> None:
    table = answers()
    table = table.assign(mood=table["label"], tone=table["label"].str.upper()).drop(columns="label")
    table.to_csv("two.csv", index=False)
    aggregated("two.csv", *EM, "--each-question", "-o", "out.csv")
    capfd.readouterr()
    assert run(["items", "out.run.json", "--json"]) == 0
    both = json.loads(capfd.readouterr().out)["items"]
    assert {one["question"] for one in both} == {"mood", "tone"}
    assert run(["items", "out.run.json", "--json", "--question", "tone"]) == 0
    picked = json.loads(capfd.readouterr().out)["items"]
    assert picked == [one for one in both if one["question"] == "tone"]
    assert run(["queue", "out.run.json", "--question", "tone", "--top", "2"]) == 0
    assert ",BIRD," in (shown := capfd.readouterr().out) or ",CAT," in shown or ",DOG," in shown
    assert run(["queue", "out.run.json"]) == 0
    assert capfd.readouterr().out.startswith("question,item,gain")
    aggregated("answers.csv", *EM, "-o", "labels.csv")
    assert run(["items", "labels.run.json", "--question", "mood"]) == 2
    assert "--question does nothing here" in capfd.readouterr().err


def test_labels_of_a_question_never_replace_an_input(aggregated: Aggregated) -> None:
    table = answers()
    table = table.assign(mood=table["label"], tone=table["label"].str.upper()).drop(columns="label")
    table.to_csv("two.mood.csv", index=False)
    aggregated("two.mood.csv", *EM, "--each-question", "-o", "out.csv")
    before = Path("two.mood.csv").read_bytes()
    assert run(["rerun", "out.run.json", "-o", "two.csv"]) == 2
    assert Path("two.mood.csv").read_bytes() == before


def test_labels_in_parts_are_repeated_as_one_file(
    aggregated: Aggregated, capfd: pytest.CaptureFixture[str]
) -> None:
    aggregated("answers.csv", *EM, "--engine", "disk", "-o", "parts/")
    aggregated("answers.csv", *EM, "-o", "labels.csv")
    capfd.readouterr()
    assert run(["rerun", "parts/run.json", "-o", "one.csv"]) == 0
    assert "has its labels in parts" in capfd.readouterr().err
    assert Path("one.csv").read_bytes() == Path("labels.csv").read_bytes()
    assert run(["report", "parts/run.json"]) == 2
    assert "report on the answers instead" in capfd.readouterr().err
