"""A recorded run to be repeated: its request with the very files it read."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from misc_cli import cleanup
from misc_cli.errors import ConfigError, InputError
from misc_cli.job.perform import performed
from misc_cli.run.request import AggregateRequest
from misc_cli.run.run_record import questions_of, read_record, request_of
from misc_cli.writers.output_set import sha256_of

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

    @property
    def questions(self) -> list[str]:
        """Return the names of its questions where there are several, in their order."""
        return [str(one["question"]) for one in self.content.get("questions", [])]

    def refuse_changed(self, read: Mapping[str, str] | None = None) -> None:
        """Raise if an input is gone or no longer as it was.

        `read` has the SHA-256 of inputs that were read by now, databases and downloads too.
        """
        wrong = [] if self.request.sources else ["its answers came from no file"]
        if (self.content.get("state") or {}).get("night", 1) > 1:
            wrong.append("the state that it started from is another one now")
        for one in questions_of(self.content):
            for source in [*one["inputs"], *one["known"].values()]:
                name, digest = source["name"], source["sha256"]
                if read is not None or "://" in name:  # what it brings is looked at when it is read
                    found = (read or {}).get(name, digest)
                elif name == STDIN:
                    found = None
                else:
                    try:
                        with open(name, "rb") as stream:
                            found = sha256_of(stream)
                    except OSError:
                        found = None
                if HIDDEN in name:
                    wrong.append(f"the secret of {name} is not recorded")
                elif found != digest:
                    wrong.append(f"{name} {'is gone' if found is None else 'has changed'}")
        if wrong:
            raise InputError(f"{self.path} cannot be repeated: {'; '.join(dict.fromkeys(wrong))}")

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
    """Carry out a recorded request again, from the inputs that it had.

    Returns the files of labels, one for each question, and whether they are those of the record;
    None where the record has them in parts.
    """
    recorded.refuse_changed()
    files = recorded.content["files"]
    asked = [one["sha256"] for one in files if one["name"].partition(".")[0] == "labels"]
    name = Path(recorded.request.output or "").name if asked else "labels.csv"
    with cleanup.folder("misc-rerun-") as folder:
        request = replace(recorded.request, output=str(folder / name))
        with performed(request, observer) as finished:
            read = [file for run in finished.runs for file in run.files]
            recorded.refuse_changed({file.name: file.sha256 for file in read})
            labels = [run.places["labels"].read_bytes() for run in finished.runs]
    found = sorted(hashlib.sha256(data).hexdigest() for data in labels)
    return labels, found == sorted(asked) if asked else None
