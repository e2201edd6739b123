"""One run of many over data that grows: what it takes from the state, and what it leaves there.

The choice of methods and the calibration are kept until they are old, until the settings are
others or until the data has clearly moved; methods start where they ended. What is kept is plain
values (`about`) and tables; where they lie is no matter of this module.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from misc_cli.core.decide import decide
from misc_cli.core.start import Start, aligned, with_prior
from misc_cli.core.types import (
    Aggregation,
    Floats,
    Labels,
    Lighten,
    OnIteration,
    without_posteriors,
)
from misc_cli.errors import MiscWarning
from misc_cli.run import fitting
from misc_cli.run.diagnostics import strict
from misc_cli.run.fingerprints import Hashes, item_fingerprints
from misc_cli.run.members import described, fit_members, rebuilt
from misc_cli.run.settings import Methods, Settings
from misc_cli.select.calibrate import Calibration
from misc_cli.select.trial import Candidate

# A choice is made anew when it rests on a quarter of today's answers, when half of them are by
# workers it did not know, or when the shares of the labels are others by a tenth.
GROWTH = 4.0
NEW_WORKERS = 0.5
MOVED_SHARES = 0.1
# Fewer answers than this share by workers that the state knows: it is of other data.
COMMON = 0.1
# Methods of before stay after a new choice while each has this share of the best one's lead over
# the null; a new choice itself asks for more, so that one on the edge does not come and go.
CLEARLY = 0.9
# What later nights need of a choice: the tables behind it stay in that night's run.json.
KEPT = ("chosen", "weights", "fallback", "why")
# The name under which a choice leaves its joint result, for methods without one of their own.
JOINT = "*"

Values = Mapping[str, Any]


@dataclass(frozen=True)
class Left:
    """What the last run left, in today's terms as far as it can be known without today's data."""

    about: Values
    workers: Any
    items: Any

    @property
    def choice(self) -> Values:
        found: Values = self.about["choice"]
        return found

    def of_other_data(self, labels: Labels) -> str | None:
        """Why this is no state of such data; None if it is."""
        classes = labels.classes.to_pylist()
        if not set(classes) & set(self.about["classes"]):
            return "no class of it is among today's"
        known = pc.is_in(labels.workers, self.workers["worker"].combine_chunks())
        share = _answers_by(labels)[known.to_numpy(zero_copy_only=False)].sum()
        share /= max(labels.votes.n_votes, 1)
        if share < COMMON:
            return f"its workers gave only {100 * share:.0f} % of today's answers"
        return None

    def start(self, labels: Labels, member: str) -> Start | None:
        """Where a member ended, for today's workers; None if the classes are others."""
        if labels.classes.to_pylist() != self.about["classes"]:
            return None
        members = self.about["members"]
        name = member if member in members else JOINT
        if name not in members:
            return None
        where = pc.fill_null(pc.index_in(self.workers["worker"], labels.workers), -1)
        where = where.combine_chunks().to_numpy(zero_copy_only=False)
        known = np.zeros(labels.n_workers, dtype=bool)
        known[where[where >= 0]] = True
        kept = members[name]
        arrays = {
            array: aligned(self._array(f"{name}:{array}", shape), where, labels.n_workers)
            for array, shape in kept["workers"].items()
        }
        confusions = arrays.pop("confusions")
        if not known.all():
            confusions[~known] = confusions[known].mean(axis=0)
        shared = {
            array: np.array(entry["values"]).reshape(entry["shape"])
            for array, entry in kept["shared"].items()
        }
        return Start(confusions, np.array(kept["class_prior"]), known, arrays, shared)

    def _array(self, column: str, shape: list[int]) -> Floats:
        return _unlisted(self.workers[column], shape)


