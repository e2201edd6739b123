"""A recorded run to be repeated: its request with the very files it read, its choice, its state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from misc_cli.errors import ConfigError, InputError
from misc_cli.run.fitting import fit_as_chosen
from misc_cli.run.request import LOCAL, AggregateRequest, Fitter, FitterOf
from misc_cli.run.run_record import questions_of, read_record, request_of
from misc_cli.state import store
from misc_cli.writers.output_set import sha256_of

STDIN = "<stdin>"
HIDDEN = "***"  # in the place of an address's secret
# Outputs that have nothing to do with a run's labels, and what is only said about them.
LABELS_ONLY: dict[str, Any] = {
    **dict.fromkeys(("workers", "changes", "metrics", "report", "rejects", "diagnostics"), None),
    **{"fail_if": (), "keep_rejected": None, "publish_anyway": False},
    **{"anonymize_workers": False, "title": None},
}


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
        request = replace(request_of(content, path), **LABELS_ONLY)
        names = [source["name"] for one in questions_of(content) for source in one["inputs"]]
        if request.each_question:
            names = list(dict.fromkeys(names))
        return cls(path, content, replace(request, sources=tuple(names)))

    @property
    def questions(self) -> list[str]:
        """Return the names of its questions where there are several, in their order."""
        return [str(one["question"]) for one in self.content.get("questions", [])]

    @property
    def state(self) -> Mapping[str, Any] | None:
        """Return where the run's state was and what it started from; None without one."""
        found: Mapping[str, Any] | None = self.content.get("state")
        return found

    @property
    def label_digests(self) -> dict[str, str]:
        """Return the SHA-256 of each file of labels, by its name: labels, labels.mood."""
        return {
            file["name"]: file["sha256"]
            for file in self.content["files"]
            if file["name"].partition(".")[0] == "labels"
        }

    def refuse_changed(self, read: Mapping[str, str] | None = None) -> None:
        """Raise if an input is gone or no longer as it was.

        `read` has the SHA-256 of inputs that were read by now, databases and downloads too.
        """
        wrong = list(dict.fromkeys(self._changed() if read is None else self._differing(read)))
        if not self.request.sources:
            wrong.append("its answers came from no file")
        if wrong:
            raise InputError(f"{self.path} cannot be repeated: {'; '.join(wrong)}")

    def _changed(self) -> Iterator[str]:
        """Yield each input that is no longer as it was, in words."""
        for one in questions_of(self.content):
            for source in [*one["inputs"], *one["known"].values()]:
                name = source["name"]
                if name == STDIN:
                    yield "it read standard input, which is gone"
                elif HIDDEN in name:
                    yield f"the secret of {name} is not recorded"
                elif "://" not in name:  # what an address brings is looked at when it is read
                    yield from _difference(name, source["sha256"])

    def _differing(self, read: Mapping[str, str]) -> Iterator[str]:
        for one in questions_of(self.content):
            for source in one["inputs"]:
                if read.get(source["name"], source["sha256"]) != source["sha256"]:
                    yield f"{source['name']} has changed"

    @property
    def reads(self) -> list[str]:
        """Return the names of all that the run read: answers, known labels, priors, state."""
        folder = (self.state or {}).get("folder") if self.request.state else None
        return [name for name in (*self.request.files, folder) if name]

    def refuse_untrusted(self, remedy: str) -> None:
        """Raise if the record has a query, an address or an engine's place: it may be a stranger's.

        Parameters
        ----------
        remedy
            What the user may do who trusts the record.
        """
        request = self.request
        strange = [name for name in (*self.reads, request.scheduler or "") if "://" in name]
        strange += [name for name in (request.spill, request.reading.query) if name]
        if strange:
            raise ConfigError(
                f"{self.path} asks for {', '.join(map(repr, strange))}; if you trust whoever made "
                f"it, {remedy}"
            )

    def of_question(self, question: str | None) -> RecordedRun:
        """Return the run of one question; it must be named if there are several."""
        if not self.request.each_question:
            return self
        if question is None or question not in self.questions:
            names = ", ".join(map(repr, self.questions))
            raise ConfigError(
                f"{self.path}: of several questions, {names}; pick one with --question"
            )
        return replace(self, request=self.request.of_question(question))

    def fitter(self, *, choose: bool = True) -> FitterOf | None:
        """Return how each question is fitted; None if by the request alone.

        Without `choose` the methods, weights and calibration of the record are used again.
        """
        if choose and self.request.chosen_by is None:
            return None
        several = "questions" in self.content
        entries = {
            str(one["question"]) if several else None: one for one in questions_of(self.content)
        }

        def of(question: str) -> Fitter | None:
            entry = entries.get(question if several else None)
            if entry is None:
                raise InputError(f"{self.path}: it has no question {question!r}; it cannot tell")
            if not entry["members"]:
                return None  # its methods were named: they are in the request
            fit: Fitter = fit_as_chosen(entry, self.path)
            return fit

        return of

    def with_answers(self, sources: Sequence[str], output: str | None) -> AggregateRequest:
        """Return a request for new answers, without state, that uses the record's choice."""
        chose = any(one["members"] for one in questions_of(self.content))
        if chose and self.request.engine != LOCAL:
            raise ConfigError(
                f"--with uses what a run chose on --engine local; {self.path} is of "
                f"{self.request.engine}"
            )
        chosen_by = self.path if chose else None
        new = self.request.stateless()
        return replace(new, sources=tuple(sources), output=output, chosen_by=chosen_by)

    @contextmanager
    def earlier_state(self, folder: Path) -> Iterator[str | None]:
        """Copy the state that the run started from into a folder; yield None if it had none."""
        if self.state is None:
            yield None
            return
        then, place = self.state, folder / "state"
        place.mkdir()
        if then["before"] is not None and not store.copy(
            Path(then["folder"]), then["before"], place
        ):
            raise InputError(
                "it cannot be repeated: the state that it started from is gone from "
                f"{then['folder']}"
            )
        yield str(place)


def _difference(name: str, digest: str) -> Iterator[str]:
    try:
        with open(name, "rb") as stream:
            if sha256_of(stream) != digest:
                yield f"{name} has changed"
    except OSError:
        yield f"{name} is gone"
