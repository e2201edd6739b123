"""`misc workers`, `misc items`, `misc queue`: rows of a run, new or finished, the first first.

On a terminal they are a table that fits, one line each; elsewhere, and in files, every row and
every column. A list is a data frame: what it gets as a further column is shown where there is room.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from misc_cli.cli import options, outputs
from misc_cli.cli.parameters import COUNT, names, numbers, share
from misc_cli.cli.report import reports_from, run_options, sources_argument
from misc_cli.errors import ConfigError, InputError, did_you_mean

if TYPE_CHECKING:
    import pandas as pd

    from misc_cli.cli.console import Console
    from misc_cli.cli.tables import Table
    from misc_cli.report.frames import Report

    Frames = Mapping[str | None, pd.DataFrame]  # by question; None where there is one

F = TypeVar("F", bound=Callable[..., Any])
TOP = 20
# What --verdict takes and a table shows, and how the verdict begins in files.
VERDICTS = {
    "spammer": "spammer",
    "constant": "always says",
    "copy": "copies",
    "check": "check",
    "few": "too few",
    "fine": "fine",
}
FRAMES = {"queue": "ask_again"}  # of a report, where the list has another name
FORMATS = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet", ".json", ".xlsx")
TEXTS = ("label", "runner_up", "majority", "truth", "verdict", "why", "alike", "note", "reason")

WORKERS = """
misc workers labels.run.json
misc workers labels.run.json --verdict spammer,constant -o block.csv
misc workers answers.csv --below 0.6 --sort -answers
"""
ITEMS = """
misc items labels.run.json
misc items labels.run.json --below 0.8 -o decide.xlsx
misc items answers.csv --sort answers --top 50
"""
QUEUE = """
misc queue labels.run.json
misc queue labels.run.json --top 200 -o ask_again.csv
misc queue labels.run.json --price 0.03 --top 143 -o extend.csv
misc queue answers.csv --reach 99%
"""


def list_options(first: str, below: str) -> Callable[[F], F]:
    """Return the arguments and options of a list; `first` says which rows are on top."""
    rows = {
        "-o --output FILE": "Every row, as .csv, .tsv, .json, .xlsx or .parquet [default: a table "
        "on a terminal, else CSV on stdout].",
        "--json": "Every row, as JSON.",
        "--top N": f"So many rows [default: {TOP} on a terminal, else all].",
        "--sort COL": f"By this column; -COL from the largest down [default: {first} first].",
        "--below X": f"Only rows whose {below} is below X: 0.8 or 80%.",
        "--all-columns": "Every column, also of a table; with the workers' confusion matrices.",
    }
    return options.apply(
        sources_argument,
        options.table("Rows", rows, top={"type": COUNT}, below={"type": share}),
    )


@click.command(cls=options.Command, examples=WORKERS)
@list_options("worst", "accuracy")
@options.table(
    "Rows",
    {
        "--verdict A,B": f"Only workers with one of these: {', '.join(VERDICTS)}.",
        "--anonymize-workers": options.ANONYMIZE,
    },
    verdict={"type": names},
)
@run_options
def workers(sources: tuple[str, ...], **parameters: Any) -> None:
    """List workers, worst first: a verdict and why, answers, accuracy with its interval (95 %).

    Takes answers, which it makes a run of first, or a finished run's labels.run.json.
    """
    wanted = parameters["verdict"] or ()
    for word in wanted:
        if word not in VERDICTS:
            guess = did_you_mean(word, VERDICTS) or f"; choose from {', '.join(VERDICTS)}"
            raise ConfigError(f"--verdict {word}: no such verdict{guess}")
    kinds = tuple(VERDICTS[word] for word in wanted)

    def pick(frame: pd.DataFrame) -> pd.DataFrame:
        return frame[frame["verdict"].str.startswith(kinds)] if kinds else frame

    _of_report("workers", sources, parameters, "accuracy", pick)


@click.command(cls=options.Command, examples=ITEMS)
@list_options("least sure", "confidence")
@run_options
def items(sources: tuple[str, ...], **parameters: Any) -> None:
    """List items, least sure first: label, confidence, votes, runner-up, and what is odd.

    Takes answers, which it makes a run of first, or a finished run's labels.run.json.
    """
    _of_report("items", sources, parameters, "confidence")


@click.command(cls=options.Command, examples=QUEUE)
@list_options("most gain", "confidence")
@options.table(
    "Rows",
    {
        "--price X": "Say what asking buys at this price of an answer: cost and expected error. "
        "Sorts by gain_once, what one answer alone gains.",
        "--reach X": "Say how many items a person must decide for a share of right labels: 99%.",
    },
    price={"type": numbers(whole=False, least=0)},
    reach={"type": share},
)
@run_options
def queue(sources: tuple[str, ...], **parameters: Any) -> None:
    """List the items whose label gains most from one more answer, best first.

    The gain is the expected rise in the probability that the label is right, per further answer of
    a typical worker, looking up to three answers ahead. That is not the lowest confidence: an item
    on which no answer will settle anything is not worth asking about.
    """
    if parameters["price"] is not None:
        if parameters["sort"] is not None:
            raise ConfigError("--price sorts by gain_once, what one answer gains; leave out --sort")
        parameters["sort"] = "-gain_once"
    _of_report("queue", sources, parameters, "confidence", sentences=_worth)


def _worth(report: Report, parameters: Mapping[str, Any]) -> Iterator[str]:
    """Say what asking again buys and what a person must decide, where that was asked for."""
    if parameters["price"] is None and parameters["reach"] is None:
        return
    from misc_cli.quality.asking import PAYS, Asking, decided_by_hand
    from misc_cli.report.narrative import count

    confidences = report.frames["items"]["confidence"].to_numpy()
    frame, price, reach = report.frames.get("ask_again"), parameters["price"], parameters["reach"]
    if price is not None and frame is not None:
        gains = _chosen(frame, parameters, "confidence")["gain_once"].to_numpy()
        asking = Asking(gains, float((1.0 - confidences).sum()), len(confidences))
        asked = min(parameters["top"] or asking.pays, len(gains))
        yield (
            f"{count(asked, 'item')} once more: {asked * price:,.2f} $, expected error "
            f"{100 * asking.error(0):.1f} → {100 * asking.error(asked):.1f} %"
        )
        for more, error, gain in asking.curve():
            each = f"; then {price / gain:,.2f} $ per error avoided" if more else ""
            yield f"{more:>9,} items {more * price:>12,.2f} $ {100 * error:>6.1f} %{each}"
        yield (
            f"after {count(asking.pays, 'item')} another answer no longer pays: an error avoided "
            f"takes more than {1 / PAYS:.0f} answers ({price / PAYS:,.2f} $)"
        )
    if reach is not None and (number := decided_by_hand(confidences, reach)):
        yield (
            f"{100 * reach:g} % right: a person must decide {number:,} of "
            f"{count(len(confidences), 'item')}, the least sure first (misc items --top {number})"
        )
    elif reach is not None:
        yield f"{100 * reach:g} % right: expected already, {100 * confidences.mean():.1f} % are"


def _place(parameters: Mapping[str, Any]) -> Path | None:
    from misc_cli.writers.output_paths import output_file

    known = (".json",) if parameters["json"] else FORMATS
    place = output_file(parameters["output"], *known)
    if place is not None and place.name.lower().endswith(".xlsx"):
        from misc_cli.report.workbook import library

        library()
    return place


def _of_report(
    name: str,
    sources: tuple[str, ...],
    parameters: dict[str, Any],
    measure: str,
    pick: Callable[[pd.DataFrame], pd.DataFrame] = lambda frame: frame,
    sentences: Callable[[Report, Mapping[str, Any]], Iterable[str]] = lambda *_: (),
) -> None:
    """List the frame `name` of the report on these sources, then say the `sentences` on it."""
    from misc_cli.cli.console import Console

    console, place = Console.of(parameters), _place(parameters)
    places = [] if place is None else [place]
    known = name != "items"  # who answered must be
    reports = reports_from(sources, parameters, console, places, of_workers=known)
    frames = {}
    for question, report in reports.items():
        frame = report.frames.get(FRAMES.get(name, name))
        if frame is None and report.labels is None:
            raise InputError(f"{sources[0]}: {' '.join(report.missing)}")
        frames[question] = pick(report.frames["items"].head(0) if frame is None else frame)
        for said in report.missing[:1] if name != "workers" else ():
            console.note(said)
    # all is computed before the file is written: what fails then would leave a new file behind
    said_after = [
        line if question is None else f"{question}: {line}"
        for question, report in reports.items()
        for line in sentences(report, parameters)
    ]
    _write(name, frames, parameters, measure, console)
    for line in said_after:
        console.say(line)


def _write(
    name: str, frames: Frames, parameters: Mapping[str, Any], measure: str, console: Console
) -> None:
    """Write the rows that were asked for: a table on a terminal, else a file or CSV."""
    from misc_cli.cli.tables import is_terminal

    place, as_json = _place(parameters), parameters["json"]
    on_screen = place is None and not as_json and is_terminal()
    top = parameters["top"] or (TOP if on_screen else None)
    chosen = {question: _chosen(frame, parameters, measure) for question, frame in frames.items()}
    shown = {question: frame.head(top) if top else frame for question, frame in chosen.items()}
    if on_screen:
        tables = {
            question: _whole(frame) if parameters["all_columns"] else VIEWS[name](frame)
            for question, frame in shown.items()
        }
        _show(name, tables, {question: len(frame) for question, frame in chosen.items()}, console)
    elif as_json or (place is not None and place.suffix.lower() == ".json"):
        outputs.write_bytes(_json(name, shown), place)
    else:
        import pandas as pd

        for question, frame in shown.items():
            if question is not None:
                frame.insert(0, "question", question)
        outputs.write_frame(pd.concat(list(shown.values())), place, name.capitalize())
    if place is not None:
        n_rows = sum(map(len, shown.values()))
        console.summary([("written", f"{place}, {n_rows:,} {'row' if n_rows == 1 else 'rows'}")])


def _chosen(frame: pd.DataFrame, parameters: Mapping[str, Any], measure: str) -> pd.DataFrame:
    """Return the rows that the filters let through, in the order that was asked for."""
    from misc_cli.report.frames import confusion_columns

    if not parameters["all_columns"]:
        frame = frame.drop(columns=confusion_columns(frame))
    if parameters["below"] is not None:
        frame = frame[frame[measure] < parameters["below"]]
    if (sort := parameters["sort"]) is not None:
        column = sort.removeprefix("-")
        if column not in frame:
            known = f"choose from {', '.join(map(str, frame.columns))}"
            raise ConfigError(f"--sort {sort}: {known}{did_you_mean(column, frame.columns)}")
        frame = frame.sort_values(column, ascending=sort == column, kind="stable")
    return frame


def _show(
    name: str, tables: Mapping[str | None, Table], found: Mapping[str | None, int], console: Console
) -> None:
    """Print the tables on stdout and, on stderr, what is not in them."""
    from misc_cli.cli.tables import print_tables, screen_width

    rows = "items" if name == "queue" else name
    print_tables([replace(table, title=question or "") for question, table in tables.items()])
    for question, table in tables.items():
        said = []
        if not table.rows:
            said.append(f"no {rows} to show")
        elif len(table.rows) < found[question]:
            said.append(f"{len(table.rows):,} of {found[question]:,} {rows}; --top shows more")
        hidden = [one for one in table.header if one not in table.fitted(screen_width()).header]
        if hidden and table.rows:
            said.append(f"no room for {', '.join(hidden)}; -o FILE has every column")
        if said:
            console.say("; ".join(said))


def _json(name: str, frames: Frames) -> bytes:
    from misc_cli.run.run_record import strict

    rows = {
        question: strict(frame.astype(object).where(frame.notna(), None).to_dict("records"))
        for question, frame in frames.items()
    }
    if None in rows:
        return outputs.json_bytes(**{name: rows[None]})
    found = [{"question": question, name: one} for question, one in rows.items()]
    return outputs.json_bytes(questions=found)


def _whole(frame: pd.DataFrame) -> Table:
    """Return a table with every column as it is; the reason, which is long, comes last."""
    last = [name for name in ("reason",) if name in frame]
    return _table(frame.drop(columns=last).join(frame[last]), spare=())


def _workers_view(frame: pd.DataFrame) -> Table:
    """Return id, verdict, answers, accuracy, its interval and why; the rest as there is room."""
    shown = frame.drop(columns=["reason", "accuracy_low", "accuracy_high"], errors="ignore")
    if "verdict" in frame:
        rows = zip(frame["verdict"], frame["alike"], strict=True)
        shown["why"] = [_why(verdict, alike) for verdict, alike in rows]
        shown["verdict"] = [_kind(verdict) for verdict in frame["verdict"]]
    if "accuracy_low" in frame:
        values = frame[["accuracy", "accuracy_low", "accuracy_high"]].itertuples(index=False)
        shown["accuracy"] = [f"{mean:.2f} ({low:.2f}–{high:.2f})" for mean, low, high in values]
    first = ("worker", "verdict", "answers", "accuracy")
    return _view(shown, first, "why", ("answers", "accuracy"))


def _items_view(frame: pd.DataFrame) -> Table:
    """Return id, label, confidence, votes, runner-up and what is odd; the rest as there is room."""
    odd = ("tie", "overruled", "outvoted", "gold", "right", "truth", "majority", "answers")
    shown = frame.drop(columns=list(odd), errors="ignore")
    if "votes" in frame:
        pairs = zip(frame["votes"], frame["answers"], strict=True)
        shown["votes"] = [f"{votes} of {answers}" for votes, answers in pairs]
        shown["note"] = [_note(row) for row in frame.to_dict("records")]
    first = ("item", "label", "confidence", "votes", "runner_up")
    return _view(shown, first, "note", ("runner_up", "votes", "note"))


def _queue_view(frame: pd.DataFrame) -> Table:
    first = ("item", "label", "confidence", "gain", "answers", "runner_up")
    return _view(frame, first, "", ("runner_up", "answers"))


VIEWS = {"workers": _workers_view, "items": _items_view, "queue": _queue_view}


def _view(frame: pd.DataFrame, first: tuple[str, ...], last: str, spare: tuple[str, ...]) -> Table:
    """Return a table of these columns; others stand before the last one and give way before."""
    more = [name for name in frame.columns if name not in (*first, last)]
    order = [name for name in (*first, *more, last) if name in frame]
    return _table(frame[order], spare=(*reversed(more), *spare))


def _table(frame: pd.DataFrame, spare: tuple[str, ...]) -> Table:
    from misc_cli.cli.tables import Table
    from misc_cli.report.frames import visible

    rows = [[visible(_cell(value)) for value in row] for row in frame.itertuples(index=False)]
    return Table("", [str(name) for name in frame.columns], rows, texts=TEXTS, spare=spare)


def _kind(verdict: str) -> str:
    """Return the one word of a verdict: "copy" of "copies anna"."""
    return next((word for word, start in VERDICTS.items() if verdict.startswith(start)), verdict)


def _why(verdict: str, alike: str) -> str:
    """Return the reason of a verdict in a few words."""
    kind = _kind(verdict)
    if kind in ("constant", "copy"):
        return verdict
    if kind == "check":
        return f"redundant: {alike}" if alike else "worse than guessing"
    return {"spammer": "no better than guessing", "few": "could be guessing"}.get(kind, "")


def _note(row: Mapping[Any, Any]) -> str:
    """Return what is odd about an item: a tie, a label that most answers speak against."""
    said = []
    if row.get("gold"):
        said.append("gold")
    if row.get("tie"):
        said.append("tie")
    elif row["outvoted"]:
        said.append(f"{'all' if row['overruled'] else 'more'} said {row['majority']}")
    if row.get("right") is False:
        said.append(f"wrong: {row['truth']}")
    return ", ".join(said)


def _cell(value: Any) -> str:
    if value is None or value != value:
        return ""
    if isinstance(value, bool):
        return "yes" if value else ""
    return f"{value:.3f}" if isinstance(value, float) else str(value)