@dataclass
class Night:
    """The run of tonight.

    left      what the state holds, None for the first night or if it cannot be used
    rechoose  seconds after which a choice is old; None: never
    settled   confidence and answers from which an item keeps its label until it has new ones
    """

    left: Left | None = None
    rechoose: float | None = None
    settled: tuple[float, float] | None = None
    now: float = field(default_factory=time.time)
    why: str = ""
    n_kept_labels: int = 0
    of_other_data: bool = False
    _choice: dict[str, Any] = field(default_factory=dict)
    _members: dict[str, Aggregation] = field(default_factory=dict)
    _at_choice: Any = None

    def fit(
        self,
        labels: Labels,
        methods: Methods,
        on_iteration: OnIteration,
        lighten: Lighten = without_posteriors,
    ) -> fitting.Fit:
        """As `fitting.fit`, but with what the state knows."""
        if self.left is not None and (other := self.left.of_other_data(labels)) is not None:
            warnings.warn(
                f"the state is of other data ({other}): it is set aside, this run starts from "
                "nothing",
                MiscWarning,
                stacklevel=2,
            )
            self.left, self.of_other_data = None, True
        reason = self._reason_to_choose(labels, methods.settings)
        if reason is None:
            found = self._kept(labels, methods, on_iteration)
        else:
            self.why = f"chosen: {reason}"
            found = self._chosen(labels, methods, on_iteration, lighten)
        return self._with_settled(labels, found)

    def leave(self, labels: Labels, aggregation: Aggregation) -> tuple[dict[str, Any], Values]:
        """What the next night needs: values for JSON, and tables by name."""
        workers: dict[str, Any] = {"worker": labels.workers, "at_choice": self._at_choice}
        members: dict[str, Any] = {}
        for name, fitted in self._members.items():
            arrays = {"confusions": fitted.confusions, **fitted.own_workers}
            for array, values in arrays.items():
                workers[f"{name}:{array}"] = _listed(values)
            members[name] = {
                "class_prior": fitted.class_prior.tolist(),
                "workers": {array: list(values.shape[1:]) for array, values in arrays.items()},
                "shared": {
                    array: {"shape": list(values.shape), "values": values.ravel().tolist()}
                    for array, values in fitted.own_shared.items()
                },
            }
        items = {
            "item": labels.items,
            "answers": _answers_on(labels),
            "fingerprint": item_fingerprints(labels),
            "posteriors": _listed(aggregation.posteriors),
        }
        about = {
            "night": 1 + (self.left.about["night"] if self.left is not None else 0),
            "written": self.now,
            "classes": labels.classes.to_pylist(),
            "answers": labels.votes.n_votes,
            "choice": self._choice,
            "members": members,
        }
        return strict(about), {"workers": pa.table(workers), "items": pa.table(items)}

    def _reason_to_choose(self, labels: Labels, settings: Settings) -> str | None:
        """Why the methods are to be chosen anew, in words; None to keep them."""
        if self.left is None:
            return "there is no earlier choice"
        choice = self.left.choice
        if choice["settings"] != settings_key(settings):
            return "the settings are others"
        if not choice["members"] and not choice["named"]:
            return "there were too few answers to choose by"
        if labels.classes.to_pylist() != self.left.about["classes"]:
            return "the classes are others"
        if self.rechoose is not None and self.now - choice["at"] >= self.rechoose:
            return f"the choice is {(self.now - choice['at']) / 86400:.0f} days old"
        n_answers = labels.votes.n_votes
        if n_answers >= GROWTH * choice["answers"]:
            return f"{n_answers:,} answers, the choice was made by {choice['answers']:,}"
        then = self.left.workers.filter(self.left.workers["at_choice"])["worker"].combine_chunks()
        new = pc.invert(pc.is_in(labels.workers, then)).to_numpy(zero_copy_only=False)
        share = _answers_by(labels)[new].sum() / max(n_answers, 1)
        if share >= NEW_WORKERS:
            return f"{100 * share:.0f} % of the answers are by workers the choice did not know"
        moved = 0.5 * np.abs(_shares(labels) - np.array(choice["shares"])).sum()
        if moved >= MOVED_SHARES:
            return f"the shares of the labels moved by {100 * moved:.0f} %"
        return None

    def _kept(self, labels: Labels, methods: Methods, on_iteration: OnIteration) -> fitting.Fit:
        assert self.left is not None
        choice = self.left.choice
        since = time.strftime("%Y-%m-%d", time.gmtime(choice["at"]))
        self.why = f"kept from {since}"
        self._choice = dict(choice)
        then = self.left.workers.filter(self.left.workers["at_choice"])["worker"].combine_chunks()
        self._at_choice = pc.is_in(labels.workers, then)
        calibration = (
            None if choice["calibration"] is None else Calibration(**choice["calibration"])
        )
        if choice["named"]:
            name = methods.names["aggregator"]
            found = fitting.fit_named(self._started(labels, name), methods, on_iteration)
            self._members = {name: found.aggregation}
            return fitting.calibrated_by(found, labels, calibration)
        members = [rebuilt(entry) for entry in choice["members"]]
        fitted = fit_members(members, self._starts(labels, members), on_iteration)
        self._members = fitted
        selection = {**choice["selection"], "why": f"{choice['selection']['why']}; {self.why}"}
        return fitting.mean_of_members(labels, fitted, calibration, selection)

    def _chosen(
        self,
        labels: Labels,
        methods: Methods,
        on_iteration: OnIteration,
        lighten: Lighten,
    ) -> fitting.Fit:
        found = fitting.fit(labels, methods, on_iteration, lighten)
        self._members = {JOINT: found.aggregation}
        self._at_choice = pa.array(np.ones(labels.n_workers, dtype=bool))
        self._choice = {
            "settings": settings_key(methods.settings),
            "named": not methods.automatic,
            "members": [described(member) for member in found.members],
            "calibration": None if found.calibration is None else dict(found.calibration),
            "selection": _light(found.selection),
            "at": self.now,
            "answers": labels.votes.n_votes,
            "shares": _shares(labels).tolist(),
            "changes": self._changes(0),
        }
        if self.left is None or not self._choice["members"]:
            return found
        before = self.left.choice
        if not before["members"] or before["members"] == self._choice["members"]:
            return found
        if labels.classes.to_pylist() == self.left.about["classes"] and _still_good(
            before, found.selection
        ):
            return self._earlier_members(labels, found, on_iteration)
        self._choice["changes"] = self._changes(1)
        return found

    def _earlier_members(
        self, labels: Labels, found: fitting.Fit, on_iteration: OnIteration
    ) -> fitting.Fit:
        """The methods of before, which the new choice does not clearly beat, with all else new."""
        assert self.left is not None
        before = self.left.choice
        members = [rebuilt(entry) for entry in before["members"]]
        fitted = fit_members(members, self._starts(labels, members), on_iteration)
        names = [member.name for member in members]
        self.why += f"; {', '.join(names)} stay, for nothing is clearly better"
        selection = {**dict(found.selection or {}), **_light(before["selection"]), "chosen": names}
        selection["why"] = f"{selection['why']}; {self.why}"
        self._members = fitted
        self._choice |= {"members": before["members"], "calibration": before["calibration"]}
        self._choice["selection"] = before["selection"]
        calibration = (
            None if before["calibration"] is None else Calibration(**before["calibration"])
        )
        return fitting.mean_of_members(labels, fitted, calibration, selection)

    def _changes(self, one_more: int) -> int:
        """How often the methods changed since the first night."""
        before = 0 if self.left is None else int(self.left.choice["changes"])
        return before + one_more

    def _starts(self, labels: Labels, members: Sequence[Candidate]) -> dict[str, Labels]:
        """Labels with each member's start; one whose few steps are the point of it gets none."""
        return {
            member.name: labels if member.method.brief else self._started(labels, member.name)
            for member in members
        }

    def _started(self, labels: Labels, member: str) -> Labels:
        assert self.left is not None
        own = None if labels.start is None else labels.start.pseudo_counts
        return replace(labels, start=with_prior(self.left.start(labels, member), own))

    def _with_settled(self, labels: Labels, found: fitting.Fit) -> fitting.Fit:
        """Items that were settled and have no new answers keep their posteriors."""
        if self.settled is None or self.left is None:
            return found
        if labels.classes.to_pylist() != self.left.about["classes"]:
            return found
        items = self.left.items
        earlier = _unlisted(items["posteriors"], [labels.n_classes])
        sure, many = self.settled
        settled = decide(earlier).confidence >= sure
        settled &= items["answers"].to_numpy() >= many
        where = pc.fill_null(pc.index_in(items["item"], labels.items), -1)
        where = where.combine_chunks().to_numpy(zero_copy_only=False)
        settled &= where >= 0
        then: Hashes = items["fingerprint"].to_numpy()
        settled[settled] &= item_fingerprints(labels)[where[settled]] == then[settled]
        posteriors = found.aggregation.posteriors.copy()
        posteriors[where[settled]] = earlier[settled]
        self.n_kept_labels = int(settled.sum())
        aggregation = replace(found.aggregation, posteriors=posteriors)
        return replace(found, aggregation=aggregation)


