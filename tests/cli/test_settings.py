"""One file of settings, variables, and what wins."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest

from misc_cli.__main__ import run
from misc_cli.cli import COMMANDS, misc, settings
from tests.conftest import REPO

ANSWERS = REPO / "sample_data" / "answers.csv"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def settings_of(path: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads(path.read_text())["options"]
    return found


def test_flags_win_over_variables_over_the_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MISC_CONFIG", "misc.toml")
    (folder / "misc.toml").write_text(
        'seed = 1\n[aggregate]\naggregator = "ds-em"\nprobabilities = true\noutput = "labels.csv"\n'
        'class_order = ["fox", "dog", "cat", "bird"]\nfail-if = "items<1"\n'
        f'answers = "{ANSWERS}"\n[compare]\nseed = 9\n'
    )
    assert run(["aggregate"]) == 0
    assert settings_of(folder / "labels.run.json")["seed"] == 1
    header = (folder / "labels.csv").read_text().splitlines()[0]
    assert header == "item,label,confidence,p_fox,p_dog,p_cat,p_bird"
    monkeypatch.setenv("MISC_AGGREGATE_SEED", "3")
    assert run(["aggregate"]) == 0
    assert settings_of(folder / "labels.run.json")["seed"] == 3
    assert run(["aggregate", "--seed", "4"]) == 0
    assert settings_of(folder / "labels.run.json")["seed"] == 4


def test_ranks_come_from_a_file_and_from_a_variable(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def parsed() -> dict[str, object]:
        root = click.Context(misc, info_name="misc", auto_envvar_prefix="MISC")
        context = command("aggregate").make_context("aggregate", ["answers.csv"], parent=root)
        return {name: context.params[name] for name in ("ranks", "passes")}

    (folder / "misc.toml").write_text("[aggregate]\nranks = [3, 6, 4]\npasses = 2\n")
    assert parsed() == {"ranks": (3, 6, 4), "passes": 2}
    monkeypatch.setenv("MISC_AGGREGATE_RANKS", "5,8,3")
    assert parsed()["ranks"] == (5, 8, 3)


def test_verbose_says_in_one_line_where_settings_are_from(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    text = 'seed = 7\n[aggregate]\nfail-if = ["ties<0", "items<1"]\n'
    (folder / "misc.toml").write_text(text)
    monkeypatch.setenv("MISC_AGGREGATE_AGGREGATOR", "mv")
    words = ["aggregate", str(ANSWERS), "-o", "labels.csv", "--preset", "paper"]
    assert run([*words, "--verbose"]) == 0
    said = capfd.readouterr().err.splitlines()
    settings = [line for line in said if line.startswith("misc: settings: ")]
    assert settings == [
        "misc: settings: aggregator from MISC_AGGREGATE_AGGREGATOR; seed, fail-if from misc.toml"
    ]
    assert run(words) == 0
    assert "settings" not in capfd.readouterr().err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("agregator = 'mv'", "misc.toml: no flag is called agregator; did you mean aggregator"),
        ("[agregate]\nseed = 1", "[agregate] is no command; did you mean aggregate?"),
        ("[aggregate]\nsede = 1", "no flag is called sede in [aggregate]; did you mean seed"),
        ("[aggregate]\nseed = 'x'", "(from misc.toml)"),
        ("[aggregate]\nbudget = 1", "no flag is called budget in [aggregate]"),
        ("seed = ", "misc.toml: not TOML"),
        ("seed = [1, {a = 2}]", "misc.toml: seed is no text, number, true or false, or list"),
        ("seed = 1979-05-27", "misc.toml: seed is no text"),
        ("seed = [1]\nheader = 3\nmax-input = inf", "(from misc.toml)"),
        ("header = 1e308", "(from misc.toml)"),
        ("max-input = inf", "(from misc.toml)"),
        (f"seed = {'9' * 5000}", "misc.toml: not TOML"),
        (f"seed = {'[' * 100_000}", "nested too deep"),
        (f"seed = 1 #{'x' * (1 << 20)}", "larger than 1 MiB"),
    ],
)
def test_a_mistake_in_the_file_is_an_error_that_names_it(
    content: str, message: str, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (folder / "misc.toml").write_text(content)
    assert run(["aggregate", str(ANSWERS), "--aggregator", "mv"]) == 2
    said = capfd.readouterr()
    assert message in said.err
    assert said.err.count("\n") == 1
    assert not said.out


def test_a_named_file_replaces_the_one_that_is_found(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (folder / "misc.toml").write_text("nonsense = 1")
    (folder / "night.toml").write_text("[aggregate]\naggregator = 'mv'\nquiet = true")
    assert run(["aggregate", str(ANSWERS), "--config", "night.toml"]) == 0
    monkeypatch.setenv("MISC_CONFIG", "absent.toml")
    assert run(["aggregate", str(ANSWERS)]) == 2
    assert "absent.toml: cannot be read" in capfd.readouterr().err


@pytest.mark.parametrize(
    "line",
    [
        'log-file = "victim"',
        'metrics = "victim"',
        'diagnostics = "victim"',
        'workers = "victim"',
        'output = "victim"',
        'query = "select 1"',
        'engine = "disk"',
        'scheduler = "tcp://evil:1"',
        'spill = "."',
        'state = "."',
        'gold = "/etc/passwd"',
        'answers = "http://evil/"',
    ],
)
def test_settings_of_the_current_folder_decide_nothing_about_places(
    line: str, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (folder / "victim").write_text("kept")
    file = "misc.toml"
    (folder / file).write_text(f"[aggregate]\nseed = 1\n{line}\n")
    assert run(["aggregate", str(ANSWERS), "--aggregator", "mv"]) == 2
    said = capfd.readouterr()
    key = line.partition(" ")[0]
    assert f"{file}: a file of the current folder may not set {key}," in said.err
    assert f"add --config {file}" in said.err
    assert said.err.count("\n") == 1
    assert not said.out
    assert (folder / "victim").read_text() == "kept"
    assert {path.name for path in folder.iterdir()} == {"victim", file}
    assert run(["inspect", str(ANSWERS)]) == 0  # the key is another command's


def test_the_users_own_file_may_name_places(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "home"))
    own = folder / "home" / "misc" / "misc.toml"
    own.parent.mkdir(parents=True)
    own.write_text('[aggregate]\naggregator = "mv"\noutput = "labels.csv"\n')
    assert run(["aggregate", str(ANSWERS)]) == 0
    assert (folder / "labels.csv").exists()
    monkeypatch.chdir(own.parent)
    assert run(["aggregate", str(ANSWERS)]) == 0


def test_a_relative_configuration_folder_is_not_the_users_own(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be whatever folder one stands in, a stranger's too."""
    monkeypatch.setenv("XDG_CONFIG_HOME", ".")
    (folder / "misc").mkdir()
    (folder / "misc.toml").write_text('[aggregate]\noutput = "labels.csv"\n')
    (folder / "misc" / "misc.toml").symlink_to(folder / "misc.toml")
    assert run(["aggregate", str(ANSWERS), "--aggregator", "mv"]) == 2
    (folder / "misc.toml").rename(folder / "misc" / "misc.toml")
    assert run(["aggregate", str(ANSWERS), "--aggregator", "mv"]) == 0
    assert not (folder / "labels.csv").exists()


