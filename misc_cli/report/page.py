"""Render a report as one self-contained HTML page.

The template engine is Jinja2 with autoescape on, because names come from strangers. Observable Plot
on D3 draws the charts; both are part of the page, as released (vendor/README.md). A content
security policy allows those scripts alone, by their hashes, and forbids every request.
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
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from misc_cli.report import narrative
from misc_cli.report.frames import (
    VERDICTS,
    Report,
    confusion_columns,
    reliability_frame,
    verdict_kind,
    visible,
)
from misc_cli.run.run_record import strict

MAX_POINTS = 300
MAX_LINES = 12
MAX_BARS = 40
MAX_DOTS = 1_000
WORST_WORKERS, SAMPLED_WORKERS = 400, 200
LEAST_SURE, OUTVOTED, TIED, WRONG = 150, 100, 50, 100
MAX_CLASSES = 30  # in a matrix; more cannot be read
MAX_CELLS = 300_000  # of all confusion matrices of a page together
NAMES_PER_LABEL = 25
REASONS = ("least sure", "overruled", "outvoted", "tie", "wrong")
SCRIPTS = ("vendor/d3.min.js", "vendor/plot.umd.min.js", "templates/page.js")
LONGEST_TEXT = 200_000
MOST_CHANGES = 20

Chart = list[dict[str, Any]]


def charts(report: Report) -> dict[str, Chart]:
    """Return the data of each chart; a chart without data is empty."""
    frames = report.frames
    found: dict[str, Chart] = {
        "confidence": _records(frames["confidence"][["from", "to", "items"]]),
        "reliability": _records(reliability_frame(frames["confidence"])),
        "classes": _classes(frames["classes"]),
        **{name: [] for name in ("progress", "convergence", "worker_map", "item_map")},
    }
    if "progress" in frames:
        progress = frames["progress"].copy()
        progress["from"] = [time.isoformat(timespec="minutes") for time in progress["from"]]
        found["progress"] = _records(progress)
    for name, shade in (("worker_map", "accuracy"), ("item_map", "label")):
        if name in frames:
            found[name] = _dots(frames[name], name.removesuffix("_map"), shade)
    if "convergence" in frames:
        found["convergence"] = _convergence(frames["convergence"])
    return found


def _records(frame: pd.DataFrame) -> Chart:
    """Return rows as dictionaries that JSON can hold; NaN becomes None."""
    rows = frame.to_dict("records")
    return [{str(name): plain(value) for name, value in row.items()} for row in rows]


def plain(value: Any) -> Any:
    """Return a numpy value as a Python one, floats with six decimals; NaN becomes None."""
    if isinstance(value, float | np.floating):
        return round(float(value), 6) if math.isfinite(value) else None
    if isinstance(value, np.generic):
        return value.item()
    return value


def _classes(classes: pd.DataFrame) -> Chart:
    """Return the shares of votes, labels and known labels of the largest classes."""
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


def _dots(points: pd.DataFrame, name: str, shade: str) -> Chart:
    """Return the points of a map, at most `MAX_DOTS` of them, evenly thinned."""
    thinned = points.iloc[:: -(-len(points) // MAX_DOTS)]
    shown = thinned[[name, "x", "y", shade]].set_axis(["name", "x", "y", "shade"], axis=1)
    return [
        {key: visible(value) if isinstance(value, str) else value for key, value in row.items()}
        for row in _records(shown)
    ]


def _convergence(lines: pd.DataFrame) -> Chart:
    """Return the change per iteration, one curve per method; long curves are thinned."""
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


def select_workers(workers: pd.DataFrame) -> pd.DataFrame:
    """Select the worst workers and an even sample of the others, from a frame worst first."""
    if len(workers) <= WORST_WORKERS + SAMPLED_WORKERS:
        return workers
    spread = np.linspace(WORST_WORKERS, len(workers) - 1, SAMPLED_WORKERS).astype(np.int64)
    return workers.iloc[[*range(WORST_WORKERS), *np.unique(spread)]]


def select_items(items: pd.DataFrame) -> pd.DataFrame:
    """Select the items that a person should look at, least sure first.

    The column `why` holds the reasons. Of outvoted labels, those that most answers contradict are
    selected. An item appears once, whatever the number of its reasons.
    """
    chosen: dict[str, Any] = {"least sure": items.index[:LEAST_SURE]}
    if "outvoted" in items:
        outvoted = items[items["outvoted"]]
        against = outvoted["answers"] - outvoted["votes"]
        order = against.sort_values(ascending=False, kind="stable").index
        chosen["outvoted"] = order[:OUTVOTED]
    if "tie" in items:
        chosen["tie"] = items.index[items["tie"].astype(bool)][:TIED]
    if "right" in items:
        wrong = items[items["right"] == False]  # noqa: E712  (None is unknown, not wrong)
        chosen["wrong"] = wrong.index[::-1][:WRONG]  # the surest mistakes
    rows = np.unique(np.concatenate([index.to_numpy() for index in chosen.values()]))
    shown = items.iloc[rows].copy()
    marks = shown.reindex(columns=list(REASONS), fill_value=False)
    marks["least sure"] = np.isin(rows, chosen["least sure"])
    if "wrong" in chosen:
        marks["wrong"] = shown["right"] == False  # noqa: E712
    shown["why"] = [[name for name in REASONS if row[name]] for row in marks.to_dict("records")]
    return shown


def confusions(workers: pd.DataFrame, classes: list[str]) -> list[list[int]] | None:
    """Return the workers' confusion matrices in per mille, flattened row by row.

    None where the frame has no matrices, or where they would make the page too large.
    """
    names = [f"true_{true}_said_{said}" for true in classes for said in classes]
    if not names or not set(names) <= set(workers.columns) or len(classes) > MAX_CLASSES:
        return None
    if len(names) * len(workers) > MAX_CELLS:
        return None
    values = np.nan_to_num(workers[names].to_numpy(float))
    return [list(map(int, row)) for row in np.rint(1000 * values)]


def votes_by_item(report: Report, items: list[str]) -> dict[str, list[dict[str, Any]]]:
    """Return the labels that each item got, most votes first, with the workers who gave them."""
    answers = report.answers_on(items)
    found: dict[str, list[dict[str, Any]]] = {item: [] for item in items}
    for (item, label), workers in answers.groupby(["item", "label"], sort=False)["worker"]:
        names = workers.tolist()
        found[str(item)].append(
            {
                "label": label,
                "count": len(names),
                "workers": names[:NAMES_PER_LABEL],
                "more": max(len(names) - NAMES_PER_LABEL, 0),
            }
        )
    for votes in found.values():
        votes.sort(key=lambda vote: (-vote["count"], str(vote["label"])))
    return found


def largest_classes(report: Report) -> list[str]:
    """Return the classes that a matrix shows, in class order: at most those with most votes."""
    crowd = report.frames.get("crowd")
    if crowd is None:
        return []
    names = list(crowd.columns)
    if len(names) <= MAX_CLASSES:
        return names
    classes = report.frames["classes"].set_index("class")
    size = classes["votes"] if "votes" in classes else classes["labels"]
    largest = set(size.sort_values(ascending=False, kind="stable").index[:MAX_CLASSES])
    return [name for name in names if name in largest]


def render(report: Report) -> str:
    """Return the page as HTML text."""
    template = _environment().get_template("page.html.j2")
    scripts = [_resource(name) for name in SCRIPTS]
    html: str = template.render(
        title=report.title or _title(report),
        csp=_policy(scripts),
        # our own text is safe: it is not escaped
        style=Markup(_resource("templates/style.css")),
        scripts=[Markup(script) for script in scripts],
        **_content(report),
    )
    return html


def _title(report: Report) -> str:
    """Return the number of labels and the names of the input files."""
    files = [Path(source["name"]).name for source in report.facts.get("inputs", [])]
    labels = narrative.count(report.facts["figures"]["items"], "label")
    if not files or report.aliases:
        return labels
    return f"{labels} from {narrative.listed(files if len(files) <= 3 else [*files[:2], 'more'])}"


def _content(report: Report) -> dict[str, Any]:
    """Return the values that the template fills in."""
    frames, facts = report.frames, report.facts
    all_workers = frames.get("workers", pd.DataFrame())
    workers, items = select_workers(all_workers), select_items(frames["items"])
    classes = largest_classes(report)
    matrices = confusions(workers, classes)
    workers = workers.drop(columns=confusion_columns(workers))  # many, and shown otherwise
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
        "verdicts": [word for word in VERDICTS if word and "verdict" in workers],
        "worker_columns": list(workers.columns),
        "any_alike": "alike" in workers and workers["alike"].any(),
        "n_workers": len(all_workers),
        "worker_parts": (WORST_WORKERS, SAMPLED_WORKERS),
        "items": _rows(items),
        "item_columns": list(items.columns),
        "n_items": len(frames["items"]),
        "votes": votes_by_item(report, items["item"].tolist()),
        "votes_known": report.labels is not None,
        "reasons": REASONS,
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
    """Return (before, after, number of items), the most frequent changes first."""
    if changed is None or changed.empty:
        return []
    counts = changed.groupby(["before", "label"]).size().sort_values(ascending=False, kind="stable")
    return [(*pair, int(number)) for pair, number in counts.head(MOST_CHANGES).items()]


def _tagged(workers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add the kind of its verdict to each worker: "always says" for "always says cat"."""
    for row in workers:
        if "verdict" in row:
            row["verdict_tag"] = verdict_kind(row["verdict"]) or row["verdict"]
    return workers


def anchor(kind: str, name: object) -> str:
    """Return the id of a worker's or an item's row, for links to it."""
    return f"{kind}-{quote(str(name), safe='')}"


def per_cent(value: Any, digits: int = 0) -> str:
    return "–" if value is None or value != value else f"{100 * float(value):.{digits}f} %"


def number(value: Any, digits: int = 2) -> str:
    """Format a number with a thousands separator and few digits; – if there is none."""
    if value is None or value != value:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,.{digits}f}" if isinstance(value, float) else f"{value:,}"


def run_facts(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what is needed to repeat the run (method, files, seed, versions) and its seconds."""
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
    """Apply `visible` to each line, so that line breaks stay."""
    return "\n".join(visible(line) for line in text.split("\n"))


@cache
def _environment() -> Environment:
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


@cache
def _resource(name: str) -> str:
    return resources.files("misc_cli.report").joinpath(name).read_text(encoding="utf-8")


def _policy(scripts: list[str]) -> str:
    """Return a policy that forbids every request and every script but these."""
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()) for text in scripts]
    allowed = " ".join(f"'sha256-{digest.decode()}'" for digest in hashes)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
