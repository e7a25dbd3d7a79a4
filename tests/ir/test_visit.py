"""Walks and rewrites of expressions."""

from __future__ import annotations

from dataclasses import replace

from relayvm.base.dims import symbol
from relayvm.base.dtypes import INT32
from relayvm.ir.build import call, const, function, get, let, tuple_, var
from relayvm.ir.equal import structural_equal
from relayvm.ir.expr import Call, Constant, Expr, Function, Let, Match, Var
from relayvm.ir.printer import print_expr, print_module, print_type
from relayvm.ir.types import scalar_type
from relayvm.ir.visit import (
    bound_vars,
    children,
    fold,
    free_type_vars,
    free_vars,
    fresh_binders,
    post_order,
    rewrite,
    substitute,
    substitute_types,
    with_children,
)
from relayvm.ops import OPS
from tests.ir.programs import PROGRAMS, parse

ADD, EXP = OPS["add"], OPS["exp"]


def test_post_order_visits_a_shared_node_once_and_operands_first():
    x = var("x")
    shared = call(EXP, x)
    root = call(ADD, shared, shared)
    assert [n for n in post_order(root) if isinstance(n, Call)] == [shared, root]


def test_fold_counts_nodes_of_the_unshared_tree():
    node: Expr = const(1)
    for _ in range(64):
        node = call(ADD, node, node)
    size = fold(node, lambda n, below: 1 + sum(below))
    assert size == 2**64 * 2 - 1 + 2**64 - 1


def test_rewrite_that_changes_nothing_returns_the_same_objects():
    for text in PROGRAMS.values():
        for expr in parse(text).functions.values():
            assert rewrite(expr, lambda n: n) is expr


def test_rewrite_keeps_sharing_spans_and_types():
    module = parse("def @main(%x: float32) { %0 = exp(%x); add(%0, %0) }")
    main = module["main"]
    typed = replace(main.body, checked_type=scalar_type(INT32))
    main = replace(main, body=typed)
    new = rewrite(main, lambda n: OPS["tanh"] if n is EXP else n)
    body = new.body
    assert body.args[0] is body.args[1]
    assert body.args[0].op is OPS["tanh"]
    assert body.span == main.body.span
    assert body.checked_type == scalar_type(INT32)


def test_with_children_puts_back_what_children_gives():
    for text in PROGRAMS.values():
        for function_ in parse(text).functions.values():
            for node in post_order(function_):
                assert with_children(node, children(node)) is node
                below = tuple(const(1) if isinstance(c, Constant) else c for c in children(node))
                assert children(with_children(node, below)) == below


def test_free_and_bound_variables():
    x, y, z = var("x"), var("y"), var("z")
    expr = function([x], let([(y, call(ADD, x, z))], tuple_(y, z)))
    assert free_vars(expr) == (z,)
    assert set(bound_vars(expr)) == {x, y}


def test_pattern_variables_are_bound():
    main = parse("def @main(%l: List[bool]) { match? (%l) { Cons(%h, _) => %h } }")["main"]
    match = main.body
    assert isinstance(match, Match)
    assert [v.name for v in bound_vars(match)] == ["h"]
    assert [v.name for v in free_vars(match)] == ["l"]


def test_substitute_replaces_uses():
    x, y = var("x"), var("y")
    expr = get(tuple_(x, call(ADD, x, y)), 0)
    result = substitute(expr, {x: const(3)})
    assert print_expr(result) == "free_var %y;\n%0 = (3, add(3, %y));\n%0.0"


def test_substitute_types_renews_variables_and_attributes():
    main = parse(
        "def @f[A, n](%x: A, %y: Tensor[(n, 2), bool]) -> (A, bool)"
        "{ let %z: A = %x; (%z, reshape(%y, newshape=[n*2])) }"
    )["f"]
    a, n = main.type_params
    new = substitute_types(main, {a: scalar_type(INT32), n: symbol(n) * 3})
    assert print_type(new.ret_type) == "(int32, bool)"
    assert print_type(new.params[1].type_annotation) == "Tensor[(n*3, 2), bool]"
    assert isinstance(new.body, Let)
    assert print_type(new.body.var.type_annotation) == "int32"
    assert "newshape=[n*6]" in print_expr(new)
    assert set(free_type_vars(new.body)) == {n}


def test_fresh_binders_share_no_variable_with_the_original():
    for text in PROGRAMS.values():
        for expr in parse(text).functions.values():
            copy = fresh_binders(expr)
            assert structural_equal(expr, copy)
            assert not set(bound_vars(expr)) & set(bound_vars(copy))
            assert not free_vars(copy)


def test_free_type_variables():
    main = parse("def @f[A, n](%x: A, %y: Tensor[(n,), bool]) { fn [B](%z: (A, B)) { %z } }")["f"]
    assert free_type_vars(main) == ()
    assert [v.name for v in free_type_vars(main.body)] == ["A"]


def test_names_that_collide_are_numbered_by_position():
    x1, x2, x3 = Var("x"), Var("x"), Var("0 strange!")
    expr = Function((x1, x2, x3), tuple_(x3, x2, x1))
    assert print_expr(expr) == "fn (%x, %x1, %v0_strange_) { (%v0_strange_, %x1, %x) }"


def test_types_are_printed_as_comments_where_asked():
    module = parse("def @main(%x: float32) { exp(%x) }")
    main = module["main"]
    body = replace(main.body, checked_type=main.params[0].type_annotation)
    text = print_module(module.with_functions({"main": replace(main, body=body)}), show_types=True)
    assert "exp(%x) /* ty=float32 */" in text
    assert structural_equal(parse(text), module)
