"""Typed modules: nothing untyped, nothing rebuilt in vain, spans kept, any depth."""

from __future__ import annotations

import numpy as np
import pytest
from inference import typed

from relayvm.base.diagnostics import RelayError
from relayvm.base.dtypes import BOOL, FLOAT32
from relayvm.base.source import Source
from relayvm.compiler.infer_types import infer_expr, infer_types, type_of
from relayvm.ir.expr import (
    Call,
    Constant,
    Constructor,
    Function,
    GlobalVar,
    If,
    Let,
    Op,
    RefCreate,
    Tuple,
    TupleGetItem,
    Var,
)
from relayvm.ir.module import Module
from relayvm.ir.prelude import parse_program
from relayvm.ir.printer import print_type
from relayvm.ir.types import TensorType, scalar_type
from relayvm.ir.visit import post_order
from relayvm.ops import OPS

TENSOR = TensorType((3, 4), FLOAT32)
EXP, ADD = OPS["exp"], OPS["add"]
DEPTH = 10_000

PROGRAM = """
type Shape { Square(float32), Rectangle(float32, float32) }
def @area(%s: Shape) {
  match (%s) { Square(%a) => %a * %a, Rectangle(%a, %b) => %a * %b }
}
def @main(%x: Tensor[(3), float32], %c: bool) {
  let %r = ref(%x);
  let %f = fn (%y) { if (%c) { %y } else { ref_read(%r) } };
  ref_write(%r, %f(exp(%x)));
  (@area(Square(2f)), %f(%x), (1, 2).0)
}
"""


def test_every_expression_has_a_type():
    module = typed(PROGRAM)
    for function in module.functions.values():
        for node in post_order(function):
            callee = isinstance(node, (Op, Constructor))
            assert callee or node.checked_type is not None, node


def test_every_variable_and_function_is_annotated():
    module = typed(PROGRAM)
    for function in module.functions.values():
        for node in post_order(function):
            assert not isinstance(node, Var) or node.type_annotation is not None
            assert not isinstance(node, Function) or node.ret_type is not None


def test_spans_are_kept():
    module = parse_program(Source("test.rly", PROGRAM), OPS)
    before = [n.span for n in post_order(module.functions["main"])]
    after = [n.span for n in post_order(infer_types(module).functions["main"])]
    assert before == after


def test_a_shared_node_stays_shared():
    x = Var("x", TENSOR)
    shared = Call(EXP, (x,))
    typed_function = infer_expr(Function((x,), Call(ADD, (shared, shared))))
    assert isinstance(typed_function, Function) and isinstance(typed_function.body, Call)
    assert typed_function.body.args[0] is typed_function.body.args[1]


def test_operators_stay_the_rows_of_the_table():
    module = typed("def @main(%x: float32) { exp(%x) }")
    body = module.functions["main"].body
    assert isinstance(body, Call) and body.op is EXP


def test_free_variables_of_an_expression_stay_the_same_objects():
    x = Var("x", TENSOR)
    call = infer_expr(Call(EXP, (x,)))
    assert isinstance(call, Call) and call.args[0] is x
    assert call.checked_type == TENSOR


def test_free_variables_take_their_types_from_the_environment():
    x = Var("x")
    assert type_of(Call(EXP, (x,)), env={x: TENSOR}) == TENSOR


def test_an_expression_may_use_functions_of_a_module():
    module = parse_program(Source("test.rly", "def @f(%x: int32) { (%x, 1f) }"), OPS)
    one = Constant(np.array(1, np.int32))
    assert print_type(type_of(Call(GlobalVar("f"), (one,)), module)) == "(int32, float32)"


def test_the_type_of_a_typed_expression_is_not_inferred_again():
    constant = infer_expr(Constant(np.zeros((2, 3), np.int8)))
    assert type_of(constant) is constant.checked_type


def test_an_unknown_global_function_is_an_error():
    with pytest.raises(RelayError) as raised:
        infer_expr(Call(GlobalVar("nowhere"), ()), Module())
    assert raised.value.code == "unknown-function"


def test_errors_without_spans_are_reported_too():
    x, y = Var("x", TensorType((2,), FLOAT32)), Var("y", TensorType((3,), FLOAT32))
    with pytest.raises(RelayError) as raised:
        infer_expr(Function((x, y), Call(ADD, (x, y))))
    assert raised.value.code == "shape-mismatch"


def nested_calls(x, c):
    expr = x
    for _ in range(DEPTH):
        expr = Call(ADD, (expr, expr))
    return expr


def let_chain(x, c):
    names = [Var(f"v{i}") for i in range(DEPTH)]
    values = [Call(EXP, (v,)) for v in (x, *names)]
    body = names[-1]
    for var, value in zip(reversed(names), reversed(values[:-1])):
        body = Let(var, value, body)
    return body


def nested_let_values(x, c):
    expr = x
    for _ in range(DEPTH):
        var = Var("v")
        expr = Let(var, expr, var)
    return expr


def nested_tuples(x, c):
    expr = x
    for _ in range(DEPTH):
        expr = Tuple((expr,))
    for _ in range(DEPTH):
        expr = TupleGetItem(expr, 0)
    return expr


def nested_ifs(x, c):
    expr = x
    for _ in range(DEPTH):
        expr = If(c, expr, x)
    return expr


def nested_functions(x, c):
    expr = x
    for _ in range(DEPTH):
        expr = Function((), expr)
    return expr


def nested_references(x, c):
    expr = x
    for _ in range(DEPTH):
        expr = RefCreate(expr)
    return expr


@pytest.mark.slow
@pytest.mark.parametrize(
    "build",
    [
        nested_calls,
        let_chain,
        nested_let_values,
        nested_tuples,
        nested_ifs,
        nested_functions,
        nested_references,
    ],
)
def test_depth_is_no_limit(build):
    x, c = Var("x", TENSOR), Var("c", scalar_type(BOOL))
    function = infer_expr(Function((x, c), build(x, c)))
    assert infer_expr(function) is function
