"""Executors of every kind run expressions and functions, and hand out TVM's values."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import relayvm as tvm
from relayvm import relay
from relayvm.base.diagnostics import RelayError
from relayvm.relay.backend import interpreter
from relayvm.relay.backend.entry import Entry
from relayvm.relay.ndarray import NDArray
from relayvm.relay.values import ADT, ConstructorValue, RefValue, tuple_object

KINDS = ("debug", "vm", "graph", "aot")
PROGRAM = """#[version = "0.0.5"]
def @main(%n: int32) -> List[int32] { if (%n <= 0) { Nil } else { Cons(%n, @main(%n - 1)) } }
def @total(%l: List[int32]) -> int32 { @sum(%l) }
def @adder(%n: int32) { fn (%m: int32) { %n + %m } }
def @cell(%n: int32) { ref(%n) }
def @swap(%p: (int32, float32)) { (%p.1, %p.0) }
"""


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def program(kind: str) -> Callable[[str], Any]:
    executor = relay.create_executor(kind, mod=relay.fromtext(PROGRAM))
    return lambda name: executor.evaluate(relay.GlobalVar(name))


def test_a_function_becomes_a_python_function(kind: str) -> None:
    x = relay.var("x", shape=(2, 3))
    function = relay.Function([x], relay.Tuple([relay.negative(x), relay.sum(x)]))
    value = np.arange(6, dtype=np.float32).reshape(2, 3)
    result = relay.create_executor(kind).evaluate(function)(value)
    assert isinstance(result, ADT) and len(result) == 2
    assert isinstance(result[0], NDArray)
    np.testing.assert_array_equal(result[0].numpy(), -value)
    assert result[1] == 15


def test_an_expression_is_evaluated_at_once(kind: str) -> None:
    result = relay.create_executor(kind).evaluate(relay.add(relay.const(1), relay.const(2)))
    assert result == 3 and result.dtype == np.int32


def test_binds_give_values_to_free_variables(kind: str) -> None:
    x = relay.var("x", shape=(2,))
    value = np.float32([1, 2])
    executor = relay.create_executor(kind)
    result = executor.evaluate(relay.exp(x), {x: relay.const(value)})
    np.testing.assert_allclose(result, np.exp(value), rtol=1e-6)


def test_arguments_are_given_by_name_as_well(kind: str) -> None:
    x, y = relay.var("x", shape=()), relay.var("y", shape=())
    run = relay.create_executor(kind).evaluate(relay.Function([x, y], relay.subtract(x, y)))
    assert run(3.0, y=1.0) == run(y=1.0, x=3.0) == 2


def test_wrong_arguments_are_named(kind: str) -> None:
    x = relay.var("x", shape=())
    run = relay.create_executor(kind).evaluate(relay.Function([x], x))
    for args, named, text in (
        ((), {}, "`x` of `main` is not given"),
        ((1.0, 2.0), {}, "takes 1 argument"),
        ((), {"z": 1.0}, "no parameter `z`"),
        ((1.0,), {"x": 1.0}, "given twice"),
    ):
        with pytest.raises(RelayError, match=text):
            run(*args, **named)


def test_arrays_of_another_type_are_refused(kind: str) -> None:
    x = relay.var("x", shape=(2,))
    run = relay.create_executor(kind).evaluate(relay.Function([x], relay.exp(x)))
    for value in (np.zeros(2), np.zeros(3, np.float32), 3, None, (1, 2, 3)):
        with pytest.raises(RelayError, match="`x` of `main` is `Tensor"):
            run(value)
    np.testing.assert_allclose(run([0, 1]), np.exp(np.float32([0, 1])), rtol=1e-6)


def test_sizes_of_the_same_name_must_agree(kind: str) -> None:
    module = relay.fromtext(
        '#[version = "0.0.5"]\n'
        "def @main[n](%x: Tensor[(n,), int32], %y: Tensor[(n,), int32]) { add(%x, %y) }"
    )
    run = relay.create_executor(kind, mod=module).evaluate()
    assert list(run(np.int32([1, 2]), np.int32([3, 4]))) == [4, 6]
    with pytest.raises(RelayError, match="size `n` is 2"):
        run(np.int32([1, 2]), np.int32([3]))


def test_params_are_bound_to_main(kind: str) -> None:
    x, w = relay.var("x", shape=(2,)), relay.var("w", shape=(2,))
    module = tvm.IRModule.from_expr(relay.Function([x, w], relay.multiply(x, w)))
    params = {"w": np.float32([2, 3]), "unused": np.float32(1)}
    run = relay.create_executor(kind, mod=module, params=params).evaluate()
    np.testing.assert_array_equal(run(np.float32([1, 1])), [2, 3])


def test_types_that_nothing_else_tells_are_those_of_arguments(kind: str) -> None:
    x = relay.var("x")
    run = relay.create_executor(kind).evaluate(relay.Function([x], relay.sum(x)))
    assert run(np.ones((2, 3), np.float32)) == 6


def test_arguments_of_other_types_are_told_anew(kind: str) -> None:
    x = relay.var("x")
    run = relay.create_executor(kind).evaluate(relay.Function([x], relay.sum(x)))
    for shape in ((2, 3), (4,), (2, 3)):
        assert run(np.ones(shape, np.int32)) == np.prod(shape)
    mod = relay.fromtext("def @main[T](%x: List[T]) -> T { @hd(%x) }")
    run = relay.create_executor(kind, mod=mod).evaluate()
    for first in (1, 2.5, True, np.float64(0.1)):
        assert run([first]).numpy() == first


def test_a_polymorphic_function_runs_on_what_is_given(kind: str) -> None:
    a = relay.TypeVar("a")
    x = relay.var("x", a)
    pair = relay.Function([x], relay.Tuple([x, x]), None, [a])
    result = relay.create_executor(kind).evaluate(pair)(np.int32(4))
    assert result[0] == result[1] == 4


@pytest.mark.parametrize(
    "param, given",
    [
        ("List[T]", [1, 2]),
        ("Array[T]", [1, 2]),
        ("(int32, List[(T, int32)])", (1, [(2.5, 3)])),
        ("ref(List[T])", RefValue([True])),
    ],
)
def test_a_type_parameter_is_told_by_what_is_inside_of_arguments(
    kind: str, param: str, given: object
) -> None:
    mod = relay.fromtext(f"def @main[T](%x: {param}) -> {param} {{ %x }}")
    relay.create_executor(kind, mod=mod).evaluate()(given)


def test_a_type_parameter_that_no_argument_tells_needs_no_type(kind: str) -> None:
    text = """
    type B[n: ShapeVar] { B(Tensor[(n), float32]) }
    def @make(%x: Tensor[(2), float32]) -> B[2] { B(%x) }
    def @main[T, U, m](%b: B[m], %y: U) -> (List[T], Tensor[(m), float32], U) {
      match (%b) { B(%x) => (Nil, %x, %y) }
    }
    """
    mod = relay.fromtext(text)
    executor = relay.create_executor(kind, mod=mod)
    given = executor.evaluate(mod.get_global_var("make"))(np.ones(2, np.float32))
    empty, x, y = executor.evaluate()(given, np.int32(3))
    assert (empty.name_hint, x.numpy().tolist(), int(y.numpy())) == ("Nil", [1, 1], 3)


@pytest.mark.parametrize("kind", ["vm", "graph", "aot"])
def test_a_type_parameter_that_arguments_should_tell_is_named(kind: str) -> None:
    mod = relay.fromtext("def @main[T](%x: List[T]) -> int32 { @length(%x) }")
    with pytest.raises(RelayError, match="do not tell what `T` is") as caught:
        relay.create_executor(kind, mod=mod).evaluate()([])
    assert caught.value.diagnostics[0].span is not None


THREE, TWO_BY_ONE = np.ones(3, np.float32), np.ones((2, 1), np.float32)
CONSTRAINED: dict[str, tuple[str, tuple[Any, ...], Any]] = {
    "a result": (
        "(%a: A, %b: B) -> C where add(A, B, C) { add(%a, %b) }",
        (THREE, TWO_BY_ONE),
        [[2, 2, 2], [2, 2, 2]],
    ),
    "a result inside of data": (
        "(%a: List[A], %b: B) -> C where add(A, B, C) "
        "{ @hd(@map(fn (%x: A) -> C { add(%x, %b) }, %a)) }",
        ([THREE], TWO_BY_ONE),
        [[2, 2, 2], [2, 2, 2]],
    ),
    "types without values": ("(%a: int32) -> int32 where add(A, B, C) { %a }", (np.int32(1),), 1),
    "types of a function that is never called": (
        "(%a: int32) -> int32 where nn.dense(A, B, C, units=4) "
        "{ let %f = fn (%x: A, %y: B) -> C { nn.dense(%x, %y, units=4) }; %a }",
        (np.int32(1),),
        1,
    ),
    "one of three types": ("(%a: A) -> A where add(A, B, C) { %a }", (THREE,), [1, 1, 1]),
}


@pytest.mark.parametrize("name", CONSTRAINED)
def test_constraints_tell_types_that_no_argument_does(kind: str, name: str) -> None:
    rest, args, expected = CONSTRAINED[name]
    run = relay.create_executor(kind, mod=relay.fromtext(f"def @main[A, B, C]{rest}")).evaluate()
    for _ in range(2):
        assert run(*args).numpy().tolist() == expected


@pytest.mark.parametrize("kind", ["vm", "graph", "aot"])
def test_arguments_that_a_constraint_does_not_fit_are_refused(kind: str) -> None:
    text = f"def @main[A, B, C]{CONSTRAINED['a result'][0]}"
    with pytest.raises(RelayError, match="shape-mismatch"):
        relay.create_executor(kind, mod=relay.fromtext(text)).evaluate()(THREE, THREE[:2])


def test_compiling_a_main_with_constraints_asks_for_an_instance() -> None:
    text = "def @main[A, B, C](%x: int32) -> int32 where add(A, B, C) { %x }"
    with pytest.raises(RelayError, match="nothing says which to compile it for"):
        tvm.compile(tvm.parse(text))


def test_the_evaluator_is_made_once_where_it_needs_no_types(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[Entry] = []

    def counted(entry: Entry) -> Any:
        made.append(entry)
        return evaluator(entry)

    evaluator = interpreter._evaluator
    monkeypatch.setattr(interpreter, "_evaluator", counted)
    x = relay.var("x", relay.TypeVar("a"))
    pair = relay.Function([x], relay.Tuple([x, x]), None, [x.type_annotation])
    run = relay.create_executor("debug").evaluate(pair)
    for size in range(5):
        assert run(np.ones(size, np.float32))[1].shape == (size,)
    assert len(made) == 1


def test_values_of_data_types_are_constructor_values(kind: str) -> None:
    call = program(kind)
    items = call("main")(3)
    assert isinstance(items, ConstructorValue)
    assert items.constructor.name_hint == "Cons" and items.tag == items.constructor.tag
    assert items.fields[0] == 3 and items[1][1][1].constructor.name_hint == "Nil"
    assert call("total")(items) == 6


def test_values_pass_from_one_kind_of_executor_to_another() -> None:
    made, summed = program("debug"), program("vm")
    assert summed("total")(made("main")(20_000)) == 200_010_000
    assert made("total")(summed("main")(20_000)) == 200_010_000


def test_constructor_values_are_built_in_python(kind: str) -> None:
    module = relay.fromtext(PROGRAM)
    _, cons, nil = module.get_type("List")
    if cons.name_hint != "Cons":
        cons, nil = nil, cons
    empty = ConstructorValue(nil.tag, [], nil)
    value = ConstructorValue(cons.tag, [np.int32(5), empty], cons)
    assert program(kind)("total")(value) == 5


def test_functions_and_references_come_out(kind: str) -> None:
    call = program(kind)
    assert call("adder")(1)(2) == 3
    cell = call("cell")(7)
    assert isinstance(cell, RefValue) and cell.value == 7


def test_tuples_go_in(kind: str) -> None:
    swap = program(kind)("swap")
    for pair in ((1, 2.5), tuple_object([np.int32(1), np.float32(2.5)])):
        first, second = swap(pair)
        assert first == 2.5 and second == 1


def test_there_is_no_executor_of_another_kind() -> None:
    with pytest.raises(RelayError, match="known are `debug`, `graph`, `vm`, `aot`"):
        relay.create_executor("fast")


def test_names_of_the_original_are_there() -> None:
    from relayvm.relay.backend import Executor, Runtime, interpreter, vm

    assert interpreter.ConstructorValue is ConstructorValue
    assert vm.compile is relay.vm.compile
    assert Executor("graph", {"link-params": True})["link-params"] is True
    assert str(Runtime("crt")) == "crt"
    with pytest.raises(RelayError, match="there is no runtime `java`"):
        Runtime("java")
    with pytest.raises(RelayError, match="no option `speed`"):
        Executor("aot", {"speed": 1})


LISTS = """#[version = "0.0.5"]
type Tree { Leaf(float32), Node(Tree, Tree) }
def @total(%t: Tree) -> float32 {
  match (%t) { Leaf(%x) => %x, Node(%l, %r) => @total(%l) + @total(%r) }
}
def @count(%l: List[float32]) -> int32 { match (%l) { Nil => 0, Cons(_, %r) => 1 + @count(%r) } }
def @both(%p: (Option[Tree], List[float32])) -> (float32, int32) {
  (match (%p.0) { Some(%t) => @total(%t), None => 0f }, @count(%p.1))
}
"""


def adt(module: Any, type_name: str, constructor: str, *fields: Any) -> ADT:
    made = next(c for c in module.get_type(type_name)[1:] if c.name_hint == constructor)
    return ADT(made.tag, fields)


def test_data_types_are_given_as_tags_and_fields(kind: str) -> None:
    module = relay.fromtext(LISTS)
    run = relay.create_executor(kind, mod=module)
    items = adt(module, "List", "Nil")
    for number in range(3):
        items = adt(module, "List", "Cons", np.float32(number), items)
    leaves = [adt(module, "Tree", "Leaf", np.float32(x)) for x in (2, 3)]
    tree = adt(module, "Tree", "Node", *leaves)
    count, total, both = (
        run.evaluate(module.get_global_var(n)) for n in ("count", "total", "both")
    )
    assert count(items) == 3 and total(tree) == 5
    some = adt(module, "Option", "Some", tree)
    for pair in ((some, items), tuple_object([some, items])):
        assert [float(v) for v in both(pair)] == [5, 3]
    assert [float(v) for v in both((adt(module, "Option", "None"), items))] == [0, 3]


def test_values_given_by_tags_may_be_deep(kind: str) -> None:
    module = relay.fromtext(LISTS)
    items = adt(module, "List", "Nil")
    for _ in range(20_000):
        items = adt(module, "List", "Cons", np.float32(1), items)
    run = relay.create_executor(kind, mod=module).evaluate(module.get_global_var("count"))
    assert run(items) == 20_000


def test_a_loaded_program_takes_tags(tmp_path: Path) -> None:
    module = relay.fromtext(LISTS)
    module["main"] = module["total"]
    relay.vm.compile(module, target="llvm").export_library(str(tmp_path / "tree.rvm"))
    loaded = tvm.runtime.load_module(str(tmp_path / "tree.rvm"))
    machine = tvm.runtime.vm.VirtualMachine(loaded, tvm.cpu())
    assert machine.invoke("main", adt(module, "Tree", "Leaf", np.float32(4))) == 4


def test_a_tag_of_another_data_type_is_refused(kind: str) -> None:
    module = relay.fromtext(LISTS)
    run = relay.create_executor(kind, mod=module).evaluate(module.get_global_var("total"))
    wrong = adt(module, "List", "Nil")
    few = adt(module, "Tree", "Node", adt(module, "Tree", "Leaf", np.float32(4)))
    for value in (wrong, few):
        with pytest.raises(RelayError) as failure:
            run(value)
        assert failure.value.code == "wrong-argument"


def test_a_reference_made_by_hand_is_one_for_the_evaluator_and_new_for_a_machine():
    mod = relay.parse(
        "type B { B(ref(int32)) } "
        "def @both(%a: ref(int32), %b: ref(int32)) "
        "{ ref_write(%a, ref_read(%a) + 10); ref_read(%b) } "
        "def @inside(%t: (ref(int32), B)) "
        "{ ref_write(%t.0, ref_read(%t.0) + 10); match (%t.1) { B(%r) => ref_read(%r) } } "
        "def @main() { 1 }"
    )
    _, constructor = mod.get_type("B")
    for kind, result, left in (("debug", 11, 11), ("vm", 1, 1), ("debug", 11, 11)):
        executor = relay.create_executor(kind, mod=mod)
        for name in ("both", "inside"):
            cell = RefValue(tvm.nd.array(np.int32(1)))
            held = ConstructorValue(constructor.tag, [cell], constructor)
            given = (cell, cell) if name == "both" else ((cell, held),)
            got = executor.evaluate(mod.get_global_var(name))(*given)
            assert (int(got.numpy()), int(cell.value.numpy())) == (result, left)
