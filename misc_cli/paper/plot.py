"""A line chart with error bars as SVG text: no plotting library for one kind of picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

# Colours that people who see red and green alike can still tell apart (Okabe & Ito 2008).
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
AXES_WIDTH, PANEL_HEIGHT = 570, 360
LEFT, TOP, BOTTOM = 64, 44, 54
# A reader's font may be wider than ours: 8 pixels a letter is more than any usual one takes at 13.
LEGEND_KEY, LETTER = 46, 8


@dataclass(frozen=True)
class Line:
    """One curve: `spread` is drawn as error bars; curves of a `group` share their colour."""

    name: str
    group: str
    y: Sequence[float]
    spread: Sequence[float]
    dash: str = ""


@dataclass(frozen=True)
class Panel:
    """One set of axes; every curve has a value at each of `x`."""

    title: str
    x: Sequence[float]
    lines: Sequence[Line]
    x_label: str
    y_label: str


def line_chart(panels: Sequence[Panel]) -> str:
    """Panels one below the other, the same y axis for all so that they can be compared.

    The axis ends with the points: an error bar that goes on is cut off there.
    """
    top = max(y for panel in panels for line in panel.lines for y in line.y)
    step = next(step for step in (1, 2, 5, 10, 20, 25, 50, 100) if top / step <= 6)
    highest = step * -(-top // step)
    body = [_panel(panel, at * PANEL_HEIGHT, highest, step) for at, panel in enumerate(panels)]
    height = PANEL_HEIGHT * len(panels)
    longest = max(len(line.name) for panel in panels for line in panel.lines)
    width = AXES_WIDTH + LEGEND_KEY + LETTER * longest
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}" font-family="Helvetica, Arial, sans-serif" '
            'font-size="13">',
            f'<rect width="{width}" height="{height}" fill="white"/>',
            *body,
            "</svg>",
            "",
        ]
    )


def _panel(panel: Panel, offset: int, highest: float, step: float) -> str:
    left, right = LEFT, AXES_WIDTH
    top, bottom = offset + TOP, offset + PANEL_HEIGHT - BOTTOM
    low, high = min(panel.x), max(panel.x)
    margin = 0.06 * ((high - low) or 1.0)

    def at_x(value: float) -> float:
        share = (value - low + margin) / (high - low + 2 * margin)
        return round(left + share * (right - left), 1)

    def at_y(value: float) -> float:
        return round(bottom - value / highest * (bottom - top), 1)

    drawn = [_text(left, top - 16, panel.title, weight="bold")]
    for tick in (step * n for n in range(int(highest / step) + 1)):
        y = at_y(tick)
        drawn.append(f'<path d="M{left} {y}H{right}" stroke="#ddd"/>')
        drawn.append(_text(left - 8, y + 4, f"{tick:g}", anchor="end"))
    drawn += [_text(at_x(x), bottom + 18, f"{x:g}", anchor="middle") for x in panel.x]
    drawn.append(f'<path d="M{left} {top}V{bottom}H{right}" fill="none" stroke="#333"/>')
    drawn.append(_text((left + right) / 2, bottom + 40, panel.x_label, anchor="middle"))
    middle = (top + bottom) / 2
    turned = _text(18, middle, panel.y_label, anchor="middle")
    drawn.append(f'<g transform="rotate(-90 18 {middle})">{turned}</g>')
    groups = list(dict.fromkeys(line.group for line in panel.lines))
    for place, line in enumerate(panel.lines):
        colour = COLOURS[groups.index(line.group) % len(COLOURS)]
        dash = f' stroke-dasharray="{line.dash}"' if line.dash else ""
        # side by side, so that error bars at the same x can be told apart
        shift = 5 * (place - (len(panel.lines) - 1) / 2)
        points = [(at_x(x) + shift, y, s) for x, (y, s) in zip(panel.x, _points(line), strict=True)]
        path = "L".join(f"{x:.1f} {at_y(y)}" for x, y, _ in points)
        drawn.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>')
        for x, y, spread in points:
            ends = at_y(max(y - spread, 0.0)), at_y(min(y + spread, highest))
            drawn.append(f'<path d="M{x:.1f} {ends[0]}V{ends[1]}" stroke="{colour}"/>')
            fill = "white" if line.dash else colour
            drawn.append(
                f'<circle cx="{x:.1f}" cy="{at_y(y)}" r="3.5" fill="{fill}" stroke="{colour}"/>'
            )
        key = top + 20 * place + 8
        drawn.append(f'<path d="M{right + 12} {key}h28" stroke="{colour}" stroke-width="2"{dash}/>')
        drawn.append(_text(right + LEGEND_KEY, key + 4, line.name))
    return "\n".join(drawn)


def _points(line: Line) -> list[tuple[float, float]]:
    return list(zip(line.y, line.spread, strict=True))


def _text(x: float, y: float, text: str, anchor: str = "start", weight: str = "normal") -> str:
    style = f'text-anchor="{anchor}" font-weight="{weight}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style} fill="#222">{escape(text)}</text>'
