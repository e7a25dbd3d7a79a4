"""The binary Tree-LSTM over parse trees: this machine beside numpy and PyTorch, the same
recursion.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from relayvm.cli.bench.machine_rates import read_rate
from relayvm.cli.bench.trees import Node, Tree, count_tokens, post_order, word_vectors

if TYPE_CHECKING:
    from relayvm.vm.executable import Executable
    from relayvm.vm.machine import VirtualMachine

PROGRAM = Path(__file__).parent / "tree_lstm.relay"
INPUT, HIDDEN = 300, 150


@dataclass(frozen=True, slots=True)
class Weights:
    """Gates of a leaf [3 x hidden, input]: i o u; of a node [5 x hidden, 2 x hidden]: i fl fr o
    u.
    """

    leaf_weight: np.ndarray
    leaf_bias: np.ndarray
    node_weight: np.ndarray
    node_bias: np.ndarray

    def named(self) -> dict[str, np.ndarray]:
        """Return the arrays under the names of the program's parameters."""
        return {name: getattr(self, name) for name in self.__slots__}


def make_weights(seed: int = 1) -> Weights:
    """Return seeded weights of the usual size, uniform as in PyTorch's linear layers."""
    rng = np.random.default_rng(seed)

    def uniform(*shape: int) -> np.ndarray:
        bound = 1 / np.sqrt(shape[-1])
        return rng.uniform(-bound, bound, shape).astype(np.float32)

    return Weights(
        uniform(3 * HIDDEN, INPUT),
        uniform(3 * HIDDEN),
        uniform(5 * HIDDEN, 2 * HIDDEN),
        uniform(5 * HIDDEN),
    )


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return np.asarray(1 / (1 + np.exp(-x)))


def numpy_encode(tree: Tree, vectors: dict[str, np.ndarray], w: Weights) -> tuple[Any, Any]:
    """Return hidden and memory state [1, hidden] of the root, computed with numpy."""
    stack: list[tuple[np.ndarray, np.ndarray]] = []
    for node in post_order(tree):
        if isinstance(node, Node):
            (hl, cl), (hr, cr) = stack[-2:]
            del stack[-2:]
            gates = np.concatenate((hl, hr), axis=1) @ w.node_weight.T + w.node_bias
            i, fl, fr, o, u = np.split(gates, 5, axis=1)
            c = _sigmoid(i) * np.tanh(u) + _sigmoid(fl) * cl + _sigmoid(fr) * cr
        else:
            i, o, u = np.split(vectors[node] @ w.leaf_weight.T + w.leaf_bias, 3, axis=1)
            c = _sigmoid(i) * np.tanh(u)
        stack.append((_sigmoid(o) * np.tanh(c), c))
    return stack[0]


class TorchModel:
    """The same model in PyTorch eager, as people write it: modules and a recursive forward."""

    def __init__(self, w: Weights, vectors: dict[str, np.ndarray]) -> None:
        import torch

        self.torch = torch
        self.leaf = self._linear(w.leaf_weight, w.leaf_bias)
        self.node = self._linear(w.node_weight, w.node_bias)
        self.vectors = {token: torch.from_numpy(v) for token, v in vectors.items()}

    def _linear(self, weight: np.ndarray, bias: np.ndarray) -> Any:
        layer = self.torch.nn.Linear(weight.shape[1], weight.shape[0])
        with self.torch.no_grad():
            layer.weight.copy_(self.torch.from_numpy(weight))
            layer.bias.copy_(self.torch.from_numpy(bias))
        return layer

    def __call__(self, tree: Tree) -> tuple[Any, Any]:
        """Return hidden and memory state of the root."""
        with self.torch.inference_mode():
            return self._encode(tree)

    def _encode(self, tree: Tree) -> tuple[Any, Any]:
        torch = self.torch
        if isinstance(tree, Node):
            (hl, cl), (hr, cr) = self._encode(tree.left), self._encode(tree.right)
            gates = self.node(torch.cat((hl, hr), dim=1))
            i, fl, fr, o, u = gates.chunk(5, dim=1)
            c = torch.sigmoid(i) * torch.tanh(u)
            c = c + torch.sigmoid(fl) * cl + torch.sigmoid(fr) * cr
        else:
            i, o, u = self.leaf(self.vectors[tree]).chunk(3, dim=1)
            c = torch.sigmoid(i) * torch.tanh(u)
        return torch.sigmoid(o) * torch.tanh(c), c


