"""Imports point one way, and a command loads no more than it needs: by listing, not by timing."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from misc_cli import registry

PACKAGE = Path(__file__).resolve().parent.parent / "misc_cli"
NUMERIC = {"numpy", "scipy", "pandas", "pyarrow"}

# What each room may import besides itself, even inside a function: the flow of the design, one way.
# `errors`, `cleanup`, `redaction`, `version` are everybody's. A room must be listed here.
METHODS = {"data", "engines", "aggregators", "completers"}
FITTING = {*METHODS, "quality", "selection", "registry"}
ROOMS: dict[str, set[str]] = {
    "data": set(),
    "registry": {"data"},
    "readers": {"data"},
    "engines": {"data", "readers"},
    "aggregators": {"data", "engines"},
    "quality": {"data", "engines", "aggregators"},
    "completers": {"data", "engines", "aggregators"},
    "selection": {*METHODS, "quality", "registry"},
    "run": {*FITTING, "readers"},
    "simulate": {"data"},
    "writers": {"data", "engines", "run", "readers"},
    "state": {"data", "engines", "quality", "registry", "run", "selection", "writers"},
    "report": {*FITTING, "run", "readers", "writers"},
    "results": {*FITTING, "run", "readers", "report", "writers", "arguments"},
    "arguments": {"data", "readers", "run"},
    "estimators": {"aggregators", "api", "arguments", "results"},
    "paper": {*FITTING, "run", "readers", "writers"},
    "job": {*FITTING, "run", "readers", "report", "state", "writers"},
    "api": {
        *FITTING,
        *("run", "readers", "report", "state", "writers", "job", "simulate"),
        *("arguments", "results"),
    },
    "cli": {
        *FITTING,
        "run",
        "readers",
        "report",
        "state",
        "writers",
        "paper",
        "simulate",
        "api",
        "job",
    },
    "spark": {*METHODS, "quality", "run", "selection"},
    "__main__": {"cli", "writers"},
    "__init__": set(),
}
EVERYBODYS = {"errors", "cleanup", "redaction", "version"}
# Modules outside `cli` that a command's help may load: nothing numeric at their top.
LAZY = [
    "__init__",
    "__main__",
    "errors",
    "cleanup",
    "version",
    "data/__init__",
    "data/parameters",
    "data/solver",
    "aggregators/__init__",
    "completers/__init__",
    "completers/parameters",
    "run/__init__",
    "registry",
    "run/settings",
    "run/fail_if",
]


def imported(path: Path, *, top_level: bool = False) -> Iterator[str]:
    """Modules that a file imports; not those it imports for the type checker alone."""
    tree = ast.parse(path.read_text())
    skipped = {
        id(child)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for child in ast.walk(node)
    }
    nodes = tree.body if top_level else list(ast.walk(tree))
    for node in nodes:
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def room_of(module: str) -> str:
    """The room of a module "misc_cli.run.pipeline", or of a name in the package itself."""
    return module.split(".")[1]


def rooms_on_disk() -> set[str]:
    """Every folder with code and every loose module of the package."""
    folders = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    return folders | {path.stem for path in PACKAGE.glob("*.py")}


def files_of(room: str) -> list[Path]:
    folder = PACKAGE / room
    return sorted(folder.rglob("*.py")) if folder.is_dir() else [PACKAGE / f"{room}.py"]


def test_no_room_is_left_out() -> None:
    assert rooms_on_disk() == {*ROOMS, *EVERYBODYS}


@pytest.mark.parametrize("room", ROOMS)
def test_imports_point_one_way(room: str) -> None:
    allowed = {room, *ROOMS[room], *EVERYBODYS}
    for path in files_of(room):
        found = {room_of(name) for name in imported(path) if name.startswith("misc_cli.")}
        assert found & rooms_on_disk() <= allowed, path


def test_every_room_says_what_it_is_for() -> None:
    for path in PACKAGE.rglob("__init__.py"):
        assert ast.get_docstring(ast.parse(path.read_text())), path


def test_the_command_line_has_nothing_numeric_at_its_top() -> None:
    files = [*(PACKAGE / "cli").glob("*.py"), *(PACKAGE / f"{name}.py" for name in LAZY)]
    targets = (*registry.AGGREGATORS.values(), *registry.COMPLETERS.values())
    records = [PACKAGE.parent / target.partition(":")[0].replace(".", "/") for target in targets]
    records = [path / "__init__.py" if path.is_dir() else Path(f"{path}.py") for path in records]
    for path in [*files, *records]:
        tops = {name.split(".")[0] for name in imported(path, top_level=True)}
        assert not tops & NUMERIC, path


def loaded_by(*words: str, whole_names: bool = False) -> set[str]:
    """Packages (or all modules) in memory after a command, in a process of its own."""
    script = (
        "import sys\n"
        "from misc_cli.__main__ import main\n"
        "try:\n    main(sys.argv[1:])\n"
        "except SystemExit as ending:\n    assert not ending.code, ending.code\n"
        "print(*sys.modules, file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *words],
        capture_output=True,
        text=True,
        check=True,
        cwd=PACKAGE.parent,
    )
    names = done.stderr.split()
    return set(names) if whole_names else {name.split(".")[0] for name in names}


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["aggregate", "--help"]])
def test_help_loads_nothing_numeric(words: list[str]) -> None:
    assert not loaded_by(*words) & NUMERIC


def test_nothing_is_loaded_before_an_interrupt_is_caught() -> None:
    script = "import sys, misc_cli.__main__\nprint(*sys.modules)"
    command = [sys.executable, "-S", "-c", script]  # without what an environment's .pth files load
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=PACKAGE.parent)
    assert not set(done.stdout.split()) & {"typing", "signal", "click", "collections.abc"}


def test_every_commands_help_loads_nothing_numeric() -> None:
    from misc_cli.cli import COMMANDS

    for name in COMMANDS:
        assert not loaded_by(name, "--help") & NUMERIC, name


def test_the_list_of_commands_loads_none_of_them() -> None:
    from misc_cli.cli import COMMANDS

    assert loaded_by("--help", whole_names=True).isdisjoint(
        f"misc_cli.cli.{target.partition(':')[0]}" for target, _ in COMMANDS.values()
    )


def test_a_plain_run_loads_no_pandas(tmp_path: Path) -> None:
    answers = tmp_path / "answers.csv"
    answers.write_text("worker,item,label\na,1,x\nb,1,x\na,2,y\nb,2,y\n")
    loaded = loaded_by("aggregate", str(answers), "-o", str(tmp_path / "labels.csv"))
    assert {"numpy", "scipy", "pyarrow"} <= loaded
    assert "pandas" not in loaded


def test_a_public_name_is_its_function_however_it_is_imported() -> None:
    script = (
        "import misc_cli\n"
        "assert misc_cli.aggregate.__name__ == 'aggregate'\n"
        "from misc_cli import aggregate as a, read_answers, Result\n"
        "assert callable(a) and a is misc_cli.aggregate\n"
        "import misc_cli.report.page, misc_cli.simulate\n"
        "assert misc_cli.report.__name__ == 'report' and callable(misc_cli.simulate)\n"
        "from misc_cli import report; assert callable(report)\n"
        "assert set(dir(misc_cli)) >= {'aggregate', 'compare', 'queue', 'DawidSkene'}\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, cwd=PACKAGE.parent)


@pytest.mark.parametrize("name", ["mv", "ds-em"])
def test_a_run_loads_its_own_method_and_no_other(name: str, tmp_path: Path) -> None:
    """The import budget of docs/performance.md."""
    answers = tmp_path / "answers.csv"
    answers.write_text("worker,item,label\na,1,x\nb,1,x\na,2,y\nb,2,y\n")
    options = ("--aggregator", name, "-o", str(tmp_path / "labels.csv"))
    loaded = loaded_by("aggregate", str(answers), *options, whole_names=True)
    # the records of all methods are light and loaded for their flags; the algebra is not
    algebra = {
        "misc_cli.aggregators.confusion_kernels",
        "misc_cli.aggregators.ebcc.fit",
        "misc_cli.aggregators.minimax.fit",
        "misc_cli.completers.tucker",
        "misc_cli.completers.tenals",
        "misc_cli.completers.lrtc",
    }
    assert loaded & algebra == {"misc_cli.aggregators.confusion_kernels"}
    bare = subprocess.run(
        [sys.executable, "-c", "import scipy.sparse, sys; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert public_parts_of_scipy(loaded) == public_parts_of_scipy(bare.stdout.split())


def public_parts_of_scipy(modules: Iterable[str]) -> set[str]:
    parts = {name.split(".")[1] for name in modules if name.startswith("scipy.")}
    return {part for part in parts if not part.startswith("_")}
