"""`make bench-scale`: the engines beside each other, and peers at a million answers.

usage: python scale.py [--quick] [--answers N] [--only engines|growth|choice|peers ...]
Answers are simulated here (Parquet, 5 per item, 5 classes, 5,000 workers). Every engine runs once
at the full size and once at a fifth of it, from start to exit. Prints markdown and writes it to
benchmarks/out/scale.md. Run it with the Python of benchmarks/.venv.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as parquet
from measure import say, table
from run import machine

HERE = Path(__file__).parent
OUT = HERE / "out"
ITERATIONS = 20
ENGINES = ("local", "disk", "dask")
METHOD = ("--aggregator", "ds-em", "--no-calibrate", "--tol", "0", "--max-iter", str(ITERATIONS))
N_WORKERS, N_CLASSES, PER_ITEM = 5_000, 5, 5
CHUNK_ITEMS = 200_000
POLL_SECONDS = 0.1
CAP_SECONDS = 600.0
PEER_CAP_SECONDS = 180.0  # it is then said to need more


@dataclass
class Cost:
    """Figures of a run; `peaks` is MiB by process, the largest first."""

    wall: float
    cpu: float
    peaks: list[float]
    iteration: float | None = None
    wire: float | None = None
    parts: dict[str, float] = field(default_factory=dict)
    capped: bool = False
    iterations: int = ITERATIONS


def answers(n_answers: int) -> Path:
    """Simulate answers; each worker has an accuracy of its own."""
    path = OUT / f"scale-{n_answers}.parquet"
    if path.exists():
        return path
    say(f"simulating {n_answers:,} answers")
    random = np.random.default_rng(18)
    skill = random.beta(6, 3, N_WORKERS)
    names = pa.array([f"w{number:04}" for number in range(N_WORKERS)])
    classes = pa.array([f"c{number}" for number in range(N_CLASSES)])
    n_items = n_answers // PER_ITEM
    partial = path.with_suffix(".tmp")
    text = pa.dictionary(pa.int32(), pa.string())
    schema = pa.schema([("worker", text), ("item", pa.string()), ("label", text)])
    with parquet.ParquetWriter(partial, schema) as writer:
        for first in range(0, n_items, CHUNK_ITEMS):
            number = np.arange(first, min(first + CHUNK_ITEMS, n_items))
            truth = np.repeat(random.integers(N_CLASSES, size=len(number)), PER_ITEM)
            # five different workers: consecutive ones from a random start, shuffled by a stride
            start = random.integers(N_WORKERS, size=len(number))
            worker = (start[:, None] + 997 * np.arange(PER_ITEM)).ravel() % N_WORKERS
            right = random.random(len(worker)) < skill[worker]
            label = np.where(right, truth, random.integers(N_CLASSES, size=len(worker)))
            item = np.char.mod("i%08d", np.repeat(number, PER_ITEM))
            columns = [
                pa.DictionaryArray.from_arrays(worker.astype(np.int32), names),
                pa.array(item),
                pa.DictionaryArray.from_arrays(label.astype(np.int32), classes),
            ]
            writer.write_table(pa.table(columns, schema=schema))
    partial.rename(path)
    return path


def measured(
    command: Sequence[str], env: dict[str, str] | None = None, cap: float = CAP_SECONDS
) -> Cost:
    """Return wall and processor seconds and the peak memory of each process."""
    peaks: dict[int, float] = {}
    cpu: dict[int, float] = {}
    capped = False
    started = time.perf_counter()
    with subprocess.Popen(
        command,
        env={**os.environ, **(env or {})},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        ended = threading.Event()
        watcher = threading.Thread(target=_watch, args=(process.pid, peaks, cpu, ended))
        watcher.start()
        try:
            _, errors = process.communicate(timeout=cap)
        except subprocess.TimeoutExpired:
            capped, errors = True, ""
            for member in psutil.Process(process.pid).children(recursive=True):
                member.kill()
            process.kill()
        ended.set()
        watcher.join()
    wall = time.perf_counter() - started
    if process.returncode and not capped:
        raise SystemExit(f"{' '.join(command)}: {errors.strip().splitlines()[-1:]}")
    return Cost(wall, sum(cpu.values()), sorted(peaks.values(), reverse=True), capped=capped)


def _watch(
    pid: int, peaks: dict[int, float], cpu: dict[int, float], ended: threading.Event
) -> None:
    """Read the peaks of all processes now and then; peaks only rise."""
    while not ended.wait(POLL_SECONDS):
        try:
            root = psutil.Process(pid)
            family = [root, *root.children(recursive=True)]
        except psutil.Error:
            continue
        for member in family:
            try:
                status = Path(f"/proc/{member.pid}/status").read_text()
                times = member.cpu_times()
            except (OSError, psutil.Error):
                continue
            high = [line for line in status.splitlines() if line.startswith("VmHWM:")]
            if high:
                peaks[member.pid] = int(high[0].split()[1]) / 1024
                cpu[member.pid] = times.user + times.system


@cache
def ours(engine: str, source: Path, words: tuple[str, ...] = METHOD) -> Cost:
    """Run `misc aggregate` on an engine."""
    output = labels_of(engine, source)
    misc = str(Path(sys.executable).with_name("misc"))
    where: tuple[str, ...] = () if engine == "local" else ("--engine", engine)
    if engine == "disk":
        where = (*where, "--spill", str(OUT))
    cost = measured([misc, "aggregate", str(source), *words, *where, "-o", str(output), "-q"])
    record = record_of(engine, source)
    cost.parts = record["seconds"]
    lines = output.with_suffix(".diagnostics.jsonl").read_text().splitlines()
    cost.iteration = statistics.median(json.loads(line)["seconds"] for line in lines)
    facts: dict[str, Any] = record.get("engine") or {}
    if "sent" in facts:
        cost.wire = (facts["sent"] + facts["received"]) / facts["sweeps"]
    say(f"{engine}, {source.stem}: {cost.wall:.1f} s, {cost.peaks[0]:,.0f} MiB")
    return cost


def labels_of(engine: str, source: Path) -> Path:
    return OUT / f"{source.stem}-{engine}.csv"


def record_of(engine: str, source: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        labels_of(engine, source).with_suffix(".run.json").read_text()
    )
    return found


def _row(name: str, cost: Cost, beside: Cost) -> list[str]:
    peaks = " + ".join(f"{peak:,.0f}" for peak in cost.peaks[:4] if peak > 20)
    return [
        name,
        f"{'> ' if cost.capped else ''}{cost.wall:.1f}",
        f"{'> ' if cost.capped else ''}{cost.wall / beside.wall:.2f}×",
        f"{cost.cpu:.1f}",
        peaks,
        "" if cost.iteration is None else f"{cost.iteration:.3f}",
        "" if cost.wire is None else f"{cost.wire / 1e6:.2f} MB",
    ]


HEADER = [
    f"ds-em, {ITERATIONS} iterations",
    "seconds",
    "of local's",
    "processor s",
    "peak MiB by process",
    "s per iteration",
    "on the wire per sweep",
]


def engines(n_answers: int) -> str:
    """Run each engine once and compare their labels."""
    source = answers(n_answers)
    costs = {engine: ours(engine, source) for engine in ENGINES}
    rows = [_row(engine, cost, costs["local"]) for engine, cost in costs.items()]
    text = f"{n_answers:,} answers, {source.stat().st_size / 2**20:,.0f} MiB of Parquet.\n\n"
    text += table(HEADER, rows) + _same(source)
    stages = {name for cost in costs.values() for name in cost.parts}
    parts = [
        [engine, *(f"{cost.parts.get(stage, 0.0):.1f}" for stage in sorted(stages))]
        for engine, cost in costs.items()
    ]
    text += f"\n\n{table(['seconds by stage', *sorted(stages)], parts)}"
    disk, dask = costs["disk"], costs["dask"]
    gib = disk.peaks[0] / 1024
    promises = [
        ("disk: at most 4 GiB", f"{gib:.2f} GiB", gib <= 4),
        ("disk: at most 3 times local", *_times(disk, costs["local"], 3)),
        ("dask, two workers: at most 4 times local", *_times(dask, costs["local"], 4)),
    ]
    rows = [[what, found, "yes" if kept else "**no**"] for what, found, kept in promises]
    return f"{text}\n\n{table(['target', 'measured', 'kept'], rows)}"


def _same(source: Path) -> str:
    """Say whether all engines wrote the bytes of local."""
    whole = labels_of("local", source).read_bytes()
    text = ""
    for engine in ENGINES[1:]:
        same = labels_of(engine, source).read_bytes() == whole
        text += (
            f"\nLabels of {engine}: {'the bytes of local' if same else '**not local’s bytes**'}."
        )
    return text


def _times(cost: Cost, beside: Cost, most: float) -> tuple[str, bool]:
    ratio = cost.wall / beside.wall
    return f"{ratio:.2f}×", ratio <= most


def growth(n_answers: int) -> str:
    """Run a fifth of the answers and all of them."""
    rows = []
    for engine in ENGINES:
        small, large = (ours(engine, answers(n)) for n in (n_answers // 5, n_answers))
        ratio = large.wall / small.wall
        say(f"{engine}: {ratio:.2f}")
        cells = [f"{cost.wall:.1f}" for cost in (small, large)]
        rows.append([engine, *cells, f"{ratio:.2f}×", "yes" if ratio <= 6 else "**no**"])
    header = ["seconds", f"{n_answers // 5:,}", f"{n_answers:,}", "growth", "at most 6"]
    return table(header, rows)


def choice(n_answers: int) -> str:
    """Run the automatic choice on each engine."""
    source = answers(n_answers // 5)
    costs = {engine: ours(engine, source, ()) for engine in ENGINES}
    rows = []
    for engine, cost in costs.items():
        found = record_of(engine, source)
        softened = found["calibration"] or {}
        rows.append(
            [
                engine,
                f"{cost.wall:.1f}",
                f"{cost.cpu:.1f}",
                f"{cost.peaks[0]:,.0f}",
                ", ".join(found["selection"]["chosen"]),
                f"{softened.get('temperature', 1.0):.9f}",
            ]
        )
    header = ["nothing named", "seconds", "processor s", "peak MiB", "chosen", "temperature"]
    return f"{n_answers // 5:,} answers.\n\n{table(header, rows)}"


def peers(n_answers: int) -> str:
    """Run crowd-kit and a plain DataFrame Dawid–Skene in Spark, and ours."""
    source = answers(n_answers)

    def theirs(which: str) -> Cost:
        inner = OUT / f"scale-{which}.json"
        inner.unlink(missing_ok=True)
        script = [sys.executable, str(HERE / "scale_peers.py"), which, str(source), str(inner)]
        cost = measured(script, {"PYSPARK_PYTHON": sys.executable}, PEER_CAP_SECONDS)
        seconds = json.loads(inner.read_text()) if inner.exists() else []
        cost.iterations = len(seconds)
        if seconds:
            cost.iteration = statistics.median(seconds)
        say(f"{which}: {cost.wall:.1f} s")
        return cost

    costs = {f"misc --engine {engine}": ours(engine, source) for engine in ENGINES}
    costs |= {
        "misc_cli.spark": theirs("ours"),
        "crowd-kit": theirs("crowdkit"),
        "plain pyspark": theirs("plain"),
    }
    first = costs["misc --engine local"]
    rows = [[*_row(name, cost, first), str(cost.iterations)] for name, cost in costs.items()]
    text = table([*HEADER, "iterations"], rows)
    return f"{n_answers:,} answers; at most {PEER_CAP_SECONDS:.0f} s for a peer.\n\n{text}"


SECTIONS: dict[str, tuple[str, Callable[[int], str]]] = {
    "engines": ("The engines", engines),
    "growth": ("Growth", growth),
    "choice": ("The automatic choice", choice),
    "peers": ("Peers", peers),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="5 million answers, peers at 100,000")
    parser.add_argument("--answers", type=int, help="[default: 50 million, or 5 with --quick]")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, help="only these sections")
    chosen = parser.parse_args()
    OUT.mkdir(exist_ok=True)
    n_answers = chosen.answers or (5_000_000 if chosen.quick else 50_000_000)
    sizes = {"peers": 100_000 if chosen.quick else 1_000_000}
    report = [f"# Past one machine\n\n{machine()}"]
    for name, (title, section) in SECTIONS.items():
        if not chosen.only or name in chosen.only:
            say(f"— {title}")
            report.append(f"## {title}\n\n{section(sizes.get(name, n_answers))}")
            (OUT / "scale.md").write_text("\n".join(report))
    sys.stdout.write("\n".join(report))


if __name__ == "__main__":
    main()
