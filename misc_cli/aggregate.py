"""`import misc_cli.aggregate as a` gives the function, as `from misc_cli import aggregate` does."""

from __future__ import annotations

import sys

from misc_cli.api import aggregate

sys.modules[__name__] = aggregate  # type: ignore[assignment]