def test_settings_without_an_end_are_refused(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["aggregate", str(ANSWERS), "--config", "/dev/zero"]) == 2
    assert "/dev/zero: no file of settings" in capfd.readouterr().err


def test_every_flag_that_names_a_place_is_known() -> None:
    """A flag of a new kind is refused in a stranger's file until somebody says otherwise."""
    refused = {
        key
        for found in map(command, COMMANDS)
        for key, parameter in settings.settable(found).items()
        if isinstance(parameter, click.Option) and not settings.is_harmless(parameter)
    }
    assert refused == {
        *("output", "workers", "report", "diagnostics", "changes", "metrics", "rejects", "state"),
        *("spill", "scheduler", "engine", "query", "gold", "truth", "log-file"),
        *("keep-rejected", "from"),
    }


def test_every_flag_of_every_command_can_be_set(folder: Path) -> None:
    """By its own name, from a file and from a variable; nothing is written twice."""
    for name in COMMANDS:
        found = command(name)
        flags = {
            flag.lstrip("-")
            for parameter in found.params
            for flag in parameter.opts
            if flag.startswith("--")
        }
        assert flags - set(settings.settable(found)) <= {"config", "help-all", "param"}, name


@pytest.mark.parametrize(
    ("words", "guess"),
    [
        (["agregate"], "did you mean aggregate?"),
        (["datasets", "fech"], "did you mean fetch?"),
        (["aggregate", "x", "--agregator", "mv"], "--aggregator"),
    ],
)
def test_did_you_mean(words: list[str], guess: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(words) == 2
    assert guess in capfd.readouterr().err


def command(name: str) -> click.Command:
    found = misc.get_command(click.Context(misc), name)
    assert found is not None
    return found
