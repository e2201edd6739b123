"""`make bench`: misc beside its peers, beside plain C, and beside itself at other sizes.

usage: python run.py [--quick] [--largest N] [--repeats N] [--only SECTION ...]
Prints markdown and writes it to benchmarks/out/. Run it with the Python of benchmarks/.venv.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import sections
from measure import say, table
from sections import Bench

PACKAGES = ("numpy", "scipy", "pandas", "pyarrow", "crowd-kit", "tensorly")


def machine() -> str:
    """What the figures were measured on, and with."""
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
    parser.add_argument("--quick", action="store_true", help="up to 100 thousand answers")
    parser.add_argument("--largest", type=int, default=10_000_000, help="no more answers than this")
    parser.add_argument("--repeats", type=int, default=3, help="of which the best counts")
    parser.add_argument("--only", nargs="+", metavar="SECTION", help="only these sections")
    chosen = parser.parse_args()
    out = Path(__file__).parent / "out"
    out.mkdir(exist_ok=True)
    largest = min(chosen.largest, 100_000 if chosen.quick else 10_000_000)
    bench = Bench(
        out=out,
        sizes=[size for size in sections.WORKERS if size <= largest],
        repeats=chosen.repeats,
        peer_cap=60.0 if chosen.quick else 300.0,
        growth_cap=10.0 if chosen.quick else 150.0,
        patient=not chosen.quick,
    )
    parts: dict[str, tuple[str, Callable[[], str]]] = {
        "startup": ("Start-up", lambda: sections.start_up(bench)),
        "limit": ("The limit: a fused C kernel", lambda: sections.limit(bench)),
        "peers": ("Beside the peers", lambda: sections.beside_peers(bench)),
        "tucker": (
            "Tucker alone, 1,000 workers × 20,000 items × 5 classes, 100 k answers, ranks (3,5,5)",
            lambda: sections.tucker(bench),
        ),
        "loop": ("tucker (5,10,5) + ds-em, 5 passes", lambda: sections.misc_loop(bench)),
        "growth": ("Growth", lambda: sections.growth(bench)),
    }
    if not bench.patient:
        del parts["loop"]
    began = time.perf_counter()
    report = [f"# Benchmarks\n\n{machine()}"]
    for name, (title, section) in parts.items():
        if chosen.only is None or name in chosen.only:
            say(f"— {title}")
            report.append(f"## {title}\n\n{section()}")
            (out / f"{name}.md").write_text("\n".join([report[0], report[-1]]))
    rows = [[t.promise, t.measured, "yes" if t.kept else "**no**"] for t in bench.targets]
    report.append(f"## Targets\n\n{table(['target', 'measured', 'kept'], rows)}")
    minutes = (time.perf_counter() - began) / 60
    report.append(f"Best of {bench.repeats}, in turn; all of it took {minutes:.1f} minutes.\n")
    text = "\n".join(report)
    (out / ("quick.md" if chosen.quick else "bench.md")).write_text(text)
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
