"""The man page, built from the help: `python -m misc_cli.cli.manual > misc.1`, or `make man`."""

from __future__ import annotations

import re
import sys

import click

from misc_cli.cli import misc
from misc_cli.cli.config import all_commands
from misc_cli.errors import EXIT_CODES
from misc_cli.version import __version__


def page() -> str:
    """The whole page in man's macros."""
    root = click.Context(misc, info_name="misc")
    lines = [
        f'.TH MISC 1 "" "misc {__version__}" "User Commands"',
        ".SH NAME",
        "misc \\- " + escaped(_first_line(misc)),
        ".SH SYNOPSIS",
        ".B misc",
        "\\fICOMMAND\\fR [\\fIFLAGS\\fR] [\\fIFILES\\fR]",
        ".SH DESCRIPTION",
        *_paragraphs(misc),
    ]
    for words, command in all_commands(root).items():
        lines += _command(root, words, command)
    lines += [
        ".SH FILES",
        ".TP\n.B misc.toml\nSettings: every flag by its name, at the top for all commands or in "
        "the table of one. The table tool.misc of pyproject.toml serves as well.",
        ".SH ENVIRONMENT",
        ".TP\n.B MISC_FLAG, MISC_COMMAND_FLAG\nSet a flag, for example MISC_SEED=1 or "
        "MISC_AGGREGATE_FAIL_IF=\\(aqflips>2%\\(aq. Flags win over variables, variables over the "
        "file.",
        ".TP\n.B MISC_CONFIG\nThe file of settings.",
        ".TP\n.B MISC_DEBUG\nShow the traceback of a defect.",
        ".TP\n.B MISC_DATA_DIR\nWhere the public datasets are.",
        ".SH EXIT STATUS",
        *(f".TP\n.B {code}\n{escaped(text)}" for code, text in EXIT_CODES.items()),
    ]
    return "\n".join(lines) + "\n"


def _command(root: click.Context, words: tuple[str, ...], command: click.Command) -> list[str]:
    context = click.Context(command, info_name=" ".join(words), parent=root)
    title = " ".join(("misc", *words))
    usage = escaped(" ".join(command.collect_usage_pieces(context)))
    lines = [f".SH {title.upper()}", f".B {title}", usage, ".PP", *_paragraphs(command)]
    section = ""
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is None or not isinstance(parameter, click.Option):
            continue
        if (of := getattr(parameter, "section", "Messages")) != section:
            section = of
            lines.append(f".SS {escaped(section)}")
        lines += [".TP", f".B {escaped(record[0])}", escaped(record[1]) or "\\&"]
    examples = getattr(command, "examples", "").strip().splitlines()
    if examples:
        lines += [".SS Examples", ".nf", *(escaped(line.strip()) for line in examples), ".fi"]
    return lines


def _first_line(command: click.Command) -> str:
    return (command.help or "").strip().splitlines()[0].rstrip(".")


def _paragraphs(command: click.Command) -> list[str]:
    text = (command.help or "").strip()
    blocks = [" ".join(block.split()) for block in re.split(r"\n\s*\n", text)]
    return "\n.PP\n".join(map(escaped, blocks)).splitlines()


def escaped(text: str) -> str:
    """Text as roff prints it: dashes that can be copied, no line that looks like a macro."""
    text = " ".join(text.split()) if "\n" in text else text
    text = text.replace("\\", "\\e").replace("-", "\\-")
    text = "".join(c if c.isascii() else f"\\[u{ord(c):04X}]" for c in text)
    return f"\\&{text}" if text.startswith((".", "'")) else text


if __name__ == "__main__":
    sys.stdout.buffer.write(page().encode())
