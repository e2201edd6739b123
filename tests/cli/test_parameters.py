"""A parameter is declared once, in its field; its flag, help and checks are read from there."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

import misc_cli
from misc_cli import registry
from misc_cli.__main__ import run
from misc_cli.aggregators.methods import MajorityVote
from misc_cli.cli import aggregate
from misc_cli.cli.parameters import FLAGS, method_options
from misc_cli.cli.settings import key_of
from misc_cli.completers.parameters import Loop
from misc_cli.data.parameters import COUNT, Parameter, parameter, parameters_of
from misc_cli.errors import ConfigError, python_words
from misc_cli.run.settings import Settings, build

METHODS = [(kind, name) for kind in registry.KINDS for name in registry.OWN[kind]]
ANSWERS = "worker,item,label\na,1,x\nb,1,x\na,2,y\nb,2,x\n"


def declared() -> dict[str, list[Parameter]]:
    found: dict[str, list[Parameter]] = {}
    records = [registry.load(kind, name) for kind, name in METHODS]
    for record in [*records, Loop]:
        for name, described in parameters_of(record).items():
            if name != "seed":
                found.setdefault(name.replace("_", "-"), []).append(described)
    return found


def test_every_parameter_of_every_method_is_a_flag_with_help() -> None:
    assert list(declared()) == [key_of(option) for option in method_options()]
    for name, parameters in declared().items():
        assert all(described.help for described in parameters), name


def test_methods_that_share_a_flag_mean_the_same_by_it() -> None:
    for name, parameters in declared().items():
        assert len(set(parameters)) == 1, name


def test_the_help_says_the_defaults_that_a_run_has() -> None:
    said = {
        key_of(one): str(one.help).rpartition("[default: ")[2].strip("]")
        for one in method_options()
    }
    assert said["tol"] == "0.001; mmce-c, mmce-o 0.005"
    assert said["max-iter"] == "100; ebcc 500"
    assert said["class-prior"] == "estimated; one-coin uniform"
    assert said["ranks"] == "hidden answers choose"
    assert said["lrtc-weights"] == "1,1,1"


OF_SETTINGS = ("completer", "seed", "threads")


def _as_settings(options: dict[str, object]) -> dict[str, Any]:
    """Return options as the fields of Settings that the command line makes of flags."""
    own = {name: options[name] for name in OF_SETTINGS if name in options}
    return {**own, "options": {name: v for name, v in options.items() if name not in OF_SETTINGS}}


def in_python(place: str, **options: Any) -> None:
    """Aggregate as a user of Python does: parameters of methods are those of their classes."""
    own = {name: options.pop(name) for name in OF_SETTINGS[1:] if name in options}
    if options.pop("completer", None):
        passes = {name: options.pop(name) for name in ("passes",) if name in options}
        own |= {"completer": misc_cli.Tucker(**options), "loop": misc_cli.Loop(**passes)}
        options = {}
    misc_cli.aggregate(place, aggregator=misc_cli.DawidSkene(**options), **own)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tol": -1.0}, "--tol -1.0: give a number from 0"),
        ({"max_iter": 0}, "--max-iter 0: give a whole number from 1"),
        ({"max_iter": 2.5}, "--max-iter 2.5: give a whole number from 1"),
        ({"tol": float("nan")}, "--tol nan: give a number from 0"),
        ({"class_prior": "flat"}, "--class-prior flat: choose estimated or uniform"),
        ({"completer": "tucker", "ranks": (2, 2)}, "--ranks (2, 2): give 3 numbers, each a whole"),
        (
            {"completer": "tucker", "ranks": (2, 0, 2)},
            "--ranks (2, 0, 2): give 3 numbers, each a whole",
        ),
        ({"completer": "tucker", "ranks": (2, 3, 2), "passes": 2**31}, "from 1 to 10000"),
        ({"seed": -1}, "--seed -1: give a whole number from 0"),
        ({"threads": 2**31}, "--threads 2147483648: give a whole number from 1 to 1024"),
    ],
)
def test_python_and_the_command_line_refuse_the_same_each_in_its_words(
    options: dict[str, object], message: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "answers.csv"
    place.write_text(ANSWERS)
    with pytest.raises(ConfigError) as refused:
        build(Settings(aggregator="ds-em", **_as_settings(options)))
    assert message in str(refused.value)
    with pytest.raises(ConfigError) as refused:
        in_python(str(place), **options)
    assert python_words(message) in str(refused.value)
    words = ["--aggregator", "ds-em"]
    for name, value in options.items():
        text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
        key = name.replace("_", "-")
        words += [f"--{key}", text] if key in {*FLAGS, *OF_SETTINGS} else ["-p", f"{key}={text}"]
    assert run(["aggregate", str(place), *words]) == 2
    assert f"--{list(options)[-1].replace('_', '-')}" in capfd.readouterr().err


@dataclasses.dataclass(frozen=True)
class Patient(MajorityVote):
    """Another package's method, with a parameter of its own and one that declares nothing."""

    patience: int = parameter(7, "How long it waits.", COUNT)
    mildness: float = 0.5


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A file of answers, where another package has added methods."""
    points = {
        "patient": EntryPoint("patient", f"{__name__}:Patient", "misc_cli.aggregators"),
        "broken": EntryPoint("broken", "no_such_module:Thing", "misc_cli.aggregators"),
        "odd": EntryPoint("odd", f"{__name__}:ANSWERS", "misc_cli.aggregators"),
    }
    found = {"aggregator": points, "completer": {}}
    monkeypatch.setattr(registry, "_plugins", found.__getitem__)
    own = [copy.copy(parameter) for parameter in aggregate.command.params]  # their help changes
    monkeypatch.setattr(aggregate.command, "params", own)
    method_options.cache_clear()
    (tmp_path / "answers.csv").write_text(ANSWERS)
    yield str(tmp_path / "answers.csv")
    method_options.cache_clear()


def test_a_plugins_methods_are_in_the_help_and_p_sets_its_parameters(
    place: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["help", "patient"]) == 0
    said = " ".join(capfd.readouterr().out.split())
    assert "-p patience=N How long it waits. [default: 7]" in said
    assert "-p mildness=X" in said
    words = ["aggregate", place, "--aggregator", "patient"]
    assert run([*words, "-p", "patience=3", "-p", "mildness=0.25"]) == 0
    assert run([*words, "-p", "patience=0"]) == 2
    assert "--patience 0: give a whole number from 1" in capfd.readouterr().err


def test_a_plugin_that_cannot_be_used_is_named(
    place: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["aggregate", place, "--aggregator", "broken"]) == 2
    assert "aggregator 'broken' cannot be loaded (ModuleNotFoundError" in capfd.readouterr().err
    assert run(["aggregate", place, "--aggregator", "odd"]) == 2
    assert "not a dataclass" in capfd.readouterr().err