def to_values(exe: Executable, tree: Tree, vectors: dict[str, np.ndarray]) -> Any:
    """Return a tree as a value of the program's data type."""
    make = exe.adt("Tree")
    stack: list[Any] = []
    for node in post_order(tree):
        if isinstance(node, Node):
            right, left = stack.pop(), stack.pop()
            stack.append(make.Node(left, right))
        else:
            stack.append(make.Leaf(vectors[node]))
    return stack[0]


def compile_program(weights: Weights, path: Path = PROGRAM) -> Executable:
    """Return the executable of the program, with the weights as constants."""
    import relayvm

    return relayvm.compile(relayvm.parse(path), params=weights.named())


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the result: microseconds per token, and how many times slower than ours.

    `max_error` is None where nothing is computed.
    """

    name: str
    us_per_token: float
    ratio: float
    max_error: float | None


def read_sweep_us(trees: Sequence[Tree], w: Weights) -> float:
    """Return the microseconds per token that reading alone takes: of all weights of a leaf for
    each leaf, and of a node for each node, at the rate of sweeps over as many bytes.
    """
    tokens = count_tokens(trees)
    nodes = tokens - len(trees)  # of a binary tree
    leaf, node = w.leaf_weight.nbytes, w.node_weight.nbytes
    rate = read_rate(leaf + node)
    return (tokens * leaf + nodes * node) / rate / tokens * 1e6


def measure(
    trees: Sequence[Tree],
    vm: VirtualMachine,
    weights: Weights,
    *,
    repeat: int = 5,
    progress: Callable[[], None] = lambda: None,
) -> list[Row]:
    """Return a row for this machine, numpy, and PyTorch where it is installed, on one thread, and
    one for reading the weights alone.

    All run one tree a call over all trees, in alternation; the median of `repeat` passes counts.
    The error is the greatest difference of a root's states to numpy's. `progress` is called after
    each pass.
    """
    vectors = word_vectors(trees, INPUT)
    values = [to_values(vm.executable, tree, vectors) for tree in trees]
    runs: dict[str, Callable[[], list[Any]]] = {
        "relayvm": lambda: [vm.run(value) for value in values],
        "numpy": lambda: [numpy_encode(tree, vectors, weights) for tree in trees],
    }
    torch = _torch()
    if torch is not None:
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        model = TorchModel(weights, vectors)
        runs["pytorch"] = lambda: [model(tree) for tree in trees]
    times: dict[str, list[float]] = {name: [] for name in runs}
    roots: dict[str, list[Any]] = {}
    for _ in range(repeat):
        for name, run in runs.items():
            start = time.perf_counter()
            roots[name] = run()
            times[name].append(time.perf_counter() - start)
            progress()
    if torch is not None:
        torch.set_num_threads(threads)
    tokens = count_tokens(trees)
    own = float(np.median(times["relayvm"]))
    sweep = read_sweep_us(trees, weights)
    rows = [
        Row(
            name,
            float(np.median(times[name])) / tokens * 1e6,
            float(np.median(times[name])) / own,
            _max_error(roots[name], roots["numpy"]),
        )
        for name in runs
    ]
    return [*rows, Row("read sweep", sweep, sweep * tokens / own / 1e6, None)]


def _max_error(roots: list[Any], expected: list[Any]) -> float:
    return max(
        float(np.abs(np.asarray(a) - np.asarray(b)).max())
        for root, wanted in zip(roots, expected)
        for a, b in zip(root, wanted)
    )


def _torch() -> Any:
    try:
        import torch
    except ImportError:
        return None
    return torch
