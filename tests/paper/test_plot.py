"""The picture: well-formed, with every point where its value is."""

from __future__ import annotations

from xml.etree import ElementTree

from misc_cli.paper.plot import Line, Panel, line_chart

SVG = "{http://www.w3.org/2000/svg}"


def test_points_stand_where_their_values_are() -> None:
    flat = Line("pure <&>", "mv", [0.0, 20.0, 40.0], [1.0, 1.0, 0.0], dash="4 2")
    panel = Panel("A & B", [30.0, 40.0, 50.0], [flat], "x", "error, %")
    root = ElementTree.fromstring(line_chart([panel, panel]))
    names = [text.text for text in root.iter(f"{SVG}text")]
    assert names.count("pure <&>") == names.count("A & B") == 2
    points = [(float(c.get("cx", "")), float(c.get("cy", ""))) for c in root.iter(f"{SVG}circle")]
    assert len(points) == 6
    (x0, y0), (x1, y1), (x2, y2) = points[:3]
    assert abs((x1 - x0) - (x2 - x1)) < 0.2  # even steps in x and y
    assert abs((y0 - y1) - (y1 - y2)) < 0.2
    assert y2 < y1 < y0
    drop = points[3][1] - y0  # the second panel is the first moved down
    assert all(abs(points[n + 3][1] - points[n][1] - drop) < 0.2 for n in range(3))
    assert drop > 0


def test_the_legend_is_not_cut_off() -> None:
    names = ["mv", "a method with a long name + completer, rule of thumb"]
    lines = [Line(name, name, [1.0, 2.0], [0.0, 0.0]) for name in names]
    root = ElementTree.fromstring(line_chart([Panel("t", [1.0, 2.0], lines, "x", "y")]))
    (text,) = (text for text in root.iter(f"{SVG}text") if text.text == names[1])
    widest_letters = 0.6 * 13  # DejaVu Sans, wider than Helvetica, at this size
    assert float(text.get("x", "")) + widest_letters * len(names[1]) <= float(root.get("width", ""))
