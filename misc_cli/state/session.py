"""A run that goes on where the last one ended: its state, opened before the work, saved after."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from misc_cli import registry
from misc_cli.data.parameters import AUTO
from misc_cli.data.types import Floats, with_prior
from misc_cli.engines.protocol import Engine
from misc_cli.errors import ConfigError
from misc_cli.quality.figures import Figure
from misc_cli.quality.worker_scores import pseudo_counts
from misc_cli.run import fitting
from misc_cli.run.request import AggregateRequest, Fitter
from misc_cli.run.result import RunResult
from misc_cli.run.run_record import gauges, method_of
from misc_cli.state import store
from misc_cli.state.contract import Contract
from misc_cli.state.incremental import IncrementalRun
from misc_cli.state.saved_state import SavedState
from misc_cli.version import __version__
from misc_cli.writers.output_paths import hold, locked
from misc_cli.writers.output_set import Output, content, sha256_of, write_all
from misc_cli.writers.read_back import read_workers

NEVER = "never"
RECHOOSE = 30 * 86400.0  # seconds after which a choice is old
SETTLED = (0.95, 3.0)
PRIOR_WEIGHT = 10.0

clock = time.time  # what a simulated year replaces


@dataclass
class StateSession:
    """The state of a run: opened before the work, saved with its outputs."""

    folder: Path
    night: IncrementalRun
    saved: SavedState | None
    request: AggregateRequest
    before: str | None
    metrics: Path | None = None

    @property
    def record(self) -> dict[str, Any]:
        """Return what run.json says of it: folder, fingerprint before the run, and clock."""
        night = self.night
        return {
            "folder": str(self.folder),
            "before": None if night.saved is None else self.before,
            "now": night.now,
            "methods": night.why,
            "settled": night.n_kept_labels,
        }

    def unchanged(self, inputs: Sequence[Any]) -> dict[str, Figure] | None:
        """Return the last run's figures if this one would write the same bytes again, else None."""
        last = self._last_run
        if last is None:
            return None
        now = {"misc": __version__, "options": self.request.comparable(), "inputs": _inputs(inputs)}
        if any(last[key] != value for key, value in now.items()):
            return None
        if not all(_digest(Path(path)) == sha for path, sha in last["outputs"].items()):
            return None
        return dict(last["figures"])

    def nothing_done(self, figures: Mapping[str, Figure], seconds: Mapping[str, float]) -> None:
        """Write the metrics of a run that did nothing: a collector must not miss it."""
        last = self._last_run
        if self.metrics is None or last is None:
            return
        text = gauges(figures, str(last["method"]), seconds, did_nothing=True)
        write_all([Output(self.metrics, content(text.encode()))])

    @property
    def written(self) -> dict[str, str]:
        """Return the SHA-256 of each file that the last run wrote, by path."""
        return {} if self._last_run is None else dict(self._last_run["outputs"])

    @property
    def _last_run(self) -> Any:
        return None if self.saved is None else self.saved.run

    @property
    def last(self) -> str:
        """Return the time of the last run, in words."""
        assert self.saved is not None
        return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(self.saved.about["written"]))

    def outputs(
        self, outcome: RunResult, inputs: Sequence[Any], set_of: Callable[[], Mapping[Path, str]]
    ) -> list[Output]:
        """Return the files of the new state, to be published with the run's own.

        `set_of` gives the SHA-256 of those, once they are written.
        """

        def more() -> dict[str, Any]:
            run = {
                "misc": __version__,
                "options": self.request.comparable(),
                "inputs": _inputs(inputs),
                "outputs": {str(p): digest for p, digest in set_of().items() if p != self.metrics},
                "figures": json.loads(json.dumps(outcome.figures, default=float)),
                "method": method_of(outcome),
            }
            return {"run": run}

        return _outputs(self.folder, self.night, outcome.posteriors, more)

    def written_down(self) -> None:
        """Remove what only older states need: the new one is published."""
        _prune(self.folder, self.night)

    def summary(self) -> tuple[str, str]:
        """Return a row of the summary."""
        night = 1 if self.night.saved is None else self.night.saved.about["night"] + 1
        kept = f", {self.night.n_kept_labels:,} settled labels" if self.night.settled else ""
        return "state", f"{self.folder}, night {night}: methods {self.night.why}{kept}"


