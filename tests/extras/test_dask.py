"""`--engine dask` on a real cluster: a scheduler and worker processes, here on the loopback."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as parquet
import pytest

from misc_cli import registry
from misc_cli.__main__ import run
from misc_cli.completers.completion_loop import run_loop
from misc_cli.completers.parameters import Loop, Tucker
from misc_cli.data import holdout
from misc_cli.data.types import Iteration, OnIteration
from misc_cli.engines import dask as dask_engine
from misc_cli.engines import pieces as cutting
from misc_cli.engines.local import MemoryEngine
from misc_cli.engines.partitioned import EncodingRules, joined_columns
from misc_cli.engines.protocol import POSTERIORS, Engine, Fitted
from misc_cli.errors import MiscWarning
from misc_cli.readers.options import ReadOptions
from misc_cli.run.result import LabelColumns
from misc_cli.selection import candidates
from tests.engines.crowds import (
    METHODS,
    ORDER,
    WITH_ITEM_PARAMETERS,
    Row,
    crowd,
    write_csv,
    write_parquet,
)
from tests.engines.test_choice import aggregate as aggregate_calibrated
from tests.engines.test_choice import simulated

distributed = pytest.importorskip("distributed", reason="needs the extra dask")
psutil = pytest.importorskip("psutil")

pytestmark = pytest.mark.filterwarnings("default")  # what dask itself warns of is not ours


class Cluster:
    """Processes that can be killed one by one."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "scheduler.json"
        self.folder = folder
        self.workers: list[subprocess.Popen[bytes]] = []
        words = ("--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--no-show")
        self.scheduler = self._start("scheduler", *words)
        _until(lambda: self.scheduler.poll() is not None or self._written() is not None)
        self.address = str((self._written() or {})["address"])

    def _written(self) -> dict[str, Any] | None:
        """What the scheduler says of itself; None while its file is not there, or not whole."""
        try:
            found: dict[str, Any] = json.loads(self.file.read_text())
        except (FileNotFoundError, json.JSONDecodeError):
            return None
        return found

    def add_worker(self, most_bytes: int | None = None, path: Path | None = None) -> None:
        """`most_bytes` is the largest file it may write: it stands for a disk that is full.

        `path` has modules that it finds before those that are installed.
        """
        words = ("--nthreads", "1", "--no-nanny", "--no-dashboard", "--host", "127.0.0.1")
        self.workers.append(self._start("worker", *words, "--memory-limit", "0", path=path))
        if most_bytes is not None:
            limits = (most_bytes, most_bytes)
            resource.prlimit(self.workers[-1].pid, resource.RLIMIT_FSIZE, limits)

    def ready(self, n_workers: int) -> Cluster:
        with distributed.Client(self.address, set_as_default=False) as client:
            client.wait_for_workers(n_workers, timeout=60)
        return self

    def _start(self, kind: str, *words: str, path: Path | None = None) -> subprocess.Popen[bytes]:
        module = f"distributed.cli.dask_{kind}"
        paths = [str(path) if path else "", os.environ.get("PYTHONPATH", "")]
        return subprocess.Popen(
            [sys.executable, "-m", module, "--scheduler-file", str(self.file), *words],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def stop(self) -> None:
        for process in (*self.workers, self.scheduler):
            process.kill()
            process.wait()


def _until(condition: Any, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        made.add_worker()
        made.add_worker()
        yield made.ready(2)
    finally:
        made.stop()


@pytest.fixture(autouse=True)
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Row]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cutting, "PIECE_ROWS", 300)
    made = crowd()
    write_csv(made, Path("answers.csv"))
    return made


def aggregate(*words: str, output: str = "labels.csv") -> int:
    return run(["aggregate", *words, "-o", output, "-q", "--no-calibrate"])


@pytest.mark.parametrize("method", [*METHODS, *WITH_ITEM_PARAMETERS])
def test_a_cluster_gives_the_labels_of_memory(method: str, cluster: Cluster) -> None:
    words = ("--aggregator", method, "--probabilities", *ORDER)
    assert aggregate("answers.csv", *words, output="here.csv") == 0
    there = ("--engine", "dask", "--scheduler", cluster.address)
    assert aggregate("answers.csv", *words, *there, output="there.csv") == 0
    assert Path("here.csv").read_bytes() == Path("there.csv").read_bytes()


