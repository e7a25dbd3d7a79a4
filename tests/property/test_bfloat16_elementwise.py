"""Every elementwise operator in bfloat16, compiled, is its kernel in float32, rounded by ml_dtypes.

All elements there are for one operand, and pairs of special and random ones for two.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import relayvm
from relayvm.base.dtypes import BFLOAT16, FLOAT32, DType
from relayvm.compiler.infer_types import infer_types
from relayvm.ir.expr import Attrs, Call, Function, Var
from relayvm.ir.module import Module
from relayvm.ir.types import TensorType
from relayvm.ops import OPS, Fusion
from relayvm.ops.operator import Operator

KIND = np.dtype(ml_dtypes.bfloat16)
EVERY = np.arange(1 << 16, dtype=np.uint16).view(KIND)
# 0, 1, 2.5, the ends and neighbours of normal and denormal numbers, infinity, NaN; and negative.
SPECIAL = np.array(
    [0, 0x3F80, 0x4020, 1, 0x7F, 0x80, 0x7F7F, 0x7F80, 0x7FC0, 0x3F81, 0x4300], np.uint16
)
# What ml_dtypes has of its own. It computes in float32 and rounds once.
OWN = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "negative": np.negative,
    "abs": np.abs,
    "sqrt": np.sqrt,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "less": np.less,
    "equal": np.equal,
    "greater_equal": np.greater_equal,
    "isnan": np.isnan,
    "isfinite": np.isfinite,
}
ATTRS = {"clip": {"a_min": -1.25, "a_max": 3.0}, "nn.leaky_relu": {"alpha": 0.125}}


def takes_it(op: Operator) -> bool:
    """Tell whether an operator maps elements of bfloat16 by their values alone."""
    if op.fusion not in (Fusion.ELEMENTWISE, Fusion.BROADCAST) or op.name.endswith("_like"):
        return False
    if op.attributes and op.name not in ATTRS:
        return False
    return bool(op.constrained_operands) and all(
        BFLOAT16 in operand.constraint.dtypes for operand in op.constrained_operands
    )


NAMES = {
    arity: sorted(
        name for name, op in OPS.items() if takes_it(op) and len(op.constrained_operands) == arity
    )
    for arity in (1, 2)
}


def pairs() -> list[np.ndarray]:
    special = np.concatenate([SPECIAL, SPECIAL | 0x8000])
    a, b = (m.reshape(-1) for m in np.meshgrid(special, special))
    rng = np.random.default_rng(16)
    random = rng.integers(0, 1 << 16, (2, 20_000)).astype(np.uint16)
    near = (random[0] + rng.integers(-260, 260, random[0].shape)).astype(np.uint16)
    return [
        np.concatenate(parts).view(KIND) for parts in ((a, *random, random[0]), (b, *random, near))
    ]


@pytest.fixture(scope="module", params=[1, 2])
def compiled(request: pytest.FixtureRequest) -> tuple[int, Any, list[np.ndarray]]:
    """Return a machine with each operator of so many operands in both dtypes, and operands."""
    arity: int = request.param
    args = [EVERY] if arity == 1 else pairs()
    functions = {}
    for name in NAMES[arity]:
        for dtype in (BFLOAT16, FLOAT32):
            params = tuple(Var(f"x{i}", TensorType(a.shape, dtype)) for i, a in enumerate(args))
            body = Call(OPS[name], params, Attrs(ATTRS.get(name, {})))
            functions[entry_of(name, dtype)] = Function(params, body)
    machine = relayvm.VirtualMachine(relayvm.compile(infer_types(Module(functions))))
    return arity, machine, args


def entry_of(name: str, dtype: DType) -> str:
    return f"{name.replace('.', '_')}_{dtype}"


def same_bits(given: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Tell where elements are the same; all NaNs are one."""
    if wanted.dtype != KIND:
        return given == wanted
    both = np.isnan(given.astype(np.float32)) & np.isnan(wanted.astype(np.float32))
    return (given.view(np.uint16) == wanted.view(np.uint16)) | both


def check(name: str, given: np.ndarray, wanted: np.ndarray, args: list[np.ndarray]) -> None:
    assert given.dtype == wanted.dtype, name
    wrong = np.flatnonzero(~same_bits(given, wanted))[:5]
    told = [([float(a[i]) for a in args], given[i], wanted[i]) for i in wrong]
    assert not told, f"{name}: {told}"


@pytest.mark.slow
def test_they_are_those_of_float32_rounded_once(compiled: Any) -> None:
    arity, machine, args = compiled
    assert len(NAMES[arity]) > 15
    with np.errstate(all="ignore"):
        wide = [a.astype(np.float32) for a in args]
        for name in NAMES[arity]:
            given = machine.invoke(entry_of(name, BFLOAT16), *args)
            whole = machine.invoke(entry_of(name, FLOAT32), *wide)
            wanted = whole.astype(KIND) if whole.dtype == np.float32 else whole
            check(name, given, wanted, args)


@pytest.mark.slow
def test_they_are_those_of_ml_dtypes_where_it_has_them(compiled: Any) -> None:
    arity, machine, args = compiled
    with np.errstate(all="ignore"):
        for name in set(NAMES[arity]) & set(OWN):
            check(name, machine.invoke(entry_of(name, BFLOAT16), *args), OWN[name](*args), args)