def settings_key(settings: Settings) -> Any:
    """The settings that a choice depends on, as JSON has them."""
    own = asdict(settings)
    return strict({name: own[name] for name in own if name not in ("threads", "time_budget")})


def _still_good(before: Values, selection: Values | None) -> bool:
    """Whether a new choice finds nothing that is clearly better than the methods of before.

    Each of them must still be nearly as far ahead of the null as the best is. A choice that
    completes, or falls back, is another matter.
    """
    was = before["selection"] or {}
    if selection is None or selection.get("fallback") != was.get("fallback"):
        return False
    if any(row["chosen"] for row in selection.get("completed") or []):
        return False
    leads = {row["candidate"]: row["lead"] for row in selection.get("pure") or []}
    least = CLEARLY * max(leads.values(), default=0.0)
    names = [entry["name"] for entry in before["members"]]
    return all(name in leads and leads[name] >= least for name in names)


def _light(selection: Values | None) -> Any:
    """A choice without its tables: what the next nights have to say of it."""
    if selection is None:
        return None
    return {key: selection[key] for key in KEPT if key in selection}


def _shares(labels: Labels) -> Floats:
    """The share of each label among the answers, (n_classes,)."""
    votes = labels.votes
    totals = np.sum([votes.class_totals(rows).sum(axis=0) for rows in votes.blocks], axis=0)
    shares: Floats = totals / totals.sum()
    return shares


def _answers_by(labels: Labels) -> Floats:
    """How many answers each worker gave, (n_workers,)."""
    votes = labels.votes
    counts = np.zeros(votes.n_workers)
    for rows in votes.blocks:
        block = votes.block(rows)
        counts += np.bincount(
            block.indices // votes.n_classes, block.data, minlength=votes.n_workers
        )
    return counts


def _answers_on(labels: Labels) -> Any:
    """How many answers each item has, (n_items,)."""
    votes = labels.votes
    counts = [np.diff(votes.block(rows).indptr) for rows in votes.blocks]
    return np.concatenate(counts).astype(np.int32)


def _listed(values: Floats) -> Any:
    """(n, ...) as a column of lists of one length."""
    width = int(np.prod(values.shape[1:], dtype=np.int64))
    flat = pa.array(np.ascontiguousarray(values, dtype=np.float64).reshape(-1))
    return pa.FixedSizeListArray.from_arrays(flat, width)


def _unlisted(column: Any, shape: list[int]) -> Floats:
    """The column of `_listed` as (n, ...)."""
    chunks = column.combine_chunks()
    values: Floats = chunks.flatten().to_numpy(zero_copy_only=False).reshape(len(chunks), *shape)
    return values
