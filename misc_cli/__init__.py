"""One trustworthy label per item from noisy, incomplete crowd labels."""

from __future__ import annotations

from misc_cli.version import __version__

__all__ = ["__version__"]
