"""Make the data frames of a report, from which page, workbook and terminal tables are made."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from misc_cli.aggregators.confusion_kernels import crowd_rows, expected_counts
from misc_cli.data.encode import trimmed
from misc_cli.data.posteriors import decide
from misc_cli.data.types import Answers, Codes, Floats, Labels, Names
from misc_cli.data.votes import votes_by_worker
from misc_cli.quality import panel
from misc_cli.quality.agreement import agreement_intervals
from misc_cli.quality.evaluation import wilson
from misc_cli.run.result import RunResult
from misc_cli.run.tables import queue_columns, unused, worker_columns

Frames = dict[str, pd.DataFrame]

HISTOGRAM_BINS = 20
# Bands of confidence that a person is shown, by the bin that each ends before.
BANDS = (10, 12, 14, 16, 18, 19, 20)
MOST_CONFUSIONS = 1_000
CONFUSION = ("true_", "_said_")
# Words that a verdict begins with, the worst first; one that is not listed comes after "check".
VERDICTS = ("spammer", "always says", "copies", "check", "", "fine", "too few")
# Stages of the search for a method: lines about trials, not about iterations of a method.
SEARCH_STAGES = ("search", "fitted")
# Columns of the workers' frame that may name another worker.
NAMING_COLUMNS = ("alike", "reason", "verdict")
HOUR = 3600
# The curve over time takes the shortest of these steps that gives at most MOST_STEPS points.
STEPS = tuple(HOUR * hours for hours in (1, 3, 6, 12, 24, 7 * 24, 28 * 24))
MOST_STEPS = 60
# Control characters (a terminal would obey them), marks that change the direction of the text, and
# spaces of no width. The joiners U+200C and U+200D stay: Persian and emoji use them.
_INVISIBLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060\u2066-\u2069\ufeff\ud800-\udfff]"
)


def visible(text: object) -> str:
    """Return the text with a visible sign in place of each control or invisible character."""
    return _INVISIBLE.sub(_sign, str(text))


def _sign(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x20:
        return chr(0x2400 + code)  # ␀, ␁, …
    return "␡" if code == 0x7F else f"⟨U+{code:04X}⟩"


def progress_frame(answers: Answers, times: Any, outcome: RunResult) -> pd.DataFrame:
    """Return from, answers, workers, agreement (with the final labels) per step of time.

    `times` says when each answer was given, in seconds since 1970, NaN where unknown. The frame is
    empty if no time is known.
    """
    if times is None or np.isfinite(times).sum() < 2:
        return pd.DataFrame()
    labels = outcome.labels
    worker, item = _codes(answers.worker, labels.workers), _codes(answers.item, labels.items)
    label = _codes(answers.label, labels.classes)
    known = np.isfinite(times) & (worker >= 0) & (item >= 0) & (label >= 0)
    if not known.any():
        return pd.DataFrame()
    told = times[known]
    span = float(told.max() - told.min())
    step = next((one for one in STEPS if span / one <= MOST_STEPS), STEPS[-1])
    start = np.floor(told.min() / step) * step
    rows = pd.DataFrame(
        {
            "from": ((told - start) // step).astype(np.int64),
            "worker": worker[known],
            "right": label[known] == outcome.decision.label[item[known]],
        }
    )
    steps = rows.groupby("from").agg(
        answers=("right", "size"), workers=("worker", "nunique"), agreement=("right", "mean")
    )
    whole = steps.reindex(range(int(rows["from"].max()) + 1))
    whole[["answers", "workers"]] = whole[["answers", "workers"]].fillna(0).astype(np.int64)
    whole.insert(0, "from", pd.to_datetime(start + whole.index * step, unit="s", utc=True))
    return whole.reset_index(drop=True)


def _codes(column: Any, names: Names) -> Any:
    """Return the code of each cell among these names, -1 where it is none of them."""
    texts = column.dictionary if hasattr(column, "dictionary") else column
    codes = pc.fill_null(pc.index_in(trimmed(texts), names), -1).to_numpy()
    if texts is column:
        return codes
    return np.append(codes, -1)[np.asarray(column.indices.fill_null(len(codes)))]


def completion_frames(outcome: RunResult) -> dict[str, pd.DataFrame]:
    """Return the frames changed, worker_map and item_map; none for a run without completion."""
    mixture = outcome.fit.completion
    if mixture is None or mixture.completion is None or mixture.initial is None:
        return {}
    labels, decision = outcome.labels, outcome.decision
    classes = np.array(labels.classes.to_pylist(), dtype=object)
    before = decide(mixture.initial).label
    items = pd.DataFrame(
        {
            "item": labels.items.to_pandas(),
            "label": classes[decision.label],
            "confidence": decision.confidence,
        }
    )
    changed = before != decision.label
    factor = getattr(mixture.completion, "items", None)  # lrtc has no factors: then its slice
    x, y = plane(mixture.completion.slice if factor is None else factor)
    found = {
        "changed": items.assign(before=classes[before])[changed],
        "item_map": items.assign(x=x, y=y),
    }
    directions = mixture.completion.directions
    if directions is not None:
        rows = directions[:-1]  # without the slice's
        x, y = plane(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300))
        own = outcome.fit
        accuracy = np.einsum("c,wcc->w", own.class_prior, own.confusions)
        found["worker_map"] = pd.DataFrame(
            {"worker": labels.workers.to_pandas(), "x": x, "y": y, "accuracy": accuracy}
        )
    return found


def plane(rows: Floats) -> tuple[Floats, Floats]:
    """Return the first two principal components of these rows, (n_rows,) each.

    Signs are fixed, so that a map is not mirrored from run to run.
    """
    centred = rows - rows.mean(axis=0)
    _, vectors = np.linalg.eigh(centred.T @ centred)
    best = vectors[:, ::-1][:, :2]
    best = best * np.where(best[np.abs(best).argmax(axis=0), range(best.shape[1])] < 0, -1.0, 1.0)
    flat = centred @ best
    return flat[:, 0], flat[:, 1] if flat.shape[1] > 1 else np.zeros(len(flat))


def frames(outcome: RunResult) -> Frames:
    """Return the frames of a run that are not empty, by name."""
    counts = expected_counts(outcome.labels, outcome.posteriors).sum(axis=0)
    crowd = crowd_rows(counts[None])
    classes, decision = outcome.labels.classes.to_pylist(), outcome.decision
    found: Frames = {
        "figures": figures_frame(outcome.figures),
        "agreement": agreement_frame(outcome),
        "confidence": confidence_frame(decision.confidence, decision.label, outcome.truth),
        "classes": _classes(outcome),
        "crowd": pd.DataFrame(crowd, index=pd.Index(classes, name="true"), columns=classes),
        "confusions": confusion_frame(counts, classes),
        "workers": worst_first(
            text_frame(worker_columns(outcome)).assign(
                changes=panel.labels_that_change(outcome.engine)
            )
        ),
        "panel": panel_frame(outcome),
        "items": _items(outcome),
        "ask_again": text_frame(queue_columns(outcome, None)),
        "convergence": convergence_frame(outcome.records),
        "tried": tried_frame(outcome.fit.selection),
        **completion_frames(outcome),
    }
    return {name: frame for name, frame in found.items() if len(frame)}


def panel_frame(outcome: RunResult) -> pd.DataFrame:
    """Return a row per worker of a small panel: worker, kept, then its likeness with each.

    Those who are kept give the same labels alone, up to one in a hundred. A crowd has no rows.
    """
    labels = outcome.labels
    if not 2 < labels.n_workers <= panel.MOST or labels.votes.n_votes > panel.MOST_VOTES:
        return pd.DataFrame()
    kept = panel.smallest_panel(labels, outcome.posteriors)
    likeness = outcome.pairs.matrix(outcome.pairs.shared > 0).toarray().clip(0.0, 1.0)
    found = pd.DataFrame({"worker": labels.workers.to_pandas()})
    found["kept"] = np.isin(np.arange(len(found)), kept)
    return found.join(pd.DataFrame(likeness))


def figures_frame(figures: Mapping[str, Any]) -> pd.DataFrame:
    return pd.DataFrame({"name": list(figures), "value": list(figures.values())}, dtype=object)


def agreement_frame(outcome: RunResult) -> pd.DataFrame:
    """Return the agreement of the answers; alpha also for ordered classes if they have an order."""
    labels = outcome.labels
    alpha, agreement = agreement_intervals(labels.votes)
    found = {"pairwise agreement": agreement, "alpha, classes without order": alpha}
    if labels.ordered:
        found["alpha, ordered classes"] = agreement_intervals(labels.votes, ordered=True)[0]
    rows = [{"measure": measure, **asdict(interval)} for measure, interval in found.items()]
    return pd.DataFrame(rows).dropna(subset=["value"])


def convergence_frame(records: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return the iterations of the methods, in the order they ran."""
    return pd.DataFrame([line for line in records if line["stage"] not in SEARCH_STAGES])


