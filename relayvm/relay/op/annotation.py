"""Marks on expressions that passes read, by TVM's names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from relayvm.ir.expr import Attrs, Call, Expr, Function
from relayvm.relay.lazy import absent
from relayvm.relay.op.make import call


def on_device(
    body: Expr, device: Any, constrain_result: bool = False, constrain_body: bool = True
) -> Call:
    """Return the expression, marked as one to be computed on a device."""
    return call(
        "on_device",
        body,
        device=device_name(device),
        constrain_result=constrain_result,
        constrain_body=constrain_body,
    )


def function_on_device(
    function: Function, param_devices: Sequence[Any], result_device: Any
) -> Function:
    """Return the function, marked with the devices of its parameters and of its result."""
    devices = tuple(device_name(d) for d in param_devices)
    marks = {"param_devices": devices, "result_device": device_name(result_device)}
    return replace(function, attrs=Attrs({**function.attrs, **marks}))


def device_name(device: Any) -> str:
    """Return the text of a device: its own, or what a `Device` prints as."""
    return device if isinstance(device, str) else str(device)


def stop_fusion(data: Expr) -> Call:
    """Return the expression, marked so that no kernel reaches over it."""
    return call("annotation.stop_fusion", data)


def checkpoint(data: Expr) -> Call:
    """Return the expression, marked so that gradients compute it again instead of keeping it."""
    return call("annotation.checkpoint", data)


def cast_hint(data: Expr, dtype: str) -> Call:
    """Return the expression, marked as one that quantization keeps in an element type."""
    return call("annotation.cast_hint", data, dtype=dtype)


__getattr__ = absent("relayvm.relay.op.annotation")
