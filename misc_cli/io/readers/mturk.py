"""Mechanical Turk, CSV of a batch: HITId, WorkerId, AssignmentStatus, Input.x and Answer.x columns.

https://docs.aws.amazon.com/AWSMechTurk/latest/RequesterUI/DownloadingaResultsFile.html
"""

from __future__ import annotations

from misc_cli.io.document import Document
from misc_cli.io.options import ReadOptions
from misc_cli.io.readers.base import CERTAIN, Match, Reader, Reading, from_columns, is_one_of

_STATUS = "AssignmentStatus"
_PREFIX = "Answer."


def detect(document: Document) -> Match | None:
    answers = [name for name in document.names if name.startswith(_PREFIX)]
    if answers and {"HITId", "WorkerId"} <= set(document.names):
        return Match(CERTAIN, "HITId, WorkerId and Answer. columns")
    return None


def read(document: Document, options: ReadOptions) -> Reading:
    questions = {n.removeprefix(_PREFIX): n for n in document.names if n.startswith(_PREFIX)}
    aside = {"rejected": lambda column: is_one_of(column(_STATUS), "rejected")}
    return from_columns(
        document,
        worker="WorkerId",
        item="HITId",
        questions=questions,
        options=options,
        aside=aside if _STATUS in document.names else None,
    )


READER = Reader(
    name="mturk",
    title="Mechanical Turk, CSV of a batch",
    explain="worker is WorkerId, item HITId, a question an Answer. column; rejected assignments "
    "are left out",
    detect=detect,
    read=read,
    page="https://docs.aws.amazon.com/AWSMechTurk/latest/RequesterUI/DownloadingaResultsFile.html",
)