def tried_frame(selection: Mapping[str, Any] | None) -> pd.DataFrame:
    """Return the candidates of an automatic choice; `kind` is the round of the search."""
    rounds = {
        kind: rows
        for kind, rows in (selection or {}).items()
        if isinstance(rows, list) and rows and isinstance(rows[0], dict) and "candidate" in rows[0]
    }
    return pd.DataFrame([{"kind": kind, **row} for kind, rows in rounds.items() for row in rows])


def worst_first(workers: pd.DataFrame) -> pd.DataFrame:
    """Sort workers by verdict, if they have one, the redundant after others, then by accuracy."""
    keys = workers[["accuracy", "worker"]].copy()
    keys["severity"] = 0
    keys["redundant"] = workers["alike"] != "" if "alike" in workers else False
    if "verdict" in workers:
        keys["severity"] = workers["verdict"].map(lambda text: VERDICTS.index(verdict_kind(text)))
    order = keys.sort_values(["severity", "redundant", "accuracy", "worker"], kind="stable").index
    return workers.loc[order].reset_index(drop=True)


def verdict_kind(verdict: str) -> str:
    """Return the words of VERDICTS that a verdict begins with: "copies" of "copies anna"."""
    return next((kind for kind in VERDICTS if kind and verdict.startswith(kind)), "")


