"""Pooling over one, two and three axes of space: by windows, adaptive and global."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from relayvm.base.dims import Dim
from relayvm.base.shapes import ShapeError, require_equal
from relayvm.ir.types import TensorType
from relayvm.kernels.compute import Tensor
from relayvm.ops import pooling_kernels as kernels
from relayvm.ops.axes import product, require_known, require_rank
from relayvm.ops.layouts import SPATIAL
from relayvm.ops.numeric import Array
from relayvm.ops.operator import Fusion, Operator, operator
from relayvm.ops.pooling_axes import Axis, Sliding, adaptive_axis, most_terms, space_axes
from relayvm.ops.reduction import fold_tensor
from relayvm.ops.schema import Dims, Float, Ints, Numeric, SameDtype, like
from relayvm.ops.windows import Window, per_axis, read_window

Attributes = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Kind:
    """Maxima or means: their functions, and the words about them."""

    short: str
    noun: str
    array: Callable[..., Array]
    tensor: Callable[..., Tensor]
    gradient_array: Callable[..., Array]
    gradient_tensor: Callable[..., Tensor]

    @property
    def is_mean(self) -> bool:
        return self.short == "avg"


_MAX = _Kind(
    "max",
    "Greatest element",
    kernels.max_array,
    kernels.max_tensor,
    kernels.max_gradient_array,
    kernels.max_gradient_tensor,
)
_AVG = _Kind(
    "avg",
    "Mean",
    kernels.mean_array,
    kernels.mean_tensor,
    kernels.mean_gradient_array,
    kernels.mean_gradient_tensor,
)
KINDS = (_MAX, _AVG)


def _at(name: str, spatial: int, rank: int, attrs: Attributes) -> Ints:
    """Return the axes of space."""
    if attrs["out_layout"] not in ("", attrs["layout"]):
        message = f"`out_layout` of `{name}` must be empty or `layout`, got"
        raise ShapeError(f"{message} {attrs['out_layout']!r}", "bad-attribute")
    return space_axes(attrs["layout"], spatial, rank, name)


def _sliding(name: str, spatial: int, shape: Dims, at: Ints, attrs: Attributes) -> tuple[Axis, ...]:
    """Return the windows on each axis of space."""
    window = read_window(name, spatial, attrs["strides"], attrs["padding"], attrs["dilation"])
    taps = per_axis(name, "pool_size", attrs["pool_size"], spatial)
    return tuple(_slid(name, window, k, shape[a], taps[k], attrs) for k, a in enumerate(at))


def _slid(name: str, window: Window, k: int, size: Dim, taps: int, attrs: Attributes) -> Sliding:
    ceil = attrs["ceil_mode"]
    result = window.result(k, size, taps, f"the result of `{name}`", ceil)
    return Sliding(
        size,
        result,
        taps,
        window.strides[k],
        window.dilation[k],
        window.before[k],
        window.after[k],
        window.is_inside(k) and not (ceil and window.strides[k] > 1),
        attrs.get("count_include_pad", False),
    )


def _adapted(name: str, spatial: int, shape: Dims, at: Ints, attrs: Attributes) -> tuple[Axis, ...]:
    wanted: Dims = require_known(attrs["output_size"], f"`output_size` of `{name}`")
    if 0 in wanted:
        message = f"`output_size` of `{name}` must be above 0, got {list(wanted)}"
        raise ShapeError(message, "bad-attribute")
    if len(wanted) not in (0, 1, spatial):
        numbers = "0 or 1 entries" if spatial == 1 else f"0, 1 or {spatial} entries"
        message = f"`output_size` of `{name}` must have {numbers}"
        raise ShapeError(f"{message}, got {list(wanted)}", "bad-attribute")
    sizes = wanted * (spatial // len(wanted)) if wanted else tuple(shape[a] for a in at)
    return tuple(adaptive_axis(shape[a], size) for a, size in zip(at, sizes))


Read = Callable[[str, int, Dims, Ints, Attributes], "tuple[Axis, ...]"]


def _pooled(data: TensorType, at: Ints, axes: tuple[Axis, ...]) -> TensorType:
    sizes = dict(zip(at, (axis.result for axis in axes)))
    return TensorType(tuple(sizes.get(k, d) for k, d in enumerate(data.shape)), data.dtype)


def _forward(name: str, spatial: int, kind: _Kind, read: Read, rule: Any, doc: str) -> Operator:
    """Make the row of pooling with a rule whose attributes `read` understands."""
    row = operator(name, fusion=Fusion.REDUCTION, doc=doc)(rule)

    @row.numpy
    @like(rule)
    def _(data: Array, **attrs: Any) -> Array:
        at = _at(name, spatial, data.ndim, attrs)
        return kind.array(data, at, read(name, spatial, data.shape, at, attrs))

    @row.compute
    @like(rule)
    def _(data: Tensor, **attrs: Any) -> Tensor:
        at = _at(name, spatial, data.rank, attrs)
        return kind.tensor(data, at, read(name, spatial, data.shape, at, attrs))

    if kind.is_mean:

        @row.reduction_size
        @like(rule)
        def _(data: TensorType, **attrs: Any) -> Dim:
            at = _at(name, spatial, data.rank, attrs)
            return most_terms(read(name, spatial, data.shape, at, attrs))

    return row


def _backward(name: str, spatial: int, kind: _Kind, read: Read, rule: Any, doc: str) -> Operator:
    """Make the row of the gradient of pooling."""
    row = operator(name, fusion=Fusion.REDUCTION, doc=doc)(rule)

    @row.numpy
    @like(rule)
    def _(out_grad: Array, data: Array, **attrs: Any) -> Array:
        at = _at(name, spatial, data.ndim, attrs)
        axes = read(name, spatial, data.shape, at, attrs)
        return kind.gradient_array(out_grad, data, at, axes)

    @row.compute
    @like(rule)
    def _(out_grad: Tensor, data: Tensor, **attrs: Any) -> Tensor:
        at = _at(name, spatial, data.rank, attrs)
        axes = read(name, spatial, data.shape, at, attrs)
        return kind.gradient_tensor(out_grad, data, at, axes)

    @row.reduction_size
    @like(rule)
    def _(out_grad: TensorType, data: TensorType, **attrs: Any) -> Dim:
        at = _at(name, spatial, data.rank, attrs)
        return product(a.candidates for a in read(name, spatial, data.shape, at, attrs))

    return row


def _picking(pool: Operator, spatial: int, read: Read, call: str) -> Operator:
    """Make the row of what pooling by maxima reads of another tensor."""
    name = f"{pool.name}_pick"
    signature = inspect.signature(pool.rule)
    data = signature.parameters["data"]

    def rule(values: Float, data: SameDtype, **attrs: Any) -> TensorType:
        require_rank(values, data.rank, data.rank, f"`values` of `{name}`")
        for axis, (a, b) in enumerate(zip(values.shape, data.shape)):
            require_equal(a, b, f"axis {axis} of `values` and `data` of `{name}`")
        at = _at(name, spatial, data.rank, attrs)
        return _pooled(data, at, read(name, spatial, data.shape, at, attrs))

    attributes = [p for p in signature.parameters.values() if p.name != "data"]
    operands = [data.replace(name="values"), data]
    rule.__signature__ = signature.replace(parameters=[*operands, *attributes])  # type: ignore[attr-defined]
    doc = f"The element of `values` where each window of `{pool.name}` has its first maximum."
    example = _example(
        spatial, f"{name}(%v, %x, {call})", "[20, 30]", v="[10, 20, 30]", x="[1, 2, 3]"
    )
    row = operator(name, fusion=Fusion.REDUCTION, doc=f"{doc}{example}")(rule)

    @row.numpy
    @like(rule)
    def _(values: Array, data: Array, **attrs: Any) -> Array:
        at = _at(name, spatial, data.ndim, attrs)
        return kernels.picked_array(values, data, at, read(name, spatial, data.shape, at, attrs))

    @row.compute
    @like(rule)
    def _(values: Tensor, data: Tensor, **attrs: Any) -> Tensor:
        at = _at(name, spatial, data.rank, attrs)
        return kernels.picked_tensor(values, data, at, read(name, spatial, data.shape, at, attrs))

    return row


def _without(rule: Any, name: str) -> Any:
    """Return the rule with one attribute, which has a default, taken from its schema."""
    signature = inspect.signature(rule)
    kept = [p for p in signature.parameters.values() if p.name != name]
    rule.__signature__ = signature.replace(parameters=kept)
    return rule


# -- Windows of a fixed size ----------------------------------------------------------------------


def _window_rule(name: str, spatial: int, kind: _Kind) -> Any:
    def rule(
        data: Numeric,
        *,
        pool_size: Ints,
        strides: Ints = (1,) * spatial,
        dilation: Ints = (1,) * spatial,
        padding: Ints = (0,) * spatial,
        layout: str = f"NC{SPATIAL[spatial]}",
        out_layout: str = "",
        ceil_mode: bool = False,
        count_include_pad: bool = False,
    ) -> TensorType:
        attrs = locals()
        at = _at(name, spatial, data.rank, attrs)
        return _pooled(data, at, _sliding(name, spatial, data.shape, at, attrs))

    return rule if kind.is_mean else _without(rule, "count_include_pad")


def _window_grad_rule(name: str, spatial: int, kind: _Kind) -> Any:
    def rule(
        out_grad: Float,
        data: SameDtype,
        *,
        pool_size: Ints,
        strides: Ints = (1,) * spatial,
        dilation: Ints = (1,) * spatial,
        padding: Ints = (0,) * spatial,
        layout: str = f"NC{SPATIAL[spatial]}",
        out_layout: str = "",
        ceil_mode: bool = False,
        count_include_pad: bool = False,
    ) -> TensorType:
        attrs = locals()
        at = _at(name, spatial, data.rank, attrs)
        pooled = _pooled(data, at, _sliding(name, spatial, data.shape, at, attrs))
        return _require_pooled(name, out_grad, pooled, data)

    return rule if kind.is_mean else _without(rule, "count_include_pad")


def _require_pooled(
    name: str, grad: TensorType, pooled: TensorType, data: TensorType
) -> TensorType:
    if grad.rank != pooled.rank:
        message = f"ranks of `out_grad` and `data` of `{name}` differ"
        raise ShapeError(f"{message}: {grad.rank} and {pooled.rank}")
    for axis, (a, b) in enumerate(zip(grad.shape, pooled.shape)):
        require_equal(a, b, f"axis {axis} of `out_grad` of `{name}` and of the pooling")
    return data


# -- Adaptive windows -----------------------------------------------------------------------------


def _adaptive_rule(name: str, spatial: int) -> Any:
    def rule(
        data: Numeric,
        *,
        output_size: Dims = (),
        layout: str = f"NC{SPATIAL[spatial]}",
        out_layout: str = "",
    ) -> TensorType:
        attrs = locals()
        at = _at(name, spatial, data.rank, attrs)
        return _pooled(data, at, _adapted(name, spatial, data.shape, at, attrs))

    return rule


def _adaptive_grad_rule(name: str, spatial: int) -> Any:
    def rule(
        out_grad: Float,
        data: SameDtype,
        *,
        output_size: Dims = (),
        layout: str = f"NC{SPATIAL[spatial]}",
        out_layout: str = "",
    ) -> TensorType:
        attrs = locals()
        at = _at(name, spatial, data.rank, attrs)
        pooled = _pooled(data, at, _adapted(name, spatial, data.shape, at, attrs))
        return _require_pooled(name, out_grad, pooled, data)

    return rule


# -- Rows -----------------------------------------------------------------------------------------


def _nested(spatial: int, row: str) -> str:
    return "[" * (spatial + 1) + row + "]" * (spatial + 1)


def _example(spatial: int, call: str, result: str, **operands: str) -> str:
    given = "".join(f">>> %{k} = float32 {_nested(spatial, v)}\n" for k, v in operands.items())
    return f"\n\n{given}>>> {call}\n{_nested(spatial, result)}"


def _windows(spatial: int, kind: _Kind) -> tuple[Operator, Operator]:
    name, grad = f"nn.{kind.short}_pool{spatial}d", f"nn.{kind.short}_pool{spatial}d_grad"
    size = (*(1,) * (spatial - 1), 2)
    empty = "mean is 0" if kind.is_mean else "maximum is -inf, of integers the least there is"
    more = " The mean counts the padding with `count_include_pad`." if kind.is_mean else ""
    text = (
        f"{kind.noun} of each window over {spatial} axes of space.\n\n"
        "`padding` has one number, one an axis, or those before and then those after each axis;"
        f" with `ceil_mode` a last window may reach beyond it.{more}\n\n"
        "A size n has `floor((n + padding - span) / stride) + 1` windows, where span is"
        " `(pool_size - 1) * dilation + 1`; `ceil_mode` rounds the quotient up. A window may cover"
        " padding alone, also the last of `ceil_mode`, which other frameworks leave out: its"
        f" {empty}."
    )
    result = "[1.5, 2.5]" if kind.is_mean else "[2, 3]"
    call = f"{name}(%x, pool_size={list(size)})"
    doc = text + _example(spatial, call, result, x="[1, 2, 3]")
    back = "its share of" if kind.is_mean else "of the windows whose first greatest element it is"
    grad_text = (
        f"For each element of `data` the sum of {back} `out_grad`.\n\n"
        if kind.is_mean
        else f"For each element of `data` the sum of `out_grad` {back}.\n\n"
    ) + f"The gradient of `{name}`."
    shares = "[0.5, 5.5, 5]" if kind.is_mean else "[0, 1, 10]"
    call = f"{grad}(%g, %x, pool_size={list(size)})"
    grad_doc = grad_text + _example(spatial, call, shares, g="[1, 10]", x="[1, 2, 3]")
    return (
        _forward(name, spatial, kind, _sliding, _window_rule(name, spatial, kind), doc),
        _backward(grad, spatial, kind, _sliding, _window_grad_rule(grad, spatial, kind), grad_doc),
    )


def _adaptive(spatial: int, kind: _Kind) -> tuple[Operator, Operator]:
    name = f"nn.adaptive_{kind.short}_pool{spatial}d"
    grad = f"{name}_grad"
    text = (
        f"{kind.noun} of each of `output_size` windows over {spatial} axes of space.\n\n"
        "Window i of n over a size m is from `floor(i * m / n)` to `ceil((i + 1) * m / n)`; an"
        " empty `output_size` is that of the data, one number counts for all axes."
    )
    size = [1] * (spatial - 1) + [2]
    result = "[1.5, 2.5]" if kind.is_mean else "[2, 3]"
    doc = text + _example(spatial, f"{name}(%x, output_size={size})", result, x="[1, 2, 3]")
    shares = "[0.5, 5.5, 5]" if kind.is_mean else "[0, 1, 10]"
    call = f"{grad}(%g, %x, output_size={size})"
    grad_doc = (
        f"The gradient of `{name}`: for each element of `data` the sum of what windows give it.\n\n"
        "A maximum gives all of `out_grad` to its first element, a mean the same share to each."
    ) + _example(spatial, call, shares, g="[1, 10]", x="[1, 2, 3]")
    return (
        _forward(name, spatial, kind, _adapted, _adaptive_rule(name, spatial), doc),
        _backward(grad, spatial, kind, _adapted, _adaptive_grad_rule(grad, spatial), grad_doc),
    )


def _global(kind: _Kind) -> Operator:
    name = f"nn.global_{kind.short}_pool2d"

    def rule(data: Numeric, *, layout: str = "NCHW", out_layout: str = "") -> TensorType:
        at = _at(name, 2, data.rank, locals())
        return TensorType(tuple(1 if k in at else d for k, d in enumerate(data.shape)), data.dtype)

    result = "[[[[2]]]]" if kind.is_mean else "[[[[3]]]]"
    doc = f"{kind.noun} of each image: over the two axes of space, which stay with size 1."
    example = f">>> %x = float32 [[[[1, 2], [2, 3]]]]\n>>> {name}(%x)\n{result}"
    row = operator(name, fusion=Fusion.REDUCTION, doc=f"{doc}\n\n{example}")(rule)

    @row.numpy
    def _(data: Array, *, layout: str, out_layout: str) -> Array:
        at = space_axes(layout, 2, data.ndim, name)
        return kind.array(data, at, [adaptive_axis(data.shape[a], 1) for a in at])

    @row.compute
    def _(data: Tensor, *, layout: str, out_layout: str) -> Tensor:
        at = space_axes(layout, 2, data.rank, name)
        return fold_tensor(data, at, True, "mean" if kind.is_mean else "max")

    if kind.is_mean:

        @row.reduction_size
        def _(data: TensorType, *, layout: str, out_layout: str) -> Dim:
            at = space_axes(layout, 2, data.rank, name)
            return product(data.shape[a] for a in at)

    return row


WINDOWS = {(n, kind.short): _windows(n, kind) for n in (1, 2, 3) for kind in KINDS}
ADAPTIVE = {(n, kind.short): _adaptive(n, kind) for n in (1, 2, 3) for kind in KINDS}
GLOBAL = {kind.short: _global(kind) for kind in KINDS}
PICKING = {
    (n, name): _picking(table[n, "max"][0], n, read, f"{name}={[1] * (n - 1) + [2]}")
    for name, table, read in (("pool_size", WINDOWS, _sliding), ("output_size", ADAPTIVE, _adapted))
    for n in (1, 2, 3)
}
OPERATORS = (
    *PICKING.values(),
    *(row for pair in (*WINDOWS.values(), *ADAPTIVE.values()) for row in pair),
    *GLOBAL.values(),
)
