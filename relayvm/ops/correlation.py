"""Correlation of two images over displacements, as optical flow networks use it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from relayvm.base.dims import Dim, dim_add, dim_floordiv, dim_mul
from relayvm.base.dtypes import DType, dtype_of
from relayvm.base.shapes import ShapeError, require_equal
from relayvm.ir.types import TensorType
from relayvm.kernels import compute as te
from relayvm.kernels.compute import ScalarExpr, Tensor
from relayvm.ops import numeric
from relayvm.ops.axes import require_rank
from relayvm.ops.loads import load_wide, wide
from relayvm.ops.numeric import Array
from relayvm.ops.operator import Fusion, operator
from relayvm.ops.schema import Float, Ints, SameDtype, like
from relayvm.ops.windows import both, read_window, require_natural

_NAME = "nn.correlation"


@dataclass(frozen=True, slots=True)
class _Plan:
    """A correlation: windows of `kernel` taps every `stride` elements, `radius` displacements of
    `step` elements to each side.
    """

    kernel: int
    stride: int
    step: int
    radius: int
    begin: int
    before: Ints
    after: Ints
    multiplies: bool

    @property
    def width(self) -> int:
        """How many displacements there are on one axis."""
        return 2 * self.radius + 1

    def size(self, axis: int, extent: Dim) -> Dim:
        """Return how many windows there are on an axis of space."""
        border = self.kernel // 2 + self.begin
        room = dim_add(extent, self.before[axis] + self.after[axis] - 2 * border)
        windows = dim_floordiv(dim_add(room, self.stride - 1), self.stride)
        return require_natural(windows, f"axis {axis} of space of the result of `{_NAME}`")

    def result(self, shape: tuple[Dim, ...]) -> tuple[Dim, ...]:
        """Return the shape of the result for data of a shape."""
        return (shape[0], self.width**2, self.size(0, shape[2]), self.size(1, shape[3]))


def _plan(attrs: Any) -> _Plan:
    kernel, reach = attrs["kernel_size"], attrs["max_displacement"]
    steps = (attrs["stride1"], attrs["stride2"])
    if kernel < 1 or kernel % 2 == 0:
        message = f"`kernel_size` of `{_NAME}` must be odd, got {kernel}"
        raise ShapeError(message, "bad-attribute")
    if reach < 0 or min(steps) < 1:
        wanted = "`max_displacement` of at least 0 and strides of at least 1"
        message = f"`{_NAME}` needs {wanted}, got {reach} and {list(steps)}"
        raise ShapeError(message, "bad-attribute")
    if attrs["layout"] != "NCHW":
        message = f"`layout` of `{_NAME}` must be NCHW, got {attrs['layout']!r}"
        raise ShapeError(message, "bad-attribute")
    pads = read_window(_NAME, 2, (1,), attrs["padding"])
    return _Plan(
        kernel,
        steps[0],
        steps[1],
        reach // steps[1],
        reach,
        pads.before,
        pads.after,
        attrs["is_multiply"],
    )


def _require_pair(data1: TensorType, data2: TensorType) -> None:
    require_rank(data1, 4, 4, f"`data1` of `{_NAME}`")
    require_rank(data2, 4, 4, f"`data2` of `{_NAME}`")
    for axis, (a, b) in enumerate(zip(data1.shape, data2.shape)):
        require_equal(a, b, f"axis {axis} of `data1` and `data2` of `{_NAME}`")


@operator(_NAME, fusion=Fusion.CONTRACTION, ulp=4)
def correlation(
    data1: Float,
    data2: SameDtype,
    *,
    kernel_size: int = 1,
    max_displacement: int = 1,
    stride1: int = 1,
    stride2: int = 1,
    padding: Ints = (0, 0),
    is_multiply: bool = True,
    layout: str = "NCHW",
) -> TensorType:
    """Mean over channels and windows of `kernel_size` of products of `data1` and of `data2`
    displaced.

    Each of the d by d displacements, where d is `2 * (max_displacement // stride2) + 1`, is a
    channel of the result; they are `stride2` apart, windows `stride1`. Without `is_multiply`
    products are absolute differences.

    >>> %x = float32 [[[[1, 2, 3]]]]
    >>> %y = float32 [[[[1, 10, 100]]]]
    >>> nn.correlation(%x, %y, max_displacement=0)
    [[[[1, 20, 300]]]]
    """
    plan = _plan(locals())
    _require_pair(data1, data2)
    return TensorType(plan.result(data1.shape), data1.dtype)


def _displacements(plan: _Plan) -> Any:
    """Yield the number of each displacement, it, and each place in a window."""
    sides = range(plan.width)
    for (a, b), at in itertools.product(
        itertools.product(sides, sides), itertools.product(range(plan.kernel), repeat=2)
    ):
        moved = ((a - plan.radius) * plan.step, (b - plan.radius) * plan.step)
        yield a * plan.width + b, moved, at


def _windows(plan: _Plan, at: tuple[int, ...], moved: tuple[int, ...], sizes: Ints) -> Any:
    """Return the index of the elements of padded data that all windows have at one place."""
    slices: list[Any] = [slice(None), slice(None)]
    for place, shift, size in zip(at, moved, sizes):
        start = plan.begin + place + shift
        slices.append(slice(start, start + plan.stride * (size - 1) + 1, plan.stride))
    return tuple(slices)


def _padded(plan: _Plan, data: Array) -> Array:
    widths = [(0, 0), (0, 0), *zip(plan.before, plan.after)]
    return np.pad(data.astype(wide(dtype_of(data.dtype)).numpy), widths)


@correlation.numpy
@like(correlation.rule)
def _(data1: Array, data2: Array, **attrs: Any) -> Array:
    plan = _plan(attrs)
    a, b = _padded(plan, data1), _padded(plan, data2)
    shape = tuple(int(str(d)) for d in plan.result(data1.shape))
    total = np.zeros(shape, a.dtype)
    if total.size:
        for number, moved, at in _displacements(plan):
            first = a[_windows(plan, at, (0, 0), shape[2:])]
            second = b[_windows(plan, at, moved, shape[2:])]
            terms = first * second if plan.multiplies else np.abs(first - second)
            total[:, number] += np.sum(terms, axis=1, dtype=a.dtype)
    count = total.dtype.type(plan.kernel**2 * data1.shape[1])
    return np.asarray((total / count).astype(data1.dtype))


def _value(plan: _Plan, data: Tensor, index: tuple[ScalarExpr, ...]) -> ScalarExpr:
    """Return an element of padded data."""
    inside: ScalarExpr | None = None
    places = []
    for axis, place in enumerate(index[2:]):
        before, after = plan.before[axis], plan.after[axis]
        place = place - before if before else place
        places.append(place)
        if before or after:
            inside = both(inside, te.in_range(place, data.shape[2 + axis]))
    value = load_wide(data, (*index[:2], *places))
    return value if inside is None else te.select(inside, value, 0)


@correlation.compute
@like(correlation.rule)
def _(data1: Tensor, data2: Tensor, **attrs: Any) -> Tensor:
    plan = _plan(attrs)

    def part(first: tuple[ScalarExpr, ...], other: tuple[ScalarExpr, ...]) -> ScalarExpr:
        a, b = _value(plan, data1, first), _value(plan, data2, other)
        return a * b if plan.multiplies else te.scalar("abs", a - b)

    return _windowed(plan, data1, part, data1.dtype, "correlation")


Part = Callable[["tuple[ScalarExpr, ...]", "tuple[ScalarExpr, ...]"], ScalarExpr]


def _windowed(plan: _Plan, data: Tensor, part: Part, dtype: DType, name: str) -> Tensor:
    """Return the mean over channels and windows of `part` of the places in the padded data that a
    correlation brings together.
    """
    channels = data.shape[1]

    def element(n: ScalarExpr, q: ScalarExpr, y: ScalarExpr, x: ScalarExpr) -> ScalarExpr:
        moved = _moves(plan, q // plan.width, q % plan.width)

        def term(c: ScalarExpr, dy: ScalarExpr, dx: ScalarExpr) -> ScalarExpr:
            at = (y * plan.stride + plan.begin + dy, x * plan.stride + plan.begin + dx)
            return part((n, c, *at), (n, c, at[0] + moved[0], at[1] + moved[1]))

        sums = te.reduce("sum", (channels, plan.kernel, plan.kernel), term)
        return te.cast(te.scalar("divide", sums, _count(plan, channels, sums.dtype)), dtype)

    return te.compute(plan.result(data.shape), element, name)


def _moves(plan: _Plan, a: ScalarExpr, b: ScalarExpr) -> tuple[ScalarExpr, ScalarExpr]:
    return (a - plan.radius) * plan.step, (b - plan.radius) * plan.step


def _count(plan: _Plan, channels: Dim, dtype: DType) -> ScalarExpr:
    return te.cast(te.dim(dim_mul(channels, plan.kernel**2)), dtype)


@correlation.reduction_size
@like(correlation.rule)
def _(data1: TensorType, data2: TensorType, **attrs: Any) -> Dim:
    return dim_mul(data1.shape[1], attrs["kernel_size"] ** 2)


# -- Gradient -------------------------------------------------------------------------------------


@operator(
    "nn.correlation_grad",
    fusion=Fusion.CONTRACTION,
    ulp=4,
)
def correlation_grad(
    grad: Float,
    data1: SameDtype,
    data2: SameDtype,
    *,
    kernel_size: int = 1,
    max_displacement: int = 1,
    stride1: int = 1,
    stride2: int = 1,
    padding: Ints = (0, 0),
    is_multiply: bool = True,
    layout: str = "NCHW",
    second: bool = False,
) -> TensorType:
    """The gradient of `nn.correlation` for `data1`, or with `second` for `data2`.

    >>> %g = float32 [[[[1, 1, 1]]]]
    >>> %x = float32 [[[[1, 2, 3]]]]
    >>> %y = float32 [[[[1, 10, 100]]]]
    >>> nn.correlation_grad(%g, %x, %y, max_displacement=0)
    [[[[1, 10, 100]]]]
    """
    plan = _plan(locals())
    _require_pair(data1, data2)
    require_rank(grad, 4, 4, "`grad` of `nn.correlation_grad`")
    for axis, (a, b) in enumerate(zip(grad.shape, plan.result(data1.shape))):
        require_equal(a, b, f"axis {axis} of `grad` of `nn.correlation_grad` and of the result")
    return TensorType(data1.shape, grad.dtype)


@correlation_grad.numpy
@like(correlation_grad.rule)
def _(grad: Array, data1: Array, data2: Array, **attrs: Any) -> Array:
    plan, second = _plan(attrs), attrs["second"]
    a, b = _padded(plan, data1), _padded(plan, data2)
    g = grad.astype(a.dtype) / a.dtype.type(plan.kernel**2 * data1.shape[1])
    total = np.zeros_like(a)
    sizes = grad.shape[2:]
    for number, moved, at in _displacements(plan) if grad.size else ():
        first, other = _windows(plan, at, (0, 0), sizes), _windows(plan, at, moved, sizes)
        own = other if second else first
        if plan.multiplies:
            factor = a[first] if second else b[other]
        else:
            factor = numeric.sign(a[first] - b[other])
            factor = -factor if second else factor
        total[own] += g[:, number : number + 1] * factor
    inside: Any = [slice(p, n - q) for p, q, n in zip(plan.before, plan.after, total.shape[2:])]
    return np.asarray(total[:, :, inside[0], inside[1]].astype(grad.dtype))


@correlation_grad.compute
@like(correlation_grad.rule)
def _(grad: Tensor, data1: Tensor, data2: Tensor, **attrs: Any) -> Tensor:
    plan, second = _plan(attrs), attrs["second"]

    def element(n: ScalarExpr, c: ScalarExpr, *place: ScalarExpr) -> ScalarExpr:
        own = [p + before for p, before in zip(place, plan.before)]

        def term(*r: ScalarExpr) -> ScalarExpr:
            moved = _moves(plan, r[0], r[1])
            first = [p - m for p, m in zip(own, moved)] if second else own
            other = own if second else [p + m for p, m in zip(own, moved)]
            inside: ScalarExpr | None = None
            windows = []
            for axis in range(2):
                distance = first[axis] - plan.begin - r[2 + axis]
                window = distance if plan.stride == 1 else distance // plan.stride
                if plan.stride != 1:
                    inside = both(inside, (distance % plan.stride).equal(0))
                inside = both(inside, te.in_range(window, grad.shape[2 + axis]))
                windows.append(window)
            assert inside is not None
            share = load_wide(grad, (n, r[0] * plan.width + r[1], *windows))
            share = te.scalar("divide", share, _count(plan, data1.shape[1], share.dtype))
            return te.select(inside, share * _factor(n, c, first, other), 0)

        extents = (plan.width, plan.width, plan.kernel, plan.kernel)
        return te.cast(te.reduce("sum", extents, term), grad.dtype)

    def _factor(n: ScalarExpr, c: ScalarExpr, first: Any, other: Any) -> ScalarExpr:
        def at(data: Tensor, index: Any) -> ScalarExpr:
            inside: ScalarExpr | None = None
            places = [p - before for p, before in zip(index, plan.before)]
            for axis, p in enumerate(places):
                inside = both(inside, te.in_range(p, data.shape[2 + axis]))
            assert inside is not None
            return te.select(inside, load_wide(data, (n, c, *places)), 0)

        if plan.multiplies:
            return at(data1, first) if second else at(data2, other)
        sign = te.scalar("sign", at(data1, first) - at(data2, other))
        return -sign if second else sign

    return te.compute(data1.shape, element, "correlation_grad")


@correlation_grad.reduction_size
@like(correlation_grad.rule)
def _(grad: TensorType, data1: TensorType, data2: TensorType, **attrs: Any) -> Dim:
    plan = _plan(attrs)
    return plan.width**2 * plan.kernel**2


# -- Gradient of the gradient of differences ------------------------------------------------------

_CHANGE = "nn.correlation_change"


@operator(_CHANGE, fusion=Fusion.CONTRACTION, ulp=4)
def correlation_change(
    change: Float,
    data1: SameDtype,
    data2: SameDtype,
    *,
    kernel_size: int = 1,
    max_displacement: int = 1,
    stride1: int = 1,
    stride2: int = 1,
    padding: Ints = (0, 0),
    layout: str = "NCHW",
    second: bool = False,
) -> TensorType:
    """How `nn.correlation` of absolute differences changes where `data1`, or with `second` `data2`,
    changes by `change`.

    >>> %u = float32 [[[[1, 1, 1]]]]
    >>> %x = float32 [[[[1, 2, 3]]]]
    >>> %y = float32 [[[[5, 0, 3]]]]
    >>> nn.correlation_change(%u, %x, %y, max_displacement=0)
    [[[[-1, 1, 0]]]]
    """
    plan = _differences(locals())
    _require_pair(data1, data2)
    require_rank(change, 4, 4, f"`change` of `{_CHANGE}`")
    for axis, (a, b) in enumerate(zip(change.shape, data1.shape)):
        require_equal(a, b, f"axis {axis} of `change` and of the data of `{_CHANGE}`")
    return TensorType(plan.result(data1.shape), change.dtype)


def _differences(attrs: Any) -> _Plan:
    return _plan({**attrs, "is_multiply": False})


@correlation_change.numpy
@like(correlation_change.rule)
def _(change: Array, data1: Array, data2: Array, **attrs: Any) -> Array:
    plan, second = _differences(attrs), attrs["second"]
    u, a, b = (_padded(plan, t) for t in (change, data1, data2))
    shape = tuple(int(str(d)) for d in plan.result(data1.shape))
    total = np.zeros(shape, a.dtype)
    for number, moved, at in _displacements(plan) if total.size else ():
        first, other = (_windows(plan, at, m, shape[2:]) for m in ((0, 0), moved))
        sign = numeric.sign(b[other] - a[first] if second else a[first] - b[other])
        total[:, number] += np.sum(u[other if second else first] * sign, axis=1, dtype=a.dtype)
    count = total.dtype.type(plan.kernel**2 * data1.shape[1])
    return np.asarray((total / count).astype(change.dtype))


@correlation_change.compute
@like(correlation_change.rule)
def _(change: Tensor, data1: Tensor, data2: Tensor, **attrs: Any) -> Tensor:
    plan, second = _differences(attrs), attrs["second"]

    def part(first: tuple[ScalarExpr, ...], other: tuple[ScalarExpr, ...]) -> ScalarExpr:
        a, b = _value(plan, data1, first), _value(plan, data2, other)
        if second:
            return _value(plan, change, other) * te.scalar("sign", b - a)
        return _value(plan, change, first) * te.scalar("sign", a - b)

    return _windowed(plan, data1, part, change.dtype, "correlation_change")


@correlation_change.reduction_size
@like(correlation_change.rule)
def _(change: TensorType, data1: TensorType, data2: TensorType, **attrs: Any) -> Dim:
    return dim_mul(data1.shape[1], attrs["kernel_size"] ** 2)


OPERATORS = (correlation, correlation_grad, correlation_change)
