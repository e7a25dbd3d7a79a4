"""Questions about programs: variables, features, scopes, calls, counts, parts."""

from __future__ import annotations

import numpy as np
import pytest
from programs_text import parsed, typed

from relayvm.base.diagnostics import RelayError
from relayvm.base.dtypes import BOOL, FLOAT32, INT32
from relayvm.compiler.analysis.call_graph import CallGraph
from relayvm.compiler.analysis.dominance import PostDominators
from relayvm.compiler.analysis.extraction import intermediate, primitive_functions
from relayvm.compiler.analysis.features import Feature, detect_features
from relayvm.compiler.analysis.operator_counts import (
    fake_quantized_frequencies,
    is_constant,
    layer_count,
    multiply_accumulates,
    operator_frequencies,
    transposed_weights,
)
from relayvm.compiler.analysis.traps import is_inert
from relayvm.compiler.analysis.variables import (
    all_dtypes,
    all_type_vars,
    all_vars,
    bound_type_vars,
    bound_vars,
    free_type_vars,
    free_vars,
    is_well_formed,
)
from relayvm.compiler.evaluate import Evaluator
from relayvm.compiler.inference.match_coverage import unmatched_cases
from relayvm.compiler.passes import run_passes
from relayvm.compiler.transforms.to_basic_block_normal_form import is_basic_block_normal_form
from relayvm.ir.expr import Call, Constant, Function, If, Let, Match, Tuple, Var
from relayvm.ir.types import FuncType, TensorType, TypeVar, scalar_type
from relayvm.ir.visit import post_order
from relayvm.ops import OPS


def negative(arg):
    return Call(OPS["negative"], (arg,))


# -- Variables ------------------------------------------------------------------------------------


def test_variables_come_in_the_order_in_which_they_are_met():
    x, y, z = Var("x"), Var("y"), Var("z")
    expr = Let(y, negative(x), Call(OPS["add"], (y, z)))
    assert all_vars(expr) == (y, x, z)
    assert bound_vars(expr) == (y,)
    assert free_vars(expr) == (x, z)


def test_parameters_and_pattern_variables_are_bound():
    main = parsed("def @main(%l: List[int32]) { match (%l) { Cons(%h, _) => %h, Nil => 0 } }")[
        "main"
    ]
    assert [v.name for v in bound_vars(main)] == ["l", "h"]
    assert free_vars(main) == ()


def test_type_variables_of_functions_and_types():
    a, b = TypeVar("A"), TypeVar("B")
    x = Var("x", a)
    function = Function((x,), x, b, (a,))
    assert free_type_vars(function) == (b,)
    assert bound_type_vars(function) == (a,)
    assert set(all_type_vars(function)) == {a, b}
    assert free_type_vars(FuncType((a,), b, (a,))) == (b,)


def test_dtypes_of_constants_annotations_and_results():
    module = typed('def @main(%x: Tensor[(2), float32]) { (equal(cast(%x, dtype="int32"), 1),) }')
    assert all_dtypes(module["main"]) == {FLOAT32, INT32, BOOL}


def test_a_variable_with_two_binders_or_outside_of_its_scope_is_not_well_formed():
    x, y = Var("x"), Var("y")
    one = Constant(np.array(1, np.int32))
    assert is_well_formed(Let(x, one, Let(y, x, y)))
    assert not is_well_formed(Let(x, one, Let(x, one, x)))
    assert not is_well_formed(Tuple((Let(x, one, x), x)))
    assert not is_well_formed(Let(x, negative(x), x))
    assert is_well_formed(Let(x, Function((y,), Call(x, (y,))), x))


# -- Features -------------------------------------------------------------------------------------


def test_features_of_a_program_with_everything():
    module = parsed("""def @main(%n: int32, %o: Option[int32]) {
      let %f = fn (%i: int32) -> int32 { if (equal(%i, 0)) { 0 } else { %f(subtract(%i, 1)) } };
      let %r = ref(%f(%n));
      ref_write(%r, (@main(ref_read(%r), Some(1)), 2).0);
      match (%o) { Some(%v) => %v, None => 0 }
    }""")
    missing = set(Feature) - detect_features(module)
    assert missing == {Feature.fGraph}


