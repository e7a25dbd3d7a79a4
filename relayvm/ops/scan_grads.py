"""The second gradients of scans: sums and products of what is before each element."""

from __future__ import annotations

from typing import Any

import numpy as np

from relayvm.base.dims import dim_mul
from relayvm.base.dtypes import dtype_of
from relayvm.base.shapes import require_equal
from relayvm.ir.types import TupleType
from relayvm.kernels import compute as te
from relayvm.kernels.compute import Tensor
from relayvm.kernels.schedules.program import Memory, Writer
from relayvm.ops.axes import require_axis, require_rank
from relayvm.ops.lines import from_lines, lines_of
from relayvm.ops.loads import wide
from relayvm.ops.numeric import Array
from relayvm.ops.operator import Fusion, operator
from relayvm.ops.schema import Float, SameDtype

_NAME = "cumprod_grad_grad"


@operator(
    _NAME,
    fusion=Fusion.OPAQUE,
    no_gradient="derivatives of `cumprod` beyond the second are not there",
)
def cumprod_grad_grad(
    change: Float, grad: SameDtype, data: SameDtype, *, axis: int, exclusive: bool = False
) -> TupleType:
    """The gradients of `grad` and of `data` of `cumprod_grad`, where its result has the gradient
    `change`, exact also where elements are 0.

    >>> %u = float32 [1, 0, 0]
    >>> %g = float32 [1, 1, 1]
    >>> %x = float32 [2, 0, 4]
    >>> cumprod_grad_grad(%u, %g, %x, axis=0).1
    [0, 5, 0]
    """
    require_axis(axis, data.rank)
    for what, tensor in (("change", change), ("grad", grad)):
        require_rank(tensor, data.rank, data.rank, f"`{what}` of `{_NAME}`")
        for k, (a, b) in enumerate(zip(tensor.shape, data.shape)):
            require_equal(a, b, f"axis {k} of `{what}` and of `data` of `{_NAME}`")
    return TupleType((grad, data))


# With the products p[i] = p[i - 1] * x[i], and how they change,
#     c[i] = c[i - 1] * x[i] + p[i - 1] * u[i],
# the gradient of `grad` is c, and that of `data` goes back over both recurrences.


@cumprod_grad_grad.numpy
def _(change: Array, grad: Array, data: Array, *, axis: int, exclusive: bool) -> Any:
    kind = wide(dtype_of(data.dtype)).numpy
    u, g, x = (np.moveaxis(a.astype(kind), axis, 0) for a in (change, grad, data))
    products, changes = np.ones_like(x), np.zeros_like(x)
    of_grad, of_data = np.zeros_like(x), np.zeros_like(x)
    p, c = np.ones(x.shape[1:], kind), np.zeros(x.shape[1:], kind)
    for i in range(len(x)):
        products[i], changes[i] = p, c
        c, p = c * x[i] + p * u[i], p * x[i]
        of_grad[i] = changes[i] if exclusive else c
    of_p, of_c = np.zeros_like(p), np.zeros_like(c)
    for i in reversed(range(len(x))):
        of_c = of_c if exclusive else of_c + g[i]
        of_data[i] = of_c * changes[i] + of_p * products[i]
        of_p, of_c = of_p * x[i] + of_c * u[i], of_c * x[i]
        of_c = of_c + g[i] if exclusive else of_c
    return tuple(np.moveaxis(a, 0, axis).astype(data.dtype) for a in (of_grad, of_data))


@cumprod_grad_grad.compute
def _(change: Tensor, grad: Tensor, data: Tensor, *, axis: int, exclusive: bool) -> Any:
    place, total = require_axis(axis, data.rank), wide(data.dtype)
    inputs = [lines_of(t, place) for t in (change, grad, data)]
    count, size = shape = inputs[2].shape

    def build(w: Writer, u: Memory, g: Memory, x: Memory, *out: Memory) -> None:
        of_grad, of_data = out
        products, changes = w.scratch(shape, total), w.scratch(shape, total)

        def numbers(i: Any) -> tuple[Any, Any, Any]:
            here = (w.let(te.cast(m[i], total)) for m in (u, g, x))
            return next(here), next(here), next(here)

        one, none = (te.const(1.0, total), None), (te.const(0.0, total), None)
        with w.walk_lines(count, size, one, none) as (line, k, (p, c)):
            moved, _, value = numbers((line, k))
            before, rate = w.let(p.value), w.let(c.value)
            products[line, k] = before
            changes[line, k] = rate
            after = w.let(rate * value + before * moved)
            of_grad[line, k] = rate if exclusive else after
            c.value = after
            p.value = before * value
        with w.walk_lines(count, size, none, none) as (line, back, (p, c)):
            i = te.dim(size) - 1 - back
            moved, slope, value = numbers((line, i))
            of_p = w.let(p.value)
            of_c = w.let(c.value if exclusive else c.value + slope)
            of_data[line, i] = of_c * changes[line, i] + of_p * products[line, i]
            p.value = of_p * value + of_c * moved
            c.value = of_c * value + slope if exclusive else of_c * value

    work = dim_mul(dim_mul(count, size), 12)
    both = te.program([(shape, total)] * 2, inputs, build, work, _NAME)
    wide_results = [from_lines(lines, data.shape, place, _NAME) for lines in both]
    return tuple(
        te.compute(data.shape, lambda *i, t=t: te.cast(t[i], data.dtype), _NAME)
        for t in wide_results
    )


OPERATORS = (cumprod_grad_grad,)
