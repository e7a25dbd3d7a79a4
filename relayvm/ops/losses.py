"""Losses: cross entropy and the negative logarithm of likelihoods."""

from __future__ import annotations

from typing import Any

import numpy as np

from relayvm.base.dims import Dim
from relayvm.base.shapes import ShapeError, bad_index, require_equal
from relayvm.ir.types import TensorType
from relayvm.kernels import compute as te
from relayvm.kernels.compute import ScalarExpr, Tensor
from relayvm.ops.axes import product, require_rank
from relayvm.ops.loads import Index, load_wide, wide
from relayvm.ops.normalization import widened
from relayvm.ops.numeric import Array
from relayvm.ops.operator import Fusion, Operator, operator
from relayvm.ops.schema import Float, Integer, SameDtype, like

# -- Cross entropy --------------------------------------------------------------------------------


def _entropy(name: str, has_logarithms: bool, text: str, example: str) -> Operator:
    def rule(x: Float, y: SameDtype) -> TensorType:
        require_rank(x, 2, 2, f"`x` of `{name}`")
        require_rank(y, 2, 2, f"`y` of `{name}`")
        for axis, (a, b) in enumerate(zip(x.shape, y.shape)):
            require_equal(a, b, f"axis {axis} of `x` and `y` of `{name}`")
        return TensorType((), x.dtype)

    row = operator(name, fusion=Fusion.REDUCTION, ulp=8, doc=f"{text}\n\n{example}")(rule)

    @row.numpy
    def _(x: Array, y: Array) -> Array:
        logarithms = widened(x) if has_logarithms else np.log(widened(x))
        total = np.sum(logarithms * widened(y), dtype=logarithms.dtype)
        return np.asarray(-total / logarithms.dtype.type(x.shape[0])).astype(x.dtype)

    @row.compute
    def _(x: Tensor, y: Tensor) -> Tensor:
        total = wide(x.dtype)

        def logarithm(*i: ScalarExpr) -> ScalarExpr:
            value = load_wide(x, i)
            return value if has_logarithms else te.scalar("log", value)

        logarithms = te.compute(x.shape, logarithm, "logarithms")

        def element() -> ScalarExpr:
            sums = te.reduce("sum", x.shape, lambda *r: logarithms[r] * load_wide(y, r))
            mean = te.scalar("divide", -sums, te.cast(te.dim(x.shape[0]), total))
            return te.cast(mean, x.dtype)

        return te.compute((), element, "cross_entropy")

    @row.reduction_size
    def _(x: TensorType, y: TensorType) -> Dim:
        return product(x.shape)

    return row


cross_entropy = _entropy(
    "nn.cross_entropy",
    False,
    "Mean over the batch of `-sum(y * log(x))`, for probabilities `x` [n, classes].",
    ">>> %x = float32 [[1, 0.36787944]]\n>>> %y = float32 [[0, 1]]\n"
    ">>> nn.cross_entropy(%x, %y)\n1",
)
cross_entropy_with_logits = _entropy(
    "nn.cross_entropy_with_logits",
    True,
    "Mean over the batch of `-sum(y * x)`, for logarithms of probabilities `x` [n, classes].",
    ">>> %x = float32 [[0, -2]]\n>>> %y = float32 [[0, 1]]\n"
    ">>> nn.cross_entropy_with_logits(%x, %y)\n2",
)


# -- Negative logarithm of likelihoods ------------------------------------------------------------

REDUCTIONS = ("mean", "sum", "none")


@operator("nn.nll_loss", fusion=Fusion.REDUCTION, ulp=4, value_traps=True)
def nll_loss(
    predictions: Float,
    targets: Integer,
    weights: Float,
    *,
    reduction: str = "mean",
    ignore_index: int = -100,
) -> TensorType:
    """`-predictions[target] * weights[target]` for each target, or their sum, or weighted mean.

    `predictions` is [n, classes, ...] and `targets` [n, ...], or [classes] and one target.
    Targets equal to `ignore_index` count as 0 with weight 0; others that are no class trap.

    >>> %x = float32 [[-1, -2], [-3, -4]]
    >>> %t = int32 [1, 0]
    >>> %w = float32 [1, 1]
    >>> nn.nll_loss(%x, %t, %w)
    2.5
    """
    if reduction not in REDUCTIONS:
        listed = ", ".join(f'"{r}"' for r in REDUCTIONS)
        message = f'`reduction` of `nn.nll_loss` must be one of {listed}, got "{reduction}"'
        raise ShapeError(message, "bad-attribute")
    require_rank(predictions, 1, 99, "`predictions` of `nn.nll_loss`")
    require_rank(targets, predictions.rank - 1, predictions.rank - 1, "`targets` of `nn.nll_loss`")
    require_rank(weights, 1, 1, "`weights` of `nn.nll_loss`")
    if weights.dtype is not predictions.dtype:
        message = "dtypes of `predictions` and `weights` of `nn.nll_loss` differ"
        raise ShapeError(f"{message}: {predictions.dtype} and {weights.dtype}", "dtype-mismatch")
    at = class_axis(predictions.rank)
    what = "classes of `predictions` and `weights` of `nn.nll_loss`"
    require_equal(predictions.shape[at], weights.shape[0], what)
    others = [d for k, d in enumerate(predictions.shape) if k != at]
    for axis, (a, b) in enumerate(zip(others, targets.shape)):
        require_equal(a, b, f"axis {axis} of `targets` and that of `predictions` of `nn.nll_loss`")
    return TensorType(targets.shape if reduction == "none" else (), predictions.dtype)