def test_a_shared_node_is_a_graph_and_a_shared_leaf_is_none():
    x = Var("x")
    shared = negative(x)
    assert Feature.fGraph in detect_features(Tuple((shared, shared)))
    assert Feature.fGraph not in detect_features(Tuple((x, x)))


def test_a_primitive_function_is_a_function_and_nothing_more():
    module = parsed("def @main(%x: int32, Primitive=1) -> int32 { add(%x, 1) }")
    assert detect_features(module) == {Feature.fFunction}


def test_a_let_that_shadows_nothing_is_not_recursive():
    module = parsed("def @main(%x: int32) { let %f = fn (%y: int32) { %y }; %f(%x) }")
    assert Feature.fLetRec not in detect_features(module)


# -- Scopes ---------------------------------------------------------------------------------------


def test_basic_block_normal_form_is_lost_where_branches_share():
    x, c = Var("x"), Var("c")
    shared = negative(x)
    assert is_basic_block_normal_form(Tuple((shared, shared)))
    assert not is_basic_block_normal_form(If(c, shared, negative(shared)))
    assert not is_basic_block_normal_form(Tuple((Function((), shared), shared)))


def test_basic_block_normal_form_is_gained_by_the_pass():
    module = parsed("""def @main(%n: int32) { %0 = multiply(%n, 2);
      if (equal(%n, 0)) { %0 }
      else { match (Some(%0)) { Some(%v) => add(%v, %0), None => %0 } } }""")
    assert not is_basic_block_normal_form(module["main"])
    after = run_passes(module, ["to_basic_block_normal_form"], verify=True)
    assert is_basic_block_normal_form(after["main"])


def test_post_dominators_take_the_greatest_edge_on_the_way():
    # 0 -> 1, 2; 1 -> 3 (edge 5); 2 -> 3; 3 -> 4
    links = [[(1, 0), (2, 0)], [(3, 5)], [(3, 1)], [(4, 0)], []]
    found = PostDominators(links, 0)
    assert found.parent == [3, 3, 3, 4, None]
    assert found.pattern == [5, 5, 1, 0, 0]


def test_post_dominators_of_a_long_chain_with_a_shared_first_node():
    count = 20_000
    links: list = [[(i + 1, 0)] for i in range(count)] + [[]]
    links[0] = [(i, 0) for i in range(1, count)]
    assert PostDominators(links, 0).parent[0] == count - 1


def test_nodes_that_leave_the_graph_dominate_nothing():
    assert PostDominators([[(1, 0), (2, 0)], None, []], 0).parent == [None, None, None]


# -- Calls ----------------------------------------------------------------------------------------


def test_the_call_graph_counts_values_as_mentions():
    module = parsed("""def @even(%n: int32) -> bool { if (equal(%n, 0)) { True } else { @odd(%n) } }
    def @odd(%n: int32) -> bool { if (equal(%n, 0)) { False } else { @even(%n) } }
    def @use(%f: fn (int32) -> bool) -> bool { %f(3) }
    def @main() -> bool { let %a = @use(@odd); @use(@odd) }""")
    graph = CallGraph.of(module)
    assert graph.callees["main"] == ("use", "odd")
    assert graph.callers["odd"] == ("even", "main")
    assert graph.recursive == {"even", "odd"}
    assert graph.order.index("odd") < graph.order.index("main")


def test_unmatched_cases_are_patterns():
    module = parsed("""def @main(%l: List[Option[int32]]) {
      match? (%l) { Cons(Some(_), _) => 1, Nil => 0 } }""")
    match = next(n for n in post_order(module["main"]) if isinstance(n, Match))
    (missing,) = unmatched_cases(match, module)
    assert missing.constructor.name == "Cons"
    assert missing.patterns[0].constructor.name == "None"


# -- Counts ---------------------------------------------------------------------------------------


