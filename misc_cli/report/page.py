"""One self-contained page: no network, nothing outside the file, everything escaped.

The template engine is Jinja2 with autoescape on: names come from strangers, and an escape that is
forgotten by hand once is a script that runs. Charts are drawn by Observable Plot on D3, which are
part of the file, as released (vendor/README.md). A content security policy lets run those scripts
alone, by their hashes, and forbids every request.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import shlex
from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pandas as pd

from misc_cli.report import narrative, row_selection
from misc_cli.report.frames import VERDICTS, Report, confusion_columns, reliability_frame, visible
from misc_cli.run.diagnostics import strict

MAX_POINTS = 300
MAX_LINES = 12
MAX_BARS = 40
CHARTS = (
    "confidence",
    "reliability",
    "classes",
    "progress",
    "convergence",
    "worker_map",
    "item_map",
)
MAX_DOTS = 1_000

Chart = list[dict[str, Any]]


def charts(report: Report) -> dict[str, Chart]:
    """Every chart; one that this run has no data for is empty."""
    frames = report.frames
    found: dict[str, Chart] = {name: [] for name in CHARTS}
    if "confidence" in frames:
        found["confidence"] = _records(frames["confidence"][["from", "to", "items"]])
        found["reliability"] = _records(reliability_frame(frames["confidence"]))
    if "classes" in frames:
        found["classes"] = _classes(frames["classes"])
    if "progress" in frames:
        progress = frames["progress"]
        found["progress"] = _records(progress.assign(**{"from": progress["from"].map(_stamp)}))
    for name, shade in (("worker_map", "accuracy"), ("item_map", "label")):
        if name in frames:
            found[name] = _dots(frames[name], name.removesuffix("_map"), shade)
    if "convergence" in frames:
        found["convergence"] = _convergence(frames["convergence"])
    return found


def _records(frame: pd.DataFrame) -> Chart:
    """Rows as plain dictionaries; a number that is not one is null."""
    rows = frame.to_dict("records")
    return [{str(name): plain(value) for name, value in row.items()} for row in rows]


def plain(value: Any) -> Any:
    """A numpy value as Python's, four digits after the point; NaN is None."""
    if isinstance(value, float | np.floating):
        return round(float(value), 6) if math.isfinite(value) else None
    if isinstance(value, np.generic):
        return value.item()
    return value


def _classes(classes: pd.DataFrame) -> Chart:
    """Shares of votes, of labels and of known labels, class by class; the largest if many."""
    largest = classes.sort_values("labels", ascending=False, kind="stable").index[:MAX_BARS]
    rows = classes.loc[sorted(largest)]
    kinds = {"answers": "votes_share", "labels": "labels_share"}
    if "truth" in classes and classes["truth"].sum():
        rows = rows.assign(truth_share=rows["truth"] / classes["truth"].sum())
        kinds["truth"] = "truth_share"
    return [
        {"class": visible(row["class"]), "of": kind, "share": plain(row[column])}
        for _, row in rows.iterrows()
        for kind, column in kinds.items()
        if column in rows
    ]


def _stamp(moment: pd.Timestamp) -> str:
    return moment.isoformat(timespec="minutes")


