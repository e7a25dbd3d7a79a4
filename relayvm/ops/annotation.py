"""Annotations: operators that return their operand and tell passes something about it."""

from __future__ import annotations

from relayvm.base.dtypes import FLOAT32, DType
from relayvm.ir.expr import Expr
from relayvm.ir.types import TensorType
from relayvm.kernels.compute import Tensor
from relayvm.ops.loads import broadcast_compute
from relayvm.ops.numeric import Array
from relayvm.ops.operator import Fusion, GradientCall, operator
from relayvm.ops.schema import AnyTensor


def _same(data: Tensor, name: str) -> Tensor:
    return broadcast_compute((data,), lambda x: x, name)


@operator("annotation.stop_fusion", fusion=Fusion.OPAQUE)
def stop_fusion(data: AnyTensor) -> TensorType:
    """The operand; `fuse_ops` groups nothing across it.

    >>> %x = float32 [1, 2]
    >>> annotation.stop_fusion(%x)
    [1, 2]
    """
    return TensorType(data.shape, data.dtype)


@stop_fusion.numpy
def _(data: Array) -> Array:
    return data


@stop_fusion.compute
def _(data: Tensor) -> Tensor:
    return _same(data, "stop_fusion")


@stop_fusion.gradient
def _(call: GradientCall, g: Expr) -> tuple[Expr | None, ...]:
    return (g,)


@operator("annotation.checkpoint", fusion=Fusion.OPAQUE)
def checkpoint(data: AnyTensor) -> TensorType:
    """The operand; gradients compute what lies behind it anew and do not keep it.

    >>> %x = float32 [1, 2]
    >>> annotation.checkpoint(%x)
    [1, 2]
    """
    return TensorType(data.shape, data.dtype)


@checkpoint.numpy
def _(data: Array) -> Array:
    return data


@checkpoint.compute
def _(data: Tensor) -> Tensor:
    return _same(data, "checkpoint")


@checkpoint.gradient
def _(call: GradientCall, g: Expr) -> tuple[Expr | None, ...]:
    return (g,)


@operator("annotation.cast_hint", fusion=Fusion.OPAQUE)
def cast_hint(data: AnyTensor, *, dtype: DType = FLOAT32) -> TensorType:
    """The operand; `dtype` is what quantisation may hold it in.

    >>> %x = float32 [1, 2]
    >>> annotation.cast_hint(%x, dtype="int8")
    [1, 2]
    """
    return TensorType(data.shape, data.dtype)


@cast_hint.numpy
def _(data: Array, *, dtype: DType) -> Array:
    return data


@cast_hint.compute
def _(data: Tensor, *, dtype: DType) -> Tensor:
    return _same(data, "cast_hint")


@cast_hint.gradient
def _(call: GradientCall, g: Expr) -> tuple[Expr | None, ...]:
    return (g,)


@operator("on_device", fusion=Fusion.OPAQUE)
def on_device(
    body: AnyTensor,
    *,
    device: str = "",
    constrain_result: bool = False,
    constrain_body: bool = True,
) -> TensorType:
    """The operand, which is computed on a device: `"cpu"`, or `""` for any.

    `constrain_body` places what computes the operand, `constrain_result` who uses it.

    >>> %x = float32 [1, 2]
    >>> on_device(%x, device="cpu")
    [1, 2]
    """
    return TensorType(body.shape, body.dtype)


@on_device.numpy
def _(body: Array, *, device: str, constrain_result: bool, constrain_body: bool) -> Array:
    return body


@on_device.compute
def _(body: Tensor, *, device: str, constrain_result: bool, constrain_body: bool) -> Tensor:
    return _same(body, "on_device")


@on_device.gradient
def _(call: GradientCall, g: Expr) -> tuple[Expr | None, ...]:
    return (g,)


@operator("device_copy", fusion=Fusion.OPAQUE)
def device_copy(data: AnyTensor, *, src_device: str = "", dst_device: str = "") -> TensorType:
    """The operand, copied from the memory of one device to that of another.

    >>> %x = float32 [1, 2]
    >>> device_copy(%x, src_device="cpu", dst_device="cpu")
    [1, 2]
    """
    return TensorType(data.shape, data.dtype)


@device_copy.numpy
def _(data: Array, *, src_device: str, dst_device: str) -> Array:
    return data


@device_copy.compute
def _(data: Tensor, *, src_device: str, dst_device: str) -> Tensor:
    return _same(data, "device_copy")


@device_copy.gradient
def _(call: GradientCall, g: Expr) -> tuple[Expr | None, ...]:
    return (g,)


OPERATORS = (stop_fusion, checkpoint, cast_hint, on_device, device_copy)