def confusion_columns(workers: pd.DataFrame) -> list[str]:
    """Return the names of the columns that hold confusion matrices, row by row."""
    start, middle = CONFUSION
    return [name for name in workers.columns if name.startswith(start) and middle in name]


def text_frame(columns: Mapping[str, Any]) -> pd.DataFrame:
    """Return columns (numpy, or arrow text) as a frame of plain text and numbers."""
    plain = {}
    for name, column in columns.items():
        if isinstance(column, pa.Array | pa.ChunkedArray):
            coded = pa.types.is_dictionary(column.type)
            column = (column.dictionary_decode() if coded else column).to_pandas()
        plain[name] = column
    return pd.DataFrame(plain)


def confidence_frame(
    confidence: Floats, label: Codes | None = None, truth: Codes | None = None
) -> pd.DataFrame:
    """Count items in twenty bins of confidence; where truth is known, also known and right ones."""
    bins = HISTOGRAM_BINS
    which = np.minimum((confidence * bins).astype(np.int64), bins - 1)
    edges = np.arange(bins + 1) / bins
    items = np.bincount(which, minlength=bins)
    columns = {"from": edges[:-1], "to": edges[1:], "items": items}
    if truth is not None and (known := truth >= 0).any():
        columns["known"] = np.bincount(which[known], minlength=bins)
        columns["sum_confidence"] = np.bincount(which, confidence * known, bins)
        columns["right"] = np.bincount(which[known & (label == truth)], minlength=bins)
    return pd.DataFrame(columns)


def confidence_bands(confidence: pd.DataFrame) -> pd.DataFrame:
    """Return from, to and items of each band that has items, the surest first.

    Where truth is known also known, right (a share) and its interval low, high.
    """
    band = np.searchsorted(BANDS, np.arange(len(confidence)), side="right")
    groups = confidence.groupby(band)
    found = groups.sum().assign(**{"from": groups["from"].min(), "to": groups["to"].max()})
    found = found[found["items"] > 0][::-1]
    if "known" in found:
        known = found["known"].to_numpy(float)
        with np.errstate(invalid="ignore", divide="ignore"):
            found["right"] = found["right"] / known
            found["low"], found["high"] = wilson(found["right"].to_numpy(), known)
    return found.reset_index(drop=True)


