"""Nights that go wrong: signals in the midst of calls, gates that hold, news in the data."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import time
from contextlib import suppress
from pathlib import Path

from torture.harness import Tally, answers, attempt, finish, folder, start
from torture.moments import CODES
from torture.strangers import MV, prepare, there

SLOW: list[list[str]] = [
    ["aggregate", "loop.db", *MV, "-o", "old.csv"],
    ["inspect", "loop.db"],
    ["aggregate", "large.csv", "-o", "old.csv", "--report", "p.html"],
    ["report", "large.csv", "-o", "p.html"],
    ["compare", "large.csv", "-o", "b.csv"],
    ["queue", "large.csv", "-o", "q.csv"],
    ["simulate", "--items", "300000", "-o", "s.csv"],
    ["rerun", "large.run.json", "-o", "again.csv"],
    ["aggregate", "large.csv", *MV, "--engine", "disk", "-o", "parts/"],
    ["aggregate", "large.csv", "--state", "st", "-o", "old.csv"],
]
# A machine that others share may take its time; what counts is that it ends, and how.
GRACE = 2.0 + 8.0


def signals(count: int) -> Tally:
    """Signal commands wherever they are: they end soon, and no file is half new."""
    tally = Tally("signals inside of calls")
    rng = random.Random(12)
    with folder():
        prepare()
        Path("large.csv").write_text(answers(3_000, 40))
        attempt(["aggregate", "large.csv", "-o", "large.labels.csv"])
        Path("large.labels.run.json").rename("large.run.json")
        for number in range(count):
            words = SLOW[number % len(SLOW)]
            sent = rng.choice([signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
            shutil.rmtree("parts", ignore_errors=True)
            before = there()
            pid = start(words)
            time.sleep(rng.uniform(0.05, 1.2))
            _send(pid, sent)
            began = time.monotonic()
            ended = finish(pid, 60)
            late = time.monotonic() - began
            known = ended.code in (0, CODES[sent], -sent) and "Traceback" not in ended.err
            whole = ended.code == 0 or there() == before or _is_after(words, before)
            what = f"{words} {sent.name}: {late:.1f} s, whole: {whole}: {ended}"
            tally.check(known and whole and late < GRACE, what)
    return tally


def _is_after(words: list[str], before: dict[str, str]) -> bool:
    """Return if a signal came after the set was published: it verifies, nothing is left over."""
    new = {name for name, digest in there().items() if before.get(name) != digest}
    record = "parts/run.json" if "parts/" in words else "old.run.json"
    if record not in new:
        return len(new) == 1 and words[words.index("-o") + 1] in new  # one file, renamed
    hidden = any(part.startswith(".") for name in new for part in Path(name).parts)
    return not hidden and attempt(["verify", record]).code == 0


def _send(pid: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def gates(count: int) -> Tally:
    """Judge nights by random conditions: one that is rejected leaves labels and state alone."""
    tally = Tally("nights that a gate rejects")
    rng = random.Random(13)
    night = ["aggregate", "in.csv", *MV, "-o", "labels.csv", "--state", "nights"]
    with folder():
        Path("in.csv").write_text(answers())
        attempt(night)
        for number in range(count):
            Path("in.csv").write_text(answers(61 + number % 40))
            limit = rng.choice([1, 10_000])
            condition = rng.choice([f"items>{limit}", f"answers>{limit}", f"workers>{limit}"])
            holds = limit == 1
            before = _published()
            ended = attempt([*night, "--fail-if", condition])
            after = _published()
            kept = Path("labels.rejected/labels.csv").exists()
            good = ended.code == 3 and after == before and kept if holds else ended.code == 0
            whole = attempt(["verify", "labels.run.json"]).code == 0
            tally.check(good and whole, f"{condition}: kept {kept}, whole {whole}: {ended}")
    return tally


def contract(count: int) -> Tally:
    """Bring news to a state: an error that changes nothing, until it is accepted."""
    tally = Tally("news that nobody accepted")
    rng = random.Random(14)
    night = ["aggregate", "in.csv", *MV, "-o", "labels.csv", "--state", "nights"]
    with folder():
        for number in range(count):
            text = answers(60 + number % 7)
            if number % 10 == 0:
                Path("nights/state.json").unlink(missing_ok=True)
                Path("in.csv").write_text(answers())
                tally.check(attempt(night).code == 0, "first night")
            kind = rng.choice(["new-labels", "columns", "format"])
            news = {
                "new-labels": f"{text}w1,i1,news{number}\nw2,i2,news{number}\n",
                "columns": text.replace("worker,item", "annotator,item", 1),
                "format": text.replace(",", ";"),
            }
            Path("in.csv").write_text(news[kind])
            state = json.loads(Path("nights/state.json").read_text())
            fresh = len(state["about"]["contract"][kind]) == 1 or kind == "new-labels"
            before = _published()
            ended = attempt(night)
            refused = ended.code == 2 and f"--accept {kind}" in ended.err and _published() == before
            accepted = attempt([*night, "--accept", kind])
            known = attempt(night)
            good = (refused or not fresh) and accepted.code == 0 and known.code == 0
            tally.check(good, f"{kind}: {ended}; accepted: {accepted}; known: {known}")
    return tally


def _published() -> dict[str, bytes]:
    """Return the outputs and the state: state.json and the tables that it names."""
    state = Path("nights/state.json")
    files = json.loads(state.read_text())["files"].values() if state.exists() else ()
    places = [*Path().glob("labels.*"), state, *(Path("nights", one["file"]) for one in files)]
    return {str(path): path.read_bytes() for path in places if path.is_file()}
