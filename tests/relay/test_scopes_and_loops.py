"""Building programs by Python statements: lets, branches and loops."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm as tvm
from relayvm import relay
from relayvm.base.diagnostics import RelayError
from relayvm.compiler.passes import run_passes
from relayvm.ir import structural_equal

X = relay.var("x", "float32")
C = relay.var("c", "bool")


def test_statements_become_lets_and_branches():
    scope = relay.ScopeBuilder()
    y = scope.let("y", X + X)
    with scope.if_scope(C):
        scope.ret(scope.let(("z", relay.scalar_type("float32")), y * y))
    with scope.else_scope():
        scope.ret(X)
    wanted = relay.parse_expr(
        "free_var %x: float32; free_var %c: bool; let %y = add(%x, %x); "
        "if (%c) { let %z: float32 = multiply(%y, %y); %z } else { %x }"
    )
    assert structural_equal(scope.get(), wanted, map_free_vars=True)


def test_the_type_of_a_variable_is_its_annotation():
    scope = relay.ScopeBuilder()
    assert scope.type_of(X) == relay.scalar_type("float32")
    assert scope.type_of(X + X) is None


def test_a_tuple_wrapper_is_bound_and_returned():
    scope = relay.ScopeBuilder()
    pair = scope.let("p", relay.split(relay.var("v", shape=(2,)), 2))
    scope.ret(relay.TupleWrapper(pair, 2))
    assert scope.get().body is pair


def test_scopes_that_are_left_open_are_refused():
    with pytest.raises(RelayError, match="no result"):
        relay.ScopeBuilder().get()
    twice = relay.ScopeBuilder()
    twice.ret(X)
    with pytest.raises(RelayError, match="already has a result"):
        twice.ret(X)
    with pytest.raises(ValueError, match="Tuple\\[str, relay.Type\\]"):
        relay.ScopeBuilder().let(("a", None, None), X)
    scope = relay.ScopeBuilder()
    with pytest.raises(RelayError, match="follows an if scope"), scope.else_scope():
        pass


def test_an_error_inside_of_a_scope_is_the_users():
    scope = relay.ScopeBuilder()
    with pytest.raises(ZeroDivisionError), scope.if_scope(C):
        1 // 0


def loop():
    def cond(i, _total):
        return relay.less(i, relay.const(10))

    def body(i, total):
        return [i + relay.const(1), total + i]

    return relay.loops.while_loop(cond, [relay.var("i", "int32"), relay.var("s", "int32")], body)


def test_a_loop_is_a_recursive_function_that_returns_its_variables():
    made = loop()
    assert isinstance(made, relay.Let) and made.body is made.var
    assert [p.name_hint for p in made.value.params] == ["i", "s"]


def test_a_loop_runs():
    i = relay.var("i", "int32")
    zero = relay.const(0)
    main = relay.Function([i], relay.TupleGetItem(loop()(i, zero), 1))
    mod = tvm.IRModule.from_expr(main)
    exe = tvm.compile(mod.module)
    assert tvm.VirtualMachine(exe).run(np.int32(0)) == 45


def test_a_loop_over_expressions_takes_their_types():
    typed = relay.parse("def @main(%x: int8) { %x + 1i8 }")["main"].body
    made = relay.while_loop(lambda i: relay.const(False), [typed], lambda i: [i])
    assert made.value.params[0].type_annotation == relay.scalar_type("int8")


def test_a_loop_multiplies_all_words_by_its_weight_before_its_steps():
    words = relay.var("words", shape=(relay.Any(), 64), dtype="float32")
    weight = relay.var("weight", shape=(256, 64), dtype="float32")
    count = relay.take(relay.shape_of(words), relay.const(0))

    def body(i, h):
        word = relay.expand_dims(relay.take(words, i, axis=0), axis=0)
        return [i + relay.const(1), relay.tanh(h + relay.nn.dense(word, weight))]

    state = relay.var("h", shape=(1, 256), dtype="float32")
    loop_vars = [relay.var("i", "int32"), state]
    steps = relay.while_loop(lambda i, _h: relay.less(i, count), loop_vars, body)
    first = [relay.const(0), relay.zeros((1, 256), "float32")]
    result = relay.TupleGetItem(relay.Call(steps, first), 1)
    module = tvm.IRModule.from_expr(relay.Function([words, weight], result)).module
    text = str(run_passes(module, ["hoist_loop_contractions"]))
    assert text.index("nn.dense(%rows, %weight)") < text.index("let %block")
    plain, fast = (tvm.VirtualMachine(tvm.compile(module, opt_level=k)) for k in (0, 3))
    rng = np.random.default_rng(0)
    w = rng.standard_normal((256, 64)).astype(np.float32)
    for length in (0, 1, 5):
        x = rng.standard_normal((length, 64)).astype(np.float32)
        assert fast.run(x, w).tobytes() == plain.run(x, w).tobytes()
