"""The gradients of morphological dilation: a slope belongs to the first of the greatest sums."""

from __future__ import annotations

from typing import Any

import numpy as np

from relayvm.base.dims import Dim, dim_mul
from relayvm.base.dtypes import DType, dtype_of
from relayvm.base.shapes import require_equal
from relayvm.ir.types import TensorType, TupleType
from relayvm.kernels import compute as te
from relayvm.kernels.compute import ScalarExpr, Tensor
from relayvm.kernels.schedules.program import Memory, Writer
from relayvm.ops.axes import product, require_rank
from relayvm.ops.dilation import dilation2d, dilation_plan, dilation_sizes
from relayvm.ops.dynamic import all_of
from relayvm.ops.loads import wide
from relayvm.ops.narrow import steps_of, takes_bfloat16
from relayvm.ops.numeric import Array
from relayvm.ops.operator import Fusion, operator
from relayvm.ops.reshaping import unflattened
from relayvm.ops.schema import Float, Ints, SameDtype, like

_NAME = "image.dilation2d_grad"


@operator(
    _NAME,
    fusion=Fusion.OPAQUE,
    ulp=1,
    no_gradient="only the first derivative of `image.dilation2d` is there",
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
    taps = list(np.ndindex(*w.shape[1:]))
    for n, c, y, z in np.ndindex(*g.shape):
        best, where = None, None
        for tap in taps:
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
                best, where = value, (at, tap)
        if where is not None:
            of_x[(n, c) + where[0]] += g[n, c, y, z]
            of_w[(c,) + where[1]] += g[n, c, y, z]
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
        with b.phase(x[1]) as channel:
            with b.loop(0, te.dim(product(w[1:]))) as flat:
                of_weight[kernel.arranged((channel, *unflattened(flat, w[1:])))] = 0.0
            with b.loop(0, te.dim(x[0])) as image:
                with b.loop(0, te.dim(product(x[2:]))) as flat:
                    of_data[layout.arranged((image, channel, *unflattened(flat, x[2:])))] = 0.0
                with b.loop(0, te.dim(product(places))) as flat:
                    place = [b.let(v) for v in unflattened(flat, places)]
                    spread(b, g, data, weight, out, (image, channel, place))

    def spread(
        b: Writer, g: Memory, data: Memory, weight: Memory, out: Any, at: tuple[Any, Any, Any]
    ) -> None:
        image, channel, place = at
        best, first = b.cell(te.const(0.0, dtype)), b.cell(te.const(-1, "int64"))
        with b.loop(0, te.dim(product(w[1:]))) as number:
            tap = [b.let(v) for v in unflattened(number, w[1:])]
            source = [b.let(window.place(k, place[k], tap[k])) for k in (0, 1)]
            inside = all_of(*(te.in_range(v, size) for v, size in zip(source, x[2:])))
            value = b.let(read(data, weight, (image, channel), source, tap))
            none = first.value < 0
            better = te.scalar("logical_or", none, value > best.value)
            chosen = b.let(te.scalar("logical_and", inside, better))
            first.value = te.select(chosen, number, first.value)
            best.value = te.select(chosen, value, best.value)
        with b.when(first.value >= 0):
            tap = [b.let(v) for v in unflattened(first.value, w[1:])]
            source = held([window.place(k, place[k], tap[k]) for k in (0, 1)])
            slope = b.let(te.cast(g[layout.arranged((image, channel, *place))], total))
            of_data, of_weight = out
            own = layout.arranged((image, channel, *(b.let(v) for v in source)))
            of_data[own] = of_data[own] + slope
            tapped = kernel.arranged((channel, *tap))
            of_weight[tapped] = of_weight[tapped] + slope

    def held(source: Any) -> list[ScalarExpr]:
        return [te.index(v, size, "clip") for v, size in zip(source, x[2:])]

    def read(data: Memory, weight: Memory, line: Any, source: Any, tap: Any) -> ScalarExpr:
        value = data[layout.arranged((*line, *held(source)))]
        return value + weight[kernel.arranged((line[1], *tap))]

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


OPERATORS = (dilation2d_grad,)
