"""The paper's table is whole, finished cells are cached, shipped settings give their errors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from misc_cli.errors import ConfigError, MiscWarning
from misc_cli.paper import datasets, reproduce
from misc_cli.paper.reproduce import CellCache
from misc_cli.paper.table import Cell, choose, paper_table, shipped_cells
from misc_cli.run.settings import Settings, build
from tests.conftest import dataset_folder


def test_the_table_is_whole() -> None:
    table = paper_table()
    assert len(table) == 120
    assert list(dict.fromkeys(cell.dataset for cell in table)) == list(datasets.registry())
    assert set(choose()) == set(table)
    assert table[Cell("web", "tucker", "mmce-o")] == 5.24
    assert table[Cell("bluebirds", "none", "mv")] == 24.07


def test_cells_by_name() -> None:
    assert choose(["temp"], ["none", "tucker"], ["mv"]) == [
        Cell("temp", "none", "mv"),
        Cell("temp", "tucker", "mv"),
    ]
    with pytest.raises(ConfigError, match="no aggregator 'ebcc'; it has mv, ds-em"):
        choose(aggregators=["ebcc"])


def test_a_cell_that_is_done_is_not_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = dataset_folder("bluebirds").parent
    cells = choose(["bluebirds"], ["none"], ["mv", "ds-em"])
    path = tmp_path / "cache" / "done.jsonl"
    first = list(reproduce.reproduce(cells, folder=folder, cell_cache=CellCache(path)))
    assert [round(result.ours, 2) for result in first] == [24.07, 10.19]
    assert all(result.reached for result in first)
    # the last line was cut short by a crash: only its cell is run again
    lines = path.read_text().splitlines(keepends=True)
    path.write_text(lines[0] + lines[1][:40])
    ran = []

    def run_cell(cell: Cell, *_: object) -> float:
        ran.append(cell)
        return 1.0

    monkeypatch.setattr(reproduce, "run_cell", run_cell)
    with pytest.warns(MiscWarning, match="1 damaged line dropped"):
        cached = CellCache(path)
    second = list(reproduce.reproduce(cells, folder=folder, cell_cache=cached))
    assert ran == cells[1:]
    assert second[0] == first[0]
    # other code, other figures: nothing that was remembered counts any more
    monkeypatch.setattr(reproduce, "_code", lambda: b"another version")
    with pytest.warns(MiscWarning, match="1 damaged line dropped"):
        cached = CellCache(path)
    list(reproduce.reproduce(cells, folder=folder, cell_cache=cached))
    assert ran == [cells[1], *cells]


def test_what_decides_a_cell_is_in_its_key() -> None:
    package = Path(reproduce.__file__).parent.parent
    code = reproduce._code()
    deciding = (
        "run/settings.py",
        "data/types.py",
        "readers/read.py",
        "aggregators/dawid_skene.py",
    )
    assert all((package / name).read_bytes() in code for name in deciding)
    assert b"numpy " + np.__version__.encode() in code
    for name in ("cli/console.py", "cli/options.py"):
        assert (package / name).read_bytes() not in code


def test_every_mixed_cell_has_settings_that_its_methods_take() -> None:
    shipped = {entry.cell: entry for entry in shipped_cells()}
    assert set(shipped) == {cell for cell in paper_table() if cell.completer != "none"}
    for cell, entry in shipped.items():
        build(Settings("paper", cell.completer, cell.aggregator, options=entry.options))


@pytest.mark.parametrize("aggregator", ["mv", "ds-em", "ds-mf"])
@pytest.mark.parametrize("name", ["bluebirds", "temp"])
def test_shipped_settings_give_the_figure_they_are_shipped_with(name: str, aggregator: str) -> None:
    cell = Cell(name, "tucker", aggregator)
    shipped = next(entry for entry in shipped_cells() if entry.cell == cell)
    error = reproduce.run_cell(cell, dataset_folder(name), shipped.options)
    one_item = 100 / {"bluebirds": 108, "temp": 462}[name]  # another LAPACK may turn one round
    assert error == pytest.approx(shipped.error, abs=1.01 * one_item)
