"""`relayvm bench ...`: benchmarks that print a table."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from relayvm.cli.options import add_command, positive


def add_commands(commands: Any) -> None:
    """Add the commands of this file to the parser."""
    bench = add_command(commands, "bench", "measure this machine beside named peers")
    kinds = bench.add_subparsers(dest="bench", metavar="BENCHMARK", required=True)
    trees = add_command(kinds, "treelstm", "Tree-LSTM over parse trees, one tree a call")
    trees.add_argument(
        "--trees",
        type=Path,
        required=True,
        metavar="FILE",
        help="binary trees in Penn Treebank brackets, one a line",
    )
    trees.add_argument(
        "--repeat",
        type=positive,
        default=5,
        metavar="N",
        help="passes over them; the median counts (default: 5)",
    )
    trees.add_argument("--limit", type=positive, metavar="N", help="use the first trees only")
    trees.set_defaults(run=run_treelstm)


def run_treelstm(options: argparse.Namespace) -> int:
    """Measure the Tree-LSTM and print microseconds per token."""
    from rich.console import Console
    from rich.progress import Progress
    from rich.table import Table

    import relayvm
    from relayvm.cli.bench import treelstm
    from relayvm.cli.bench.trees import count_tokens, read_trees

    trees = read_trees(options.trees)[: options.limit]
    weights = treelstm.make_weights()
    vm = relayvm.VirtualMachine(treelstm.compile_program(weights))
    with Progress(transient=True) as progress:
        task = progress.add_task("passes over the trees", total=None)
        rows = treelstm.measure(
            trees, vm, weights, repeat=options.repeat, progress=lambda: progress.advance(task)
        )
    table = Table(
        "",
        "us / token",
        "times ours",
        "max |difference| to numpy",
        title=f"Tree-LSTM, {len(trees)} trees, {count_tokens(trees)} tokens, one thread",
    )
    for row in rows:
        table.add_row(
            row.name, f"{row.us_per_token:.2f}", f"{row.ratio:.2f}", f"{row.max_error:.1e}"
        )
    Console().print(table)
    return 0
