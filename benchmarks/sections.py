"""The sections of the report: each returns its markdown and notes which targets were kept."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from measure import Case, Failed, Run, best, in_turn, json_figures, run, say, seconds, table, times

from misc_cli import registry

HERE = Path(__file__).parent
CLASSES = 5
ANSWERS_PER_ITEM = 5
ITERATIONS = 20
# crowds grow more slowly than their answers: about with the square root
WORKERS = {10_000: 200, 100_000: 600, 1_000_000: 2_000, 10_000_000: 6_000}
NAMES = {10_000: "10 k", 100_000: "100 k", 1_000_000: "1 M", 10_000_000: "10 M"}
# the method and nothing around it: peers do not calibrate confidences on hidden answers
PURE = ("--completer", "none", "--no-calibrate")
TWENTY = ("--tol", "0", "--max-iter", str(ITERATIONS))
# a fixed amount of work per method, so that times compare sizes and not stopping rules
WORK: Mapping[str, Sequence[str]] = {
    "mv": (),
    "mmce-c": ("--tol", "0", "--max-iter", "1"),
    "mmce-o": ("--tol", "0", "--max-iter", "1", "--class-order", "c1,c2,c3,c4,c5"),
    "ebcc": (*TWENTY, "--restarts", "1"),
    "none": (),
    "tucker": ("--ranks", "3,5,5", "--passes", "1"),
    "tenals": ("--passes", "1", "--completer-tol", "0", "--completer-max-iter", "3"),
    "lrtc": ("--passes", "1", "--completer-tol", "0", "--completer-max-iter", "3"),
}
# how many times more the other needs
RATIOS = ["÷ ours: start to exit", "fit", "CPU", "memory"]


@dataclass(frozen=True)
class Target:
    """A promise and what was measured."""

    promise: str
    measured: str
    kept: bool


@dataclass
class Bench:
    """Where things are, and how much to do."""

    out: Path
    sizes: Sequence[int]
    repeats: int
    peer_cap: float
    growth_cap: float
    patient: bool
    targets: list[Target] = field(default_factory=list)

    @property
    def misc(self) -> str:
        return str(Path(sys.executable).with_name("misc"))

    def answers(self, n_answers: int, n_workers: int | None = None) -> Path:
        """A simulated file of this many answers, made once."""
        workers = n_workers or WORKERS[n_answers]
        path = self.out / "data" / f"answers-{n_answers}-{workers}.csv"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            items = n_answers // ANSWERS_PER_ITEM
            say(f"simulate {n_answers:,} answers of {workers:,} workers on {items:,} items")
            crowd = ("--workers", workers, "--items", items, "--classes", CLASSES)
            more = ("--answers-per-item", ANSWERS_PER_ITEM, "--seed", 1, "--output", path)
            command = [self.misc, "simulate", *map(str, (*crowd, *more))]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return path

    def ours(self, name: str, answers: Path, *options: str, cap: float = 600.0) -> Case:
        """`misc aggregate` from start to exit; its run.json has the seconds by stage."""
        command = [self.misc, "aggregate", str(answers), "-o", str(self.out / "ours.csv"), "-q"]
        command += options
        return Case(name, command, json_figures(self.out / "ours.run.json", "seconds"), cap)

    def script(
        self, name: str, script: str, job: str, answers: Path, python: str = sys.executable
    ) -> Case:
        figures = self.out / "figures.json"
        files = [str(answers), str(self.out / "peer.csv"), str(figures)]
        command = [python, str(HERE / script), job, *files]
        return Case(name, command, json_figures(figures), self.peer_cap)

    def promise(self, promise: str, measured: str, kept: bool) -> None:
        self.targets.append(Target(promise, measured, kept))


def beside_peers(bench: Bench) -> str:
    """mv and 20 iterations of ds-em beside the peers' on the same files."""
    peerannot = HERE / ".venv-peerannot" / "bin" / "python"
    header = ["job", "answers", "tool", "start to exit, s", "fit alone, s", "CPU, s", "peak, MiB"]
    header += RATIOS
    rows: list[list[str]] = []
    found: dict[tuple[str, int, str], Run] = {}
    for n_answers in bench.sizes:
        answers = bench.answers(n_answers)
        for job, options in (("mv", ()), ("ds", TWENTY)):
            name = {"mv": "mv", "ds": f"ds-em, {ITERATIONS} iterations"}[job]
            aggregator = "mv" if job == "mv" else "ds-em"
            ours = bench.ours("misc", answers, "--aggregator", aggregator, *PURE, *options)
            cases = [ours, bench.script("crowd-kit", "peers.py", f"crowdkit-{job}", answers)]
            if bench.patient and peerannot.exists() and n_answers <= 10_000:
                python = str(peerannot)
                case = bench.script("peerannot", "peers.py", f"peerannot-{job}", answers, python)
                cases.append(case)
            say(f"{name}, {n_answers:,} answers")
            runs = in_turn(cases, bench.repeats)
            for tool, measured in runs.items():
                found[job, n_answers, tool] = measured
                rows.append([name, NAMES[n_answers], tool, *_compare(runs["misc"], measured)])
    _peer_promises(bench, found)
    note = "\npeerannot holds a dense items × workers × classes array: 10 k answers only.\n"
    if not (bench.patient and peerannot.exists()):
        note = "\npeerannot is left out: it needs `make bench-peerannot` and the full run.\n"
    return table(header, rows) + note


