"""One trustworthy label per item from noisy, incomplete crowd labels.

>>> import pandas as pd
>>> import misc_cli
>>> answers = pd.DataFrame(
...     {"worker": list("abcabc"), "item": [1, 1, 1, 2, 2, 2], "label": list("xxyyyy")}
... )
>>> result = misc_cli.aggregate(answers, aggregator="mv")
>>> result.labels[["item", "label"]].values.tolist()
[[1, 'x'], [2, 'y']]
"""

from __future__ import annotations

import sys

from misc_cli.version import __version__ as __version__

TYPE_CHECKING = False  # as typing has it, without the time that takes: Ctrl-C may come at once
if TYPE_CHECKING:
    from misc_cli.aggregators.methods import DawidSkene as DawidSkene
    from misc_cli.aggregators.methods import EnhancedBcc as EnhancedBcc
    from misc_cli.aggregators.methods import MajorityVote as MajorityVote
    from misc_cli.aggregators.methods import MeanField as MeanField
    from misc_cli.aggregators.methods import MinimaxEntropy as MinimaxEntropy
    from misc_cli.aggregators.methods import OneCoin as OneCoin
    from misc_cli.aggregators.methods import OrdinalMinimaxEntropy as OrdinalMinimaxEntropy
    from misc_cli.api import ReadOptions as ReadOptions
    from misc_cli.api import aggregate as aggregate
    from misc_cli.api import compare as compare
    from misc_cli.api import diff as diff
    from misc_cli.api import evaluate as evaluate
    from misc_cli.api import inspect as inspect
    from misc_cli.api import items as items
    from misc_cli.api import queue as queue
    from misc_cli.api import read_answers as read_answers
    from misc_cli.api import report as report
    from misc_cli.api import simulate as simulate
    from misc_cli.api import workers as workers
    from misc_cli.completers.parameters import LRTC as LRTC
    from misc_cli.completers.parameters import Loop as Loop
    from misc_cli.completers.parameters import TenALS as TenALS
    from misc_cli.completers.parameters import Tucker as Tucker
    from misc_cli.errors import MiscError as MiscError
    from misc_cli.errors import MiscWarning as MiscWarning
    from misc_cli.results import Result as Result

_NAMES = {
    "api": "ReadOptions aggregate compare diff evaluate inspect items queue read_answers report "
    "simulate workers",
    "results": "Result",
    "errors": "MiscError MiscWarning",
    "aggregators.methods": "DawidSkene EnhancedBcc MajorityVote MeanField MinimaxEntropy OneCoin "
    "OrdinalMinimaxEntropy",
    "completers.parameters": "LRTC Loop TenALS Tucker",
}
_MODULE = {name: module for module, names in _NAMES.items() for name in names.split()}

if not TYPE_CHECKING:  # a type checker knows the names, and refuses others
    __all__ = ["__version__", *_MODULE]

    def __getattr__(name: str) -> object:
        """Import a public name when it is first used: `import misc_cli` loads nothing numeric."""
        if name not in _MODULE:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module(f"misc_cli.{_MODULE[name]}"), name)

    def __dir__() -> list[str]:
        return __all__


class _Package(type(sys)):  # type: ignore[misc]
    """The package; its rooms `report` and `simulate` do not hide the functions of these names."""

    def __setattr__(self, name: str, value: object) -> None:
        if name not in _MODULE:
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
