"""`relayvm bench ...`: benchmarks that print a table."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relayvm.cli import operator_commands, overhead_commands
from relayvm.cli.options import add_command, positive

if TYPE_CHECKING:
    from relayvm.cli.bench.kernels import Product


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
    kernels = add_command(kinds, "kernels", "products of matrices of many sizes, beside the floor")
    kernels.add_argument(
        "--grid",
        action="store_true",
        help="all of them: float32 and int8, rows known and not, one and two threads",
    )
    for option, number in (("--size", "the size"), ("--threads", "the number of threads")):
        kernels.add_argument(
            option,
            type=positive,
            action="append",
            metavar="N",
            help=f"only products for which this is {number}; may be given several times",
        )
    kernels.add_argument("--dtype", choices=("float32", "int8"), help="only products of this dtype")
    kernels.add_argument(
        "--rows",
        choices=("static", "symbolic"),
        help="only products whose number of rows is known, or is not",
    )
    kernels.set_defaults(run=run_kernels)
    operator_commands.add_command_to(kinds)
    overhead_commands.add_command_to(kinds)


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
    vm = relayvm.VirtualMachine(treelstm.compile_program(weights), num_threads=1)
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
            row.name,
            f"{row.us_per_token:.2f}",
            f"{row.ratio:.2f}",
            "" if row.max_error is None else f"{row.max_error:.1e}",
        )
    Console().print(table)
    return 0


def run_kernels(options: argparse.Namespace) -> int:
    """Measure products of matrices and print a line for each as it is done."""
    from rich.console import Console
    from rich.progress import track

    from relayvm.cli.bench import kernels

    console = Console()
    products = [p for p in kernels.grid(options.grid) if _is_asked_for(p, options)]
    console.print(
        f"{'rows':>5} {'size':>5} {'dtype':>8} {'rows are':>9} {'threads':>7} {'kernel us':>10} "
        f"{'Gop/s':>7} {'of floor':>8} {'of sweep':>8} {'call us':>10} {'torch / ours':>12}",
        soft_wrap=True,
    )
    for product in track(products, "products", console=console, transient=True):
        row = kernels.measure(product)
        torch = f"{row.torch / row.call:12.2f}" if row.torch is not None else f"{'-':>12}"
        floor, sweep = (_share(time, row.kernel) for time in (row.floor, row.sweep))
        # Of a product without rows, no kernel runs.
        rate = f"{product.operations / row.kernel / 1e9:7.1f}" if row.kernel else f"{'-':>7}"
        console.print(
            f"{product.rows:5} {product.size:5} {product.dtype:>8} "
            f"{'symbolic' if product.symbolic else 'static':>9} {product.threads:7} "
            f"{row.kernel * 1e6:10.2f} {rate} {floor} {sweep} {row.call * 1e6:10.2f} {torch}",
            highlight=False,
            soft_wrap=True,
        )
    return 0


def _share(time: float | None, kernel: float) -> str:
    """Return a time as a part of a kernel's, for a column; `-` where one of them is missing."""
    return f"{time / kernel:8.0%}" if time is not None and kernel else f"{'-':>8}"


def _is_asked_for(product: Product, options: argparse.Namespace) -> bool:
    return (
        (options.size is None or product.size in options.size)
        and (options.threads is None or product.threads in options.threads)
        and options.dtype in (None, product.dtype)
        and options.rows in (None, "symbolic" if product.symbolic else "static")
    )
