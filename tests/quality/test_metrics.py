"""Figures of labels against the truth, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from misc_cli.quality.evaluation import wilson


def test_wilson_holds_the_share() -> None:
    low, high = wilson(np.array([0.0, 0.5]), np.array([10.0, 10.0]))
    # Wilson's interval of 5 in 10: 0.237 to 0.763 (e.g. Brown, Cai & DasGupta 2001)
    assert (low[1], high[1]) == pytest.approx((0.2366, 0.7634), abs=1e-4)
    assert low[0] == pytest.approx(0)
