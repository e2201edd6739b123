"""The contract of a state: the labels, columns and forms of files that its nights have in common.

The first night teaches it. On a later night something new of a kind is an error that names the flag
to accept it (--accept); what is accepted once is known from then on. A warning is accepted in the
same way: workers who copy others are not told of again.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from misc_cli.errors import DuplicateWorkersWarning, InputError
from misc_cli.run.request import ACCEPTABLE

LABELS, COLUMNS, FORMAT, DUPLICATES = ACCEPTABLE
NAMES_SHOWN = 3


class Contract:
    """Texts by kind: those known from earlier nights, and those that this night has seen."""

    def __init__(self, known: Mapping[str, Iterable[str]], accept: Iterable[str]) -> None:
        self.known = {kind: set(known.get(kind, ())) for kind in ACCEPTABLE}
        self.seen: dict[str, set[str]] = {kind: set() for kind in ACCEPTABLE}
        self.accept = frozenset(accept)

    def to_json(self) -> dict[str, list[str]]:
        """Return everything that is known after this night, by kind."""
        found = {kind: self.known[kind] | self.seen[kind] for kind in ACCEPTABLE}
        if DUPLICATES not in self.accept:
            found[DUPLICATES] = self.known[DUPLICATES]
        return {kind: sorted(texts) for kind, texts in found.items()}

    def see(self, files: Iterable[Any]) -> None:
        """Note how files were read, in words."""
        for file in files:
            self.seen[COLUMNS].add(file.roles)
            self.seen[FORMAT].add(file.form)

    def check(self, labels: Iterable[str]) -> None:
        """Note tonight's labels; raise InputError if anything is new and not accepted."""
        self.seen[LABELS] = set(labels)
        wrong = {
            kind: f"{_shown(new)} (so far: {_shown(self.known[kind])})"
            for kind in (COLUMNS, FORMAT, LABELS)
            if kind not in self.accept
            and self.known[kind]
            and (new := self.seen[kind] - self.known[kind])
        }
        if wrong:
            raise InputError(
                f"not as on earlier nights: {', '.join(wrong)}: {'; '.join(wrong.values())}; "
                "nothing is written; if that is right, add --accept " + ",".join(wrong)
            )

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Pass over warnings of workers that were accepted; note those of others."""
        earlier: Any = warnings.showwarning

        def show(message: Warning | str, *rest: Any, **more: Any) -> None:
            if isinstance(message, DuplicateWorkersWarning):
                self.seen[DUPLICATES].update(message.workers)
                if set(message.workers) <= set(self.to_json()[DUPLICATES]):
                    return
            earlier(message, *rest, **more)

        with warnings.catch_warnings():
            warnings.showwarning = show
            yield


def _shown(texts: Iterable[str]) -> str:
    first = sorted(texts)
    more = f" and {len(first) - NAMES_SHOWN:,} more" if len(first) > NAMES_SHOWN else ""
    return ", ".join(map(repr, first[:NAMES_SHOWN])) + more
