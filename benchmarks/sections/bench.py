"""Paths, sizes and helpers that the sections share."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from measure import Case, Run, json_figures, say, seconds, times

HERE = Path(__file__).parent.parent
CLASSES = 5
ANSWERS_PER_ITEM = 5
ITERATIONS = 20
# crowds grow more slowly than their answers: about with the square root
WORKERS = {10_000: 200, 100_000: 600, 1_000_000: 2_000, 10_000_000: 6_000}
NAMES = {10_000: "10 k", 100_000: "100 k", 1_000_000: "1 M", 10_000_000: "10 M"}
# less than this is over before it can be timed: the limit and reading take it in any run
LEAST = 1_000_000
# the method and nothing around it: peers do not calibrate confidences on hidden answers
PURE = ("--completer", "none", "--no-calibrate")
TWENTY = ("--tol", "0", "--max-iter", str(ITERATIONS))
# how many times more the other needs
RATIOS = ["÷ ours: start to exit", "fit", "CPU", "memory"]


@dataclass(frozen=True)
class Target:
    """A target and the measured figure."""

    promise: str
    measured: str
    kept: bool


@dataclass
class Bench:
    """Settings of a run; one that is not `patient` repeats slow peers less and skips some."""

    out: Path
    sizes: Sequence[int]
    repeats: int
    peer_cap: float
    growth_cap: float
    patient: bool
    against: Path | None = None  # another checkout of misc
    targets: list[Target] = field(default_factory=list)

    @property
    def misc(self) -> str:
        return str(Path(sys.executable).with_name("misc"))

    def answers(self, n_answers: int, n_workers: int | None = None) -> Path:
        """Return a simulated file of this many answers, made once."""
        workers = n_workers or WORKERS[n_answers]
        items = n_answers // ANSWERS_PER_ITEM
        crowd = ("--workers", workers, "--items", items, "--classes", CLASSES, "--seed", 1)
        return self.simulated(f"answers-{n_answers}-{workers}", *crowd)

    def simulated(self, name: str, *crowd: str | float) -> Path:
        """Return the file of this name from `misc simulate` with these options, made once."""
        path = self.out / "data" / f"{name}.csv"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            say(f"simulate {' '.join(map(str, crowd))}")
            more = ("--answers-per-item", ANSWERS_PER_ITEM, "--output", path)
            command = [self.misc, "simulate", *map(str, (*crowd, *more))]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return path

    def ours(
        self,
        name: str,
        answers: Path,
        *options: str,
        cap: float = 600.0,
        with_children: bool = False,
    ) -> Case:
        """Return the case of `misc aggregate`; its run.json has the seconds by stage."""
        command = [self.misc, "aggregate", str(answers), "-o", str(self.out / "ours.csv"), "-q"]
        command += options
        figures = json_figures(self.out / "ours.run.json", "seconds")
        return Case(name, command, figures, cap, with_children=with_children)

    def before(self, name: str, answers: Path, *options: str) -> Case:
        """Return the case of `misc aggregate` of the other checkout, in this environment."""
        command = ["env", f"PYTHONPATH={self.against}", sys.executable, "-P", "-m", "misc_cli"]
        command += ["aggregate", str(answers), "-o", str(self.out / "before.csv"), "-q", *options]
        return Case(name, command)

    def script(
        self,
        name: str,
        script: str,
        job: str,
        answers: Path,
        *,
        python: str = sys.executable,
        hurried: int | None = None,
    ) -> Case:
        """Return the case of one of our scripts; a quick run repeats it at most `hurried` times."""
        figures = self.out / "figures.json"
        files = [str(answers), str(self.out / "peer.csv"), str(figures)]
        command = [python, str(HERE / script), job, *files]
        at_most = None if self.patient else hurried
        return Case(name, command, json_figures(figures), self.peer_cap, at_most)

    def promise(self, promise: str, measured: str, kept: bool) -> None:
        self.targets.append(Target(promise, measured, kept))


def compare(ours: Run, other: Run) -> list[str]:
    """Return the other's figure and its ratio to ours."""
    fit = other.inner.get("fit")
    cells = [
        seconds(other.wall, other.capped),
        "" if fit is None else seconds(fit),
        seconds(other.cpu, other.capped),
        f"{'> ' if other.capped else ''}{other.peak_mib:,.0f}",
    ]
    if other is ours:
        return [*cells, *[""] * len(RATIOS)]
    return [
        *cells,
        times(ours.wall, other.wall, other.capped),
        "" if fit is None else times(ours.inner["fit"], fit),
        times(ours.cpu, other.cpu, other.capped),
        times(ours.peak_mib, other.peak_mib, other.capped),
    ]
