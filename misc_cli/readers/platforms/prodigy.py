"""Prodigy, JSON lines: one record per task and annotator.

The choice interface keeps the accepted options in `accept`; where a task only proposes a `label`,
its verdict, accept or reject, is the answer.
"""

from __future__ import annotations

from typing import Any

from misc_cli.errors import InputError
from misc_cli.readers.document import Document, Record, mapping, text
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.platforms.common import Answers
from misc_cli.readers.reading import CERTAIN, LIKELY, Match, Reader, Reading
from misc_cli.readers.values import BOXES, CHOICE, SPANS, TEXT

_VERDICTS = ("accept", "reject", "ignore")
_OWN = ("_input_hash", "_task_hash", "_session_id", "_annotator_id", "_view_id")


def detect(document: Document) -> Match | None:
    first = document.records[0] if document.records else {}
    hashes = {"_input_hash", "_task_hash"} & set(first)
    if hashes and ("answer" in first or "versions" in first):
        return Match(CERTAIN, "_input_hash and _task_hash")
    if first.get("answer") in _VERDICTS and any(key in first for key in _OWN):
        return Match(LIKELY, "answer is accept, reject or ignore")
    return None


def read(document: Document, options: ReadOptions) -> Reading:
    found = Answers(document, "_session_id", "_task_hash")
    for row, task in enumerate(document.records or []):
        if "versions" in task:
            raise InputError(
                f"{document.name}, record {row + 1}: made by Prodigy's review, which merges the "
                "annotators; export the datasets that were reviewed"
            )
        _task(document, found, row, task)
    return found.reading()


def _task(document: Document, found: Answers, row: int, task: Record) -> None:
    verdict = text(task.get("answer")) or ("accept" if task.get("accept") else "")
    if verdict not in _VERDICTS or verdict == "ignore":
        found.aside("ignored" if verdict == "ignore" else "unanswered", row)
        return
    who = task.get("_annotator_id") or task.get("_session_id")
    worker = "_annotator_id" if task.get("_annotator_id") else "_session_id"
    if "accept" in task or "options" in task:
        if verdict == "reject":
            found.aside("rejected", row)
            return
        item = _item(document, row, task, "_input_hash")
        accepted = task.get("accept")
        chosen = accepted if isinstance(accepted, list) else [] if accepted is None else [accepted]
        several = mapping(task.get("config")).get("choice_style") == "multiple"
        roles = {"worker": worker, "item": "_input_hash"}
        found.said("accept", who, item, chosen, row, several, roles)
        return
    item = _item(document, row, task, "_task_hash")
    marked = _marked(task)
    if marked and "label" not in task:
        if verdict == "reject":
            found.aside("rejected", row)
        else:
            found.answer("spans", who, item, text(task.get("spans")), row, marked)
    elif "user_input" in task:
        found.answer("user_input", who, item, task["user_input"], row, TEXT)
    else:  # yes or no to the label, or to the span, that the task proposes
        found.answer("answer", who, item, verdict, row, CHOICE, {"worker": worker})


def _marked(task: Record) -> str | None:
    """Return the kind of what the annotator drew; None for a question about the whole."""
    if "relations" in task or "audio_spans" in task:
        return SPANS
    spans = task.get("spans")
    if not isinstance(spans, list):
        return None
    return BOXES if any(isinstance(s, dict) and "points" in s for s in spans) else SPANS


def _item(document: Document, row: int, task: Record, key: str) -> Any:
    for name in (key, "_input_hash", "_task_hash", "id", "text", "image"):
        if task.get(name) not in (None, ""):
            return task[name]
    raise InputError(f"{document.name}, record {row + 1}: a task without {key}")


READER = Reader(
    name="prodigy",
    title="Prodigy, JSON lines",
    explain="worker is _annotator_id or _session_id; a choice is the accepted options of an "
    "_input_hash, a yes/no question the verdict on a _task_hash; ignored tasks and rejected "
    "choices are left out",
    detect=detect,
    read=read,
)
