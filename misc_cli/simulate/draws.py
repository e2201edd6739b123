"""Draws from uniform numbers alone, whose sequence numpy keeps from version to version."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from misc_cli.core.types import Codes, Floats


def below(rng: np.random.Generator, limit: int, size: int) -> Codes:
    codes: Codes = np.minimum(rng.random(size) * limit, limit - 1).astype(np.int32)
    return codes


def normal(rng: np.random.Generator, *shape: int) -> Floats:
    # random() may return 0, whose quantile is minus infinity; 1 - random() may be 1: clip both
    drawn: Floats = ndtri(np.clip(rng.random(shape), 1e-12, 1 - 1e-12))
    return drawn
