"""Gradients of convolutions: each of the three maps has the other two."""

from __future__ import annotations

from typing import Any

from relayvm.base.dtypes import DType
from relayvm.ir.expr import Expr, TupleGetItem
from relayvm.ir.types import TensorType
from relayvm.ops.convolution import CONVOLUTIONS, TRANSPOSED, swapped
from relayvm.ops.convolution_gradients import (
    DATA_GRADS,
    WEIGHT_GRADS,
    backward_attributes,
    conv2d_backward_weight,
)
from relayvm.ops.correlation import correlation, correlation_change, correlation_grad
from relayvm.ops.deformable import deformable_conv2d
from relayvm.ops.deformable_grads import deformable_conv2d_grad
from relayvm.ops.elementwise import cast
from relayvm.ops.gradient_elementwise import Gradients
from relayvm.ops.linalg import matmul
from relayvm.ops.movement import transpose
from relayvm.ops.operator import GradientCall, Operator
from relayvm.ops.packed import contrib_dense_pack
from relayvm.ops.reshaping import reshape, reshape_like

_SHARED = tuple(a.name for a in DATA_GRADS[0].attributes)


def _as(g: Expr, given: DType, wanted: DType) -> Expr:
    return g if given is wanted else cast(g, dtype=wanted)


def _shared(attrs: Any) -> dict[str, Any]:
    return {name: attrs[name] for name in _SHARED}


def _output_dtype(call: GradientCall) -> DType:
    assert isinstance(call.output_type, TensorType)
    return call.output_type.dtype


def _convolution(data_grad: Operator, weight_grad: Operator) -> Any:
    def gradient(call: GradientCall, g: Expr) -> Gradients:
        attrs, given = _shared(call.attrs), _output_dtype(call)
        x, w = call.type_of("data").dtype, call.type_of("weight").dtype
        return (
            data_grad(_as(g, given, x), call.weight, call.data, **attrs),
            weight_grad(_as(g, given, w), call.data, call.weight, **attrs),
        )

    return gradient


def _transposed(convolution: Operator, weight_grad: Operator) -> Any:
    # The map from the data d to the result r is r = A^T d, where A is a convolution.
    def gradient(call: GradientCall, g: Expr) -> Gradients:
        attrs, given = _shared(swapped(call.attrs)), _output_dtype(call)
        x, w = call.type_of("data").dtype, call.type_of("weight").dtype
        g = _as(g, given, x)
        return (
            convolution(g, call.weight, **attrs),
            _as(weight_grad(call.data, g, call.weight, **attrs), x, w),
        )

    return gradient


def _of_data_grad(convolution: Operator, weight_grad: Operator) -> Any:
    def gradient(call: GradientCall, g: Expr) -> Gradients:
        attrs, given = _shared(call.attrs), call.type_of("grad").dtype
        w = call.type_of("weight").dtype
        of_weight = weight_grad(call.grad, g, call.weight, **attrs)
        return convolution(g, call.weight, **attrs), _as(of_weight, given, w), None

    return gradient


def _of_weight_grad(convolution: Operator, data_grad: Operator) -> Any:
    def gradient(call: GradientCall, g: Expr) -> Gradients:
        attrs, given = _shared(call.attrs), call.type_of("grad").dtype
        x = call.type_of("data").dtype
        of_grad = _as(convolution(call.data, g, **attrs), x, given)
        return of_grad, _as(data_grad(call.grad, g, call.data, **attrs), given, x), None

    return gradient


for _conv, _back, _data, _weight in zip(CONVOLUTIONS, TRANSPOSED, DATA_GRADS, WEIGHT_GRADS):
    _conv.gradient(_convolution(_data, _weight))
    _back.gradient(_transposed(_conv, _weight))
    _data.gradient(_of_data_grad(_conv, _weight))
    _weight.gradient(_of_weight_grad(_conv, _data))


@conv2d_backward_weight.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    attrs, given = _shared(backward_attributes(call.attrs)), _output_dtype(call)
    grad, x = call.type_of("grad").dtype, call.type_of("data").dtype
    g = _as(g, given, grad)
    of_grad = _as(CONVOLUTIONS[1](call.data, g, **attrs), x, grad)
    return of_grad, _as(DATA_GRADS[1](call.grad, g, call.data, **attrs), grad, x)


@contrib_dense_pack.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    # With W [k, units], the blocks side by side: dx = g W^T, dW = x^T g
    dtype = call.type_of("data").dtype
    g = _as(g, _output_dtype(call), dtype)
    plain = reshape(transpose(call.weight, axes=(1, 0, 2)), newshape=(0, -3))
    of_weight = matmul(call.data, g, transpose_a=True)
    blocks = reshape_like(of_weight, transpose(call.weight, axes=(1, 0, 2)))
    return matmul(g, plain, transpose_b=True), transpose(blocks, axes=(1, 0, 2))


@deformable_conv2d.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    slope = _as(g, _output_dtype(call), call.type_of("data").dtype)
    given = {**call.attrs, "out_dtype": None}
    all_three = deformable_conv2d_grad(slope, *call.args, **given)
    return tuple(TupleGetItem(all_three, k) for k in range(3))


@correlation.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    return (
        correlation_grad(g, call.data1, call.data2, **call.attrs),
        correlation_grad(g, call.data1, call.data2, second=True, **call.attrs),
    )


@correlation_grad.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    attrs = {name: value for name, value in call.attrs.items() if name != "second"}
    if not call.is_multiply:
        # Signs of differences change by jumps.
        own = {name: value for name, value in call.attrs.items() if name != "is_multiply"}
        return correlation_change(g, call.data1, call.data2, **own), None, None
    # A correlation of products is linear in each of both: it goes on with `g` for the one whose
    # gradient this is.
    if call.second:
        of_first = correlation_grad(call.grad, call.data1, g, **attrs)
        return correlation(call.data1, g, **attrs), of_first, None
    of_second = correlation_grad(call.grad, g, call.data2, second=True, **attrs)
    return correlation(g, call.data2, **attrs), None, of_second


@correlation_change.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    # Linear in the change, with the signs of the differences as factors.
    of_change = correlation_grad(g, call.data1, call.data2, is_multiply=False, **call.attrs)
    return of_change, None, None