def _dots(points: pd.DataFrame, name: str, shade: str) -> Chart:
    """Points of a map, evenly thinned where they are many."""
    thinned = points.iloc[:: -(-len(points) // MAX_DOTS)]
    shown = thinned[[name, "x", "y", shade]].set_axis(["name", "x", "y", "shade"], axis=1)
    return [
        {key: visible(value) if isinstance(value, str) else value for key, value in row.items()}
        for row in _records(shown)
    ]


def _convergence(lines: pd.DataFrame) -> Chart:
    """The change per iteration, one curve for each method that ran; thinned where long."""
    named = lines["stage"].astype(str)
    if "candidate" in lines:
        named = lines["candidate"].fillna(named).astype(str)
    points: Chart = []
    for name, own in list(lines.groupby(named, sort=False))[:MAX_LINES]:
        change = own["change"].astype(float).to_numpy()
        at = np.flatnonzero(np.isfinite(change) & (change > 0))
        keep = at if len(at) <= MAX_POINTS else at[:: -(-len(at) // MAX_POINTS)]
        points += [
            {"method": str(name), "iteration": int(i) + 1, "change": float(f"{change[i]:.4g}")}
            for i in keep
        ]
    return points


SCRIPTS = ("vendor/d3.min.js", "vendor/plot.umd.min.js", "templates/page.js")
LONGEST_TEXT = 200_000
MOST_CHANGES = 20


def render(report: Report, title: str = "") -> str:
    """The page as HTML text."""
    template = _environment().get_template("page.html.j2")
    scripts = [_resource(name) for name in SCRIPTS]
    html: str = template.render(
        title=title or _title(report),
        csp=_policy(scripts),
        style=_markup(_resource("templates/style.css")),
        scripts=[_markup(script) for script in scripts],
        **_content(report),
    )
    return html


def _title(report: Report) -> str:
    """What was labelled, from which files."""
    files = [Path(source["name"]).name for source in report.facts.get("inputs", [])]
    labels = narrative.count(report.facts["figures"]["items"], "label")
    if not files or report.aliases:
        return labels
    return f"{labels} from {narrative.listed(files if len(files) <= 3 else [*files[:2], 'more'])}"


def _content(report: Report) -> dict[str, Any]:
    """Everything that the template fills in."""
    frames, facts = report.frames, report.facts
    workers = row_selection.shown_workers(frames["workers"]) if "workers" in frames else None
    items = row_selection.shown_items(frames["items"]) if "items" in frames else None
    item_names = [] if items is None else items["item"].tolist()
    classes = row_selection.largest_classes(report)
    matrices = None if workers is None else row_selection.confusions(workers, classes)
    if workers is not None:
        workers = workers.drop(columns=confusion_columns(workers))  # many, and shown otherwise
    has_verdicts = workers is not None and "verdict" in workers
    return {
        "facts": facts,
        "figures": facts["figures"],
        "method": narrative.method(facts),
        "sentences": narrative.sentences(report),
        "agreement": _rows(frames.get("agreement")),
        "class_rows": _rows(frames.get("classes")),
        "class_codes": {name: at for at, name in enumerate(facts.get("classes", []))},
        "crowd": None if not classes else frames["crowd"].loc[classes, classes].to_numpy().tolist(),
        "classes": classes,
        "n_classes": len(facts.get("classes", [])),
        "workers": _tagged(_rows(workers)),
        "verdicts": [word for word in VERDICTS if word] if has_verdicts else [],
        "worker_columns": [] if workers is None else list(workers.columns),
        "any_alike": workers is not None and "alike" in workers and workers["alike"].any(),
        "n_workers": 0 if workers is None else len(frames["workers"]),
        "worker_parts": (row_selection.WORST_WORKERS, row_selection.SAMPLED_WORKERS),
        "items": _rows(items),
        "item_columns": [] if items is None else list(items.columns),
        "n_items": 0 if items is None else len(frames["items"]),
        "votes": row_selection.votes_by_item(report, item_names),
        "votes_known": report.labels is not None,
        "reasons": row_selection.REASONS,
        "tried": _rows(frames.get("tried")),
        "changed": _changes(frames.get("changed")),
        "n_changed": len(frames.get("changed", ())),
        "completed": "item_map" in frames,
        "data": {
            "charts": charts(report),
            "confusions": matrices,
            "classes": [visible(name) for name in classes],
        },
        "has_confusions": matrices is not None,
        "anonymous": bool(report.aliases),
        "run_facts": run_facts(facts),
        "settings_text": _pretty(facts),
    }


def _rows(frame: Any) -> list[dict[str, Any]]:
    return [] if frame is None else frame.to_dict("records")


def _changes(changed: Any) -> list[tuple[str, str, int]]:
    """before, after, how many: the most frequent changes first."""
    if changed is None or changed.empty:
        return []
    counts = changed.groupby(["before", "label"]).size().sort_values(ascending=False, kind="stable")
    return [(*pair, int(number)) for pair, number in counts.head(MOST_CHANGES).items()]


def _tagged(workers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each worker with the kind of its verdict: "always says" for "always says cat"."""
    for row in workers:
        if "verdict" in row:
            said = str(row["verdict"])
            row["verdict_tag"] = next((w for w in VERDICTS if w and said.startswith(w)), said)
    return workers


def anchor(kind: str, name: object) -> str:
    """The id of a worker's or an item's row, which is also the link to it."""
    return f"{kind}-{quote(str(name), safe='')}"


def per_cent(value: Any, digits: int = 0) -> str:
    return "–" if value is None or value != value else f"{100 * float(value):.{digits}f} %"


def number(value: Any, digits: int = 2) -> str:
    """A number for people: thousands apart, few digits; – for what is not one."""
    if value is None or value != value:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,.{digits}f}" if isinstance(value, float) else f"{value:,}"


def run_facts(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What somebody needs to do it again, and what it cost."""
    rows = [("method", narrative.method(facts))]
    files = [("answers", source) for source in facts.get("inputs", [])]
    files += facts.get("known", {}).items()
    rows += [(role, f"{source['name']}, SHA-256 {source['sha256']}") for role, source in files]
    options, platform = facts.get("options", {}), facts.get("platform", {})
    rows.append(("seed", str(options.get("seed", ""))))
    versions = [f"misc {facts.get('misc', '')}"]
    versions += [f"{name} {version}" for name, version in platform.items()]
    rows.append(("versions", ", ".join(versions)))
    seconds = facts.get("seconds", {})
    if seconds:
        parts = ", ".join(f"{name} {spent:.2f}" for name, spent in seconds.items())
        rows.append(("seconds", f"{sum(seconds.values()):.2f} ({parts})"))
    return rows


def _pretty(facts: Mapping[str, Any]) -> str:
    hidden = ("command", "classes", "class_prior", "outputs")
    return json.dumps(
        strict({name: value for name, value in facts.items() if name not in hidden}),
        indent=2,
        ensure_ascii=False,
    )[:LONGEST_TEXT]


def _visible_lines(text: str) -> str:
    """As `visible`, but line breaks stay."""
    return "\n".join(visible(line) for line in text.split("\n"))


@cache
def _environment() -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("misc_cli.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(visible=visible, per_cent=per_cent, number=number)
    made.filters.update(quoted=shlex.quote, visible_lines=_visible_lines)
    made.globals.update(anchor=anchor)
    return made


def _markup(text: str) -> Any:
    """Our own text, which goes into the page as it is."""
    from markupsafe import Markup

    return Markup(text)


@cache
def _resource(name: str) -> str:
    return resources.files("misc_cli.report").joinpath(name).read_text(encoding="utf-8")


def _policy(scripts: list[str]) -> str:
    """No request at all; our scripts by their hashes, and no other, wherever it might come from."""
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()) for text in scripts]
    allowed = " ".join(f"'sha256-{digest.decode()}'" for digest in hashes)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
