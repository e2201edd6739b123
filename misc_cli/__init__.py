"""One trustworthy label per item from noisy, incomplete crowd labels.

from misc_cli import aggregate, read_answers
result = aggregate(read_answers("answers.csv"), aggregator="ds-em")
result.labels
"""

from __future__ import annotations

from misc_cli.version import __version__

TYPE_CHECKING = False  # as typing has it, without the time that takes: Ctrl-C may come at once
if TYPE_CHECKING:
    from typing import Any

    from misc_cli.api import Result, aggregate, compare, read_answers

__all__ = ["Result", "__version__", "aggregate", "compare", "read_answers"]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: `import misc_cli` loads nothing numeric."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module("misc_cli.api"), name)
