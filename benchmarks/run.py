"""`make bench`: misc beside its peers, beside plain C, and beside itself at other sizes.

usage: python run.py [--quick] [--largest N] [--repeats N] [--only SECTION ...] [--against DIR]
Nothing is larger than --largest, but for the limit and reading: these need 1 million answers.
Prints markdown and writes it to benchmarks/out/. Run it with the Python of benchmarks/.venv.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from measure import say, table
from sections import PATIENT, SECTIONS
from sections.bench import WORKERS, Bench

QUICK = "up to 100 thousand answers (the limit and reading: 1 million), slow peers less often"
PACKAGES = ("numpy", "scipy", "pandas", "pyarrow", "crowd-kit", "tensorly")


def machine() -> str:
    """Describe the machine and the versions."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        model = names[0].partition(":")[2].strip() if names else model
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    load = " ".join(f"{value:.1f}" for value in os.getloadavg())
    versions = ", ".join(f"{name} {version(name)}" for name in ("misc-cli", *PACKAGES))
    return (
        f"{datetime.now(UTC):%Y-%m-%d} · {model}, {os.cpu_count()} cores, {memory:.0f} GiB, "
        f"{platform.system()} · Python {platform.python_version()} · {versions} · "
        f"load when started {load}\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help=QUICK)
    parser.add_argument("--largest", type=int, default=10_000_000, help="no more answers than this")
    parser.add_argument("--repeats", type=int, default=3, help="of which the best counts")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, help="only these sections")
    parser.add_argument("--against", type=Path, help="another checkout, for the default")
    chosen = parser.parse_args()
    out = Path(__file__).parent / "out"
    out.mkdir(exist_ok=True)
    largest = min(chosen.largest, 100_000 if chosen.quick else 10_000_000)
    bench = Bench(
        out=out,
        sizes=[size for size in WORKERS if size <= largest],
        repeats=chosen.repeats,
        peer_cap=60.0 if chosen.quick else 300.0,
        growth_cap=10.0 if chosen.quick else 150.0,
        patient=not chosen.quick,
        against=chosen.against and chosen.against.resolve(),
    )
    began = time.perf_counter()
    report = [f"# Benchmarks\n\n{machine()}"]
    for name, (title, section) in SECTIONS.items():
        in_time = bench.patient or name not in PATIENT
        if name in chosen.only if chosen.only else in_time:
            say(f"— {title}")
            report.append(f"## {title}\n\n{section(bench)}")
            (out / f"{name}.md").write_text("\n".join([report[0], report[-1]]))
    rows = [[t.promise, t.measured, "yes" if t.kept else "**no**"] for t in bench.targets]
    report.append(f"## Targets\n\n{table(['target', 'measured', 'kept'], rows)}")
    minutes = (time.perf_counter() - began) / 60
    peers = "" if bench.patient else " (crowd-kit twice, tensorly once)"
    report.append(f"Best of {bench.repeats}{peers}, in turn; it took {minutes:.1f} minutes.\n")
    text = "\n".join(report)
    (out / ("quick.md" if chosen.quick else "bench.md")).write_text(text)
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
