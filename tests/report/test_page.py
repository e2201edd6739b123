"""The page: escaped, self-contained, small."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any, Literal

import pandas as pd
import pytest

from misc_cli.api import aggregate, simulate
from misc_cli.errors import printable
from misc_cli.report import frames as record
from misc_cli.report import narrative, page
from misc_cli.report.frames import Report
from tests.report.crowds import HOSTILE, SCRIPT, batch, result


def report(hostile: bool = False, **options: Any) -> Report:
    found = result(hostile, **options)
    facts = {
        "misc": "1",
        "figures": found.figures,
        "classes": found.outcome.labels.classes.to_pylist(),
        "command": ["report", SCRIPT if hostile else "answers.csv"],
        "warnings": [SCRIPT] if hostile else [],
        "inputs": [{"name": SCRIPT if hostile else "answers.csv", "sha256": "0"}],
    }
    return record.build(found.outcome, facts)


class Tags(HTMLParser):
    """Every tag with its attributes, and the text outside scripts and styles."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1][0] not in ("script", "style"):
            self.text.append(data)


def test_hostile_names_are_text() -> None:
    reports = (replace(report(hostile), title=HOSTILE[-1]) for hostile in (False, True))
    plain, attacked = (Tags(page.render(one)) for one in reports)
    for parsed in (plain, attacked):
        kinds = {tag for tag, _ in parsed.tags}
        assert not kinds & {"img", "iframe", "object", "form"}
        assert sum(tag == "script" for tag, _ in parsed.tags) == 2
        for tag, attributes in parsed.tags:
            assert not [name for name in attributes if name.startswith(("on", "style"))], tag
            link = attributes.get("href") or "#"
            assert link.startswith("#") or link == "data:,", link
            assert not attributes.get("src")
    shown = "".join(attacked.text)
    for name in HOSTILE[:6]:
        assert printable(name) in shown
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "{{ 7 * 7 }}" in shown, "names are not templates"


def test_the_policy_lets_run_the_pages_own_scripts_and_nothing_else() -> None:
    html = page.render(report())
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html)
    assert policy is not None
    assert "default-src &#39;none&#39;" in policy[1]
    assert policy[1].count("sha256-") == 2, "the script and the style"
    assert "unsafe" not in policy[1]
    assert not re.search(r"(src|href)=.?https?:", html)


def large_report() -> Report:
    """5,000 workers, 200,000 items and a million answers."""
    answers, _ = simulate(workers=5_000, items=200_000, classes=5)
    found = aggregate(answers, aggregator="one-coin", calibrate=False)
    classes = found.outcome.labels.classes.to_pylist()
    return record.build(found.outcome, {"misc": "1", "figures": found.figures, "classes": classes})


def test_a_large_run_stays_small_and_says_what_it_leaves_out() -> None:
    html = page.render(large_report())
    assert len(html.encode()) < 5_000_000
    assert "The least accurate 500 are here" in html
    assert re.search(r"The 50 of [0-9,]+ that most answers contradict", html)


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("a\x1b[2J", r"a\x1b[2J"),
        ("\u202eabc", r"\u202eabc"),
        ("naïve 名前 👩‍👧", "naïve 名前 👩‍👧"),
    ],
)
def test_what_cannot_be_seen_is_spelt_out(raw: str, shown: str) -> None:
    assert printable(raw) == shown


def test_the_three_questions_are_answered_first_and_names_are_named() -> None:
    trust, workers, following = narrative.answers(_of_classes(20, "mv"))
    assert (trust.figure, trust.kind) == ("64 %", "fact")
    assert trust.headline == "of the labels are likely right: about 77 of 120"
    assert (workers.figure, workers.kind) == ("3 workers", "look")
    assert workers.headline == "of 40 stand out; they gave 9 % of the answers"
    assert {one.title: list(one.names) for one in workers.sentences if one.names} == {
        "Spammers": ["AP8IX4EA4Q9OM4", "A894ZJOJ7YAEKC"],
        "One answer": ["ATBR4Y1Z2IXGCI"],
    }
    assert following.figure == "Ask 50 items"
    assert following.headline == "once more: about 14 more labels come out right"
    *_, following = narrative.answers(_of_classes(4))
    assert (following.figure, following.kind) == ("Little to gain", "good")
    html = page.render(_of_classes(20))
    places = [html.index(f'id="{name}"') for name in ("trust", "workers", "next", "method")]
    assert places == sorted(places)
    assert "Spammers" in html[: places[0]], "before anything else"


