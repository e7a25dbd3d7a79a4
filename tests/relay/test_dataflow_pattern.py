"""Dataflow patterns by TVM's names: what matches, what is rewritten, what is cut out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import relayvm
from relayvm import relay
from relayvm.relay.dataflow_pattern import (
    AltPattern,
    CallPattern,
    DFPatternCallback,
    DominatorPattern,
    FunctionPattern,
    TupleGetItemPattern,
    TuplePattern,
    dominates,
    has_attr,
    has_dtype,
    has_shape,
    has_type,
    is_constant,
    is_expr,
    is_if,
    is_let,
    is_op,
    is_tuple,
    is_tuple_get_item,
    is_var,
    rewrite,
    wildcard,
)

ELEMWISE, BROADCAST = 0, 1


def variable(name: str, *shape: int, dtype: str = "float32") -> Any:
    return relay.var(name, shape=shape, dtype=dtype)


@pytest.fixture
def x() -> Any:
    return variable("x", 2, 3)


@pytest.fixture
def y() -> Any:
    return variable("y", 2, 3)


# --- matching --------------------------------------------------------------------------------


def test_an_expression_pattern_matches_what_is_equal(x: Any, y: Any) -> None:
    pattern = is_expr(relay.const(1.0))
    assert pattern.match(relay.const(1.0))
    assert not pattern.match(relay.const(2.0))
    assert is_expr(x + y).match(x + y)
    assert not is_expr(x + y).match(y + x)


def test_a_variable_pattern_may_ask_for_a_name(x: Any) -> None:
    assert is_var().match(x)
    assert is_var("x").match(x)
    assert not is_var("y").match(x)
    assert not is_var().match(relay.const(1))


def test_a_constant_pattern_matches_any_constant(x: Any) -> None:
    assert is_constant().match(relay.const(np.zeros((2, 2))))
    assert not is_constant().match(x)


def test_a_call_matches_by_operator_and_arguments(x: Any, y: Any) -> None:
    assert is_op("subtract")(is_var("x"), is_var("y")).match(x - y)
    assert not is_op("subtract")(is_var("y"), is_var("x")).match(x - y)
    assert not is_op("add")(wildcard(), wildcard()).match(x - y)
    assert not is_op("add")(wildcard()).match(x + y)


def test_a_call_pattern_without_arguments_matches_any_number(x: Any, y: Any) -> None:
    assert is_op("add")(None).match(x + y)
    assert CallPattern(is_op("exp"), None).match(relay.exp(x))
    assert is_op("concatenate")(None).match(relay.concatenate([x, y], 0))


def test_sums_and_products_match_either_way_around(x: Any, y: Any) -> None:
    assert is_op("add")(is_var("y"), is_var("x")).match(x + y)
    assert is_op("multiply")(is_var("y"), is_var("x")).match(x * y)
    assert (is_var("y") + is_constant()).match(relay.const(1.0) + y)
    assert not (is_var("x") / is_var("y")).match(y / x)


def test_products_and_quotients_match_in_any_grouping(x: Any, y: Any) -> None:
    z = variable("z", 2, 3)
    over = (is_var("x") * is_var("y")) / is_var("z")
    assert over.match((x * y) / z)
    assert over.match(x * (y / z))
    assert over.match((x / z) * y)
    inner = is_var("x") * (is_var("y") / is_var("z"))
    assert inner.match((x * y) / z)
    assert not over.match((x / y) * z)


def test_arithmetic_on_patterns_builds_calls(x: Any, y: Any) -> None:
    assert (wildcard() - wildcard()).match(x - y)
    assert (wildcard() * wildcard()).match(x * y)
    assert (wildcard() / wildcard()).match(x / y)


def test_an_alternative_tries_the_left_side_first(x: Any) -> None:
    pattern = is_op("exp")(wildcard()) | is_op("tanh")(wildcard())
    assert isinstance(pattern, AltPattern)
    assert pattern.match(relay.exp(x)) and pattern.match(relay.tanh(x))
    assert not pattern.match(relay.sqrt(x))


def test_an_optional_user_matches_with_and_without(x: Any, y: Any) -> None:
    pattern = is_op("add")(wildcard(), wildcard()).optional(is_op("nn.relu"))
    assert pattern.match(x + y)
    assert pattern.match(relay.nn.relu(x + y))
    assert not pattern.match(relay.tanh(x + y))


def test_one_pattern_node_is_one_expression(x: Any, y: Any) -> None:
    same = wildcard()
    assert is_op("add")(same, same).match(x + x)
    assert not is_op("add")(same, same).match(x + y)
    assert not is_op("add")(same, same).match(relay.exp(x) + relay.exp(x))


def test_tuples_and_their_items(x: Any, y: Any) -> None:
    both = relay.Tuple([x, y])
    assert is_tuple((is_var("x"), wildcard())).match(both)
    assert not is_tuple((wildcard(),)).match(both)
    assert TuplePattern(None).match(both)
    item = relay.TupleGetItem(both, 1)
    assert is_tuple_get_item(is_tuple(None), 1).match(item)
    assert TupleGetItemPattern(wildcard()).match(item)
    assert not is_tuple_get_item(wildcard(), 0).match(item)


def test_choices_and_lets(x: Any, y: Any) -> None:
    cond = relay.var("c", shape=(), dtype="bool")
    choice = relay.If(cond, x, y)
    assert is_if(is_var("c"), is_var("x"), is_var("y")).match(choice)
    assert not is_if(is_var("c"), is_var("y"), wildcard()).match(choice)
    v = relay.var("v")
    bound = relay.Let(v, relay.exp(x), v + y)
    assert is_let(is_var("v"), is_op("exp")(wildcard()), wildcard()).match(bound)
    assert not is_let(is_var("w"), wildcard(), wildcard()).match(bound)


def test_functions_by_parameters_and_body(x: Any, y: Any) -> None:
    function = relay.Function([x, y], x + y)
    p, q = wildcard(), wildcard()
    assert FunctionPattern([p, q], p + q).match(function)
    assert FunctionPattern(None, is_op("add")(wildcard(), wildcard())).match(function)
    assert not FunctionPattern([wildcard()], wildcard()).match(function)
    assert not FunctionPattern([p, q], p - q).match(function)


def test_types_dtypes_and_shapes_are_inferred_where_unknown(x: Any, y: Any) -> None:
    total = x + y
    assert has_type(relay.TensorType((2, 3), "float32")).match(total)
    assert not has_type(relay.TensorType((3, 2), "float32")).match(total)
    assert has_dtype("float32", is_op("add")(wildcard(), wildcard())).match(total)
    assert not has_dtype("float16").match(total)
    assert has_shape((2, 3)).match(total)
    assert not is_op("add")(wildcard(), wildcard()).has_shape((2,)).match(total)
    assert wildcard().has_dtype("int32").match(relay.cast(x, "int32"))
    assert not has_shape((2, 3)).match(relay.Tuple([x, y]))


def test_what_has_no_type_matches_no_type_pattern() -> None:
    untyped = relay.var("u")
    assert not has_dtype("float32").match(untyped)
    assert not has_type(relay.TensorType((), "float32")).match(relay.exp(untyped))


def test_attributes_of_calls_count_with_their_defaults(x: Any, y: Any) -> None:
    call = relay.concatenate([x, y], axis=1)
    assert is_op("concatenate")(wildcard()).has_attr({"axis": 1}).match(call)
    assert not is_op("concatenate")(wildcard()).has_attr({"axis": 0}).match(call)
    assert not is_op("concatenate")(wildcard()).has_attr({"nothing": 0}).match(call)
    assert is_op("nn.softmax")(wildcard()).has_attr({"axis": -1}).match(relay.nn.softmax(x))
    cast = relay.cast(x, "int8")
    assert is_op("cast")(wildcard()).has_attr({"dtype": "int8"}).match(cast)
    tile = relay.sum(x, axis=(0, 1))
    assert is_op("sum")(wildcard()).has_attr({"axis": [0, 1]}).match(tile)


def test_operators_tell_their_fusion_class(x: Any, y: Any) -> None:
    assert is_op("add").has_attr({"TOpPattern": BROADCAST}).match((x + y).op)
    assert not is_op("add").has_attr({"TOpPattern": ELEMWISE}).match((x + y).op)
    elementwise = wildcard().has_attr({"TOpPattern": ELEMWISE})
    assert elementwise(None).match(relay.exp(x))
    assert not elementwise(None).match(x + y)


def test_attributes_of_functions(x: Any) -> None:
    function = relay.Function([x], x).with_attr("Composite", "add")
    assert FunctionPattern(None, wildcard()).has_attr({"Composite": "add"}).match(function)
    assert not FunctionPattern(None, wildcard()).has_attr({"Composite": "mul"}).match(function)
    assert not has_attr({"Composite": "add"}).match(x)


def test_a_redirected_wildcard_makes_a_recursive_pattern(x: Any) -> None:
    chain = wildcard()
    pattern = is_var("x") | is_op("exp")(chain)
    chain.redirect_to(pattern)
    assert is_op("exp")(is_op("exp")(is_var("x"))).match(relay.exp(relay.exp(x)))
    once = wildcard()
    once.redirect_to(is_op("tanh")(wildcard()))
    assert once.match(relay.tanh(x)) and not once.match(relay.exp(x))


def diamond(x: Any) -> tuple[Any, Any]:
    top = relay.nn.relu(x)
    left, right = relay.exp(top), relay.tanh(relay.sqrt(top))
    return top, left + right


def test_a_dominator_matches_through_any_elementwise_way(x: Any) -> None:
    _, end = diamond(x)
    way = wildcard().has_attr({"TOpPattern": ELEMWISE})(wildcard())
    pattern = dominates(is_op("nn.relu")(wildcard()), way, is_op("add")(wildcard(), wildcard()))
    assert isinstance(pattern, DominatorPattern)
    assert pattern.match(end)
    assert not dominates(is_op("tanh")(wildcard()), way, is_op("add")(None)).match(end)


def test_a_dominator_does_not_match_where_a_way_leads_past_its_parent(x: Any, y: Any) -> None:
    top = relay.nn.relu(x)
    way = wildcard().has_attr({"TOpPattern": ELEMWISE})(wildcard())
    pattern = is_op("add")(wildcard(), wildcard()).dominates(is_op("nn.relu")(wildcard()), way)
    assert not pattern.match(relay.exp(top) + relay.exp(y))
    assert not pattern.match(top + y)


def test_a_dominator_reaches_through_a_hundred_thousand_operators(x: Any) -> None:
    end = relay.nn.relu(x)
    for _ in range(100_000):
        end = relay.exp(end)
    way = wildcard().has_attr({"TOpPattern": ELEMWISE})(wildcard())
    assert dominates(is_op("nn.relu")(wildcard()), way, is_op("exp")(wildcard())).match(end)


# --- rewriting -------------------------------------------------------------------------------


class ToSubtract(DFPatternCallback):
    """`a + b` becomes `a - b`."""

    def __init__(self, **options: bool) -> None:
        super().__init__(**options)
        self.left, self.right = wildcard(), wildcard()
        self.pattern = self.left + self.right

    def callback(self, pre: Any, post: Any, node_map: Any) -> Any:
        return node_map[self.left][0] - node_map[self.right][0]


def equal(a: Any, b: Any) -> bool:
    return bool(relayvm.ir.structural_equal(a, b))


def test_a_callback_replaces_each_match(x: Any, y: Any) -> None:
    assert equal(rewrite(ToSubtract(), x + y), x - y)
    inner = relay.exp(x + y)
    assert equal(ToSubtract().rewrite(inner + y), relay.exp(x - y) - y)


def test_what_does_not_match_stays_the_same_object(x: Any, y: Any) -> None:
    expr = relay.exp(x * y)
    assert rewrite(ToSubtract(), expr) is expr


def test_a_shared_node_is_rewritten_once(x: Any, y: Any) -> None:
    shared = x + y
    result = rewrite(ToSubtract(), relay.Tuple([shared, shared]))
    assert result.fields[0] is result.fields[1]


def test_matches_inside_of_functions_and_branches_are_found(x: Any, y: Any) -> None:
    cond = relay.var("c", shape=(), dtype="bool")
    function = relay.Function([x, y, cond], relay.If(cond, x + y, y))
    assert equal(
        rewrite(ToSubtract(), function), relay.Function([x, y, cond], relay.If(cond, x - y, y))
    )


def test_several_callbacks_run_until_nothing_changes(x: Any, y: Any) -> None:
    class ToMultiply(DFPatternCallback):
        def __init__(self) -> None:
            super().__init__()
            self.pattern = is_op("subtract")(wildcard(), wildcard())

        def callback(self, pre: Any, post: Any, node_map: Any) -> Any:
            return relay.multiply(*post.args)

    assert equal(rewrite([ToMultiply(), ToSubtract()], x + y), x * y)


def test_rewriting_that_never_ends_is_reported(x: Any, y: Any) -> None:
    class Grow(ToSubtract):
        def callback(self, pre: Any, post: Any, node_map: Any) -> Any:
            return relay.exp(post)

    with pytest.raises(relayvm.RelayError, match="after 100 rounds") as caught:
        rewrite(Grow(), x + y)
    assert caught.value.code == "endless-rewriting"
    assert equal(rewrite(Grow(rewrite_once=True), x + y), relay.exp(x + y))


def test_a_callback_may_ask_for_types(x: Any, y: Any) -> None:
    seen = []

    class Typed(ToSubtract):
        def callback(self, pre: Any, post: Any, node_map: Any) -> Any:
            seen.append(pre.checked_type)
            return super().callback(pre, post, node_map)

    rewrite(Typed(require_type=True), relay.exp(x + y))
    assert seen == [relay.TensorType((2, 3), "float32")]


def test_what_is_used_outside_of_a_match_is_not_rewritten_away(x: Any, y: Any) -> None:
    class Fuse(DFPatternCallback):
        def __init__(self) -> None:
            super().__init__()
            self.pattern = is_op("nn.relu")(is_op("add")(wildcard(), wildcard()))

        def callback(self, pre: Any, post: Any, node_map: Any) -> Any:
            return relay.tanh(post.args[0])

    total = x + y
    both = relay.Tuple([relay.nn.relu(total), total])
    assert rewrite(Fuse(), both) is both


def test_mistakes_in_callbacks_are_diagnostics(x: Any, y: Any) -> None:
    with pytest.raises(relayvm.RelayError, match="has set no `pattern`"):
        rewrite(DFPatternCallback(), x + y)

    class Bad(ToSubtract):
        def callback(self, pre: Any, post: Any, node_map: Any) -> Any:
            return 3

    with pytest.raises(relayvm.RelayError, match="not `3`"):
        rewrite(Bad(), x + y)


def test_batch_norm_written_out_is_found_and_replaced() -> None:
    data = variable("x", 2, 8)
    mean, var, beta, gamma = (variable(n, 8) for n in ("mean", "var", "beta", "gamma"))
    eps = relay.const(1e-5)
    written = gamma * (data - mean) / relay.sqrt(var + eps) + beta

    class Norm(DFPatternCallback):
        def __init__(self) -> None:
            super().__init__()
            self.x, self.mean, self.var = wildcard(), wildcard(), wildcard()
            self.gamma, self.beta, self.eps = wildcard(), wildcard(), is_constant()
            scale = is_op("sqrt")(self.var + self.eps)
            self.pattern = self.gamma * (self.x - self.mean) / scale + self.beta

        def callback(self, pre: Any, post: Any, node_map: Any) -> Any:
            parts = [node_map[p][0] for p in (self.x, self.gamma, self.beta, self.mean, self.var)]
            assert float(node_map[self.eps][0].data.numpy()) == np.float32(1e-5)
            return relay.Tuple(parts)

    assert equal(rewrite(Norm(), written), relay.Tuple([data, gamma, beta, mean, var]))


# --- cutting out -----------------------------------------------------------------------------


def test_a_match_becomes_a_function_of_what_it_uses(x: Any, y: Any) -> None:
    pattern = is_op("nn.relu")(is_op("add")(wildcard(), wildcard()))
    result = pattern.partition(relay.exp(relay.nn.relu(x + y)), {"Composite": "add_relu"})
    call = result.args[0]
    assert call.args == (x, y)
    assert call.op.attrs["PartitionedFromPattern"] == "add_nn.relu_"
    assert call.op.attrs["Composite"] == "add_relu"
    p, q = call.op.params
    assert call.op.body.args[0].args == (p, q)


def test_a_call_of_a_function_is_named_as_one(x: Any, y: Any) -> None:
    pattern = FunctionPattern(None, wildcard() + wildcard())(None) + wildcard()
    inside = relay.var("z", shape=(2, 3))
    called = relay.Function([inside], inside + inside)(x)
    result = pattern.partition(called + y)
    assert result.op.attrs["PartitionedFromPattern"] == "add_FunctionCall_add_"


def test_cutting_out_keeps_the_meaning(x: Any, y: Any) -> None:
    pattern = is_op("multiply")(is_op("add")(wildcard(), wildcard()), wildcard())
    body = relay.exp((x + y) * x)
    cut = relay.Function([x, y], pattern.partition(body))
    a = np.linspace(0, 1, 6, dtype="float32").reshape(2, 3)
    run = relay.create_executor("debug", relayvm.IRModule.from_expr(cut)).evaluate()
    np.testing.assert_allclose(run(a, a).numpy(), np.exp((a + a) * a), rtol=1e-6)


def test_constants_that_are_matched_as_such_go_inside(x: Any) -> None:
    pattern = is_op("add")(wildcard(), is_constant())
    call = pattern.partition(x + relay.const(1.0))
    assert call.args == (x,)
    open_pattern = is_op("add")(wildcard(), wildcard())
    assert len(open_pattern.partition(x + relay.const(1.0)).args) == 2


def test_a_check_decides_which_matches_are_cut_out(x: Any, y: Any) -> None:
    pattern = is_op("sum")(wildcard())
    body = relay.Tuple([relay.sum(x, axis=0), relay.sum(y, axis=1)])
    result = pattern.partition(body, check=lambda call: call.attrs["axis"] == (0,))
    assert isinstance(result.fields[0].op, relay.Function)
    assert result.fields[1] is body.fields[1]


def test_a_chain_with_an_option_takes_the_longest_match(x: Any, y: Any) -> None:
    pattern = is_op("add")(wildcard(), wildcard()).optional(is_op("nn.relu"))
    result = pattern.partition(relay.nn.relu(x + y))
    assert result.op.attrs["PartitionedFromPattern"] == "add_nn.relu_"


def test_matches_that_overlap_are_cut_out_once(x: Any) -> None:
    pattern = is_op("exp")(is_op("exp")(wildcard()))
    result = pattern.partition(relay.exp(relay.exp(relay.exp(x))))
    assert result.op.attrs["PartitionedFromPattern"] == "exp_exp_"
    assert equal(result.args[0], relay.exp(x))


def test_what_was_cut_out_is_not_cut_again(x: Any, y: Any) -> None:
    pattern = is_op("add")(wildcard(), wildcard())
    once = pattern.partition(relay.exp(x + y))
    assert pattern.partition(once) is once


def test_an_input_that_is_shared_is_one_parameter(x: Any) -> None:
    pattern = is_op("add")(wildcard(), is_op("exp")(wildcard()))
    call = pattern.partition(x + relay.exp(x))
    assert call.args == (x,)
    assert len(call.op.params) == 1


def test_a_dominated_region_is_cut_out_whole(x: Any) -> None:
    _, end = diamond(x)
    way = wildcard().has_attr({"TOpPattern": ELEMWISE})(wildcard())
    pattern = dominates(is_op("nn.relu")(wildcard()), way, is_op("add")(wildcard(), wildcard()))
    call = pattern.partition(relay.exp(end)).args[0]
    assert call.args == (x,)
    assert call.op.attrs["PartitionedFromPattern"].count("_") == 5


def test_a_function_is_cut_out_with_what_depends_on_its_parameters(x: Any, y: Any) -> None:
    a = variable("a", 2, 3)
    inner = relay.Function([a], relay.exp(a) + y)
    pattern = CallPattern(FunctionPattern(None, wildcard()), [wildcard()])
    call = pattern.partition(relay.tanh(relay.Call(inner, [x]))).args[0]
    assert set(call.args) == {x, y}


def test_tuple_results_are_cut_out_with_their_names(x: Any, y: Any) -> None:
    pattern = is_op("concatenate")(is_tuple((is_op("exp")(wildcard()), wildcard())))
    call = pattern.partition(relay.concatenate([relay.exp(x), y], 0))
    assert call.op.attrs["PartitionedFromPattern"] == "exp_Tuple_concatenate_"