def confusion_frame(counts: Floats, classes: list[str]) -> pd.DataFrame:
    """Return true, said, share (of the answers to that class) and answers, most answers first.

    counts  (n_classes, n_classes) expected answers, [true, said]; right ones are left out.
    """
    wrong = np.where(np.eye(len(classes), dtype=bool), 0.0, counts)
    true, said = np.nonzero(wrong >= 0.5)
    order = np.argsort(-wrong[true, said], kind="stable")[:MOST_CONFUSIONS]
    true, said = true[order], said[order]
    names = np.array(classes, dtype=object)
    return pd.DataFrame(
        {
            "true": names[true],
            "said": names[said],
            "share": wrong[true, said] / counts.sum(axis=1)[true],
            "answers": np.rint(wrong[true, said]).astype(np.int64),
        }
    )


def _classes(outcome: RunResult) -> pd.DataFrame:
    """Return the votes and the labels of each class."""
    labels, decision = outcome.labels, outcome.decision
    cast = votes_by_worker(labels.votes).sum(axis=0)
    found = class_frame(labels.classes.to_pylist(), decision.label, decision.confidence)
    found.insert(1, "votes", cast)
    found.insert(2, "votes_share", cast / max(cast.sum(), 1))
    if outcome.truth is not None:
        inside = outcome.truth[(outcome.truth >= 0) & (outcome.truth < labels.n_classes)]
        found["truth"] = np.bincount(inside, minlength=labels.n_classes)
    return found


def class_frame(classes: list[str], label: Codes, confidence: Floats) -> pd.DataFrame:
    """Return class, labels, labels_share, confidence (the mean, NaN without labels)."""
    given = np.bincount(label, minlength=len(classes))
    with np.errstate(invalid="ignore"):
        mean = np.bincount(label, confidence, len(classes)) / given
    columns = {"labels": given, "labels_share": given / max(given.sum(), 1), "confidence": mean}
    return pd.DataFrame({"class": classes, **columns})


def _items(outcome: RunResult) -> pd.DataFrame:
    """Return a row per item: its label, confidence, runner-up and how its answers voted.

    Outvoted: the label is not the most frequent answer. Overruled: all answers agree on another.
    """
    labels, decision = outcome.labels, outcome.decision
    classes = np.array([*labels.classes.to_pylist(), None], dtype=object)
    answers, votes, majority, most = _count_votes(labels, decision.label)
    columns: dict[str, Any] = {
        "item": labels.items.to_pandas(),
        "label": classes[decision.label],
        "confidence": decision.confidence,
        "runner_up": classes[decision.runner_up],
        "answers": answers,
        "votes": votes,
        "majority": classes[majority],
        "outvoted": votes < most,
        "overruled": (votes == 0) & (most == answers),
        "tie": decision.tied,
    }
    if outcome.truth is not None:
        known = outcome.truth >= 0
        inside = np.where(known & (outcome.truth < labels.n_classes), outcome.truth, -1)
        columns["truth"] = classes[inside]
        columns["right"] = np.where(known, decision.label == outcome.truth, None)
    if labels.gold is not None:
        columns["gold"] = labels.gold >= 0
    columns.update(outcome.item_details)
    order = np.lexsort((np.arange(len(answers)), decision.confidence))
    return pd.DataFrame(columns).iloc[order].reset_index(drop=True)


def _count_votes(labels: Labels, chosen: Codes) -> Codes:
    """Return answers, votes for the label, majority class and its votes, (4, n_items)."""
    votes = labels.votes
    parts = []
    for rows in votes.blocks:
        totals = votes.class_totals(rows)
        own = totals[np.arange(len(totals)), chosen[rows]]
        parts.append([totals.sum(axis=1), own, totals.argmax(axis=1), totals.max(axis=1)])
    return np.hstack(parts).astype(np.int32)


