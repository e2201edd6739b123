"""One file of settings, and variables: the defaults of every flag of every command.

    flag  >  MISC_AGGREGATE_SEED  >  MISC_SEED  >  [aggregate] of the file  >  its top  >  default

The file is the one that --config or MISC_CONFIG names, else ./misc.toml, else the table [tool.misc]
of ./pyproject.toml, else ~/.config/misc/misc.toml. Its keys are the flags' names; click's default
map takes them from there, so no flag is written twice. A key that is no flag is an error.

A file of the current folder may come from a stranger: it may not say what is read, written or
connected to.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from misc_cli.errors import ConfigError, did_you_mean

FILE = "misc.toml"
SHARED_FILE = "pyproject.toml"
PREFIX = "MISC_"
LARGEST = 1 << 20  # bytes of a file of settings
# Flags that make no sense as a setting: they say where settings are, set others, or end misc.
NO_SETTING = ("config", "help", "help-all", "param", "version")
# Placeholders of values that are text and name no file, place or statement.
HARMLESS = (
    *("A,B", "A,B,C", "A,B,…", "C", "COL", "COND", "KIND=SHARE,…", "NAME", "N|P%", "OLD=NEW"),
    *("REGEX", "TEXT", "TIME"),
)


@dataclass(frozen=True)
class File:
    """A file of settings; `name` is empty where there is none."""

    name: str = ""
    content: Mapping[str, Any] = field(default_factory=dict)
    is_trusted: bool = True


def find(given: str | None = None) -> File:
    """Return the file in force: the one that is named, else one here, else the user's own."""
    place = Path(os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config"))
    own = place / "misc" / FILE
    names = (FILE, SHARED_FILE, *([str(own)] if place.is_absolute() else []))
    for name in filter(os.path.isfile, names) if given is None else (given,):
        content = _read(name)
        for table in ("tool", "misc") if Path(name).name == SHARED_FILE else ():
            content = content.get(table, {})
            if not isinstance(content, dict):
                raise ConfigError(f"{name}: {table} is no table")
        if given is not None or content or name != SHARED_FILE:
            known = place.is_absolute() and own.is_file()
            trusted = given is not None or (known and own.samefile(name))
            return File(name, content, is_trusted=trusted)
    return File()


def _read(name: str) -> dict[str, Any]:
    """Return the content of a file of settings."""
    import tomllib

    try:
        with open(name, "rb") as stream:
            text = stream.read(LARGEST + 1)
        if len(text) > LARGEST:
            raise ConfigError(f"{name}: no file of settings, it is larger than 1 MiB")
        return tomllib.loads(text.decode("utf-8-sig"))
    except OSError as error:
        reason = f"cannot be read ({error.strerror}); check --config"
    except RecursionError:
        reason = "not a file of settings, it is nested too deep"
    except ValueError as error:  # TOML, UTF-8, or a number of thousands of digits
        reason = f"not TOML ({error})"
    raise ConfigError(f"{name}: {reason}")


def key_of(parameter: click.Parameter) -> str:
    """Return the key of a parameter in a file: its long flag, or an argument's name."""
    flags = [flag for flag in parameter.opts if flag.startswith("--")]
    return (flags[0] if flags else parameter.name or "").lstrip("-").lower().replace("_", "-")


def settable(command: click.Command) -> dict[str, click.Parameter]:
    """Return a command's parameters by their key."""
    keys = {key_of(parameter): parameter for parameter in command.params}
    return {key: parameter for key, parameter in keys.items() if key not in NO_SETTING}


def default_map(context: click.Context, file: File) -> dict[str, Any]:
    """Return the file's values for a command, by parameter name; an unknown key is an error."""
    path, own = path_of(context), settable(context.command)
    commands = {words: settable(one) for words, one in all_commands(context.find_root()).items()}
    found: dict[str, Any] = {}

    def walk(table: Mapping[str, Any], above: tuple[str, ...]) -> None:
        below = {words: keys for words, keys in commands.items() if words[: len(above)] == above}
        known = {key for keys in below.values() for key in keys}
        # values before tables: what a command's own table says goes over those above it
        for name, value in sorted(table.items(), key=lambda entry: isinstance(entry[1], dict)):
            key, inner = name.replace("_", "-"), (*above, name)
            if isinstance(value, dict):
                names = {words[len(above)] for words in below if words != above}
                if name not in names:
                    guess = did_you_mean(name, names)
                    raise ConfigError(f"{file.name}: [{'.'.join(inner)}] is no command{guess}")
                walk(value, inner)
            elif key not in known:
                where = f" in [{'.'.join(above)}]" if above else ""
                guess = did_you_mean(key, known)
                raise ConfigError(f"{file.name}: no flag is called {name}{where}{guess}")
            elif key not in own or path[: len(above)] != above:
                continue
            elif not (file.is_trusted or is_harmless(own[key])):
                raise ConfigError(
                    f"{file.name}: a file of the current folder may not set {name}, which says "
                    f"what is read, written or connected to; if it is yours, add --config "
                    f"{file.name}"
                )
            else:
                found[own[key].name or ""] = _as_words(own[key], value, f"{file.name}: {name}")

    walk(file.content, ())
    return found


def is_harmless(parameter: click.Parameter) -> bool:
    """Tell whether a parameter names no file, place or statement, so that a stranger may set it."""
    if not isinstance(parameter, click.Option) or key_of(parameter) == "engine":
        return False
    is_text = isinstance(parameter.type, click.types.StringParamType)
    return not is_text or parameter.is_flag or parameter.metavar in HARMLESS


def path_of(context: click.Context) -> tuple[str, ...]:
    """Return the words that name a command, without the program's own."""
    return () if context.parent is None else (*path_of(context.parent), context.info_name or "")


def all_commands(root: click.Context) -> dict[tuple[str, ...], click.Command]:
    """Return every command that is no group, by the words that name it."""

    def walk(command: click.Command, words: tuple[str, ...]) -> Iterator[Any]:
        if not isinstance(command, click.Group):
            yield words, command
            return
        for name in command.list_commands(root):
            child = command.get_command(root, name)
            yield from () if child is None else walk(child, (*words, name))

    return dict(walk(root.command, ()))


def variables(words: tuple[str, ...], key: str) -> list[str]:
    """Return the variables that set a parameter of a command; the first one found counts."""
    own = "_".join([*words, key]).upper().replace("-", "_")
    return [PREFIX + own, PREFIX + key.upper().replace("-", "_")]


def origin(context: click.Context, parameter: click.Parameter, file: File) -> str:
    """Return where the value of a parameter is from, in words."""
    source = context.get_parameter_source(parameter.name or "")
    if source is click.core.ParameterSource.DEFAULT_MAP:
        return file.name
    if source is click.core.ParameterSource.ENVIRONMENT:
        names = variables(path_of(context), key_of(parameter))
        return next(name for name in names if os.environ.get(name))
    return "command line" if source is click.core.ParameterSource.COMMANDLINE else "default"


def sources_in_words(context: click.Context, file: File) -> str:
    """Return which settings are not from the command line and where each is from, in a line."""
    found: dict[str, list[str]] = {}
    for key, parameter in settable(context.command).items():
        where = origin(context, parameter, file)
        if where not in ("command line", "default"):
            found.setdefault(where, []).append(key)
    return "; ".join(f"{', '.join(keys)} from {where}" for where, keys in found.items())


def _as_words(parameter: click.Parameter, value: Any, called: str) -> str | list[str]:
    """Return a value as the command line would give it, so that it is converted in one way.

    It is a list of texts where a flag may be given several times: one value needs no brackets.
    """

    def text(value: Any) -> str:
        if isinstance(value, list):
            row = io.StringIO()
            csv.writer(row, lineterminator="").writerow(map(text, value))
            return row.getvalue()
        if not isinstance(value, str | int | float):
            raise ConfigError(f"{called} is no text, number, true or false, or list")
        return str(value).lower() if isinstance(value, bool) else str(value)

    if parameter.nargs != -1 and not getattr(parameter, "multiple", False):
        return text(value)
    declared = getattr(parameter, "declared", None)  # of a method: `ranks = [3, 4, 3]` is one value
    is_one = declared is not None and declared.length > 1
    if not isinstance(value, list) or (
        is_one and not any(isinstance(one, list | str) for one in value)
    ):
        value = [value]
    return list(map(text, value))