def class_axis(rank: int) -> int:
    """Return the axis of the classes in predictions of a rank."""
    return 1 if rank > 1 else 0


@nll_loss.infer_operands
@like(nll_loss.rule)
def _(predictions: Any, targets: Any, weights: Any, **attrs: Any) -> Any:
    if predictions is None:
        return predictions, targets, weights
    require_rank(predictions, 1, 99, "`predictions` of `nn.nll_loss`")
    classes = predictions.shape[class_axis(predictions.rank)]
    return predictions, targets, TensorType((classes,), predictions.dtype)


@nll_loss.numpy
@like(nll_loss.rule)
def _(predictions: Array, targets: Array, weights: Array, **attrs: Any) -> Array:
    p, w = widened(predictions), widened(weights)
    at = class_axis(p.ndim)
    taken = targets != attrs["ignore_index"]
    illegal = targets[taken & ((targets < 0) | (targets >= p.shape[at]))]
    if illegal.size:
        raise bad_index(int(illegal.reshape(-1)[0]), p.shape[at])
    if not taken.any():
        losses = factors = np.zeros(targets.shape, p.dtype)
    else:
        places = np.where(taken, targets, 0).astype(np.int64)
        picked = np.take_along_axis(p, np.expand_dims(places, at), axis=at)
        factors = np.where(taken, w[places], p.dtype.type(0))
        losses = np.where(taken, -np.squeeze(picked, axis=at) * factors, p.dtype.type(0))
    if attrs["reduction"] == "none":
        return np.asarray(losses.astype(predictions.dtype))
    total = np.sum(losses, dtype=p.dtype)
    if attrs["reduction"] == "mean":
        total = total / np.sum(factors, dtype=p.dtype)
    return np.asarray(total).astype(predictions.dtype)


@nll_loss.compute
@like(nll_loss.rule)
def _(predictions: Tensor, targets: Tensor, weights: Tensor, **attrs: Any) -> Tensor:
    at = class_axis(predictions.rank)
    classes, shape = predictions.shape[at], targets.shape
    total = wide(predictions.dtype)

    def place(i: Index) -> tuple[ScalarExpr, ScalarExpr]:
        target = te.cast(targets[i], "int64")
        taken = te.scalar("not_equal", target, attrs["ignore_index"])
        return taken, te.index(target, classes, "trap")

    def loss(*i: ScalarExpr) -> ScalarExpr:
        taken, index = place(i)
        picked = load_wide(predictions, (*i[:at], index, *i[at:]))
        return te.select(taken, -picked * load_wide(weights, (index,)), 0)

    def factor(*i: ScalarExpr) -> ScalarExpr:
        taken, index = place(i)
        return te.select(taken, load_wide(weights, (index,)), 0)

    if attrs["reduction"] == "none":
        return te.compute(shape, lambda *i: te.cast(loss(*i), predictions.dtype), "nll_loss")

    def folded(term: Any) -> ScalarExpr:
        return te.reduce("sum", shape, term) if shape else term()

    sums = te.compute((), lambda: folded(loss), "losses")
    if attrs["reduction"] == "sum":
        return te.compute((), lambda: te.cast(sums[()], predictions.dtype), "nll_loss")
    factors = te.compute((), lambda: te.cast(folded(factor), total), "factors")
    return te.compute(
        (),
        lambda: te.cast(te.scalar("divide", sums[()], factors[()]), predictions.dtype),
        "nll_loss",
    )


@nll_loss.reduction_size
@like(nll_loss.rule)
def _(predictions: TensorType, targets: TensorType, weights: TensorType, **attrs: Any) -> Dim:
    return product(targets.shape)


OPERATORS = (cross_entropy, cross_entropy_with_logits, nll_loss)
