"""Variables that users bind more than once are told apart by their scopes."""

from __future__ import annotations

import numpy as np

import relayvm as tvm
from relayvm import relay
from relayvm.ir import structural_equal, verify_module
from relayvm.ir.build import pattern
from relayvm.ir.visit import bound_vars
from relayvm.relay.binders import free_variables, with_one_binder_each

X, Y = relay.var("x", "int32"), relay.var("y", "int32")


def module_of(function):
    return tvm.IRModule.from_expr(function)


def test_a_program_with_one_binder_each_is_the_same_object():
    function = relay.Function([X], relay.Let(Y, X + X, Y))
    assert with_one_binder_each(function) is function
    assert module_of(function)["main"] is function


def test_an_inner_binder_hides_an_outer_one():
    inner = relay.Function([X], X + relay.const(1))
    function = relay.Function([X], relay.Let(X, inner(X), X + X))
    wanted = relay.parse_expr(
        "fn (%x: int32) { let %z: int32 = fn (%y: int32) { %y + 1 }(%x); %z + %z }"
    )
    made = module_of(function)["main"]
    assert structural_equal(made, wanted) and len(set(bound_vars(made))) == 3
    verify_module(module_of(function).module)
    exe = tvm.compile(relay.transform.InferType()(module_of(function)).module)
    assert tvm.VirtualMachine(exe).run(np.int32(4)) == 10


def test_clauses_may_bind_the_same_variable():
    data = relay.var("d", relay.TupleType([relay.scalar_type("int32")] * 2))
    clauses = [
        relay.Clause(pattern((X, None)), X),
        relay.Clause(pattern((None, X)), X + X),
    ]
    made = module_of(relay.Function([data], relay.Match(data, clauses)))["main"]
    first, second = (c.rhs for c in made.body.clauses)
    assert first is not second.args[0] and len({first, *second.args}) == 2
    assert first is made.body.clauses[0].lhs.patterns[0].var


def test_recursion_keeps_its_name():
    f = relay.var("f")
    loop = relay.Let(f, relay.Function([X], f(X)), f(X))
    made = module_of(relay.Function([X], relay.Tuple([loop, relay.Let(f, X, f)])))["main"]
    inner = made.body.fields[0]
    assert inner.value.body.op is inner.var is inner.body.op


def test_a_variable_may_be_free_beside_its_binder():
    call = relay.Function([X], X)(X)
    assert free_variables(call) == (X,)
    main = module_of(call)["main"]
    assert main.params == (X,) and main.body.args == (X,) and main.body.op.params[0] is not X
    assert free_variables(relay.Let(Y, X, Y)) == (X,)
    assert free_variables(relay.Let(Y, Y, Y)) == (Y,)
    assert free_variables(relay.Let(Y, relay.Function([], Y), Y)) == ()


def test_long_chains_are_looked_through():
    expr = X
    for _ in range(5_000):
        expr = relay.Let(relay.var("v"), X, expr)
    assert free_variables(expr) == (X,) and with_one_binder_each(expr) is expr


def test_what_a_pass_of_the_user_gives_is_told_apart_too():
    @relay.transform.function_pass(opt_level=0)
    def twice(func, mod, ctx):
        return relay.Function([X], relay.Function([X], X)(X))

    result = twice(module_of(relay.Function([Y], Y)))
    verify_module(result.module)
