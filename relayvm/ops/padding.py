"""Operators that put elements around and between those of a tensor: pads and dilation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from relayvm.base.diagnostics import quantity
from relayvm.base.dims import Dim, dim_add, dim_max, dim_mul, dim_sub
from relayvm.base.dtypes import DType, dtype_of
from relayvm.base.shapes import ShapeError, require_equal
from relayvm.ir.types import TensorType
from relayvm.kernels import compute as te
from relayvm.kernels.compute import ScalarExpr, Tensor
from relayvm.ops import numeric
from relayvm.ops.axes import product, require_rank
from relayvm.ops.loads import load_wide, wide
from relayvm.ops.numeric import Array
from relayvm.ops.operator import Fusion, operator
from relayvm.ops.schema import AnyTensor, Float, Ints, Numeric, Pairs
from relayvm.ops.windows import both, require_natural

# How many elements each mode needs of an axis beyond those it puts beside it; None for none at all.
_NEEDS = {"edge": 1, "symmetric": 0, "reflect": 1}


def require_widths(name: str, widths: Pairs, rank: int) -> Pairs:
    """Return the widths of pads, a pair for each axis; raises ShapeError `bad-attribute`."""
    if len(widths) != rank or any(min(pair) < 0 for pair in widths):
        pairs = quantity(rank, "pair")
        wanted = f"`pad_width` of `{name}` must have {pairs} of numbers of at least 0"
        raise ShapeError(f"{wanted}, got {[list(p) for p in widths]}", "bad-attribute")
    return widths


def _require_room(name: str, shape: tuple[Dim, ...], widths: Pairs, mode: str) -> None:
    """Check that axes have the elements that a mode copies."""
    for axis, (size, pair) in enumerate(zip(shape, widths)):
        if mode == "constant" or max(pair) == 0:
            continue
        least = 1 if mode == "edge" else max(pair) + _NEEDS[mode]
        copied = quantity(least, "element")
        what = f"what axis {axis} of `data` of `{name}` has beyond the {copied} copied"
        require_natural(dim_sub(size, least), what)


def padded_shape(shape: tuple[Dim, ...], widths: Pairs) -> tuple[Dim, ...]:
    """Return the sizes with pads."""
    return tuple(dim_add(size, sum(pair)) for size, pair in zip(shape, widths))


def _source(place: ScalarExpr, size: Dim, before: int, mode: str) -> ScalarExpr:
    """Return which element of an axis stands at a place of the padded axis."""
    index = place - before if before else place
    if mode == "edge":
        return te.index(index, size, "clip")
    # Both ends mirror: -1 - i is i elements before the first, 2 * size - 1 - i behind the last.
    again = 1 if mode == "symmetric" else 0
    last = dim_sub(dim_mul(size, 2), 2 - again)
    high = te.select(index < te.dim(size), index, te.dim(last) - index)
    return te.index(te.select(index < 0, -index - again, high), size, "clip")


# -- nn.pad ---------------------------------------------------------------------------------------


@operator("nn.pad", fusion=Fusion.INJECTIVE)
def pad(
    data: AnyTensor, pad_value: AnyTensor, *, pad_width: Pairs, pad_mode: str = "constant"
) -> TensorType:
    """`data` with `pad_width` elements before and after each axis.

    They are `pad_value` in the dtype of `data`, or with `pad_mode="edge"` the element at the
    border, with "reflect" those mirrored at it.

    >>> %x = float32 [1, 2]
    >>> %v = float32 0
    >>> nn.pad(%x, %v, pad_width=[[1, 2]])
    [0, 1, 2, 0, 0]
    """
    if pad_mode not in ("constant", "edge", "reflect"):
        message = (
            f'`pad_mode` of `nn.pad` must be "constant", "edge" or "reflect", got "{pad_mode}"'
        )
        raise ShapeError(message, "bad-attribute")
    require_rank(pad_value, 0, 0, "`pad_value` of `nn.pad`")
    require_widths("nn.pad", pad_width, data.rank)
    _require_room("nn.pad", data.shape, pad_width, pad_mode)
    return TensorType(padded_shape(data.shape, pad_width), data.dtype)


@pad.infer_operands
def _(
    data: TensorType | None, pad_value: TensorType | None, *, pad_width: Pairs, pad_mode: str
) -> Any:
    return data, TensorType((), data.dtype) if data is not None else pad_value


@pad.numpy
def _(data: Array, pad_value: Array, *, pad_width: Pairs, pad_mode: str) -> Array:
    if not pad_width:
        return data
    if pad_mode == "constant":
        value = numeric.cast(pad_value, dtype_of(data.dtype))
        return np.pad(data, pad_width, constant_values=value)
    return np.pad(data, pad_width, mode=pad_mode)  # type: ignore[call-overload,no-any-return]


@pad.compute
def _(data: Tensor, pad_value: Tensor, *, pad_width: Pairs, pad_mode: str) -> Tensor:
    if pad_mode != "constant":
        return _mirrored(data, pad_width, pad_mode)

    def element(*i: ScalarExpr) -> ScalarExpr:
        inside: ScalarExpr | None = None
        places: list[ScalarExpr] = []
        for place, size, (before, after) in zip(i, data.shape, pad_width):
            index = place - before if before else place
            places.append(index)
            if before or after:
                inside = both(inside, te.in_range(index, size))
        value = data[tuple(places)]
        return (
            value
            if inside is None
            else te.select(inside, value, te.cast(pad_value[()], data.dtype))
        )

    return te.compute(padded_shape(data.shape, pad_width), element, "pad")


def _mirrored(data: Tensor, widths: Pairs, mode: str) -> Tensor:
    def element(*i: ScalarExpr) -> ScalarExpr:
        return data[
            tuple(
                _source(place, size, pair[0], mode) if max(pair) else place
                for place, size, pair in zip(i, data.shape, widths)
            )
        ]

    return te.compute(padded_shape(data.shape, widths), element, "pad")


@operator("nn.mirror_pad", fusion=Fusion.INJECTIVE)
def mirror_pad(data: AnyTensor, *, mode: str = "SYMMETRIC", pad_width: Pairs) -> TensorType:
    """`data` with `pad_width` elements before and after each axis, mirrored at the border.

    With `mode="SYMMETRIC"` the border itself is repeated, with "REFLECT" it is not.

    >>> %x = float32 [1, 2, 3]
    >>> nn.mirror_pad(%x, pad_width=[[2, 1]])
    [2, 1, 1, 2, 3, 3]
    """
    if mode not in ("SYMMETRIC", "REFLECT"):
        message = f'`mode` of `nn.mirror_pad` must be "SYMMETRIC" or "REFLECT", got "{mode}"'
        raise ShapeError(message, "bad-attribute")
    require_widths("nn.mirror_pad", pad_width, data.rank)
    _require_room("nn.mirror_pad", data.shape, pad_width, mode.lower())
    return TensorType(padded_shape(data.shape, pad_width), data.dtype)


@mirror_pad.numpy
def _(data: Array, *, mode: str, pad_width: Pairs) -> Array:
    if not pad_width:
        return data
    return np.pad(data, pad_width, mode=mode.lower())  # type: ignore[call-overload,no-any-return]


@mirror_pad.compute
def _(data: Tensor, *, mode: str, pad_width: Pairs) -> Tensor:
    return _mirrored(data, pad_width, mode.lower())


@operator("nn.pad_grad", fusion=Fusion.REDUCTION)
def pad_grad(
    grad: Float, data: AnyTensor, *, pad_width: Pairs, pad_mode: str = "edge"
) -> TensorType:
    """For each element of `data` the sum of `grad` at all places where a pad has put it.

    `pad_mode` is "edge", "reflect" or "symmetric".

    >>> %g = float32 [1, 10, 100, 1000]
    >>> %x = float32 [0, 0]
    >>> nn.pad_grad(%g, %x, pad_width=[[1, 1]])
    [11, 1100]
    """
    if pad_mode not in _NEEDS:
        listed = ", ".join(f'"{m}"' for m in _NEEDS)
        message = f'`pad_mode` of `nn.pad_grad` must be one of {listed}, got "{pad_mode}"'
        raise ShapeError(message, "bad-attribute")
    require_widths("nn.pad_grad", pad_width, data.rank)
    _require_room("nn.pad_grad", data.shape, pad_width, pad_mode)
    if grad.rank != data.rank:
        raise ShapeError(f"ranks of `grad` and `data` differ: {grad.rank} and {data.rank}")
    for axis, (a, b) in enumerate(zip(grad.shape, padded_shape(data.shape, pad_width))):
        require_equal(a, b, f"axis {axis} of `grad` of `nn.pad_grad` and of the padded `data`")
    return TensorType(data.shape, grad.dtype)


@pad_grad.numpy
def _(grad: Array, data: Array, *, pad_width: Pairs, pad_mode: str) -> Array:
    total = grad.astype(wide(dtype_of(grad.dtype)).numpy)
    for axis, pair in enumerate(pad_width):
        sources = np.pad(np.arange(data.shape[axis]), pair, mode=pad_mode) if max(pair) else None  # type: ignore[call-overload]
        if sources is None:
            continue
        shape = [data.shape[axis] if k == axis else n for k, n in enumerate(total.shape)]
        folded = np.zeros(shape, total.dtype)
        at: Any = (slice(None),) * axis
        np.add.at(folded, (*at, sources), total)
        total = folded
    return np.asarray(total.astype(grad.dtype))


@pad_grad.compute
def _(grad: Tensor, data: Tensor, *, pad_width: Pairs, pad_mode: str) -> Tensor:
    padded = [axis for axis, pair in enumerate(pad_width) if max(pair)]
    extents = tuple(1 + sum(pad_width[axis]) for axis in padded)

    def element(*i: ScalarExpr) -> ScalarExpr:
        def term(*r: ScalarExpr) -> ScalarExpr:
            places, hit = list(i), None
            for axis, number in zip(padded, r):
                before, size = pad_width[axis][0], data.shape[axis]
                # Candidate 0 is the element itself, then come those before and behind it.
                there = te.select(
                    number <= before, number - 1, number - (before + 1) + te.dim(size) + before
                )
                own = number.equal(0)
                source = _source(there, size, before, pad_mode)
                hit = both(hit, te.scalar("logical_or", own, source.equal(i[axis])))
                whole = dim_add(size, sum(pad_width[axis]))
                place = te.select(own, i[axis] + before, there)
                places[axis] = te.index(place, whole, "clip")
            value = load_wide(grad, tuple(places))
            return value if hit is None else te.select(hit, value, 0)

        if not padded:
            return grad[i]
        return te.cast(te.reduce("sum", extents, term), grad.dtype)

    return te.compute(data.shape, element, "pad_grad")


@pad_grad.reduction_size
def _(grad: TensorType, data: TensorType, *, pad_width: Pairs, pad_mode: str) -> Dim:
    return product(1 + sum(pair) for pair in pad_width)


# -- nn.dilate ------------------------------------------------------------------------------------


@operator("nn.dilate", fusion=Fusion.INJECTIVE)
def dilate(data: Numeric, *, strides: Ints = (1, 1), dilation_value: float = 0.0) -> TensorType:
    """`data` with `stride - 1` times `dilation_value` between neighbours of each axis.

    >>> %x = float32 [[1, 2]]
    >>> nn.dilate(%x, strides=[1, 3])
    [[1, 0, 0, 2]]
    """
    if len(strides) != data.rank or min(strides, default=1) < 1:
        wanted = f"`strides` of `nn.dilate` must be {quantity(data.rank, 'number')} of at least 1"
        raise ShapeError(f"{wanted}, got {list(strides)}", "bad-attribute")
    require_element("nn.dilate", "dilation_value", dilation_value, data.dtype)
    return TensorType(_dilated(data.shape, strides), data.dtype)


def _dilated(shape: tuple[Dim, ...], strides: Ints) -> tuple[Dim, ...]:
    return tuple(
        n if s == 1 else dim_max(dim_sub(dim_mul(n, s), s - 1), 0) for n, s in zip(shape, strides)
    )


@dilate.numpy
def _(data: Array, *, strides: Ints, dilation_value: float) -> Array:
    shape = [n if s == 1 else max(n * s - (s - 1), 0) for n, s in zip(data.shape, strides)]
    result = np.full(shape, te_value(dilation_value, data.dtype))
    result[tuple(slice(None, None, s) for s in strides)] = data
    return result


def require_element(name: str, attribute: str, value: float, dtype: DType) -> None:
    """Raise ShapeError unless a number of an attribute can be an element: any one of floats."""
    if dtype.is_integer and not (math.isfinite(value) and dtype.min <= int(value) <= dtype.max):
        message = f"`{attribute}` of `{name}` must be a number of {dtype}, got {value}"
        raise ShapeError(message, "bad-attribute")


def te_value(value: float, dtype: Any) -> Any:
    """Return a number of an attribute as an element: truncated for integers."""
    row = dtype_of(dtype)
    return row.array(value if row.is_float else int(value))[()]


def te_number(value: float, dtype: DType) -> float:
    """Return the same as a Python number."""
    return dtype.nearest(value) if dtype.is_float else int(te_value(value, dtype.numpy))


@dilate.compute
def _(data: Tensor, *, strides: Ints, dilation_value: float) -> Tensor:
    between = te_number(dilation_value, data.dtype)

    def element(*i: ScalarExpr) -> ScalarExpr:
        hit: ScalarExpr | None = None
        places = []
        for place, stride in zip(i, strides):
            places.append(place if stride == 1 else place // stride)
            if stride != 1:
                hit = both(hit, (place % stride).equal(0))
        value = data[tuple(places)]
        return value if hit is None else te.select(hit, value, between)

    return te.compute(_dilated(data.shape, strides), element, "dilate")


OPERATORS = (pad, mirror_pad, pad_grad, dilate)
