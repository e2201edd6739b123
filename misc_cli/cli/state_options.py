"""`--state` and its like: a run of `misc aggregate` that goes on where the last one ended."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from misc_cli.cli import options
from misc_cli.cli.parameters import DurationOr, Numbers
from misc_cli.data.parameters import flag
from misc_cli.errors import ConfigError
from misc_cli.version import __version__

if TYPE_CHECKING:
    from misc_cli.data.types import Floats, Labels
    from misc_cli.run.request import Fitter
    from misc_cli.run.result import Figure, Outcome
    from misc_cli.state.incremental import IncrementalRun
    from misc_cli.state.store import Stored
    from misc_cli.writers.output_set import Output

F = TypeVar("F", bound=Callable[..., Any])

_nightly = partial(options.option, section="Every night")
NEVER = "never"
SETTLED = (0.95, 3.0)
PRIOR_WEIGHT = 10.0
# What may differ between two runs that are the same: none of it changes a byte of an output.
WITHOUT_EFFECT = ("quiet", "verbose", "threads", "fail_if", "state", "rechoose")

clock = time.time  # what a simulated year replaces


def flags() -> Callable[[F], F]:
    """The flags of a run among many."""
    return options.apply(
        _nightly(
            "--state",
            metavar="DIR",
            help="Start where the last run with this folder ended: methods and calibration are "
            "kept, fits start warm, and nothing is done if nothing changed. Needs -o.",
        ),
        _nightly(
            "--rechoose",
            type=DurationOr(NEVER),
            metavar="TIME",
            help="How old a choice of methods may get: 30d, 2w, never [default: 30d]. It is also "
            "made anew when the data has clearly moved.",
        ),
        _nightly(
            "--keep-settled",
            is_flag=True,
            help="Items that are settled keep their label until they get new answers.",
        ),
        _nightly(
            "--settled",
            type=Numbers(float, count=2),
            metavar="C,N",
            help="Settled means a confidence from C and at least N answers [default: 0.95,3].",
        ),
        _nightly(
            "--workers-prior",
            metavar="FILE",
            help="What is known of workers, as --workers wrote it, also in another project; for "
            "ds-em, ds-mf, ebcc and one-coin.",
        ),
        _nightly(
            "--prior-weight",
            type=click.FloatRange(min=0.0, min_open=True),
            metavar="N",
            help="Answers per class that it counts for, at most those it rests on [default: 10].",
        ),
    )


@dataclass
class StateSession:
    """The state of a run: opened before the work, left after it."""

    folder: Path
    night: IncrementalRun
    stored: Stored | None
    options: Any
    before: str | None
    metrics: Path | None = None

    @property
    def record(self) -> dict[str, Any]:
        """What run.json says of it: where it is, what it was before the run, and the clock."""
        night = self.night
        return {
            "folder": str(self.folder),
            "before": None if night.left is None else self.before,
            "now": night.now,
            "methods": night.why,
            "settled": night.n_kept_labels,
        }

    def unchanged(self, inputs: Sequence[Any]) -> dict[str, Figure] | None:
        """The figures of the last run if this one would write the same bytes again; else None."""
        last = self._last_run
        if last is None:
            return None
        now = {"misc": __version__, "options": self.options, "inputs": _inputs(inputs)}
        if any(last[key] != value for key, value in now.items()):
            return None
        if not all(_digest(Path(path)) == sha for path, sha in last["outputs"].items()):
            return None
        found: dict[str, Figure] = last["figures"]
        return found

    def nothing_done(self, figures: Mapping[str, Figure], seconds: Mapping[str, float]) -> None:
        """Metrics are of every run: whoever collects them must not take this one for missing."""
        last = self._last_run
        if self.metrics is None or last is None:
            return
        from misc_cli.run.prometheus import gauges
        from misc_cli.writers.output_set import Output, content, write_all

        text = gauges(figures, str(last["method"]), seconds, did_nothing=True)
        write_all([Output(self.metrics, content(text.encode()))])

    @property
    def written(self) -> dict[str, str]:
        """The SHA-256 of what the last run wrote, by path."""
        found: dict[str, str] = {} if self._last_run is None else self._last_run["outputs"]
        return found

    @property
    def _last_run(self) -> Mapping[str, Any] | None:
        """What the last run of the command line read and wrote; None if Python was at it."""
        return None if self.stored is None else self.stored.about["run"]

    @property
    def last(self) -> str:
        """When the last run was."""
        assert self.stored is not None
        return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(self.stored.about["written"]))

    def outputs(
        self, outcome: Outcome, inputs: Sequence[Any], set_of: Callable[[], Mapping[Path, str]]
    ) -> list[Output]:
        """What the next night needs, to be written with the run's own files.

        `set_of` tells the SHA-256 of those, once they are written.
        """
        from misc_cli.run.prometheus import method_of
        from misc_cli.state.store import state_outputs

        def more() -> dict[str, Any]:
            run = {
                "misc": __version__,
                "options": self.options,
                "inputs": _inputs(inputs),
                "outputs": {str(p): digest for p, digest in set_of().items() if p != self.metrics},
                "figures": json.loads(json.dumps(outcome.figures, default=float)),
                "method": method_of(outcome),
            }
            return {"run": run}

        return state_outputs(self.folder, self.night, outcome.aggregation, more)

    def written_down(self) -> None:
        """The new state is there with the outputs."""
        from misc_cli.state.store import kept

        kept(self.folder, self.night)

    def summary(self) -> tuple[str, str]:
        """A line for those who read the summary."""
        night = 1 if self.night.left is None else self.night.left.about["night"] + 1
        kept = f", {self.night.n_kept_labels:,} settled labels" if self.night.settled else ""
        return "state", f"{self.folder}, night {night}: methods {self.night.why}{kept}"


def open_state(parameters: Mapping[str, Any], places: Mapping[str, Path]) -> StateSession | None:
    """The state that --state names, checked and locked; flags that need one are refused without."""
    if parameters["state"] is None:
        for name in ("rechoose", "keep_settled", "settled"):
            if parameters[name]:
                raise ConfigError(f"{flag(name)} needs --state: nothing is remembered")
        return None
    if "run" not in places:
        raise ConfigError("--state needs -o FILE: it compares with the outputs of the last run")
    if parameters["settled"] is not None and not parameters["keep_settled"]:
        raise ConfigError("--settled says what --keep-settled means; give that, too")
    from misc_cli.state import store
    from misc_cli.state.incremental import IncrementalRun
    from misc_cli.state.store import RECHOOSE, left_of, opened
    from misc_cli.writers.output_paths import hold

    folder = Path(parameters["state"])
    _refuse_within_inputs(folder, parameters["answers"])
    store.check_folder(folder)
    hold([folder / store.POINTER])
    stored = opened(folder)
    rechoose = parameters["rechoose"]
    night = IncrementalRun(
        now=clock(),
        left=left_of(stored),
        rechoose=None if rechoose == NEVER else rechoose or RECHOOSE,
        settled=(parameters["settled"] or SETTLED) if parameters["keep_settled"] else None,
    )
    own = {name: value for name, value in parameters.items() if name not in WITHOUT_EFFECT}
    before = store.fingerprint(folder)
    return StateSession(folder, night, stored, plain(own), before, places.get("metrics"))


def _refuse_within_inputs(folder: Path, sources: Sequence[str]) -> None:
    """A state in a folder that is read would be read as answers the next night."""
    place = folder.resolve()
    for source in map(Path, sources):
        if source.is_dir() and place.is_relative_to(source.resolve()):
            raise ConfigError(
                f"--state {folder}: lies in {source}, which is read as answers; name another folder"
            )


def plain(asked: Mapping[str, Any]) -> Any:
    """The parameters of a command as JSON has them; secrets of an address are left out."""
    from misc_cli.readers.remote import redact

    def safe(value: Any) -> Any:
        if isinstance(value, str):
            return redact(value)
        return [safe(entry) for entry in value] if isinstance(value, list) else value

    values = json.loads(json.dumps(dict(asked), default=str))
    return {name: safe(value) for name, value in values.items()}


def fitter(tonight: StateSession | None, parameters: Mapping[str, Any], aggregator: str) -> Fitter:
    """How labels are fitted: as always, or with what is known from before."""
    from misc_cli.run import fitting

    fit: Any = fitting.fit if tonight is None else tonight.night.fit
    if parameters["workers_prior"] is None:
        if parameters["prior_weight"] is not None:
            raise ConfigError("--prior-weight is for --workers-prior; name a file")
        return fit  # type: ignore[no-any-return]
    from dataclasses import replace

    from misc_cli import registry
    from misc_cli.data.parameters import AUTO
    from misc_cli.data.types import with_prior
    from misc_cli.quality.worker_scores import pseudo_counts
    from misc_cli.writers.read_back import read_workers

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
    table = read_workers(parameters["workers_prior"])
    weight = parameters["prior_weight"] or PRIOR_WEIGHT

    def with_known_workers(labels: Labels, *given: Any) -> Any:
        counts: Floats = pseudo_counts(labels, table, weight)
        return fit(replace(labels, start=with_prior(labels.start, counts)), *given)

    return with_known_workers


def _inputs(files: Sequence[Any]) -> list[list[str]]:
    return [[file.name, file.sha256] for file in files]


def _digest(path: Path) -> str | None:
    from misc_cli.writers.output_set import sha256_of

    try:
        with path.open("rb") as stream:
            return sha256_of(stream)
    except OSError:
        return None
