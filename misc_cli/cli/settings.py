"""`misc config`: the settings in force and where each of them is from."""

from __future__ import annotations

from typing import Any

import click

from misc_cli.cli import config, options, outputs, sections
from misc_cli.cli.nearest import Group
from misc_cli.errors import ConfigError, did_you_mean


@click.group(cls=Group)
def group() -> None:
    """Settings from misc.toml, [tool.misc] in pyproject.toml and MISC_… variables."""


@group.command(
    cls=options.Command,
    examples="misc config show\nmisc config show aggregate\nmisc config show --config nightly.toml",
)
@click.argument("command", nargs=-1)
@options.option("--json", "as_json", section="Output", is_flag=True, help="One JSON object.")
@click.pass_context
def show(context: click.Context, command: tuple[str, ...], as_json: bool) -> None:
    """Print what is in force: of COMMAND every setting, else what a file or a variable sets."""
    from misc_cli.cli.console import Console, print_tables
    from misc_cli.cli.text_table import Table

    root = context.find_root()
    commands = config.all_commands(root)
    if command and command not in commands:
        guess = did_you_mean(" ".join(command), [" ".join(words) for words in commands])
        raise ConfigError(f"{' '.join(command)!r} is no command{guess}")
    file: config.File = context.meta[sections.CONFIG]
    rows: list[dict[str, Any]] = []
    for words in [command] if command else commands:
        rows += _in_force(root, words, commands[words], file)
    if not command:
        rows = [row for row in rows if row["from"] != "default"]
    console = Console()
    for name, guess in config.unknown_variables(root):
        console.warn(f"the variable {name} sets nothing{guess}")
    if as_json:
        outputs.write_bytes(outputs.json_bytes(settings=rows))
        return
    shown = [(row["command"], row["setting"], _text(row["value"]), row["from"]) for row in rows]
    title = f"Settings, file: {file.name or 'none'}"
    notes = [] if shown else ["every setting has its default"]
    print_tables([Table(title, ("command", "setting", "value", "from"), shown, 4, notes)])


def _in_force(
    root: click.Context, words: tuple[str, ...], command: click.Command, file: config.File
) -> list[dict[str, Any]]:
    """Every setting of a command as it would be called now, without any flag."""
    context = root
    for word in words:
        context = click.Context(command, info_name=word, parent=context)
    context.default_map = config.default_map(context, file)
    rows = []
    for key, parameter in config.settable(command).items():
        value, source = parameter.consume_value(context, {})
        context.set_parameter_source(parameter.name or "", source)
        from_where = config.origin(context, parameter, file)
        if from_where != "default":
            with sections.telling_origin(context, file):
                value = parameter.process_value(context, value)
        elif not isinstance(value, str | int | float | bool | tuple | list):
            value = None  # click's own mark for "not given"
        rows.append(
            {"command": " ".join(words), "setting": key, "value": value, "from": from_where}
        )
    return rows


def _text(value: Any) -> str:
    if isinstance(value, list | tuple):
        nested = any(isinstance(part, list | tuple) for part in value)
        return ("; " if nested else ", ").join(map(_text, value))
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
