"""What programs say of operators, and operators of their own, by TVM's names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from relayvm.relay.op_registry import (
    OpPattern,
    get,
    get_attr,
    register,
    reset_attr,
    set_attr,
)

__all__ = [
    "OpPattern",
    "get",
    "get_attr",
    "register",
    "register_alter_op_layout",
    "register_compute",
    "register_convert_op_layout",
    "register_external_compiler",
    "register_fake_quantization_to_integer",
    "register_gradient",
    "register_legalize",
    "register_mixed_precision_conversion",
    "register_optional_fake_quantization_to_integer",
    "register_pattern",
    "register_stateful",
    "reset_attr",
    "set_attr",
]


def _set(op_name: str, key: str, value: Any, level: int) -> Any:
    """Set an attribute at once, or return a decorator that does where no value is given."""
    if value is not None:
        set_attr(get(op_name), key, value, level)
        return value

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        set_attr(get(op_name), key, function, level)
        return function

    return decorate


def register_pattern(op_name: str, pattern: int, level: int = 10) -> Any:
    """Set how an operator may be fused: a number of `OpPattern`."""
    return _set(op_name, "TOpPattern", pattern, level)


def register_stateful(op_name: str, stateful: bool, level: int = 10) -> Any:
    """Set whether calls of an operator have effects, so that none may be left out or shared."""
    return _set(op_name, "TOpIsStateful", stateful, level)


def register_compute(op_name: str, compute: Any = None, level: int = 10) -> Any:
    """Set the loop-level definition of an operator."""
    return _set(op_name, "FTVMCompute", compute, level)


def register_gradient(op_name: str, fgradient: Any = None, level: int = 10) -> Any:
    """Set the gradient of an operator."""
    return _set(op_name, "FPrimalGradient", fgradient, level)


def register_legalize(op_name: str, legal_op: Any = None, level: int = 10) -> Any:
    """Set the function that writes calls of an operator in another form for a target."""
    return _set(op_name, "FTVMLegalize", legal_op, level)


def register_alter_op_layout(op_name: str, alter_layout: Any = None, level: int = 10) -> Any:
    """Set the function that gives calls of an operator another layout."""
    return _set(op_name, "FTVMAlterOpLayout", alter_layout, level)


def register_convert_op_layout(op_name: str, convert_layout: Any = None, level: int = 10) -> Any:
    """Set the function that gives calls of an operator the layout that is wanted."""
    return _set(op_name, "FTVMConvertOpLayout", convert_layout, level)


def register_mixed_precision_conversion(op_name: str, func: Any = None, level: int = 10) -> Any:
    """Set the function that says how an operator takes part in mixed precision."""
    return _set(op_name, "FTVMMixedPrecisionConversionType", func, level)


def register_fake_quantization_to_integer(op_name: str, func: Any = None, level: int = 10) -> Any:
    """Set the function that writes calls of an operator on fake quantized values in integers."""
    return _set(op_name, "FTVMFakeQuantizationToInteger", func, level)


def register_optional_fake_quantization_to_integer(
    op_name: str, func: Any = None, level: int = 10
) -> Any:
    """Set such a function that is only used on request."""
    key = "FTVMOptionalFakeQuantizationToInteger"
    return _set(op_name, key, func, level)


def register_external_compiler(op_name: str, fexternal: Any = None, level: int = 10) -> Any:
    """Set the function that tells whether another compiler takes a call."""
    return _set(op_name, "FTVMExternalCompiler", fexternal, level)
