"""Single operators beside numpy and PyTorch, one thread.

Times are medians of calls, and the least of the kernels alone: a call from Python also copies the
result to an array of its own.
"""

from __future__ import annotations

import ctypes
import importlib.util
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import relayvm
from relayvm.base.diagnostics import RelayError
from relayvm.base.dtypes import FLOAT32, INT32, dtype_of
from relayvm.base.shapes import ShapeError
from relayvm.cli.bench.operator_rows import ROWS, Row, Size, sizes
from relayvm.cli.bench.timing import alternating_seconds, kernel_seconds
from relayvm.ir.expr import Call, Constant, Expr, Tuple, Var
from relayvm.ir.type_printer import print_type
from relayvm.ir.types import TensorType
from relayvm.ops import OPS
from relayvm.ops.operator import Fusion, Operator

ELEMENTS, LARGE_ELEMENTS = 1 << 16, 1 << 20
NAMES = "abcdefgh"
# Options of `mallopt`.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
# What operators are tried with that no row names: the same shape for each operand.
SHAPES: tuple[tuple[Size, ...], ...] = (("side", "side"), (1, 64, "image", 32), ("all",))


@dataclass(frozen=True, slots=True)
class Measured:
    """Times in seconds: the kernels alone, and a call of each; None where PyTorch has none."""

    row: Row
    elements: int
    kernel: float
    call: float
    numpy: float
    torch: float | None


def rows(pattern: str = "") -> Iterator[Row]:
    """Yield the calls to measure, of operators whose name has `pattern` in it."""
    named = {row.operator for row in ROWS}
    for row in ROWS:
        if pattern in row.operator:
            yield row
    for op in OPS.values():
        if op.name not in named and pattern in op.name:
            made = _made_up(op)
            if made is not None:
                yield made


def _made_up(op: Operator) -> Row | None:
    """Return a call of an operator with default attributes, or None where its rule takes none."""
    is_wide = op.fusion in (Fusion.CONTRACTION, Fusion.OPAQUE) or op.is_data_dependent
    if is_wide or op.has_effect or not op.operands:
        return None
    if any(o.constraint.is_tuple for o in op.constrained_operands):
        return None
    known = sizes(ELEMENTS)
    for dtype, shape in itertools.product((FLOAT32, INT32, dtype_of("bool")), SHAPES):
        given = tuple(known[d] if isinstance(d, str) else d for d in shape)
        types = [TensorType(given, dtype)] * len(op.operands)
        try:
            op.result_type(types, {})
        except ShapeError:
            continue
        names = ", ".join(f"%{name}" for name, _ in zip(NAMES, types))
        return Row(op.name, f"{op.name}({names})", ((dtype.name, shape),) * len(types))
    return None


def measure(row: Row, elements: int) -> Measured | None:
    """Return the times of a call, or None where its operands mean nothing or no kernel runs."""
    rng = np.random.default_rng(0)
    known = sizes(elements)
    values = [_array(rng, kind, shape, known) for kind, shape in row.operands]
    try:
        vm, meaning = _compiled(row, values, known)
        kernel = kernel_seconds(lambda: vm.run(*values), lambda: vm.profile(*values))
    except RelayError:
        return None
    if not kernel:
        return None
    calls: list[Callable[[], Any]] = [lambda: vm.run(*values), meaning]
    peer = _torch_call(row, values)
    if peer is not None:
        calls.append(peer)
    call, numpy, *torch = alternating_seconds(calls)
    return Measured(row, elements, kernel, call, numpy, torch[0] if torch else None)


def keep_memory() -> None:
    """Let the allocator keep what is freed: results of calls are then not the price of new pages.

    All peers take their memory from it. Where it has no such option nothing happens.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, 1 << 30)
        mallopt(_TRIM_THRESHOLD, 1 << 30)


def _array(
    rng: np.random.Generator, kind: str, shape: tuple[Size, ...], known: dict[str, int]
) -> np.ndarray:
    extents = tuple(known[d] if isinstance(d, str) else d for d in shape)
    name, _, bound = kind.partition(":")
    dtype = dtype_of(name)
    if dtype.is_float:
        return dtype.array(rng.random(extents) + 0.25)
    most = known.get(bound) or int(bound or (2 if dtype.is_bool else 100))
    return rng.integers(0 if bound or dtype.is_bool else 1, most, extents).astype(dtype.numpy)


def _compiled(
    row: Row, values: list[np.ndarray], known: dict[str, int]
) -> tuple[relayvm.VirtualMachine, Callable[[], Any]]:
    """Return a machine for a call, and numpy's way to compute it."""
    params = ", ".join(
        f"%{name}: {print_type(TensorType(v.shape, dtype_of(v.dtype)))}"
        for name, v in zip(NAMES, values)
    )
    text = row.text.replace("{all}", str(known["all"]))
    module = relayvm.parse(f"def @main({params}) {{ {text} }}")
    vm = relayvm.VirtualMachine(relayvm.compile(module), num_threads=1)
    body, held = module["main"].body, dict(zip(NAMES, values))
    return vm, lambda: _value(body, held)


def _value(arg: Expr, held: dict[str, np.ndarray]) -> Any:
    match arg:
        case Var(name):
            return held[name]
        case Constant(data):
            return data
        case Tuple(fields):
            return tuple(_value(field, held) for field in fields)
        case Call(Operator() as op, args, attrs):
            return op.evaluate([_value(a, held) for a in args], attrs)
        case _:
            raise AssertionError(f"an operand is written as {arg}")


def _torch_call(row: Row, values: list[np.ndarray]) -> Callable[[], Any] | None:
    """Return PyTorch's call on the same arrays, or None where it has none."""
    if row.peer is None or importlib.util.find_spec("torch") is None:
        return None
    import torch

    torch.set_num_threads(1)
    peer, tensors = row.peer, [torch.from_numpy(v) for v in values]
    return lambda: peer(torch, *tensors)
