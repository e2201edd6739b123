"""Settings of a run, with the defaults of all that is no method's own parameter, and its methods.

No numeric imports: the command line reads its defaults from here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

from misc_cli import registry
from misc_cli.completers.parameters import LOOP_OPTIONS, RANK_OPTIONS, Loop
from misc_cli.data.parameters import (
    AUTO,
    SEED,
    Number,
    check,
    flag,
    parameter,
    parameters_of,
)
from misc_cli.errors import ConfigError

if TYPE_CHECKING:
    from misc_cli.data.types import Aggregator, Completer, Labels

    # A function from labels to posteriors, (n_items, n_classes), or to an Aggregation.
    OwnMethod = Callable[[Labels], Any]

NO_COMPLETER = "none"
# What an automatic completer tries, and what an automatic run builds completion on.
AUTO_COMPLETER = "tucker"
BASELINE = "ds-em"
# These two words mean the aggregator's stopping rule even where a completer has one of its own.
AGGREGATOR_ONLY = ("tol", "max_iter")


@dataclass(frozen=True)
class Settings:
    """Everything that decides a run's labels.

    `options` holds method parameters by field name (`class_prior`, `ranks`, ...); None counts as
    not given. `completer` None means: automatic if the aggregator is, else none. `time_budget`
    (seconds) bounds an automatic choice. `duplicates` None means the last answer, with a warning
    that there are such. `threads` changes how long a run takes and nothing else.
    """

    preset: str = "robust"
    completer: str | None = None
    aggregator: str = AUTO
    duplicates: str | None = None
    class_order: tuple[str, ...] | None = None
    seed: int = parameter(0, "Of every random start.", SEED)
    threads: int | None = parameter(
        None,
        "Threads that walk the items; changes how long it takes and nothing else.",
        Number(True, 1, most=1024),
        unset="all cores, 8 at most",
    )
    calibrate: bool = True
    time_budget: float | None = parameter(
        None,
        "60s, 5m, 1h: an automatic choice uses what it has by then.",
        Number(False, 0, excluded=True),
        unset="none",
    )
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for kind in registry.KINDS:
            given = getattr(self, kind)
            if isinstance(given, str) and given not in registry.OWN[kind]:
                object.__setattr__(self, kind, registry.canonical(kind, given))


@dataclass(frozen=True)
class Methods:
    """A run's settings, resolved once: the methods, built, and every parameter they ended up with.

    `names` and `resolved` (parameters) are by kind, "aggregator" and "completer". `loop` holds the
    fields of `Loop` that were given or that the preset sets. `aggregator` is None if it is
    to be chosen, with `roster_options` for those it is chosen from; `search_ranks` says that the
    completer's rank is to be chosen; `automatic` that something is.
    """

    names: dict[str, str]
    aggregator: Any
    completer: Any | None
    loop: dict[str, Any]
    resolved: dict[str, dict[str, Any]]
    roster_options: dict[str, Any] = field(default_factory=dict)
    search_ranks: bool = False
    automatic: bool = False
    settings: Settings = field(default_factory=Settings)


def with_methods(
    settings: Settings,
    aggregator: str | Aggregator | OwnMethod,
    completer: str | Completer | None = None,
    loop: Loop | None = None,
) -> tuple[Settings, Aggregator | None]:
    """Return the settings that name these methods, and the own method among them, if there is one.

    A method that is an object gives the parameters that differ from its defaults: the preset
    decides the others, as it does of flags.
    """
    from misc_cli.aggregators.methods import CustomAggregator

    options, own, seed = dict(settings.options), None, settings.seed
    names: dict[str, str | None] = {}
    for kind, method in (("aggregator", aggregator), ("completer", completer)):
        method = method() if isinstance(method, type) else method
        names[kind] = method if isinstance(method, str) else None
        if method is None or isinstance(method, str):
            continue
        names[kind] = registry.name_of(kind, method)
        if names[kind] is not None:
            given = registry.changed(method)
            seed = given.pop("seed", seed)
            twice = options.keys() & given.keys()
            if twice:
                raise ConfigError(f"{flag(min(twice))} is given of two methods; give it of one")
            options |= given
        elif kind == "aggregator" and callable(method):
            own = CustomAggregator(cast("OwnMethod", method))
            names[kind] = own.name
        else:
            raise ConfigError(f"{method!r:.60} is no {kind}; give a name or a method")
    if loop is not None:
        options |= registry.changed(loop)
        if loop.start is not None:
            options["start"] = registry.name_of("aggregator", loop.start)
    named = replace(settings, completer=names["completer"], options=options, seed=seed)
    return replace(named, aggregator=names["aggregator"] or AUTO), own


def build(settings: Settings, own: Aggregator | None = None) -> Methods:
    """Hand every option to the method that has a field of its name; what nobody has is an error.

    `own` is a method of the caller's, in place of one that is registered by the settings' name.
    """
    if settings.preset not in registry.PRESETS:
        known = ", ".join(registry.PRESETS)
        raise ConfigError(f"no preset is called {settings.preset!r}; there are {known}")
    given = {name: value for name, value in settings.options.items() if value is not None}
    own_parameters = parameters_of(Settings)
    check({name: getattr(settings, name) for name in own_parameters}, own_parameters)
    check(given, parameters_of(Loop))
    names = {} if settings.aggregator == AUTO else {"aggregator": settings.aggregator}
    completer = settings.completer or (AUTO if settings.aggregator == AUTO else NO_COMPLETER)
    if completer != NO_COMPLETER:  # one that is automatic may be declined
        names["completer"] = AUTO_COMPLETER if completer == AUTO else completer
    registered = {kind: name for kind, name in names.items() if own is None or kind == "completer"}
    fields: dict[str, dict[str, Any]] = {kind: {} for kind in names}
    for kind, name in registered.items():
        registry.load(kind, name, also=(AUTO,))
        fields[kind] = registry.settings(kind, name, settings.preset)
    to_choose = {name for name, value in given.items() if value == AUTO and name in RANK_OPTIONS}
    search = any(
        name in RANK_OPTIONS and (name in to_choose or name not in given)
        for name in fields.get("completer", {})
    )
    if "completer" in names and "aggregator" not in names and not search:
        # Hidden answers choose pure methods and whether to complete at all. Who settles the
        # completer has decided that, and gets it with the aggregator that completion builds on.
        names["aggregator"] = registered["aggregator"] = BASELINE
        fields["aggregator"] = registry.settings("aggregator", BASELINE, settings.preset)
    shares: dict[str, dict[str, Any]] = {kind: {} for kind in ("aggregator", "completer", "loop")}
    for name, value in given.items():
        owner = _owner(name, names, fields)  # those that are to be chosen need one, too
        if name not in to_choose:
            shares[owner][name] = value
    for kind in fields:
        if "seed" in fields[kind]:
            shares[kind]["seed"] = settings.seed
    built = {
        kind: registry.create(kind, name, settings.preset, **shares[kind])
        for kind, name in registered.items()
    }
    resolved = {kind: {**fields[kind], **shares[kind]} for kind in fields}
    loop = {**Loop.presets.get(settings.preset, {}), **shares["loop"]}
    if "start" in loop:  # one that judges last must judge what is not its own
        if loop.get("final", Loop.final) == "answers" or loop.get("strength", 1.0) < 1.0:
            raise ConfigError("--start fills the first slice; it needs --final completed")
        resolved["start"] = {"aggregator": loop["start"]}
        loop["start"] = registry.create("aggregator", loop["start"], settings.preset)
    chosen_aggregator = built.get("aggregator", own)
    automatic = chosen_aggregator is None or search
    if settings.time_budget is not None and not automatic:
        chosen = " and ".join(f"--{kind} {name}" for kind, name in names.items())
        raise ConfigError(f"--time-budget bounds an automatic choice; {chosen} leaves none to make")
    return Methods(
        names,
        chosen_aggregator,
        built.get("completer"),
        loop=loop,
        resolved=resolved,
        roster_options={} if "aggregator" in names else shares["aggregator"],
        search_ranks=search,
        automatic=automatic,
        settings=settings,
    )


def _owner(name: str, names: Mapping[str, str], fields: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the kind of method that takes an option, or "loop"."""
    kinds = ("aggregator",) if name in AGGREGATOR_ONLY else ("aggregator", "completer")
    for kind in kinds:
        if name in fields.get(kind, {}):
            return kind
    if name in LOOP_OPTIONS and "completer" in fields:
        return "loop"
    if "aggregator" not in fields and name not in (*LOOP_OPTIONS, *RANK_OPTIONS):
        return "aggregator"  # the roster sees to it that one of its methods takes it
    listing = "; ".join(
        f"{kind} {names[kind]} takes {', '.join(map(flag, own)) or 'no options'}"
        for kind, own in fields.items()
    )
    hint = "" if "completer" in fields else " (there is no --completer)"
    raise ConfigError(f"{flag(name)} does not apply here{hint}: {listing}")
