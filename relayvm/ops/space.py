"""Operators that move elements between axes of space, channels and batch."""

from __future__ import annotations

from typing import Any

import numpy as np

from relayvm.base.diagnostics import quantity
from relayvm.base.dims import Dim, dim_add, dim_floordiv, dim_mod, dim_mul, dim_sub
from relayvm.base.shapes import ShapeError, require_equal
from relayvm.ir.types import TensorType
from relayvm.kernels import compute as te
from relayvm.kernels.compute import ScalarExpr, Tensor
from relayvm.ops.axes import product, require_axis, require_least, require_rank
from relayvm.ops.layouts import Layout, data_layout
from relayvm.ops.loads import Index
from relayvm.ops.numeric import Array
from relayvm.ops.operator import Fusion, operator
from relayvm.ops.padding import require_element, te_number, te_value
from relayvm.ops.schema import AnyTensor, Dims, Ints, Numeric, Pairs, SameDtype
from relayvm.ops.windows import both, require_natural


@operator("nn.batch_flatten", fusion=Fusion.INJECTIVE)
def batch_flatten(data: AnyTensor) -> TensorType:
    """`data` as a matrix: all axes but the first joined.

    >>> %x = float32 [[[1, 2], [3, 4]]]
    >>> nn.batch_flatten(%x)
    [[1, 2, 3, 4]]
    """
    require_rank(data, 1, 99, "`data` of `nn.batch_flatten`")
    return TensorType((data.shape[0], product(data.shape[1:])), data.dtype)


@batch_flatten.numpy
def _(data: Array) -> Array:
    return data.reshape(data.shape[0], int(np.prod(data.shape[1:])))


@batch_flatten.compute
def _(data: Tensor) -> Tensor:
    def element(n: ScalarExpr, flat: ScalarExpr) -> ScalarExpr:
        places: list[ScalarExpr] = []
        for axis in range(data.rank - 1, 0, -1):
            size = data.shape[axis]
            places.insert(0, flat if axis == 1 else flat % te.dim(size))
            flat = flat // te.dim(size) if axis > 1 else flat
        at: Index = (n, *places)
        return data[at]

    return te.compute((data.shape[0], product(data.shape[1:])), element, "batch_flatten")


# -- Depth ----------------------------------------------------------------------------------------


def _checked(name: str, data: TensorType, block: int, layout: str, mode: str) -> Layout:
    if mode not in ("DCR", "CRD"):
        message = f'`mode` of `{name}` must be "DCR" or "CRD", got "{mode}"'
        raise ShapeError(message, "bad-attribute")
    require_least(name, "block_size", block)
    read = data_layout(layout, 2, f"`layout` of `{name}`")
    require_rank(data, 4, 4, f"`data` of `{name}`")
    return read


def _require_multiple(size: Dim, of: int, what: str) -> Dim:
    require_equal(dim_mod(size, of), 0, f"{what} modulo {of}, and 0,")
    return dim_floordiv(size, of)


@operator("nn.depth_to_space", fusion=Fusion.INJECTIVE)
def depth_to_space(
    data: AnyTensor, *, block_size: int = 1, layout: str = "NCHW", mode: str = "DCR"
) -> TensorType:
    """Blocks of `block_size` by `block_size` made of channels.

    A channel of `data` is, from the outside in, the place in the block and the channel of the
    result (`mode="DCR"`), or the other way round ("CRD").

    >>> %x = float32 [[[[1]], [[2]], [[3]], [[4]]]]
    >>> nn.depth_to_space(%x, block_size=2)
    [[[[1, 2], [3, 4]]]]
    """
    read = _checked("nn.depth_to_space", data, block_size, layout, mode)
    n, c, h, w = read.canonical(data.shape)
    depth = _require_multiple(c, block_size**2, "channels of `nn.depth_to_space`")
    shape = (n, depth, dim_mul(h, block_size), dim_mul(w, block_size))
    return TensorType(read.arranged(shape), data.dtype)


