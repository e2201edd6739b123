"""`kill -9` in the moments in which a night changes the disk."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.conftest import REPO

# Kills itself at the first, third, fifth … change of the disk, until a night gets through.
KILLED_AT_EVERY_STEP = """
import os, signal, sys, json
from pathlib import Path
# imported once, before the forks, but nothing that starts a thread
import pyarrow.csv, pyarrow.parquet, scipy.sparse, misc_cli.readers.read, misc_cli.state.store
import misc_cli.state.session, misc_cli.run.pipeline, misc_cli.run.result
import misc_cli.cli.aggregate
from misc_cli.__main__ import run

folder, sample = Path(sys.argv[1]), Path(sys.argv[2])
lines = sample.read_text().splitlines(keepends=True)
answers, labels, state = folder / "answers.csv", folder / "labels.csv", folder / "state"
words = ["aggregate", str(answers), "--aggregator", "ds-em", "-o", str(labels),
         "--state", str(state), "--quiet", "--no-calibrate", "--threads", "1"]

def night(n_answers, die_at):
    pid = os.fork()
    if pid:
        return os.waitpid(pid, 0)[1]
    left = [die_at]
    def deadly(function):
        def call(*given, **named):
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*given, **named)
        return call
    for name in ("replace", "rename", "unlink", "fsync", "link"):
        setattr(os, name, deadly(getattr(os, name)))
    os._exit(run(words))

answers.write_text("".join(lines[:1501]))
assert night(0, 0) == 0
step, size, deaths = -1, 1501, 0
while True:
    step, size = step + 2, size + 1
    answers.write_text("".join(lines[:size]))
    status = night(size, step)
    if os.WIFSIGNALED(status):
        deaths += 1
        assert night(size, 0) == 0, step  # the next run works, from the old state or the new
        assert json.loads((state / "state.json").read_text())["about"]["night"] >= 1
        assert len(labels.read_text().splitlines()) > 400
    else:
        assert status == 0, status
        break
parts = [path.name for path in folder.rglob(".*.part")]
print(deaths, json.loads((state / "state.json").read_text())["about"]["night"], parts)
"""


def test_killed_while_the_disk_changes_the_next_night_works(tmp_path: Path) -> None:
    given = [str(tmp_path), str(REPO / "sample_data" / "answers.csv")]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", KILLED_AT_EVERY_STEP, *given],
        timeout=300,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    deaths, n_nights, parts = done.stdout.split(maxsplit=2)
    assert int(deaths) >= 15
    assert int(n_nights) > 15
    assert parts.strip() == "[]"
