"""A run over data that grows: it starts from a saved state and makes the next one.

The choice of methods and the calibration are kept until they are old, until the settings are
others or until the data has drifted; methods start where they ended. A new choice takes the place
of the old one only if hidden answers say clearly that it is better (selection/search.py): near a
limit methods would come and go with the luck of the draw, and labels with them.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from misc_cli.data.posteriors import decide
from misc_cli.data.types import (
    Floats,
    Labels,
    Lighten,
    OnIteration,
    with_prior,
    without_posteriors,
)
from misc_cli.data.votes import votes_by_worker, votes_per_item
from misc_cli.engines.local import MemoryEngine
from misc_cli.engines.protocol import POSTERIORS, Engine, Fitted
from misc_cli.errors import MiscWarning
from misc_cli.run import fitting
from misc_cli.run.run_record import described, rebuilt, strict
from misc_cli.run.settings import Methods, Settings
from misc_cli.selection.calibration import Calibration
from misc_cli.selection.candidates import Candidate
from misc_cli.selection.ensemble import FitResult
from misc_cli.state.contract import Contract
from misc_cli.state.saved_state import (
    JOINT,
    SavedState,
    item_fingerprints,
    listed,
    member_tables,
    unlisted,
)

# A choice is made anew when it rests on a quarter of today's answers, when half of them are by
# workers it did not know, or when the shares of the labels are others by a tenth.
GROWTH = 4.0
NEW_WORKERS = 0.5
MOVED_SHARES = 0.1
# Fewer answers than this share by workers that the state knows: it is of other data.
COMMON = 0.1


def reselection_reason(
    saved: SavedState, labels: Labels, settings: Settings, now: float, rechoose: float | None
) -> str | None:
    """Return why the methods are to be chosen anew, in words; None to keep them.

    `rechoose` is the age in seconds from which a choice is old; None: never.
    """
    choice = saved.choice
    if choice["settings"] != settings_key(settings):
        return "the settings are others"
    if not choice["members"] and not choice["named"]:
        return "there were too few answers to choose by"
    if labels.classes.to_pylist() != saved.about["classes"]:
        return "the classes are others"
    if rechoose is not None and now - choice["at"] >= rechoose:
        return f"the choice is {(now - choice['at']) / 86400:.0f} days old"
    n_answers = labels.votes.n_votes
    if n_answers >= GROWTH * choice["answers"]:
        return f"{n_answers:,} answers, the choice was made by {choice['answers']:,}"
    new = pc.invert(pc.is_in(labels.workers, saved.at_choice)).to_numpy(zero_copy_only=False)
    share = _share_by(labels, new)
    if share >= NEW_WORKERS:
        return f"{100 * share:.0f} % of the answers are by workers the choice did not know"
    moved = 0.5 * np.abs(shares(labels) - np.array(choice["shares"])).sum()
    if moved >= MOVED_SHARES:
        return f"the shares of the labels moved by {100 * moved:.0f} %"
    return None


def of_other_data(saved: SavedState, labels: Labels) -> str | None:
    """Return why the state is of other data; None if it is not."""
    if not set(labels.classes.to_pylist()) & set(saved.about["classes"]):
        return "no class of it is among today's"
    known = pc.is_in(labels.workers, saved.workers["worker"].combine_chunks())
    share = _share_by(labels, known.to_numpy(zero_copy_only=False))
    if share < COMMON:
        return f"its workers gave only {100 * share:.0f} % of today's answers"
    return None


def settings_key(settings: Settings) -> Any:
    """Return the settings that a choice depends on, as JSON has them."""
    own = asdict(settings)
    return strict({name: own[name] for name in own if name not in ("threads", "time_budget")})


def shares(labels: Labels) -> Floats:
    """Return the share of each label among the answers, (n_classes,)."""
    totals = votes_by_worker(labels.votes).sum(axis=0)
    found: Floats = totals / totals.sum()
    return found


def _share_by(labels: Labels, workers: npt.NDArray[np.bool_]) -> float:
    """Return the share of the answers that these workers gave; `workers` is (n_workers,)."""
    counts = votes_by_worker(labels.votes).sum(axis=1)
    return float(counts[workers].sum() / max(labels.votes.n_votes, 1))


# What later nights need of a choice: the tables behind it stay in that night's run.json.
KEPT = ("chosen", "weights", "fallback", "why")


@dataclass
class IncrementalRun:
    """A run that starts from a saved state, or from nothing.

    saved     the state, None for the first night or if it cannot be used
    rechoose  seconds after which a choice is old; None: never
    settled   confidence and answers from which an item keeps its label until it has new ones
    contract  what earlier nights had in common
    """

    saved: SavedState | None = None
    rechoose: float | None = None
    settled: tuple[float, float] | None = None
    now: float = field(default_factory=time.time)
    contract: Contract = field(default_factory=Contract)
    why: str = ""
    n_kept_labels: int = 0
    of_other_data: bool = False
    _labels: Labels | None = None
    _choice: dict[str, Any] = field(default_factory=dict)
    _members: dict[str, Fitted] = field(default_factory=dict)
    _at_choice: Any = None

    def fit(
        self,
        answers: Engine,
        methods: Methods,
        on_iteration: OnIteration,
        lighten: Lighten = without_posteriors,
    ) -> FitResult:
        """Fit as `fitting.fit` does, but with what the state knows."""
        engine = fitting.in_memory(answers)
        labels = self._labels = engine.labels
        self.contract.check(labels.classes.to_pylist())
        if self.saved is not None and (other := of_other_data(self.saved, labels)) is not None:
            warnings.warn(
                f"the state is of other data ({other}): it is set aside, this run starts from "
                "nothing",
                MiscWarning,
                stacklevel=2,
            )
            self.saved, self.of_other_data = None, True
        reason: str | None = "there is no earlier choice"
        if self.saved is not None:
            reason = reselection_reason(
                self.saved, labels, methods.settings, self.now, self.rechoose
            )
        if reason is None:
            found = self._kept(engine, methods, on_iteration)
        else:
            self.why = f"chosen: {reason}"
            found = self._chosen(engine, methods, on_iteration, lighten)
        self._freeze(fitting.in_memory(found.engine))
        return found

    def save(self, posteriors: Floats) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the new state: values for JSON, and tables by name."""
        labels = self._labels
        assert labels is not None  # there was a fit
        members, columns = member_tables(self._members)
        workers = {"worker": labels.workers, "at_choice": self._at_choice, **columns}
        tables = {"workers": pa.table(workers)}
        if self.settled is not None:
            items = {
                "item": labels.items,
                "answers": votes_per_item(labels.votes).astype(np.int32),
                "fingerprint": item_fingerprints(labels),
                "posteriors": listed(posteriors),
            }
            tables["items"] = pa.table(items)
        about = {
            "night": 1 + (self.saved.about["night"] if self.saved is not None else 0),
            "written": self.now,
            "classes": labels.classes.to_pylist(),
            "answers": labels.votes.n_votes,
            "contract": self.contract.to_json(),
            "choice": self._choice,
            "members": members,
        }
        return strict(about), tables

    def _kept(self, engine: MemoryEngine, methods: Methods, on_iteration: OnIteration) -> FitResult:
        assert self.saved is not None
        choice, labels = self.saved.choice, engine.labels
        self.why = time.strftime("kept from %Y-%m-%d", time.gmtime(choice["at"]))
        self._choice = dict(choice)
        self._at_choice = pc.is_in(labels.workers, self.saved.at_choice)
        calibration = (
            None if choice["calibration"] is None else Calibration(**choice["calibration"])
        )
        if choice["named"]:
            name = methods.names["aggregator"]
            started = engine.with_labels(self._started(labels, name))
            found = fitting.fit_named(started, methods, on_iteration)
            self._members = {name: found}
            return fitting.calibrated_by(found, calibration)

        def start_of(member: Candidate) -> Labels:
            # a member whose few steps are its point starts from nothing
            return labels if member.method.early_stopped else self._started(labels, member.name)

        members = [rebuilt(entry) for entry in choice["members"]]
        fitted = fitting.fit_members(engine, members, on_iteration, start_of)
        self._members = {trial.candidate.name: trial.fitted for trial in fitted}
        selection = {**choice["selection"], "why": f"{choice['selection']['why']}; {self.why}"}
        found = fitting.mean_as_chosen(engine, fitted, calibration, selection)
        return replace(found, members=())

    def _chosen(
        self,
        engine: MemoryEngine,
        methods: Methods,
        on_iteration: OnIteration,
        lighten: Lighten,
    ) -> FitResult:
        labels = engine.labels
        before = self._incumbent(labels)
        found = fitting.fit(engine, methods, on_iteration, lighten, incumbent=before)
        members = [described(member) for member in found.members]
        changed = self.saved is not None and members != self.saved.choice["members"]
        changes = 0 if self.saved is None else int(self.saved.choice["changes"])
        if before and not changed:
            self.why += f"; {', '.join(before)} stay: nothing is clearly better"
        self._members = {JOINT: found}
        self._at_choice = pa.array(np.ones(labels.n_workers, dtype=bool))
        self._choice = {
            "settings": settings_key(methods.settings),
            "named": not methods.automatic,
            "members": members,
            "calibration": None if found.calibration is None else asdict(found.calibration),
            "selection": {key: value for key, value in found.selection.items() if key in KEPT}
            or None,
            "at": self.now,
            "answers": labels.votes.n_votes,
            "shares": shares(labels).tolist(),
            "changes": changes + changed,
        }
        return found

    def _incumbent(self, labels: Labels) -> dict[str, float] | None:
        """Return the earlier choice's weights by name, if today's labels have the same classes."""
        if self.saved is None or labels.classes.to_pylist() != self.saved.about["classes"]:
            return None
        selection = self.saved.choice["selection"] or {}
        if selection.get("fallback"):  # that was no choice: nothing beat the null
            return None
        return dict(selection.get("weights", {})) or None

    def _started(self, labels: Labels, member: str) -> Labels:
        assert self.saved is not None
        own = None if labels.start is None else labels.start.pseudo_counts
        return replace(labels, start=with_prior(self.saved.start(labels, member), own))

    def _freeze(self, engine: MemoryEngine) -> None:
        """Keep the posteriors of items that were settled and have no new answers."""
        if self.settled is None or self.saved is None or self.saved.items is None:
            return
        if engine.labels.classes.to_pylist() != self.saved.about["classes"]:
            return
        labels, items, (sure, many) = engine.labels, self.saved.items, self.settled
        earlier = unlisted(items["posteriors"], [labels.n_classes])
        settled = decide(earlier).confidence >= sure
        settled &= items["answers"].to_numpy() >= many
        where = pc.fill_null(pc.index_in(items["item"], labels.items), -1)
        where = where.combine_chunks().to_numpy(zero_copy_only=False)
        settled &= where >= 0
        then = items["fingerprint"].to_numpy()
        settled[settled] &= item_fingerprints(labels)[where[settled]] == then[settled]
        posteriors = engine.whole(POSTERIORS).copy()
        posteriors[where[settled]] = earlier[settled]
        engine.put(POSTERIORS, posteriors)
        self.n_kept_labels = int(settled.sum())
