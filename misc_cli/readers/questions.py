"""Pick the questions of a file to read: --question, --each-question, --group-by and --multi."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from misc_cli.errors import InputError
from misc_cli.readers import checks
from misc_cli.readers.columns import Refusal, named
from misc_cli.readers.document import Document
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.reading import (
    EACH_COLUMN,
    MOST_KAPPA,
    Agreement,
    Question,
    Reading,
    agreement,
    are_classes,
    by_kind,
    rows_of,
    take,
)
from misc_cli.readers.row_filters import is_standing
from misc_cli.readers.values import CHOICE, CHOICES, NUMBER, WITH_CLASSES, is_scale
from misc_cli.readers.vocabulary import ABOUT, NAMING, is_remark, names_in, words_of

YES, NO = "yes", "no"
MANY_NUMBERS = 10  # questions: more that want a number each are a survey, or a program's log
MANY_WORDS = 3  # of an answer on average: sentences, not choices
FEW_SETS = 0.05  # of the answers: so few hold several choices that one is asked for
# What a page keeps of its own: tests of the worker and worked examples.
_OF_PAGE = names_in("quiz attempt attempts numanswered example examples fail captcha")
NOTHING = "(none)"  # the class of an answer that chose no option at all
# Questions that check the worker.
_CHECK = re.compile(
    r"(?i)(^|[\W_])(qc|qual|check|ctrl|control|gold|attention|trap|catch|test)[\W_]"
)


def pick(
    where: str, document: Document, reading: Reading, options: ReadOptions, *, each: bool = False
) -> list[Question]:
    """The questions to read, with one label per answer; one unless `each`. A refusal lists them."""
    questions = reading.questions if options.multi else [*map(_as_choice, reading.questions)]
    if not questions:
        counts = ", ".join(f"{len(rows):,} {reason}" for reason, rows in reading.aside.items())
        aside = f" ({counts} left out)" if counts else ""
        raise InputError(f"{where}: no answers in it{aside}; check the export")
    if options.group_by is not None:
        questions = grouped(where, document, questions, options)
    asked = options.question
    chosen = _by_name(where, questions, asked, options) if asked is not None else questions
    candidates = [question for question in chosen if question.kind in WITH_CLASSES]
    if not candidates and not options.allow_odd:
        raise InputError(f"{where}: {checks.no_classes(chosen[0])}")
    is_picked = asked is not None or options.label_col is not None
    if not is_picked and len(candidates) > 1:
        candidates = _votable(where, candidates)
    if len(candidates) > 1 and not each:
        raise _several(where, candidates)
    found = [own for one in candidates or chosen for own in single(where, one, options)]
    found = [one for one in found if one.name == asked] or found  # an option of a question
    if len(found) > 1 and not each:
        raise _several(where, found)
    return found


def _several(where: str, questions: Sequence[Question]) -> Refusal:
    """Return a refusal that lists questions and, unless they are a survey's, proposes one."""
    most = max(map(_n_said, questions))
    questions = sorted(questions, key=lambda one: _rank(one, most))
    told = f"{where}: {len(questions)} questions, {listing(questions)}"
    if all(len(one.item.unique()) == len(one) for one in questions):
        alone = "each item has one answer in this file: give the others' answers, too"
        return Refusal(f"{told}; {alone}, and pick one with --question")
    voted = [one for one in questions if one.kind == CHOICES or are_classes(one.item, one.label)]
    if not voted:
        return Refusal(
            f"{told}: each word is of one item only: typed, not chosen; nothing to vote on"
        )
    is_log = len(voted) > MANY_NUMBERS and all(one.kind != CHOICE for one in voted)
    is_log = is_log and not (_are_alike(voted) and min(map(_n_said, voted)) > 0.9 * most)
    if is_log or _are_unlike(voted):
        return Refusal(f"{told}: a survey; name the question that all were asked with --question")
    remedies: list[Mapping[str, Any]] = []
    for one in [one for one in voted if not _follows_item(one)][:8]:
        remedies += checks.choices_apart(one) if one.kind == CHOICES else [{"question": one.name}]
    return Refusal(
        f"{told}; pick one with --question NAME, or read all of them with --each-question", remedies
    )


