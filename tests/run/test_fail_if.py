"""The grammar of --fail-if."""

from __future__ import annotations

import pytest

from misc_cli.errors import ConfigError, InputError
from misc_cli.run.fail_if import parse_gate

FIGURES = {
    "confidence": 0.9,
    "density": 3.5,
    "converged": False,
    "ties": 3,
    "lowest-confidence": 0.4,
    "overruled": 7.25,
    "alpha": None,
}


@pytest.mark.parametrize(
    ("text", "trips"),
    [
        ("confidence<0.95", True),
        ("confidence < 0.9", False),
        ("confidence<=0.9", True),
        ("converged=false", True),
        ("converged != true", True),
        ("converged=true", False),
        ("ties>2", True),
        ("ties >= 4", False),
        ("ties >= 3", True),
        ("ties > 3", False),
        ("ties <= 3", True),
        ("ties < 3", False),
        ("ties == 3", True),
        ("ties == 4", False),
        ("ties != 3", False),
        ("ties=3", True),
        ("ties=4", False),
        ("lowest_confidence<0.5", True),
        ("density>5%", False),
        ("density < 5 %", True),
        ("overruled>5%", True),
        ("overruled > 7.25", False),
    ],
)
def test_conditions(text: str, trips: bool) -> None:
    assert parse_gate(text).trips(FIGURES) is trips


def test_what_a_run_does_not_know_cannot_be_passed() -> None:
    with pytest.raises(InputError, match="no error to judge"):
        parse_gate("error>5%").trips(FIGURES)
    with pytest.raises(InputError, match="no alpha to judge: too few answers"):
        parse_gate("alpha<0.4").trips(FIGURES)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ties",
        "ties>",
        "ties>many",
        "ties~3",
        "mood>3",
        "converged=1",
        "ties=true",
        "ties<nan",
        "ties>inf",
        "confidence<50%",
        "ties > 5 %",
    ],
)
def test_nonsense_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--fail-if"):
        parse_gate(text)