@depth_to_space.numpy
def _(data: Array, *, block_size: int, layout: str, mode: str) -> Array:
    read = data_layout(layout, 2, "`layout`")
    n, c, h, w = read.canonical(data.shape)
    b, depth = block_size, c // block_size**2
    x = data.transpose(read.places)
    if mode == "DCR":
        x = x.reshape(n, b, b, depth, h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        x = x.reshape(n, depth, b, b, h, w).transpose(0, 1, 4, 2, 5, 3)
    return np.asarray(x.reshape(n, depth, h * b, w * b).transpose(read.arranged((0, 1, 2, 3))))


@depth_to_space.compute
def _(data: Tensor, *, block_size: int, layout: str, mode: str) -> Tensor:
    read = data_layout(layout, 2, "`layout`")
    n, c, h, w = read.canonical(data.shape)
    b = block_size
    depth = dim_floordiv(c, b * b)

    def element(*i: ScalarExpr) -> ScalarExpr:
        batch, channel, y, x = read.canonical(i)
        place = (y % b) * b + x % b
        if mode == "DCR":
            source = place * te.dim(depth) + channel
        else:
            source = channel * (b * b) + place
        return data[read.arranged((batch, source, y // b, x // b))]

    shape = read.arranged((n, depth, dim_mul(h, b), dim_mul(w, b)))
    return te.compute(shape, element, "depth_to_space")


@operator("nn.space_to_depth", fusion=Fusion.INJECTIVE)
def space_to_depth(
    data: AnyTensor, *, block_size: int = 1, layout: str = "NCHW", mode: str = "DCR"
) -> TensorType:
    """Channels made of blocks of `block_size` by `block_size`: the inverse of `nn.depth_to_space`.

    >>> %x = float32 [[[[1, 2], [3, 4]]]]
    >>> nn.space_to_depth(%x, block_size=2)
    [[[[1]], [[2]], [[3]], [[4]]]]
    """
    read = _checked("nn.space_to_depth", data, block_size, layout, mode)
    n, c, h, w = read.canonical(data.shape)
    rows = _require_multiple(h, block_size, "rows of `nn.space_to_depth`")
    columns = _require_multiple(w, block_size, "columns of `nn.space_to_depth`")
    shape = (n, dim_mul(c, block_size**2), rows, columns)
    return TensorType(read.arranged(shape), data.dtype)


@space_to_depth.numpy
def _(data: Array, *, block_size: int, layout: str, mode: str) -> Array:
    read = data_layout(layout, 2, "`layout`")
    n, c, h, w = read.canonical(data.shape)
    b = block_size
    x = data.transpose(read.places).reshape(n, c, h // b, b, w // b, b)
    x = x.transpose((0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4))
    return np.asarray(
        x.reshape(n, c * b * b, h // b, w // b).transpose(read.arranged((0, 1, 2, 3)))
    )


@space_to_depth.compute
def _(data: Tensor, *, block_size: int, layout: str, mode: str) -> Tensor:
    read = data_layout(layout, 2, "`layout`")
    n, c, h, w = read.canonical(data.shape)
    b = block_size

    def element(*i: ScalarExpr) -> ScalarExpr:
        batch, channel, y, x = read.canonical(i)
        if mode == "DCR":
            place, source = channel // te.dim(c), channel % te.dim(c)
        else:
            place, source = channel % (b * b), channel // (b * b)
        return data[read.arranged((batch, source, y * b + place // b, x * b + place % b))]

    shape = read.arranged((n, dim_mul(c, b * b), dim_floordiv(h, b), dim_floordiv(w, b)))
    return te.compute(shape, element, "space_to_depth")


# -- Batch ----------------------------------------------------------------------------------------


def _blocks(name: str, data: TensorType, block_shape: Ints, pads: Pairs, attribute: str) -> int:
    """Return the number of elements of a block, its attributes checked."""
    count = len(block_shape)
    require_rank(data, count + 1, 99, f"`data` of `{name}`")
    if min(block_shape, default=1) < 1:
        message = f"`block_shape` of `{name}` must be at least 1, got {list(block_shape)}"
        raise ShapeError(message, "bad-attribute")
    if len(pads) != count or any(min(pair) < 0 for pair in pads):
        pairs = quantity(count, "pair")
        wanted = f"`{attribute}` of `{name}` must have {pairs} of numbers of at least 0"
        raise ShapeError(f"{wanted}, got {[list(p) for p in pads]}", "bad-attribute")
    return int(np.prod(block_shape))


@operator("nn.space_to_batch_nd", fusion=Fusion.INJECTIVE)
def space_to_batch_nd(
    data: Numeric, *, block_shape: Ints = (1, 1), paddings: Pairs, pad_value: float = 0.0
) -> TensorType:
    """Blocks of the axes after the first, padded by `paddings`, made elements of the batch.

    Element i of the batch of the result is, from the outside in, the place in the block and the
    element of the batch of `data`.

    >>> %x = float32 [[1, 2, 3]]
    >>> nn.space_to_batch_nd(%x, block_shape=[2], paddings=[[0, 1]])
    [[1, 3], [2, 0]]
    """
    name = "nn.space_to_batch_nd"
    count = _blocks(name, data, block_shape, paddings, "paddings")
    require_element(name, "pad_value", pad_value, data.dtype)
    return TensorType(_batched(data.shape, count, block_shape, paddings, True), data.dtype)


def _batched(
    shape: Dims, count: int, block_shape: Ints, paddings: Pairs, checks: bool = False
) -> Dims:
    sizes = []
    for axis, (block, pair) in enumerate(zip(block_shape, paddings), 1):
        padded = dim_add(shape[axis], sum(pair))
        if checks:
            _require_multiple(padded, block, f"padded axis {axis} of `nn.space_to_batch_nd`")
        sizes.append(dim_floordiv(padded, block))
    return (dim_mul(shape[0], count), *sizes, *shape[1 + len(sizes) :])


@space_to_batch_nd.numpy
def _(data: Array, *, block_shape: Ints, paddings: Pairs, pad_value: float) -> Array:
    m = len(block_shape)
    rest = data.shape[1 + m :]
    widths = [(0, 0), *paddings, *((0, 0) for _ in rest)]
    padded = np.pad(data, widths, constant_values=te_value(pad_value, data.dtype))
    sizes = [n // b for n, b in zip(padded.shape[1 : 1 + m], block_shape)]
    split = [part for pair in zip(sizes, block_shape) for part in pair]
    x = padded.reshape(data.shape[0], *split, *rest)
    order = [*range(2, 2 * m + 1, 2), 0, *range(1, 2 * m, 2), *range(2 * m + 1, x.ndim)]
    batch = data.shape[0] * int(np.prod(block_shape))
    return np.asarray(x.transpose(order).reshape(batch, *sizes, *rest))


@space_to_batch_nd.compute
def _(data: Tensor, *, block_shape: Ints, paddings: Pairs, pad_value: float) -> Tensor:
    count = int(np.prod(block_shape))
    fill = te_number(pad_value, data.dtype)

    def element(*i: ScalarExpr) -> ScalarExpr:
        inside: ScalarExpr | None = None
        places, batch = _block_places(i[0], block_shape, data.shape[0])
        for axis, (block, (before, after)) in enumerate(zip(block_shape, paddings), 1):
            place = i[axis] * block + places[axis - 1] - before
            places[axis - 1] = place
            if before or after:
                inside = both(inside, te.in_range(place, data.shape[axis]))
        at: Index = (batch, *places, *i[1 + len(places) :])
        value = data[at]
        return value if inside is None else te.select(inside, value, fill)

    return te.compute(_batched(data.shape, count, block_shape, paddings), element, "to_batch")


def _block_places(
    number: ScalarExpr, block_shape: Ints, batch: Dim
) -> tuple[list[ScalarExpr], ScalarExpr]:
    """Return the place in a block on each axis, and the element of the smaller batch."""
    flat = number // te.dim(batch)
    places: list[ScalarExpr] = []
    for k in range(len(block_shape) - 1, -1, -1):
        places.insert(0, flat % block_shape[k] if k else flat)
        flat = flat // block_shape[k]
    return places, number % te.dim(batch)


@operator("nn.batch_to_space_nd", fusion=Fusion.INJECTIVE)
def batch_to_space_nd(data: AnyTensor, *, block_shape: Ints = (1, 1), crops: Pairs) -> TensorType:
    """Blocks made of elements of the batch, and `crops` elements cut from both ends of each axis:
    the inverse of `nn.space_to_batch_nd`.

    >>> %x = float32 [[1, 3], [2, 0]]
    >>> nn.batch_to_space_nd(%x, block_shape=[2], crops=[[0, 1]])
    [[1, 2, 3]]
    """
    name = "nn.batch_to_space_nd"
    count = _blocks(name, data, block_shape, crops, "crops")
    _require_multiple(data.shape[0], count, f"axis 0 of `{name}`")
    shape = _spaced(data.shape, count, block_shape, crops)
    for axis in range(1, 1 + len(crops)):
        require_natural(shape[axis], f"axis {axis} of the result of `{name}`")
    return TensorType(shape, data.dtype)


def _spaced(shape: Dims, count: int, block_shape: Ints, crops: Pairs) -> Dims:
    sizes = [
        dim_sub(dim_mul(shape[axis], block), sum(pair))
        for axis, (block, pair) in enumerate(zip(block_shape, crops), 1)
    ]
    return (dim_floordiv(shape[0], count), *sizes, *shape[1 + len(sizes) :])


@batch_to_space_nd.numpy
def _(data: Array, *, block_shape: Ints, crops: Pairs) -> Array:
    m = len(block_shape)
    count = int(np.prod(block_shape))
    sizes, rest = data.shape[1 : 1 + m], data.shape[1 + m :]
    x = data.reshape(*block_shape, data.shape[0] // count, *sizes, *rest)
    pairs = [axis for k in range(m) for axis in (m + 1 + k, k)]
    x = x.transpose([m, *pairs, *range(2 * m + 1, x.ndim)])
    x = x.reshape(data.shape[0] // count, *(n * b for n, b in zip(sizes, block_shape)), *rest)
    cut = tuple(slice(b, x.shape[k] - a) for k, (b, a) in enumerate(crops, 1))
    kept: Any = (slice(None), *cut)
    return np.asarray(x[kept])


@batch_to_space_nd.compute
def _(data: Tensor, *, block_shape: Ints, crops: Pairs) -> Tensor:
    count = int(np.prod(block_shape))
    shape = _spaced(data.shape, count, block_shape, crops)

    def element(*i: ScalarExpr) -> ScalarExpr:
        number: ScalarExpr = te.dim(0)
        places = []
        for axis, (block, (before, _)) in enumerate(zip(block_shape, crops), 1):
            place = i[axis] + before if before else i[axis]
            number = number * block + place % block
            places.append(place // block)
        at: Index = (number * te.dim(shape[0]) + i[0], *places, *i[1 + len(places) :])
        return data[at]

    return te.compute(shape, element, "to_space")


# -- Queue ----------------------------------------------------------------------------------------


@operator("nn.fifo_buffer", fusion=Fusion.INJECTIVE)
def fifo_buffer(data: AnyTensor, buffer: SameDtype, *, axis: int = 0) -> TensorType:
    """`buffer` and then `data` along `axis`, less as many elements at the front as `data` has.

    >>> %x = float32 [4]
    >>> %b = float32 [1, 2, 3]
    >>> nn.fifo_buffer(%x, %b)
    [2, 3, 4]
    """
    if data.rank != buffer.rank:
        message = "ranks of `data` and `buffer` of `nn.fifo_buffer` differ"
        raise ShapeError(f"{message}: {data.rank} and {buffer.rank}")
    place = require_axis(axis, data.rank, "`axis` of `nn.fifo_buffer`")
    shape = list(buffer.shape)
    for k, (a, b) in enumerate(zip(data.shape, buffer.shape)):
        if k != place:
            what = f"axis {k} of `data` and `buffer` of `nn.fifo_buffer`"
            shape[k] = require_equal(a, b, what)
    what = f"what axis {place} of `buffer` of `nn.fifo_buffer` has beyond that of `data`"
    require_natural(dim_sub(buffer.shape[place], data.shape[place]), what)
    return TensorType(tuple(shape), data.dtype)


@fifo_buffer.numpy
def _(data: Array, buffer: Array, *, axis: int) -> Array:
    both_parts = np.concatenate((buffer, data), axis=axis)
    kept = range(data.shape[axis], both_parts.shape[axis])
    return np.take(both_parts, kept, axis=axis)


@fifo_buffer.compute
def _(data: Tensor, buffer: Tensor, *, axis: int) -> Tensor:
    place = require_axis(axis, data.rank)
    new = data.shape[place]
    kept = dim_sub(buffer.shape[place], new)

    def at(i: Index, index: ScalarExpr) -> Any:
        return (*i[:place], index, *i[place + 1 :])

    def element(*i: ScalarExpr) -> ScalarExpr:
        k = i[place]
        return te.select(
            k < te.dim(kept), buffer[at(i, k + te.dim(new))], data[at(i, k - te.dim(kept))]
        )

    return te.compute(buffer.shape, element, "fifo_buffer")


OPERATORS = (
    batch_flatten,
    depth_to_space,
    space_to_depth,
    space_to_batch_nd,
    batch_to_space_nd,
    fifo_buffer,
)
