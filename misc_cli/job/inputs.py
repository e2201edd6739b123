"""Inputs of a run: answers and known labels of each question, in memory or on an engine."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from misc_cli.errors import InputError, MiscWarning
from misc_cli.readers.source import refuse_changed, stamps
from misc_cli.run.request import LOCAL, AggregateRequest, Stopwatch

if TYPE_CHECKING:
    from misc_cli.data.types import Iteration
    from misc_cli.engines.protocol import AnswerEngine
    from misc_cli.readers.answer_table import AnswerTable, FileInfo
    from misc_cli.readers.known_labels import Known


class Observer(Protocol):
    """Hears what a run has to say while it goes on; the console is one."""

    @property
    def warnings(self) -> list[str]: ...
    def on_iteration(self, iteration: Iteration) -> None: ...
    def on_stage(self, stage: str) -> None: ...
    def note(self, text: str) -> None: ...
    def clear_line(self) -> None: ...


@dataclass(frozen=True)
class Inputs:
    """The answers to one question, in memory (`read`) or on an engine, and its known labels."""

    question: str
    known: Mapping[str, Known]
    read: AnswerTable | None = None
    engine: AnswerEngine | None = None
    read_stamps: Any = None

    @property
    def files(self) -> list[FileInfo]:
        """Return every file that was read into memory, with its checksum."""
        answers = [] if self.read is None else self.read.files
        return [*answers, *(found.file for found in self.known.values())]


def inputs_of(
    request: AggregateRequest,
    observer: Observer,
    watch: Stopwatch,
    stack: ExitStack,
    *,
    with_times: bool = False,
) -> list[Inputs]:
    """Read everything that a request names: one entry, or one for each question.

    `with_times` keeps when answers were given, where files tell; `stack` closes an engine.
    """
    if request.engine != LOCAL:
        return [_on_engine(request, observer, watch, stack)]
    from misc_cli.readers.read import read_answer_columns, read_questions

    sources, reading = request.sources, request.reading
    with watch.stage("read"):
        if request.each_question:
            results = read_questions(sources, reading, each=True, with_times=with_times)
            known = _known_each(request, [read.question for read in results])
        else:
            results = [read_answer_columns(sources, reading, with_times=with_times)]
            known = {results[0].question: _known(request)}
        for read in results:
            if request.embedded_gold:
                from misc_cli.readers.known_labels import Known

                if read.gold is None:
                    raise InputError(f"{read.files[0].name}: no gold in it; give --gold a file")
                known[read.question]["gold"] = Known(read.gold, read.files[0])
    return [Inputs(read.question, known[read.question], read) for read in results]


def _known(request: AggregateRequest) -> dict[str, Known]:
    """Return the known labels that the request names, by role."""
    if not request.known_files:
        return {}
    from misc_cli.readers.known_labels import read_known

    return {name: read_known(file, request.reading) for name, file in request.known_files.items()}


def _known_each(request: AggregateRequest, questions: list[str]) -> dict[str, dict[str, Known]]:
    """Return the known labels of each question, by role; warn of a question without them."""
    known: dict[str, dict[str, Known]] = {question: {} for question in questions}
    for role, file in request.known_files.items():
        from misc_cli.readers.known_labels import read_known_each

        told = read_known_each(file, questions, request.reading)
        for question, of_role in known.items():
            if question in told:
                of_role[role] = told[question]
            else:
                text = f"{file}: nothing about question {question!r}, so it has no {role}"
                warnings.warn(text, MiscWarning, stacklevel=2)
    return known


def _on_engine(
    request: AggregateRequest, observer: Observer, watch: Stopwatch, stack: ExitStack
) -> Inputs:
    """Read the answers onto an engine, which `stack` closes."""
    from misc_cli.readers.checks import suspicions
    from misc_cli.readers.chunks import batches, pieces_of

    pieces = pieces_of(request.sources, request.reading)
    if not pieces:
        raise InputError(f"{request.sources[0]}: no rows; give files with answers in them")
    read = stamps(piece.path for piece in pieces)
    for first in islice(batches(pieces[0]), 1):
        for told in suspicions(first.answers):
            warnings.warn(f"{first.answers.name}: {told}", MiscWarning, stacklevel=2)
    known = _known(request)
    if request.embedded_gold:
        from misc_cli.readers.known_labels import carried_gold

        known["gold"] = carried_gold(pieces)
    settings = request.settings
    shown, rest = ", ".join(request.sources[:3]), len(request.sources) - 3
    common: dict[str, Any] = {
        "duplicates": settings.duplicates_rule,
        "class_order": settings.class_order_list,
        "gold": known["gold"].labels if "gold" in known else None,
        "name": shown if len(request.sources) <= 3 else f"{shown} and {rest:,} more",
    }
    opening: Any
    if request.engine == "disk":
        from misc_cli.engines import disk

        opening = disk.opened(pieces, spill=request.spill, **common)
    else:
        from misc_cli.engines import dask

        opening = dask.opened(pieces, scheduler=request.scheduler, say=observer.note, **common)
    with watch.stage("read"):
        engine: AnswerEngine = stack.enter_context(opening)
    refuse_changed(read)
    if not is_folder(request.output):
        engine.refuse_one_file()
    return Inputs("", known, engine=engine, read_stamps=read)


def is_folder(output: str | None) -> bool:
    """Tell whether labels go to a folder, in parts."""
    return output not in (None, "-") and (str(output).endswith("/") or Path(str(output)).is_dir())
