"""One trustworthy label per item from noisy, incomplete crowd labels.

from misc_cli import aggregate, read_answers
result = aggregate(read_answers("answers.csv"), aggregator="ds-em")
result.labels
"""

from __future__ import annotations

import sys
from types import ModuleType

from misc_cli.version import __version__

TYPE_CHECKING = False  # as typing has it, without the time that takes: Ctrl-C may come at once
if TYPE_CHECKING:
    from typing import Any

    from misc_cli.api import Result, aggregate, compare, read_answers

__all__ = ["Result", "__version__", "aggregate", "compare", "read_answers"]

_PUBLIC = {
    "Result": "misc_cli.api",
    "aggregate": "misc_cli.api",
    "compare": "misc_cli.api",
    "read_answers": "misc_cli.api",
}


class _LazyName:
    """A public name, imported when it is first used.

    The import system binds a subpackage to its parent's attribute, and the folder `aggregate` is
    one: accepting that quietly keeps `misc_cli.aggregate` the function. Its modules are attributes
    of the function, so that `import misc_cli.aggregate.majority as majority` finds them.
    """

    def __init__(self, name: str, module: str) -> None:
        self.name, self.module = name, module

    def __get__(self, package: Any, _: Any = None) -> Any:
        from importlib import import_module

        found = getattr(import_module(self.module), self.name)
        folder = vars(sys.modules.get(f"{__name__}.{self.name}", found))
        modules = {name: part for name, part in folder.items() if isinstance(part, ModuleType)}
        if modules:
            vars(found).update(modules)
        return found

    def __set__(self, package: Any, subpackage: Any) -> None:
        pass


class _Package(ModuleType):
    """This package, with its public names as lazy attributes."""


for _name, _module in _PUBLIC.items():
    setattr(_Package, _name, _LazyName(_name, _module))
sys.modules[__name__].__class__ = _Package
