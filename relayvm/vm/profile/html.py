"""A profile as a page that needs nothing else: a flame graph and tables that sort by any column.

Names come from programs, so all text is escaped, and the page's policy forbids it to load anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from relayvm.vm.profile.text import Cell, Table

if TYPE_CHECKING:
    from relayvm.vm.profile.model import CallNode, Profile

_TEMPLATE = Path(__file__).with_name("report.html")
# Narrower frames would not be seen, even enlarged.
_LEAST_SHARE = 0.0002
_ROW_PIXELS = 22
_KERNEL, _FUNCTION, _HOST = "kernel", "function", "host"


def page(profile: Profile) -> str:
    """Return the report of a profile."""
    frames = list(_frames(profile))
    depth = 1 + max((frame.depth for frame in frames), default=0)
    parts = {
        "TITLE": escape(f"@{profile.entry}"),
        "SUMMARY": _summary(profile),
        "HEIGHT": str(depth * _ROW_PIXELS),
        "FRAMES": "\n".join(frame.html() for frame in frames),
        "TABLES": "\n".join(_table(table) for table in profile.tables()),
    }
    pieces = _TEMPLATE.read_text(encoding="utf-8").split("@@")
    return "".join(parts[piece] if i % 2 else piece for i, piece in enumerate(pieces))


def _summary(profile: Profile) -> str:
    kernels = profile.kernel_time_ns
    share = 100 * kernels / profile.time_ns if profile.time_ns else 0.0
    facts = {
        "time": f"{profile.time_ns / 1000:,.1f} µs",
        "in kernels": f"{share:.1f} %",
        "kernel calls": f"{profile.kernel_calls:,}",
        "steps": f"{profile.steps:,}",
        "engine": profile.engine,
        "memory at most": f"{profile.peak_bytes:,} bytes",
    }
    return "\n".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>"
        for name, value in facts.items()
        if value
    )


# --- flame graph ---------------------------------------------------------------------------------


class _Frame:
    """A box: where it begins and how wide it is, as shares of the whole, and how deep it lies."""

    def __init__(
        self, node: CallNode, begin: float, width: float, depth: int, share: float
    ) -> None:
        self.node, self.begin, self.width = node, begin, width
        self.depth, self.share = depth, share

    def html(self) -> str:
        """Return it as an element."""
        node = self.node
        kind = _KERNEL if node.is_kernel else _HOST if node.parent < 0 else _FUNCTION
        calls = f"{node.calls:,} call" + ("" if node.calls == 1 else "s")
        about = f"{node.name}: {node.total_ns / 1000:,.1f} µs, {100 * self.share:.1f} %, {calls}"
        if not node.is_kernel:
            about += f", {node.self_ns / 1000:,.1f} µs of its own"
        style = f"left:{100 * self.begin:.4f}%;width:{100 * self.width:.4f}%"
        return (
            f'<button class="frame {kind}" style="{style};top:{self.depth * _ROW_PIXELS}px" '
            f'data-begin="{self.begin:.6f}" data-width="{self.width:.6f}" '
            f'data-depth="{self.depth}" title="{escape(about)}">{escape(node.name)}</button>'
        )


def _frames(profile: Profile) -> Iterator[_Frame]:
    """Return the boxes of the tree of calls from the host down, the widest callee first."""
    nodes = profile.calls
    if not nodes or nodes[0].total_ns <= 0:
        return
    whole = nodes[0].total_ns
    callees: dict[int, list[int]] = {}
    for i, node in enumerate(nodes[1:], 1):
        callees.setdefault(node.parent, []).append(i)
    waiting = [(0, 0.0, 0)]
    while waiting:
        i, begin, depth = waiting.pop()
        share = nodes[i].total_ns / whole
        yield _Frame(nodes[i], begin, share, depth, share)
        for callee in sorted(callees.get(i, []), key=lambda c: -nodes[c].total_ns):
            width = nodes[callee].total_ns / whole
            if width >= _LEAST_SHARE:
                waiting.append((callee, begin, depth + 1))
                begin += width


# --- tables --------------------------------------------------------------------------------------


def _table(table: Table) -> str:
    if not table.rows and not table.sums:
        return ""
    last = len(table.columns) - 1
    heads = "".join(
        f'<th scope="col" aria-sort="none"{_class(i, last)}><button>{escape(name)}</button></th>'
        for i, name in enumerate(table.columns)
    )
    body = "\n".join(_row(row) for row in table.rows)
    foot = "\n".join(_row(row) for row in table.sums)
    note = f'<p class="note">{escape(table.note)}</p>' if table.note else ""
    return (
        f"<section><h2>{escape(table.title)}</h2>\n{note}\n"
        f'<div class="scroll"><table><thead><tr>{heads}</tr></thead>\n'
        f"<tbody>\n{body}\n</tbody>\n<tfoot>\n{foot}\n</tfoot></table></div></section>"
    )


def _row(row: tuple[Cell, ...]) -> str:
    last = len(row) - 1
    return "<tr>" + "".join(_cell(cell, i, last) for i, cell in enumerate(row)) + "</tr>"


def _cell(cell: Cell, i: int, last: int) -> str:
    if i == last:
        return f'<th scope="row" class="name">{escape(cell.text)}</th>'
    value = "" if cell.value is None else f' data-value="{cell.value!r}"'
    return f"<td{_class(i, last)}{value}>{escape(cell.text)}</td>"


def _class(i: int, last: int) -> str:
    return ' class="name"' if i == last else ' class="number"'
