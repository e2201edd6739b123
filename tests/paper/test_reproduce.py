"""The paper's table is whole, and shipped settings give their errors."""

from __future__ import annotations

import pytest

from misc_cli.errors import ConfigError
from misc_cli.paper.table import (
    Cell,
    choose,
    method_of,
    paper_table,
    read_dataset,
    reproduce,
    shipped,
)
from misc_cli.run.settings import Settings, build
from misc_cli.selection.compare import errors
from tests.conftest import dataset_folder


def test_the_table_is_whole() -> None:
    table = paper_table()
    assert len(table) == 120
    assert {cell.dataset for cell in table} == {"web", "bm", "rte", "dog", "temp", "bluebirds"}
    assert set(choose()) == set(table)
    assert table[Cell("web", "tucker", "mmce-o")] == 5.24
    assert table[Cell("bluebirds", "none", "mv")] == 24.07


def test_cells_by_name() -> None:
    assert choose(["temp"], ["none", "tucker"], ["mv"]) == [
        Cell("temp", "none", "mv"),
        Cell("temp", "tucker", "mv"),
    ]
    with pytest.raises(ConfigError, match="no 'ebcc'; it has mv, ds-em"):
        choose(aggregators=["ebcc"])


def test_ours_beside_the_papers() -> None:
    cells = choose(["temp", "bluebirds"], ["none"], ["mv", "ds-em"])
    found = reproduce(cells, dataset_folder("bluebirds").parent).cells()
    assert found["mv", "bluebirds"] == pytest.approx(24.07, abs=0.005)
    assert found["ds-em", "temp"] == pytest.approx(5.84, abs=0.005)


def test_every_mixed_cell_has_settings_that_its_methods_take() -> None:
    assert set(shipped()) == {cell for cell in paper_table() if cell.completer != "none"}
    for cell, (options, _) in shipped().items():
        build(Settings("paper", cell.completer, cell.aggregator, options=options))


@pytest.mark.parametrize("aggregator", ["mv", "ds-em", "ds-mf"])
@pytest.mark.parametrize("name", ["bluebirds", "temp"])
def test_shipped_settings_give_the_figure_they_are_shipped_with(name: str, aggregator: str) -> None:
    cell = Cell(name, "tucker", aggregator)
    options, expected = shipped()[cell]
    found = errors(read_dataset(dataset_folder(name)), [method_of(cell, options)])
    error = found[cell.method]
    one_item = 100 / {"bluebirds": 108, "temp": 462}[name]  # another LAPACK may turn one round
    assert error == pytest.approx(expected, abs=1.01 * one_item)
