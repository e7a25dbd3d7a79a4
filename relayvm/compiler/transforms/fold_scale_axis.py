"""Factors of channels, multiplied into the weights of the convolution or dense layer beside them.

conv(x, w)[o] * s[o] = conv(x, w[o] * s[o])            backward
conv(x * s, w)       = conv(x, w[:, i] * s[i])         forward
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from relayvm.base.dims import Dim, dims_equal
from relayvm.base.narrow.arrays import readable
from relayvm.compiler.rewriting import CallRule, Site, rewrite_calls
from relayvm.compiler.rewriting.build import attrs_of, call, folded, is_call, tensor, typed_call
from relayvm.compiler.transforms.fold_constants import fold_constants
from relayvm.ir.expr import Call, Constant, Expr
from relayvm.ir.module import Module
from relayvm.ops.operator import Operator

_CONVOLUTIONS = ("nn.conv1d", "nn.conv2d", "nn.conv3d")
_KEEP_POSITIVE = ("nn.relu", "nn.leaky_relu")
DEPTH_LIMIT = 16


def fold_scale_axis(module: Module) -> Module:
    """Fold factors backward, then forward, and evaluate what has become constant."""
    return fold_constants(forward_fold_scale_axis(backward_fold_scale_axis(module)))


def backward_fold_scale_axis(module: Module) -> Module:
    """Multiply factors of results into the weights that made them.

    `multiply(nn.relu(nn.bias_add(nn.conv2d(%x, %w), %b)), %s)` -> `nn.relu(nn.bias_add(nn.conv2d(
    %x, %ws), %bs))`. Factors and weights follow from constants and parameters; behind a `relu`
    factors must be positive constants.
    """
    return rewrite_calls(module, [CallRule("backward", "multiply", _backward, rounds=True)])


def forward_fold_scale_axis(module: Module) -> Module:
    """Multiply factors of inputs into the weights that meet them.

    `nn.conv2d(nn.relu(multiply(%x, %s)), %w)` -> `nn.conv2d(nn.relu(%x), %ws)`, in groups too.
    """
    names = (*_CONVOLUTIONS, "nn.dense")
    return rewrite_calls(module, [CallRule("forward", n, _forward, rounds=True) for n in names])


@dataclass(frozen=True, slots=True)
class _Factor:
    """A number for each index of an axis, or one number for all where `axis` is None: the elements
    of `values`.
    """

    axis: int | None
    values: Expr
    is_positive: bool

    @property
    def vector(self) -> Expr:
        """The numbers as a vector, or as a tensor of rank 0."""
        return self.along(0, 1)

    def along(self, axis: int, rank: int) -> Expr:
        """Return the numbers so that they are broadcast along an axis of a tensor of some rank."""
        if self.axis is None:
            return _reshaped(self.values, ())
        return _reshaped(self.values, (self.size, *[1] * (rank - 1 - axis)))

    @property
    def size(self) -> Dim:
        """How many numbers there are."""
        return next((d for d in tensor(self.values).shape if d != 1), 1)


def _reshaped(expr: Expr, shape: Sequence[Dim]) -> Expr:
    if tensor(expr).shape == tuple(shape):
        return expr
    newshape = tuple(d if isinstance(d, int) else -1 for d in shape)
    return _simple("reshape", (expr,), newshape=newshape)


def _simple(name: str, args: Sequence[Expr], **attrs: object) -> Expr:
    return folded(call(name, args, args[0].span, **attrs))


def _times(expr: Expr, factor: Expr) -> Expr:
    return _simple("multiply", (expr, factor))


def _factor_of(node: Call, site: Site) -> tuple[Expr, _Factor] | None:
    """Return what a product multiplies, and by which factor of channels."""
    kind = tensor(node)
    if not kind.dtype.is_float:
        return None
    for value, other in (node.args, node.args[::-1]):
        factor = site.definition(other)
        if value.checked_type != kind or not site.is_anchored(factor):
            continue
        shape = (*[1] * (kind.rank - tensor(factor).rank), *tensor(factor).shape)
        axes = [axis for axis, dim in enumerate(shape) if dim != 1]
        if len(axes) > 1:
            continue
        axis = axes[0] if axes else None
        if axis is not None and dims_equal(kind.shape[axis], shape[axis]) is not True:
            continue
        positive = isinstance(factor, Constant) and bool(np.all(readable(factor.data) > 0))
        return value, _Factor(axis, factor, positive)
    return None


# --- backward --------------------------------------------------------------------------------


def _backward(node: Call, site: Site) -> Expr | None:
    found = _factor_of(node, site)
    return None if found is None else _scaled(found[0], found[1], site, DEPTH_LIMIT)


def _scaled(expr: Expr, factor: _Factor, site: Site, depth: int) -> Expr | None:
    """Return an expression times a factor, with the factor inside weights; None if it has no
    weights to take it.
    """
    node = site.definition(expr)
    if not depth or not isinstance(node, Call) or site.uses(expr) > 1:
        return None
    if is_call(node, *_CONVOLUTIONS):
        return _scaled_convolution(node, factor)
    if is_call(node, "nn.dense"):
        return _scaled_dense(node, factor)
    if is_call(node, *_KEEP_POSITIVE):
        inner = _scaled(node.args[0], factor, site, depth - 1) if factor.is_positive else None
        return None if inner is None else _with_args(node, (inner,))
    if is_call(node, "nn.bias_add"):
        return _scaled_bias(node, factor, site, depth)
    if is_call(node, "add", "subtract"):
        return _scaled_sum(node, factor, site, depth)
    return None


def _scaled_convolution(node: Call, factor: _Factor) -> Expr | None:
    attrs, weight = attrs_of(node), node.args[1]
    layout, kernel = attrs["out_layout"] or attrs["data_layout"], attrs["kernel_layout"]
    if not layout.isalpha() or not kernel.isalpha() or not _same_dtype(weight, factor):
        return None
    channels, axis = layout.index("C"), kernel.index("O")
    if factor.axis is not None:
        size = tensor(weight).shape[axis]
        known = dims_equal(size, tensor(node).shape[channels]) is True
        if factor.axis != channels or not known:
            return None
    scaled = _times(weight, factor.along(axis, tensor(weight).rank))
    return _with_args(node, (node.args[0], scaled))


def _scaled_dense(node: Call, factor: _Factor) -> Expr | None:
    weight = node.args[1]
    last = tensor(node).rank - 1
    if factor.axis not in (None, last) or not _same_dtype(weight, factor):
        return None
    return _with_args(node, (node.args[0], _times(weight, factor.along(0, 2))))


def _scaled_bias(node: Call, factor: _Factor, site: Site, depth: int) -> Expr | None:
    data, bias = node.args
    axis = attrs_of(node)["axis"] % tensor(node).rank
    if factor.axis not in (None, axis):
        return None
    inner = _scaled(data, factor, site, depth - 1)
    return None if inner is None else _with_args(node, (inner, _times(bias, factor.vector)))


def _scaled_sum(node: Call, factor: _Factor, site: Site, depth: int) -> Expr | None:
    rank = tensor(node).rank
    parts: list[Expr] = []
    folds = False
    for arg in node.args:
        inner = None
        if arg.checked_type == node.checked_type:
            inner = _scaled(arg, factor, site, depth - 1)
        if inner is not None:
            folds = True
        elif _is_smaller(arg, node) and site.is_anchored(site.definition(arg)):
            inner = _times(arg, factor.along(factor.axis or 0, rank))
        if inner is None:
            return None
        parts.append(inner)
    return _with_args(node, parts) if folds else None


def _is_smaller(arg: Expr, node: Call) -> bool:
    """Return True for what costs less to multiply than the result: a constant costs nothing."""
    return isinstance(arg, Constant) or tensor(arg).rank < tensor(node).rank


# --- forward ---------------------------------------------------------------------------------


def _forward(node: Call, site: Site) -> Expr | None:
    found = _unscaled(node.args[0], site, DEPTH_LIMIT)
    if found is None:
        return None
    data, factor = found
    if is_call(node, "nn.dense"):
        weight = node.args[1]
        if factor.axis not in (None, tensor(data).rank - 1) or not _same_dtype(weight, factor):
            return None
        return _with_args(node, (data, _times(weight, factor.vector)))
    scaled = _scaled_inputs(node, factor)
    return None if scaled is None else _with_args(node, (data, scaled))


def _unscaled(expr: Expr, site: Site, depth: int) -> tuple[Expr, _Factor] | None:
    """Return what an expression is a product of, looking through what keeps positive factors."""
    node = site.definition(expr)
    if not depth or not isinstance(node, Call) or site.uses(expr) > 1:
        return None
    if is_call(node, "multiply"):
        return _factor_of(node, site)
    if is_call(node, *_KEEP_POSITIVE):
        found = _unscaled(node.args[0], site, depth - 1)
        if found is not None and found[1].is_positive:
            return _with_args(node, (found[0],)), found[1]
    return None


def _scaled_inputs(node: Call, factor: _Factor) -> Expr | None:
    """Return the weights of a convolution times a factor of its input channels."""
    attrs, weight = attrs_of(node), node.args[1]
    layout, kernel, groups = attrs["data_layout"], attrs["kernel_layout"], attrs["groups"]
    if not layout.isalpha() or not kernel.isalpha() or not _same_dtype(weight, factor):
        return None
    if factor.axis is None:
        return _times(weight, factor.vector)
    if factor.axis != layout.index("C"):
        return None
    rank, inputs, outputs = len(kernel), kernel.index("I"), kernel.index("O")
    if groups == 1:
        return _times(weight, factor.along(inputs, rank))
    shape = tensor(weight).shape
    count, channels = shape[outputs], factor.size
    if not isinstance(count, int) or not isinstance(channels, int) or count % groups:
        return None
    if channels != groups * shape[inputs]:
        return None
    # Output o belongs to group o // (O / groups), which sees that group's channels alone.
    matrix = _reshaped(factor.values, (groups, channels // groups))
    if count != groups:
        matrix = _simple("repeat", (matrix,), repeats=count // groups, axis=0)
    if inputs < outputs:
        matrix = _simple("transpose", (matrix,))
    spread = [shape[i] if i in (inputs, outputs) else 1 for i in range(rank)]
    return _times(weight, _reshaped(matrix, spread))


def _same_dtype(weight: Expr, factor: _Factor) -> bool:
    return tensor(weight).dtype is tensor(factor.values).dtype


def _with_args(node: Call, args: Sequence[Expr]) -> Call:
    assert isinstance(node.op, Operator)
    return typed_call(node.op, args, node.attrs, node.span)
