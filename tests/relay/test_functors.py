"""Functors of users: one method a node, whatever the depth."""

from __future__ import annotations

import sys

import pytest

from relayvm import relay
from relayvm.base.diagnostics import RelayError
from relayvm.ir import structural_equal
from relayvm.ir.build import let
from relayvm.relay.deep import depth_of, with_room

X = relay.var("x", "float32")
DEPTH = 10_000

PROGRAM = """
def @main(%x: float32, %c: bool, %l: List[float32]) {
  let %r = ref(%x);
  let %f = fn (%y: float32) { (%y, ref_read(%r)) };
  ref_write(%r, 1f);
  if (%c) { %f(%x).0 } else { match (%l) { Cons(%h, _) => @g(%h), Nil => 0f } }
}
def @g(%x: float32) { %x }
"""


def main():
    return relay.parse(PROGRAM)["main"]


class Names(relay.ExprVisitor):
    def __init__(self):
        super().__init__()
        self.seen = []

    def visit_call(self, call):
        super().visit_call(call)
        self.seen.append(type(call.op).__name__)

    def visit_constant(self, const):
        self.seen.append(float(const.data))


def test_a_visitor_sees_every_part_once_in_order_of_evaluation():
    names = Names()
    names.visit(main())
    assert names.seen == [1.0, "Var", "GlobalVar", 0.0]


def test_a_shared_node_is_visited_once():
    shared = relay.exp(X)
    names = Names()
    names.visit(shared + shared)
    assert names.seen == ["Operator", "Operator"]


def test_a_mutator_that_changes_nothing_gives_the_same_object():
    function = main()
    assert relay.ExprMutator().visit(function) is function


class Doubled(relay.ExprMutator):
    def visit_constant(self, const):
        return relay.const(2 * float(const.data))


def test_a_mutator_rebuilds_what_holds_a_change():
    result = Doubled().visit(main())
    wanted = relay.parse(PROGRAM.replace("1f", "2f"))["main"]
    mod = relay.parse(PROGRAM)
    mod["main"] = result
    assert structural_equal(relay.transform.InferType()(mod)["main"], wanted)


class Renamed(relay.ExprMutator):
    def visit_var(self, var):
        return relay.var(var.name_hint.upper(), var.type_annotation)


def test_binders_and_uses_become_the_same_new_variable():
    function = relay.Function([X], relay.Let(relay.var("y"), X + X, X))
    result = Renamed().visit(function)
    assert result.params[0] is result.body.body is result.body.value.args[0]
    assert result.params[0].name_hint == "X" and result.body.var.name_hint == "Y"


def let_chain(length):
    bindings, last = [], X
    for _ in range(length):
        variable = relay.var("v")
        bindings.append((variable, relay.exp(last)))
        last = variable
    return let(bindings, last)


def call_chain(length):
    expr = X
    for _ in range(length):
        expr = relay.exp(expr)
    return expr


@pytest.mark.parametrize("chain", [let_chain, call_chain])
def test_a_long_chain_is_visited_and_rebuilt(chain):
    limit = sys.getrecursionlimit()
    names = Names()
    names.visit(chain(DEPTH))
    assert len(names.seen) == DEPTH
    y = relay.var("y", "float32")

    class Other(relay.ExprMutator):
        def visit_var(self, var):
            return y if var is X else var

    result = Other().visit(chain(DEPTH))
    assert depth_of(result) == DEPTH + (1 if chain is call_chain else 2)
    assert sys.getrecursionlimit() == limit


