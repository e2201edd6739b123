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
import shlex
from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import quote

from misc_cli.report import shown, words
from misc_cli.report.charts import charts
from misc_cli.report.names import visible
from misc_cli.report.record import Report
from misc_cli.report.statistics import VERDICTS, confusion_columns
from misc_cli.run.diagnostics import strict

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
    labels = words.count(report.facts["figures"]["items"], "label")
    if not files or report.aliases:
        return labels
    return f"{labels} from {words.listed(files if len(files) <= 3 else [*files[:2], 'more'])}"


def _content(report: Report) -> dict[str, Any]:
    """Everything that the template fills in."""
    frames, facts = report.frames, report.facts
    workers = shown.shown_workers(frames["workers"]) if "workers" in frames else None
    items = shown.shown_items(frames["items"]) if "items" in frames else None
    item_names = [] if items is None else items["item"].tolist()
    classes = shown.largest_classes(report)
    matrices = None if workers is None else shown.confusions(workers, classes)
    if workers is not None:
        workers = workers.drop(columns=confusion_columns(workers))  # many, and shown otherwise
    has_verdicts = workers is not None and "verdict" in workers
    return {
        "facts": facts,
        "figures": facts["figures"],
        "method": words.method(facts),
        "sentences": words.sentences(report),
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
        "worker_parts": (shown.WORST_WORKERS, shown.SAMPLED_WORKERS),
        "items": _rows(items),
        "item_columns": [] if items is None else list(items.columns),
        "n_items": 0 if items is None else len(frames["items"]),
        "votes": shown.votes_by_item(report, item_names),
        "votes_known": report.labels is not None,
        "reasons": shown.REASONS,
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
    rows = [("method", words.method(facts))]
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
