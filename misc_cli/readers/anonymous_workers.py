"""Answers of nobody: the file's name is the worker, or an unknown one each."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from misc_cli.readers.document import Document
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.platforms.base import Reading


def without_workers(document: Document, options: ReadOptions, reading: Reading) -> Reading:
    """Answers of nobody: of the file's name if --worker-from says so, else of an unknown each."""
    if options.worker_from is not None:
        name = worker_of_file(document.name, options.worker_from)
        questions = [replace(q, worker=_constant(name, len(q))) for q in reading.questions]
        return replace(reading, questions=questions, has_workers=True)
    questions = [replace(q, worker=nth_of_item(q.item)) for q in reading.questions]
    return replace(reading, questions=questions, has_workers=False)


def worker_of_file(path: str, source: str) -> str:
    """The file's name without folders and suffixes, or the name of the folder that it is in."""
    if source == "folder":
        return Path(path).absolute().parent.name
    return Path(path).name.split(".")[0]


def _constant(value: str, length: int) -> Any:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(length, np.int32)), pa.array([value]))


def nth_of_item(items: Any) -> Any:
    """Workers that nobody knows: the first answer to an item, the second, and so on."""
    codes = items.indices.to_numpy(zero_copy_only=False)
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    nth = np.empty(len(codes), np.int32)
    sizes = np.diff(np.r_[starts, len(codes)])
    nth[order] = np.arange(len(codes)) - np.repeat(starts, sizes)
    names = pa.array([f"answer {n + 1}" for n in range(int(nth.max(initial=0)) + 1)])
    return pa.DictionaryArray.from_arrays(pa.array(nth), names)
