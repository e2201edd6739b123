"""The worker's or the item's column where its name says nothing: only one column can be it.

Answers to one item differ in who gave them, and a worker's answers in what they are about. If a
single column tells all answers to an item apart and comes again on other items, it is the worker's;
if a single column tells all answers of a worker apart and other workers have it too, the item's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from misc_cli.readers.document import Document
from misc_cli.readers.row_status import is_standing
from misc_cli.readers.values import is_number
from misc_cli.readers.vocabulary import ABOUT, words_of

LEAST = 4  # items, or workers' values, that come again; fewer prove nothing
# Words that a thing's name may have, although they mostly tell about something else.
_NAMING = {"name", "title", "url", "path", "hash", "uuid", "index", "row", "id", "ids", "order"}


def deduced(document: Document, found: Mapping[str, Sequence[str]], role: str) -> str | None:
    """The only column that can be the worker's (or the item's), given the other two."""
    known = found["item" if role == "worker" else "worker"]
    if len(known) != 1 or len(found["label"]) != 1:
        return None
    names = document.names
    taken = [*known, *found["label"]]
    about = ABOUT - _NAMING if role == "item" else ABOUT - {"hash", "name", "id", "uuid"}
    free = [n for n in names if n not in taken and names.count(n) == 1 and not is_standing(n)]
    free = [n for n in free if n.strip() and not words_of(n) & about]
    fit = [n for n in free if _fits(document, known[0], n, role)]
    return fit[0] if len(fit) == 1 else None


def _fits(document: Document, known: str, name: str, role: str) -> bool:
    at = document.names.index(known), document.names.index(name)
    rows = [row for row in document.table.sample if len(row) > max(at)]
    pairs = [(row[at[0]].strip(), row[at[1]].strip()) for row in rows]
    if not all(what and whose for what, whose in pairs) or len(set(pairs)) < len(pairs):
        return False
    # what comes again: an item with several workers, or an item's name with several workers
    shared = Counter(one for one, _ in pairs) if role == "worker" else Counter(b for _, b in pairs)
    own = Counter(whose for _, whose in pairs)
    n_again = sum(count > 1 for count in shared.values())
    if n_again < LEAST or 2 * n_again < len(shared) or 2 * len(own) > len(pairs):
        return False
    return role == "item" or not _counts(own)


def _counts(values: Mapping[str, int]) -> bool:
    """Whether values are 1, 2, 3: the first, second and third answer, whoever gave it."""
    return all(map(is_number, values)) and len(values) < 20 and set(values) <= _SMALL


_SMALL = {str(number) for number in range(20)}
