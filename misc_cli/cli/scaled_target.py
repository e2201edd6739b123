"""Where an engine's labels go: stdout, one file, or a folder of parts (`-o labels/`)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from misc_cli.cli import outputs
from misc_cli.errors import ConfigError, InputError

if TYPE_CHECKING:
    from misc_cli.run.result import Outcome
    from misc_cli.scale.job import SpreadEngine
    from misc_cli.scale.labels import Wanted
    from misc_cli.writers.run_outputs import Facts, Write

FOLDER_SUFFIXES = (".parquet", ".csv", ".tsv", ".csv.gz", ".tsv.gz")


@dataclass(frozen=True)
class Target:
    """The outputs by name, but for those within the folder, if there is one."""

    places: Mapping[str, Path]
    folder: Path | None
    wanted: Wanted

    @classmethod
    def of(cls, parameters: Mapping[str, Any], inputs: list[str]) -> Target:
        from misc_cli.scale.labels import Wanted
        from misc_cli.writers.output_paths import check_new_folder, check_writable

        given = parameters["output"]
        wanted = Wanted(parameters["probabilities"], parameters["item_details"])
        if given is None or given == "-" or not (given.endswith("/") or Path(given).is_dir()):
            places = outputs.places_of(parameters)
            check_writable(places.values(), inputs, stdout="labels" not in places)
            return cls(places, None, wanted)
        folder = Path(given)
        places = outputs.places_of({**parameters, "output": None})
        for name, place in places.items():
            if folder.resolve() in place.resolve().parents:
                raise ConfigError(
                    f"--{name} {place}: the folder is for labels; name a file outside"
                )
        check_writable(places.values(), inputs, stdout=False)
        check_new_folder(folder)
        return cls(places, folder, wanted)

    @property
    def named(self) -> dict[str, Path]:
        """What a person is told."""
        folder = {} if self.folder is None else {"labels": self.folder}
        return {**folder, **self.places}

    def check(self, engine: SpreadEngine) -> None:
        """Before the fit: is one file for all labels asking too much?"""
        if self.folder is None:
            engine.refuse_one_file()

    def write(
        self, engine: SpreadEngine, outcome: Outcome, facts: Facts, more: Mapping[str, Write]
    ) -> None:
        """Everything, or nothing; `facts` makes run.json, `more` are writers of outputs by name."""
        from misc_cli.scale.labels import columns_of, prepare
        from misc_cli.writers.render import write_pieces
        from misc_cli.writers.run_outputs import write_set

        wanted = replace(self.wanted, own=tuple(outcome.aggregation.item_details))
        prepare(engine, engine.vocabulary, wanted)
        if self.folder is not None:
            self._write_folder(self.folder, engine, wanted, outcome, facts, more)
            return

        def labels(stream: BinaryIO) -> None:
            name = self.places["labels"].name if "labels" in self.places else ""
            write_pieces(map(columns_of, engine.tables(wanted)), stream, name)

        write_set(outcome, self.places, facts, more={**more, "labels": labels})

    def _write_folder(
        self,
        folder: Path,
        engine: SpreadEngine,
        wanted: Wanted,
        outcome: Outcome,
        facts: Facts,
        more: Mapping[str, Write],
    ) -> None:
        """Parts under a temporary name; the folder appears whole, or not at all."""
        from misc_cli.writers.output_set import new_folder
        from misc_cli.writers.run_outputs import write_set

        suffix = next((s for s in FOLDER_SUFFIXES if folder.name.endswith(s)), ".parquet")
        started = time.perf_counter()
        with new_folder(folder) as staged:
            waiting = staged.waiting
            parts = engine.write_parts(waiting, suffix, wanted)
            missing = [part for part in sorted(parts) if not (waiting / part).exists()]
            if missing:
                raise InputError(
                    f"{folder}: the workers wrote {missing[0]} where this machine does not see it; "
                    "name a folder on storage that all share"
                )

            def of_folder(_: Mapping[str, str]) -> dict[str, Any]:
                outcome.timings["write"] = round(time.perf_counter() - started, 6)
                content = facts({name: str(path) for name, path in self.named.items()})
                return {**content, "outputs": {**content["outputs"], "parts": sorted(parts)}}

            within = {"diagnostics": waiting / "diagnostics.jsonl", "run": waiting / "run.json"}
            digests = {waiting / part: parts[part] for part in sorted(parts)}
            places = {**within, **self.places}
            write_set(outcome, places, of_folder, more=more, written=digests, folder=staged)
