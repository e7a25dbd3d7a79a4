"""Refuses calls whose constant operands mean nothing, such as a range up to infinity."""

from __future__ import annotations

from relayvm.base.diagnostics import Diagnostic, DiagnosticSink
from relayvm.base.shapes import ShapeError
from relayvm.ir.expr import Call, Constant
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
    values = [a.data for a in call.args if isinstance(a, Constant)]
    if not op.is_data_dependent or len(values) < len(call.args):
        return
    try:
        op.value_type(values, call.attrs)
    except ShapeError as failure:
        sink.add(Diagnostic(failure.code, failure.message, call.span))
