"""Inspect files of answers: how they would be read, and figures of each question."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from misc_cli.errors import InputError
from misc_cli.quality.agreement import summarize
from misc_cli.readers.checks import spelled_alike
from misc_cli.readers.inspection import FileFacts, QuestionFacts, inspect_files
from misc_cli.readers.options import ReadOptions

TOLD = ("name", "kind", "n_answers", "columns", "options", "samples", "n_gold", "refused")


@dataclass(frozen=True)
class Inspection:
    """The files, their questions, and the figures of each question that can be read."""

    files: Sequence[FileFacts]
    questions: Sequence[QuestionFacts]
    figures: Sequence[dict[str, Any]]

    def flag(self, question: QuestionFacts) -> str:
        """Return the flags that read this question."""
        votable = [one for one in self.questions if one.kind in ("choice", "choices", "number")]
        words = []
        if len(votable) > 1 and question in votable:
            words = ["--question", shlex.quote(question.name)]
        if question.kind == "choices" and question.read is None:
            words += ["--multi", "split"]
        return " ".join(words)

    def to_json(self) -> dict[str, Any]:
        """Return files and questions as plain values."""
        told = [
            {
                **{name: getattr(question, name) for name in TOLD},
                **figures,
                "flag": self.flag(question),
            }
            for question, figures in zip(self.questions, self.figures, strict=True)
        ]
        return {"files": [asdict(file) for file in self.files], "questions": told}


def inspected(sources: Sequence[str], reading: ReadOptions) -> Inspection:
    """Return what is in these files."""
    files, questions = inspect_files(sources, reading)
    return Inspection(files, questions, [_figures(one, reading.duplicates) for one in questions])


def _figures(question: QuestionFacts, duplicates: str | None) -> dict[str, Any]:
    if question.read is None:
        return {}
    try:
        found = summarize(question.read.answers, duplicates)
    except InputError as error:
        question.refused.append(str(error))
        return {}
    alike = spelled_alike(found["classes"])
    aside = question.read.set_aside
    return {**found, "spellings": alike, "set_aside": aside, "anonymous": question.read.anonymous}
