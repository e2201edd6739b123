"""A crowd as the text columns of its files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from misc_cli.core.types import Codes
from misc_cli.simulate.crowd import Crowd


def answer_columns(crowd: Crowd, class_names: Sequence[str] | None = None) -> dict[str, Any]:
    """worker, item and label as text columns, dictionary-encoded."""
    return {
        "worker": _named(crowd.worker, _names("w", len(crowd.kinds))),
        "item": _named(crowd.item, _names("i", len(crowd.truth))),
        "label": _named(crowd.label, _class_names(crowd, class_names)),
    }


def truth_columns(crowd: Crowd, class_names: Sequence[str] | None = None) -> dict[str, Any]:
    """item and label as text columns."""
    return {
        "item": _names("i", len(crowd.truth)),
        "label": _named(crowd.truth, _class_names(crowd, class_names)),
    }


def _class_names(crowd: Crowd, given: Sequence[str] | None) -> Any:
    n_classes = crowd.confusions.shape[1]
    return _names("c", n_classes) if given is None else pa.array(list(given), pa.string())


def _names(letter: str, count: int) -> Any:
    """w001 … w100: as many digits as the last one needs, so that text sorts like numbers."""
    numbers = pa.array(np.arange(1, count + 1)).cast(pa.string())
    padded = pc.utf8_lpad(numbers, len(str(count)), "0")
    return pc.binary_join_element_wise(letter, padded, "")


def _named(codes: Codes, names: Any) -> Any:
    return pa.DictionaryArray.from_arrays(pa.array(codes), names)
