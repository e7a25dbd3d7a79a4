"""Programs built in Python whose variables are bound nowhere, twice, or elsewhere are refused."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm
from relayvm import relay
from relayvm.base.dtypes import FLOAT32
from relayvm.ir.expr import Call, Constant, Expr, Function, If, Let, Tuple, Var
from relayvm.ir.module import Module
from relayvm.ir.types import TensorType
from relayvm.ops import OPS

F = TensorType((), FLOAT32)
X, Y = Var("x", F), Var("y", F)
ONE = Constant(np.array(1, np.float32))


def add(a: Expr, b: Expr) -> Expr:
    return Call(OPS["add"], (a, b))


INNER = Function((X,), add(X, X))
CASES = {
    "bound nowhere": (Function((X,), add(X, Y)), "unknown-variable", "`%y` is bound nowhere"),
    "bound twice": (Function((X,), Call(INNER, (X,))), "ill-formed", "`%x` is bound more than"),
    "out of its scope": (
        Function((X,), Tuple((Let(Y, ONE, add(X, Y)), Y))),
        "ill-formed",
        "`%y` is used in `@main` outside of its scope",
    ),
    "bound in the other branch": (
        Function((X,), If(Constant(np.array(True)), Let(Y, ONE, Y), add(X, Y))),
        "ill-formed",
        "`%y` is used in `@main` outside of its scope",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_program_with_a_variable_is_refused_that_is(name: str) -> None:
    function, code, message = CASES[name]
    with pytest.raises(relayvm.RelayError) as caught:
        relayvm.compile(Module({"main": function}))
    assert caught.value.code == code
    assert message in str(caught.value)


@pytest.mark.parametrize("kind", ["debug", "vm"])
def test_executors_refuse_an_expression_with_a_free_variable(kind: str) -> None:
    with pytest.raises(relayvm.RelayError, match="`%y` is bound nowhere"):
        relay.create_executor(kind).evaluate(relay.add(Y, Y))


def test_what_is_bound_in_one_place_and_shared_compiles() -> None:
    shared = Let(Y, add(X, ONE), add(Y, Y))
    function = Function((X,), add(shared, shared))
    exe = relayvm.compile(Module({"main": function, "again": function}))
    assert relayvm.VirtualMachine(exe).run(np.float32(2)) == 12
