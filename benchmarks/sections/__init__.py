"""Sections of the report; each returns its markdown and notes which targets were met."""

from __future__ import annotations

from collections.abc import Callable

from sections.bench import Bench
from sections.default import budget, default
from sections.growth import growth
from sections.limit import limit
from sections.loop import misc_loop
from sections.peers import beside_peers
from sections.reading import reading
from sections.startup import start_up
from sections.tucker import tucker

Section = Callable[[Bench], str]

SECTIONS: dict[str, tuple[str, Section]] = {
    "startup": ("Start-up", start_up),
    "limit": ("The limit: a fused C kernel", limit),
    "reading": ("Reading", reading),
    "peers": ("Beside the peers", beside_peers),
    "default": ("The default", default),
    "budget": ("The default under a time budget", budget),
    "tucker": (
        "Tucker alone, 1,000 workers × 20,000 items × 5 classes, 100 k answers, ranks (3,5,5)",
        tucker,
    ),
    "loop": ("tucker (5,10,5) + ds-em, 5 passes", misc_loop),
    "growth": ("Growth", growth),
}
# What only the patient run has.
PATIENT = ("loop",)
