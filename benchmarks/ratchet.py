"""Pin what misc writes, byte for byte, and say what a change of the code changed.

usage: python benchmarks/ratchet.py check [--only PATTERN] [--jobs N] [--code CHECKOUT]
       python benchmarks/ratchet.py pin   [--only PATTERN] [--jobs N] [--code CHECKOUT]
Some sixty inputs are run on both engines: by named methods, by the automatic choice, for a second
night of --state and with --each-question. A pin holds the hashes of labels and workers and the
facts of run.json that outlive its schema; a run that fails is pinned by its exit code and its
first line on stderr. misc is driven as `python -m misc_cli` only. Where run.json's keys move, add
their new place to FACTS and pin nothing anew.
"""

from __future__ import annotations

import argparse
import csv
import fnmatch
import gzip
import hashlib
import importlib
import io
import json
import os
import runpy
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

HERE = Path(__file__).resolve().parent
PINS, EXPORTS = HERE / "ratchet.json", HERE / "ratchet_exports.json"
SHARED = Path(os.environ.get("MISC_SHARED", "/work/shared"))

Row = list[str]
Facts = dict[str, Any]

# Each fact and where it may be found in run.json, as dotted paths; the first that is there counts.
FACTS: Mapping[str, tuple[str, ...]] = {
    "counts": ("counts",),
    "figures": ("figures",),
    "method": ("method",),
    "classes": ("classes",),
    "class_prior": ("class_prior",),
    "chosen": ("selection.chosen",),
    "weights": ("selection.weights",),
    "fallback": ("selection.fallback",),
    "null": ("selection.null.score",),
    "calibration": ("calibration",),
    "ranks": ("loop.ranks",),
    "passes": ("loop.passes",),
    "iterations": ("iterations",),
    "converged": ("converged",),
    "stopped": ("stopped",),
    "objective": ("objective",),
    "known": ("known.gold", "known"),
}
# Lists of candidates, each a record of a name and its figures.
CANDIDATES: tuple[str, ...] = ("selection.pure", "selection.completed")
JUDGED = ("score", "folds")
# About files and the machine.
LEFT_OUT = (
    *("seconds", "sha256", "file", "path", "name", "inputs", "bytes"),
    *("format", "delimiter", "header", "columns", "reader", "set_aside"),
)

NAMED: Mapping[str, tuple[str, ...]] = {
    "mv": ("--aggregator", "mv"),
    "ds-em": ("--aggregator", "ds-em"),
    "ds-mf": ("--aggregator", "ds-mf"),
    "one-coin": ("--aggregator", "one-coin"),
    "ebcc": ("--aggregator", "ebcc", "-p", "restarts=3"),
    "mmce-c": ("--aggregator", "mmce-c"),
    "mmce-o": ("--aggregator", "mmce-o"),
    "tucker": ("--aggregator", "ds-em", "--completer", "tucker", "--ranks", "2,2,2"),
    "tenals": ("--aggregator", "ds-em", "--completer", "tenals", "--cp-rank", "2"),
    "lrtc": ("--aggregator", "ds-em", "--completer", "lrtc"),
}
THIRD_PARTY = (
    *("click", "jinja2", "numpy", "pandas", "pyarrow", "pyarrow.csv", "pyarrow.compute"),
    *("pyarrow.parquet", "pyarrow.json", "scipy", "scipy.sparse", "scipy.special"),
    *("scipy.optimize", "scipy.linalg", "threadpoolctl"),
)


@dataclass(frozen=True)
class Input:
    """A file of answers: how it is made, and what misc is told about it."""

    name: str
    make: Callable[[Path], None]
    file: str = "answers.csv"
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class Case:
    """One input in one mode. A night is run after a first one with two thirds of the rows."""

    source: Input
    mode: str
    options: tuple[str, ...]
    disk: bool = False
    night: bool = False

    @property
    def name(self) -> str:
        return f"{self.source.name}/{self.mode}{'/disk' if self.disk else ''}"

    def words(self, file: str) -> list[str]:
        """Return the command line, with names that are relative to the case's folder."""
        engine = ("--engine", "disk") if self.disk else ()
        outputs = ("-o", "labels.csv", "--workers", "workers.csv", "--threads", "1")
        return ["aggregate", file, *self.source.options, *self.options, *engine, *outputs]