def _compare(ours: Run, other: Run) -> list[str]:
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


def _peer_promises(bench: Bench, found: Mapping[tuple[str, int, str], Run]) -> None:
    if ("ds", 1_000_000, "misc") in found:
        ours, peer = (found["ds", 1_000_000, tool] for tool in ("misc", "crowd-kit"))
        bench.promise(
            "1 M answers, ds-em, 20 iterations: 15× faster than crowd-kit, no more memory",
            f"{times(ours.wall, peer.wall)} faster, {times(ours.peak_mib, peer.peak_mib)} memory",
            peer.wall >= 15 * ours.wall and ours.peak_mib <= peer.peak_mib,
        )
    if ("ds", 10_000_000, "misc") in found:
        ours, peer = found["ds", 10_000_000, "misc"], found["mv", 10_000_000, "crowd-kit"]
        bench.promise(
            "10 M answers, ds-em, 20 iterations: faster than crowd-kit's mv, under 1.5 GiB",
            f"{seconds(ours.wall)} s against {seconds(peer.wall)} s, {ours.peak_mib:,.0f} MiB",
            ours.wall < peer.wall and ours.peak_mib < 1536,
        )


def start_up(bench: Bench) -> str:
    """What a run costs when there is nothing to do."""
    small = bench.answers(100, 10)
    python = sys.executable
    pairs = [
        (
            bench.ours("`misc aggregate`, 100 rows", small, "--completer", "none"),
            Case("`import pandas, scipy.sparse`", [python, "-c", "import pandas, scipy.sparse"]),
        ),
        (
            Case("`misc --help`", [bench.misc, "--help"]),
            Case("`import click`", [python, "-c", "import click"]),
        ),
    ]
    rows = []
    for ours, base in pairs:
        runs = in_turn([ours, base], bench.repeats + 2)
        cost, floor = runs[ours.name], runs[base.name]
        cells = [seconds(value) for value in (cost.wall, floor.wall, cost.cpu, floor.cpu)]
        rows.append([ours.name, base.name, *cells, f"{cost.wall / floor.wall:.2f}×"])
        if ours is pairs[0][0]:
            bench.promise(
                "100 rows, start to exit: at most 1.5 times `import pandas, scipy.sparse`",
                f"{cost.wall / floor.wall:.2f}×",
                cost.wall <= 1.5 * floor.wall,
            )
    header = ["run", "yardstick", "ours, s", "yardstick, s", "ours CPU, s", "its CPU, s", "ratio"]
    return table(header, rows)


