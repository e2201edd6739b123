"""The page: escaped, self-contained, small."""

from __future__ import annotations

import hashlib
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from misc_cli.report import frames as record
from misc_cli.report import page
from misc_cli.report.frames import Report, anonymized, visible
from tests.report.crowds import HOSTILE, SCRIPT, result

VENDOR = Path(page.__file__).parent / "vendor"


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
    plain, attacked = (Tags(page.render(report(hostile))) for hostile in (False, True))
    for parsed in (plain, attacked):
        kinds = {tag for tag, _ in parsed.tags}
        assert not kinds & {"img", "iframe", "object", "form"}
        assert sum(tag == "script" for tag, _ in parsed.tags) == 4
        for tag, attributes in parsed.tags:
            assert not [name for name in attributes if name.startswith("on")], tag
            link = attributes.get("href") or "#"
            assert link.startswith("#") or link == "data:,", link
            assert not attributes.get("src")
    shown = "".join(attacked.text)
    for name in HOSTILE:
        assert visible(name) in shown
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "{{ 7 * 7 }}" in shown, "names are not templates"


def test_the_policy_lets_run_the_pages_own_scripts_and_nothing_else() -> None:
    html = page.render(report())
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html)
    assert policy is not None
    assert "default-src &#39;none&#39;" in policy[1]
    assert policy[1].count("sha256-") == 3
    assert "script-src &#39;unsafe" not in policy[1]
    assert not re.search(r"(src|href)=.?https?:", html)


def test_vendored_scripts_are_as_they_were_released() -> None:
    listed = dict(
        re.findall(r"^\| `(\S+\.js)` .*`([0-9a-f]{64})`", (VENDOR / "README.md").read_text(), re.M)
    )
    found = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in VENDOR.glob("*.js")
    }
    assert found == listed
    for path in VENDOR.glob("*.js"):
        assert b"</script" not in path.read_bytes()
        assert b"\r" not in path.read_bytes(), "a browser would hash another text"


def test_no_worker_is_named_on_an_anonymous_page() -> None:
    hidden = anonymized(report(completer="tucker", ranks=(2, 4, 3), passes=2))
    html = page.render(hidden)
    text = "".join(Tags(html).text)
    data = html.partition('id="data">')[2].partition("</script>")[0]
    assert '"worker_map": [{' in data
    assert not re.search(r"\bw[0-5]\b", text + data)
    assert "worker 1" in text
    assert "answers.csv" not in text


def large_report() -> Report:
    """5,000 workers and 200,000 items; the frames are made up, only the page is judged."""
    n_workers, n_items, classes = 5_000, 200_000, ["a", "b", "c", "d", "e"]
    rng = np.random.default_rng(0)
    workers = pd.DataFrame({"worker": [f"worker number {at}" for at in range(n_workers)]})
    for name in ("accuracy", "agreement", "information"):
        workers[name] = rng.random(n_workers)
    workers["answers"] = rng.integers(1, 500, n_workers)
    matrix = {f"true_{t}_said_{s}": rng.random(n_workers) for t in classes for s in classes}
    workers = pd.concat([workers, pd.DataFrame(matrix)], axis=1)
    items = pd.DataFrame({"item": [f"item {at}" for at in range(n_items)]})
    items["label"], items["runner_up"], items["majority"] = "a", "b", "b"
    items["confidence"] = np.sort(rng.random(n_items))
    items["answers"], items["votes"], items["outvoted"], items["tie"] = 5, 2, True, True
    figures = {
        "workers": n_workers, "items": n_items, "answers": 10**6, "classes": 5, "confidence": 0.5,
        "lowest-confidence": 0.0, "answers-per-item": 5.0, "converged": True,
    }  # fmt: skip
    sure, label = items["confidence"].to_numpy(), np.zeros(n_items, dtype=np.int32)
    frames = {
        "workers": workers,
        "items": items,
        "confidence": record.confidence_frame(sure),
        "classes": record.class_frame(classes, label, sure),
    }
    facts = {"misc": "1", "figures": figures, "classes": classes}
    return Report(frames, facts)


def test_a_large_run_stays_small_and_says_what_it_leaves_out() -> None:
    html = page.render(large_report())
    assert len(html.encode()) < 5_000_000
    assert "Shown are the worst 400 of 5,000 workers" in html
    assert "of 200,000 items" in html


@pytest.mark.parametrize(
    ("raw", "shown"),
    [("a\x1b[2J", "a␛[2J"), ("\u202eabc", "⟨U+202E⟩abc"), ("naïve 名前 👩‍👧", "naïve 名前 👩‍👧")],
)
def test_what_cannot_be_seen_is_shown_as_a_sign(raw: str, shown: str) -> None:
    assert visible(raw) == shown


def test_where_nothing_can_be_compared_nothing_is_praised() -> None:
    from misc_cli.api import aggregate
    from misc_cli.report.narrative import sentences

    alone = pd.DataFrame({"worker": list("abc"), "item": list("123"), "label": list("xyx")})
    with pytest.warns(match="only one answer per item"):
        found = aggregate(alone, aggregator="ds-em")
    facts = {"misc": "1", "figures": found.figures, "classes": ["x", "y"]}
    said = sentences(record.build(found.outcome, facts))
    assert "good" not in {sentence.kind for sentence in said}
    assert not any("sure" in sentence.text for sentence in said)
