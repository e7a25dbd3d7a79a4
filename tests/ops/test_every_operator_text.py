"""Every operator with its attributes survives text: what was written is read as the same call."""

from __future__ import annotations

import pytest
from operator_cases import CASES, Case

from relayvm.ir.build import function, var
from relayvm.ir.equal import structural_equal
from relayvm.ir.expr import Attrs, Call, Expr, Function, Tuple
from relayvm.ir.module import Module
from relayvm.ir.parser import parse_module
from relayvm.ir.printer import print_module
from relayvm.ops import OPS
from relayvm.ops.operator import Operator


def call_of(op: Operator, case: Case, attrs: Attrs) -> Function:
    """Return a function that calls the operator on its parameters."""
    params = []
    args: list[Expr] = []
    for i, shape in enumerate(case.shapes):
        made = [var(f"x{i}_{j}") for j in range(len(shape) if isinstance(shape, list) else 1)]
        params += made
        args.append(Tuple(tuple(made)) if isinstance(shape, list) else made[0])
    return function(params, Call(op, tuple(args), attrs))


@pytest.mark.parametrize("name", sorted(CASES))
def test_calls_with_their_attributes_are_read_back(name: str) -> None:
    op = OPS[name]
    cases = CASES[name]
    written = {f"w{i}": call_of(op, case, Attrs(case.attrs)) for i, case in enumerate(cases)}
    # With every attribute, in the form that the operator itself uses.
    complete = {
        f"c{i}": call_of(op, case, Attrs(op.complete_attrs(case.attrs)))
        for i, case in enumerate(cases)
    }
    text = print_module(Module({**written, **complete}))
    again = parse_module(text, OPS)
    assert print_module(again) == text
    for i, case in enumerate(cases):
        call = again[f"w{i}"].body
        assert isinstance(call, Call)
        assert op.complete_attrs(call.attrs) == op.complete_attrs(case.attrs)
        assert structural_equal(again[f"c{i}"], complete[f"c{i}"])
