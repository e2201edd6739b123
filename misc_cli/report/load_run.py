"""A finished run's report from its files: no new fit.

run.json leads to the others. The answers must still be there, byte for byte the same: they are
read again, and everything is counted anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.compute as pc
from scipy.special import softmax

from misc_cli.aggregators.confusion_kernels import PSEUDO_ANSWERS, confusions_of
from misc_cli.data.encode import Encoding, encode, encode_known
from misc_cli.data.posteriors import Decision, tied_classes
from misc_cli.data.types import Codes, Floats, Labels
from misc_cli.engines.local import MemoryEngine
from misc_cli.engines.protocol import POSTERIORS, TRUTH
from misc_cli.errors import InputError, MiscError
from misc_cli.quality.worker_dependence import compare_workers
from misc_cli.quality.worker_scores import median_seconds
from misc_cli.readers.addresses import scheme_of
from misc_cli.readers.answer_table import AnswerTable
from misc_cli.readers.known_labels import read_known
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.read import read_answer_columns
from misc_cli.report.frames import Report, build, worst_first
from misc_cli.run.result import RunResult
from misc_cli.run.run_record import read_record, request_of
from misc_cli.run.settings import Methods
from misc_cli.selection.ensemble import FitResult
from misc_cli.writers.output_set import CHANGED, verify
from misc_cli.writers.tables import read_labels

ESTIMATED = "Next best classes and gains are estimated: run with --probabilities to have them."
JUDGED_AGAIN = "Workers are judged by the labels: run with --workers FILE for the method's verdict."


def read_runs(path: str, question: str | None = None) -> dict[str | None, Report]:
    """Return the report of the run that a run.json is about.

    Where it is of several questions there is one for each, by its name, or that of `question`.
    """
    record = read_record(path)
    for _, file, state in verify(Path(path)):
        if state == CHANGED:
            raise InputError(f"{file}: changed since the run; report on the answers instead")
    if "questions" not in record:
        return {None: _report(path, record)}
    entries = {str(one["question"]): one for one in record["questions"]}
    if question is not None and question not in entries:
        known = ", ".join(map(repr, entries))
        raise InputError(f"{path}: no question {question!r} in it; there are {known}")
    names = entries if question is None else [question]
    return {name: _report(path, entries[name]) for name in names}


def _report(path: str, facts: dict[str, Any]) -> Report:
    """Return the report of one question's record; `path` is its run.json."""
    if not {"figures", "counts", "classes"} <= set(facts):
        raise InputError(f"{path}: this is no run.json of misc aggregate; name one, or answers")
    folder = Path(path).parent
    outputs = facts.get("outputs", {})
    place = _found(outputs.get("labels"), folder)
    if place is None or "parts" in outputs:
        what = outputs.get("labels") or "(stdout)"
        why = "are a folder of parts" if "parts" in outputs else "are not there"
        raise InputError(f"{path}: its labels {what} {why}; report on the answers instead")
    table = read_labels(str(place))
    try:
        read, encoding = _answers(facts, folder, request_of(facts, path).reading)
    except (MiscError, KeyError) as error:
        why = "put them back as they were, or report on other answers directly"
        raise InputError(f"{path}: its answers {error}; {why}") from None
    labels = encoding.labels
    rows = pc.index_in(labels.items, table.items)
    codes = pc.index_in(table.labels, labels.classes)
    if rows.null_count or codes.null_count:
        raise InputError(f"{table.name}: these are not the labels of this run's items")
    order = rows.to_numpy()
    label = codes.to_numpy()[order].astype(np.int32)
    confidence = np.ones(len(label)) if table.confidence is None else table.confidence[order]
    exact = table.probabilities is not None and table.classes == tuple(facts["classes"])
    if exact and table.probabilities is not None:
        posteriors = table.probabilities[order]
    else:
        posteriors = _estimated(labels, label, confidence)
    known = {POSTERIORS: posteriors}
    truth = facts.get("known", {}).get("truth")
    place = None if truth is None else _found(truth["name"], folder)
    if place is not None and (judge := read_known(str(place))).file.sha256 == truth["sha256"]:
        known[TRUTH] = encode_known(labels, judge.labels)
    engine = MemoryEngine(labels, known, encoding.counts)
    # the labels as they were written: only six decimals of the posteriors were
    rest = posteriors.copy()
    rest[np.arange(len(rest)), label] = -1.0
    runner_up = rest.argmax(axis=1) if rest.shape[1] > 1 else np.full(len(rest), -1)
    tied = tied_classes(posteriors).sum(axis=1) > 1
    outcome = RunResult(
        FitResult(
            engine=engine,
            confusions=confusions_of(labels, posteriors, PSEUDO_ANSWERS),
            class_prior=np.array(facts["class_prior"], dtype=np.float64),
            iterations=facts["figures"]["iterations"],
            stopped=facts.get("stopped", {}),
            selection=facts.get("selection") or {},
        ),
        Methods({}, None, None, {}, facts.get("methods", {})),
        [],
        facts["figures"],
        compare_workers(engine),
        decided=Decision(label, confidence, tied, runner_up.astype(np.int32)),
        seconds=median_seconds(read.answers, labels.workers),
    )
    report = build(outcome, facts, read.kept)
    frames = report.frames
    if not exact:
        frames["items"] = frames["items"].drop(columns="tie")
    workers = _workers(_found(outputs.get("workers"), folder))
    if workers is not None:
        own = frames["workers"].set_index("worker")[["effective_votes", "changes"]]
        frames["workers"] = worst_first(workers.join(own, on="worker"))
    missing = [] if exact else [ESTIMATED]
    missing += [JUDGED_AGAIN] if workers is None else []
    return replace(report, missing=tuple(missing))


