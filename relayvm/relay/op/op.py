"""Operators as objects: the table, operators that a program adds, and what is known of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from relayvm.base.diagnostics import error
from relayvm.ops import OPS
from relayvm.ops.operator import Fusion, Operator


class OpPattern:
    """How an operator may be fused, by TVM's numbers."""

    ELEMWISE = 0
    BROADCAST = 1
    INJECTIVE = 2
    COMM_REDUCE = 3
    OUT_ELEMWISE_FUSABLE = 4
    TUPLE = 7
    OPAQUE = 8


FUSION_PATTERN = {
    Fusion.ELEMENTWISE: OpPattern.ELEMWISE,
    Fusion.BROADCAST: OpPattern.BROADCAST,
    Fusion.INJECTIVE: OpPattern.INJECTIVE,
    Fusion.REDUCTION: OpPattern.COMM_REDUCE,
    Fusion.CONTRACTION: OpPattern.OUT_ELEMWISE_FUSABLE,
    Fusion.OPAQUE: OpPattern.OPAQUE,
}


def get(op_name: str) -> Operator:
    """Return an operator by name: a row of the table, or one that `register` made.

    Raises RelayError `unknown-operator`.
    """
    found = REGISTERED.get(op_name) or OPS.get(op_name)
    if found is None:
        raise error("unknown-operator", f"there is no operator `{op_name}`")
    return found


REGISTERED: dict[str, Operator] = {}
ATTRIBUTES: dict[str, dict[str, Any]] = {}


def register(op_name: str, describe: str = "") -> Operator:
    """Make a new operator without operands, which the methods of `Op` complete, and return it.

    Raises RelayError `bad-operator` for a name that is taken.
    """
    if op_name in OPS or op_name in REGISTERED:
        raise error("bad-operator", f"there is an operator `{op_name}` already")
    op = Operator(
        op_name, (), fusion=Fusion.OPAQUE, doc=describe, no_gradient="none was registered"
    )
    REGISTERED[op_name] = op
    return op


def set_attr(op_name: str, key: str, value: Any) -> Any:
    """Remember what `key` is for an operator, and return it; raises RelayError
    `unknown-operator`.
    """
    get(op_name)
    ATTRIBUTES.setdefault(op_name, {})[key] = value
    return value


def get_attr(op_name: str, key: str) -> Any:
    """Return what `key` is for an operator: what was set, else what its row says, else None."""
    known = ATTRIBUTES.get(op_name, {})
    if key in known:
        return known[key]
    op = get(op_name)
    if key == "TOpPattern":
        return FUSION_PATTERN[op.fusion]
    return op.has_effect if key == "TOpIsStateful" else None


def reset_attr(op_name: str, key: str) -> None:
    """Forget what was set."""
    ATTRIBUTES.get(op_name, {}).pop(key, None)


def _setter(key: str, op_name: str, value: Any, what: str) -> Any:
    """Set an attribute at once, or return a decorator that does where no value is given."""
    if value is not None:
        return set_attr(op_name, key, value)

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        set_attr(op_name, key, function)
        return function

    decorate.__doc__ = f"Set {what} of `{op_name}`."
    return decorate


def register_pattern(op_name: str, pattern: int, level: int = 10) -> Any:
    """Set how an operator may be fused: a number of `OpPattern`."""
    return set_attr(op_name, "TOpPattern", pattern)


def register_stateful(op_name: str, stateful: bool, level: int = 10) -> Any:
    """Set whether calls of an operator have effects, so that none may be left out or shared."""
    return set_attr(op_name, "TOpIsStateful", stateful)


def register_compute(op_name: str, compute: Any = None, level: int = 10) -> Any:
    """Set the loop-level definition of an operator."""
    return _setter("FTVMCompute", op_name, compute, "the compute function")


def register_gradient(op_name: str, fgradient: Any = None, level: int = 10) -> Any:
    """Set the gradient of an operator."""
    return _setter("FPrimalGradient", op_name, fgradient, "the gradient")


def register_legalize(op_name: str, legal_op: Any = None, level: int = 10) -> Any:
    """Set the function that writes calls of an operator in another form for a target."""
    return _setter("FTVMLegalize", op_name, legal_op, "the legalization")


def register_alter_op_layout(op_name: str, alter_layout: Any = None, level: int = 10) -> Any:
    """Set the function that gives calls of an operator another layout."""
    return _setter("FTVMAlterOpLayout", op_name, alter_layout, "the change of layout")


def register_convert_op_layout(op_name: str, convert_layout: Any = None, level: int = 10) -> Any:
    """Set the function that gives calls of an operator the layout that is wanted."""
    return _setter("FTVMConvertOpLayout", op_name, convert_layout, "the change of layout")


def register_mixed_precision_conversion(op_name: str, func: Any = None, level: int = 10) -> Any:
    """Set the function that says how an operator takes part in mixed precision."""
    return _setter("FTVMMixedPrecisionConversionType", op_name, func, "the mixed precision")


def register_fake_quantization_to_integer(op_name: str, func: Any = None, level: int = 10) -> Any:
    """Set the function that writes calls of an operator on fake quantized values in integers."""
    return _setter("FTVMFakeQuantizationToInteger", op_name, func, "the integer form")


def register_optional_fake_quantization_to_integer(
    op_name: str, func: Any = None, level: int = 10
) -> Any:
    """Set such a function that is only used on request."""
    key = "FTVMOptionalFakeQuantizationToInteger"
    return _setter(key, op_name, func, "the optional integer form")


def register_external_compiler(op_name: str, fexternal: Any = None, level: int = 10) -> Any:
    """Set the function that tells whether another compiler takes a call."""
    return _setter("FTVMExternalCompiler", op_name, fexternal, "the external compiler")
