"""`misc aggregate --state`: what a cron job relies on, night after night."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import pytest

from misc_cli.__main__ import run
from misc_cli.state import store
from tests.conftest import REPO

SAMPLE = REPO / "sample_data"
LINES = (SAMPLE / "answers.csv").read_text().splitlines(keepends=True)


class Nights:
    """A folder with an export that grows, its labels and its state."""

    def __init__(self, folder: Path) -> None:
        self.answers = folder / "answers.csv"
        self.labels = folder / "labels.csv"
        self.state = folder / "state"

    def run(self, n_answers: int, *words: str, aggregator: str = "ds-em") -> int:
        self.answers.write_text("".join(LINES[: n_answers + 1]))
        method = ["--aggregator", aggregator] if aggregator else []
        places = ["-o", str(self.labels), "--state", str(self.state)]
        return run(["aggregate", str(self.answers), *method, *places, *words])

    def rows(self) -> dict[str, tuple[str, float]]:
        with self.labels.open() as file:
            return {r["item"]: (r["label"], float(r["confidence"])) for r in csv.DictReader(file)}

    @property
    def record(self) -> dict[str, object]:
        found: dict[str, object] = json.loads(self.labels.with_suffix(".run.json").read_text())
        return found


@pytest.fixture
def nights(tmp_path: Path) -> Nights:
    return Nights(tmp_path)


def test_nothing_is_done_if_nothing_changed(
    nights: Nights, capfd: pytest.CaptureFixture[str]
) -> None:
    assert nights.run(1700) == 0
    before = {path: path.stat().st_mtime_ns for path in nights.state.parent.rglob("*.*")}
    before.pop(nights.answers)
    capfd.readouterr()
    assert nights.run(1700, "--threads", "1", "--fail-if", "items>1000") == 0
    assert "nothing to do" in capfd.readouterr().err
    assert nights.run(1700, "--fail-if", "items>1") == 3  # gates are judged again
    assert "items is 471" in capfd.readouterr().err
    assert {path: path.stat().st_mtime_ns for path in before} == before
    nights.labels.write_text("spoilt")
    assert nights.run(1700) == 0
    assert "nothing to do" not in capfd.readouterr().err
    assert nights.rows()
    for change in (["--seed", "1"], ["--seed", "1", "--probabilities"]):
        assert nights.run(1700, *change) == 0
        assert "nothing to do" not in capfd.readouterr().err
    assert nights.run(1800, "--seed", "1", "--probabilities") == 0
    assert "nothing to do" not in capfd.readouterr().err


def test_metrics_are_of_every_run_also_of_one_with_nothing_to_do(
    nights: Nights, tmp_path: Path
) -> None:
    def gauges() -> dict[str, float]:
        lines = metrics.read_text().splitlines()
        return {x.split()[0]: float(x.split()[-1]) for x in lines if not x.startswith("#")}

    metrics = tmp_path / "misc.prom"
    assert nights.run(1700, "--metrics", str(metrics)) == 0
    first = gauges()
    assert first["misc_run_did_nothing"] == 0
    assert nights.run(1700, "--metrics", str(metrics), "--fail-if", "items>1") == 3
    second = gauges()
    assert second["misc_run_did_nothing"] == 1
    assert second["misc_run_timestamp_seconds"] > first["misc_run_timestamp_seconds"]
    assert (first["misc_gates_tripped"], second["misc_gates_tripped"]) == (0, 1)
    assert second["misc_items"] == first["misc_items"]
    metrics.unlink()
    assert nights.run(1700, "--metrics", str(metrics)) == 0  # still nothing, and they are back
    assert gauges()["misc_run_did_nothing"] == 1
    assert run(["verify", str(nights.labels.with_suffix(".run.json"))]) == 0


def test_copies_count_once_every_night(
    nights: Nights, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A kept choice makes of copies what a cold run makes of them."""
    rows = [line.rstrip("\n").split(",") for line in LINES[1:]]
    busiest = max({w for w, _, _ in rows}, key=[w for w, _, _ in rows].count)
    own = [row for row in rows if row[0] == busiest]
    copies = [[f"copy{n}", item, label] for n in range(4) for _, item, label in own]
    text = "".join([LINES[0], *(f"{','.join(row)}\n" for row in [*copies, *rows])])
    for n_lines in (-20, None):
        nights.answers.write_text("".join(text.splitlines(keepends=True)[:n_lines]))
        capfd.readouterr()
        places = ["-o", str(nights.labels), "--state", str(nights.state)]
        assert run(["aggregate", str(nights.answers), *places]) == 0
        assert "count once" in capfd.readouterr().err
    assert "kept from" in str(nights.record["state"]["methods"])  # type: ignore[index]
    cold = tmp_path / "cold.csv"
    assert run(["aggregate", str(nights.answers), "-o", str(cold)]) == 0
    warm_labels = nights.rows()
    nights.labels = cold
    differ = [i for i, (label, _) in nights.rows().items() if warm_labels[i][0] != label]
    assert len(differ) <= 10  # the cold run chooses anew


