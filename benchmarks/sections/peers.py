"""mv and ds-em beside other packages' on the same files."""

from __future__ import annotations

from collections.abc import Mapping

from measure import Run, in_turn, say, seconds, table, times

from sections.bench import HERE, ITERATIONS, NAMES, PURE, RATIOS, TWENTY, Bench, compare


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
            peer = bench.script("crowd-kit", "peers.py", f"crowdkit-{job}", answers, hurried=2)
            cases = [ours, peer]
            if bench.patient and peerannot.exists() and n_answers <= 10_000:
                of_it = f"peerannot-{job}"
                cases.append(
                    bench.script("peerannot", "peers.py", of_it, answers, python=str(peerannot))
                )
            say(f"{name}, {n_answers:,} answers")
            runs = in_turn(cases, bench.repeats)
            for tool, measured in runs.items():
                found[job, n_answers, tool] = measured
                rows.append([name, NAMES[n_answers], tool, *compare(runs["misc"], measured)])
    _peer_promises(bench, found)
    note = "\npeerannot holds a dense items × workers × classes array: 10 k answers only.\n"
    if not (bench.patient and peerannot.exists()):
        note = "\npeerannot is left out: it needs `make bench-peerannot` and the full run.\n"
    return table(header, rows) + note


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
