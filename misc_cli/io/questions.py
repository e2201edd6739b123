"""Which of a file's questions is read: the one there is, or the one that --question names."""

from __future__ import annotations

from misc_cli.errors import InputError
from misc_cli.io.options import ReadOptions
from misc_cli.io.readers.base import CHOICES, WITH_CLASSES, Question, Reading


def pick(where: str, reading: Reading, options: ReadOptions) -> Question:
    """The question to read; a refusal lists those that there are."""
    questions = reading.questions
    if not questions:
        raise InputError(f"{where}: no answers in it{_left_out(reading)}; check the export")
    if options.question is not None:
        named = [question for question in questions if question.name == options.question]
        if not named:
            raise InputError(
                f"{where}: no question {options.question!r}; there are {listing(questions)}"
            )
        return _with_classes(where, named[0])
    candidates = [question for question in questions if question.kind in WITH_CLASSES]
    if len(candidates) > 1:
        raise InputError(
            f"{where}: {len(candidates)} questions, {listing(candidates)}; "
            "pick one with --question NAME"
        )
    return _with_classes(where, (candidates or questions)[0])


def _with_classes(where: str, question: Question) -> Question:
    if question.kind not in WITH_CLASSES:
        raise InputError(
            f"{where}: {question.name!r} holds {question.kind}, not one of several classes; "
            "there is nothing to vote on"
        )
    if question.kind == CHOICES:
        raise InputError(
            f"{where}: {question.name!r} has several choices per answer; one was expected"
        )
    return question


def listing(questions: list[Question]) -> str:
    return ", ".join(f"{question.name!r} ({question.kind})" for question in questions)


def _left_out(reading: Reading) -> str:
    counts = [f"{len(rows):,} {reason}" for reason, rows in reading.aside.items()]
    return f" ({', '.join(counts)} left out)" if counts else ""
