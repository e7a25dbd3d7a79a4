"""Refuses calls whose constant operands mean nothing, such as a range up to infinity."""

from __future__ import annotations

from relayvm.base.abi import named_trap
from relayvm.base.diagnostics import Diagnostic, DiagnosticSink
from relayvm.base.shapes import ShapeError
from relayvm.ir.expr import Call
from relayvm.ir.module import Module
from relayvm.ir.visit import post_order
from relayvm.ops.operator import Operator


def check_operand_values(module: Module) -> None:
    """Raise RelayError where constants are no operands for an operator that looks at values.

    Only constants that the program writes: one that the optimiser finds may stand where no run
    comes by, so it traps when it is reached.
    """
    sink = DiagnosticSink()
    for function in module.functions.values():
        for node in post_order(function):
            if isinstance(node, Call) and isinstance(node.op, Operator):
                _check(node, node.op, sink)
    sink.raise_if_any()


def _check(call: Call, op: Operator, sink: DiagnosticSink) -> None:
    if not op.is_data_dependent:
        return
    types = [a.checked_type for a in call.args]
    try:
        op.constant_type([t for t in types if t is not None], call.attrs, call.args)
    except ShapeError as failure:
        if failure.code == "bad-value":
            message = named_trap(op.name, failure.message)
            sink.add(Diagnostic(failure.code, message, call.span))
