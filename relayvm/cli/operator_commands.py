"""`relayvm bench operators`: single operators beside numpy, PyTorch and what memory allows."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relayvm.base.diagnostics import error
from relayvm.cli.options import add_command, positive, writing

if TYPE_CHECKING:
    from relayvm.cli.bench.operators import Measured

_COLUMNS = """of memory: the time in which a copy moves the bytes of operands and results, or a
sweep reads the operands of a reduction, over that of the kernel.
A ratio of a peer is its time over ours: above 1 ours is faster."""


def add_command_to(kinds: Any) -> None:
    """Add the benchmark of this file to those of `relayvm bench`."""
    operators = add_command(
        kinds, "operators", "single operators beside numpy and PyTorch", _COLUMNS
    )
    operators.add_argument(
        "--large", action="store_true", help="also operands of 2^20 elements, not only of 2^16"
    )
    operators.add_argument(
        "--only", default="", metavar="TEXT", help="operators with this text in their names"
    )
    operators.add_argument(
        "--part",
        action="append",
        default=[],
        metavar="PART",
        help="a part of the rows, as `elementwise`; may be given several times (default: all)",
    )
    operators.add_argument(
        "--threads",
        type=positive,
        default=1,
        metavar="N",
        help="threads of ours and of PyTorch (default: 1)",
    )
    operators.add_argument(
        "--output", type=Path, metavar="FILE.json", help="write the results as JSON"
    )
    operators.set_defaults(run=run_operators)


def run_operators(options: argparse.Namespace) -> int:
    """Measure single operators and print a line for each as it is done."""
    from rich.console import Console
    from rich.progress import track

    from relayvm.cli.bench import operators

    _check_options(options)
    console = Console()
    operators.keep_memory()
    calls = [
        (part, row, operators.ELEMENTS) for part, row in operators.rows(options.only, options.part)
    ]
    if options.large:
        calls += [(part, row, operators.LARGE_ELEMENTS) for part, row, _ in calls if not row.fixed]
    console.print(_line(*_HEAD), soft_wrap=True, highlight=False)
    results = []
    for part, row, size in track(calls, "operators", console=console, transient=True):
        found = operators.measure(part, row, size, options.threads)
        if found is not None:
            results.append(found)
            console.print(_line(*_cells(found)), highlight=False, soft_wrap=True)
    if options.output is not None:
        with writing(options.output):
            text = json.dumps([_fields(found) for found in results], indent=1)
            options.output.write_text(text + "\n", encoding="utf-8")
    return 0


def _check_options(options: argparse.Namespace) -> None:
    """Raise RelayError `bad-option` for a part that is none, `unwritable-file` for the output."""
    from relayvm.cli.bench.operators import OTHERS
    from relayvm.cli.bench.rows.table import PARTS

    known = (*PARTS, OTHERS)
    for part in options.part:
        if part not in known:
            raise error("bad-option", f"`--part` is `{part}`, parts are {', '.join(known)}")
    if options.output is not None:
        with writing(options.output):
            options.output.open("a").close()  # what cannot be written is told before, not after


_TIMES = ("kernel us", "call us", "of memory", "numpy/kernel", "torch/kernel", "torch/call")
_HEAD = ("elements", "operator", "", *_TIMES)


def _line(*cells: str) -> str:
    size, operator, note, *numbers = cells
    columns = " ".join(f"{n:>{w}}" for n, w in zip(numbers, (10, 10, 9, 12, 12, 10)))
    return f"{size:>8} {operator:36} {note:16} {columns}"


def _cells(found: Measured) -> tuple[str, ...]:
    def ratio(time: float | None, own: float, form: str = ".2f") -> str:
        return format(time / own, form) if time is not None and own else "-"  # no kernel may run

    elements = "" if found.row.fixed else str(found.elements)
    return (
        elements,
        found.row.operator,
        found.row.note,
        f"{found.kernel * 1e6:.2f}",
        f"{found.call * 1e6:.2f}",
        ratio(found.floor, found.kernel, ".0%"),
        ratio(found.numpy, found.kernel),
        ratio(found.torch, found.kernel),
        ratio(found.torch, found.call),
    )


def _fields(found: Measured) -> dict[str, Any]:
    names = ("kernel", "call", "numpy", "torch", "floor")
    times = {f"{name}_seconds": getattr(found, name) for name in names}
    what = {"operator": found.row.operator, "note": found.row.note, "part": found.part}
    return {**what, "elements": found.elements, "text": found.row.text, **times}