def _are_alike(questions: Sequence[Question]) -> bool:
    """Return whether questions are answered in the same words."""
    texts = (one.label.flatten() if one.kind == CHOICES else one.label for one in questions)
    words = [{word.strip() for word in own.unique().to_pylist()} - {""} for own in texts]
    return set().union(*words) in words


def _are_unlike(questions: Sequence[Question]) -> bool:
    """Return whether these are groups of a form's columns with words and items of their own."""
    items = {frozenset(one.item.unique().to_pylist()) for one in questions}
    is_form = questions[0].columns.get("item") == EACH_COLUMN
    return is_form and len(items) > 1 and not _are_alike(questions)


def _rank(question: Question, most: int) -> tuple[bool | int, ...]:
    """Return the place of a question among others, by what speaks against it, the worst first.

    It checks or is about the worker, most were not asked, answers do not agree or always do, as
    what is about the item, or are sentences; then choices go before marks.
    """
    words = [] if question.kind == CHOICES else question.label.dictionary.to_pylist()
    told, of_worker = _agreement(question), _agreement(question, "worker")
    # each worker says the same of all items, as of a mother tongue
    is_of_worker = of_worker.n_pairs >= checks.FEW and of_worker.agree > max(0.95, told.agree)
    return (
        bool(_CHECK.search(question.name)) or is_of_worker,
        2 * _n_said(question) < most,
        told.n_pairs >= checks.FEW and not told.chance < told.agree < 1,
        sum(len(word.split()) for word in words) > MANY_WORDS * len(words),
        (CHOICE, CHOICES, NUMBER).index(question.kind),
    )


def _n_said(question: Question, least: int = 1) -> int:
    """Return how many answers are not empty, or hold so many choices."""
    if question.kind == CHOICES:
        said = pc.greater_equal(pc.list_value_length(question.label), least)
    else:
        filled = pc.not_equal(pc.utf8_trim_whitespace(question.label.dictionary), "")
        said = filled.take(question.label.indices)
    return int(pc.sum(said).as_py() or 0)


def _agreement(question: Question, role: str = "item") -> Agreement:
    """Return how far answers to an item (or of a worker) agree; sets are not compared."""
    if question.kind == CHOICES:
        return Agreement(0.0, 0.0, 0)
    return agreement(getattr(question, role).indices, question.label.indices)


def _follows_item(question: Question) -> bool:
    """Return whether answers to an item agree nearly always, as a property of the item does."""
    told = _agreement(question)
    return told.n_pairs >= 3 * checks.FEW and told.kappa > MOST_KAPPA


def _votable(where: str, questions: Sequence[Question]) -> list[Question]:
    """Return the questions that can be voted on; a refusal if there are none.

    Not those with one value, of numbers beyond a scale, with hardly a value twice, of marked words,
    or about the worker, the time or the tool.
    """
    named = [one for one in questions if not words_of(one.name) & (ABOUT - NAMING | _OF_PAGE)]
    named = [one for one in named if not (is_remark(one.name) or is_standing(one.name))]
    named = named or list(questions)
    found = [o for o in named if (checks.choices_apart(o) if o.kind == CHOICES else _has_few(o))]
    choices = [one for one in found if one.kind != NUMBER]
    scores = [one for one in found if one.kind == NUMBER and len(one.label.dictionary) > 2]
    is_only = len(choices) == 1 and len(scores) == len(found) - 1 and not _are_unlike(found)
    if is_only and 2 * _n_said(choices[0]) >= max(map(_n_said, found)):
        # a number beside the only choice is a score, unless that is about the item
        return scores if scores and _follows_item(choices[0]) else choices
    if not found and all(one.kind == NUMBER for one in named):
        told = f"{where}: {listing(named)} are measured, not chosen: there is nothing to vote on"
        raise InputError(f"{told}; name the label with --label-col")
    return found or [o for o in named if o.kind == CHOICES or len(o.label.unique()) > 1] or named


