"""Modules built in Python that no text could describe are refused by `compile`, with a message."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import relayvm
from relayvm.base.dtypes import INT32
from relayvm.ir.expr import (
    Call,
    Clause,
    Constant,
    Constructor,
    Expr,
    Function,
    GlobalVar,
    Let,
    Match,
    PatternConstructor,
    PatternVar,
    Tuple,
    TupleGetItem,
    Var,
)
from relayvm.ir.module import Module
from relayvm.ir.types import GlobalTypeVar, TensorType, TypeCall, TypeVar

INT = TensorType((), INT32)
X = Var("x", INT)
SOME = relayvm.parse("type T { A(int32), B } def @main(%x: int32) -> T { A(%x) }")
A = SOME.types["T"].constructors[0]
BEYOND = Constructor("Z", (INT,), GlobalTypeVar("T"), 7)
OTHER_NAME = Constructor("Z", (INT,), GlobalTypeVar("T"), 0)
NOWHERE = Constructor("C", (INT,), GlobalTypeVar("U"), 0)


def matched(pattern: PatternConstructor) -> Expr:
    return Match(Call(A, (X,)), (Clause(pattern, X),), False)


CASES: dict[str, tuple[Expr, str, str]] = {
    "an unknown function": (Call(GlobalVar("nope"), (X,)), "unknown-function", "`@nope`"),
    "a variable bound twice": (
        Let(X, Constant(np.array(1, np.int32)), X),
        "ill-formed",
        "`%x` is bound more than once",
    ),
    "a constructor beyond the last": (Call(BEYOND, (X,)), "ill-formed", "no constructor `Z`"),
    "another name": (Call(OTHER_NAME, (X,)), "ill-formed", "`T` has no constructor `Z`"),
    "a constructor of no type": (Call(NOWHERE, (X,)), "ill-formed", "`U` has no constructor `C`"),
    "a pattern of no constructor": (
        matched(PatternConstructor(BEYOND, (PatternVar(Var("a")),))),
        "ill-formed",
        "`T` has no constructor `Z` in `@main`",
    ),
    "a pattern of other fields": (
        matched(PatternConstructor(A, ())),
        "wrong-arity",
        "`A` has 1 field, the pattern has 0",
    ),
    "text as a constant": (Constant(np.array("a")), "ill-formed", "a constant is no tensor"),
    "a field before the first": (TupleGetItem(Tuple((X,)), -1), "tuple-index", "no field -1"),
    "a call of a number": (Call(X, (X,)), "not-a-function", "`%x` is called"),
}


@pytest.mark.parametrize("opt_level", [0, 3])
@pytest.mark.parametrize("name", CASES)
def test_a_module_is_refused_that_has(name: str, opt_level: int) -> None:
    body, code, message = CASES[name]
    module = replace(SOME, functions={"main": Function((X,), body)})
    with pytest.raises(relayvm.RelayError) as caught:
        relayvm.compile(module, opt_level=opt_level)
    assert caught.value.code == code
    assert message in str(caught.value)


def test_types_of_parameters_must_exist() -> None:
    for kind in (TypeVar("Q"), TypeCall(GlobalTypeVar("Nope"), ())):
        with pytest.raises(relayvm.RelayError):
            relayvm.compile(Module({"main": Function((Var("y", kind),), Tuple(()))}))
