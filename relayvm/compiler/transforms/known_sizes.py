"""What integer tensors of a program that computes shapes hold: sizes that types tell, as dims."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce

import numpy as np

from relayvm.base.dims import (
    Dim,
    DimExpr,
    dim_add,
    dim_floordiv,
    dim_max,
    dim_min,
    dim_mod,
    dim_mul,
    dim_sub,
    never_negative,
)
from relayvm.compiler.rewriting import Site
from relayvm.compiler.rewriting.build import attrs_of, is_determined, tensor
from relayvm.ir.expr import Call, Constant, Expr, Tuple
from relayvm.ir.types import TensorType
from relayvm.ops.operator import Operator

LARGEST_SHAPE = 64
Dims = tuple[Dim, ...]

# Operators that only move elements: what they do to places tells what they do to dims.
_MOVES = frozenset(
    {
        *("concatenate", "copy", "expand_dims", "gather", "reshape", "reverse", "squeeze"),
        *("stack", "strided_slice", "take", "broadcast_to", "repeat"),
    }
)
_ARITHMETIC: dict[str, Callable[[Dim, Dim], Dim]] = {
    "add": dim_add,
    "subtract": dim_sub,
    "multiply": dim_mul,
    "maximum": dim_max,
    "minimum": dim_min,
    "floor_divide": dim_floordiv,
    "divide": dim_floordiv,
    "floor_mod": dim_mod,
    "mod": dim_mod,
}
_DIVISIONS = ("floor_divide", "divide", "floor_mod", "mod")
OPERATORS = (*sorted(_MOVES), *_ARITHMETIC, "cast", "prod", "shape_of", "ndarray_size")


class KnownSizes:
    """The dims that nodes of one module are known to hold, in row-major order.

    int32 counts as exact, as sizes are in programs that compute them so.
    """

    def __init__(self) -> None:
        # A node is kept with its dims, so that its identity stays its own.
        self._found: dict[int, tuple[Expr, Dims]] = {}

    def of(self, expr: Expr, site: Site) -> Dims | None:
        """Return the elements of an integer tensor, None where they are not known."""
        found = site.definition(expr)
        if isinstance(found, Constant):
            if found.data.size > LARGEST_SHAPE or found.data.dtype.kind not in "iu":
                return None
            return tuple(int(v) for v in found.data.reshape(-1))
        known = self._found.get(id(found))
        return known[1] if known is not None else None

    def note(self, node: Call, site: Site) -> None:
        """Find out what a call gives, of which the operands have been noted."""
        kind = node.checked_type
        if not isinstance(kind, TensorType) or not kind.dtype.is_integer or kind.dtype.bits < 32:
            return
        dims = self._dims(node, site)
        if dims is not None and len(dims) <= LARGEST_SHAPE:
            self._found[id(node)] = (node, dims)

    def _dims(self, node: Call, site: Site) -> Dims | None:
        assert isinstance(node.op, Operator)
        name = node.op.name
        if name in ("shape_of", "ndarray_size"):
            return _shape(node, site)
        if name in _MOVES:
            return self._moved(node, site)
        values = [self.of(arg, site) for arg in node.args]
        if any(v is None for v in values):
            return None
        if name == "cast":
            return values[0]
        if name == "prod":
            one: Dim = 1
            whole = tensor(node).rank == 0
            return (reduce(dim_mul, values[0] or (), one),) if whole else None
        return _arithmetic(node, name, [v for v in values if v is not None])

    def _moved(self, node: Call, site: Site) -> Dims | None:
        """Return what moving gives: the places of elements are moved in their stead."""
        assert isinstance(node.op, Operator)
        held: list[Dim] = []
        operands: list[np.ndarray | tuple[np.ndarray, ...]] = []
        for k, arg in enumerate(node.args):
            found = site.definition(arg)
            if k and isinstance(found, Constant):
                operands.append(found.data)  # indices
                continue
            parts = found.fields if isinstance(found, Tuple) else (arg,)
            places = [self._places(part, held, site) for part in parts]
            if any(p is None for p in places) or k:
                return None
            arrays = tuple(p for p in places if p is not None)
            operands.append(arrays if isinstance(found, Tuple) else arrays[0])
        if any(isinstance(v, DimExpr) for value in node.attrs.values() for v in _parts(value)):
            return None
        try:
            result = node.op.evaluate(operands, node.attrs)
        except IndexError:
            return None
        assert isinstance(result, np.ndarray)
        return tuple(held[i] for i in result.reshape(-1).tolist())

    def _places(self, expr: Expr, held: list[Dim], site: Site) -> np.ndarray | None:
        """Return an array of the places where the elements of a tensor are put in `held`."""
        dims, kind = self.of(expr, site), expr.checked_type
        if dims is None or not isinstance(kind, TensorType):
            return None
        shape = [d for d in kind.shape if isinstance(d, int)]
        if len(shape) != kind.rank or math.prod(shape) != len(dims):
            return None
        begin = len(held)
        held.extend(dims)
        return np.arange(begin, len(held)).reshape(shape)


def _parts(value: object) -> tuple[object, ...]:
    return value if isinstance(value, tuple) else (value,)


def _shape(node: Call, site: Site) -> Dims | None:
    kind = node.args[0].checked_type
    if not isinstance(kind, TensorType) or not is_determined(kind):
        return None
    if not site.is_pure(node.args[0]):
        return None
    if attrs_of(node)["dtype"] not in (None, tensor(node).dtype):
        return None
    one: Dim = 1
    is_shape = isinstance(node.op, Operator) and node.op.name == "shape_of"
    return kind.shape if is_shape else (reduce(dim_mul, kind.shape, one),)


def _arithmetic(node: Call, name: str, values: Sequence[Dims]) -> Dims | None:
    a, b = values
    if len(a) != len(b) and 1 not in (len(a), len(b)):
        return None
    if any(tensor(arg).rank > 1 for arg in node.args):
        return None
    size = max(len(a), len(b)) if a and b else 0
    a, b = (v * size if len(v) == 1 else v for v in (a, b))
    pairs = list(zip(a, b))
    if name in _DIVISIONS and not all(
        never_negative(x) and isinstance(y, int) and y > 0 for x, y in pairs
    ):
        return None
    return tuple(_ARITHMETIC[name](x, y) for x, y in pairs)