def limit(bench: Bench) -> str:
    """Our ds-em iteration as a multiple of a fused C kernel's, on the same threads."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        return "No C compiler here: the limit row is left out.\n"
    binary, votes = bench.out / "yardstick", bench.out / "votes.bin"
    source = str(HERE / "yardstick.c")
    flags = ["-O3", "-march=native", "-ffast-math", "-pthread"]
    subprocess.run([compiler, *flags, "-o", str(binary), source, "-lm"], check=True)
    rows = []
    for n_answers in (1_000_000, 10_000_000):
        if n_answers > max(1_000_000, *bench.sizes):
            continue
        answers = bench.answers(n_answers)
        export = [sys.executable, str(HERE / "ours.py"), "votes", str(answers), str(votes), "-"]
        subprocess.run(export, check=True)
        for threads in (1, 2):
            options = ("--aggregator", "ds-em", *PURE, *TWENTY, "--threads", str(threads))
            fastest: dict[str, float] = {"ours": math.inf, "C": math.inf}
            for _ in range(bench.repeats):
                run(bench.ours("misc", answers, *options))
                lines = (bench.out / "ours.diagnostics.jsonl").read_text().splitlines()
                spent = min(json.loads(line)["seconds"] for line in lines)
                fastest["ours"] = min(fastest["ours"], spent)
                command = [str(binary), str(votes), str(ITERATIONS), str(threads)]
                said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
                fastest["C"] = min(fastest["C"], float(said.split()[0]))
            ratio = fastest["ours"] / fastest["C"]
            cells = [f"{1000 * fastest[name]:.1f}" for name in ("ours", "C")]
            rows.append([f"ds-em, {NAMES[n_answers]}", str(threads), *cells, f"{ratio:.2f}×"])
            if n_answers == 1_000_000:
                bench.promise(
                    f"ds-em per iteration, 1 M answers, {threads} thread(s): at most 3 times C",
                    f"{ratio:.2f}×",
                    ratio <= 3,
                )
    return table(["fastest iteration", "threads", "ours, ms", "fused C, ms", "ours / C"], rows)


def tucker(bench: Bench) -> str:
    """Sparse HOOI beside tensorly's on the same 1,000 × 20,000 × 5 tensor."""
    answers = bench.answers(100_000, 1_000)
    peers = ["tensorly-random", *(["tensorly-svd"] if bench.patient else [])]
    ours = bench.script("misc", "ours.py", "tucker", answers)
    # as `misc` sets it for itself
    ours = replace(ours, command=["env", "OPENBLAS_NUM_THREADS=1", *ours.command])
    runs = in_turn([ours, *(bench.script(p, "peers.py", p, answers) for p in peers)], bench.repeats)
    base = runs["misc"]
    rows = [
        [tool, f"{m.inner['residual']:.4f}" if m.inner else "", *_compare(base, m)]
        for tool, m in runs.items()
    ]
    for tool, least in (("tensorly-random", 10), ("tensorly-svd", 50)):
        if tool in runs:
            peer = runs[tool]
            faster = peer.wall / base.wall
            bench.promise(
                f"tucker (3,5,5), 1,000 × 20,000 × 5: {least}× faster than {tool}, "
                "a tenth of its memory",
                f"{times(base.wall, peer.wall, peer.capped)} faster, "
                f"{times(base.peak_mib, peer.peak_mib, peer.capped)} memory",
                faster >= least and peer.peak_mib > 10 * base.peak_mib,
            )
    header = ["tool", "residual", "start to exit, s", "fit alone, s", "CPU, s", "peak, MiB"]
    return table([*header, *RATIOS], rows)


def misc_loop(bench: Bench) -> str:
    """The whole of MiSC at 1 million answers: tucker (5,10,5) + ds-em, 5 passes."""
    # the paper's last step, which holds the completed matrix, is the heavy one
    loop = ("--completer", "tucker", "--aggregator", "ds-em", "--ranks", "5,10,5")
    options = (*loop, "--final", "completed")
    rows, walls = [], {}
    for n_answers in (100_000, 1_000_000):
        case = bench.ours("misc", bench.answers(n_answers), *options)
        measured = run(case)
        walls[n_answers] = measured.inner["fit"]
        cells = [seconds(measured.wall), seconds(measured.inner["fit"]), seconds(measured.cpu)]
        rows.append([NAMES[n_answers], *cells, f"{measured.peak_mib:,.0f}"])
    growth = walls[1_000_000] / walls[100_000]
    bench.promise(
        "1 M answers, tucker (5,10,5) + ds-em, 5 passes: under 180 s and 6 GiB, "
        "at most 15 times the fit of 100 k",
        f"{rows[-1][1]} s, {rows[-1][4]} MiB, {growth:.1f}×",
        measured.wall < 180 and measured.peak_mib < 6 * 1024 and growth <= 15,
    )
    return table(["answers", "start to exit, s", "fit alone, s", "CPU, s", "peak, MiB"], rows)


