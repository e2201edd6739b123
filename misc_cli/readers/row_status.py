"""Rows that do not count as answers by what stands beside them, and gold that does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from misc_cli.errors import InputError
from misc_cli.readers.document import Document, is_one_of, plain_words
from misc_cli.readers.vocabulary import names_in, normalise

Condition = Callable[[Any], Any]  # of a function from a name to its column: a mask, or None

_BAD_STATUSES = (
    *("rejected", "reject", "cancelled", "canceled", "skipped", "skip", "tainted", "expired"),
    *("abandoned", "returned", "deleted", "draft", "invalid", "ignored", "ignore", "discarded"),
    *("spam", "failed", "timed-out", "timed out"),
)
_BAD_FLAGS = names_in("""
rejected cancelled canceled wascancelled skipped tainted deleted isdeleted discarded isspam ignored
isskipped isrejected iscancelled istraining ispractice isdraft superseded exclude excluded
isexcluded isinvalid invalid
""")
_GOOD_FLAGS = names_in("""
isvalid valid islatest latest iscurrent approved isapproved accepted isaccepted
""")
_YES, _NO = ("true", "1", "yes", "t", "y", "1.0"), ("false", "0", "no", "f", "n", "0.0")
_BAD_TIMES = ("deletedat", "rejectedat", "cancelledat", "canceledat", "skippedat", "discardedat")
# What kind of row it is: such words count only where other rows have other ones.
_KINDS = ("phase", "stage", "type", "kind", "labeltype", "annotationtype", "block", "part", "mode")
_BAD_KINDS = (
    *("training", "practice", "tutorial", "warmup", "warm-up", "qualification", "onboarding"),
    *("consensus", "adjudication", "adjudicated", "curation", "curated", "aggregated", "majority"),
    *("prediction", "predicted", "pre-annotation", "preannotation"),
)
# Who is called so is nobody: a label made of the others' answers, or known before.
_NOBODY = (
    *("consensus", "majority", "majority vote", "majority_vote", "majorityvote", "aggregated"),
    *("aggregate", "adjudicated", "gold", "gold standard", "gold_standard", "ground truth"),
    *("ground_truth", "groundtruth", "truth", "final label", "final_label"),
)
_GOLD = {"gold", "goldlabel", "truth", "groundtruth", "truelabel", "goldanswer", "correctlabel"}


def is_standing(name: str) -> bool:
    """Return whether a column says if an answer counts, by its name: a status, a flag, a time."""
    plain = normalise(name)
    is_status = plain.endswith("status") or plain in ("state", "reviewstate")
    return is_status or plain in (*_BAD_FLAGS, *_GOOD_FLAGS, *_BAD_TIMES)


def statuses(document: Document, taken: Sequence[str]) -> dict[str, Condition]:
    """Return the rows that a status or a flag takes out, by reason, but for columns `taken`."""
    found: dict[str, list[Condition]] = {}
    for name in document.names:
        if document.names.count(name) > 1 or name in taken:
            continue
        plain, said = normalise(name), name.strip().lower()
        if plain in _BAD_FLAGS:
            found.setdefault(said, []).append(_is(name, *_YES))
        elif plain in _GOOD_FLAGS:  # if nobody said yes, nobody has looked yet
            found.setdefault(f"not {said}", []).append(_is(name, *_NO, beside=_YES))
        elif plain in _BAD_TIMES:
            missing = ("", "null", "nan", "nat", "none")
            found.setdefault(said, []).append(_is(name, *missing, inverted=True))
        elif is_standing(name):
            for status in _BAD_STATUSES:
                found.setdefault(status, []).append(_is(name, status))
        elif plain in _KINDS:
            for kind in _BAD_KINDS:
                found.setdefault(kind, []).append(_is(name, kind, unlike=("", *_BAD_KINDS)))
    return {reason: _any_of(conditions) for reason, conditions in found.items()}


def _any_of(conditions: Sequence[Condition]) -> Condition:
    """Return the rows that one of these takes out: columns may share a reason."""

    def condition(column: Any) -> Any:
        hits = [hit for one in conditions if (hit := one(column)) is not None]
        return reduce(pc.or_kleene, hits) if hits else None

    return condition


def _is(
    name: str,
    *values: str,
    beside: Sequence[str] = (),
    unlike: Sequence[str] = (),
    inverted: bool = False,
) -> Condition:
    """Return the cells of these values (all others if inverted).

    Nothing is returned unless some cells are one of `beside`, or none of `unlike`.
    """

    def condition(column: Any) -> Any:
        words = plain_words(column(name))
        if beside and not pc.any(pc.is_in(words, pa.array(beside))).as_py():
            return None
        if unlike and pc.all(pc.is_in(words, pa.array(unlike))).as_py():
            return None
        hits = is_one_of(column(name), *values)
        return pc.invert(hits) if inverted else hits

    return condition


def consensus_rows(document: Document, worker: str) -> dict[str, Condition]:
    """Return the rows whose worker is nobody: a consensus or known labels, often at the end."""

    def condition(column: Any) -> Any:
        names = column(worker)
        hits = pc.is_in(plain_words(names), pa.array(_NOBODY))
        is_some = pc.any(hits).as_py() and not pc.all(hits).as_py()
        return hits.take(names.indices) if is_some else None

    return {"consensus or gold": condition}


def header_again(document: Document, names: Sequence[str]) -> dict[str, Condition]:
    """Return the rows that are the header once more, in files put together from several."""
    if not document.table.header or not names:
        return {}

    def condition(column: Any) -> Any:
        def place(name: str, other: str) -> int:
            return int(column(name).dictionary.index(other).as_py())

        if len(names) == 2 and place(*names) >= 0 and place(*names[::-1]) >= 0:
            raise InputError(
                f"{document.name}: a second header with {names[0]!r} and {names[1]!r} in another "
                "order; give the parts as files of their own"
            )
        own = [place(name, name) for name in names]
        if min(own) < 0:
            return None
        pairs = zip(names, own, strict=True)
        hits = [np.asarray(column(name).indices) == code for name, code in pairs]
        return np.all(hits, axis=0)

    return {"repeated header": condition}


def gold_of(document: Document, taken: Sequence[str], answers: Sequence[str]) -> dict[str, str]:
    """Return the one answer's column → the column of right answers beside it, if there is one."""
    names = [n for n in document.names if n not in (*taken, *answers)]
    known = [n for n in names if normalise(n) in _GOLD and document.names.count(n) == 1]
    return {answers[0]: known[0]} if len(known) == len(answers) == 1 else {}