def open_session(
    request: AggregateRequest, places: Mapping[str, Path], now: float | None = None
) -> StateSession | None:
    """Return the state that --state names, checked and locked; None without one.

    `now` is the time of the run in seconds, for a run that is repeated.
    """
    if request.state is None:
        return None
    if "run" not in places:
        raise ConfigError("--state needs -o FILE: it compares with the outputs of the last run")
    folder = Path(request.state)
    for source in map(Path, request.sources):
        if source.is_dir() and folder.resolve().is_relative_to(source.resolve()):
            raise ConfigError(
                f"--state {folder}: lies in {source}, which is read as answers; name another folder"
            )
    store.check_folder(folder)
    hold([folder / store.POINTER])
    saved = store.open_state(folder)
    night = IncrementalRun(
        now=clock() if now is None else now,
        saved=saved,
        rechoose=None if request.rechoose == NEVER else float(request.rechoose or RECHOOSE),
        settled=(request.settled or SETTLED) if request.keep_settled else None,
        contract=contract_of(saved, request.accept),
    )
    before = store.fingerprint(folder)
    return StateSession(folder, night, saved, request, before, places.get("metrics"))


def contract_of(saved: SavedState | None, accept: Sequence[str]) -> Contract:
    """Return the contract that a state has learnt; without a state it is still to be learnt."""
    return Contract.from_json({} if saved is None else saved.about["contract"], accept)


def fitter_of(session: StateSession | None, request: AggregateRequest) -> Fitter | None:
    """Return a function that fits from a state or with known workers; None without either."""
    if session is None and request.workers_prior is None:
        return None
    fit: Any = fitting.fit if session is None else session.night.fit
    if request.workers_prior is None:
        return fit  # type: ignore[no-any-return]
    aggregator = request.settings.aggregator
    able = [
        name
        for name in registry.names("aggregator")
        if getattr(registry.load("aggregator", name), "takes_prior", False)
    ]
    if aggregator != AUTO and aggregator not in able:
        raise ConfigError(
            f"--workers-prior is for {', '.join(able)}, not for {aggregator}: it counts no "
            "worker's answers by true class, so there is nothing to add to"
        )
    table = read_workers(request.workers_prior)
    weight = request.prior_weight or PRIOR_WEIGHT

    def with_known_workers(answers: Engine, *given: Any) -> Any:
        engine = fitting.in_memory(answers)
        counts: Floats = pseudo_counts(engine.labels, table, weight)
        start = with_prior(engine.labels.start, counts)
        return fit(engine.with_labels(replace(engine.labels, start=start)), *given)

    return with_known_workers


@contextmanager
def python_session(folder: Path, accept: Sequence[str] = ()) -> Iterator[IncrementalRun]:
    """Open and lock the state of a run from Python."""
    store.check_folder(folder)
    with locked([folder / store.POINTER]):
        saved = store.open_state(folder)
        night = IncrementalRun(saved, RECHOOSE, contract=contract_of(saved, accept))
        with night.contract.quiet():
            yield night


def save(folder: Path, night: IncrementalRun, posteriors: Floats) -> None:
    """Save the state of a run from Python."""
    write_all(_outputs(folder, night, posteriors, lambda: {"run": None}))
    _prune(folder, night)


def _outputs(
    folder: Path,
    night: IncrementalRun,
    posteriors: Floats,
    more: Callable[[], Mapping[str, Any]],
) -> list[Output]:
    """Return the files of the new state; `more` gives further values, asked for last."""
    about, tables = night.save(posteriors)
    return store.outputs(
        folder, lambda: {**about, **more()}, tables, keep_aside=night.of_other_data
    )


def _prune(folder: Path, night: IncrementalRun) -> None:
    store.prune(folder)
    if night.of_other_data:
        store.prune(folder / store.ASIDE)


def _inputs(files: Sequence[Any]) -> list[list[str]]:
    return [[file.name, file.sha256] for file in files]


def _digest(path: Path) -> str | None:
    try:
        with path.open("rb") as stream:
            return sha256_of(stream)
    except OSError:
        return None