def _found(name: str | None, folder: Path) -> Path | None:
    """Return the file where the run's command saw it, or beside its run.json."""
    if name is None:
        return None
    places = (Path(name), folder / name, folder / Path(name).name)
    return next((place for place in places if place.is_file()), None)


def _workers(place: Path | None) -> pd.DataFrame | None:
    """Return the table of workers as it was written, in whichever format."""
    if place is None:
        return None
    if place.name.endswith(".parquet"):
        return pd.read_parquet(place)
    text = dict.fromkeys(("worker", "verdict", "reason", "alike"), str)
    separator = "\t" if ".tsv" in place.name else ","
    try:
        blank = {"seconds": [""]}  # elsewhere it is a text
        return pd.read_csv(place, sep=separator, dtype=text, keep_default_na=False, na_values=blank)
    except ValueError:
        raise InputError(f"{place}: not a table of workers; name another run") from None


def _answers(
    facts: Mapping[str, Any], folder: Path, reading: ReadOptions
) -> tuple[AnswerTable, Encoding]:
    """Return the answers as the run read and encoded them; raise an error that says why not."""
    places = []
    for source in facts.get("inputs", []):
        if scheme_of(source["name"]):
            raise InputError(f"came from {source['name']} and are not read again")
        place = _found(source["name"], folder)
        if place is None or sha256(place.read_bytes()).hexdigest() != source["sha256"]:
            raise InputError(f"{source['name']} are not there any more, or have changed since")
        places.append(str(place))
    if not places:
        raise InputError("came from no file")
    read, chosen = read_answer_columns(places, reading), facts["options"]
    order = chosen.get("class_order")
    encoding = encode(read.answers, duplicates=chosen["duplicates"], class_order=order)
    labels, counts = encoding.labels, facts["counts"]
    found = (labels.votes.n_votes, labels.n_workers, labels.n_items, labels.n_classes)
    if found != tuple(counts[name] for name in ("answers", "workers", "items", "classes")):
        raise InputError("are read differently now")
    return read, encoding


def _estimated(labels: Labels, label: Codes, confidence: Floats) -> Floats:
    """Return posteriors with these labels and confidences, (n_items, n_classes).

    What a confidence leaves goes to the other classes as the answers speak for them, given the
    confusions that the labels show.
    """
    rows, rest = np.arange(len(label)), 1.0 - confidence
    posteriors = np.repeat(rest[:, None] / max(labels.n_classes - 1, 1), labels.n_classes, axis=1)
    posteriors[rows, label] = confidence
    confusions = confusions_of(labels, posteriors, PSEUDO_ANSWERS)
    # Σ_w log π_w[c, x_wi], by columns (worker, observed) of the votes
    by_answer = np.log(confusions).transpose(0, 2, 1).reshape(-1, labels.n_classes)
    votes = labels.votes
    scores = np.vstack([votes.block(part) @ by_answer for part in votes.blocks])
    if labels.n_classes > 1:
        scores[rows, label] = -np.inf
        posteriors = rest[:, None] * softmax(scores, axis=1)
        posteriors[rows, label] = confidence
    return posteriors
