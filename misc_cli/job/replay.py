"""A recorded run to be repeated: its request with the very files it read."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from misc_cli import cleanup
from misc_cli.errors import ConfigError, InputError
from misc_cli.job.perform import performed
from misc_cli.run.request import AggregateRequest
from misc_cli.run.run_record import inputs_of, questions_of, read_record, request_of

if TYPE_CHECKING:
    from misc_cli.job.perform import Observer

STDIN = "<stdin>"
HIDDEN = "***"  # in the place of an address's secret
# What a repetition takes of the request: neither other outputs, nor gates, nor the state, which a
# first night has not; a later one is not repeated.
TAKEN = (
    *("settings", "gold", "truth", "each_question", "output", "probabilities", "item_details"),
    *("reading", "engine", "spill", "scheduler"),
)


@dataclass(frozen=True)
class RecordedRun:
    """The content of a run.json and its request, which names the files that were read."""

    path: str
    content: Mapping[str, Any]
    request: AggregateRequest

    @classmethod
    def read(cls, path: str) -> RecordedRun:
        """Read a run.json; its request loses every output but the labels."""
        content = read_record(path)
        asked = request_of(content, path)
        names = [source["name"] for one in questions_of(content) for source in one["inputs"]]
        names = list(dict.fromkeys(names)) if asked.each_question else names
        taken = {name: getattr(asked, name) for name in TAKEN}
        return cls(path, content, AggregateRequest(tuple(names), **taken))

    def refuse_untrusted(self) -> None:
        """Raise if the record, maybe a stranger's, has a query, an address or an engine's place."""
        request = self.request
        strange = [name for name in (*request.files, request.scheduler or "") if "://" in name]
        strange += [name for name in (request.spill, request.reading.query) if name]
        if strange:
            raise ConfigError(
                f"{self.path} asks for {', '.join(map(repr, strange))}; if you trust whoever made "
                "it, add --yes"
            )


def repeated(recorded: RecordedRun, observer: Observer) -> tuple[list[bytes], bool | None]:
    """Carry out a recorded request again, from the inputs that it had; others are refused.

    Returns the files of labels, one for each question, and whether they are those of the record;
    None where the record has them in parts.
    """
    content, sources = recorded.content, recorded.request.sources
    wrong = [f"the secret of {name} is not recorded" for name in sources if HIDDEN in name]
    if not sources or STDIN in sources:
        wrong.append("its answers came from no file")
    if (content.get("state") or {}).get("night", 1) > 1:
        wrong.append("the state that it started from is another one now")
    asked = [one["sha256"] for one in content["files"] if one["name"].partition(".")[0] == "labels"]
    name = Path(recorded.request.output or "").name if asked else "labels.csv"
    with ExitStack() as stack:
        if not wrong:
            folder = stack.enter_context(cleanup.folder("misc-rerun-"))
            request = replace(recorded.request, output=str(folder / name))
            runs = stack.enter_context(performed(request, observer)).runs
            for run, then in zip(runs, questions_of(content), strict=True):
                read = {file["name"]: file["sha256"] for file in inputs_of(run.record())}
                wrong += [
                    f"{one['name']} has changed"
                    for one in inputs_of(then)
                    if read.get(one["name"]) != one["sha256"]
                ]
            labels = [run.places["labels"].read_bytes() for run in runs]
    if wrong:
        raise InputError(f"{recorded.path} cannot be repeated: {'; '.join(dict.fromkeys(wrong))}")
    found = sorted(hashlib.sha256(data).hexdigest() for data in labels)
    return labels, found == sorted(asked) if asked else None
