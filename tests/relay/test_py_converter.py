"""`relay.testing.py_converter`: programs as Python, by TVM's names."""

from __future__ import annotations

import ast

import numpy as np

import relayvm as tvm
from relayvm import relay
from relayvm.relay.testing import run_as_python
from relayvm.relay.testing.py_converter import to_python


def test_an_expression_gives_its_value():
    x = relay.var("x", shape=(), dtype="int32")
    expr = relay.Let(x, relay.const(3), relay.Tuple([x + x, relay.Tuple([])]))
    result = run_as_python(expr)
    assert int(result[0].numpy()) == 6 and len(result[1]) == 0


def test_a_function_gives_a_function_of_python():
    x = relay.var("x", shape=(2,))
    run = run_as_python(relay.Function([x], relay.tanh(x)))
    np.testing.assert_array_equal(run(np.ones(2, "float32")).numpy(), np.tanh(np.ones(2, "f4")))


def test_references_and_data_of_the_prelude_work():
    mod = tvm.IRModule()
    prelude = relay.prelude.Prelude(mod)
    _, cons, nil = mod.get_type("List")[0], *mod.get_type("List")[1:]
    one = cons(relay.const(1), cons(relay.const(2), nil()))
    value = run_as_python(prelude.mod.get_global_var("sum")(one), mod)
    assert int(value.numpy()) == 3
    r = relay.var("r")
    body = relay.Let(r, relay.RefCreate(one), relay.RefRead(r))
    result = run_as_python(body, mod)
    assert result.constructor.name == "Cons" and int(result.fields[0].numpy()) == 1


def test_the_python_is_a_syntax_tree():
    x = relay.var("x", shape=(), dtype="float32")
    tree = to_python(relay.Function([x], x * relay.const(2.0)))
    assert isinstance(tree, ast.Module)
    assert "return x * np.float32(2)" in ast.unparse(tree)
