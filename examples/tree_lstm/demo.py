"""Run the Tree-LSTM over the bundled parse trees, check it, time it, save it, and run the saved
file.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import relayvm
from relayvm.cli.bench import treelstm
from relayvm.cli.bench.trees import Tree, count_tokens, read_trees, word_vectors

HERE = Path(__file__).parent
TREES = HERE / "trees.txt"
TOLERANCE = 2e-5


def main() -> int:
    """Return 0 if every root agrees with numpy and the saved file gives the same bits."""
    console = Console()
    trees = read_trees(TREES)
    weights = treelstm.make_weights()
    vectors = word_vectors(trees, treelstm.INPUT)
    start = time.perf_counter()
    exe = treelstm.compile_program(weights, HERE / "tree_lstm.relay")
    seconds = time.perf_counter() - start
    console.print(f"compiled tree_lstm.relay in {seconds * 1e3:.0f} ms: {exe}")
    roots = run_all(exe, trees, vectors)
    worst = max(
        float(np.abs(ours - numpys).max())
        for tree, root in zip(trees, roots)
        for ours, numpys in zip(root, treelstm.numpy_encode(tree, vectors, weights))
    )
    console.print(
        f"{len(trees)} trees, {count_tokens(trees)} tokens: "
        f"greatest difference to numpy {worst:.1e}"
    )
    vm = relayvm.VirtualMachine(exe, num_threads=1)
    print_times(console, treelstm.measure(trees, vm, weights))
    same = saved_file_agrees(exe, roots)
    console.print(
        "a second process got the same bits from the saved file" if same else "DIFFERENT BITS"
    )
    return 0 if same and worst <= TOLERANCE else 1


def run_all(
    exe: relayvm.Executable, trees: list[Tree], vectors: dict[str, np.ndarray]
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return hidden and memory state of each root."""
    vm = relayvm.VirtualMachine(exe)
    return [vm.run(treelstm.to_values(exe, tree, vectors)) for tree in trees]


def print_times(console: Console, rows: list[treelstm.Row]) -> None:
    """Print a line for each implementation."""
    table = Table("", "us / token", "times ours")
    for row in rows:
        table.add_row(row.name, f"{row.us_per_token:.1f}", f"{row.ratio:.2f}")
    console.print(table)


def saved_file_agrees(exe: relayvm.Executable, roots: list[tuple[np.ndarray, np.ndarray]]) -> bool:
    """Save the executable, run it in a second process and compare every bit of the roots."""
    with tempfile.TemporaryDirectory() as folder:
        path, result = Path(folder) / "tree_lstm.rvm", Path(folder) / "roots.npy"
        exe.save(path)
        subprocess.run([sys.executable, __file__, str(path), str(result)], check=True)
        return np.load(result).tobytes() == np.array(roots).tobytes()


def run_saved(path: str, result: str) -> None:
    """Load a saved executable, run all trees and write the roots."""
    exe = relayvm.load(path)
    trees = read_trees(TREES)
    np.save(result, np.array(run_all(exe, trees, word_vectors(trees, treelstm.INPUT))))


if __name__ == "__main__":
    if len(sys.argv) == 3:
        run_saved(*sys.argv[1:])
    else:
        sys.exit(main())