# --- running misc ---


def misc(words: Sequence[str], folder: Path) -> tuple[int, str]:
    """Run `python -m misc_cli` in a fork that has the libraries loaded; its code and stderr."""
    return ended(started(words, folder), folder)


def started(words: Sequence[str], folder: Path) -> int:
    """Start misc in a folder and return its process id."""
    sys.stdout.flush()
    process = os.fork()
    if process == 0:
        become_misc(words, folder)
    return process


def become_misc(words: Sequence[str], folder: Path) -> NoReturn:
    """Be the command and nothing else, to the end of this process."""
    code = 1
    try:
        os.chdir(folder)
        for name, stream in (("stdout", 1), ("stderr", 2)):
            os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream)
        sys.argv = ["misc", *words]
        runpy.run_module("misc_cli", run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as ending:
        code = ending.code if isinstance(ending.code, int) else int(ending.code is not None)
    except BaseException as error:
        os.write(2, f"{type(error).__name__}: {error}\n".encode())
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def ended(process: int, folder: Path) -> tuple[int, str]:
    """Wait for misc; return its exit code and the first line it wrote to stderr."""
    _, status = os.waitpid(process, 0)
    lines = (folder / "stderr").read_text(errors="replace").splitlines()
    return os.waitstatus_to_exitcode(status), lines[0] if lines else ""


def result_of(case: Case, inputs: Path, folder: Path) -> dict[str, Any]:
    """Run a case in a folder of its own and return what is pinned of it."""
    for given in (inputs / case.source.name).iterdir():
        shutil.copy(given, folder)
    file = case.source.file
    digest = hashlib.sha256()
    for given in sorted(folder.iterdir()):
        digest.update(given.read_bytes())
    found: dict[str, Any] = {"input": digest.hexdigest()[:16]}
    if case.night:
        lines = (folder / file).read_text().splitlines(keepends=True)
        (folder / file).write_text("".join(lines[: 1 + 2 * len(lines) // 3]))
        code, said = misc(case.words(file), folder)
        if code:
            return {**found, "exit": code, "stderr": f"first night: {said}"}
        (folder / file).write_text("".join(lines))
    code, said = misc(case.words(file), folder)
    if code:
        return {**found, "exit": code, "stderr": said}
    for part in ("labels", "workers"):
        found[part] = hash_of(sorted(folder.glob(f"{part}*.csv")))
    records = sorted(folder.glob("labels*.run.json"))
    record: Facts = {}
    for path in records:
        before = "" if len(records) == 1 else f"{path.name[len('labels.') : -len('.run.json')]}: "
        facts = facts_of(json.loads(path.read_text()))
        record |= {f"{before}{key}": value for key, value in facts.items()}
    return {**found, "record": record}


def hash_of(paths: Sequence[Path]) -> str:
    """Return the SHA-256 of files, with their names where there are several."""
    digest = hashlib.sha256()
    for path in paths:
        if len(paths) > 1:
            digest.update(path.name.encode() + b"\0")
        digest.update(path.read_bytes())
    return digest.hexdigest() if paths else "none"


# --- the facts of a record ---


def facts_of(record: Mapping[str, Any]) -> Facts:
    """Return the facts of a run.json as leaves by name; what is null or empty is left out."""
    facts: Facts = {}
    for name, places in FACTS.items():
        values = (at(record, place) for place in places)
        facts |= leaves(name, next((value for value in values if value is not None), None))
    for place in CANDIDATES:
        for candidate in at(record, place) or ():
            judged = [rounded(candidate.get(key)) for key in JUDGED]
            facts[f"candidate {candidate['candidate']}"] = " ".join(map(str, judged))
    for name in [key for key in facts if key.startswith("figures.")]:
        if facts[name] == facts.get(name.replace("figures.", "counts.")):
            del facts[name]
    for name in [key for key in facts if key.endswith("figures.evidence") and facts[key] == 1.0]:
        del facts[name]  # nothing moved, and pins may be older than the figure
    return facts


def at(record: Any, place: str) -> Any:
    """Return what a dotted path leads to, or None."""
    for key in place.split("."):
        record = record.get(key) if isinstance(record, Mapping) else None
    return record


def leaves(name: str, value: Any) -> Facts:
    """Return a value's leaves by their paths; a list of plain values is one leaf."""
    if isinstance(value, Mapping):
        parts = [
            leaves(f"{name}.{key}", part) for key, part in value.items() if key not in LEFT_OUT
        ]
        return {key: leaf for part in parts for key, leaf in part.items()}
    if isinstance(value, list):
        return {name: " ".join(str(rounded(part)) for part in value)} if value else {}
    return {} if value is None else {name: rounded(value)}


def rounded(value: Any) -> Any:
    """Return a number with nine significant digits, anything else as it is."""
    return float(f"{value:.9g}") if isinstance(value, float) else value


# --- the inputs ---


def written(rows: Sequence[Row], path: Path, delimiter: str = ",") -> None:
    """Write rows as CSV."""
    with path.open("w", newline="") as stream:
        csv.writer(stream, delimiter=delimiter, lineterminator="\n").writerows(rows)


def simulated(folder: Path, *options: str) -> list[Row]:
    """Make up a crowd with `misc simulate` and return its rows; truth.csv is beside them."""
    words = ["simulate", *options, "-o", "answers.csv", "--truth", "truth.csv"]
    code, said = misc(words, folder)
    if code:
        raise SystemExit(f"misc {' '.join(words)}: {said}")
    return list(csv.reader((folder / "answers.csv").open(newline="")))


def crowd(name: str, *simulate: str, options: tuple[str, ...] = ()) -> Input:
    """Return a simulated crowd as it is."""
    return Input(name, lambda folder: drop(simulated(folder, *simulate)), options=options)


def drop(_: object) -> None:
    """Do nothing: the rows are written already."""


def changed(
    name: str,
    change: Callable[[list[Row], Path], None],
    *simulate: str,
    file: str = "answers.csv",
    options: tuple[str, ...] = (),
) -> Input:
    """Return a simulated crowd whose rows are written anew."""

    def make(folder: Path) -> None:
        change(simulated(folder, *simulate), folder / file)

    return Input(name, make, file, options)


def known(share: int) -> Callable[[list[Row], Path], None]:
    """Return a change that leaves the answers and makes every n-th item gold."""

    def change(rows: list[Row], path: Path) -> None:
        truth = list(csv.reader((path.parent / "truth.csv").open(newline="")))
        written([truth[0], *truth[1::share]], path.parent / "gold.csv")

    return change


def repeated(rows: list[Row], path: Path) -> None:
    """Answer again: every fifth the same, every seventh what the row before said."""
    again = [[*row[:2], rows[i][2]] for i, row in enumerate(rows[1:-1], start=2) if i % 7 == 0]
    written([*rows, *rows[1::5], *again], path)


def blanked(rows: list[Row], path: Path) -> None:
    """Leave every ninth label empty and call every eleventh n/a."""
    out = [
        [*row[:2], "" if i % 9 == 0 else "n/a" if i % 11 == 0 else row[2]]
        for i, row in enumerate(rows[1:])
    ]
    written([rows[0], *out], path)


def named_classes(*names: str) -> Callable[[list[Row], Path], None]:
    """Return a change that calls the classes by these names, by the order they come in."""

    def change(rows: list[Row], path: Path) -> None:
        order = {label: names[i] for i, label in enumerate(sorted({row[2] for row in rows[1:]}))}
        written([rows[0], *([*row[:2], order[row[2]]] for row in rows[1:])], path)

    return change


def tabbed(rows: list[Row], path: Path) -> None:
    """Write with tabs, other names and another order of the columns."""
    out = [["task", "answer", "annotator"], *([item, label, who] for who, item, label in rows[1:])]
    written(out, path, "\t")


def packed(rows: list[Row], path: Path) -> None:
    """Write gzipped, with CRLF."""
    path.write_bytes(gzip.compress("\r\n".join(map(",".join, rows)).encode(), mtime=0))


def as_lines(rows: list[Row], path: Path) -> None:
    """Write one JSON object per line."""
    path.write_text(
        "".join(json.dumps(dict(zip(rows[0], row, strict=True))) + "\n" for row in rows[1:])
    )


def as_table(rows: list[Row], path: Path) -> None:
    """Write a row per item and a column per worker."""
    who = sorted({row[0] for row in rows[1:]})
    cells = {(row[1], row[0]): row[2] for row in rows[1:]}
    items = sorted({row[1] for row in rows[1:]})
    head = ["item", *(f"rater_{name}" for name in who)]
    written(
        [head, *([item, *(cells.get((item, name), "") for name in who)] for item in items)], path
    )


def only(keep: Callable[[Row], bool]) -> Callable[[list[Row], Path], None]:
    """Return a change that keeps some rows."""
    return lambda rows, path: written([rows[0], *filter(keep, rows[1:])], path)


def questions(rows: list[Row], path: Path) -> None:
    """Write three questions as three columns: the label, its mirror and whether it is the first."""
    labels = sorted({row[2] for row in rows[1:]})
    other = dict(zip(labels, reversed(labels), strict=True))
    head = ["worker", "item", "mood", "topic", "sure"]
    out = [
        [
            *row[:2],
            row[2],
            other[row[2]] if i % 4 else row[2],
            "yes" if row[2] == labels[0] else "no",
        ]
        for i, row in enumerate(rows[1:])
    ]
    written([head, *out], path)


def grouped(rows: list[Row], path: Path) -> None:
    """Write a column that says which of two questions a row answers."""
    written(
        [[*rows[0], "batch"], *([*row, f"b{sum(map(ord, row[1])) % 2}"] for row in rows[1:])], path
    )


def first_items(path: Path, most: int) -> Callable[[Path], None]:
    """Return how to copy a public set's answers to its first items."""

    def make(folder: Path) -> None:
        rows = list(csv.reader(path.open(newline="")))
        items = set(list(dict.fromkeys(row[1] for row in rows[1:]))[:most])
        written([rows[0], *(row for row in rows[1:] if row[1] in items)], folder / "answers.csv")

    return make


def size(workers: int, items: int, classes: int, answers: float, seed: int) -> tuple[str, ...]:
    """Return the options of `misc simulate` for a size."""
    return (
        *("--workers", str(workers), "--items", str(items)),
        *("--class-names", ",".join(map(str, range(1, classes + 1)))),
        *("--answers-per-item", str(answers), "--seed", str(seed)),
    )


def sample(name: str) -> Input:
    """Return a file of sample_data."""
    path = HERE.parent / "sample_data" / f"{name}.csv"
    return Input(f"sample-{name}", lambda folder: drop(shutil.copy(path, folder / "answers.csv")))


def crowds() -> list[Input]:
    """Return the simulated crowds."""
    gold = ("--gold", "gold.csv")
    return [
        crowd("two", *size(20, 80, 2, 5, 1)),
        crowd("three", *size(25, 90, 3, 4, 2), options=("--probabilities",)),
        crowd("five", *size(30, 120, 5, 6, 3), options=("--item-details",)),
        crowd("nine", *size(30, 120, 9, 6, 4), options=("--probabilities", "--item-details")),
        crowd("groups", *size(40, 100, 4, 6, 5), "--groups", "3"),
        crowd("dense", *size(12, 60, 3, 12, 6)),
        crowd("sparse", *size(60, 150, 3, 1.5, 7)),
        crowd("ties", *size(20, 100, 2, 2, 8), options=("--item-details",)),
        crowd("spam", *size(30, 100, 3, 5, 9), "--mix", "honest=0.5,spammers=0.5"),
        crowd("copiers", *size(24, 100, 3, 6, 10), "--mix", "honest=0.7,copiers=0.3"),
        crowd("constants", *size(24, 100, 2, 6, 11), "--mix", "honest=0.6,constants=0.4"),
        crowd("experts", *size(20, 80, 4, 4, 12), "--accuracy", "0.95"),
        crowd("seeded", *size(20, 80, 4, 4, 13), options=("--seed", "5", "--no-calibrate")),
        crowd("paper", *size(20, 80, 3, 5, 14), options=("--preset", "paper")),
        crowd("larger", *size(150, 1500, 4, 5, 15)),
        crowd("many-two", *size(30, 260, 2, 4, 32)),
        crowd("many-three", *size(30, 220, 3, 5, 33)),
        crowd("many-groups", *size(40, 200, 4, 6, 34), "--groups", "3"),
        crowd("many-spam", *size(30, 220, 3, 5, 35), "--mix", "honest=0.4,spammers=0.6"),
        crowd(
            "many-confused",
            *size(60, 200, 5, 6, 38),
            *("--groups", "4", "--mix", "experts=1,honest=3", "--accuracy", "0.4"),
        ),
        changed("many-gold", known(8), *size(30, 260, 2, 4, 36), options=gold),
        changed("many-repeats", repeated, *size(30, 220, 3, 5, 37)),
        changed("gold", known(8), *size(25, 90, 3, 5, 16), options=gold),
        changed("gold-many", known(2), *size(25, 90, 4, 4, 17), options=gold),
        changed("repeats", repeated, *size(20, 80, 3, 4, 18)),
        changed(
            "repeats-first", repeated, *size(20, 80, 3, 4, 19), options=("--duplicates", "first")
        ),
        changed("repeats-all", repeated, *size(20, 80, 3, 4, 20), options=("--duplicates", "all")),
        changed(
            "repeats-error", repeated, *size(9, 20, 3, 4, 21), options=("--duplicates", "error")
        ),
        changed("blanks", blanked, *size(20, 80, 3, 5, 22), options=("--no-answer", "n/a")),
        changed("numbers", named_classes("10", "9", "1"), *size(20, 80, 3, 5, 23)),
        changed("letters", named_classes("ä, b", "Ж", 'q"x'), *size(20, 80, 3, 5, 24)),
        changed("tabs", tabbed, *size(20, 80, 3, 5, 25), file="answers.tsv"),
        changed("packed", packed, *size(20, 80, 3, 5, 26), file="answers.csv.gz"),
        changed("lines", as_lines, *size(20, 80, 3, 5, 27), file="answers.jsonl"),
        changed("table", as_table, *size(12, 60, 3, 6, 28), file="table.csv"),
        changed("one-class", only(lambda row: row[2] == "1"), *size(20, 80, 3, 5, 29)),
        changed("one-worker", only(lambda row: row[0].endswith("01")), *size(20, 80, 3, 5, 30)),
        changed("nobody", only(lambda row: False), *size(20, 80, 3, 5, 31)),
    ]


def public_sets() -> list[Input]:
    """Return the public sets that are here, and say which are not."""
    wanted = {
        "datasets": (("bluebirds", 108), ("temp", 200), ("rte", 150), ("dog", 120)),
        "datasets-more": (("cf", 300), ("ms", 200), ("face", 150)),
        "datasets-trust": (
            ("yoruba_lf", 400),
            ("youtube_lf", 400),
            ("judgebench", 200),
            ("leaves", 120),
        ),
    }
    found = []
    for folder, sets in wanted.items():
        for name, most in sets:
            path = SHARED / folder / name / "answers.csv"
            if path.exists():
                found.append(Input(name, first_items(path, most)))
            else:
                print(f"left out: {path} is not here", file=sys.stderr)
    return found


def exports() -> list[Input]:
    """Return small exports of platforms."""
    texts: dict[str, str] = json.loads(EXPORTS.read_text())

    def saved(name: str) -> Callable[[Path], None]:
        return lambda folder: drop((folder / name).write_text(texts[name]))

    return [Input(name, saved(name), name) for name in texts]


def several() -> list[Input]:
    """Return the inputs that hold several questions."""
    by = ("--group-by", "batch")
    asked = [Input(f"{e.name}-each", e.make, e.file) for e in exports()]
    asked = [e for e in asked if e.file in ("argilla_1.json", "label_studio.csv", "appen.csv")]
    split = [
        Input(f"{e.name}-{how}", e.make, e.file, ("--multi", how))
        for e in exports()
        if e.file == "label_studio_questions.json"
        for how in ("split", "set")
    ]
    return [
        changed("questions-two", questions, *size(12, 40, 2, 5, 41)),
        changed("questions-three", questions, *size(15, 50, 3, 5, 42)),
        changed("questions-four", questions, *size(15, 50, 4, 4, 43)),
        changed("batches-two", grouped, *size(12, 60, 2, 5, 44), options=by),
        changed("batches-three", grouped, *size(15, 60, 3, 5, 45), options=by),
        changed("batches-five", grouped, *size(15, 60, 5, 5, 46), options=by),
        *asked,
        *split,
    ]


# --- the cases ---

# Below a thousand answers nothing is hidden, and the choice is a fixed mean: these cost little.
FEW = ("two", "ties", "gold", "repeats", "constants", "one-class", "toloka.tsv", "zooniverse.csv")
MANY = (
    *("many-two", "many-three", "many-gold", "many-repeats", "many-groups", "many-spam"),
    *("many-confused", "yoruba_lf", "youtube_lf", "judgebench", "bluebirds"),
)
NIGHTS = ("two", "ties", "gold", "repeats", "experts", "many-two", "many-gold", "yoruba_lf")
NIGHTS_NAMED = ("two", "five", "nine", "gold", "repeats", "blanks", "larger", "temp", "ms", "tabs")
LOCAL_ONLY = ("tenals", "lrtc")


def cases() -> Iterator[Case]:
    """Yield every case: named methods in rotation over all inputs, then the other modes."""
    crowded = [sample("answers"), sample("groups"), *crowds(), *public_sets()]
    inputs = [*crowded, *exports()]
    methods = list(NAMED)
    of_disk = [mode for mode in methods if mode not in LOCAL_ONLY]
    for i, source in enumerate(inputs):
        for mode in (methods[i % 10], methods[(i + 3 + i // 10) % 10])[
            : 2 if i < len(crowded) else 1
        ]:
            yield Case(source, mode, NAMED[mode])
        for mode in (of_disk[i % 8], of_disk[(i + 3 + i // 8) % 8]) if i < len(crowded) else ():
            yield Case(source, mode, NAMED[mode], disk=True)
    by_name = {source.name: source for source in inputs}
    for name in ("toloka.tsv", "appen.csv", "label_studio.json", "prodigy.jsonl"):
        yield Case(by_name[name], "ds-em", NAMED["ds-em"], disk=True)
    for mode in LOCAL_ONLY:
        yield Case(by_name["two"], mode, NAMED[mode], disk=True)
    for name in (name for name in (*FEW, *MANY) if name in by_name):
        yield Case(by_name[name], "auto", ())
        if not name.endswith("sv"):
            yield Case(by_name[name], "auto", (), disk=True)
    for name in ("many-two", "many-groups", "many-confused", "many-gold"):
        options = ("--aggregator", "ds-em", "--completer", "tucker")
        yield Case(by_name[name], "tucker-auto", options)
        yield Case(by_name[name], "tucker-auto", options, disk=True)
    state = ("--state", "state")
    for name in (name for name in NIGHTS if name in by_name):
        yield Case(by_name[name], "night", state, night=True)
    for i, name in enumerate(NIGHTS_NAMED):
        if name in by_name:
            mode = ("ds-em", "ebcc", "one-coin", "ds-mf", "mmce-c")[i % 5]
            yield Case(by_name[name], f"night-{mode}", (*NAMED[mode], *state), night=True)
    yield Case(by_name["two"], "night", state, disk=True, night=True)
    for i, source in enumerate(several()):
        mode = ("ds-em", "mv", "one-coin")[i % 3]
        yield Case(source, f"each-{mode}", (*NAMED[mode], "--each-question"))
        if i in (0, 3, 6):
            yield Case(source, f"each-{mode}", (*NAMED[mode], "--each-question"), disk=True)
    yield Case(several()[0], "each-auto", ("--each-question",))


# --- checking ---


def difference(pinned: Mapping[str, Any], found: Mapping[str, Any]) -> list[str]:
    """Return what changed, a line each; nothing if all is the same."""
    lines = [
        f"{part}: {pinned.get(part, 'nothing')} → {found.get(part, 'nothing')}"
        if part in ("exit", "stderr")
        else part
        for part in ("input", "exit", "stderr", "labels", "workers")
        if pinned.get(part) != found.get(part)
    ]
    before, after = pinned.get("record", {}), found.get("record", {})
    lines += [
        f"record {key}: {before.get(key, '—')} → {after.get(key, '—')}"
        for key in dict.fromkeys([*before, *after])
        if before.get(key) != after.get(key)
    ]
    return lines


def load(code: Path) -> None:
    """Load the libraries once, and whatever misc loads for a run, for all the forks to share."""
    for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[variable] = "1"
    sys.path.insert(0, str(code.resolve()))
    for name in THIRD_PARTY:
        with suppress(ImportError):
            importlib.import_module(name)


def in_turn(
    chosen: Sequence[Case], jobs: int, folder: Path
) -> Iterator[tuple[Case, dict[str, Any]]]:
    """Run the cases, several at a time, and yield each with what it gave."""
    inputs = folder / "inputs"
    for source in {case.source.name: case.source for case in chosen}.values():
        (inputs / source.name).mkdir(parents=True)
        source.make(inputs / source.name)
        for rest in ("truth.csv", "stdout", "stderr"):
            (inputs / source.name / rest).unlink(missing_ok=True)
        if source.file != "answers.csv":
            (inputs / source.name / "answers.csv").unlink(missing_ok=True)
    running: dict[int, tuple[Case, Path]] = {}
    waiting = list(reversed(chosen))
    while waiting or running:
        while waiting and len(running) < jobs:
            case = waiting.pop()
            place = folder / "cases" / str(len(waiting))  # names may be folders of one another
            place.mkdir(parents=True)
            running[forked(case, inputs, place)] = case, place
        process, status = os.wait()
        case, place = running.pop(process)
        if status:
            raise SystemExit(f"{case.name}: the ratchet itself failed")
        found = json.loads((place / "result").read_text())
        shutil.rmtree(place)
        yield case, found


def forked(case: Case, inputs: Path, folder: Path) -> int:
    """Run a case in a process of its own, which writes `result`; return its id."""
    sys.stdout.flush()
    process = os.fork()
    if process == 0:
        code = 1
        try:
            (folder / "run").mkdir()
            result = result_of(case, inputs, folder / "run")
            (folder / "result").write_text(json.dumps(result))
            code = 0
        except Exception as error:
            print(f"{case.name}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        finally:
            os._exit(code)
    return process


def text_of(pins: Mapping[str, Any]) -> str:
    """Return the pins as JSON, a line per case."""
    out = io.StringIO()
    for i, name in enumerate(sorted(pins)):
        line = json.dumps(pins[name], ensure_ascii=False, separators=(",", ":"))
        out.write(f"{',' if i else '{'}\n{json.dumps(name)}: {line}")
    return out.getvalue() + "\n}\n"


def main() -> int:
    """Run the cases; return 1 if anything changed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("job", choices=("check", "pin"))
    parser.add_argument("--only", default="*", help="cases whose name matches, '*/ds-em*'")
    parser.add_argument("--jobs", type=int, default=1, help="cases at a time")
    parser.add_argument("--code", type=Path, default=HERE.parent, help="the checkout to run")
    asked = parser.parse_args()
    load(asked.code)
    chosen = [case for case in cases() if fnmatch.fnmatch(case.name, asked.only)]
    pins: dict[str, Any] = json.loads(PINS.read_text()) if PINS.exists() else {}
    if asked.job == "pin" and asked.only == "*":
        pins = {}
    n_changed, began = 0, time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="ratchet-") as folder:
        for case, found in in_turn(chosen, asked.jobs, Path(folder)):
            if asked.job == "pin":
                pins[case.name] = found
                continue
            lines = difference(pins[case.name], found) if case.name in pins else ["no pin"]
            n_changed += bool(lines)
            print("CHANGED" if lines else "OK     ", case.name)
            for line in lines:
                print(f"          {line}")
    if asked.job == "pin":
        PINS.write_text(text_of(pins))
    used = os.times()
    spent = sum((used.user, used.system, used.children_user, used.children_system))
    print(
        f"{len(chosen)} cases, {n_changed} changed; {time.perf_counter() - began:.0f} s, "
        f"{spent:.0f} s of processor time"
    )
    return int(n_changed > 0)


if __name__ == "__main__":
    sys.exit(main())