def test_a_cluster_completes_as_memory_does(cluster: Cluster) -> None:
    words = ("--completer", "tucker", "--aggregator", "ds-em", "--ranks", "4,8,3", "--passes", "4")
    assert aggregate("answers.csv", *words, "--probabilities", output="here.csv") == 0
    there = (*words, "--probabilities", "--engine", "dask", "--scheduler", cluster.address)
    assert aggregate("answers.csv", *there, output="there.csv") == 0
    assert Path("here.csv").read_bytes() == Path("there.csv").read_bytes()
    loops = [json.loads(Path(f"{name}.run.json").read_text())["loop"] for name in ("here", "there")]
    assert loops[0] == loops[1]


def test_pieces_gold_and_contradictions(cluster: Cluster, rows: list[Row]) -> None:
    """Many pieces, read by whoever; the last answer is the last of the input's order still."""
    Path("parts").mkdir()
    for number in range(5):
        part = rows[number * len(rows) // 5 : (number + 1) * len(rows) // 5]
        write_parquet(part, Path("parts", f"{number}.parquet"))
    known = sorted({item.strip() for _, item, _ in rows})[::9]
    write_csv([("", item, "c") for item in known], Path("gold.csv"))
    known_files = ("--gold", "gold.csv", "--truth", "truth.csv")
    details = ("--duplicates", "last", "--item-details")
    words = ("--aggregator", "ds-em", *known_files, *details, "--workers")
    write_csv([("", item, "a") for item in known[:40:3]], Path("truth.csv"))
    assert aggregate("answers.csv", *words, "here.parquet", output="here.csv") == 0
    there = ("there.parquet", "--engine", "dask", "--scheduler", cluster.address)
    assert aggregate("parts", *words, *there, output="there.csv") == 0
    assert Path("here.csv").read_bytes() == Path("there.csv").read_bytes()
    of_memory, of_cluster = map(pd.read_parquet, ("here.parquet", "there.parquet"))
    pd.testing.assert_frame_equal(of_cluster, of_memory, atol=1e-8)
    record = json.loads(Path("there.run.json").read_text())
    assert record["engine"]["workers"] == 2
    assert record["counts"]["conflicts"] > 0
    here = json.loads(Path("here.run.json").read_text())
    assert record["counts"] == here["counts"]
    assert record["figures"] == pytest.approx(here["figures"], abs=2e-6)
    assert record["warnings"] == here["warnings"]
    assert record["figures"]["error"] > 0


@pytest.mark.parametrize("words", [(), ("--aggregator", "ds-em")])
def test_the_choice_and_the_confidences_are_those_of_memory(
    words: tuple[str, ...], cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holdout, "DRAWN_BY_NAME", 30_000)
    monkeypatch.setattr(holdout, "ENOUGH_HIDDEN", 4_000)
    monkeypatch.setattr(candidates, "MOST_WORK", {"ebcc": 0, "mmce-c": 0})
    monkeypatch.setattr(candidates, "MAX_TRIED_CELLS", 0)
    simulated("answers.csv")
    there = ("--engine", "dask", "--scheduler", cluster.address)
    (*here, sure), of_memory = aggregate_calibrated(*words, output="here.csv")
    (*found, as_sure), of_cluster = aggregate_calibrated(*words, *there, output="there.csv")
    assert found == here
    np.testing.assert_allclose(as_sure, sure, atol=1e-8)
    assert of_cluster["figures"] == pytest.approx(of_memory["figures"], abs=2e-6)
    if not words:
        assert of_cluster["selection"]["chosen"] == of_memory["selection"]["chosen"]


def test_workers_write_a_folder_of_parts(cluster: Cluster) -> None:
    assert aggregate("answers.csv", "--aggregator", "ds-em", output="whole.parquet") == 0
    words = ("--aggregator", "ds-em", "--engine", "dask", "--scheduler", cluster.address)
    assert aggregate("answers.csv", *words, output="labels/") == 0
    names = json.loads(Path("labels/run.json").read_text())["outputs"]["parts"]
    table = pa.concat_tables([parquet.read_table(Path("labels", name)) for name in names])
    table = table.take(pc.sort_indices(table["item"]))
    whole = parquet.read_table("whole.parquet")
    assert table["item"].equals(whole["item"])
    assert table["label"].to_pylist() == whole["label"].to_pylist()
    assert run(["verify", "labels/run.json"]) == 0


def test_a_bad_row_on_a_worker_is_one_line_here(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("bad.csv").write_text("worker,item,label\n" + "ann,i1,yes\n" * 99_999 + ",i2,no\n")
    words = ("--aggregator", "mv", "--engine", "dask", "--scheduler", cluster.address)
    assert aggregate("bad.csv", *words) == 2
    assert "row 100000: a label without its worker" in capsys.readouterr().err
    assert not Path("labels.csv").exists()


def test_a_full_disk_of_a_worker_is_one_line_and_leaves_nothing(
    tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    made = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        made.add_worker()
        made.add_worker(most_bytes=2000)
        made.ready(2)
        words = ("--aggregator", "mv", "--engine", "dask", "--scheduler", made.address)
        assert aggregate("answers.csv", *words, output="labels.csv/") == 2
    finally:
        made.stop()
    said = capsys.readouterr().err
    assert "labels.csv: cannot be written (File too large)" in said
    assert said.count("\n") == 1
    assert sorted(path.name for path in Path().iterdir()) == ["answers.csv"]


def test_no_scheduler_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--aggregator", "mv", "--engine", "dask", "--scheduler", "tcp://127.0.0.1:9")
    assert aggregate("answers.csv", *words) == 2
    assert "--scheduler tcp://127.0.0.1:9" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "moment"),
    [
        ("ds-em", "between sweeps"),
        ("ds-em", "during a sweep"),
        ("ebcc", "before the labels"),
        ("mmce-c", "between sweeps"),
        ("tucker", "during a sweep"),
    ],
)
def test_a_killed_worker_changes_no_posterior(
    name: str, moment: str, tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    """Its items are read again elsewhere, and their rows made again from the shared state: of mmce
    round by round, since each one's rows follow from the last one's."""
    few: dict[str, Any] = {"restarts": 10} if name == "ebcc" else {}
    first = "ds-em" if name == "tucker" else name
    method = registry.create("aggregator", first, tol=0.0, max_iter=12, **few)
    middle = 6
    if name == "tucker":
        method = Completed(Tucker((4, 8, 3), sweeps=4), method, Loop(passes=3))
        middle = 12 + 2 * (4 + 1) + 2  # two passes are made, and two sweeps of the third
    expected = _posteriors_here(method)
    made = Cluster(tmp_path)
    try:
        made.add_worker()
        made.add_worker()
        made.ready(2)
        changes: list[float] = []

        def watch(line: Iteration) -> None:
            changes.append(line.change or 0.0)
            if len(changes) == middle and moment == "between sweeps":
                made.workers[0].kill()
            if len(changes) == middle and moment == "during a sweep":
                # it takes the next task and does not finish it; the other one does
                made.workers[0].send_signal(signal.SIGSTOP)
                threading.Timer(2.0, made.workers[0].kill).start()

        with opened_engine(made.address) as engine:
            method.solve(engine, watch)
            if moment == "before the labels":
                made.workers[1].kill()
            make = LabelColumns(engine.vocabulary.classes, probabilities=True)
            found = joined_columns(engine.chunks(make))
            _until(lambda: any(worker.poll() is not None for worker in made.workers))
            _until(lambda: engine.facts["losses"] == 1)
            assert "is lost; others make its share again" in str(recwarn.pop(MiscWarning).message)
    finally:
        made.stop()
    assert found["item"].to_pylist() == expected["items"]
    columns = [found[name] for name in found if name.startswith("p_")]
    np.testing.assert_allclose(np.column_stack(columns), expected[POSTERIORS], atol=1e-8)
    np.testing.assert_allclose(changes, expected["changes"], atol=1e-8)


@contextmanager
def opened_engine(address: str) -> Iterator[dask_engine.DaskEngine]:
    pieces = cutting.pieces_of(["answers.csv"], ReadOptions())
    rules = EncodingRules(name="answers.csv")
    with dask_engine.opened(pieces, rules, scheduler=address, say=lambda _: None) as engine:
        yield engine


@pytest.fixture
def small_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four shares for each worker, also of little data."""
    monkeypatch.setattr(dask_engine, "SHARE_ANSWERS", 10)


def test_a_sweep_sends_its_table_once_per_worker_and_returns_one_sum(
    cluster: Cluster, small_shares: None
) -> None:
    n_crowd, n_sweeps = 4_000, 10
    names = [f"w{number % n_crowd}" for number in range(3 * n_crowd)]
    rows = [(name, f"i{at // 5}", "abc"[at % 3]) for at, name in enumerate(names)]
    write_csv(rows, Path("answers.csv"))
    table = n_crowd * 9 * 8
    with opened_engine(cluster.address) as engine:
        assert engine.facts["parts"] == 8
        method = registry.create("aggregator", "ds-em", tol=0.0, max_iter=n_sweeps)
        before, first = _bytes_out(engine), engine.facts
        method.solve(engine, lambda _: None)
        moved, facts = _bytes_out(engine) - before, engine.facts
    sweeps = facts["sweeps"] - first["sweeps"]
    assert facts["received"] - first["received"] == pytest.approx(table * sweeps, rel=0.01)
    assert facts["sent"] - first["sent"] <= 2 * table * sweeps * 1.01
    # Between two workers: the table to the other one, its sum back, and one sum to the client.
    assert 2 * table * sweeps < moved <= 3 * table * sweeps * 1.05


def _bytes_out(engine: dask_engine.DaskEngine) -> int:
    """Bytes that workers gave to workers and to the client since they started, as Dask counts."""
    client = engine.cluster.client
    return int(
        sum(client.run(lambda dask_worker: dask_worker.transfer_outgoing_bytes_total).values())
    )


def test_runs_leave_nothing_on_the_workers(cluster: Cluster, rows: list[Row]) -> None:
    write_csv([(w, f"{i} {n}", label) for n in range(40) for w, i, label in rows], Path("many.csv"))
    words = ("many.csv", "--duplicates", "last", "--aggregator", "ds-em", "--engine", "dask")

    def memory() -> int:
        return sum(psutil.Process(worker.pid).memory_info().rss for worker in cluster.workers)

    assert aggregate(*words, "--scheduler", cluster.address) == 0
    after_one = memory()
    for _ in range(4):
        assert aggregate(*words, "--scheduler", cluster.address) == 0
    assert memory() < 1.1 * after_one
    assert aggregate(*words, "--scheduler", cluster.address, "--label-col", "no such") == 2
    with distributed.Client(cluster.address, set_as_default=False) as client:
        _until(lambda: not any(client.run(lambda dask_worker: len(dask_worker.data)).values()))


def test_a_worker_that_joins_gets_shares(tmp_path: Path, small_shares: None) -> None:
    method = registry.create("aggregator", "ds-em", tol=0.0, max_iter=12)
    expected = _posteriors_here(method)
    made = Cluster(tmp_path)
    changes: list[float] = []

    def watch(line: Iteration) -> None:
        changes.append(line.change or 0.0)
        if len(changes) == 3:
            made.add_worker()
            made.ready(2)
            time.sleep(1.1)  # the engine looks once a second

    try:
        made.add_worker()
        made.ready(1)
        with opened_engine(made.address) as engine:
            assert engine.facts["parts"] == 4
            method.solve(engine, watch)
            held = engine.cluster.client.has_what()
            assert all(any(key.startswith("_sweep") for key in held[one]) for one in held), held
    finally:
        made.stop()
    np.testing.assert_allclose(changes, expected["changes"], atol=1e-8)


def test_a_killed_scheduler_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = Cluster(tmp_path)
    endless = ("--aggregator", "ds-em", "--tol", "0", "--max-iter", "1000000")
    try:
        made.add_worker()
        made.ready(1)
        threading.Timer(6.0, made.scheduler.kill).start()
        there = ("--engine", "dask", "--scheduler", made.address)
        assert aggregate("answers.csv", *endless, *there) == 2
    finally:
        made.stop()
    said = capsys.readouterr().err
    assert "the Dask scheduler is gone" in said
    assert said.count("\n") == 1
    assert not list(Path().glob("labels*"))


def test_a_paused_worker_is_said_and_waited_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dask_engine, "PATIENCE_SECONDS", 3.0)
    made = Cluster(tmp_path)
    words = ("answers.csv", "--aggregator", "ds-em")
    there = ("--engine", "dask", "--scheduler", made.address)

    def pause(dask_worker: Any) -> None:
        dask_worker.status = distributed.core.Status.paused

    try:
        made.add_worker()
        made.ready(1)
        with distributed.Client(made.address, set_as_default=False) as client:
            client.run(pause)
        assert aggregate(*words, *there) == 2
        assert "(1 of 1 workers are paused, for want of memory)" in capsys.readouterr().err
        assert not list(Path().glob("labels*"))
        made.add_worker()
        made.ready(1)
        assert aggregate(*words, *there) == 0
    finally:
        made.stop()
    assert aggregate(*words, output="here.csv") == 0
    assert Path("here.csv").read_bytes() == Path("labels.csv").read_bytes()


@pytest.mark.parametrize(
    ("module", "reason"),
    [("raise ModuleNotFoundError('misc_cli')", "no misc"), ("", "misc 0.0.7, not ")],
)
def test_a_worker_with_another_misc_is_named_before_any_work(
    module: str, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other" / "misc_cli"
    other.mkdir(parents=True)
    (other / "__init__.py").write_text(module)
    (other / "version.py").write_text("__version__ = '0.0.7'")
    made = Cluster(tmp_path)
    try:
        made.add_worker()
        made.add_worker(path=other.parent)
        made.ready(2)
        words = ("--aggregator", "mv", "--engine", "dask", "--scheduler", made.address)
        assert aggregate("answers.csv", *words) == 2
        said = capsys.readouterr().err
        assert f"of the Dask cluster has {reason}" in said
        assert said.count("\n") == 1
        made.ready(2)  # both are there still
        assert [worker.poll() for worker in made.workers] == [None, None]
    finally:
        made.stop()


@dataclass(frozen=True)
class Completed:
    """The completion loop as a method."""

    completer: Tucker
    aggregator: Any
    loop: Loop

    def solve(self, engine: Engine, observe: OnIteration) -> Fitted:
        return run_loop(
            engine, self.completer, self.aggregator, self.loop, tol=0.0, on_iteration=observe
        ).fitted


def _posteriors_here(method: Any) -> dict[str, Any]:
    from misc_cli.data.encode import encode
    from misc_cli.readers.read import read_answer_columns

    labels = encode(read_answer_columns(["answers.csv"]).answers).labels
    engine, changes = MemoryEngine(labels), list[float]()
    method.solve(engine, lambda line: changes.append(line.change or 0.0))
    posteriors = engine.whole(POSTERIORS)
    return {"items": labels.items.to_pylist(), POSTERIORS: posteriors, "changes": changes}


@pytest.mark.parametrize("moment", ["at the start", "while reading", "in the sweeps"])
@pytest.mark.parametrize("send", [os.kill, os.killpg], ids=["kill", "Ctrl-C in a terminal"])
def test_an_interrupt_leaves_no_process_and_no_output(
    send: Callable[[int, int], None], moment: str, tmp_path: Path
) -> None:
    words = ("--engine", "dask", "--aggregator", "ds-em", "--tol", "0", "--max-iter", "100000")
    command = [sys.executable, "-m", "misc_cli", "aggregate", "answers.csv", *words]
    told = tmp_path / "told.txt"
    with told.open("w") as stderr:
        process = subprocess.Popen(
            [*command, "--no-calibrate", "-v", "-o", "labels.csv"],
            stderr=stderr,
            start_new_session=True,
        )
    children: list[Any] = []

    def started() -> bool:
        assert process.poll() is None, told.read_text()
        children[:] = psutil.Process(process.pid).children(recursive=True)
        return bool(children) and (moment == "at the start" or "dashboard" in told.read_text())

    try:
        _until(started)
        time.sleep({"at the start": 0, "while reading": 0.1, "in the sweeps": 3}[moment])
        send(process.pid, signal.SIGINT)
        assert process.wait(30) == 130
        _until(lambda: not any(map(_runs, children)), seconds=20)
        lines = told.read_text().splitlines()
        assert "misc: interrupted" in lines
        assert all(line.startswith("misc: ") for line in lines), lines
        assert sorted(path.name for path in tmp_path.iterdir()) == ["answers.csv", "told.txt"]
    finally:
        for left in filter(_runs, children):
            left.kill()
        process.kill()
        process.wait()


def _runs(process: Any) -> bool:
    try:
        return bool(process.is_running() and process.status() != "zombie")
    except psutil.NoSuchProcess:
        return False
