"""Run `misc` on copies of real annotation files and compare with their known right readings.

    python -m benchmarks.real_files [--files DIR] [--only REGEX] [--width N]

tests/readers/real_files.json lists the files (repository, path, commit, SHA-256) and the right
readings. The copies are kept outside the repository, by default in /work/corpus/files. Only the
command line is driven: `misc aggregate FILE` as a user would type it, then, if that is refused,
the command or the flags that the refusal proposes.
"""

import argparse
import collections
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TypedDict

LIST = Path(__file__).parent.parent / "tests" / "readers" / "real_files.json"
COPIES = Path(os.environ.get("MISC_REAL_FILES", "/work/corpus/files"))
SECONDS = 60

RIGHT = "right by itself"
ADVISED = "right with the proposed command"
REFUSED = "rightly refused"
POOR = "refused wrongly or with poor advice"
WRONG = "WRONG in silence"
MISLED = "WRONG by following the advice"
STATUSES = (RIGHT, ADVISED, REFUSED, POOR, WRONG, MISLED)


class Reading(TypedDict):
    """One right reading; None where any number is right: of workers that nobody names."""

    answers: int | None
    workers: int | None
    items: int | None
    classes: int | None
    label: str


class Expected(TypedDict):
    """The outcome of a right reading: read, read_with_flags, read_or_refuse or refuse."""

    outcome: str
    readings: list[Reading]
    note: str


class RealFile(TypedDict):
    """One file of the list."""

    file: str
    repository: str
    path: str
    commit: str
    sha256: str
    size: int
    kind: str
    expected: Expected


Counts = tuple[int, int, int, int]

VALUE = r"(?!--|if |and |or |to |says |makes |takes |as |in )(?:'[^']*'|[^\s,;:]+(?:,[^\s,;:]+)*)"
NEEDS_VALUE = {"--worker-col", "--item-col", "--label-col", "--delimiter", "--encoding"}


def run(arguments: list[str], folder: Path) -> tuple[int, str, str]:
    """Return exit code, stdout and stderr of `misc ARGUMENTS` in a folder."""
    command = [sys.executable, "-m", "misc_cli", *arguments]
    paths = [os.environ.get("PYTHONPATH", ""), str(Path(__file__).parent.parent)]
    environment = {
        **os.environ,
        "COLUMNS": "10000",
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
    }
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=SECONDS
        )
    except subprocess.TimeoutExpired:
        return -1, "", f"more than {SECONDS} s"
    return done.returncode, done.stdout, done.stderr


def aggregate(arguments: list[str], folder: Path) -> tuple[list[Counts], str]:
    """Return the counts of a majority vote, one for each question read, and what was said."""
    output = folder / "out"
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir()
    given = ["aggregate", *arguments, "--aggregator", "mv", "-o", str(output / "labels.csv")]
    code, _, said = run(given, folder)
    if code:
        return [], said
    record = json.loads((output / "labels.run.json").read_text())
    questions = record if isinstance(record, list) else record.get("questions") or [record]
    found = [question.get("counts") or question["figures"] for question in questions]
    names = ("answers", "workers", "items", "classes")
    return [(int(c[names[0]]), c[names[1]], c[names[2]], c[names[3]]) for c in found], said


def matches(counts: Counts, readings: list[Reading]) -> bool:
    """Return whether the counts are those of one of the readings."""
    names = ("answers", "workers", "items", "classes")
    known = [{name: reading.get(name) for name in names} for reading in readings]
    return any(
        all(own[name] in (None, n) for name, n in zip(names, counts, strict=True)) for own in known
    )


def without(arguments: list[str], *flags: str) -> list[str]:
    """Return the arguments without these flags and their values."""
    kept: list[str] = []
    skip = False
    for argument in arguments:
        if skip:
            skip = False
        elif argument in flags:
            skip = True
        else:
            kept.append(argument)
    return kept


