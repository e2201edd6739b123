"""Sanity checks: a reading that is likely wrong is refused, and the refusal says what settles it.

Only vocabularies and the first items are looked at, so that the checks cost the same for ten
thousand answers and ten million.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from shlex import quote
from typing import Any

import numpy as np

from misc_cli.data.types import Answers
from misc_cli.readers.columns import Refusal, written
from misc_cli.readers.document import Document
from misc_cli.readers.keys import Profile, item_of
from misc_cli.readers.options import ROW, ReadOptions
from misc_cli.readers.reading import (
    CONFLICT_ITEMS,
    EACH_COLUMN,
    Question,
    agreement,
    share_of_conflicts,
)
from misc_cli.readers.values import DATES, is_number, kind_of_values, mark_region
from misc_cli.readers.vocabulary import ROLES, WEAK_WORKERS, names_in, normalise, words_of

FEW = 10  # answers: fewer prove nothing
LOOKED_AT = 2000  # names of a vocabulary
CONFLICTS = 0.2  # share of pairs of worker and item with more than one label that is odd
FIRST_ROWS = 100_000  # of all answers, where only a share is asked for
FEW_ITEMS = 5
MANY_CLASSES = 100
MANY_WORDS = 15
MOST_MARKS = 21  # 0 to 10 by halves
MOST_OPTIONS = 40
MOST_CLASSES = 2000  # more are no classes that anybody has spelled by hand
ALLOW = "--allow-odd reads it all the same"
OTHER = f"name the right column with --label-col, or {ALLOW}"

_MODELS = names_in("model modelname modelid llm")
# What a model that was judged gets, rather than what it answered itself.
_JUDGED = names_in("rating score correct grade win rank quality pass iscorrect")
# What may be a class of its own or stand for no answer; `none` may be a class, Python's None not.
_PERHAPS = {"null", "n/a", "na", "undefined", "?", "-", "--", "skip", "skipped", "no answer"}

Oddity = tuple[str, Sequence[Mapping[str, Any]]]  # what speaks against it, and what may settle it
OTHERS: Sequence[Mapping[str, Any]] = []  # other columns may be meant


def no_classes(question: Question) -> str:
    """Return why a question of this kind cannot be voted on."""
    told = f"{question.name!r} is of kind {question.kind}: there are no classes to vote on"
    return f"{told}; pick another with --question, or {OTHER}"


def several_choices(question: Question) -> str:
    return (
        f"{question.name!r} holds several choices per answer; --multi split makes a yes/no "
        "question of each option, --multi set takes each set as one class"
    )


def choices_apart(question: Question) -> list[Mapping[str, Any]]:
    """Return what reads several choices: a question for each option, else sets."""
    if len(question.label.flatten().unique()) > MOST_OPTIONS:
        return []  # marked words, not options
    split = {"question": question.name, "multi": "split", "each_question": True}
    return [split, {"question": question.name, "multi": "set"}, {"multi": "set"}]


def refuse(question: Question, options: ReadOptions, document: Document) -> None:
    """Raise the worst of what speaks against a reading, unless the user wants it all the same."""
    found = [] if options.allow_odd else oddities(question, options, document)
    if found:
        told, remedies = found[0]
        roles = ", ".join(f"{role} = {name}" for role, name in question.columns.items())
        is_open = remedies is OTHERS or any("item_col" in one for one in remedies)
        raise Refusal(f"{document.name}: read as {roles}: {told}", remedies, is_open=is_open)


def oddities(question: Question, options: ReadOptions, document: Document) -> list[Oddity]:
    """Return what speaks against this reading, worst first; what was declared is not doubted."""
    names = {}
    for role in ROLES:
        values = getattr(question, role).dictionary[:LOOKED_AT].to_pylist()
        names[role] = [value.strip() for value in values if value and value.strip()]
    if not names["label"]:
        return [("every label is empty", OTHERS)]
    texts, labels = names["label"], set(names["label"])
    found = [(f"{told}; {OTHER}", given) for told, given in _labels(question, texts, options)]
    found += _mixed_up(question, names, options)
    is_wide = question.columns.get("worker") == EACH_COLUMN and options.no_answer is None
    if is_wide and labels > {"-1"} and all(map(str.isdigit, labels - {"-1"})):
        # beside 0 and 1 alone -1 and 1 may be classes, and 0 no answer
        remedies = () if labels <= {"-1", "0", "1"} else ({"no_answer": "-1"},)
        told = "-1 may be a class or no answer; say --no-answer -1 if nobody answered there"
        found.append((f"{told}, or --allow-odd if it is a class", remedies))
    n_said = sum(1 for word in question.label[:LOOKED_AT].to_pylist() if word and word.strip())
    if n_said == 1 and len(document.table.sample) > 2 and not options.has_filters:
        found.append(("one answer in several rows: nothing to vote on", ()))
    if options.duplicates is None:  # who has a rule for repeats knows of them
        found += _repeats(question, document)
    return found


def _labels(question: Question, values: Sequence[str], options: ReadOptions) -> Iterable[Oddity]:
    """Find labels that are measured, of one item each, or hardly ever the same twice."""
    n_answers, n_classes = len(question.label), len(question.label.dictionary)
    agree, chance, n_pairs = agreement(question.item.indices, question.label.indices)
    are_numbers, shown = all(map(is_number, values)), f"{n_classes:,} classes, {_some(values)}"
    if options.label_col is None:
        follows = n_pairs >= FEW and agree == 1 and n_classes > 2  # from the item
        may_follow = follows or (n_classes > MANY_WORDS and not are_numbers)
        if may_follow and (share := share_of_one_item(question)) > 0.5:
            yield f"{shown}, and {share:.0%} of them come with one item only", ()
        if are_numbers and n_classes > MOST_MARKS and any("." in v.rstrip("0") for v in values):
            yield f"{_some(values)} are measured, not chosen", ()
        most = chance * (2 if n_classes > MANY_CLASSES else 0.5)
        least = FEW if question.columns.get("worker") == EACH_COLUMN else 2 * FEW
        is_odd = options.layout is None and n_pairs > least and agree < most
        if is_odd and (_n_beside(question.worker, question.label) > 1).any():  # else none may meet
            told = f"two answers to an item agree in {agree:.0%}, by chance in {chance:.0%}"
            yield f"{shown}: {told}", OTHERS
    is_scale = n_classes <= 11 and all(value.lstrip("+-").isdigit() for value in values)
    if n_answers >= FEW and 2 * n_classes > n_answers and not is_scale:
        yield f"{n_classes:,} classes in {n_answers:,} answers, {_some(values)}", ()
    is_form = options.layout is None and question.columns.get("item") == EACH_COLUMN
    if is_form and n_pairs > 50 and agree <= chance + 0.03:
        told = "answers to a column agree no more than by chance: these may be unlike questions"
        yield f"{told} (if they are items of one, say --layout form --item-col)", ()


def share_of_one_item(question: Question) -> float:
    """Return which share of the classes comes with one item only; 0 where items are few."""
    if len(question.item.dictionary) < FEW_ITEMS:
        return 0.0
    return float((_n_beside(question.label[:FIRST_ROWS], question.item) == 1).mean())


def _n_beside(column: Any, other: Any) -> Any:
    """Return with how many values of another column each value of a column comes."""
    codes = np.asarray(column.indices).astype(np.int64)
    pairs = np.unique(codes * len(other.dictionary) + np.asarray(other.indices[: len(codes)]))
    return np.unique(pairs // len(other.dictionary), return_counts=True)[1]


def _mixed_up(
    question: Question, names: Mapping[str, list[str]], options: ReadOptions
) -> Iterable[Oddity]:
    """Find items and workers that are labels, and workers who wrote what is judged."""
    for role in (role for role in ("worker", "item") if options.columns[role] is None):
        own, labels = set(names[role]), set(names["label"])
        both = sorted(name for name in own & labels if not is_number(name))
        is_said = normalise(question.columns.get(role, "")) == role
        if len(both) > 1 and not is_said and 2 * len(both) >= min(len(own), len(labels)):
            told = f"{_some(both)} are {role}s and labels at once: a column for each worker?"
            told = f"{told} Then say --layout wide, else --{role}-col, or {ALLOW}"
            pair = ",".join(question.columns.get(one, "") for one in (role, "label"))
            by_pair = {"layout": "wide", "worker_col": pair, "item_col": ROW}
            yield told, [{"layout": "wide"}, by_pair]
    n_answers, worker = len(question.label), question.columns.get("worker", "")
    is_named = options.worker_from or options.worker_col
    if is_named or n_answers < FEW or normalise(worker) not in WEAK_WORKERS:
        return
    # a model is judged, or each answer has a worker or an item of its own
    is_judged = normalise(worker) in _MODELS and words_of(question.columns["label"]) & _JUDGED
    if is_judged or n_answers in (len(question.worker.dictionary), len(question.item.dictionary)):
        told = f"{worker!r} may be who wrote an item or what was judged; say --worker-col "
        told += f"{quote(worker)} if these gave the labels (none if nobody is named)"
        yield f"{told}, or {ALLOW}", ()


def _repeats(question: Question, document: Document) -> Iterable[Oddity]:
    """Find several answers of a worker to one item: something tells them apart."""
    roles, names = question.columns, document.names
    free = [n for n in names if n not in roles.values()]
    worker, item, label = question.worker, question.item, question.label
    n_pairs, n_again, n_conflicts = share_of_conflicts(worker, item, label)
    n_rows = int((np.asarray(item.indices) < CONFLICT_ITEMS).sum())
    n_rows = min(n_rows, CONFLICT_ITEMS * 100)
    regions = [n for n in free if mark_region([n.rpartition(".")[2]])]
    regions = [n for n in regions if kind_of_values(document.sampled(n), 0).name != DATES]
    is_table = set(roles.values()) <= set(names)
    if is_table and regions and n_rows > 1.1 * n_pairs:
        told = f"{n_rows:,} rows for {n_pairs:,} pairs of worker and item: each labels a box or a "
        told += f"span ({_some(regions)}), not the item; name what tells them apart with --item-col"
        yield f"{told}, or {ALLOW}", ()
    is_repeated = n_rows > 2 * n_pairs and n_pairs >= FEW
    # who answers again mostly answers alike; else it is about something else
    is_other = n_again > max(3 * FEW, 0.05 * n_pairs) and n_conflicts > CONFLICTS * n_again
    is_repeated = (is_repeated or is_other) and bool(free)
    if (n_conflicts < 3 or n_conflicts < CONFLICTS * n_pairs) and not is_repeated:
        return
    by, remedies = "Name all columns of the item with --item-col a,b", OTHERS
    if is_table:
        profile = Profile(document, whole=True)
        few = [n for n in profile.names if n in free and 2 <= len(profile.values(n)) <= 30]
        few = [n for n in few if not all(map(is_number, profile.values(n)))]
        apart = (n for n in few if profile.tells_apart([roles["worker"], roles["item"]], n))
        for column in islice(apart, 1):
            by = f"Column {column!r} tells them apart: --group-by {quote(column)} reads questions."
        if document.table.header:  # columns under which a worker answers an item once
            parts = [n for n in profile.names if n not in (roles["worker"], roles["label"])]
            found, _ = item_of(profile, roles["worker"], parts)
            given = {"worker_col": roles["worker"], "label_col": roles["label"]}
            remedies = [{**given, "item_col": written(document, found)}] if found else OTHERS
    if 2 * n_conflicts < n_pairs and not is_repeated:
        by += " If these are corrections, say --duplicates last, first or all"
    told = f"{n_conflicts:,} of {n_pairs:,} times a worker gives one item different labels"
    if not n_conflicts:
        told = f"a worker gives one item {n_rows / n_pairs:.1f} answers on average"
    yield f"{told}: are there several questions? {by}", remedies


def doubts(answers: Answers) -> Iterable[str]:
    """Find what is odd about answers, for warnings; the first rows tell."""
    worker, item, label = (getattr(answers, role)[:FIRST_ROWS] for role in ROLES)
    words = label.dictionary.to_pylist() if len(label.dictionary) <= MOST_CLASSES else []
    classes = sorted({name.strip() for name in words if name and name.strip()})
    spelled = [" and ".join(map(repr, names)) for names in spelled_alike(classes)]
    if spelled:
        told = f"{', '.join(spelled[:3])} are different classes and differ only in case or spaces"
        yield f"{told}; --fold-case makes them one"
    perhaps = [name for name in classes if name.casefold() in _PERHAPS or name == "None"]
    if 0 < len(perhaps) < len(classes):
        count = "counts as a class" if len(perhaps) == 1 else "count as classes"
        told = f"{' and '.join(map(repr, perhaps))} {count}; if nobody answered there, say"
        yield f"{told} --no-answer '{','.join(perhaps)}'"
    if len(label) < 2 * FEW:
        return
    agree, chance, n_pairs = agreement(item.indices, label.indices)
    counts = np.bincount(np.asarray(label.indices))
    n_classes = int((counts > 0).sum())
    if not n_pairs:
        yield "one answer to each item: nothing to vote on"
    elif n_classes > 1 and agree == 0:
        yield "no two answers to an item agree, so all are tied; is this the label's column?"
    elif n_classes > MANY_CLASSES and agree < 2 * chance:
        yield f"{n_classes:,} classes, and answers agree no more than by chance"
    elif (counts == 1).sum() * 2 > n_classes > 12:
        yield f"most of {n_classes:,} classes are seen once"
    _, own = np.unique(np.asarray(worker.indices), return_counts=True)
    is_often = n_classes > 1 and len(own) > 2 and own.min() > 4
    if is_often and (_n_beside(worker, label) == 1).all():
        yield "each worker gives one label only"


def spelled_alike(classes: Iterable[str]) -> list[list[str]]:
    """Return classes that differ only in case or spaces, group by group."""
    groups: dict[str, list[str]] = {}
    for name in classes:
        groups.setdefault("".join(name.split()).casefold(), []).append(name)
    return [names for names in groups.values() if len(names) > 1]


def _some(values: Sequence[str], most: int = 3) -> str:
    """Return the first values as they are shown in a message."""
    texts = [" ".join(value.split()).encode("utf-8", "replace").decode() for value in values[:most]]
    cut = (repr(text if len(text) <= 40 else text[:39] + "…") for text in texts)
    return ", ".join(cut) + (", …" if len(values) > most else "")
