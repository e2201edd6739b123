"""Parameters of methods, each declared once: allowed values, help text, default.

A method is a frozen dataclass; the metadata of each field holds its `Parameter`. Flags and their
help, the checks of the Python API, the tables in the docs and the run record all read it there.
No numeric imports: the help of a command loads only this module and the records of methods.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import types
import typing
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any, NamedTuple

from misc_cli.errors import ConfigError, python_words

# The answer that counts when a worker labels an item twice; the first word is the default.
DUPLICATES = ("last", "first", "error", "all")
AUTO = "auto"


class Number(NamedTuple):
    """The numbers from `least` (above it if `excluded`) to `most`."""

    whole: bool
    least: float
    excluded: bool = False
    most: float = math.inf

    def allows(self, value: Any) -> bool:
        kind = Integral if self.whole else Real
        if not isinstance(value, kind) or isinstance(value, bool):
            return False
        number: Any = value  # not as a float: a whole number may be too large for one
        above = number > self.least if self.excluded else number >= self.least
        return bool(above and number <= self.most and abs(number) < math.inf)

    @property
    def said(self) -> str:
        kind = "a whole number" if self.whole else "a number"
        most = "" if math.isinf(self.most) else f" to {self.most:g}"
        if self.excluded:
            return f"{kind} above {self.least:g}{most and f' and up{most}'}"
        return f"{kind} from {self.least:g}{most}"


# Upper limits: a typing error must not run for ever or ask for a terabyte.
SEED = Number(True, 0, most=2**63 - 1)
COUNT = Number(True, 1, most=10**9)
FEW = Number(True, 1, most=10_000)
WEIGHT = Number(False, 0, most=1e12)
SHARE = Number(False, 0, most=1)
POSITIVE = Number(False, 1e-12, most=1e12)


@dataclasses.dataclass(frozen=True)
class Parameter:
    """The allowed values of a parameter and its help.

    number   allowed numbers; `length` of them if that is more than 1
    choices  allowed words
    words    words allowed instead of a number
    unset    meaning of None, for the help
    note     remark on the default, for the help
    """

    help: str = ""
    number: Number | None = None
    choices: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    length: int = 1
    metavar: str = ""
    unset: str = ""
    note: str = ""

    def check(self, name: str, value: Any) -> None:
        """Raise a ConfigError if the value is not allowed; None counts as not given."""
        if value is None:
            return
        if self.number is None or value in self.words:
            allowed = not self.choices or value in self.choices
        else:
            listed = isinstance(value, tuple | list)
            parts = value if listed else (value,)
            fits = len(parts) == self.length and listed == (self.length > 1)
            allowed = fits and all(map(self.number.allows, parts))
        if allowed:
            return
        wanted = f"choose {' or '.join(self.choices)}"
        if self.number is not None:
            several = f"{self.length} numbers, each " if self.length > 1 else ""
            wanted = ", or ".join([f"give {several}{self.number.said}", *self.words])
        raise ConfigError(f"{flag(name)} {value}: {wanted}")


def parameter(default: Any, text: str, number: Number | None = None, **more: Any) -> Any:
    """Return a dataclass field with its `Parameter`, whose other fields are `more`."""
    described = Parameter(text, number, **more)
    return dataclasses.field(default=default, metadata={"parameter": described})


def parameters_of(record: type[Any]) -> dict[str, Parameter]:
    """Return every parameter of a record by field name.

    A plugin's field that declares nothing is described by the type of its default.
    """
    found = {}
    for field in dataclasses.fields(record):
        is_number = isinstance(field.default, int | float) and not isinstance(field.default, bool)
        number = Number(isinstance(field.default, int), -math.inf) if is_number else None
        found[field.name] = field.metadata.get("parameter") or Parameter(number=number)
    return found


def flag(name: str) -> str:
    """Return the flag of a parameter as the command line spells it."""
    return "--" + name.replace("_", "-")


def check(given: Mapping[str, Any], described: Mapping[str, Parameter]) -> None:
    """Raise a ConfigError for the first parameter whose value is not allowed."""
    for name, value in given.items():
        if name in described:
            described[name].check(name, value)


class Checked:
    """Base of methods: construction checks every parameter; flags are checked before that."""

    def __post_init__(self) -> None:
        try:
            check(vars(self), parameters_of(type(self)))
        except ConfigError as error:
            raise ConfigError(python_words(str(error))) from None


def conforms(value: Any, kind: Any) -> bool:
    """Tell whether a value read from JSON is of a type that an annotation or a shape names.

    A shape is a dict of keys ("key?" may be missing, "*" is any), a list of one for any number of
    it, or a tuple of alternatives. A dict conforms to a shape or a dataclass if it has the keys and
    their types; it may have others. Numbers are finite, no text holds a NUL.
    """
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return True
    if isinstance(kind, tuple):
        return any(conforms(value, one) for one in kind)
    if isinstance(kind, list):
        return isinstance(value, list) and all(conforms(one, kind[0]) for one in value)
    if dataclasses.is_dataclass(kind):
        kind = typing.get_type_hints(kind)
    if isinstance(kind, dict):
        if "*" in kind:
            return isinstance(value, dict) and conforms([*value.values()], [kind["*"]])
        return isinstance(value, dict) and all(
            conforms(value[key], one) if (key := name.rstrip("?")) in value else key != name
            for name, one in kind.items()
        )
    if origin in (types.UnionType, typing.Union):
        return any(conforms(value, one) for one in inner)
    if origin in (list, tuple):
        each = inner if origin is tuple and inner[-1] is not ... else itertools.repeat(inner[0])
        fits = isinstance(value, list) and (each is not inner or len(value) == len(inner))
        return fits and all(map(conforms, value, each))
    if origin in (dict, Mapping):
        return isinstance(value, dict) and all(
            conforms(name, str) and conforms(one, inner[1]) for name, one in value.items()
        )
    if kind in (int, float):
        whole = isinstance(value, int if kind is int else int | float)
        return whole and not isinstance(value, bool) and abs(value) < LARGEST
    if kind in (None, types.NoneType):
        return value is None
    return isinstance(value, kind) and "\0" not in str(value)


LARGEST = 1e18  # of numbers in a record: bytes, seconds and counts are smaller

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def seconds_of(text: str) -> float | None:
    """Return the seconds of a text such as 90, 90s, 1.5m, 2h, 30d or 4w; None if it is no time."""
    unit = _UNITS.get(text[-1:], 0)
    try:
        seconds = float(text[:-1]) * unit if unit else float(text)
    except ValueError:
        return None
    return seconds if 0 < seconds < math.inf else None
