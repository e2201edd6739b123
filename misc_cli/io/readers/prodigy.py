"""Prodigy, JSON lines: one record per task and annotator.

https://prodi.gy/docs/api-interfaces: `answer` is accept, reject or ignore; the choice interface
keeps the accepted options' ids in `accept`; `_annotator_id` (or `_session_id`) is the annotator,
`_input_hash` the input, `_task_hash` the input with its question.
"""

from __future__ import annotations

from misc_cli.io.document import Document, text
from misc_cli.io.options import ReadOptions
from misc_cli.io.readers.base import (
    CERTAIN,
    CHOICE,
    CHOICES,
    SPANS,
    Collector,
    Match,
    Reader,
    Reading,
)


def detect(document: Document) -> Match | None:
    if document.records and {"_input_hash", "_task_hash"} <= set(document.records[0]):
        return Match(CERTAIN, "_input_hash and _task_hash")
    return None


def read(document: Document, options: ReadOptions) -> Reading:
    found = Collector()
    for row, task in enumerate(document.records or []):
        who = task.get("_annotator_id") or task.get("_session_id")
        verdict = task.get("answer")
        if verdict == "ignore":
            found.aside("ignored", row)
        elif "accept" in task:
            if verdict == "reject":
                found.aside("rejected", row)
                continue
            accepted = task["accept"] if isinstance(task["accept"], list) else [task["accept"]]
            several = len(accepted) > 1
            label = accepted if several else next(iter(accepted), "")
            columns = {"worker": "_annotator_id", "item": "_input_hash", "label": "accept"}
            kind = CHOICES if several else CHOICE
            found.answer("accept", who, task["_input_hash"], label, row, kind, columns)
        elif "spans" in task or "relations" in task:
            found.answer("spans", who, task["_input_hash"], task.get("spans"), row, SPANS)
        else:  # yes or no to the label that the task proposes
            columns = {"worker": "_annotator_id", "item": "_task_hash", "label": "answer"}
            found.answer("answer", who, task.get("_task_hash"), text(verdict), row, CHOICE, columns)
    return found.reading()


READER = Reader(
    name="prodigy",
    title="Prodigy, JSON lines",
    explain="worker is _annotator_id or _session_id; a choice is the accepted options of an "
    "_input_hash, a yes/no question the verdict on a _task_hash; ignored tasks are left out",
    detect=detect,
    read=read,
    page="https://prodi.gy/docs/api-interfaces",
)
