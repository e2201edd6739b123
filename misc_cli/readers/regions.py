"""Tables with a row for each box or span: image, annotator, label, x, y, w, h."""

from __future__ import annotations

import re

import pyarrow as pa

from misc_cli.readers.document import Document
from misc_cli.readers.platforms.base import Question
from misc_cli.readers.repeats import share_of_conflicts
from misc_cli.readers.values import is_number
from misc_cli.readers.vocabulary import normalise

RARE = 0.02  # of the pairs: fewer with several places are corrections
# What one number of a place is called (bbox_x, xmin, start_offset); a place takes two of them.
_NUMBER = re.compile(
    r"(?:bbox|box|boundingbox|bb|region|rect|rectangle|span|value|coords?|char|token)?"
    r"(?:[xy](?:min|max|[0-3]|center|centre|c|px|pos)?|(?:min|max|center|c)[xy]"
    r"|w|h|width|height|left|top|right|bottom|lat|lon|lng|latitude|longitude"
    r"|(?:start|begin|end|stop|onset|offset)(?:offset|char|token|time|index|pos|ms|s|sec|frame)?)"
)
_WHOLE = {
    *("bbox", "boundingbox", "box", "polygon", "points", "segmentation", "mask", "rle", "geometry"),
    *("coordinates", "coords", "region", "span"),
}


def several_regions(question: Question, document: Document) -> tuple[list[str], int, int]:
    """The columns that hold places, pairs of worker and item, and how many name several places."""
    places = _places(question, document)
    if not places:
        return [], 0, 0
    columns = document.columns(places)
    if question.rows is not None:
        columns = [column.take(pa.array(question.rows)) for column in columns]
    if any(len(column) != len(question) for column in columns):
        return places, 0, 0  # its rows are not the answers
    n_pairs, n_several = share_of_conflicts(question.worker, question.item, *columns)
    return places, n_pairs, n_several if n_several > RARE * n_pairs else 0


def _places(question: Question, document: Document) -> list[str]:
    roles = question.columns
    if not {roles.get("worker"), roles.get("item"), roles.get("label")} <= set(document.names):
        return []
    free = [n for n in document.names if n not in roles.values() and document.names.count(n) == 1]
    whole = [name for name in free if normalise(name) in _WHOLE]
    numbers = [name for name in free if _is_number_of_place(document, name)]
    return whole + (numbers if len(numbers) > 1 else [])


def _is_number_of_place(document: Document, name: str) -> bool:
    last = normalise(name.rpartition(".")[2])
    if _NUMBER.fullmatch(last) is None and _NUMBER.fullmatch(normalise(name)) is None:
        return False
    cells = document.sampled(name)
    return bool(cells) and all(map(is_number, cells))
