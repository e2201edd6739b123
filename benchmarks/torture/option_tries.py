"""Try options that make no sense: each ends with 0 or 2, soon, without a traceback."""

from __future__ import annotations

from pathlib import Path

from torture.harness import Tally, answers, attempt, folder

NUMBERS = [
    *("0", "-1", "1", "2", "1e308", "1e-308", "-1e308", "nan", "inf", "-inf", "1e-300", "1e300"),
    *("2147483647", "2147483648", "9223372036854775807", "9223372036854775808", "1" * 400, ""),
    *("x", "0.5", "\n", "\x1b[2J", "é", "1,1,1", "1e308,1e308,1e308", "0,0,0", "auto"),
]
METHODS: dict[str, tuple[str, ...]] = {
    "mv": (),
    "one-coin": ("tol", "max-iter", "class-prior", "diagonal", "off-diagonal"),
    "ds-em": ("tol", "max-iter", "class-prior", "shrinkage", "diagonal", "off-diagonal"),
    "ds-mf": ("tol", "max-iter", "diagonal", "off-diagonal"),
    "mmce-c": ("regularization", "worker-regularization", "item-regularization", "tol"),
    "ebcc": ("subtypes", "subtype-prior", "restarts", "shrinkage", "diagonal"),
}
COMPLETERS: dict[str, tuple[str, ...]] = {
    "tucker": ("ranks", "initial-rank", "sweeps", "passes"),
    "tenals": ("cp-rank", "ridge", "restarts", "completer-tol", "completer-max-iter", "passes"),
    "lrtc": ("lrtc-weights", "rho", "completer-tol", "completer-max-iter"),
}
SIMULATE = ("workers", "items", "classes", "answers-per-item", "accuracy", "activity-skew", "seed")
OTHERS: list[list[str]] = [
    *(["--threads", number] for number in NUMBERS),
    *(["--seed", number] for number in NUMBERS),
    *(["--time-budget", number] for number in NUMBERS),
    *(["-p", f"max-input={number}"] for number in NUMBERS),
    *(["--class-order", names] for names in ("a\nb", "a,b", "a,,b", "", '"', "a,b,c,c", "\0")),
    *(["--encoding", name] for name in ("base64", "rot13", "punycode", "undefined", "utf-7", "x")),
    *(["--encoding", name] for name in ("utf-16", "utf-32", "hex", "idna", "mbcs", "", "\n")),
    *(["--delimiter", name] for name in ('"', "\n", "ab", "", "é", "\\t", "\t", "\r")),
    *(["--worker-col", name] for name in ("0", "-1", "99", "", "worker", "1" * 99, "\n")),
    *(["--format", name] for name in ("json", "jsonl", "parquet", "tsv", "", "toloka", "csv")),
    *(["-o", name] for name in ("", ".", "/", "..", "loop", "x" * 300, "no/where", "in.csv/x")),
    *(["-o", name] for name in ("/dev/null", "/dev/full", "/proc/self/fd/77", "/dev/fd/1")),
    *(["-o", "labels.csv", "--workers", name] for name in ("", "labels.csv", "/dev/full", "-")),
    *(["--fail-if", text] for text in ("", "error", "x<1", "items<nan", "items<1e999", "items<0")),
    *([word] for word in ("", "-", "nowhere.csv", "/dev/null", ".", "loop", "x" * 300, "\x1b[2J")),
    *(["--truth", name] for name in ("", "in.csv", "nowhere.csv", "/dev/null", ".", "loop")),
    *(["--aggregator", name] for name in ("", "x", "auto", "mv", "\n", "ds-em,mv")),
    *(["--completer", name] for name in ("", "x", "none", "\n")),
    *(["--duplicates", name] for name in ("", "x", "all", "error")),
]


def option_tries(share: float) -> Tally:
    """Try a `share` of all combinations, evenly spread."""
    tally = Tally("absurd options")
    lines = [["aggregate", "in.csv", *words] for words in OTHERS]
    for method, names in METHODS.items():
        chosen = ["aggregate", "in.csv", "--aggregator", method]
        lines += [[*chosen, "-p", f"{name}={number}"] for name in names for number in NUMBERS]
    for completer, names in COMPLETERS.items():
        chosen = ["aggregate", "in.csv", "--aggregator", "ds-em", "--completer", completer]
        lines += [[*chosen, "-p", f"{name}={number}"] for name in names for number in NUMBERS]
    lines += [["simulate", f"--{flag}", number] for flag in SIMULATE for number in NUMBERS]
    step = max(1, round(1 / share))
    with folder():
        Path("in.csv").write_text(answers())
        Path("loop").symlink_to("loop")
        for words in lines[::step]:
            ended = attempt(words, seconds=120)
            tally.check(ended.is_allowed, f"{words}: {ended}")
    return tally
