"""Operators whose shape is a tensor, with that tensor as an attribute where it is a constant."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from relayvm.base.dims import Dim, never_negative
from relayvm.base.dtypes import number_of
from relayvm.base.narrow.arrays import readable
from relayvm.compiler.rewriting import CallRule, Site, rewrite_calls
from relayvm.compiler.rewriting.build import attrs_of, call, constant, is_static, tensor
from relayvm.compiler.transforms.known_sizes import LARGEST_SHAPE, OPERATORS, KnownSizes
from relayvm.ir.expr import Call, Constant, Expr, Function, Tuple
from relayvm.ir.module import Module
from relayvm.ir.types import TensorType
from relayvm.ir.visit import post_order
from relayvm.ops import OPS
from relayvm.ops.operator import Fusion, Operator


def dynamic_to_static(module: Module) -> Module:
    """Write what constants and sizes decide as attributes.

    `dyn.reshape(%x, meta[relay.Constant][0])` -> `reshape(%x, newshape=[3, 2])`. Shapes that types
    tell, and arithmetic on them, count as constants; of those with symbols, `shape_of(%x)` of a
    `Tensor[(n, 4), float32]` in the place of a shape becomes `[n, 4]`.
    """
    if not any(uses_shapes(f) for f in module.functions.values()):
        return module
    known = KnownSizes()

    def note(node: Call, site: Site) -> None:
        known.note(node, site)

    rules = [CallRule(f"static {name}", name, _static) for name in _STATIC]
    rules += [
        CallRule(f"sized {name}", name, lambda node, site: _sized(node, site, known))
        for name in _SIZED
    ]
    rules += [CallRule("shape_of", "shape_of", _known_shape)]
    rules += [CallRule("ndarray_size", "ndarray_size", _known_size)]
    rules += [CallRule("fold", name, _folded) for name in _SHAPE_ARITHMETIC]
    rules += [CallRule("note", name, note) for name in OPERATORS]
    return rewrite_calls(module, rules, refines=True)


def uses_shapes(function: Function) -> bool:
    """Tell whether there is anything to do: most programs have no such operators."""
    return any(
        isinstance(node, Call) and isinstance(node.op, Operator) and node.op.name in _BEGINNINGS
        for node in post_order(function)
    )


# Operators of programs that compute shapes.
_SHAPE_ARITHMETIC = tuple(
    row.name
    for row in OPS.values()
    if row.name in ("take", "concatenate", "strided_slice", "where", "prod", "stack", "gather")
    or row.fusion in (Fusion.ELEMENTWISE, Fusion.BROADCAST)
)


def _known_shape(node: Call, site: Site) -> Expr | None:
    kind = node.args[0].checked_type
    if not is_static(kind) or not site.is_pure(node.args[0]):
        return None
    return constant(tensor(node.args[0]).shape, tensor(node).dtype)


def _known_size(node: Call, site: Site) -> Expr | None:
    kind = node.args[0].checked_type
    if not is_static(kind) or not site.is_pure(node.args[0]):
        return None
    size = np.prod(np.array(tensor(node.args[0]).shape, np.int64))
    return constant(size, tensor(node).dtype)


def _folded(node: Call, site: Site) -> Expr | None:
    """Return what arithmetic on small constants gives: it computes shapes."""
    assert isinstance(node.op, Operator)
    values = [_value(arg, site) for arg in node.args]
    kind = node.checked_type
    if not values or any(v is None for v in values) or not isinstance(kind, TensorType):
        return None
    if not kind.dtype.is_integer and not kind.dtype.is_bool:
        return None
    data = node.op.evaluate(values, node.attrs)
    if not isinstance(data, np.ndarray) or data.size > LARGEST_SHAPE:
        return None
    exact = TensorType(data.shape, kind.dtype)
    return Constant(data, span=node.span, checked_type=exact)


def _value(expr: Expr, site: Site) -> np.ndarray | tuple[np.ndarray, ...] | None:
    """Return the value of a small constant or of a tuple of some."""
    found = site.definition(expr)
    if isinstance(found, Tuple):
        parts = [site.definition(part) for part in found.fields]
        arrays = [part.data for part in parts if isinstance(part, Constant)]
        small = all(data.size <= LARGEST_SHAPE for data in arrays)
        return tuple(arrays) if small and len(arrays) == len(parts) else None
    if isinstance(found, Constant) and found.data.size <= LARGEST_SHAPE:
        return found.data if found.data.dtype.kind in "iub" else None
    return None


def _ints(expr: Expr) -> tuple[int, ...]:
    assert isinstance(expr, Constant)
    return tuple(int(v) for v in expr.data.reshape(-1))


def _one(expr: Expr) -> int:
    (value,) = _ints(expr)
    return value


def _number(expr: Expr) -> float:
    assert isinstance(expr, Constant)
    return float(number_of(expr.data.reshape(())))


def _floats(expr: Expr) -> tuple[float, ...]:
    assert isinstance(expr, Constant)
    return tuple(float(v) for v in readable(expr.data).reshape(-1))


def _pairs(expr: Expr) -> tuple[tuple[int, ...], ...]:
    assert isinstance(expr, Constant)
    return tuple(tuple(int(v) for v in row) for row in expr.data)


# For each operator: how many operands stay, and the attributes that the others become.
_STATIC: dict[str, tuple[int, Sequence[tuple[str, Callable[[Expr], Any]]]]] = {
    "dyn.broadcast_to": (1, [("shape", _ints)]),
    "dyn.expand_dims": (1, [("axis", _one)]),
    "dyn.full": (1, [("shape", _ints)]),
    "dyn.image.resize2d": (1, [("size", _ints), ("roi", _floats)]),
    "dyn.nn.pad": (1, [("pad_width", _pairs)]),
    "dyn.nn.upsampling": (1, [("scale_h", _number), ("scale_w", _number)]),
    "dyn.nn.upsampling3d": (
        1,
        [("scale_d", _number), ("scale_h", _number), ("scale_w", _number)],
    ),
    "dyn.one_hot": (3, [("depth", _one)]),
    "dyn.ones": (0, [("shape", _ints)]),
    "dyn.reshape": (1, [("newshape", _ints)]),
    "dyn.sparse_to_dense": (3, [("output_shape", _ints)]),
    "dyn.squeeze": (1, [("axis", _ints)]),
    "dyn.strided_slice": (1, [("begin", _ints), ("end", _ints), ("strides", _ints)]),
    "dyn.tile": (1, [("reps", _ints)]),
    "dyn.topk": (1, [("k", _one)]),
    "dyn.zeros": (0, [("shape", _ints)]),
}


# For each operator that may have symbolic sizes as an attribute: how many operands stay, and the
# attribute.
_SIZED: dict[str, tuple[int, str]] = {
    "dyn.broadcast_to": (1, "shape"),
    "dyn.full": (1, "shape"),
    "dyn.ones": (0, "shape"),
    "dyn.reshape": (1, "newshape"),
    "dyn.zeros": (0, "shape"),
}


def _sized(node: Call, site: Site, known: KnownSizes) -> Expr | None:
    """Return a call with sizes of other tensors as an attribute."""
    name = node.op.name  # type: ignore[attr-defined]
    kept, attribute = _SIZED[name]
    dims = known.of(node.args[kept], site)
    if dims is None or not all(isinstance(d, int) or never_negative(d) for d in dims):
        return None
    attrs = attrs_of(node)
    if name == "dyn.reshape" and not attrs["allowzero"] and not _are_sizes(dims, node):
        return None
    attrs[attribute] = dims
    return call(name.removeprefix("dyn."), node.args[:kept], node.span, **attrs)


def _are_sizes(dims: Sequence[Dim], node: Call) -> bool:
    """Tell whether a 0 among the sizes means the same as a size and as "that of the operand".

    It does where that is the size, and where no other size can be 0.
    """
    shape = tensor(node.args[0]).shape
    others = [
        d
        for i, d in enumerate(dims)
        if not isinstance(d, int) and not (i < len(shape) and shape[i] == d)
    ]
    return len(others) <= 1


_BEGINNINGS = frozenset({*_STATIC, "ndarray_size", "shape_of"})


def _static(node: Call, site: Site) -> Expr | None:
    name = node.op.name  # type: ignore[attr-defined]
    kept, rows = _STATIC[name]
    operands = [site.definition(arg) for arg in node.args]
    args = list(node.args[:kept])
    if name == "dyn.nn.pad":
        args.append(node.args[2])
    values = operands[kept : kept + len(rows)]
    if not all(isinstance(v, Constant) for v in values):
        return None
    attrs = attrs_of(node)
    attrs.update((attr, read(value)) for (attr, read), value in zip(rows, values))
    return call(name.removeprefix("dyn."), args, node.span, **attrs)