def test_answers_that_agree_by_chance_are_said_to_be_guesses_first() -> None:
    found = report()
    facts = {**found.facts, "figures": {**found.facts["figures"], "evidence": 0.01}}
    trust, _, following = narrative.answers(replace(found, facts=facts))
    assert (trust.kind, trust.figure) == ("warning", "Guesses")
    assert following.figure == "Check the question"
    assert trust.headline.startswith("these answers agree no more than chance")


def test_carried_columns_are_text_and_addresses_are_links_that_nothing_loads() -> None:
    table = batch(60)
    found = aggregate(table, aggregator="ds-em")
    columns = ("Input.url", "Input.text")
    kept = {name: dict(zip(table["item"], table[name], strict=True)) for name in columns}
    kept["Input.text"][found.report()["items"]["item"][0]] = "javascript:alert(1)"
    facts = {"misc": "1", "figures": found.figures, "classes": sorted(set(table["label"]))}
    made = record.build(found.outcome, facts, kept=kept)
    assert {"Input.url", "Input.text"} <= set(made.frames["items"]) & set(made.frames["ask_again"])
    parsed = Tags(page.render(made))
    links = [
        (attributes["href"], attributes.get("rel"))
        for tag, attributes in parsed.tags
        if tag == "a" and not (attributes["href"] or "").startswith("#")
    ]
    assert links
    assert {str(href).partition("batch/")[0] for href, _ in links} == {
        "https://images.example.com/"
    }
    assert {rel for _, rel in links} == {"noopener noreferrer external"}
    assert ", <b>as it is</b>\nand on" in "".join(parsed.text)


def test_confusions_are_listed_where_a_matrix_would_be_too_wide() -> None:
    few, many = (page.render(_of_classes(number)) for number in (4, 20))
    assert 'class="matrix"' not in few, "long names"
    assert 'class="matrix"' in page.render(report())
    for html in (few, many):
        assert "What workers take for what, most often" in html
    assert 'aria-label="Another class for' in many
    assert 'aria-label="Another class for' not in few


def _of_classes(number: int, aggregator: Literal["mv", "ds-em"] = "ds-em") -> Report:
    found = aggregate(batch(120, number), aggregator=aggregator, calibrate=False)
    classes = found.outcome.labels.classes.to_pylist()
    return record.build(found.outcome, {"misc": "1", "figures": found.figures, "classes": classes})


def test_where_nothing_can_be_compared_nothing_is_praised() -> None:
    alone = pd.DataFrame({"worker": list("abc"), "item": list("123"), "label": list("xyx")})
    with pytest.warns(match="only one answer per item"):
        found = aggregate(alone, aggregator="ds-em")
    facts = {"misc": "1", "figures": found.figures, "classes": ["x", "y"]}
    answers = narrative.answers(record.build(found.outcome, facts))
    assert answers[0].figure == "Unknown"
    assert "good" not in {answer.kind for answer in answers}
    said = [sentence for answer in answers for sentence in answer.sentences]
    assert "good" not in {sentence.kind for sentence in said}
    assert not any("sure" in sentence.text for sentence in answers[0].sentences)
    assert 'id="sure"' not in page.render(record.build(found.outcome, facts))


def test_a_small_panel_shows_who_is_like_whom_and_who_could_go() -> None:
    made = report()
    panel = made.frames["panel"].set_index("worker")["kept"]
    size = len(panel)
    assert 0 < panel.sum() < size
    shown = page.render(made)
    assert shown.count("<rect x=") >= size * (size - 1)
    assert all(f"<li><b>{worker}</b>" in shown for worker in panel.index[panel])
    votes = made.frames["panel"]["votes"]
    assert shown.count(" votes</small></li>") == (votes < 0.995).sum() > 0, "who counts for less"
    assert f"{panel.sum()} of the {size} workers alone give the same labels" in shown
