"""Scopes of shared nodes, effects of expressions, and groups of the call graph."""

from __future__ import annotations

import numpy as np
from programs_text import typed

from relayvm.compiler.analysis.call_graph import call_graph, components, recursive_names
from relayvm.compiler.analysis.purity import Effect, Purity
from relayvm.compiler.analysis.scopes import Scopes
from relayvm.ir.expr import Call, Constant, Function, If, Let, Tuple, Var
from relayvm.ops import OPS


def one() -> Constant:
    return Constant(np.array(1, np.int32))


def negative(arg):
    return Call(OPS["negative"], (arg,))


def test_a_node_of_both_branches_belongs_to_the_scope_around_the_choice():
    x, c = Var("x"), Var("c")
    shared = negative(x)
    choice = If(c, negative(shared), shared)
    function = Function((x, c), choice)
    scopes = Scopes(function)
    assert scopes.of(shared) is scopes.of(choice) is scopes.opened(function)[0]
    assert scopes.of(choice.true_branch) is scopes.opened(choice)[0]
    assert scopes.uses(shared) == 2


def test_operands_of_a_node_that_moves_out_move_with_it():
    x, c = Var("x"), Var("c")
    inner = negative(x)
    shared = negative(inner)
    choice = If(c, Tuple((inner, shared)), shared)
    scopes = Scopes(Function((x, c), choice))
    assert scopes.of(inner) is scopes.of(shared) is scopes.of(choice)


def test_the_body_of_a_let_is_no_scope():
    x, y = Var("x"), Var("y")
    body = negative(y)
    let = Let(y, negative(x), body)
    scopes = Scopes(Function((x,), let))
    assert scopes.of(body) is scopes.of(let) is scopes.of(let.value)


def effects(text: str) -> tuple[Purity, object]:
    module = typed(text)
    return Purity(module), module


def test_a_program_without_references_is_pure():
    purity, module = effects("def @main(%f: fn (int32) -> int32, %x: int32) { %f(%x) }")
    assert purity.is_pure(module["main"].body)


def test_effects_reach_callers_through_recursion_and_local_functions():
    purity, _ = effects("""
    def @write(%r: ref(int32), %n: int32) -> () {
      let %go = fn (%k: int32) -> () {
        if (equal(%k, 0)) { ref_write(%r, 1) } else { @even(%r, subtract(%k, 1)) } };
      %go(%n) }
    def @even(%r: ref(int32), %n: int32) -> () { @write(%r, %n) }
    def @read(%r: ref(int32)) { ref_read(%r) }
    def @make(%x: int32) { ref(%x) }
    def @none(%x: int32) { add(%x, 1) }""")
    assert purity.of_call("even") == purity.of_call("write") == Effect.WRITE
    assert purity.of_call("read") == Effect.READ
    assert purity.of_call("make") == Effect.CREATE
    assert purity.of_call("none") == Effect.NONE


def test_an_unknown_function_may_do_what_any_function_does():
    purity, module = effects("""
    def @write(%r: ref(int32)) { ref_write(%r, 1) }
    def @main(%f: fn (int32) -> int32, %x: int32) { %f(%x) }""")
    assert not purity.is_removable(module["main"].body)


def test_a_function_as_a_value_has_no_effect_until_it_is_called():
    purity, module = effects("def @main(%r: ref(int32)) { fn () { ref_write(%r, 1) } }")
    assert purity.is_pure(module["main"].body)


def test_groups_come_after_what_they_call():
    graph = {"a": ["b"], "b": ["c", "a"], "c": [], "d": ["d"], "e": ["a"]}
    groups = components(graph)
    assert [sorted(g) for g in groups] == [["c"], ["a", "b"], ["d"], ["e"]]
    assert recursive_names(graph) == {"a", "b", "d"}


def test_a_long_chain_of_calls_is_no_problem():
    graph = {str(i): [str(i + 1)] for i in range(20_000)}
    assert len(components(graph)) == 20_000


def test_the_call_graph_counts_mentions_as_values():
    module = typed("def @f(%x: int32) { %x } def @main(%x: int32) { let %g = @f; %g(%x) }")
    assert call_graph(module)["main"] == ["f"]
