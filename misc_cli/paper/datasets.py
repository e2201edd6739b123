"""Find, download and check public datasets: the paper's six, and more.

A copy is a folder with `answers.csv` (worker,item,label) and `truth.csv` (item,label) in the user's
cache. A download stays in memory until its SHA-256 is checked, so that a wrong file is never saved.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from http.client import HTTPException
from importlib import resources
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import urlopen

from misc_cli.errors import ConfigError, InputError
from misc_cli.version import __version__
from misc_cli.writers.output_set import write_all

BASE_URL = "https://raw.githubusercontent.com"
TIMEOUT_SECONDS = 30.0
COLUMNS = {"answers.csv": ("worker", "item", "label"), "truth.csv": ("item", "label")}


@dataclass(frozen=True)
class PublishedFile:
    """One published file; `delimiter` None means any run of white space."""

    path: str
    columns: list[str]
    delimiter: str | None
    sha256: str
    converted_sha256: str
    header: bool = False


@dataclass(frozen=True)
class Dataset:
    """A dataset's counts and where its two files are published."""

    name: str
    about: str
    workers: int
    items: int
    classes: int
    answers: int
    items_with_truth: int
    repository: str
    commit: str
    files: Mapping[str, PublishedFile]


@cache
def registry() -> dict[str, Dataset]:
    """Return the datasets by name, the paper's six first, in its order."""
    text = resources.files("misc_cli.paper").joinpath("data/datasets.json").read_text("utf-8")
    found = {}
    for entry in json.loads(text):
        files = {name: PublishedFile(**source) for name, source in entry.pop("files").items()}
        found[entry["name"]] = Dataset(**entry, files=files)
    return found


def get(name: str) -> Dataset:
    try:
        return registry()[name]
    except KeyError:
        known = ", ".join(registry())
        raise ConfigError(f"no dataset is called {name!r}; there are {known}") from None


def cache_folder() -> Path:
    """Return the folder of this user's copies, in the platform's cache folder."""
    try:
        own = "Library/Caches" if sys.platform == "darwin" else ".cache"
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / own)
    except RuntimeError:  # no HOME and an unknown user id, as in some containers
        raise ConfigError("this user has no home folder; set XDG_CACHE_HOME") from None
    return cache / "misc-cli" / "datasets"


def locate(name: str, folder: Path | None = None) -> Path:
    """Return the folder of a dataset, in `folder` or in the cache; raise an error if it lacks."""
    here = (folder or cache_folder()) / get(name).name
    lacking = [here / file for file in COLUMNS if not (here / file).is_file()]
    if lacking:
        get_it = f"run: misc datasets fetch {name}, or name a folder that has it with --from"
        raise InputError(f"{lacking[0]}: no such file; {get_it}")
    if folder is None and not is_intact(get(name), here):
        raise InputError(
            f"{here}: this copy is damaged (SHA-256 differs); run: misc datasets fetch {name}"
        )
    return here


def fetch(name: str, base_url: str = BASE_URL) -> Path:
    """Put a checked copy into the user's cache, unless one is there; return its folder."""
    dataset, target = get(name), cache_folder() / name
    if is_intact(dataset, target):
        return target
    contents = {file: _download(dataset, file, base_url) for file in COLUMNS}
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"{target}: cannot be made ({error.strerror}); set XDG_CACHE_HOME"
        ) from None
    write_all({target / file: whole for file, whole in contents.items()})
    return target


def is_intact(dataset: Dataset, folder: Path) -> bool:
    """Return True if both files are, byte for byte, what the published ones convert to."""
    return all(
        (folder / file).is_file()
        and sha256((folder / file).read_bytes()).hexdigest() == source.converted_sha256
        for file, source in dataset.files.items()
    )


def _download(dataset: Dataset, file: str, base_url: str) -> bytes:
    source = dataset.files[file]
    url = f"{base_url}/{dataset.repository}/{dataset.commit}/{quote(source.path)}"
    try:
        with urlopen(url, timeout=TIMEOUT_SECONDS) as response:
            published: bytes = response.read()
    except (HTTPException, OSError) as error:  # HTTP says so, nobody answers, or it broke off
        if isinstance(error, HTTPError):
            error.close()
        raise InputError(f"{url}: cannot be had ({error!r}); nothing was kept, try again") from None
    found = sha256(published).hexdigest()
    if found != source.sha256:
        raise InputError(
            f"{url}: SHA-256 is {found}, expected {source.sha256}; nothing was kept. "
            f"The file changed or was altered on the way (misc {__version__})"
        )
    return convert(published, source, COLUMNS[file])


def convert(published: bytes, source: PublishedFile, columns: tuple[str, ...]) -> bytes:
    """Convert a published file to our CSV: our order of columns, their order of rows.

    A truth file may repeat an item once per answer, as dog's does: each distinct row is kept once.
    """
    order = [source.columns.index(column) for column in columns]
    lines = [line.split(source.delimiter) for line in published.decode("utf-8").splitlines()]
    lines = lines[1:] if source.header else lines
    rows = [",".join(fields[i].strip() for i in order) for fields in lines if fields != [""]]
    if columns == COLUMNS["truth.csv"]:
        rows = list(dict.fromkeys(rows))
    return ("\n".join([",".join(columns), *rows]) + "\n").encode("utf-8")
