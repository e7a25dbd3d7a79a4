"""Single operators beside numpy, PyTorch and what memory allows, all on the same threads.

Times are medians of calls, and the least of the kernels alone: a call from Python also makes the
arrays of its results.
"""

from __future__ import annotations

import ctypes
import importlib.util
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import relayvm
from relayvm.base.diagnostics import RelayError
from relayvm.base.dtypes import FLOAT32, INT32, dtype_of
from relayvm.base.shapes import ShapeError
from relayvm.cli.bench.machine_rates import copy_rate, read_rate
from relayvm.cli.bench.rows.row import Operand, Row, Size, sizes
from relayvm.cli.bench.rows.table import PARTS
from relayvm.cli.bench.timing import alternating_seconds, kernel_seconds, single_seconds
from relayvm.ir.expr import Call, Constant, Expr, Tuple, TupleGetItem, Var
from relayvm.ir.type_printer import print_type
from relayvm.ir.types import TensorType
from relayvm.ops import OPS
from relayvm.ops.operator import Fusion, Operator

ELEMENTS, LARGE_ELEMENTS = 1 << 16, 1 << 20
NAMES = "abcdefgh"
# Options of `mallopt`.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
# What takes longer than so many seconds is run once.
LONG = 0.1
# The part of operators that no row names.
OTHERS = "others"
# What operators are tried with that no row names: the same shape for each operand.
SHAPES: tuple[tuple[Size, ...], ...] = (("side", "side"), (1, 64, "image", 32), ("all",))


@dataclass(frozen=True, slots=True)
class Measured:
    """Times in seconds: the kernels alone, and a call of each; None where the peer has none.

    `floor` is the time in which memory of the size of operands and results is copied, or operands
    of that size are read where the result is much smaller.
    """

    row: Row
    part: str
    elements: int
    kernel: float
    call: float
    numpy: float
    torch: float | None
    floor: float


def rows(pattern: str = "", parts: Sequence[str] = ()) -> Iterator[tuple[str, Row]]:
    """Yield the calls to measure with the part of each: those of `parts`, or all, of operators
    whose name has `pattern` in it.
    """
    named = {row.operator for part in PARTS.values() for row in part}
    for part, its_rows in PARTS.items():
        if not parts or part in parts:
            yield from ((part, row) for row in its_rows if pattern in row.operator)
    if parts and OTHERS not in parts:
        return
    for op in OPS.values():
        if op.name not in named and pattern in op.name:
            made = _made_up(op)
            if made is not None:
                yield OTHERS, made


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


def text_of(row: Row, known: dict[str, int]) -> str:
    """Return the text of a row's call with sizes in place of their names."""
    text = row.text
    for name, size in known.items():
        text = text.replace(f"{{{name}}}", str(size))
    return text


def measure(part: str, row: Row, elements: int, threads: int = 1) -> Measured | None:
    """Return the times of a call, or None where its operands mean nothing or no kernel runs."""
    rng = np.random.default_rng(0)
    known = sizes(elements)
    values = [_array(rng, operand, known) for operand in row.operands]
    try:
        vm, meaning = _compiled(row, values, known, threads)
        result = vm.run(*values)
        kernel = kernel_seconds(lambda: vm.run(*values), lambda: vm.profile(*values))
    except RelayError:
        return None
    if not kernel:
        return None
    calls: list[Callable[[], Any]] = [lambda: vm.run(*values)]
    peer = _torch_call(row, values, threads)
    if peer is not None:
        calls.append(peer)
    slow = single_seconds(meaning)
    if slow < LONG:
        calls.append(meaning)
    call, *others = alternating_seconds(calls)
    numpy = others.pop() if slow < LONG else slow
    floor = _floor(sum(v.nbytes for v in values), _size_bytes(result))
    return Measured(row, part, elements, kernel, call, numpy, others[0] if others else None, floor)


def _size_bytes(result: Any) -> int:
    if isinstance(result, tuple):
        return sum(map(_size_bytes, result))
    return int(np.asarray(result).nbytes)


def _floor(read_bytes: int, written_bytes: int) -> float:
    """Return the seconds in which so many bytes are read, and so many written, at best."""
    if written_bytes * 8 < read_bytes:
        return read_bytes / read_rate(_power(read_bytes))
    moved = read_bytes + written_bytes
    return moved / copy_rate(_power(moved))


def _power(size_bytes: int) -> int:
    """Return a power of two near a size: rates are measured for these."""
    return max(1 << 12, 1 << (size_bytes * 3 // 2).bit_length() - 1)


def keep_memory() -> None:
    """Let the allocator keep what is freed: results of calls are then not the price of new pages.

    All peers take their memory from it. Where it has no such option nothing happens.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, 1 << 30)
        mallopt(_TRIM_THRESHOLD, 1 << 30)


def _array(rng: np.random.Generator, operand: Operand, known: dict[str, int]) -> np.ndarray:
    if not isinstance(operand, tuple):
        return operand(rng, known)
    kind, shape = operand
    extents = tuple(known[d] if isinstance(d, str) else d for d in shape)
    name, _, bound = kind.partition(":")
    dtype = dtype_of(name)
    if dtype.is_float:
        return dtype.array(rng.random(extents) + 0.25)
    most = known.get(bound) or int(bound or (2 if dtype.is_bool else 100))
    return rng.integers(0 if bound or dtype.is_bool else 1, most, extents).astype(dtype.numpy)


def _compiled(
    row: Row, values: list[np.ndarray], known: dict[str, int], threads: int
) -> tuple[relayvm.VirtualMachine, Callable[[], Any]]:
    """Return a machine for a call, and numpy's way to compute it."""
    params = ", ".join(
        f"%{name}: {print_type(TensorType(v.shape, dtype_of(v.dtype)))}"
        for name, v in zip(NAMES, values)
    )
    module = relayvm.parse(f"def @main({params}) {{ {text_of(row, known)} }}")
    vm = relayvm.VirtualMachine(relayvm.compile(module), num_threads=threads)
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
        case TupleGetItem(tuple_value, index):
            return _value(tuple_value, held)[index]
        case Call(Operator() as op, args, attrs):
            return op.evaluate([_value(a, held) for a in args], attrs)
        case _:
            raise AssertionError(f"an operand is written as {arg}")


def _torch_call(row: Row, values: list[np.ndarray], threads: int) -> Callable[[], Any] | None:
    """Return the peer's call on the same arrays, or None where it has none."""
    if row.peer is None or any(importlib.util.find_spec(name) is None for name in row.needs):
        return None
    import torch

    torch.set_num_threads(threads)
    peer, tensors = row.peer, [torch.from_numpy(v) for v in values]
    return lambda: peer(torch, *tensors)
