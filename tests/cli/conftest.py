"""What several tests of commands need."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to be in, without the datasets that this machine may have."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("MISC_DATA_DIR", raising=False)
    return tmp_path