def growth(bench: Bench) -> str:
    """Seconds of the fit and peak memory by size, for every method, with the exponent."""
    aggregators = [(name, "none", name) for name in registry.names("aggregator")]
    completers = [(name, name, "mv") for name in registry.names("completer") if name != "none"]
    time_rows, memory_rows = [], []
    for name, completer, aggregator in [*aggregators, *completers]:
        say(f"growth of {name}")
        options = ("--completer", completer, "--aggregator", aggregator, "--no-calibrate")
        runs = _sizes(bench, [*options, *WORK.get(name, TWENTY)])
        spent = {size: measured.inner["fit"] for size, measured in runs.items()}
        memory = {size: measured.peak_mib for size, measured in runs.items()}
        whole = {size: measured.wall for size, measured in runs.items()}
        factors = [_factor(spent), _factor(whole)]
        time_rows.append(
            [name, *(_cell(spent, size) for size in bench.sizes), *factors, exponent(spent)]
        )
        memory_rows.append([name, *(_cell(memory, size, "{:,.0f}") for size in bench.sizes)])
        if name in ("mv", "ds-em", "ds-mf", "mmce-c") and 10_000_000 in bench.sizes:
            done = 10_000_000 in whole
            bench.promise(
                f"{name}, 1 M → 10 M answers, start to exit: at most 12 times the time",
                f"{factors[1]}, the fit alone {factors[0]}" if done else "stopped",
                done and whole[10_000_000] <= 12 * whole[1_000_000],
            )
    sizes = [NAMES[size] for size in bench.sizes]
    return (
        table(["fit, s", *sizes, "last tenfold: fit", "start to exit", "exponent"], time_rows)
        + "\n"
        + table(["peak, MiB", *sizes], memory_rows)
    )


def _sizes(bench: Bench, options: Iterable[str]) -> dict[int, Run]:
    """One method from small to large, until the next size would take longer than the cap."""
    runs: dict[int, Run] = {}
    expected = 0.0
    for size in bench.sizes:
        if expected > bench.growth_cap:
            break
        case = bench.ours("misc", bench.answers(size), *options, cap=2 * bench.growth_cap)
        try:
            done = [run(case)]
        except Failed as reason:
            say(f"{NAMES[size]}: {reason}")
            break
        if done[0].capped:
            break
        repeats = bench.repeats if bench.patient else 1
        while len(done) < repeats and sum(each.wall for each in done) < 30:
            done.append(run(case))
        runs[size] = best(done)
        say(f"{NAMES[size]}: {runs[size].inner['fit']:.3f} s")
        expected = 10 * runs[size].inner["fit"]
    return runs


def _cell(values: Mapping[int, float], size: int, form: str | None = None) -> str:
    if size not in values:
        return "–"
    return seconds(values[size]) if form is None else form.format(values[size])


def _factor(spent: Mapping[int, float]) -> str:
    sizes = sorted(spent)
    return f"{spent[sizes[-1]] / spent[sizes[-2]]:.1f}×" if len(sizes) > 1 else "–"


def exponent(spent: Mapping[int, float]) -> str:
    """Slope of log seconds over log answers, from 100 k on: below, fixed costs rule."""
    points = [(math.log(n), math.log(t)) for n, t in spent.items() if n >= 100_000]
    if len(points) < 2:
        return "–"
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points)
    return f"{slope / sum((x - mean_x) ** 2 for x, _ in points):.2f}"
