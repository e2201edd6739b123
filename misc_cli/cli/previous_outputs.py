"""`--changes` and its gates: a run's labels beside those that it is about to replace."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from misc_cli.cli.fail_if import CHANGES, Gate
from misc_cli.errors import ConfigError

if TYPE_CHECKING:
    from misc_cli.data.types import LabelTable, WorkerTable
    from misc_cli.quality.changes import Changes
    from misc_cli.run.result import Outcome


@dataclass(frozen=True)
class PreviousOutputs:
    """What stood in the outputs' places; None where nothing did."""

    labels: LabelTable | None
    workers: WorkerTable | None
    has_workers: bool

    def against(
        self, labels: Mapping[str, Any], workers: Callable[[], Mapping[str, Any]]
    ) -> Changes:
        """Compare with today's columns; without anything earlier every item is new.

        Those of `workers` are only made if they are looked at: judging workers takes its time.
        """
        from misc_cli.quality.changes import compare

        now = label_table(labels)
        tables = None
        if self.has_workers:
            known = worker_table(workers())
            tables = (self.workers or known, known)
        return compare(self.labels or _nothing(now), now, tables)

    def of(self, outcome: Outcome) -> Changes:
        """Compare with a run's own tables."""
        from misc_cli.run.tables import label_columns, worker_columns

        return self.against(label_columns(outcome), lambda: worker_columns(outcome))


def read_previous(
    changes: str | None,
    gates: Iterable[Gate],
    places: Mapping[str, Path],
    written: Mapping[str, str],
) -> PreviousOutputs | None:
    """The files that this run is about to replace, if it has to look at them.

    `written` are the checksums of those that an earlier run wrote, as far as they are known.
    """
    judged = [gate for gate in gates if gate.metric in CHANGES]
    if changes is None and not judged:
        return None
    flag = "--changes" if changes is not None else f"--fail-if {judged[0].text}"
    if "labels" not in places:
        raise ConfigError(f"{flag} compares with the labels that -o replaces; name a file with -o")
    if "workers" not in places and any(gate.metric == "worker-drop" for gate in judged):
        raise ConfigError("--fail-if worker-drop compares with the file of --workers; name one")
    from misc_cli.writers.read_back import read_labels, read_workers

    found = {name: str(path) for name, path in places.items() if path.is_file()}
    return PreviousOutputs(
        read_labels(found["labels"], written.get(found["labels"])) if "labels" in found else None,
        read_workers(found["workers"]) if "workers" in found else None,
        has_workers="workers" in places,
    )


def label_table(columns: Mapping[str, Any]) -> LabelTable:
    """The columns of labels as a table that was read."""
    from misc_cli.data.types import LabelTable

    return LabelTable(columns["item"], columns["label"].dictionary_decode(), columns["confidence"])


def worker_table(columns: Mapping[str, Any]) -> WorkerTable:
    """The columns of workers as a table that was read."""
    from misc_cli.data.types import WorkerTable

    return WorkerTable(
        columns["worker"],
        columns["answers"].astype(float),
        columns["accuracy"],
        low=columns.get("accuracy_low"),
        high=columns.get("accuracy_high"),
    )


def _nothing(like: LabelTable) -> LabelTable:
    from misc_cli.data.types import LabelTable

    sure = None if like.confidence is None else like.confidence[:0]
    return LabelTable(like.items[:0], like.labels[:0], sure)
