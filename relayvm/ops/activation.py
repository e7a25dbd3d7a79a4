"""Activations with parameters, dropout, and the functions that the original computes coarsely."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from relayvm.base.shapes import ShapeError, require_equal
from relayvm.ir.types import TensorType, TupleType, Type
from relayvm.kernels import compute as te
from relayvm.kernels.compute import ScalarExpr, Tensor
from relayvm.ops.axes import require_axis, require_rank
from relayvm.ops.loads import load_wide
from relayvm.ops.normalization import softmax, spread_along, widened
from relayvm.ops.numeric import Array
from relayvm.ops.operator import Fusion, Operator, operator
from relayvm.ops.schema import Float, SameDtype
from relayvm.ops.unary import UNARY


@operator("nn.leaky_relu", fusion=Fusion.ELEMENTWISE)
def leaky_relu(data: Float, *, alpha: float = 0.25) -> TensorType:
    """Each element where it is positive, else `alpha` times it.

    >>> %x = float32 [-4, 2]
    >>> nn.leaky_relu(%x)
    [-1, 2]
    """
    return TensorType(data.shape, data.dtype)


@leaky_relu.numpy
def _(data: Array, *, alpha: float) -> Array:
    x = widened(data)
    return np.asarray(np.where(x > 0, x, x * x.dtype.type(alpha)).astype(data.dtype))


@leaky_relu.compute
def _(data: Tensor, *, alpha: float) -> Tensor:
    def element(*i: ScalarExpr) -> ScalarExpr:
        x = load_wide(data, i)
        return te.cast(te.select(x > 0, x, x * alpha), data.dtype)

    return te.compute(data.shape, element, "leaky_relu")


@operator("nn.prelu", fusion=Fusion.BROADCAST)
def prelu(data: Float, alpha: SameDtype, *, axis: int = 1) -> TensorType:
    """Each element where it is positive, else times the element of `alpha` for its place on `axis`.

    >>> %x = float32 [[-4, -2], [1, 3]]
    >>> %a = float32 [0.5, 10]
    >>> nn.prelu(%x, %a)
    [[-2, -20], [1, 3]]
    """
    require_rank(alpha, 1, 1, "`alpha` of `nn.prelu`")
    place = require_axis(axis, data.rank, "`axis` of `nn.prelu`")
    size = require_equal(data.shape[place], alpha.shape[0], f"axis {place} of `data` and `alpha`")
    return TensorType((*data.shape[:place], size, *data.shape[place + 1 :]), data.dtype)


@prelu.infer_operands
def _(data: TensorType | None, alpha: TensorType | None, *, axis: int) -> tuple[Type | None, ...]:
    if data is None:
        return data, alpha
    place = require_axis(axis, data.rank, "`axis` of `nn.prelu`")
    return data, TensorType((data.shape[place],), data.dtype)


@prelu.numpy
def _(data: Array, alpha: Array, *, axis: int) -> Array:
    x = widened(data)
    factors = spread_along(widened(alpha), require_axis(axis, data.ndim), data.ndim)
    return np.asarray(np.where(x > 0, x, x * factors).astype(data.dtype))


@prelu.compute
def _(data: Tensor, alpha: Tensor, *, axis: int) -> Tensor:
    place = require_axis(axis, data.rank)

    def element(*i: ScalarExpr) -> ScalarExpr:
        x = load_wide(data, i)
        return te.cast(te.select(x > 0, x, x * load_wide(alpha, (i[place],))), data.dtype)

    return te.compute(data.shape, element, "prelu")


@operator("nn.dropout", fusion=Fusion.ELEMENTWISE)
def dropout(data: Float, *, rate: float = 0.5) -> TupleType:
    """`data` as it is, and a mask of ones: what dropout is in inference, where nothing is dropped.

    `rate` is the share of elements that training would drop, 0 to 1.

    >>> %x = float32 [1, 2]
    >>> nn.dropout(%x).1
    [1, 1]
    """
    if not 0 <= rate <= 1:
        raise ShapeError(f"`rate` of `nn.dropout` must be 0 to 1, got {rate}", "bad-attribute")
    same = TensorType(data.shape, data.dtype)
    return TupleType((same, same))


@dropout.numpy
def _(data: Array, *, rate: float) -> tuple[Array, ...]:
    return data, np.ones_like(data)


@dropout.compute
def _(data: Tensor, *, rate: float) -> tuple[Tensor, ...]:
    return (
        te.compute(data.shape, lambda *i: data[i], "dropout"),
        te.compute(data.shape, lambda *i: te.const(1, data.dtype), "mask"),
    )


# -- Functions that the original approximates -----------------------------------------------------


def _exactly(name: str, source: Operator, example: str) -> Operator:
    """Return a row that means what `source` does."""
    doc = f"The same as `{source.name}`, which is fast here without being coarser.\n\n{example}"
    row = operator(name, fusion=source.fusion, ulp=source.ulp, doc=doc)(source.rule)
    copied: tuple[str, ...] = ("numpy", "compute", "reduction_size")
    for facet in copied:
        if facet in source.facets:
            add: Callable[[Any], Any] = getattr(row, facet)
            add(source.facets[facet])
    return row


_NAMED = {row.name: row for row in UNARY}
APPROXIMATED: tuple[tuple[Operator, Operator], ...] = tuple(
    (_exactly(name, source, f">>> %x = float32 [0, 0]\n>>> {name}(%x)\n{result}"), source)
    for name, source, result in (
        ("fast_exp", _NAMED["exp"], "[1, 1]"),
        ("fast_tanh", _NAMED["tanh"], "[0, 0]"),
        ("fast_erf", _NAMED["erf"], "[0, 0]"),
        ("nn.fast_softmax", softmax, "[0.5, 0.5]"),
    )
)
OPERATORS = (leaky_relu, prelu, dropout, *(row for row, _ in APPROXIMATED))