def test_a_warm_night_ends_where_a_cold_one_does(nights: Nights, tmp_path: Path) -> None:
    """Differing labels are counted, and they are those that the cold run is least sure of."""
    (tmp_path / "cold").mkdir()
    cold = Nights(tmp_path / "cold")
    assert nights.run(1790) == 0
    assert nights.run(1807) == 0
    assert cold.run(1807) == 0
    warm_labels, cold_labels = nights.rows(), cold.rows()
    assert warm_labels.keys() == cold_labels.keys()
    differ = [item for item, (label, _) in cold_labels.items() if warm_labels[item][0] != label]
    assert len(differ) <= 2
    unsure = sorted(confidence for _, confidence in cold_labels.values())[100]
    assert all(cold_labels[item][1] <= unsure for item in differ)
    assert nights.record["iterations"]["ds-em"] * 2 <= cold.record["iterations"]["ds-em"]  # type: ignore[index]


def test_a_choice_is_kept_until_it_is_old_or_the_data_moved(
    nights: Nights, capfd: pytest.CaptureFixture[str]
) -> None:
    def night(n_answers: int, *words: str) -> str:
        capfd.readouterr()
        assert nights.run(n_answers, "--verbose", *words, aggregator="") == 0
        return next(x for x in capfd.readouterr().err.splitlines() if x.startswith("state"))

    assert "night 1: methods chosen: there is no earlier choice" in night(1300)
    first = nights.record["selection"]
    assert "night 2: methods kept from" in night(1500)
    assert nights.record["selection"]["chosen"] == first["chosen"]  # type: ignore[index]
    assert "kept from" in str(nights.record["selection"]["why"])  # type: ignore[index]
    assert "night 3: methods kept from" in night(1600, "-p", "rechoose=never")
    assert "days old" in night(1700, "-p", "rechoose=0.0001s")
    assert "settings are others" in night(1750, "--preset", "paper")


def test_settled_items_keep_their_label_until_new_answers_arrive(nights: Nights) -> None:
    words = ["--keep-settled", "-p", "settled=0.7,3"]
    assert nights.run(1300, *words) == 0
    before = nights.rows()
    assert nights.run(1807, *words) == 0
    after = nights.rows()
    answers = [line.split(",")[1] for line in LINES[1:]]
    fresh = set(answers[1300:])
    counts = {item: answers[:1300].count(item) for item in before}
    settled = {i for i, (_, sure) in before.items() if sure >= 0.7 and counts[i] >= 3} - fresh
    assert len(settled) > 50
    assert all(after[item] == before[item] for item in settled)
    assert any(after[item] != before[item] for item in before.keys() - settled)


@pytest.mark.parametrize("fault", ["version", "cut", "flipped", "missing", "edited"])
def test_a_state_that_cannot_be_used_is_refused_and_stays_as_it_is(
    fault: str, nights: Nights, capfd: pytest.CaptureFixture[str]
) -> None:
    assert nights.run(1700) == 0
    pointer = nights.state / store.POINTER
    table = next(nights.state.glob("workers-*"))
    whole = json.loads(pointer.read_text())
    if fault == "version":
        pointer.write_text(json.dumps({**whole, "format": 999}))
    elif fault == "cut":
        pointer.write_text(pointer.read_text()[:-40])
    elif fault == "edited":
        whole["about"]["classes"] = ["a"]
        pointer.write_text(json.dumps(whole))
    elif fault == "flipped":
        spoilt = bytearray(table.read_bytes())
        spoilt[len(spoilt) // 2] ^= 1
        table.write_bytes(spoilt)
    elif fault == "missing":
        table.unlink()
    kept = {path.name: path.read_bytes() for path in nights.state.parent.rglob("*.*")}
    capfd.readouterr()
    assert nights.run(1700) == 2
    assert "damaged or of another version of misc; remove it" in capfd.readouterr().err
    assert {path.name: path.read_bytes() for path in nights.state.parent.rglob("*.*")} == kept
    shutil.rmtree(nights.state)
    assert nights.run(1807) == 0


def test_the_state_is_plain_and_does_not_grow_with_the_nights(nights: Nights) -> None:
    sizes = []
    for n_answers in range(1790, 1807, 4):
        assert nights.run(n_answers) == 0
        sizes.append(sum(path.stat().st_size for path in nights.state.iterdir()))
        assert {path.suffix for path in nights.state.iterdir()} == {".json", ".parquet"}
    # the answers of the last two nights, which are nearly the same, and of no night before
    assert max(sizes) < 1.5 * min(sizes[1:])


def test_other_files_in_the_folder_are_left_alone(nights: Nights) -> None:
    """First night or later, whatever their names: only what misc named itself is ever removed."""
    nights.state.mkdir()
    mine = [nights.state / name for name in ("notes.txt", "mine.parquet", "labels-old.parquet")]
    for path in mine:
        path.write_text("mine")
    assert nights.run(1700) == 0
    assert nights.run(1750) == 0
    assert [path.read_text() for path in mine] == ["mine"] * 3


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--state", "s"], "needs -o"),
        (["-p", "rechoose=30d"], "--rechoose needs --state"),
        (["--keep-settled"], "--keep-settled needs --state"),
        (["--state", "s", "-o", "l.csv", "-p", "settled=0.9,2"], "give that, too"),
        (["--state", "in/state", "-o", "l.csv", "in"], "which is read as answers"),
        (["-p", "rechoose=often"], "often"),
    ],
)
def test_flags_that_make_no_sense_alone(
    words: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "more.csv").write_text("".join(LINES))
    assert run(["aggregate", str(SAMPLE / "answers.csv"), "--aggregator", "mv", *words]) == 2
    assert message in capfd.readouterr().err
