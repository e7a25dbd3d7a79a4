"""`relayvm bench overhead`: what the machine itself costs, in nanoseconds, beside named peers."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relayvm.base.diagnostics import error
from relayvm.cli.options import add_command, positive, writing

if TYPE_CHECKING:
    from relayvm.cli.bench.overhead import Row
    from relayvm.cli.bench.overhead_peers import Peer
    from relayvm.cli.bench.overhead_report import Result

_ENGINES = {"interpreter": ("interpreter",), "jit": ("jit",), "both": ("interpreter", "jit")}
_FEWEST_ROUNDS = 3


def add_command_to(kinds: Any) -> None:
    """Add the benchmark of this file to those of `relayvm bench`."""
    overhead = add_command(kinds, "overhead", "instructions, calls, matches, allocations, in ns")
    overhead.add_argument(
        "--engine", choices=tuple(_ENGINES), default="both", help="what runs (default: both)"
    )
    overhead.add_argument(
        "--only", default="", metavar="TEXT", help="rows with this text in their names"
    )
    overhead.add_argument(
        "--rounds",
        type=positive,
        default=15,
        metavar="N",
        help="slopes of which the median counts (default: 15)",
    )
    overhead.add_argument(
        "--milliseconds",
        type=positive,
        default=8,
        metavar="MS",
        help="about the time of a long run (default: 8)",
    )
    overhead.add_argument(
        "--no-peers",
        action="store_true",
        help="leave out the other systems that are installed",
    )
    overhead.add_argument(
        "--rows", type=Path, metavar="FOLDER", help="programs to measure (default: the sources')"
    )
    overhead.add_argument(
        "--output", type=Path, metavar="FILE.json", help="write the results as JSON"
    )
    overhead.add_argument(
        "--plot", type=Path, metavar="FILE.svg", help="write the results as a picture"
    )
    overhead.set_defaults(run=run_overhead)


def run_overhead(options: argparse.Namespace) -> int:
    """Measure all rows and print a line for each as it is done."""
    from relayvm.cli.bench import overhead
    from relayvm.cli.bench.overhead_peers import peers
    from relayvm.cli.bench.overhead_report import to_json, to_svg

    if options.rounds < _FEWEST_ROUNDS:
        raise error("bad-option", f"`--rounds` is {options.rounds}, fewer than {_FEWEST_ROUNDS}")
    for path in (options.output, options.plot):
        if path is not None:
            with writing(path):
                path.open("a").close()  # what cannot be written is told before, not after
    rows = overhead.read_rows(options.rows or overhead.FOLDER, options.only)
    others = [] if options.no_peers else peers()
    results = []
    for result in _results(rows, others, options):
        results.append(result)
        print(_line(result), flush=True)
    missing = {peer.name: peer.missing for peer in others if peer.missing}
    for name, reason in missing.items():
        print(f"note: {name} is left out: {reason}", file=sys.stderr)
    versions = {peer.name: peer.version for peer in others if not peer.missing}
    if options.output is not None:
        with writing(options.output):
            options.output.write_text(to_json(results, missing, versions), encoding="utf-8")
    if options.plot is not None:
        with writing(options.plot):
            options.plot.write_text(to_svg(results), encoding="utf-8")
    return 0


def _results(rows: list[Row], others: list[Peer], options: argparse.Namespace) -> Iterator[Result]:
    from relayvm.cli.bench import overhead
    from relayvm.cli.bench.overhead_report import Result
    from relayvm.cli.bench.slopes import lengths, slope

    seconds, engines = options.milliseconds / 1000, _ENGINES[options.engine]
    measurement = overhead.Measurement(options.rounds, seconds)
    print(f"{'ns':>9} {'95% interval':>19} {'alone':>8}  {'row':22} {'system':14} what")
    for row in rows:
        for found in measurement.measure(row, engines):
            yield Result(row.name, row.kind, row.what, found.engine, found.slope, found.alone)
        for peer in others:
            if row.name in peer.rows:
                run = peer.rows[row.name]
                short, long = lengths(run, seconds, peer.most)
                time = slope(run, short, long, options.rounds, long - short)
                yield Result(row.name, row.kind, row.what, peer.name, time)


def _line(result: Result) -> str:
    from relayvm.cli.bench.overhead_report import number

    slope = result.slope
    interval = f"[{number(slope.low)}, {number(slope.high)}]"
    alone = "" if result.alone is None else number(result.alone)
    return (
        f"{number(slope.ns):>9} {interval:>19} {alone:>8}  "
        f"{result.row:22} {result.system:14} {result.what}"
    )
