"""Prodigy, JSON lines: one record per task and annotator.

The choice interface keeps the accepted options in `accept`; where a task only proposes a `label`,
its verdict, accept or reject, is the answer.
"""

from __future__ import annotations

from typing import Any

from misc_cli.readers.document import Document, Record, mapping, text
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.platforms.export import Export
from misc_cli.readers.reading import CERTAIN, LIKELY, Match, Reader, Reading
from misc_cli.readers.values import BOXES, CHOICE, CHOICES, SPANS, TEXT

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
    export = Export(document, options, "_session_id", "_task_hash")
    for task in export.records():
        if "versions" in task:
            raise export.error(
                "made by Prodigy's review, which merges the annotators; export the datasets that "
                "were reviewed"
            )
        verdict = text(task.get("answer")) or ("accept" if task.get("accept") else "")
        if verdict not in _VERDICTS or verdict == "ignore":
            export.aside("ignored" if verdict == "ignore" else "unanswered")
        else:
            _task(export, task, verdict)
    return export.reading()


def _task(export: Export, task: Record, verdict: str) -> None:
    worker = "_annotator_id" if task.get("_annotator_id") else "_session_id"
    is_choice = "accept" in task or "options" in task
    marked = None if is_choice or "label" in task else _marked(task)
    key = "_input_hash" if is_choice else "_task_hash"
    who, item = task.get(worker), _item(export, task, key)
    paths = {"worker": worker, "item": key}
    if verdict == "reject" and (is_choice or marked):
        export.aside("rejected")
    elif is_choice:
        accepted = task.get("accept")
        chosen = accepted if isinstance(accepted, list) else [] if accepted is None else [accepted]
        several = mapping(task.get("config")).get("choice_style") == "multiple"
        export.answer("accept", who, item, chosen, CHOICES if several else CHOICE, paths)
    elif marked:
        export.answer("spans", who, item, text(task.get("spans")), marked, paths)
    elif "user_input" in task:
        export.answer("user_input", who, item, task["user_input"], TEXT, paths)
    else:  # yes or no to the label, or to the span, that the task proposes
        export.answer("answer", who, item, verdict, paths=paths)


def _marked(task: Record) -> str | None:
    """Return the kind of what the annotator drew; None for a question about the whole."""
    if "relations" in task or "audio_spans" in task:
        return SPANS
    spans = task.get("spans")
    if not isinstance(spans, list):  # nothing was marked in a text that is shown as tokens
        return SPANS if "tokens" in task and "user_input" not in task else None
    return BOXES if any(isinstance(s, dict) and "points" in s for s in spans) else SPANS


def _item(export: Export, task: Record, key: str) -> Any:
    for name in (key, "_input_hash", "_task_hash", "id", "text", "image"):
        if task.get(name) not in (None, ""):
            return task[name]
    raise export.error(f"a task without {key}")


READER = Reader("prodigy", "Prodigy, JSON lines", detect, read)
