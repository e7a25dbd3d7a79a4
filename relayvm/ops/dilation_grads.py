"""The gradients of morphological dilation and its changes: by the first of the greatest sums."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from relayvm.base.dims import Dim, dim_mul
from relayvm.base.dtypes import DType, dtype_of
from relayvm.base.shapes import require_equal
from relayvm.ir.types import TensorType, TupleType
from relayvm.kernels import compute as te
from relayvm.kernels.compute import ScalarExpr, Tensor
from relayvm.kernels.schedules.program import LONG_STEPS, Cell, Memory, Writer
from relayvm.ops.axes import product, require_rank, sizes_of
from relayvm.ops.dilation import dilation2d, dilation_plan, dilation_sizes
from relayvm.ops.dynamic import all_of
from relayvm.ops.layouts import Layout
from relayvm.ops.loads import wide
from relayvm.ops.narrow import steps_of, takes_bfloat16
from relayvm.ops.numeric import Array
from relayvm.ops.operator import Fusion, operator
from relayvm.ops.reshaping import unflattened
from relayvm.ops.schema import Dims, Float, Ints, SameDtype, like
from relayvm.ops.windows import Window

_NAME = "image.dilation2d_grad"


@operator(
    _NAME,
    fusion=Fusion.OPAQUE,
    ulp=1,
)
def dilation2d_grad(
    grad: Float,
    data: SameDtype,
    weight: SameDtype,
    *,
    strides: Ints = (1, 1),
    padding: Ints = (0, 0),
    dilations: Ints = (1, 1),
    data_layout: str = "NCHW",
    kernel_layout: str = "IHW",
    out_dtype: DType | None = None,
) -> TupleType:
    """For each element of both operands of `image.dilation2d` the sum of `grad` over the windows
    whose greatest sum it is part of, the first of them where some are equal.

    >>> %g = float32 [[[[1, 10]]]]
    >>> %x = float32 [[[[1, 5, 2]]]]
    >>> %w = float32 [[[0, 4]]]
    >>> image.dilation2d_grad(%g, %x, %w).0
    [[[[0, 1, 10]]]]
    """
    attrs = locals()
    given = {name: attrs[name] for name in ("strides", "padding", "dilations")}
    given |= {"data_layout": data_layout, "kernel_layout": kernel_layout}
    result = dilation2d.result_type([data, weight], given)
    assert isinstance(result, TensorType)
    require_rank(grad, 4, 4, f"`grad` of `{_NAME}`")
    for axis, (a, b) in enumerate(zip(grad.shape, result.shape)):
        require_equal(a, b, f"axis {axis} of `grad` of `{_NAME}` and of the dilation")
    return TupleType((data, weight))


def _winners(
    x: Array, w: Array, window: Window, step: Any, shape: tuple[int, ...]
) -> Iterator[tuple[Any, Any, Any]]:
    """Yield each place of a dilation with those of the element and the weight that it is of."""
    for n, c, y, z in np.ndindex(*shape):
        best, where = None, None
        for tap in np.ndindex(*w.shape[1:]):
            at = tuple(
                p * s - b + t * d
                for p, s, b, t, d in zip(
                    (y, z), window.strides, window.before, tap, window.dilation
                )
            )
            if not all(0 <= v < size for v, size in zip(at, x.shape[2:])):
                continue
            value = step(x[(n, c) + at] + w[(c,) + tap])
            if best is None or value > best:
                best, where = value, ((n, c, y, z), (n, c, *at), (c, *tap))
        if where is not None:
            yield where


@dataclass(frozen=True, slots=True)
class _Windows:
    """The windows of a dilation in loops; `x` and `w` are sizes of both operands."""

    b: Writer
    plan: tuple[Window, Layout, Layout]
    x: Dims
    w: Dims

    def held(self, place: Any, tap: Any) -> tuple[list[ScalarExpr], ScalarExpr]:
        """Return where an element of a window is, and whether it is there."""
        source = [self.b.let(self.plan[0].place(k, place[k], tap[k])) for k in (0, 1)]
        inside = all_of(*(te.in_range(v, size) for v, size in zip(source, self.x[2:])))
        return [te.index(v, size, "clip") for v, size in zip(source, self.x[2:])], inside

    def greatest(self, data: Memory, weight: Memory, at: tuple[Any, Any, Any]) -> Cell:
        """Return the number of the first of the greatest sums of a window, -1 where it is empty."""
        b, (_, layout, kernel), (image, channel, place) = self.b, self.plan, at
        best, first = b.cell(te.const(0.0, data.dtype)), b.cell(te.const(-1, "int64"))
        with b.loop(0, te.dim(product(self.w[1:]))) as number:
            tap = [b.let(v) for v in unflattened(number, self.w[1:])]
            held, inside = self.held(place, tap)
            element = data[layout.arranged((image, channel, *held))]
            value = b.let(element + weight[kernel.arranged((channel, *tap))])
            better = te.scalar("logical_or", first.value < 0, value > best.value)
            chosen = b.let(te.scalar("logical_and", inside, better))
            first.value = te.select(chosen, number, first.value)
            best.value = te.select(chosen, value, best.value)
        return first

    def of(self, first: Cell, at: tuple[Any, Any, Any]) -> tuple[Any, Any]:
        """Return the places of the element and of the weight with that number."""
        tap = [self.b.let(v) for v in unflattened(first.value, self.w[1:])]
        held = (self.b.let(v) for v in self.held(at[2], tap)[0])
        _, layout, kernel = self.plan
        return layout.arranged((at[0], at[1], *held)), kernel.arranged((at[1], *tap))


@dilation2d_grad.numpy
@takes_bfloat16
@like(dilation2d_grad.rule)
def _(grad: Array, data: Array, weight: Array, **attrs: Any) -> tuple[Array, Array]:
    window, layout, kernel = dilation_plan(attrs)
    numbers, step, _ = steps_of(grad.dtype)
    dtype = dtype_of(grad.dtype)
    total = wide(dtype).numpy
    x, g = (numbers(a).transpose(layout.places) for a in (data, grad))
    w = numbers(weight).transpose(kernel.places)
    of_x, of_w = np.zeros(x.shape, total), np.zeros(w.shape, total)
    for place, at, tap in _winners(x, w, window, step, g.shape):
        of_x[at] += g[place]
        of_w[tap] += g[place]
    return (
        np.asarray(dtype.array(of_x).transpose(layout.arranged((0, 1, 2, 3)))),
        np.asarray(dtype.array(of_w).transpose(kernel.arranged((0, 1, 2)))),
    )


@dilation2d_grad.compute
@like(dilation2d_grad.rule)
def _(grad: Tensor, data: Tensor, weight: Tensor, **attrs: Any) -> tuple[Tensor, Tensor]:
    window, layout, kernel = dilation_plan(attrs)
    x, w = layout.canonical(data.shape), kernel.canonical(weight.shape)
    places = dilation_sizes(window, x, w)
    total, dtype = wide(grad.dtype), grad.dtype

    def build(b: Writer, g: Memory, data: Memory, weight: Memory, *out: Memory) -> None:
        of_data, of_weight = out
        # The sums of a weight come from all images: channels run side by side.
        parts = b.parts(x[1], product(w[1:]))
        with parts as (channel, begin, end), b.loop(begin, end) as flat:
            of_weight[kernel.arranged((channel, *unflattened(flat, w[1:])))] = 0.0
        pixels, windows = (x[0], *x[2:]), (x[0], *places)
        parts = b.parts(x[1], product(pixels))
        with parts as (channel, begin, end), b.loop(begin, end) as flat:
            image, *held = unflattened(flat, pixels)
            of_data[layout.arranged((image, channel, *held))] = 0.0
        with b.walk_lines(x[1], product(windows), block=LONG_STEPS) as (channel, flat, _):
            image, *place = (b.let(v) for v in unflattened(flat, windows))
            spread(b, g, data, weight, out, (image, channel, place))

    def spread(
        b: Writer, g: Memory, data: Memory, weight: Memory, out: Any, at: tuple[Any, Any, Any]
    ) -> None:
        windows = _Windows(b, (window, layout, kernel), x, w)
        first = windows.greatest(data, weight, at)
        with b.when(first.value >= 0):
            (own, tapped), (image, channel, place) = windows.of(first, at), at
            slope = b.let(te.cast(g[layout.arranged((image, channel, *place))], total))
            of_data, of_weight = out
            of_data[own] = of_data[own] + slope
            of_weight[tapped] = of_weight[tapped] + slope

    work = dim_mul(dim_mul(product(grad.shape), product(w[1:])), 8)
    kinds = [(data.shape, total), (weight.shape, total)]
    both = te.program(kinds, [grad, data, weight], build, work, "dilation2d_grad")
    if total is dtype:
        return both[0], both[1]
    narrow = [te.compute(t.shape, lambda *i, t=t: te.cast(t[i], dtype), "narrowed") for t in both]
    return narrow[0], narrow[1]


@dilation2d_grad.reduction_size
@like(dilation2d_grad.rule)
def _(grad: TensorType, data: TensorType, weight: TensorType, **attrs: Any) -> Dim:
    return product(grad.shape)


_CHANGE = "image.dilation2d_change"


@operator(_CHANGE, fusion=Fusion.OPAQUE, ulp=1)
def dilation2d_change(
    of_data: Float,
    of_weight: SameDtype,
    data: SameDtype,
    weight: SameDtype,
    *,
    strides: Ints = (1, 1),
    padding: Ints = (0, 0),
    dilations: Ints = (1, 1),
    data_layout: str = "NCHW",
    kernel_layout: str = "IHW",
) -> TensorType:
    """How `image.dilation2d` changes where both operands change: at each place the changes of the
    greatest sum, of the first where some are equal, and 0 where a window is empty.

    >>> %a = float32 [[[[1, 2, 3]]]]
    >>> %b = float32 [[[10, 20]]]
    >>> %x = float32 [[[[1, 5, 2]]]]
    >>> %w = float32 [[[0, 4]]]
    >>> image.dilation2d_change(%a, %b, %x, %w)
    [[[[22, 23]]]]
    """
    given: dict[str, Any] = {"strides": strides, "padding": padding, "dilations": dilations}
    given |= {"data_layout": data_layout, "kernel_layout": kernel_layout}
    result = dilation2d.result_type([data, weight], given)
    assert isinstance(result, TensorType)
    for name, change, own in (("data", of_data, data), ("weight", of_weight, weight)):
        require_rank(change, own.rank, own.rank, f"`of_{name}` of `{_CHANGE}`")
        for axis, (a, b) in enumerate(zip(change.shape, own.shape)):
            require_equal(a, b, f"axis {axis} of `of_{name}` and of `{name}` of `{_CHANGE}`")
    return result


@dilation2d_change.numpy
@takes_bfloat16
@like(dilation2d_change.rule)
def _(of_data: Array, of_weight: Array, data: Array, weight: Array, **attrs: Any) -> Array:
    window, layout, kernel = dilation_plan(attrs)
    numbers, step, whole = steps_of(data.dtype)
    x, change = (numbers(a).transpose(layout.places) for a in (data, of_data))
    w, moved = (numbers(a).transpose(kernel.places) for a in (weight, of_weight))
    shape = sizes_of(dilation_shape(window, x.shape, w.shape))
    result = np.zeros(shape, x.dtype)
    for place, at, tap in _winners(x, w, window, step, shape):
        result[place] = step(change[at] + moved[tap])
    return np.asarray(whole(result).transpose(layout.arranged((0, 1, 2, 3))))


def dilation_shape(window: Window, x: Dims, w: Dims) -> Dims:
    """Return the shape of a dilation, its channels behind the images."""
    return (*x[:2], *dilation_sizes(window, x, w))


@dilation2d_change.compute
@like(dilation2d_change.rule)
def _(of_data: Tensor, of_weight: Tensor, data: Tensor, weight: Tensor, **attrs: Any) -> Tensor:
    window, layout, kernel = plan = dilation_plan(attrs)
    x, w = layout.canonical(data.shape), kernel.canonical(weight.shape)
    shape = dilation_shape(window, x, w)

    def build(b: Writer, change: Memory, moved: Memory, *memory: Memory) -> None:
        data, weight, out = memory
        windows = _Windows(b, plan, x, w)
        with b.phase(product(shape)) as flat:
            image, channel, *place = (b.let(v) for v in unflattened(flat, shape))
            at = (image, channel, place)
            own = layout.arranged((image, channel, *place))
            out[own] = 0.0
            first = windows.greatest(data, weight, at)
            with b.when(first.value >= 0):
                element, tap = windows.of(first, at)
                out[own] = change[element] + moved[tap]

    work = dim_mul(dim_mul(product(shape), product(w[1:])), 8)
    inputs = [of_data, of_weight, data, weight]
    kinds = [(layout.arranged(shape), data.dtype)]
    return te.program(kinds, inputs, build, work, "dilation2d_change")[0]


OPERATORS = (dilation2d_change, dilation2d_grad)
