"""Parameters that tenals and lrtc share, declared once."""

from __future__ import annotations

from typing import Any

from misc_cli.core.parameters import COUNT, WEIGHT, parameter


def observed() -> Any:
    text = "tenals, lrtc: the entries that count as seen."
    return parameter("fibres", text, choices=("fibres", "ones"))


def completer_tol() -> Any:
    return parameter(1e-4, "tenals, lrtc: stop when the fit gains less.", WEIGHT)


def completer_max_iter() -> Any:
    return parameter(200, "tenals, lrtc: iterations per pass.", COUNT)
