"""Pages of docs/ that are made from the code: `python -m tests.generated` writes them anew.

A test compares them with what the code says now, so they cannot grow stale.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click

from misc_cli.cli import COMMANDS, misc
from misc_cli.cli.command import ALL_FLAGS, Group
from misc_cli.cli.parameters import SECTIONS, method_options
from misc_cli.data.parameters import flag
from misc_cli.engines.capabilities import CAPABILITIES, ENGINES, LOCAL_FLAGS, READING_FLAGS
from tests.conftest import REPO
from tests.test_imports import EVERYBODYS, PACKAGE, ROOMS, files_of, imported, room_of

DOCS = REPO / "docs"
BEGIN, END = "<!-- made by python -m tests.generated -->", "<!-- end of what is made -->"


def commands() -> str:
    """docs/commands.md: the help of every command, as it is printed."""
    parts = [
        "# Commands\n",
        "The help of every command, as `misc COMMAND --help-all` prints it. This page is made from "
        "the code\n(`python -m tests.generated`), and a test compares the two.\n",
        _help(misc, "misc"),
    ]
    context = click.Context(misc, info_name="misc")
    for name in COMMANDS:
        command = misc.get_command(context, name)
        assert command is not None
        parts.append(_help(command, f"misc {name}"))
        if isinstance(command, Group):
            inner = {word: command.get_command(context, word) for word in command.places}
            parts += [_help(one, f"misc {name} {word}") for word, one in inner.items() if one]
    return "\n".join(parts)


def _help(command: click.Command, path: str) -> str:
    context = click.Context(
        command,
        info_name=path,
        terminal_width=100,
        max_content_width=100,
        help_option_names=["-h", "--help"],
    )
    context.meta[ALL_FLAGS] = True
    lines = [line.rstrip() for line in command.get_help(context).splitlines()]
    text = "\n".join(lines)
    return f"## {path}\n\n```text\n{text}\n```\n"


def parameters() -> str:
    """The table of docs/parameters.md."""
    rows = ["| flag | Python | of | meaning | default |", "|---|---|---|---|---|"]
    for one in method_options():
        kind = "aggregator" if one.section == SECTIONS["aggregator"] else "completer, loop"
        shown = (one.get_help_record(click.Context(misc)) or ("",))[0].replace("|", "\\|")
        meaning, _, default = (one.help or "").removesuffix("]").partition(" [default: ")
        rows.append(f"| `{shown}` | `{one.name}` | {kind} | {meaning} | {default} |")
    return "\n".join(rows)


def arrows() -> dict[str, set[str]]:
    """Which rooms each room imports, as the code has it."""
    found = {}
    for room in ROOMS:
        names = {
            room_of(name)
            for path in files_of(room)
            for name in imported(path)
            if name.startswith("misc_cli.")
        }
        found[room] = {name for name in names if name in ROOMS} - {room}
    return found


def layers() -> list[list[str]]:
    """Rooms by how far they stand above `core`; a cycle is an error."""
    above = arrows()
    placed: dict[str, int] = {}
    while len(placed) < len(above):
        ready = [room for room in above if room not in placed and above[room] <= placed.keys()]
        if not ready:
            raise AssertionError(f"imports go round among {above.keys() - placed.keys()}")
        level = {room: 1 + max((placed[b] for b in above[room]), default=-1) for room in ready}
        placed.update(level)
    return [
        sorted(room for room, at in placed.items() if at == level)
        for level in range(max(placed.values()) + 1)
    ]


def graph() -> str:
    """The rooms as a Mermaid diagram, drawn from the imports; only arrows that no other implies."""
    above = arrows()
    lines = ["```mermaid", "flowchart TD"]
    for room in sorted(above):
        implied = {deep for direct in above[room] for deep in _reach(direct, above)}
        direct = sorted(above[room] - implied)
        lines += [f"    {_node(room)} --> {_node(below)}" for below in direct]
    order = " → ".join(", ".join(layer) for layer in reversed(layers()))
    return "\n".join([*lines, "```", "", f"From top to bottom: {order}."])


def _reach(room: str, above: dict[str, set[str]]) -> set[str]:
    return {deep for below in above[room] for deep in {below, *_reach(below, above)}}


def _node(room: str) -> str:
    return room.strip("_") if room in ("__main__", "__init__") else room


def rooms() -> str:
    """What each room is for: the first line of its docstring."""
    rows = ["| room | what it is for |", "|---|---|"]
    for path in sorted(PACKAGE.glob("*/__init__.py")):
        first = re.search(r'"""(.*?)(?:"""|\n)', path.read_text())
        assert first is not None
        rows.append(f"| `{path.parent.name}/` | {first[1].strip()} |")
    folders = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    for name in sorted({*ROOMS, *EVERYBODYS} - folders):
        first = re.search(r'"""(.*?)(?:"""|\n)', (PACKAGE / f"{name}.py").read_text())
        if first is not None:
            rows.append(f"| `{name}.py` | {first[1].strip()} |")
    return "\n".join(rows)


def capabilities() -> str:
    """The table of docs/scale.md: what is asked for, and the engines that do it."""
    rows = [f"| | {' | '.join(ENGINES)} |", "|---" * (len(ENGINES) + 1) + "|"]
    reading = ", ".join(map(flag, READING_FLAGS))
    only_local = ", ".join(map(flag, LOCAL_FLAGS))
    table = {
        **CAPABILITIES,
        f"reading: {reading}": frozenset(ENGINES) - {"spark"},
        f"all other flags of reading, {only_local}": frozenset({"local"}),
    }
    for asked, engines in table.items():
        marks = ("yes" if engine in engines else "" for engine in ENGINES)
        rows.append(f"| {asked} | {' | '.join(marks)} |")
    return "\n".join(rows)


def pages() -> Iterator[tuple[Path, str]]:
    """Every page that holds something made, as it should be."""
    yield DOCS / "commands.md", commands()
    made = {
        "parameters.md": [parameters()],
        "architecture.md": [graph(), rooms()],
        "scale.md": [capabilities()],
    }
    for name, parts in made.items():
        path = DOCS / name
        text = path.read_text()
        pieces = re.split(f"({re.escape(BEGIN)}.*?{re.escape(END)})", text, flags=re.DOTALL)
        fresh = iter(parts)
        yield (
            path,
            "".join(
                f"{BEGIN}\n{next(fresh)}\n{END}" if piece.startswith(BEGIN) else piece
                for piece in pieces
            ),
        )


if __name__ == "__main__":
    for path, text in pages():
        path.write_text(text)
