"""`misc report`, `workers`, `items`, `queue`: a run, new or finished, on one page or as lists.

On a terminal a list is a table that fits, a line per row; elsewhere, and in files, every row and
every column. It is a data frame: what it gets as a further column is shown where there is room.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from misc_cli.cli import logs, options, startup, tables
from misc_cli.cli.console import screen_width
from misc_cli.cli.parameters import numbers, share
from misc_cli.cli.tables import Table, print_tables
from misc_cli.errors import ConfigError, InputError, did_you_mean, printable

if TYPE_CHECKING:
    import pandas as pd

    from misc_cli.cli.console import Console
    from misc_cli.report.frames import Report

DEFAULT = "report.html"
REPORT = """
misc report answers.csv --truth truth.csv -o report.xlsx
misc report labels.run.json -o report.html --title "Batch 7"
"""

sources_argument = click.Argument(
    ["sources"], nargs=-1, required=True, metavar="ANSWERS...|RUN.JSON"
)
# The options of a new run; a finished one takes none of them but --question.
run_options = [
    *options.method_names,
    *options.table(
        "Known labels",
        {
            "--gold FILE": "Items whose label is known (item,label): they teach the rest.",
            "--truth FILE": "True labels (item,label) to judge the result by.",
        },
    ),
    *options.reading,
    *options.talking,
]


def reports_from(
    sources: tuple[str, ...],
    parameters: dict[str, Any],
    console: Console,
    outputs: list[Path],
    *,
    of_workers: bool = False,
) -> dict[str | None, Report]:
    """Return the report of a finished run, or of a new one on these answers.

    They are by question where the run is of several; else there is one, by None.
    """
    from misc_cli.job.perform import run_in_memory
    from misc_cli.report.load_run import read_runs
    from misc_cli.run.run_record import files_read, read_record
    from misc_cli.writers.output_paths import check_writable

    runs = [source for source in sources if source.endswith("run.json")]
    if runs and len(sources) > 1:
        raise ConfigError(f"{runs[0]}: one run at a time; or name files of answers only")
    if runs:
        record = read_record(runs[0])
        options.refuse_run_flags(runs[0], but=["question"] if "questions" in record else [])
        check_writable(outputs, [*sources, *files_read(record)])
        with console.watching():
            return read_runs(runs[0], parameters["question"])
    request = options.request_of_run(sources, parameters, "gold", "truth")
    check_writable(outputs, request.files)
    with console.watching():
        run = run_in_memory(request, console, began=startup.began)
        if of_workers and run.read is not None and run.read.anonymous:
            raise InputError(f"{sources[0]}: nobody says who answered; misc items shows its votes")
        facts = run.record(warnings=console.warnings, command=options.command_line())
        return {None: run.report(facts)}


REPORT_OUTPUT = options.table(
    "Output",
    {
        "-o --output FILE": "A page (.html), or a workbook (.xlsx, needs the extra excel); - is "
        "the page on stdout.",
        "--title TEXT": options.TITLE,
    },
    output={"default": DEFAULT, "show_default": True},
)


@options.command(REPORT, sources_argument, *REPORT_OUTPUT, *run_options)
def report(sources: tuple[str, ...], **parameters: Any) -> None:
    """Make one page that shows whom to trust, what to ask again and whether to believe a run.

    Of answers it makes a run first, as misc aggregate does; of a finished run's labels.run.json it
    shows what that found, without running it again: a page for each question if it was of several.
    The page needs no network: send it, print it.
    """
    from misc_cli.cli.console import Console
    from misc_cli.job.outputs import check_report_name, report_bytes
    from misc_cli.writers.output_set import with_question, write_all

    console = Console(**parameters, sources=sources)
    place = Path(parameters["output"])
    places = [] if parameters["output"] == "-" else [place]
    for path in places:
        check_report_name(path)
    found = reports_from(sources, parameters, console, places)
    if not places and len(found) > 1:
        raise ConfigError(
            f"{sources[0]}: of several questions, and stdout is for one page; pick one with "
            "--question, or name a file with -o"
        )
    pages = {}
    for question, one in found.items():
        titled = replace(one, title=parameters["title"] or "")
        page = report_bytes(titled, place if places else Path(DEFAULT))
        pages[place if question is None else with_question(place, question)] = page
    if not places:
        tables.write(page)
        return
    write_all(pages)
    for path, page in pages.items():
        logs.event("done", output=str(path), bytes=len(page))
        console.say(f"written: {path}, {len(page) / 1e6:.1f} MB")


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
WHY = {"spammer": "no better than guessing", "few": "could be guessing", "fine": ""}
FORMATS = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet", ".json", ".xlsx")
TEXTS = ("label", "runner_up", "majority", "truth", "verdict", "why", "alike", "note", "reason")

WORKERS = """
misc workers labels.run.json --verdict spammer,constant -o block.csv
misc workers answers.csv --below 0.6
"""
ITEMS = """
misc items labels.run.json --below 0.8 -o decide.xlsx
misc items answers.csv --top 50
"""
QUEUE = """
misc queue labels.run.json --price 0.03 --top 143 -o extend.csv
misc queue answers.csv --reach 99%
"""


def list_options(below: str, more: Mapping[str, str], **types: Any) -> list[click.Parameter]:
    """Return the options of a list; `below` is the column that --below is about."""
    rows = {
        "-o --output FILE": "Every row, as .csv, .tsv, .json, .xlsx or .parquet [default: a table "
        "on a terminal, else CSV on stdout].",
        "--json": "Every row, as JSON.",
        "--top N": f"So many rows [default: {TOP} on a terminal, else all].",
        "--below X": f"Only rows whose {below} is below X: 0.8 or 80%.",
        "--all-columns": "Every column, also of a table; with the workers' confusion matrices.",
        **more,
    }
    own = options.table("Rows", rows, below={"type": share}, **types)
    return [sources_argument, *own, *run_options]


OF_WORKERS = {
    "--verdict A,B": f"Only workers with one of these: {', '.join(VERDICTS)}.",
}


@options.command(WORKERS, *list_options("accuracy", OF_WORKERS))
def workers(sources: tuple[str, ...], **parameters: Any) -> None:
    """List workers, worst first: a verdict and why, answers, accuracy with its interval (95 %).

    Takes answers, which it makes a run of first, or a finished run's labels.run.json.
    """
    for word in parameters["verdict"] or ():
        if word not in VERDICTS:
            guess = did_you_mean(word, VERDICTS) or f"; choose from {', '.join(VERDICTS)}"
            raise ConfigError(f"--verdict {word}: no such verdict{guess}")
    _of_report("workers", sources, parameters)


@options.command(ITEMS, *list_options("confidence", {}))
def items(sources: tuple[str, ...], **parameters: Any) -> None:
    """List items, least sure first: label, confidence, votes, runner-up, and what is odd.

    Takes answers, which it makes a run of first, or a finished run's labels.run.json.
    """
    _of_report("items", sources, parameters)


WORTH = {
    "--price X": "Say what asking buys at this price of an answer: cost and expected error. Sorts "
    "by gain_once, what one answer alone gains.",
    "--reach X": "Say how many items a person must decide for a share of right labels: 99%.",
}
PRICE, REACH = {"type": numbers(whole=False, least=0)}, {"type": share}


@options.command(QUEUE, *list_options("confidence", WORTH, price=PRICE, reach=REACH))
def queue(sources: tuple[str, ...], **parameters: Any) -> None:
    """List the items whose label gains most from one more answer, best first.

    The gain is the expected rise in the probability that the label is right, per further answer of
    a typical worker, looking up to three answers ahead. That is not the lowest confidence: an item
    on which no answer will settle anything is not worth asking about.
    """
    _of_report("queue", sources, parameters)


def _of_report(name: str, sources: tuple[str, ...], parameters: dict[str, Any]) -> None:
    """List a frame of the report on these sources: as a table on a terminal, else as data."""
    import pandas as pd

    from misc_cli.cli.console import Console
    from misc_cli.run.run_record import strict
    from misc_cli.writers.output_paths import output_file

    console, as_json = Console(**parameters, sources=sources), parameters["json"]
    place = output_file(parameters["output"], *((".json",) if as_json else FORMATS))
    if place is not None and place.name.lower().endswith(".xlsx"):
        from misc_cli.report.workbook import library

        library()
    places = [] if place is None else [place]
    reports = reports_from(sources, parameters, console, places, of_workers=name != "items")
    on_screen = place is None and not as_json and screen_width() is not None
    top = parameters["top"] or (TOP if on_screen else sys.maxsize)
    shown, said = {}, []
    for question, report in reports.items():
        frame = report.frames.get("ask_again" if name == "queue" else name)
        empty = report.frames["items"].head(0)
        chosen = _chosen(name, empty if frame is None else frame, parameters)
        shown[question] = chosen.head(top)
        if on_screen and top < len(chosen):
            rows = "workers" if name == "workers" else "items"
            said.append(f"{top:,} of {len(chosen):,} {rows}; --top shows more")
        for missing in report.missing[:1] if name != "workers" else ():
            console.note(missing)
        # all is computed before the file is written: what fails then would leave a new file behind
        lines = _worth(report, chosen, parameters) if name == "queue" else ()
        said += [line if question is None else f"{question}: {line}" for line in lines]
    if on_screen:
        for question, frame in shown.items():
            table = VIEWS[name](frame)
            if parameters["all_columns"]:  # as they are; the reason, which is long, comes last
                table = replace(_view(frame, (), "reason", ()), spare=())
            print_tables([replace(table, title=question or "")])
            fitted = table.fitted(screen_width()).header
            if table.rows and (hidden := [one for one in table.header if one not in fitted]):
                said.append(f"no room for {', '.join(hidden)}; -o FILE has every column")
    else:
        for question, frame in shown.items():
            if question is not None:
                frame.insert(0, "question", question)
        whole = pd.concat(list(shown.values()))
        if as_json or (place is not None and place.suffix.lower() == ".json"):
            records = whole.astype(object).where(whole.notna(), None).to_dict("records")
            tables.write(tables.json_bytes(**{name: strict(records)}), place)
        else:
            tables.write_frame(whole, place, name.capitalize())
    n_rows = sum(map(len, shown.values()))
    if place is not None:
        console.summary([("written", f"{place}, {n_rows:,} {'row' if n_rows == 1 else 'rows'}")])
    elif on_screen and not n_rows:
        console.say("no rows to show")
    for line in said:
        console.say(line)


def _chosen(name: str, frame: pd.DataFrame, parameters: Mapping[str, Any]) -> pd.DataFrame:
    """Return the rows that the filters let through, in the order that was asked for."""
    from misc_cli.report.frames import confusion_columns

    if not parameters["all_columns"]:
        frame = frame.drop(columns=confusion_columns(frame))
    if parameters.get("verdict"):
        kinds = tuple(VERDICTS[word] for word in parameters["verdict"])
        frame = frame[frame["verdict"].str.startswith(kinds)]
    if parameters["below"] is not None:
        measure = "accuracy" if name == "workers" else "confidence"
        frame = frame[frame[measure] < parameters["below"]]
    if parameters.get("price") is not None and "gain_once" in frame:
        frame = frame.sort_values("gain_once", ascending=False, kind="stable")
    return frame


def _worth(report: Report, frame: pd.DataFrame, parameters: Mapping[str, Any]) -> Iterator[str]:
    """Say what asking again buys and what a person must decide, where that was asked for."""
    from misc_cli.quality.asking import PAYS, Asking, decided_by_hand
    from misc_cli.report.narrative import count

    price, reach = parameters["price"], parameters["reach"]
    confidences = report.frames["items"]["confidence"].to_numpy()
    if price is not None and "gain_once" in frame:
        gains = frame["gain_once"].to_numpy()
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


def _workers_view(frame: pd.DataFrame) -> Table:
    """Return id, verdict, answers, accuracy, its interval and why; the rest as there is room."""
    shown = frame.drop(columns=["reason", "accuracy_low", "accuracy_high"], errors="ignore")
    if "verdict" in frame:
        whys, kinds = [], []
        for verdict, alike in zip(frame["verdict"], frame["alike"], strict=True):
            kind = next((word for word, at in VERDICTS.items() if verdict.startswith(at)), verdict)
            redundant = f"redundant: {alike}" if alike else "worse than guessing"
            whys.append({"constant": verdict, "copy": verdict, "check": redundant, **WHY}.get(kind))
            kinds.append(kind)
        shown["why"], shown["verdict"] = whys, kinds
    if "accuracy_low" in frame:
        values = frame[["accuracy", "accuracy_low", "accuracy_high"]].itertuples(index=False)
        shown["accuracy"] = [f"{mean:.2f} ({low:.2f}–{high:.2f})" for mean, low, high in values]
    if "seconds" in frame:
        shown["seconds"] = frame["seconds"].map("{:.1f}".format, na_action="ignore")
    first = ("worker", "verdict", "answers", "seconds", "accuracy")
    return _view(shown, first, "why", ("seconds", "answers", "accuracy"))


def _items_view(frame: pd.DataFrame) -> Table:
    """Return id, label, confidence, votes, runner-up and what is odd; the rest as there is room."""
    odd = ("tie", "overruled", "outvoted", "gold", "right", "truth", "majority", "answers")
    shown = frame.drop(columns=list(odd), errors="ignore")
    if "votes" in frame:
        pairs = zip(frame["votes"], frame["answers"], strict=True)
        shown["votes"] = [f"{votes} of {answers}" for votes, answers in pairs]
        shown["note"] = [", ".join(_odd(row)) for row in frame.to_dict("records")]
    first = ("item", "label", "confidence", "votes", "runner_up")
    return _view(shown, first, "note", ("runner_up", "votes", "note"))


def _odd(row: Mapping[Any, Any]) -> Iterator[str]:
    """Yield what is odd about an item: a tie, a label that most answers speak against."""
    if row.get("gold"):
        yield "gold"
    if row.get("tie"):
        yield "tie"
    elif row["outvoted"]:
        yield f"{'all' if row['overruled'] else 'more'} said {row['majority']}"
    if row.get("right") is False:
        yield f"wrong: {row['truth']}"


def _queue_view(frame: pd.DataFrame) -> Table:
    first = ("item", "label", "confidence", "gain", "answers", "runner_up")
    return _view(frame, first, "", ("runner_up", "answers"))


VIEWS = {"workers": _workers_view, "items": _items_view, "queue": _queue_view}


def _view(frame: pd.DataFrame, first: tuple[str, ...], last: str, spare: tuple[str, ...]) -> Table:
    """Return a table of these columns; others stand before the last one and give way before."""
    more = [name for name in frame.columns if name not in (*first, last)]
    order = [name for name in (*first, *more, last) if name in frame]
    rows = [[printable(_cell(value)) for value in row] for row in frame[order].to_numpy(object)]
    header = [str(name) for name in order]
    return Table("", header, rows, texts=TEXTS, spare=(*map(str, reversed(more)), *spare))


def _cell(value: Any) -> str:
    if value is None or value != value:
        return ""
    if isinstance(value, bool):
        return "yes" if value else ""
    return f"{value:.3f}" if isinstance(value, float) else str(value)
