"""One file of settings, and variables: the defaults of every flag of every command.

    flag  >  MISC_AGGREGATE_SEED  >  [aggregate] of the file  >  its top  >  default

The file is the one that --config or MISC_CONFIG names, else ./misc.toml, else
~/.config/misc/misc.toml. Its keys are the flags' names; click's default map takes them from there,
and click knows the variables. A key that is no flag is an error.

A file of the current folder may come from a stranger: it may not say what is read, written or
connected to.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import click

from misc_cli.errors import ConfigError, did_you_mean

FILE = "misc.toml"
LARGEST = 1 << 20  # bytes of a file of settings
# Flags that make no sense as a setting: they say where settings are, set others, or end misc.
NO_SETTING = ("config", "help", "help-all", "param")
# Placeholders of values that are text and name no file, place or statement.
HARMLESS = (
    *("A,B", "A,B,C", "A,B,…", "C", "COL", "COND", "KIND=SHARE,…", "NAME", "N|P%", "OLD=NEW"),
    *("REGEX", "TEXT", "TIME"),
)


class File(NamedTuple):
    """A file of settings; `name` is empty where there is none."""

    name: str = ""
    content: Mapping[str, Any] = {}
    is_trusted: bool = True


def find(given: str | None = None) -> File:
    """Return the file in force: the one that is named, else one here, else the user's own."""
    place = Path(os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config"))
    own = place / "misc" / FILE
    known = place.is_absolute() and own.is_file()  # a relative place would be a stranger's
    name = given or (FILE if os.path.isfile(FILE) else str(own) if known else "")
    if not name:
        return File()
    import tomllib

    try:
        with open(name, "rb") as stream:
            text = stream.read(LARGEST + 1)
        if len(text) > LARGEST:
            raise ConfigError(f"{name}: no file of settings, it is larger than 1 MiB")
        content = tomllib.loads(text.decode("utf-8-sig"))
    except OSError as error:
        reason = f"cannot be read ({error.strerror}); check --config"
    except RecursionError:
        reason = "not a file of settings, it is nested too deep"
    except ValueError as error:  # TOML, UTF-8, or a number of thousands of digits
        reason = f"not TOML ({error})"
    else:
        return File(name, content, given is not None or (known and own.samefile(name)))
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
    """Return the file's values for a command, by parameter name; an unknown key is an error.

    Above the tables a key may be any flag of this command or of misc aggregate.
    """
    from misc_cli.cli import COMMANDS
    from misc_cli.cli.aggregate import command as aggregate

    own = settable(context.command)
    found: dict[str, Any] = {}
    path = context.command_path.split()[1:]
    table, known = file.content, own | settable(aggregate)
    for at, word in enumerate([*path, ""]):
        where = f" in [{'.'.join(path[:at])}]" if at else ""
        for name, value in table.items():
            key = name.replace("_", "-")
            if isinstance(value, dict):
                if not at and name not in COMMANDS:
                    guess = did_you_mean(name, COMMANDS)
                    raise ConfigError(f"{file.name}: [{name}] is no command{guess}")
            elif key in own:
                if not (file.is_trusted or is_harmless(own[key])):
                    raise ConfigError(
                        f"{file.name}: a file of the current folder may not set {name}, which says "
                        f"what is read, written or connected to; if it is yours, add --config "
                        f"{file.name}"
                    )
                found[own[key].name or ""] = _as_words(own[key], value, f"{file.name}: {name}")
            elif key not in known:
                guess = did_you_mean(key, known)
                raise ConfigError(f"{file.name}: no flag is called {name}{where}{guess}")
        inner = table.get(word, {})
        table, known = inner if isinstance(inner, dict) else {}, own
    return found


def is_harmless(parameter: click.Parameter) -> bool:
    """Tell whether a parameter names no file, place or statement, so that a stranger may set it."""
    if not isinstance(parameter, click.Option) or key_of(parameter) == "engine":
        return False
    is_text = isinstance(parameter.type, click.types.StringParamType)
    return not is_text or parameter.is_flag or parameter.metavar in HARMLESS


def origin(context: click.Context, parameter: click.Parameter, file: File) -> str:
    """Return where the value of a parameter is from if it is a file or a variable, else ""."""
    source = context.get_parameter_source(parameter.name or "")
    if source is click.core.ParameterSource.ENVIRONMENT:
        return f"{context.auto_envvar_prefix}_{parameter.name}".upper()
    return file.name if source is click.core.ParameterSource.DEFAULT_MAP else ""


def sources_in_words(context: click.Context, file: File) -> str:
    """Return which settings are not from the command line and where each is from, in a line."""
    found: dict[str, list[str]] = {}
    for key, parameter in settable(context.command).items():
        if where := origin(context, parameter, file):
            found.setdefault(where, []).append(key)
    return "; ".join(f"{', '.join(keys)} from {where}" for where, keys in found.items())


def _as_words(parameter: click.Parameter, value: Any, called: str) -> str | list[str]:
    """Return a value as the command line would give it, so that it is converted in one way.

    It is a list of texts where a flag may be given several times: one value needs no brackets.
    """

    def text(value: Any) -> str:
        if isinstance(value, list):
            return ",".join(map(text, value))
        if not isinstance(value, str | int | float):
            raise ConfigError(f"{called} is no text, number, true or false, or list")
        return str(value).lower() if isinstance(value, bool) else str(value)

    if parameter.nargs != -1 and not getattr(parameter, "multiple", False):
        return text(value)
    return list(map(text, value if isinstance(value, list) else [value]))
