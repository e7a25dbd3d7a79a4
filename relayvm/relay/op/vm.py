"""Operators of the machine's own dialect, by TVM's names."""

from __future__ import annotations

from typing import Any

from relayvm.ir.expr import Call, Expr
from relayvm.relay.op.make import call, sizes


def shape_of(expr: Expr) -> Call:
    """Return the sizes of a tensor, as a vector of 64-bit integers."""
    return call("vm.shape_of", expr)


def invoke_tvm_op(func: Expr, inputs: Expr, outputs: Expr) -> Call:
    """Return the call of a kernel that writes its results into given tensors."""
    return call("vm.invoke_tvm_op", func, inputs, outputs)


def shape_func(func: Expr, inputs: Expr, outputs: Expr, is_input: Any) -> Call:
    """Return the call of the function that computes the shapes of a kernel's results."""
    return call("vm.shape_func", func, inputs, outputs, is_input=is_input)


def reshape_tensor(data: Expr, shape: Expr, newshape: Any) -> Call:
    """Return the elements of a tensor in another shape, without a copy."""
    return call("vm.reshape_tensor", data, shape, newshape=sizes(newshape))