def test_room_on_a_stack_of_its_own_keeps_results_and_errors():

    def down(n):
        return 0 if n == 0 else 1 + down(n - 1)

    assert with_room(5_000, lambda: down(5_000)) == 5_000
    with pytest.raises(ZeroDivisionError):
        with_room(5_000, lambda: 1 // 0)


def test_a_functor_without_a_method_says_which():
    class Partial(relay.ExprFunctor):
        def visit_constant(self, const):
            return 1

    assert Partial().visit(relay.const(1)) == 1
    with pytest.raises(RelayError, match="functor `Partial` has no method `visit_var`"):
        Partial().visit(X)
    with pytest.raises(RelayError, match="visits expressions, not `int`"):
        Partial().visit(3)


# --- types -----------------------------------------------------------------------------------

A = relay.TypeVar("a")
BOX = relay.GlobalTypeVar("Box")
FUNCTION = relay.FuncType(
    [relay.TupleType([A, relay.scalar_type("int8")]), relay.RefType(A)], BOX(A), [A]
)


def test_a_type_visitor_sees_every_part():
    class Seen(relay.TypeVisitor):
        def __init__(self):
            super().__init__()
            self.names = []

        def visit_tensor_type(self, tt):
            self.names.append(str(tt))

        def visit_type_var(self, tv):
            self.names.append(tv.name_hint)

        def visit_global_type_var(self, gtv):
            self.names.append(gtv.name_hint)

    seen = Seen()
    seen.visit(FUNCTION)
    assert seen.names == ["a", "int8", "a", "Box", "a", "a"]
    seen.visit(relay.TypeData(BOX, [A], [relay.Constructor("C", [A], BOX)]))
    assert seen.names[6:] == ["Box", "a", "a"]


def test_a_type_mutator_rebuilds_types():
    assert relay.TypeMutator().visit(FUNCTION) == FUNCTION

    class Wider(relay.TypeMutator):
        def visit_tensor_type(self, tt):
            return relay.TensorType(tt.shape, "int64")

    assert Wider().visit(FUNCTION).arg_types[0].fields[1] == relay.scalar_type("int64")
    hole = relay.IncompleteType()
    assert relay.TypeMutator().visit(hole) is hole


def test_a_type_functor_without_a_method_says_so():
    with pytest.raises(RelayError, match="functor `TypeFunctor` has no method for `TypeVar`"):
        relay.TypeFunctor().visit(A)


def test_a_missing_method_is_a_not_implemented_error() -> None:
    class Partial(relay.ExprFunctor):
        def visit_var(self, var):
            return var

    with pytest.raises(NotImplementedError, match="`Partial` has no method `visit_constant`"):
        Partial().visit(relay.const(1))

    class NoTypes(relay.TypeFunctor):
        pass

    with pytest.raises(NotImplementedError, match="has no method for `TensorType`"):
        NoTypes().visit(relay.TensorType((1,), "float32"))


@pytest.mark.slow
def test_functors_of_users_go_down_long_chains_by_any_kind_of_call():
    class Renames(relay.ExprMutator):
        def visit_call(self, call):
            args = tuple(self.visit(arg) for arg in call.args)
            return relay.Call(relay.op.get("exp"), args)

    class Calls(relay.ExprMutator):
        def visit_call(self, call):
            return super().visit_call(call)

    x = relay.var("x", shape=(3,))
    chain = x
    for _ in range(20_000):
        chain = relay.tanh(chain)
    f = relay.Function([x], chain)
    assert relay.testing.count_ops(Renames().visit(f)) == {"exp": 20_000}
    assert Calls().visit(f) is f


def test_a_type_that_shares_its_parts_is_visited_part_by_part():
    type_ = relay.scalar_type("int32")
    for _ in range(100):
        type_ = relay.TupleType([type_, type_])

    class Widen(relay.TypeMutator):
        def visit_tensor_type(self, tt):
            return relay.scalar_type("int64")

    class Count(relay.TypeVisitor):
        seen = 0

        def visit_tensor_type(self, tt):
            self.seen += 1

    wide = Widen().visit(type_)
    for _ in range(100):
        assert wide.fields[0] is wide.fields[1]
        wide = wide.fields[0]
    assert wide == relay.scalar_type("int64")
    count = Count()
    count.visit(type_)
    assert count.seen == 1
    small = relay.scalar_type("int32")
    count.visit(relay.TupleType([small, small]))
    assert count.seen == 3
