"""Sparse HOOI beside tensorly's on one tensor."""

from __future__ import annotations

from dataclasses import replace

from measure import in_turn, table, times

from sections.bench import RATIOS, Bench, compare


def tucker(bench: Bench) -> str:
    """Sparse HOOI beside tensorly's on the same 1,000 × 20,000 × 5 tensor."""
    answers = bench.answers(100_000, 1_000)
    peers = ["tensorly-random", *(["tensorly-svd"] if bench.patient else [])]
    ours = bench.script("misc", "ours.py", "tucker", answers)
    # as `misc` sets it for itself
    ours = replace(ours, command=["env", "OPENBLAS_NUM_THREADS=1", *ours.command])
    others = [bench.script(peer, "peers.py", peer, answers, hurried=1) for peer in peers]
    runs = in_turn([ours, *others], bench.repeats)
    base = runs["misc"]
    rows = [
        [tool, f"{m.inner['residual']:.4f}" if m.inner else "", *compare(base, m)]
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
