"""Run jobs that `misc aggregate` does not offer: votes for the C yardstick, Tucker alone.

usage: python ours.py votes answers.csv votes.bin figures.json
       python ours.py tucker answers.csv - figures.json
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np

from misc_cli.completers.parameters import Tucker
from misc_cli.data.encode import encode
from misc_cli.data.types import Labels
from misc_cli.data.votes import LabelTensor, SparseVotes
from misc_cli.readers.read import read_answer_columns


def read(path: str) -> Labels:
    return encode(read_answer_columns([path]).answers).labels


def write_votes(labels: Labels, path: str) -> None:
    """Write the votes in the layout that yardstick.c reads."""
    votes = labels.votes
    assert isinstance(votes, SparseVotes)
    with open(path, "wb") as stream:
        shape = (labels.n_items, labels.n_workers, labels.n_classes)
        for part in (shape, votes.matrix.indptr, votes.matrix.indices):
            np.asarray(part, dtype=np.int32).tofile(stream)


def tucker(labels: Labels) -> dict[str, float]:
    """Run the default three sweeps on the votes; the slice, which peers do not have, is zero."""
    votes = labels.votes
    assert isinstance(votes, SparseVotes)
    tensor = LabelTensor(votes, np.zeros((labels.n_items, labels.n_classes)))
    residuals: list[float] = []
    started = time.perf_counter()
    Tucker(ranks=(3, 5, 5))(tensor, lambda iteration: residuals.append(iteration.objective or 0.0))
    spent = time.perf_counter() - started
    return {"fit": spent, "residual": float(residuals[-1] / np.sqrt(tensor.squared_norm))}


if __name__ == "__main__":
    job, answers_file, votes_file, figures_file = sys.argv[1:]
    labels = read(answers_file)
    if job == "votes":
        write_votes(labels, votes_file)
    else:
        with open(figures_file, "w") as figures:
            json.dump(tucker(labels), figures)
