"""Files that were read before: what is remembered of them is what reading them again gives."""

from __future__ import annotations

from pathlib import Path

import pytest

from misc_cli.errors import InputError, MiscWarning
from misc_cli.readers import read as reading
from misc_cli.readers.answer_table import ReadResult
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.parse_cache import Memory
from misc_cli.readers.read import read_answer_columns
from misc_cli.readers.source import Source
from misc_cli.state.store import load, outputs, tidy
from misc_cli.writers.output_set import write_all

HEADER = "worker,item,label\n"


def rows(first: int, last: int) -> str:
    lines = (f"w{n % 5},item {n},{'xyz'[n % 3]}\n" for n in range(first, last))
    return "".join(lines)


class Nights:
    """A folder of exports that is read every night, with what the night before left."""

    def __init__(self, folder: Path) -> None:
        self.exports = folder / "exports"
        self.exports.mkdir()
        self.state = folder / "state"
        self.state.mkdir()
        self.parsed: list[str] = []

    def write(self, name: str, text: str) -> None:
        (self.exports / name).write_text(text)

    def read(self, options: ReadOptions | None = None) -> ReadResult:
        """Read twice, with and without a memory; both are the same."""
        stored = load(self.state)
        given = () if stored is None else (stored.about["read"], stored.tables, stored.raw)
        memory = Memory.of(options or ReadOptions(), *given)
        self.parsed.clear()
        found = read_answer_columns([str(self.exports)], options, memory=memory)
        about, tables = memory.leave()
        write_all(outputs(self.state, lambda: {"read": about}, tables))
        tidy(self.state)
        parsed = list(self.parsed)
        plain = read_answer_columns([str(self.exports)], options)
        self.parsed = parsed
        assert found.files == plain.files
        for role in ("worker", "item", "label"):
            ours, theirs = (getattr(one.answers, role).to_pylist() for one in (found, plain))
            assert ours == theirs
        return found


@pytest.fixture
def nights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Nights:
    made = Nights(tmp_path)
    whole = reading.open_answers

    def counting(source: Source, options: ReadOptions) -> reading.Opened:
        made.parsed.append(f"{Path(source.name).name} {len(source.raw)}")
        return whole(source, options)

    monkeypatch.setattr(reading, "open_answers", counting)
    return made


def test_only_new_files_are_parsed(nights: Nights) -> None:
    for night in range(12):
        nights.write(f"day{night:02}.csv", HEADER + rows(9 * night, 9 * night + 9))
        nights.read()
        assert [said.split()[0] for said in nights.parsed] == [f"day{night:02}.csv"]
    assert len(list(nights.state.glob("answers*"))) < 10  # segments, this state's and the last's
    nights.read()
    assert nights.parsed == []
    nights.write("day03.csv", HEADER + rows(400, 420))  # another file by the same name
    (nights.exports / "day05.csv").unlink()
    (nights.exports / "day06.csv").rename(nights.exports / "zz.csv")
    nights.read()
    assert [said.split()[0] for said in nights.parsed] == ["day03.csv"]
    for path in list(nights.exports.glob("day*"))[1:]:
        path.unlink()
    nights.read()  # most rows are of no use any more: they are dropped
    assert nights.parsed == []
    nights.read()
    assert nights.parsed == []


def test_of_a_file_that_grew_only_the_tail_is_parsed(nights: Nights) -> None:
    for last in (20, 29, 40, 47):
        text = '"worker","item","label"\n' + rows(0, last)
        nights.write("all.csv", text)
        nights.read()
    (parsed,) = nights.parsed
    assert int(parsed.split()[1]) < len(text) / 2
    nights.write("all.csv", '"worker","item","label"\n' + rows(1, 60))  # it did not only grow
    nights.read()
    assert len(nights.parsed) == 1


@pytest.mark.parametrize(
    "tail",
    [
        'w1,"item, with a comma",x\n',
        'w1,"item\nof two lines",x\n',
        "w1,item 3,x",
        "\n\nw1,item 3,y\n",
        "w9,item 3,\n",
    ],
)
def test_a_tail_of_any_kind_gives_what_the_whole_file_does(tail: str, nights: Nights) -> None:
    options = ReadOptions(quotes_span_lines=True)
    nights.write("all.csv", HEADER + rows(0, 30))
    nights.read(options)
    nights.write("all.csv", HEADER + rows(0, 30) + tail)
    nights.read(options)
    nights.write("all.csv", HEADER + rows(0, 30) + tail + "\n" + rows(3, 9))
    nights.read(options)


def test_a_tail_that_is_wrong_is_refused_with_its_line_in_the_file(nights: Nights) -> None:
    nights.write("all.csv", HEADER + rows(0, 30))
    nights.read()
    nights.write("all.csv", HEADER + rows(0, 30) + "w1,item 2\n")
    with pytest.raises(InputError, match="line 32"):
        nights.read()


def test_another_way_to_read_remembers_nothing(nights: Nights) -> None:
    nights.write("a.csv", HEADER + rows(0, 30))
    nights.read()
    nights.read(ReadOptions(fold_case=True))
    assert len(nights.parsed) == 1


def test_a_file_that_is_warned_of_is_warned_of_every_night(nights: Nights) -> None:
    nights.write("a.csv", HEADER + rows(0, 30))
    nights.write("b.csv", HEADER)
    options = ReadOptions(skip_empty_files=True)
    for _ in range(2):
        with pytest.warns(MiscWarning, match="left out"):
            nights.read(options)