@dataclass(frozen=True)
class Report:
    """The frames of a run and its facts (the content of run.json).

    `missing` says in sentences what the files of the run do not hold and how to get it. `labels`
    are the encoded answers, None where they are not available. `aliases` maps the name of each
    worker to the one that an anonymous report shows. `carried` names the columns of items that
    --keep brought along.
    """

    frames: Frames
    facts: Mapping[str, Any]
    missing: tuple[str, ...] = ()
    labels: Labels | None = None
    aliases: Mapping[str, str] = field(default_factory=dict)
    title: str = ""
    carried: tuple[str, ...] = ()

    def answers_on(self, items: list[str]) -> pd.DataFrame:
        """Return item, worker, label of each answer to these items; empty without the answers."""
        if self.labels is None or not items:
            return pd.DataFrame(columns=["item", "worker", "label"])
        labels = self.labels
        rows = pc.index_in(pa.array(items, pa.string()), labels.items).to_numpy()
        matrix: Any = labels.votes.matrix[rows]  # type: ignore[attr-defined]
        worker, said = np.divmod(matrix.indices, labels.n_classes)
        found = pd.DataFrame(
            {
                "item": np.repeat(np.array(items, dtype=object), np.diff(matrix.indptr)),
                "worker": labels.workers.take(pa.array(worker)).to_pandas(),
                "label": np.array(labels.classes.to_pylist(), dtype=object)[said],
            }
        )
        return found.replace({"worker": dict(self.aliases)}) if self.aliases else found


def build(
    outcome: RunResult,
    facts: Mapping[str, Any],
    answers: Answers | None = None,
    times: Any = None,
    *,
    kept: Mapping[str, Mapping[str, str]] | None = None,
    title: str = "",
) -> Report:
    """Make the report of a run.

    times  when each of these answers was given, in seconds since 1970, if known
    kept   texts of items that --keep carries along: name of the column → item → text
    """
    found = frames(outcome)
    carried = tuple(unused(name, found["items"].columns) for name in kept or ())
    for name in {"items", "ask_again"} & set(found):
        found[name] = with_kept(found[name], kept or {})
    if answers is not None and len(progress := progress_frame(answers, times, outcome)):
        found["progress"] = progress
    return Report(found, facts, labels=outcome.labels, title=title, carried=carried)


def with_kept(frame: pd.DataFrame, kept: Mapping[str, Mapping[str, str]]) -> pd.DataFrame:
    """Return rows of items with the texts that --keep carries along: column → item → text."""
    texts = {unused(name, frame.columns): frame["item"].map(kept[name]).fillna("") for name in kept}
    return frame.assign(**texts)


def anonymized(report: Report) -> Report:
    """Return the report with a number in place of each worker's name.

    The command and the names of files are removed too: they may hold a name.
    """
    frames, aliases = dict(report.frames), {}
    workers = frames.get("workers")
    if workers is not None:
        # worst first, as the page shows them: by the alphabet a number could be traced to the name
        width = len(str(len(workers)))
        aliases = {name: f"worker {at:0{width}}" for at, name in enumerate(workers["worker"], 1)}
        for name in ("workers", "worker_map", "panel"):
            if name in frames:
                frames[name] = frames[name].assign(worker=frames[name]["worker"].map(aliases))
        for name in NAMING_COLUMNS if "alike" in workers else ():
            pairs = zip(workers[name], workers["alike"], strict=True)
            frames["workers"][name] = [_hide(text, other, aliases) for text, other in pairs]
    facts = _without_names(report.facts, aliases)
    return replace(report, frames=frames, facts=facts, aliases=aliases)


def _hide(text: Any, other: Any, aliases: Mapping[str, str]) -> Any:
    """Replace the name of the other worker in a text about a pair of workers."""
    if not isinstance(text, str) or other not in aliases:
        return text
    return re.sub(rf"(?<!\w){re.escape(other)}(?!\w)", lambda _: aliases[other], text)


def _without_names(facts: Mapping[str, Any], aliases: Mapping[str, str]) -> dict[str, Any]:
    """Return the facts without request, command, paths and names of workers."""
    hidden = ("command", "request", "state", "outputs")
    kept = {name: value for name, value in facts.items() if name not in hidden}
    kept["warnings"] = [
        re.sub(r"'([^']*)'", lambda found: aliases.get(found[1], found[0]), str(text))
        for text in facts.get("warnings", [])
    ]
    kept["inputs"] = [{**source, "name": "(hidden)"} for source in facts.get("inputs", [])]
    kept["known"] = {
        name: {**source, "name": "(hidden)"} for name, source in facts.get("known", {}).items()
    }
    return kept
