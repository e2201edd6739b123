"""Datasets of a comparison: folders with answers and truth, or files, each on its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from misc_cli.data.encode import encode_known
from misc_cli.errors import ConfigError, InputError
from misc_cli.readers.known_labels import read_known
from misc_cli.readers.read import read_answer_columns
from misc_cli.run.pipeline import memory_engine
from misc_cli.selection.compare import Dataset

if TYPE_CHECKING:
    from misc_cli.readers.options import ReadOptions
    from misc_cli.run.settings import Settings

ANSWERS, TRUTH = "answers", "truth"


@dataclass(frozen=True)
class DatasetFiles:
    """The files of one dataset and its name."""

    name: str
    answers: tuple[str, ...]
    truth: str | None = None

    def read(self, reading: ReadOptions, rules: Settings) -> Dataset:
        """Return the answers, encoded, with their truth; warn of what aggregate warns of."""
        table = read_answer_columns(list(self.answers), reading)
        if table.anonymous:
            name = table.files[0].name
            raise InputError(f"{name}: nobody says who answered; a majority vote is all there is")
        engine = memory_engine(table.answers, rules)
        if self.truth is None:
            return Dataset(self.name, engine)
        truth = read_known(self.truth, reading).labels
        return Dataset(self.name, engine, encode_known(engine.labels, truth))


def find_datasets(
    sources: Sequence[str], *, as_one: bool = False, truth: str | None = None
) -> list[DatasetFiles]:
    """Return the datasets that files and folders are.

    A folder with a file called answers.* is a dataset, its truth.* the truth; a folder of such
    folders is several; any other file or folder is a dataset without truth. With `as_one` all
    sources are one dataset. `truth` is that of the one dataset that there is.
    """
    found: list[DatasetFiles] = [DatasetFiles("", tuple(sources))] if as_one else []
    for source in () if as_one else sources:
        path = Path(source)
        folders = [path, *sorted(path.iterdir())] if path.is_dir() else []
        inside = [folder for folder in folders if _file(folder, ANSWERS) is not None]
        for folder in inside:
            answers = str(_file(folder, ANSWERS))
            found.append(DatasetFiles(folder.resolve().name, (answers,), _file(folder, TRUTH)))
        if not inside:
            name = path.name if path.is_dir() else path.name.partition(".")[0]
            found.append(DatasetFiles(name or source, (source,)))
    names = Counter(one.name for one in found)
    for at, one in enumerate(found):
        if names[one.name] > 1:
            parts = Path(one.answers[0]).resolve().with_suffix("").parts
            found[at] = replace(one, name="/".join(parts[-3:]))
    if truth is not None and len(found) > 1:
        told = f"--truth is for one dataset, and there are {len(found)}"
        raise ConfigError(f"{told}; give each a folder with truth.csv, or say --as-one")
    return found if truth is None else [replace(found[0], truth=truth)]


def _file(folder: Path, stem: str) -> str | None:
    """Return the folder's file of this name, whatever its format; several are an error."""
    files = [str(file) for file in sorted(folder.glob(f"{stem}.*")) if file.is_file()]
    if len(files) > 1:
        raise InputError(f"{folder}: both {files[0]} and {files[1]}; keep one of them")
    return files[0] if files else None
