"""Lists, trees, numbers, options and tensor arrays of the prelude."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import relayvm as tvm
from relayvm import relay
from relayvm.relay.backend.interpreter import ConstructorValue
from relayvm.relay.prelude import Prelude, StaticTensorArrayOps, TensorArrayOps
from relayvm.relay.testing import count, make_nat_expr, make_nat_value

ti32 = relay.scalar_type("int32")


class World:
    """A module with the prelude, and how its values are read."""

    def __init__(self) -> None:
        self.mod = tvm.IRModule()
        self.p = Prelude(self.mod)
        self.p.mod.import_from_std("nat.rly")
        self.l, self.cons, self.nil = self.p.mod.get_type("List")
        self.optional, self.some, self.none = self.p.mod.get_type("Option")
        self.tree, self.rose = self.p.mod.get_type("Tree")
        self.nat, self.z, self.s = self.p.mod.get_type("nat")

    def eval(self, expr: Any) -> Any:
        return relay.create_executor(mod=self.mod).evaluate(expr)

    def list_of(self, *values: Any) -> Any:
        made = self.nil()
        for value in reversed(values):
            made = self.cons(value, made)
        return made

    def numbers(self, *values: int) -> Any:
        return self.list_of(*(relay.const(v) for v in values))

    def to_list(self, value: ConstructorValue) -> list[Any]:
        found = []
        while value.constructor.name_hint == "Cons":
            found.append(value.fields[0])
            value = value.fields[1]
        assert value.constructor.name_hint == "Nil"
        return found

    def ints(self, expr: Any) -> list[int]:
        return [int(v.numpy()) for v in self.to_list(self.eval(expr))]


@pytest.fixture
def world() -> World:
    return World()


def binary(op) -> Any:
    x, y = relay.Var("x", ti32), relay.Var("y", ti32)
    return relay.Function([x, y], op(x, y))


def unary(op) -> Any:
    x = relay.Var("x", ti32)
    return relay.Function([x], op(x))


def test_numbers_by_successors(world: World) -> None:
    two = make_nat_expr(world.p, 2)
    assert count(world.p, world.eval(two)) == 2
    assert count(world.p, make_nat_value(world.p, 10)) == 10
    double, add = world.p.mod.get_global_var("nat_double"), world.p.mod.get_global_var("nat_add")
    assert count(world.p, world.eval(double(two))) == 4
    assert count(world.p, world.eval(add(two, double(two)))) == 6
    assert world.mod.get_global_var("nat_add").name_hint == "nat_add"


def test_elements_of_a_list(world: World) -> None:
    p, l = world.p, world.numbers(5, 6, 7)
    assert world.eval(p.nth(l, relay.const(1))).numpy() == 6
    assert world.ints(p.update(l, relay.const(0), relay.const(9))) == [9, 6, 7]
    assert world.eval(p.length(l)).numpy() == 3
    assert world.eval(p.hd(p.tl(l))).numpy() == 6


def test_maps_and_folds(world: World) -> None:
    p, l = world.p, world.numbers(1, 2, 3)
    assert world.ints(p.map(unary(lambda x: x + x), l)) == [2, 4, 6]
    assert world.eval(p.foldl(binary(relay.subtract), relay.const(0), l)).numpy() == -6
    assert world.eval(p.foldr(binary(relay.subtract), relay.const(0), l)).numpy() == 2
    assert world.eval(p.foldr1(binary(relay.subtract), l)).numpy() == 2
    assert world.eval(p.sum(l)).numpy() == 6


def test_lists_of_lists(world: World) -> None:
    p = world.p
    l, m = world.numbers(1, 2), world.numbers(3)
    assert world.ints(p.concat(l, m)) == [1, 2, 3]
    assert world.ints(p.rev(p.concat(l, m))) == [3, 2, 1]
    assert world.ints(p.filter(unary(lambda x: relay.greater(x, relay.const(1))), l)) == [2]
    pairs = world.to_list(world.eval(p.zip(l, p.concat(m, m))))
    assert [[int(f.numpy()) for f in pair] for pair in pairs] == [[1, 3], [2, 3]]


def test_accumulating_maps_and_unfolds(world: World) -> None:
    p = world.p
    acc, x = relay.Var("acc", ti32), relay.Var("x", ti32)
    add = relay.Function([acc, x], relay.Tuple([acc + x, acc + x]))
    total, prefix = world.eval(p.map_accuml(add, relay.const(0), world.numbers(1, 2, 3)))
    assert total.numpy() == 6
    assert [int(v.numpy()) for v in world.to_list(prefix)] == [6, 3, 1]
    n = relay.Var("n", ti32)
    step = relay.If(
        relay.greater(n, relay.const(0)),
        world.some(relay.Tuple([n - relay.const(1), n])),
        world.none(),
    )
    down = relay.Function([n], step)
    assert world.ints(p.unfoldr(down, relay.const(3))) == [3, 2, 1]
    assert world.ints(p.unfoldl(down, relay.const(3))) == [1, 2, 3]


def test_composition_and_iteration(world: World) -> None:
    p = world.p
    twice = p.compose(unary(lambda x: x + x), unary(lambda x: x + relay.const(1)))
    assert world.eval(twice(relay.const(4))).numpy() == 10
    assert (
        world.eval(p.iterate(unary(lambda x: x + x), relay.const(3))(relay.const(1))).numpy() == 8
    )


def test_trees(world: World) -> None:
    p = world.p
    leaf = world.rose(relay.const(2), world.nil())
    tree = world.rose(relay.const(1), world.list_of(leaf, leaf))
    assert world.eval(p.size(tree)).numpy() == 3
    mapped = world.eval(p.tmap(unary(lambda x: x * relay.const(10)), tree))
    assert mapped.constructor.name_hint == "Rose" and mapped.fields[0].numpy() == 10
    assert [int(t.fields[0].numpy()) for t in world.to_list(mapped.fields[1])] == [20, 20]


def test_types_of_constructors(world: World) -> None:
    mod = world.mod
    mod["main"] = relay.Function([], world.numbers(1))
    typed = relay.transform.InferType()(mod)
    assert typed["main"].ret_type == world.l(ti32)
    mod["main"] = relay.Function([], world.some(world.none()))
    with pytest.raises(tvm.TVMError):
        relay.transform.InferType()(mod)


def test_a_list_of_functions(world: World) -> None:
    f, x = relay.Var("f", relay.FuncType([ti32], ti32)), relay.Var("x", ti32)
    applied = relay.Function([f], f(relay.const(3)))
    fs = world.list_of(unary(lambda v: v + v), unary(lambda v: v * v), relay.Function([x], x))
    assert world.ints(world.p.map(applied, fs)) == [6, 9, 3]


def test_an_incomplete_match_traps(world: World) -> None:
    x = relay.Var("x")
    only = relay.Clause(relay.PatternConstructor(world.some, [relay.PatternVar(x)]), x)
    complete = relay.Match(world.none(), [only], complete=True)
    with pytest.raises(tvm.TVMError):
        world.eval(relay.Function([], complete, ti32))()
    lazy = relay.Match(world.some(relay.const(4)), [only], complete=False)
    assert world.eval(relay.Function([], lazy))().numpy() == 4
    missed = relay.Match(world.none(), [only], complete=False)
    trap = relay.Function([], missed, ti32)
    with pytest.raises(tvm.TVMError):
        world.eval(trap)()


def test_recursion_in_a_let() -> None:
    f, n = relay.Var("f"), relay.Var("n", ti32)
    body = relay.If(
        relay.equal(n, relay.const(0)), relay.const(1), n * relay.Call(f, [n - relay.const(1)])
    )
    program = relay.Let(f, relay.Function([n], body, ti32), f(relay.const(5)))
    for kind in ("debug", "vm"):
        assert relay.create_executor(kind).evaluate(program).numpy() == 120


def test_mutual_recursion_of_data_types() -> None:
    mod = tvm.IRModule()
    even, odd = relay.GlobalTypeVar("Even"), relay.GlobalTypeVar("Odd")
    zero = relay.Constructor("Zero", [], even)
    after = relay.Constructor("After", [odd()], even)
    before = relay.Constructor("Before", [even()], odd)
    mod[even] = relay.TypeData(even, [], [zero, after])
    mod[odd] = relay.TypeData(odd, [], [before])
    e, o = relay.GlobalVar("even"), relay.GlobalVar("odd")
    x, y = relay.Var("x", even()), relay.Var("y", odd())
    a, b = relay.Var("a"), relay.Var("b")
    mod[e] = relay.Function(
        [x],
        relay.Match(
            x,
            [
                relay.Clause(relay.PatternConstructor(zero), relay.const(0)),
                relay.Clause(
                    relay.PatternConstructor(after, [relay.PatternVar(a)]), o(a) + relay.const(1)
                ),
            ],
        ),
        ti32,
    )
    mod[o] = relay.Function(
        [y],
        relay.Match(
            y,
            [
                relay.Clause(
                    relay.PatternConstructor(before, [relay.PatternVar(b)]), e(b) + relay.const(1)
                )
            ],
        ),
        ti32,
    )
    mod["main"] = relay.Function([], e(after(before(after(before(zero()))))))
    for kind in ("debug", "vm"):
        assert relay.create_executor(kind, mod).evaluate()().numpy() == 4


def test_tensor_arrays_of_any_shape() -> None:
    p = Prelude(tvm.IRModule())
    ops = TensorArrayOps(p, "int32")
    ops.register()
    tensor0, tensor1 = (p.get_tensor_ctor(f"tensor{n}", "int32") for n in range(2))
    array = p.get_global_var("tensor_array", "int32")
    write, read = (
        p.get_global_var("tensor_array_write", "int32"),
        p.get_global_var("tensor_array_read", "int32"),
    )
    stack = p.get_global_var("tensor_array_stack", "int32")
    v = relay.var("v")
    made = array(relay.const(3))
    for i in range(3):
        made = write(made, relay.const(i), tensor0(v + relay.const(i)))
    p.mod["main"] = relay.Function([v], read(made, relay.const(2)))
    for kind in ("debug", "vm"):
        out = relay.create_executor(kind, p.mod).evaluate()(np.array(5, "int32"))
        assert out.fields[0].numpy() == 7
    p.mod["main"] = relay.Function([v], stack(made))
    out = relay.create_executor("vm", p.mod).evaluate()(np.array(5, "int32"))
    assert out.fields[0].numpy().tolist() == [5, 6, 7] and tensor1.name_hint == "tensor1_int32"


def test_tensor_arrays_of_one_shape() -> None:
    p = Prelude(tvm.IRModule())
    ops = StaticTensorArrayOps(p, "float32", (2,))
    ops.register()
    array, write = ops.get_global_var("tensor_array"), ops.get_global_var("tensor_array_write")
    stack, tensor = ops.get_global_var("tensor_array_stack"), ops.get_ctor("tensor_constructor")
    x = relay.var("x", shape=(2,))
    made = array(relay.const(2))
    made = write(made, relay.const(0), tensor(x))
    made = write(made, relay.const(1), tensor(x + x))
    p.mod["main"] = relay.Function([x], stack(made))
    out = relay.create_executor("vm", p.mod).evaluate()(np.float32([1, 2]))
    assert out.fields[0].numpy().tolist() == [[1, 2], [2, 4]]


def test_references_that_are_shared() -> None:
    r, s, u = relay.Var("r"), relay.Var("s"), relay.Var("u")
    body = relay.Let(
        r,
        relay.RefCreate(relay.const(1)),
        relay.Let(s, r, relay.Let(u, relay.RefWrite(s, relay.const(7)), relay.RefRead(r))),
    )
    for kind in ("debug", "vm"):
        assert relay.create_executor(kind).evaluate(body).numpy() == 7


def test_a_counter_that_closes_over_a_reference() -> None:
    r, f, a, b = (relay.Var(n) for n in "rfab")
    bump = relay.Function(
        [],
        relay.Let(
            relay.Var("_"), relay.RefWrite(r, relay.RefRead(r) + relay.const(1)), relay.RefRead(r)
        ),
    )
    body = relay.Let(
        r,
        relay.RefCreate(relay.const(0)),
        relay.Let(f, bump, relay.Let(a, f(), relay.Let(b, f(), relay.Tuple([a, b])))),
    )
    for kind in ("debug", "vm"):
        first, second = relay.create_executor(kind).evaluate(body)
        assert (first.numpy(), second.numpy()) == (1, 2)
