"""`relay.analysis` by TVM's names."""

from __future__ import annotations

import inspect

import pytest

import relayvm as tvm
from relayvm import relay
from relayvm.relay import analysis
from relayvm.relay.analysis import CallGraph, Feature, detect_feature

SIGNATURES = {
    "all_dtypes": "expr",
    "all_type_vars": "expr, mod=None",
    "all_vars": "expr",
    "bound_type_vars": "expr, mod=None",
    "bound_vars": "expr",
    "check_basic_block_normal_form": "expr",
    "check_constant": "expr",
    "check_kind": "t, mod=None",
    "count_layers": "expr, valid_ops",
    "detect_feature": "a, b=None",
    "extract_fused_functions": "mod",
    "extract_intermdeiate_expr": "mod, expr_id",
    "free_type_vars": "expr, mod=None",
    "free_vars": "expr",
    "get_total_mac_number": "expr",
    "list_fake_quantized_op_freqs": "mod",
    "list_op_freqs": "mod",
    "post_order_visit": "expr, fvisit",
    "search_fc_transpose": "expr",
    "unmatched_cases": "match, mod=None",
    "well_formed": "expr",
}


@pytest.mark.parametrize("name", SIGNATURES)
def test_names_and_defaults_are_the_originals(name):
    parameters = inspect.signature(getattr(analysis, name)).parameters.values()
    shown = [p.name if p.default is p.empty else f"{p.name}={p.default}" for p in parameters]
    assert ", ".join(shown) == SIGNATURES[name]


def test_features_of_an_expression_and_of_a_module():
    x = relay.var("x", shape=(2,), dtype="float32")
    assert detect_feature(relay.Tuple([x])) == {Feature.fVar, Feature.fTuple}
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.exp(x)))
    assert Feature.fCall in detect_feature(mod)
    assert len(Feature) == 17


def test_variables_of_an_expression():
    x, y = (relay.var(n, shape=(2,), dtype="float32") for n in "xy")
    function = relay.Function([x], relay.add(x, y))
    assert relay.analysis.free_vars(function) == [y]
    assert relay.analysis.bound_vars(function) == [x]
    assert relay.analysis.all_dtypes(function) == {"float32"}
    assert relay.analysis.well_formed(function)


def test_kinds():
    a = relay.TypeVar("a")
    assert relay.analysis.check_kind(relay.TupleType([a])) == relay.TypeKind.Type
    shape = relay.TypeVar("s", relay.TypeKind.ShapeVar)
    assert relay.analysis.check_kind(shape) == relay.TypeKind.ShapeVar
    with pytest.raises(Exception, match="dim"):
        relay.analysis.check_kind(relay.TupleType([a, shape]))


def test_the_call_graph_of_a_recursive_function():
    mod = relay.fromtext("""#[version = "0.0.5"]
    def @sum_up(%i: int32) -> int32 {
      if (equal(%i, 0)) { %i } else { add(@sum_up(subtract(%i, 1)), %i) } }
    def @main() -> int32 { @sum_up(10) }""")
    graph = CallGraph(mod)
    assert graph.is_recursive("sum_up") and not graph.is_recursive("main")
    assert graph.ref_count("sum_up") == 2 and graph.global_call_count("main") == 1
    assert "`@sum_up`" in str(graph)


def test_counts_and_parts():
    x = relay.var("x", shape=(4, 8), dtype="float32")
    w = relay.var("w", shape=(2, 8), dtype="float32")
    mod = tvm.IRModule.from_expr(relay.Function([x, w], relay.nn.relu(relay.nn.dense(x, w))))
    mod = relay.transform.InferType()(mod)
    assert relay.analysis.list_op_freqs(mod) == {"nn.dense": 1, "nn.relu": 1}
    assert relay.analysis.get_total_mac_number(mod["main"]) == 4 * 8 * 2
    assert relay.analysis.count_layers(mod, ["nn.dense"]) == 1
    assert len(relay.analysis.extract_fused_functions(mod)) == 1
    part = relay.analysis.extract_intermdeiate_expr(mod, 0)
    assert relay.analysis.list_op_freqs(part) == {"nn.dense": 1}


def test_post_order_visits_each_node_once():
    x = relay.var("x", shape=(2,), dtype="float32")
    shared = relay.exp(x)
    seen = []
    relay.analysis.post_order_visit(relay.add(shared, shared), seen.append)
    assert sum(node is shared for node in seen) == 1
    assert seen[-1] not in (x, shared)


def test_patterns_print_as_their_text() -> None:
    text = "def @main(%l: List[int32]) { match? (%l) { Cons(%x, Cons(_, _)) => %x } }"
    mod = relay.parse(text)
    missing = relay.analysis.unmatched_cases(mod["main"].body, mod)
    assert [str(pattern) for pattern in missing] == ["Cons(_, Nil)", "Nil"]
