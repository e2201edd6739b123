"""Help in layers, names that others use, and hints at what was meant."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from misc_cli import registry
from misc_cli.__main__ import run
from misc_cli.cli import COMMANDS, GROUPS, aggregate
from misc_cli.data.parameters import parameters_of
from misc_cli.run.settings import Settings
from misc_cli.version import __version__

ANSWERS = "worker,item,label\na,1,x\nb,1,x\na,2,y\nb,2,x\nc,1,x\nc,2,y\n"


def shown(*words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "misc_cli", *words],
        capture_output=True,
        text=True,
        check=True,
        env={"COLUMNS": "80", "PATH": ""},
    )
    return done.stdout


@pytest.mark.parametrize("name", ["aggregate", "report", "workers", "items", "queue", "compare"])
def test_the_help_of_a_command_fits_two_screens(name: str) -> None:
    brief, whole = shown(name, "--help"), shown(name, "--help-all")
    assert len(brief.splitlines()) <= 80
    assert max(map(len, brief.splitlines())) <= 80
    assert f"misc {name} --help-all has all flags" in brief
    assert "Examples:" in brief
    assert "-p quotes-span-lines=yes" in whole
    assert "quotes-span-lines" not in brief
    assert shown("help", name) == brief


# Flags that scripts rely on.
KEPT = (
    *("preset", "completer", "aggregator", "fast", "ranks", "initial-rank", "cp-rank", "passes"),
    *("sweeps", "slice", "final", "tol", "max-iter", "calibrate", "seed", "threads"),
    *("time-budget", "worker-col", "item-col", "label-col", "question", "each-question", "where"),
    *("no-answer", "duplicates", "class-order", "truth", "gold", "fail-if", "probabilities"),
    *("item-details", "workers", "report", "changes", "rejects", "diagnostics", "state", "engine"),
    *("scheduler", "config", "output", "quiet", "verbose"),
)


def test_aggregate_has_at_most_80_flags() -> None:
    """Parameters of one method and limits of reading are set by -p."""
    command = aggregate.command
    flags = {flag for one in command.params if not getattr(one, "rare", 0) for flag in one.opts}
    assert sum(not getattr(one, "rare", 0) for one in command.params) <= 80
    assert {f"--{name}" for name in KEPT} <= flags


def test_commands_are_grouped_and_version_has_three_names() -> None:
    text = shown("help")
    assert text == shown("--help")
    places = [text.index(f"{title}:") for title in GROUPS.values()]
    assert places == sorted(places)
    assert all(f"  {name} " in text for name in COMMANDS)
    for words in (["--version"], ["-V"], ["version"]):
        assert shown(*words) == f"misc {__version__}\n"


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind in registry.KINDS for name in registry.OWN[kind]]
)
def test_a_method_is_explained_with_its_own_parameters(kind: str, name: str) -> None:
    text = " ".join(shown("help", name.upper()).split())
    own = parameters_of(registry.load(kind, name))
    assert text.startswith(f"{name}, {kind}. ")
    for one, parameter in own.items():
        assert one == "seed" or f"{one.replace('_', '-')}" in text
        assert parameter.help in text
    others = {
        flag
        for k in registry.KINDS
        for n in registry.OWN[k]
        for flag in parameters_of(registry.load(k, n))
    } - own.keys()
    assert not any(f"p {one.replace('_', '-')}=" in text for one in others)
    assert ("Reference:" in text) == (name != "mv")


def test_topics_are_explained() -> None:
    assert "three standard errors" in shown("help", "auto")
    assert "-p quotes-span-lines=yes" in shown("help", "reading")
    assert "--scheduler" in shown("help", "engines")
    assert "new-items" in shown("help", "gates")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("majority", "mv"),
        ("MV", "mv"),
        ("dawid-skene", "ds-em"),
        ("Dawid_Skene", "ds-em"),
        ("ds", "ds-em"),
        ("DS-EM", "ds-em"),
        ("Auto", "auto"),
        ("my-own", "my-own"),
    ],
)
def test_methods_are_known_by_the_names_of_others(typed: str, meant: str) -> None:
    assert Settings(aggregator=typed).aggregator == meant


# What is typed after `misc`, and what the one line on stderr must hold.
HINTS = {
    "aggregate answers.csv --method mv": "No such option --method; did you mean --aggregator?",
    "aggregate answers.csv --out x": "No such option --out; did you mean --output?",
    "aggregate answers.csv --seeed 3": "No such option --seeed; did you mean --seed?",
    "workers answers.csv --budget 3": "No such option --budget; did you mean --top?",
    "aggregate answers.csv --aggregator ds-emm": "did you mean ds-em or ds-mf? There are auto",
    "aggregate answers.csv --aggregator glad": "no aggregator is called 'glad'; there are auto",
    "aggregate answers.csv -p subtypse=3": "No such option --subtypse; did you mean --subtypes",
    "aggregate answers.csv -p xyz=3": "No such option --xyz",
    "aggregate answers.csv -p subtypes=x": "'--subtypes': 'x' is not a whole number",
    "aggregate answers.csv --aggregator ds-em -p subtypes=3": "--subtypes does not apply here",
    "aggregate answers.csv --seed abc": "'--seed': 'abc' is not a whole number",
    "aggregate answers.csv --shrinkage lots": "'--shrinkage': 'lots' is not a number",
    "queue answers.csv --price nan": "'--price': 'nan' is not a number",
    "aggregate answer.csv": "answer.csv: no such file; did you mean answers.csv?",
    "workers label.run.json": "did you mean labels.run.json?",
    "aggregate answers.csv --worker-col wroker": "among worker, item, label; did you mean worker?",
    "aggregate answers.csv --delimiter ;": "one column; set --delimiter",
    "aggregate only.csv": "only one row (w, i, l); if it is a header, there are no answers",
    "aggregate answers.csv --completer tucker --fast --ranks 9,1,9": "R1 = 9 is too large; 3 wor",
    "aggregate folder": "folder/broken.json, line 2: not JSON",
    "aggregat": "did you mean aggregate?",
    "help tuker": "did you mean tucker?",
}


@pytest.mark.parametrize("typed", HINTS)
def test_a_wrong_word_gets_the_right_hint(
    typed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("answers.csv").write_text(ANSWERS)
    Path("labels.run.json").write_text("{}")
    Path("only.csv").write_text("w,i,l\n")
    Path("folder").mkdir()
    Path("folder", "broken.json").write_text('{"x":\n')
    assert run(typed.split()) == 2
    said = capfd.readouterr().err
    assert HINTS[typed] in said
    assert said.count("(see ") <= 1
    assert typed != "aggregate folder" or "to leave this file out, name the others" in said


def test_a_pair_is_one_pair(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Two workers in four who always agree, also where they are wrong."""
    draw = Random(4)
    rows = ["worker,item,label"]
    for item in range(300):
        said = [(item + (draw.random() < 0.3)) % 3 for _ in range(3)]
        pairs = zip("abcd", [said[0], *said], strict=True)
        rows += [f"{who},i{item},{label}" for who, label in pairs]
    (tmp_path / "a.csv").write_text("\n".join(rows) + "\n")
    assert run(["aggregate", str(tmp_path / "a.csv"), "--aggregator", "mv"]) == 0
    assert "workers err together (1 pair):" in capfd.readouterr().err


def test_every_parameter_of_a_method_has_help() -> None:
    for kind in registry.KINDS:
        for name in registry.OWN[kind]:
            declared = parameters_of(registry.load(kind, name))
            assert all(one.help for key, one in declared.items() if key != "seed")
