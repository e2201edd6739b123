"""`--workers-prior`: what is known of workers from another project."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from misc_cli.__main__ import run
from tests.conftest import REPO

SAMPLE = REPO / "sample_data"


@pytest.mark.parametrize("aggregator", ["ds-em", "ebcc"])
def test_workers_known_from_another_project(
    aggregator: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Four answers per item by known workers: what is known of them helps."""
    known, plain, helped = (tmp_path / name for name in ("w.csv", "plain.csv", "helped.csv"))
    many, few = SAMPLE / "answers.csv", tmp_path / "few.csv"
    few.write_text("".join(many.read_text().splitlines(keepends=True)[:121]))
    words = ["--aggregator", aggregator, "--truth", str(SAMPLE / "truth.csv")]
    assert run(["aggregate", str(many), *words, "--workers", str(known), "-o", str(plain)]) == 0
    errors = []
    for more in ([], ["--workers-prior", str(known), "-p", "prior-weight=20"]):
        assert run(["aggregate", str(few), *words, "-o", str(helped), *more]) == 0
        record = json.loads(helped.with_suffix(".run.json").read_text())
        errors.append(record["figures"]["error"])
    assert errors[1] < errors[0]
    strangers = tmp_path / "strangers.csv"
    strangers.write_text(known.read_text().replace("\nw", "\nx"))
    capfd.readouterr()
    assert run(["aggregate", str(few), *words, "--workers-prior", str(strangers)]) == 2
    assert "says nothing of these workers" in capfd.readouterr().err
    for unable in ("mv", "mmce-c"):
        words = ["--aggregator", unable, "--workers-prior", str(known)]
        assert run(["aggregate", str(few), *words]) == 2
        assert f"not for {unable}: it counts no" in capfd.readouterr().err
