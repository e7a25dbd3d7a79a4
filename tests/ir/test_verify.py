"""The verifier finds each way in which a module built in Python can be malformed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from relayvm.base.diagnostics import RelayError
from relayvm.base.dims import DimVar, symbol
from relayvm.base.dtypes import BOOL, FLOAT32, INT32
from relayvm.ir.build import ScopeBuilder, call, const, function, get, if_, let, match, tuple_, var
from relayvm.ir.equal import structural_equal
from relayvm.ir.expr import Constant, Constructor, Function, Let
from relayvm.ir.module import Module, TypeData
from relayvm.ir.types import (
    GlobalTypeVar,
    ShapeArg,
    TensorType,
    TypeCall,
    TypeVar,
    scalar_type,
)
from relayvm.ir.verify import verify_module
from relayvm.ops import OPS
from tests.ir.programs import parse

ADD = OPS["add"]
I32 = scalar_type(INT32)


def problems(fn: Function, base: Module | None = None, typed: bool = False) -> str:
    base = base or Module()
    with pytest.raises(RelayError) as raised:
        verify_module(replace(base, functions={**base.functions, "main": fn}), typed=typed)
    assert {d.code for d in raised.value.diagnostics} == {"ill-formed"}
    return "\n".join(d.message for d in raised.value.diagnostics)


def test_unbound_variable():
    assert "variable `%y` is not bound in `@main`" in problems(function([var("x")], var("y")))


def test_variable_used_outside_of_its_let():
    x = var("x")
    body = tuple_(let([(x, const(1))], x), x)
    assert "used outside of its scope" in problems(function([], body))


def test_shared_node_outside_of_the_scope_of_its_variable():
    c, x = var("c"), var("x")
    shared = call(ADD, x, x)
    body = if_(c, let([(x, const(1))], shared), shared)
    assert "`%x` is used outside of its scope" in problems(function([c], body))


def test_let_of_a_value_that_is_no_function_does_not_see_itself():
    x = var("x")
    assert "outside of its scope" in problems(function([], Let(x, call(ADD, x, x), x)))


def test_let_of_a_function_sees_itself():
    f, n = var("f"), var("n")
    loop = Let(f, function([n], call(f, n)), call(f, const(1)))
    verify_module(Module({"main": function([], loop)}))


def test_variable_bound_twice():
    x = var("x")
    assert "has two binders" in problems(function([x], let([(x, const(1))], x)))


def test_variable_bound_in_two_functions():
    x = var("x")
    assert "has two binders" in problems(function([x], x), Module({"f": function([x], x)}))


def test_unknown_function_type_and_constructor():
    make = Constructor("Make", (), GlobalTypeVar("T"), 0)
    x = var("x", TypeCall(GlobalTypeVar("U"), ()))
    text = problems(function([x], tuple_(call("@f"), call(make))))
    assert "no function `@f`" in text
    assert "no constructor `Make`" in text
    assert "no type `U`" in text


def test_type_parameter_out_of_scope():
    text = problems(
        function(
            [var("x", TypeVar("A")), var("y", TensorType((symbol(DimVar("n")),), FLOAT32))],
            const(1),
        )
    )
    assert "`A` is not a type parameter here" in text
    assert "dim `n` is not a type parameter here" in text


def test_kind_of_a_data_type_argument():
    base = parse("def @f(%l: List[int32]) { %l }")
    x = var("x", TypeCall(GlobalTypeVar("List"), (ShapeArg(3),)))
    assert "argument `A` of `List` is of kind Type" in problems(function([x], x), base)


def test_pattern_with_another_number_of_fields():
    base = parse("def @f(%l: List[int32]) { %l }")
    cons = base.constructor("List", "Cons")
    x, h = var("x"), var("h")
    text = problems(function([x], match(x, ((cons, h), h))), base)
    assert "constructor `Cons` has 2 fields, not 1" in text


def test_constant_of_a_strange_array():
    assert "no tensor" in problems(function([], Constant(np.array("text"))))


def test_typed_module_needs_every_type():
    x = var("x", I32)
    assert "has no type" in problems(function([x], x), typed=True)


def test_typed_module_whose_neighbours_disagree():
    x = replace(var("x", I32), checked_type=I32)
    pair = replace(tuple_(x, x), checked_type=I32)
    text = problems(function([x], get(pair, 0)), typed=True)
    assert "but its parts make `(int32, int32)`" in text


def test_scope_builder_makes_lets_and_branches():
    scope = ScopeBuilder()
    x = var("x", scalar_type(BOOL))
    y = scope.let("y", call(ADD, const(1), const(2)))
    with scope.if_scope(x):
        scope.ret(scope.let("z", call(ADD, y, y)))
    with scope.else_scope():
        scope.ret(y)
    built = Module({"main": function([x], scope.result())})
    text = """def @main(%x: bool) {
      let %y = add(1, 2);
      if (%x) { let %z = add(%y, %y); %z } else { %y }
    }"""
    assert structural_equal(built, parse(text))


@pytest.mark.parametrize("name", ["int32", "Tensor", "_"])
def test_a_data_type_whose_name_means_something_else(name):
    header = GlobalTypeVar(name)
    data = TypeData(header, (), (Constructor("Make", (I32,), header, 0),))
    found = problems(function([], const(1)), Module(types={name: data}))
    assert f"no type can have the name `{name}`" in found
