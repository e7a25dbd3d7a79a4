"""The results of `overhead` as JSON and as a picture that needs nothing else."""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from relayvm.cli.bench.slopes import Slope

_COLORS = ("#2f6db3", "#d98324", "#5b8c5a", "#a0529c", "#7a6a58", "#3b9aa5", "#b54848")
_LEFT, _WIDE, _BAR, _GAP, _TOP, _RIGHT = 190, 600, 9, 12, 74, 60


@dataclass(frozen=True, slots=True)
class Result:
    """The time of a row on one system: `alone` is without what its round does besides."""

    row: str
    kind: str
    what: str
    system: str
    slope: Slope
    alone: float | None = None


def to_json(results: Sequence[Result], missing: dict[str, str], versions: dict[str, str]) -> str:
    """Return the results as JSON: nanoseconds with their intervals of 95%."""
    rows: list[dict[str, Any]] = []
    for result in results:
        row = {"row": result.row, "kind": result.kind, "what": result.what}
        slope = result.slope
        rows.append(
            {
                **row,
                "system": result.system,
                "ns": slope.ns,
                "low": slope.low,
                "high": slope.high,
                "alone": result.alone,
            }
        )
    machine = {"machine": platform.machine(), "python": platform.python_version()}
    about = {**machine, "systems": versions, "missing": missing}
    return json.dumps({"about": about, "rows": rows}, indent=1) + "\n"


def to_svg(results: Sequence[Result]) -> str:
    """Return bars on a logarithmic scale, a group a row and a color a system; whiskers are
    intervals.
    """
    systems = list(dict.fromkeys(result.system for result in results))
    colors = {name: _COLORS[i % len(_COLORS)] for i, name in enumerate(systems)}
    groups = list(dict.fromkeys(result.row for result in results))
    values = [max(result.slope.ns, 0.01) for result in results] or [1.0]
    first, last = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    last = max(last, first + 1)

    def x(value: float) -> float:
        share = (math.log10(max(value, 10.0**first)) - first) / (last - first)
        return _LEFT + _WIDE * min(1.0, share)

    parts: list[str] = []
    y = _TOP
    for group in groups:
        mine = [result for result in results if result.row == group]
        middle = y + len(mine) * _BAR / 2 + 4
        parts.append(
            f'<text x="{_LEFT - 8}" y="{middle:.0f}" text-anchor="end"><title>'
            f"{escape(mine[0].what)}</title>{escape(group)}</text>"
        )
        for result in mine:
            parts += _bar(result, x, y, colors[result.system])
            y += _BAR
        y += _GAP
    return "\n".join([*_frame(systems, colors, first, last, x, y), *parts, "</svg>"]) + "\n"


def _bar(result: Result, x: Any, y: float, color: str) -> list[str]:
    slope, left, right = result.slope, x(0), x(result.slope.ns)
    beside = max(right, x(slope.high)) + 5
    title = f"{result.row}, {result.system}: {shown(slope)} ns"
    middle = y + (_BAR - 2) / 2
    return [
        f'<rect x="{left:.1f}" y="{y}" width="{max(1.0, right - left):.1f}" '
        f'height="{_BAR - 2}" fill="{color}"><title>{escape(title)}</title></rect>',
        f'<path class="whisker" d="M{x(slope.low):.1f} {middle:.1f}H{x(slope.high):.1f}"/>',
        f'<text class="value" x="{beside:.1f}" y="{y + _BAR - 1}">{number(slope.ns)}</text>',
    ]


def _frame(
    systems: Sequence[str], colors: dict[str, str], first: int, last: int, x: Any, height: float
) -> list[str]:
    width = _LEFT + _WIDE + _RIGHT
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height + 10}" '
        f'width="{width}" font-family="system-ui, sans-serif" font-size="12">',
        "<style>svg{background:#fcfcfb}text{fill:#1c1c1a}.faint,.value{fill:#5f5f5a}"
        ".value{font-size:9px}.grid{stroke:#d8d8d3}.whisker{stroke:#1c1c1a}"
        "@media(prefers-color-scheme:dark){svg{background:#191a1b}text{fill:#ececea}"
        ".faint,.value{fill:#a6a6a1}.grid{stroke:#3b3d3f}.whisker{stroke:#fff}}</style>",
        '<text x="8" y="20" font-size="15">Nanoseconds each, on a logarithmic scale</text>',
    ]
    at = 8.0
    for name in systems:
        lines.append(f'<rect x="{at:.0f}" y="30" width="11" height="11" fill="{colors[name]}"/>')
        lines.append(f'<text x="{at + 16:.0f}" y="40">{escape(name)}</text>')
        at += 30 + 7 * len(name)
    for power in range(first, last + 1):
        place = x(10.0**power)
        lines.append(f'<path class="grid" d="M{place:.1f} {_TOP - 8}V{height}"/>')
        label = number(10.0**power)
        lines.append(
            f'<text class="faint" x="{place:.1f}" y="{_TOP - 12}" text-anchor="middle">'
            f"{label}</text>"
        )
    return lines


def number(ns: float) -> str:
    """Return a time with about three digits."""
    return f"{ns:,.0f}" if abs(ns) >= 100 else f"{ns:.1f}" if abs(ns) >= 10 else f"{ns:.2f}"


def shown(slope: Slope) -> str:
    """Return a time with its interval."""
    return f"{number(slope.ns)} [{number(slope.low)}, {number(slope.high)}]"
