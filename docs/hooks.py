"""A hook of mkdocs: search works from a folder without a network, by a script of our own."""

from __future__ import annotations

from posixpath import relpath
from typing import Protocol

REMOTE = "https://unpkg.com/iframe-worker/shim"
OURS = "assets/worker.js"


class Page(Protocol):
    """The part of mkdocs' page that is used here."""

    url: str


def on_post_page(output: str, page: Page, config: object) -> str:
    """Return the page with our script in the place of the remote one."""
    folder = page.url.rpartition("/")[0] or "."
    return output.replace(REMOTE, relpath(OURS, folder))