def _has_few(question: Question) -> bool:
    words = [word.strip() for word in question.label.dictionary.to_pylist() if word.strip()]
    if len(words) < 2 < len(question):
        return False
    if len(words) > checks.MANY_WORDS and checks.share_of_one_item(question) > 0.5:
        return False
    if question.kind == NUMBER:
        return is_scale(words)
    return len(question) < 10 or 2 * len(words) <= len(question)


def _by_name(
    where: str, questions: Sequence[Question], asked: str, options: ReadOptions
) -> list[Question]:
    """By its name, by its name without case, or by that of one option (mood.angry)."""
    found = [one for one in questions if one.name == asked]
    found = found or [one for one in questions if one.name.casefold() == asked.casefold()]
    if options.multi == "split":
        found = found or [one for one in questions if asked.startswith(f"{one.name}.")]
    if not found:
        raise InputError(f"{where}: no question {asked!r}; there are {listing(questions)}")
    return found


def single(where: str, question: Question, options: ReadOptions) -> list[Question]:
    """Return questions with one label per answer, whatever --multi makes of several."""
    if question.kind != CHOICES:
        return [question]
    if options.multi == "split":
        return [_option(question, option) for option in options_of(question)]
    if options.multi == "set":
        return [_as_sets(question)]
    if options.allow_odd:
        return [_relabelled(question, str)]
    raise Refusal(f"{where}: {checks.several_choices(question)}", checks.choices_apart(question))


def _as_choice(question: Question) -> Question:
    """Return several choices as sets where hardly an answer holds more than one."""
    if question.kind != CHOICES or _n_said(question, 2) > FEW_SETS * _n_said(question):
        return question
    sets = _as_sets(question)
    return sets if len(sets.label.dictionary) <= checks.MANY_WORDS else question


def _as_sets(question: Question) -> Question:
    return _relabelled(question, lambda chosen: "|".join(sorted(chosen)) or NOTHING)


def _relabelled(question: Question, label: Callable[[list[str]], str]) -> Question:
    """Return a question, and its gold, with one label for each list of options."""

    def column(lists: Any) -> Any:
        texts = ["" if one is None else label(one) for one in lists.to_pylist()]
        return pa.array(texts, pa.string()).dictionary_encode()

    gold = question.gold
    if gold is not None:  # a text beside lists tells nothing
        gold = (gold[0], column(gold[1])) if pa.types.is_list(gold[1].type) else None
    return replace(question, kind=CHOICE, label=column(question.label), gold=gold)


def _option(question: Question, option: str) -> Question:
    """Return for each answer whether it chose this option."""
    said = _relabelled(question, lambda chosen: YES if option in chosen else NO)
    return replace(said, name=f"{question.name}.{option}")


def options_of(question: Question) -> list[str]:
    """Return all options that somebody chose, sorted."""
    return sorted(set(question.label.flatten().to_pylist()))


def grouped(
    where: str, document: Document, questions: Sequence[Question], options: ReadOptions
) -> list[Question]:
    """Return a question for each value of a column, and for each question if there are several."""
    at = named(where, document.names, "group", options.group_by or "")
    (values,) = document.table.fetch([at])
    found = []
    for question in questions:
        codes = np.asarray(values.indices)[rows_of(question)]
        for code in np.unique(codes):
            part = take(question, np.flatnonzero(codes == code))
            kind, label = by_kind(part.label)
            name = values.dictionary[code].as_py().strip() or "(empty)"
            name = name if len(questions) == 1 else f"{name}.{question.name}"
            found.append(replace(part, name=name, kind=kind, label=label))
    return sorted(found, key=lambda part: part.name)


def listing(questions: Sequence[Question], most: int = 8) -> str:
    """Return the names and kinds of the first questions."""
    shown = ", ".join(f"{question.name!r} ({question.kind})" for question in questions[:most])
    return shown + (f", … ({len(questions)} in all)" if len(questions) > most else "")
