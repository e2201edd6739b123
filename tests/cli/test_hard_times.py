"""Little memory, few files, no home, damaged caches, absurd numbers: a message and no traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from misc_cli.__main__ import run
from misc_cli.data import resources
from misc_cli.errors import ConfigError
from misc_cli.paper import datasets
from tests.cli.test_process import REPO, write_answers

MISC = f"'{sys.executable}' -m misc_cli"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(REPO))
    write_answers(Path("answers.csv"), 2000)


def shell(line: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, check=False, timeout=120
    )


@pytest.mark.parametrize(
    ("limit", "code"), [("-n 12", 0), ("-v 100000", 2), ("-v 500000", None)], ids=str
)
def test_little_of_everything(limit: str, code: int | None) -> None:
    done = shell(f"ulimit {limit}; {MISC} aggregate answers.csv --time-budget 2s -o labels.csv")
    assert done.returncode in (0, 2) if code is None else done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert Path("labels.csv").exists() == (done.returncode == 0)


@pytest.mark.parametrize("n_files", [9, 10, 11])
def test_hardly_a_file_can_be_opened(n_files: int) -> None:
    more = "--workers workers.csv --report report.html --metrics m.prom"
    words = f"{MISC} aggregate answers.csv --aggregator mv -q -o labels.csv {more}"
    done = shell(f"ulimit -n {n_files}; {words}")
    assert done.returncode in (0, 2), done.stderr
    assert len(done.stderr.splitlines()) == (done.returncode == 2)
    assert Path("labels.csv").exists() == (done.returncode == 0)


def test_a_user_without_a_home(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def nobody() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", nobody)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    for words in (["datasets", "list"], ["datasets", "fetch", "web"], ["reproduce"]):
        assert run(words) == 2
        assert "XDG_CACHE_HOME" in capfd.readouterr().err


def test_many_classes_are_refused_before_they_fill_the_memory(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    rows = "".join(f"w{n % 50},i{n % 400},text {n}\n" for n in range(20_000))
    Path("texts.csv").write_text("worker,item,label\n" + rows)
    monkeypatch.setattr(resources, "available_bytes", lambda: 8 << 30)
    assert run(["aggregate", "texts.csv", "--aggregator", "mv", "--allow-odd"]) == 2
    assert "look like free text" in capfd.readouterr().err


def test_the_containers_limit_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "cgroup"
    group = root / "a/b"
    group.mkdir(parents=True)
    for place, most, taken in ((group, 1000, 300), (group.parent, 900, 350)):
        (place / "memory.max").write_text(f"{most}\n")
        (place / "memory.current").write_text(f"{taken}\n")
        (place / "memory.stat").write_text("x 1\ninactive_file 50\n")
    read_text = Path.read_text
    monkeypatch.setattr(
        Path,
        "read_text",
        lambda path, *words: (
            "0::/a/b\n" if str(path) == "/proc/self/cgroup" else read_text(path, *words)
        ),
    )
    assert resources.available_bytes(root) == 600
    used = int(read_text(Path("/proc/self/statm")).split()[0]) * os.sysconf("SC_PAGE_SIZE")
    monkeypatch.setattr("resource.getrlimit", lambda _: (used, used))
    assert resources.available_bytes(root) < 600
    with pytest.raises(ConfigError, match="GiB are free; do less"):
        resources.require(1 << 50, "this", "do less")


def test_a_damaged_copy_of_a_dataset_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    copy = datasets.cache_folder() / "web"
    copy.mkdir(parents=True)
    for file in datasets.COLUMNS:
        (copy / file).write_text("item,label\n")
    with pytest.raises(Exception, match="damaged"):
        datasets.locate("web")


@pytest.mark.parametrize(
    "words",
    [
        ["--threads", "2147483648"],
        ["--threads", "9" * 30],
        ["--class-order", "a\nb"],
        ["--aggregator", "ebcc", "-p", "subtypes=9223372036854775807"],
        ["--aggregator", "ds-em", "--completer", "lrtc", "-p", "lrtc-weights=1e308,1e308,1e308"],
        ["--aggregator", "ds-em", "--completer", "lrtc", "-p", "rho=1e300"],
        ["--aggregator", "ds-em", "--completer", "tucker", "--passes", "9" * 400],
        ["--aggregator", "mmce-c", "-p", "worker-regularization=1e-300"],
    ],
    ids=lambda words: words[-2],
)
def test_absurd_numbers(words: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["aggregate", "answers.csv", *words]) == 2
    assert "defect" not in capfd.readouterr().err


@pytest.mark.parametrize("flag", ["workers", "items", "classes", "activity-skew"])
def test_an_absurd_crowd(flag: str, capfd: pytest.CaptureFixture[str]) -> None:
    for number in ("2147483647", "9223372036854775807", "9" * 40):
        assert run(["simulate", f"--{flag}", number]) == 2
    assert "defect" not in capfd.readouterr().err


def test_a_very_uneven_crowd_ends() -> None:
    assert run(["simulate", "--activity-skew", "20", "-o", "uneven.csv"]) == 0
    rows = Path("uneven.csv").read_text().splitlines()[1:]
    pairs = {tuple(row.split(",")[:2]) for row in rows}
    assert len(pairs) == len(rows), "every item is answered by different workers"
    with pytest.raises(ConfigError):
        resources.require(1 << 60, "this", "do less")


@pytest.mark.parametrize("mebibytes", [300, 700])
def test_too_few_addresses_are_told_at_once(mebibytes: int) -> None:
    command = f"ulimit -v {mebibytes * 1024}; exec {sys.executable} -m misc_cli datasets list"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=20)
    assert done.returncode == 2
    assert f"ulimit -v allows {mebibytes} MiB" in done.stderr
    assert done.stderr.count("\n") == 1


def test_no_defect_by_absurd_names(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["aggregate", "answers.csv", "--worker-col", "9" * 4400]) == 2
    assert run(["simulate", "--class-names", "a,\udcff"]) == 2
    assert "defect" not in capfd.readouterr().err


def test_a_failed_run_is_in_the_metrics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["--aggregator", "mv", "-o", "l.csv", "--metrics", "m.prom", "--log-file", "misc.log"]
    assert run(["aggregate", "answers.csv", *words]) == 0
    assert "misc_run_exit_code 0\n" in Path("m.prom").read_text()
    recorded = json.loads(Path("l.run.json").read_text())["run"]
    assert f'"run": "{recorded}"' in Path("misc.log").read_text()
    assert run(["aggregate", "absent.csv", *words]) == 2
    told = Path("m.prom").read_text()
    assert "misc_run_exit_code 2\n" in told
    assert "misc_run_timestamp_seconds" in told
    assert "misc_items" not in told
    assert run(["aggregate", "answers.csv", *words, "--fail-if", "items>1"]) == 3
    assert "misc_run_exit_code 3\n" in Path("m.prom").read_text()
    Path("in.csv").write_text("worker")
    assert run(["aggregate", "in.csv", *words, "--metrics", "in.csv"]) == 2
    assert Path("in.csv").read_text() == "worker"