def test_operators_are_counted_in_all_functions():
    module = parsed("""def @f(%x: int32) { add(%x, 1) }
    def @main(%x: int32) { let %g = fn (%y: int32) { multiply(add(%y, 1), 2) }; %g(@f(%x)) }""")
    assert operator_frequencies(module) == {"add": 2, "multiply": 1}


def test_layers_are_counted_along_the_deepest_way():
    main = parsed("""def @main(%x: Tensor[(2, 2), float32]) {
      %0 = nn.dense(%x, %x); add(nn.dense(tanh(%0), %x), %0) }""")["main"]
    assert layer_count(main, ["nn.dense"]) == 2
    assert layer_count(main, ["nn.dense", "tanh"]) == 3


def test_products_are_counted_by_sizes():
    text = """def @main(%x: Tensor[(8, 10), float32], %w: Tensor[(4, 10), float32],
      %a: Tensor[(3, 2, 5), float32], %b: Tensor[(3, 7, 5), float32]) {
      (nn.dense(%x, %w), nn.batch_matmul(%a, %b, transpose_b=True), exp(%x)) }"""
    assert multiply_accumulates(typed(text)["main"]) == 8 * 10 * 4 + 3 * 2 * 7 * 5


def test_products_of_a_convolution_count_groups():
    text = """def @main(%x: Tensor[(1, 8, 6, 6), float32], %w: Tensor[(4, 2, 3, 3), float32]) {
      nn.conv2d(%x, %w, groups=4, channels=4, kernel_size=[3, 3]) }"""
    assert multiply_accumulates(typed(text)["main"]) == 4 * 4 * 4 * 9 * 2


def test_sizes_that_are_not_known_count_nothing():
    text = (
        "def @main(%x: Tensor[(?, 10), float32], %w: Tensor[(4, 10), float32]) { nn.dense(%x, %w) }"
    )
    assert multiply_accumulates(typed(text)["main"]) == 0


def test_weights_that_are_transposed_are_named():
    main = parsed("""def @main(%x: Tensor[(2, 3), float32], %w: Tensor[(3, 4), float32],
      %v: Tensor[(4, 4), float32]) { nn.dense(nn.dense(%x, transpose(%w, axes=[1, 0])), %v) }""")
    assert transposed_weights(main["main"]) == ["w"]


def test_constants_and_tuples_of_them_are_constant():
    one = Constant(np.array(1, np.int32))
    assert is_constant(Tuple((one, Tuple((one,)))))
    assert not is_constant(Tuple((one, Var("x"))))


def test_nothing_is_fake_quantized_without_quantisation():
    assert fake_quantized_frequencies(parsed("def @main(%x: int32) { add(%x, 1) }")) == {}


# -- Parts ----------------------------------------------------------------------------------------


def test_an_intermediate_call_is_a_program():
    module = typed("def @main(%x: int32, %y: int32) { multiply(add(%x, 1), negative(%y)) }")
    part = run_passes(intermediate(module, 0), ["infer_types"], verify=True)
    assert [p.name for p in part["main"].params] == ["x"]
    assert int(Evaluator(part).call("main", [4])) == 5
    with pytest.raises(RelayError, match="has 3 calls"):
        intermediate(module, 3)


def test_primitive_functions_that_are_equal_are_found_once():
    module = run_passes(
        parsed("def @main(%x: float32, %c: bool) { if (%c) { exp(%x) } else { exp(%x) } }"),
        ["fuse_ops"],
    )
    assert len(primitive_functions(module)) == 1


def test_what_may_trap_or_run_for_ever_is_not_inert():
    x = Var("x", checked_type=scalar_type(FLOAT32))
    exp = Call(OPS["exp"], (x,), checked_type=scalar_type(FLOAT32))
    wide = Var("w", checked_type=TensorType((Var,), FLOAT32))  # type: ignore[arg-type]
    assert is_inert(Tuple((exp, Function((x,), Call(x, ())))))
    assert not is_inert(Call(x, ()))
    assert not is_inert(Call(OPS["exp"], (wide,), checked_type=wide.checked_type))
