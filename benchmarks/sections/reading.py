"""Parsing and encoding answers, beside the library that does the parsing."""

from __future__ import annotations

from measure import in_turn, seconds, table

from sections.bench import LEAST, NAMES, PURE, Bench


def reading(bench: Bench) -> str:
    """Our read and encode stages beside a bare pyarrow script, on the largest file."""
    n_answers = max(LEAST, *bench.sizes)
    answers = bench.answers(n_answers)
    ours = bench.ours("misc", answers, "--aggregator", "mv", *PURE)
    bare = bench.script("pyarrow", "peers.py", "pyarrow-read", answers)
    runs = in_turn([ours, bare], bench.repeats)
    spent = {name: runs[name].inner["read"] + runs[name].inner["encode"] for name in runs}
    ratio = spent["misc"] / spent["pyarrow"]
    bench.promise(
        f"reading {NAMES[n_answers]} rows: about pyarrow's time (at most 1.5 times)",
        f"{ratio:.2f}×",
        ratio <= 1.5,
    )
    rows = [
        [NAMES[n_answers], name, seconds(spent[name]), f"{spent[name] / spent['pyarrow']:.2f}×"]
        for name in runs
    ]
    note = (
        "\npyarrow alone parses the file and dictionary-encodes its three columns. Ours also looks "
        "at the format, takes the file's checksum, sorts the names, finds repeated and "
        "contradicting answers and builds the sparse votes.\n"
    )
    return table(["answers", "tool", "parse and encode, s", "÷ pyarrow"], rows) + note
