"""Render a report as one self-contained HTML page.

The template engine is Jinja2 with autoescape on, because names come from strangers. A content
security policy allows the page's own script and style alone, by their hashes, and forbids every
request. Bars are SVG whose sizes are attributes, so that no style need be inline.
"""

from __future__ import annotations

import base64
import hashlib
import re
import shlex
from datetime import datetime
from importlib import resources
from typing import Any
from urllib.parse import quote

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from misc_cli.errors import printable
from misc_cli.report import narrative
from misc_cli.report.frames import Report, confusion_columns, verdict_kind
from misc_cli.run.run_record import strict

Rows = list[dict[Any, Any]]

MOST_SUSPECTS, MOST_OTHERS = 2_000, 500  # workers on a page
CARDS = narrative.ROUND  # least sure items that can be decided
FEWEST_CARDS, SURE = 12, 0.95
AGAINST = 50  # items whose label goes against the votes
ASKED, ASKED_SAVED = 100, 5_000  # items to ask again: shown, and in the file that the page saves
KNOWN_SAVED = 50_000  # labels known before that the saved gold.csv repeats
CLASSES = 200
BUTTONS = 8  # of classes on a card; the others are in a menu
MATRIX_CLASSES, MATRIX_LETTERS = 6, 12  # a matrix of at most so many classes fits a phone
MIXED_UP = 8  # pairs of classes where there is no matrix
NAMES_PER_LABEL = 25
LONGEST_CELL = 2_000  # of a carried column
ADDRESS = re.compile(r"https?://[^\s<>\"]+")
WORKER_COLUMNS = ["worker", "verdict", "answers", "accuracy", "reason"]  # of the saved file


