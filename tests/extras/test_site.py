"""The docs as a site: it builds without a warning, is searched from a folder, and notebooks run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPO

NOTEBOOKS = sorted((REPO / "docs" / "notebooks").glob("*.ipynb"))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("mkdocs", reason="the extra docs is not installed")
    out = tmp_path_factory.mktemp("site")
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(REPO)}
    words = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(out)]
    done = subprocess.run(
        words, cwd=REPO, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr  # strict: a warning is an error
    return out


def test_the_site_is_searched_from_a_folder_without_a_network(site: Path) -> None:
    playwright = pytest.importorskip("playwright.sync_api")
    chromium = Path("/usr/bin/chromium")
    if not chromium.exists():
        pytest.skip("no Chromium")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=str(chromium), args=["--no-sandbox"])
        page = browser.new_page()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto((site / "index.html").as_uri())
        page.keyboard.press("f")
        page.locator(".md-search__input").wait_for()
        page.keyboard.type("krippendorff")
        page.locator(".md-search-result__item").first.wait_for(timeout=10_000)
        found = page.locator(".md-search-result__item").count()
        browser.close()
    assert found > 0
    assert [url for url in asked if not url.startswith(("file:", "blob:", "data:"))] == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_notebooks_run(path: Path, tmp_path: Path) -> None:
    script = (
        "import sys, nbclient, nbformat; notebook = nbformat.read(sys.argv[1], 4); "
        "nbclient.NotebookClient(notebook, timeout=120, kernel_name='python3').execute()"
    )
    pytest.importorskip("nbclient")
    environment = {**os.environ, "PYTHONPATH": str(REPO)}
    words = [sys.executable, "-c", script, str(path)]
    done = subprocess.run(
        words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
