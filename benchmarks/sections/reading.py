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
    # what pyarrow does too, from bytes to codes, and what only we do, from codes to votes
    codes = {
        "misc": runs["misc"].inner["read"],
        "pyarrow": runs["pyarrow"].inner["read"] + runs["pyarrow"].inner["encode"],
    }
    votes = {"misc": runs["misc"].inner["encode"], "pyarrow": 0.0}
    ratio = codes["misc"] / codes["pyarrow"]
    bench.promise(
        f"reading {NAMES[n_answers]} rows into codes: about pyarrow's time (at most 1.25 times)",
        f"{ratio:.2f}×",
        ratio <= 1.25,
    )
    rows = [
        [
            NAMES[n_answers],
            name,
            seconds(codes[name]),
            f"{codes[name] / codes['pyarrow']:.2f}×",
            seconds(votes[name]) if votes[name] else "",
            f"{(codes[name] + votes[name]) / codes['pyarrow']:.2f}×",
        ]
        for name in runs
    ]
    note = (
        "\npyarrow alone parses the file and dictionary-encodes its three columns. Ours also looks "
        "at the format and takes the file's checksum; from codes to votes it sorts the names, "
        "finds repeated and contradicting answers and builds the sparse matrix.\n"
    )
    header = ["answers", "tool", "text to codes, s", "÷ pyarrow", "codes to votes, s", "÷ pyarrow"]
    return table(header, rows) + note
