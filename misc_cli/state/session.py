"""A run over data that grows: it starts from a saved state and makes the next one.

The choice of methods and the calibration are kept until they are old, until the settings are
others or until the data has drifted; methods start where they ended. A new choice takes the place
of the old one only if hidden answers say clearly that it is better (selection/search.py): near a
limit methods would come and go with the luck of the draw, and labels with them.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from misc_cli.data.posteriors import decide
from misc_cli.data.types import Floats, Labels, Lighten, OnIteration
from misc_cli.data.votes import votes_by_worker, votes_per_item
from misc_cli.engines.local import MemoryEngine
from misc_cli.engines.protocol import POSTERIORS, Engine, Fitted
from misc_cli.engines.views import behind, gathered_engine
from misc_cli.errors import ConfigError, InputError, MiscWarning
from misc_cli.run import pipeline
from misc_cli.run.request import ACCEPTABLE, AggregateRequest
from misc_cli.run.result import RunResult
from misc_cli.run.run_record import described, read_record, rebuilt, request_of, strict
from misc_cli.run.settings import Methods, Settings
from misc_cli.selection.calibration import Calibration
from misc_cli.selection.candidates import Trial
from misc_cli.selection.candidates import fit as fit_method
from misc_cli.selection.ensemble import FitResult, combine, mean_of
from misc_cli.state import store
from misc_cli.state.store import JOINT, item_fingerprints, listed, member_tables, unlisted
from misc_cli.version import __version__
from misc_cli.writers.output_paths import locked
from misc_cli.writers.output_set import WHOLE, verify

RECHOOSE = 30 * 86400.0  # seconds after which a choice is old
SETTLED = (0.95, 3.0)
# A choice is made anew when it rests on a quarter of today's answers, when half of them are by
# workers it did not know, or when the shares of the labels are others by a tenth.
GROWTH = 4.0
NEW_WORKERS = 0.5
MOVED_SHARES = 0.1
# What later nights need of a choice: the tables behind it stay in that night's run.json.
KEPT = ("chosen", "weights", "fallback", "why")

clock = time.time  # what a simulated year replaces

LABELS, COLUMNS, FORMAT, DUPLICATES = ACCEPTABLE
NAMES_SHOWN = 3


class Contract:
    """The labels, columns and forms of files that the nights of a state have in common.

    The first night teaches it. On a later night something new of a kind is an error that names the
    flag to accept it (--accept); what is accepted once is known from then on. So is a warning:
    workers who copy others are not told of again.
    """

    def __init__(self, known: Mapping[str, Iterable[str]], accept: Iterable[str]) -> None:
        self.known = {kind: set(known.get(kind, ())) for kind in ACCEPTABLE}
        self.seen: dict[str, set[str]] = {kind: set() for kind in ACCEPTABLE}
        self.accept = frozenset(accept)

    def to_json(self) -> dict[str, list[str]]:
        """Return everything that is known after this night, by kind."""
        found = {kind: self.known[kind] | self.seen[kind] for kind in ACCEPTABLE}
        if DUPLICATES not in self.accept:
            found[DUPLICATES] = self.known[DUPLICATES]
        return {kind: sorted(texts) for kind, texts in found.items()}

    def see(self, files: Iterable[Any]) -> None:
        """Note how files were read, in words."""
        for file in files:
            is_each = "a column for each" in file.columns.values()  # a label with each worker
            own = {r: n for r, n in file.columns.items() if not (is_each and r == "label")}
            roles = [role for role in ("worker", "item", "label") if role in own]
            self.seen[COLUMNS].add(", ".join(f"{role} = {own[role]}" for role in roles))
            delimiter = None if file.delimiter is None else f"delimiter {file.delimiter!r}"
            header = "no header" if file.header is False else None
            form = (file.format, delimiter, header, file.reader)
            self.seen[FORMAT].add(", ".join(filter(None, form)))

    def check(self, labels: Iterable[str]) -> None:
        """Note tonight's labels; raise InputError if anything is new and not accepted."""
        self.seen[LABELS] = set(labels)
        wrong = {
            kind: f"{_shown(new)} (so far: {_shown(self.known[kind])})"
            for kind in (COLUMNS, FORMAT, LABELS)
            if kind not in self.accept
            and self.known[kind]
            and (new := self.seen[kind] - self.known[kind])
        }
        if wrong:
            raise InputError(
                f"not as on earlier nights: {', '.join(wrong)}: {'; '.join(wrong.values())}; "
                "nothing is written; if that is right, add --accept " + ",".join(wrong)
            )

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Pass over warnings of workers that were accepted; note those of others."""
        earlier: Any = warnings.showwarning

        def show(message: Warning | str, *rest: Any, **more: Any) -> None:
            if isinstance(message, MiscWarning) and message.copies:
                self.seen[DUPLICATES].update(message.copies)
                if message.copies <= set(self.to_json()[DUPLICATES]):
                    return
            earlier(message, *rest, **more)

        with warnings.catch_warnings():
            warnings.showwarning = show
            yield


def _shown(texts: Iterable[str]) -> str:
    shown = sorted(map(repr, texts))
    return ", ".join(shown[:NAMES_SHOWN]) + (", …" if len(shown) > NAMES_SHOWN else "")


def settings_key(settings: Settings) -> Any:
    """Return the settings that a choice depends on, as JSON has them."""
    own = asdict(settings)
    return strict({name: own[name] for name in own if name not in ("threads", "time_budget")})


def shares(labels: Labels) -> Floats:
    """Return the share of each label among the answers, (n_classes,)."""
    totals = votes_by_worker(labels.votes).sum(axis=0)
    found: Floats = totals / totals.sum()
    return found


class StateSession:
    """A run that starts from a saved state, or from nothing, and saves the next one.

    saved     the state, None for the first night
    contract  what earlier nights had in common
    rechoose  seconds after which a choice is old; None: never
    settled   confidence and answers from which an item keeps its label until it has new ones
    """

    def __init__(self, request: AggregateRequest) -> None:
        self.request = request
        self.folder = Path(str(request.state))
        self.now = clock()
        self.saved = store.load(self.folder)
        self.night = 1 if self.saved is None else int(self.saved.about["night"]) + 1
        known = {} if self.saved is None else self.saved.about["contract"]
        self.contract = Contract(known, request.accept)
        self.rechoose = None if request.rechoose == "never" else float(request.rechoose or RECHOOSE)
        self.settled = (request.settled or SETTLED) if request.keep_settled else None
        self.why, self.n_kept_labels = "", 0
        self._labels: Labels | None = None
        self._choice: dict[str, Any] = {}
        self._members: dict[str, Fitted] = {}
        self._at_choice: Any = None

    def reselection_reason(self, labels: Labels, settings: Settings) -> str | None:
        """Return why the methods are to be chosen anew, in words; None to keep them."""
        if self.saved is None:
            return "there is no earlier choice"
        choice, n_answers = self.saved.choice, labels.votes.n_votes
        if choice["settings"] != settings_key(settings):
            return "the settings are others"
        if not choice["members"] and not choice["named"]:
            return "there were too few answers to choose by"
        if not self.saved.has_classes_of(labels):
            return "the classes are others"
        if self.rechoose is not None and self.now - choice["at"] >= self.rechoose:
            return f"the choice is {(self.now - choice['at']) / 86400:.0f} days old"
        if n_answers >= GROWTH * choice["answers"]:
            return f"{n_answers:,} answers, the choice was made by {choice['answers']:,}"
        known = pc.is_in(labels.workers, self.saved.at_choice).to_numpy(zero_copy_only=False)
        share = 1.0 - votes_by_worker(labels.votes)[known].sum() / max(n_answers, 1)
        if share >= NEW_WORKERS:
            return f"{100 * share:.0f} % of the answers are by workers the choice did not know"
        moved = 0.5 * np.abs(shares(labels) - np.array(choice["shares"])).sum()
        if moved >= MOVED_SHARES:
            return f"the shares of the labels moved by {100 * moved:.0f} %"
        return None

    @property
    def record(self) -> dict[str, Any]:
        """Return what run.json says of it."""
        return {
            "folder": str(self.folder),
            "night": self.night,
            "now": self.now,
            "methods": self.why,
            "settled": self.n_kept_labels,
        }

    def summary(self) -> tuple[str, str]:
        """Return a row of the summary."""
        kept = f", {self.n_kept_labels:,} settled labels" if self.settled else ""
        return "state", f"{self.folder}, night {self.night}: methods {self.why}{kept}"

    def fit(
        self, answers: Engine, methods: Methods, on_iteration: OnIteration, lighten: Lighten
    ) -> FitResult:
        """Fit as `pipeline.fit` does, but with what the state knows."""
        engine = gathered_engine(behind(answers))
        labels = self._labels = engine.labels
        self.contract.check(labels.classes.to_pylist())
        reason = self.reselection_reason(labels, methods.settings)
        if reason is None:
            found = self._as_chosen(engine, methods, on_iteration)
        else:
            self.why = f"chosen: {reason}"
            found = self._chosen(engine, methods, on_iteration, lighten)
        assert isinstance(found.engine, MemoryEngine)
        self._freeze(found.engine)
        return found

    def _as_chosen(
        self, engine: MemoryEngine, methods: Methods, on_iteration: OnIteration
    ) -> FitResult:
        """Fit the methods of the earlier choice, each from where it ended."""
        assert self.saved is not None
        saved, labels, choice = self.saved, engine.labels, self.saved.choice
        self.why = time.strftime("kept from %Y-%m-%d", time.gmtime(choice["at"]))
        self._choice = dict(choice)
        self._at_choice = pc.is_in(labels.workers, saved.at_choice)
        softened = choice["calibration"]
        calibration = None if softened is None else Calibration(**softened)

        def started(name: str) -> Labels:
            return replace(labels, start=saved.start(labels, name))

        if choice["named"]:
            name = methods.names["aggregator"]
            found = pipeline.fit_named(engine.with_labels(started(name)), methods, on_iteration)
            self._members = {name: found}
            if calibration is not None:
                combine(found.engine, [POSTERIORS], [1.0], calibration=calibration)
            return replace(found, calibration=calibration)
        selection = {**choice["selection"], "why": f"{choice['selection']['why']}; {self.why}"}
        trials = []
        for member in map(rebuilt, choice["members"]):
            # a member whose few steps are its point starts from nothing
            here = engine.with_labels(labels if member.early_stopped else started(member.name))
            ended = fit_method(member, here, on_iteration)
            trials.append(Trial(member, ended, here.whole(POSTERIORS)))
        self._members = {trial.method.name: trial.fitted for trial in trials}
        weights = selection.get("weights", {})
        found = mean_of(
            engine,
            trials,
            [weights.get(name, 1.0) for name in self._members],
            selection,
            by_votes=bool(selection.get("fallback")),
            calibration=calibration,
        )
        return replace(found, members=())

    def _chosen(
        self, engine: MemoryEngine, methods: Methods, on_iteration: OnIteration, lighten: Lighten
    ) -> FitResult:
        """Fit with a new choice; the earlier one is replaced only by what is clearly better."""
        labels, before = engine.labels, None
        if self.saved is not None and self.saved.has_classes_of(labels):
            selection = self.saved.choice["selection"] or {}
            if not selection.get("fallback"):  # that was no choice: nothing beat the null
                before = dict(selection.get("weights", {})) or None
        found = pipeline.fit(engine, methods, on_iteration, lighten, incumbent=before)
        members = [described(member) for member in found.members]
        if before and self.saved and members == self.saved.choice["members"]:
            self.why += f"; {', '.join(before)} stay: nothing is clearly better"
        self._members = {JOINT: found}
        self._at_choice = pa.array(np.ones(labels.n_workers, dtype=bool))
        kept = {key: value for key, value in found.selection.items() if key in KEPT}
        self._choice = {
            "settings": settings_key(methods.settings),
            "named": not methods.automatic,
            "members": members,
            "calibration": None if found.calibration is None else asdict(found.calibration),
            "selection": kept or None,
            "at": self.now,
            "answers": labels.votes.n_votes,
            "shares": shares(labels).tolist(),
        }
        return found

    def _freeze(self, engine: MemoryEngine) -> None:
        """Keep the posteriors of items that were settled and have no new answers."""
        labels = engine.labels
        if self.settled is None or self.saved is None or self.saved.items is None:
            return
        if not self.saved.has_classes_of(labels):
            return
        items, (sure, many) = self.saved.items, self.settled
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
        engine.arrays[POSTERIORS] = posteriors
        self.n_kept_labels = int(settled.sum())

    def unchanged(self, inputs: Sequence[Any], run_file: Path) -> dict[str, Any] | None:
        """Return the record of the last run if this one would write the same bytes again.

        That is so if the run.json in place is of the run that saved the state, was asked for the
        same and read the same, and its set is whole.
        """
        if self.saved is None or not run_file.is_file():
            return None
        try:
            last = read_record(str(run_file))
            same = request_of(last, "").comparable() == self.request.comparable()
        except InputError:
            return None
        then = [*last.get("inputs", []), *last.get("known", {}).values()]
        read = [(one["name"], one["sha256"]) for one in then]
        same &= read == [(one.name, one.sha256) for one in inputs]
        same &= (last.get("state") or {}).get("now") == self.saved.about["written"]
        same &= last["misc"] == __version__
        whole = same and all(state == WHOLE for _, _, state in verify(run_file))
        return last if whole else None

    def outputs(self, outcome: RunResult) -> dict[Path, bytes]:
        """Return the files of the new state, to be published with the run's own."""
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
                "posteriors": listed(outcome.posteriors),
            }
            tables["items"] = pa.table(items)
        about = {
            "night": self.night,
            "written": self.now,
            "classes": labels.classes.to_pylist(),
            "answers": labels.votes.n_votes,
            "contract": self.contract.to_json(),
            "choice": self._choice,
            "members": members,
        }
        return store.outputs(self.folder, strict(about), tables)


@contextmanager
def opened(request: AggregateRequest) -> Iterator[StateSession]:
    """Open and lock the state that a request names."""
    folder = Path(str(request.state))
    for source in map(Path, request.sources):
        if source.is_dir() and folder.resolve().is_relative_to(source.resolve()):
            raise ConfigError(
                f"--state {folder}: lies in {source}, which is read as answers; name another folder"
            )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"--state {folder}: {error.strerror}; name a folder") from None
    with locked([folder / store.POINTER]):
        session = StateSession(request)
        with session.contract.quiet():
            yield session
