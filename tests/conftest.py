"""Shared fixtures: the public datasets beside the repo, where they are there."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as arrow_csv
import pytest
from hypothesis import settings

from misc_cli.data.encode import encode, encode_known
from misc_cli.data.types import Answers, Codes, KnownLabels, Labels

# How long an example takes says nothing on a busy machine. The examples are the same every time, so
# that what fails fails for everybody; make torture looks further.
settings.register_profile("patient", deadline=None, derandomize=True)
settings.load_profile("patient")

# What nohup or a job in the background ignores, processes that tests start would ignore as well. A
# handler that does nothing ignores it for us, and is the system's default again for them.
for _number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
    if signal.getsignal(_number) is signal.SIG_IGN:
        with suppress(ValueError):  # not in the main thread: then nothing can be done
            signal.signal(_number, lambda *_: None)

REPO = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("MISC_SHARED", REPO.parent / "shared"))
PAPER_SIX = ("web", "bm", "rte", "dog", "temp", "bluebirds")
SIX_MORE = ("product", "ms", "face", "zencrowd_us", "relevance", "cf")

Load = Callable[[str], tuple[Labels, Codes]]


def dataset_folder(name: str) -> Path:
    """The folder of a public dataset; skips the test where it is absent."""
    for group in ("datasets", "datasets-more", "datasets-trust"):
        folder = SHARED / group / name
        if folder.is_dir():
            return folder
    pytest.skip(f"dataset {name} is not beside the repo ({SHARED})")


@lru_cache
def load_dataset(name: str) -> tuple[Labels, Codes]:
    """Labels and truth codes, (n_items,), -1 where unknown."""
    folder = dataset_folder(name)
    text = arrow_csv.ConvertOptions(
        column_types={name: pa.string() for name in ("worker", "item", "label")}
    )
    answers = arrow_csv.read_csv(folder / "answers.csv", convert_options=text)
    truth = arrow_csv.read_csv(folder / "truth.csv", convert_options=text)
    columns = Answers(answers["worker"], answers["item"], answers["label"])
    labels = encode(columns).labels
    return labels, encode_known(labels, KnownLabels(truth["item"], truth["label"]), "gold")


@pytest.fixture
def dataset() -> Load:
    return load_dataset