def commands(text: str) -> list[list[str]]:
    """Return the arguments of each whole `misc aggregate` or `misc inspect` in a text."""
    found = []
    for match in re.finditer(r"\bmisc (aggregate|inspect) ([^\n`]+)", text):
        try:
            words = shlex.split(match[2].strip().rstrip(".;"))
        except ValueError:
            continue
        if any("…" in word for word in words):
            continue
        found.append([match[1], *words])
    return found


def flags(text: str, readings: list[Reading]) -> list[list[str]]:
    """Return the flags with concrete values that a text proposes, a list for each alternative.

    Of several questions those of a right reading come first: a user knows what was asked.
    """
    if "--question NAME" in text:
        names = re.findall(r"'([^']+)' \((?:choice|choices|number|text)", text)
        wanted = " ".join(reading["label"] for reading in readings)
        names.sort(key=lambda name: name not in wanted)
        return [["--question", name] for name in names[:6]]
    found = []
    for alternative in re.findall(rf"(?:--[a-z-]+(?: {VALUE})? ?)+", text):
        words = shlex.split(alternative)
        pairs = zip(words, [*words[1:], "--"], strict=True)
        unfilled = any(flag in NEEDS_VALUE and value[:2] == "--" for flag, value in pairs)
        placeholder = any(word.isupper() and len(word) > 1 for word in words)
        if not (unfilled or placeholder or "--allow-odd" in words):
            found.append(words)
    return found


def judge(entry: RealFile, copies: Path, folder: Path) -> tuple[str, str]:
    """Return the status of a file and what `misc` said or read."""
    outcome, readings = entry["expected"]["outcome"], entry["expected"]["readings"]
    name = Path(entry["path"]).name
    shutil.copy(copies / entry["file"], folder / name)
    counts, said = aggregate([name], folder)
    if counts:
        right = outcome != "refuse" and all(matches(c, readings) for c in counts)
        return (RIGHT if right else WRONG), f"read {counts[0]}"
    refusal = " ".join(said.split())
    proposed = commands(said)
    direct = [c[1:] for c in proposed if c[0] == "aggregate"][:1]
    shown = [c for p in proposed if p[0] == "inspect" for c in commands(run(p, folder)[1])]
    choices = [c[1:] for c in shown if c[0] == "aggregate"]
    misled = ""
    for given in direct or choices or [[name, *words] for words in flags(refusal, readings)]:
        counts, _ = aggregate(without(given, "-o", "--output", "--aggregator"), folder)
        result = f"{shlex.join(given)}: read {counts[0]}" if counts else ""
        if counts and all(matches(c, readings) for c in counts):
            return (REFUSED if outcome == "refuse" else ADVISED), result
        misled = misled or result
    if misled:
        return MISLED, f"{misled} | {refusal}"
    return (REFUSED if outcome.endswith("refuse") else POOR), refusal


def main() -> None:
    """Judge every file and print a table and the counts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--files", type=Path, default=COPIES)
    parser.add_argument("--only", default="")
    parser.add_argument("--width", type=int, default=200)
    options = parser.parse_args()
    if not options.files.is_dir():
        print(f"skipped: no copies in {options.files}; fetch the files of {LIST.name} there")
        return
    entries: list[RealFile] = json.loads(LIST.read_text())
    tally: collections.Counter[str] = collections.Counter()
    for entry in entries:
        if not re.search(options.only, entry["file"]):
            continue
        copy = options.files / entry["file"]
        if not copy.exists() or hashlib.sha256(copy.read_bytes()).hexdigest() != entry["sha256"]:
            print(f"skipped, no such copy: {entry['file']}")
            continue
        with tempfile.TemporaryDirectory() as folder:
            status, said = judge(entry, options.files, Path(folder))
        tally[status] += 1
        line = f"{status:35} {entry['kind']:12} {entry['file']}: {said}"
        print(line[: options.width], flush=True)
    print()
    for status in STATUSES:
        print(f"{tally[status]:4} {status}")


if __name__ == "__main__":
    main()
