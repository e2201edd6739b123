"""Registry of methods: names → classes as strings, so that listing them imports none.

Adding an algorithm is one new file and one line here. Other packages add theirs with the entry
point groups `misc_cli.aggregators` and `misc_cli.completers`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from misc_cli.data.parameters import check, flag, parameters_of
from misc_cli.errors import ConfigError, did_you_mean

AGGREGATORS: dict[str, str] = {
    "mv": "misc_cli.aggregators.methods:MajorityVote",
    "one-coin": "misc_cli.aggregators.methods:OneCoin",
    "ds-em": "misc_cli.aggregators.methods:DawidSkene",
    "ds-mf": "misc_cli.aggregators.methods:MeanField",
    "mmce-c": "misc_cli.aggregators.methods:MinimaxEntropy",
    "mmce-o": "misc_cli.aggregators.methods:OrdinalMinimaxEntropy",
    "ebcc": "misc_cli.aggregators.methods:EnhancedBcc",
}

COMPLETERS: dict[str, str] = {
    "tucker": "misc_cli.completers.parameters:Tucker",
    "tenals": "misc_cli.completers.parameters:TenALS",
    "lrtc": "misc_cli.completers.parameters:LRTC",
}


# Names that others give to these methods, in small letters.
ALIASES = {
    **dict.fromkeys(("majority", "majority-vote", "majorityvote", "vote"), "mv"),
    **dict.fromkeys(("dawid-skene", "dawidskene", "ds", "em"), "ds-em"),
    **dict.fromkeys(("onecoin", "one-coin-dawid-skene"), "one-coin"),
    **dict.fromkeys(("mean-field", "ds-vb"), "ds-mf"),
    **dict.fromkeys(("mmce", "minimax"), "mmce-c"),
}
OWN = {"aggregator": AGGREGATORS, "completer": COMPLETERS}  # by kind
PRESETS = ("robust", "paper")
KINDS = tuple(OWN)


def _plugins(kind: str) -> dict[str, Any]:
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group=f"misc_cli.{kind}s")}


def names(kind: str) -> list[str]:
    """Return the names of a kind ("aggregator" or "completer"), ours first, then plugins."""
    return [*OWN[kind], *plugin_names(kind)]


def plugin_names(kind: str) -> list[str]:
    """Return the names of a kind that other packages add, without loading them."""
    return [name for name in _plugins(kind) if name not in OWN[kind]]


def canonical(kind: str, name: str) -> str:
    """Return our name of a method that is spelled in capitals or called as others call it."""
    low = name.lower().replace("_", "-").replace(" ", "-")
    ours = ALIASES.get(low, low) if kind == "aggregator" else low
    return ours if ours in OWN[kind] or ours in ("auto", "none") else name


def load(kind: str, name: str, also: tuple[str, ...] = ()) -> type[Any]:
    """Return the class of a name; an error offers the words of `also` besides the names."""
    if name in OWN[kind]:
        module, _, attribute = OWN[kind][name].partition(":")
        loaded: type[Any] = getattr(import_module(module), attribute)
        return loaded
    point = _plugins(kind).get(name)
    if point is None:
        known = [*also, *(["none"] if kind == "completer" else []), *names(kind)]
        guess = did_you_mean(name.lower(), known)
        then = " There" if guess.endswith("?") else "; there"
        raise ConfigError(f"no {kind} is called {name!r}{guess}{then} are {', '.join(known)}")
    try:
        plugin: Any = point.load()
        if not (isinstance(plugin, type) and dataclasses.is_dataclass(plugin)):
            raise TypeError(f"{plugin!r:.60} is not a dataclass")
    except Exception as error:  # any fault of theirs: theirs to mend, not a defect of ours
        what = f"{type(error).__name__}: {error}"
        said = f"{kind} {name!r} cannot be loaded ({what}); update the package or remove it"
        raise ConfigError(said) from error
    return plugin


def name_of(kind: str, method: Any) -> str | None:
    """Return the name of a method's class, None if it is not registered."""
    here = f"{type(method).__module__}:{type(method).__qualname__}"
    for name, target in OWN[kind].items():
        if target == here:
            return name
    loaded = (name for name in plugin_names(kind) if load(kind, name) is type(method))
    return next(loaded, None)


def changed(method: Any) -> dict[str, Any]:
    """Return the parameters of a method that differ from its defaults."""
    plain = type(method)()
    return {name: value for name, value in vars(method).items() if value != getattr(plain, name)}


def settings(kind: str, name: str, preset: str = "robust") -> dict[str, Any]:
    """Return the parameters of a method under a preset; `robust` is the class's defaults."""
    method = load(kind, name)
    try:
        defaults = vars(method())
    except TypeError:
        raise ConfigError(f"{kind} {name}: every parameter needs a default") from None
    presets: Mapping[str, Mapping[str, Any]] = getattr(method, "presets", {})
    return {**defaults, **presets.get(preset, {})}


def create(kind: str, name: str, preset: str = "robust", **overrides: Any) -> Any:
    """Create a method; an override of None counts as not given, an unknown one is an error."""
    resolved = settings(kind, name, preset)
    given = {key: value for key, value in overrides.items() if value is not None}
    for key in given.keys() - resolved:
        known = ", ".join(map(flag, resolved)) or "none"
        raise ConfigError(f"{flag(key)} does not apply to {kind} {name}; it takes: {known}")
    method = load(kind, name)
    check(given, parameters_of(method))
    return method(**{**resolved, **given})