def render(report: Report) -> str:
    """Return the page as HTML text."""
    script, style = (
        resources.files("misc_cli.report").joinpath(f"templates/{name}").read_text("utf-8")
        for name in ("page.js", "style.css")
    )
    # forbid every request, and every script and style but these
    digests = [hashlib.sha256(text.encode()).digest() for text in (script, style)]
    of_script, of_style = (f"'sha256-{base64.b64encode(one).decode()}'" for one in digests)
    policy = (
        f"default-src 'none'; script-src {of_script}; style-src {of_style}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    pages = Environment(
        loader=PackageLoader("misc_cli.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    pages.filters.update(visible=printable, per_cent=per_cent, number=number, address=address)
    pages.filters.update(count=narrative.count, quoted=shlex.quote, visible_lines=lines)
    pages.globals.update(anchor=anchor, names_per_label=NAMES_PER_LABEL)
    html: str = pages.get_template("page.html.j2").render(
        title=narrative.title(report),
        csp=policy,
        style=Markup(style),  # our own text is safe: it is not escaped
        script=Markup(script),
        **_content(report),
    )
    return html


def _content(report: Report) -> dict[str, Any]:
    """Return the values that the template fills in."""
    frames, facts = report.frames, report.facts
    items, asked = frames["items"], frames.get("ask_again", pd.DataFrame())
    classes = list(facts.get("classes", []))
    workers = frames["workers"].drop(columns=confusion_columns(frames["workers"]))
    workers["kind"] = workers["verdict"].map(verdict_kind)
    look = workers["kind"].isin(list(narrative.LOOK_AT))
    suspects, others = workers[look].head(MOST_SUSPECTS), workers[~look]
    cards, against = _items_to_see(items)
    votes = votes_by_item(report, pd.concat([cards["item"], against["item"]]).unique().tolist())
    crowd, longest = frames["crowd"], max(map(len, classes), default=0)
    fits = 1 < len(crowd) <= MATRIX_CLASSES and longest <= MATRIX_LETTERS
    classes_found = frames["classes"].sort_values("labels", ascending=False, kind="stable")
    date = datetime.fromisoformat(facts["date"]) if facts.get("date") else None
    return {
        "facts": facts,
        "date": "" if date is None else f"{date.day} {date:%B %Y}",
        "figures": facts["figures"],
        "answers": narrative.answers(report),
        "how_made": narrative.how_made(report),
        "comparable": narrative.comparable(report),
        "bands": _rows(frames["confidence"]),
        "class_rows": _rows(classes_found.head(CLASSES)),
        "matrix": crowd if fits else None,
        "confusions": _rows(frames.get("confusions"))[:MIXED_UP],
        "suspects": _rows(suspects),
        "others": _rows(others.head(MOST_OTHERS)),
        "n_others": len(others),
        "panel": frames.get("panel", pd.DataFrame()).to_numpy().tolist(),
        "n_suspects": len(suspects),
        "worker_columns": list(workers.columns),
        "verdicts": {row["worker"]: row["verdict"] for row in _rows(suspects)},
        "linked": {*suspects["worker"], *others["worker"].head(MOST_OTHERS)},
        "asked": _rows(asked.head(ASKED)),
        "n_asked": len(asked),
        "worth": narrative.worth,
        "round": narrative.ROUND,
        "cards": _rows(cards),
        "against": _rows(against),
        "n_against": int(items["outvoted"].sum()),
        "carried": report.carried,
        "votes": votes,
        "choices": {
            row["item"]: _choices(row, classes, votes[row["item"]]) for row in _rows(cards)
        },
        "n_items": len(items),
        "agreement": _rows(frames.get("agreement")),
        "tried": _rows(frames.get("tried")),
        "data": strict(
            {
                "tables": {
                    "workers.csv": _saved(suspects[WORKER_COLUMNS]),
                    "ask-again.csv": _saved(asked),
                },
                "items": cards["item"].tolist(),
                "classes": classes,
                "known": _known(report),
            }
        ),
    }


def _rows(frame: pd.DataFrame | None) -> Rows:
    return [] if frame is None else frame.to_dict("records")


def _saved(table: pd.DataFrame) -> dict[str, Any]:
    """Return a table that the page can save as a file, names as they were given."""
    cells = table.head(ASKED_SAVED).round(6).to_numpy(object).tolist()
    return {"columns": list(table.columns), "rows": cells}


def _known(report: Report) -> list[tuple[str, str]]:
    """Return the items and labels that were known before."""
    labels = report.labels
    if labels.gold is None:
        return []
    rows = np.flatnonzero((labels.gold >= 0) & (labels.gold < labels.n_classes))[:KNOWN_SAVED]
    names = labels.items.take(rows), labels.classes.take(labels.gold[rows])
    return list(zip(*(one.to_pylist() for one in names), strict=True))


def _items_to_see(items: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the items to decide, and those that go against the votes, the most contradicted first.

    To decide are the least sure; known ones are left out, and those that are as good as sure unless
    there are few others.
    """
    cards = (items[~items["gold"].astype(bool)] if "gold" in items else items).head(CARDS)
    cards = cards.head(max(int((cards["confidence"] < SURE).sum()), FEWEST_CARDS))
    against = items[items["outvoted"]]
    votes = (against["answers"] - against["votes"]).sort_values(ascending=False, kind="stable")
    return cards, against.loc[votes.index[:AGAINST]]


def votes_by_item(report: Report, items: list[str]) -> dict[str, Rows]:
    """Return the labels that each item got, most votes first, with the workers who gave them."""
    found: dict[str, Rows] = {item: [] for item in items}
    labels = report.labels
    rows = pc.index_in(pa.array(items, pa.string()), labels.items).to_numpy()
    matrix: Any = labels.votes.matrix[rows]  # type: ignore[attr-defined]
    who, said = np.divmod(matrix.indices, labels.n_classes)
    names = labels.workers.take(pa.array(who)).to_pandas()
    given = np.array(labels.classes.to_pylist(), dtype=object)[said]
    of = np.repeat(np.array(items, dtype=object), np.diff(matrix.indptr))
    for (item, label), workers in names.groupby([of, given], sort=False):
        found[str(item)].append({"label": label, "workers": workers.tolist()})
    for votes in found.values():
        votes.sort(key=lambda vote: (-len(vote["workers"]), str(vote["label"])))
    return found


def _choices(row: dict[str, Any], classes: list[str], votes: Rows) -> list[int]:
    """Return the codes of the classes that an item's card has buttons for."""
    if len(classes) <= BUTTONS:
        return list(range(len(classes)))
    likely = dict.fromkeys([row["label"], *(vote["label"] for vote in votes), row.get("runner_up")])
    return [classes.index(name) for name in likely if name in classes][:BUTTONS]


def anchor(kind: str, name: object) -> str:
    """Return the id of a worker's or an item's row, for links to it."""
    return f"{kind}-{quote(str(name), safe='')}"


def per_cent(value: Any, digits: int = 0) -> str:
    """Format a share with a space that no line is broken at; – if there is none."""
    return "–" if value is None or value != value else f"{100 * float(value):.{digits}f}\u00a0%"


def number(value: Any, digits: int = 2) -> str:
    """Format a number with a thousands separator and few digits; – if there is none."""
    if value is None or value != value:
        return "–"
    return f"{value:,.{digits}f}" if isinstance(value, float) else f"{value:,}"


def address(text: object) -> str:
    """Return the text if it is a web address as a whole, else ""."""
    whole = str(text).strip()
    return whole if ADDRESS.fullmatch(whole) else ""


def lines(text: object) -> str:
    """Apply `printable` to each line, so that line breaks stay; cut a long text."""
    whole = "\n".join(printable(line) for line in str(text).replace("\r\n", "\n").split("\n"))
    return whole if len(whole) <= LONGEST_CELL else f"{whole[:LONGEST_CELL]} …"
