"""The evaluator: what each construct means, sharing, order, depth, traps and budgets."""

from __future__ import annotations

import numpy as np
import pytest
from programs_text import evaluated, parsed, typed

import relayvm
from relayvm.base.diagnostics import RelayError, Trap
from relayvm.compiler.evaluate import Budget, BudgetExceeded, Evaluator
from relayvm.ir.expr import Call, Constant, Function, GlobalVar, If, RefRead, RefWrite, Tuple, Var
from relayvm.ir.module import Module
from relayvm.ops import OPS


def test_numbers_become_arrays_of_rank_zero():
    result = evaluated("def @main(%x: int32) { add(%x, 1) }", 2)
    assert isinstance(result, np.ndarray)
    assert (result.shape, result.dtype, int(result)) == ((), np.dtype("int32"), 3)


def test_closures_capture_what_they_use():
    text = """def @main(%x: int32) {
      let %f = fn (%y: int32) { fn (%z: int32) { add(add(%x, %y), %z) } };
      let %g = %f(10);
      (%g(1), %g(2)) }"""
    assert [int(v) for v in evaluated(text, 100)] == [111, 112]


def test_a_closure_that_is_returned_can_be_called_from_python():
    add = Evaluator(typed("def @main(%x: int32) { fn (%y: int32) { add(%x, %y) } }")).call(
        "main", [40]
    )
    assert int(add(np.array(2, np.int32))) == 42


def test_a_global_function_is_a_value():
    text = """def @inc(%x: int32) { add(%x, 1) }
    def @main(%x: int32) { let %f = @inc; %f(%f(%x)) }"""
    assert int(evaluated(text, 0)) == 2


def test_constructors_and_nested_patterns():
    text = """def @main(%l: List[int32], %x: int32) {
      match ((Cons(%x, %l), Some(3))) {
        (Cons(_, Nil), _) => 1,
        (Cons(%a, Cons(%b, _)), Some(%c)) => add(add(%a, %b), %c),
        _ => 0,
      } }"""
    module = typed(text)
    nil = Evaluator(typed("def @main() -> List[int32] { Cons(5, Nil) }")).call("main")
    assert int(Evaluator(module).call("main", [nil, np.int32(2)])) == 10


def test_references_hold_what_was_written_last():
    text = """def @main(%x: int32) {
      let %r = ref(%x);
      let %before = ref_read(%r);
      ref_write(%r, multiply(ref_read(%r), 10));
      ref_write(%r, add(ref_read(%r), 1));
      (%before, ref_read(%r)) }"""
    assert [int(v) for v in evaluated(text, 4)] == [4, 41]


def counting_module(build) -> Module:
    """Return `main(%r, %c)`, whose body is built around one node that counts its evaluations."""
    counter, flag = Var("r"), Var("c")
    one = Constant(np.array(1, np.int32))
    bump = Call(GlobalVar("bump"), (counter,))
    read = Var("n")
    more = Call(OPS["add"], (RefRead(read), one))
    written = RefWrite(read, more)
    bump_body = TupleOf(written, RefRead(read))
    return Module(
        {
            "bump": Function((read,), bump_body),
            "main": Function((counter, flag), TupleOf(build(bump, flag), RefRead(counter))),
        }
    )


def TupleOf(*fields):
    return Tuple(fields)


def count(build, flag: bool) -> int:
    from relayvm.compiler.host.values import Reference

    module = counting_module(build)
    counter = Reference(np.array(0, np.int32))
    evaluator = Evaluator(module)
    evaluator.call("main", [counter, np.array(flag)])
    return int(counter.value)


def test_a_node_used_twice_is_evaluated_once():
    assert count(lambda node, flag: TupleOf(node, node), True) == 1


def test_two_equal_nodes_are_evaluated_twice():
    def build(node, flag):
        return TupleOf(node, Call(node.op, node.args))

    assert count(build, True) == 2


@pytest.mark.parametrize("flag", [True, False])
def test_a_node_shared_by_both_branches_is_evaluated_before_the_choice(flag):
    assert count(lambda node, c: If(c, TupleOf(node, node), node), flag) == 1


def test_a_node_used_in_one_branch_only_is_not_evaluated_for_the_other():
    unit = TupleOf()
    assert count(lambda node, c: If(c, TupleOf(node), unit), False) == 0


def test_a_node_inside_a_function_is_evaluated_at_each_call():
    def build(node, flag):
        function = Function((), node)
        call = Call(function, ())
        return TupleOf(call, Call(function, ()))

    assert count(build, True) == 2


def test_a_node_shared_with_a_function_is_evaluated_outside_of_it_once():
    def build(node, flag):
        function = Function((), node)
        return TupleOf(node, Call(function, ()), Call(function, ()))

    assert count(build, True) == 1


def test_a_tail_loop_takes_no_stack():
    text = """def @main(%i: int32, %acc: int32) -> int32 {
      if (equal(%i, 0)) { %acc } else { @main(subtract(%i, 1), add(%acc, 2)) } }"""
    evaluator = Evaluator(typed(text), max_depth=10)
    assert int(evaluator.call("main", [3000, 0])) == 6000


def test_recursion_is_not_limited_by_the_stack_of_python():
    text = """def @main(%i: int32) -> int32 {
      if (equal(%i, 0)) { 0 } else { add(1, @main(subtract(%i, 1))) } }"""
    assert int(Evaluator(typed(text)).call("main", [10_000])) == 10_000


def test_recursion_beyond_the_depth_limit_traps():
    text = "def @main(%i: int32) -> int32 { add(1, @main(%i)) }"
    with pytest.raises(Trap) as trap:
        Evaluator(typed(text), max_depth=100).call("main", [1])
    assert trap.value.code == "out-of-depth"


def test_a_failed_match_traps_with_source_line_and_stack():
    text = """def @pick(%o: Option[int32]) -> int32 {
  match? (%o) { Some(%x) => %x }
}
def @main(%o: Option[int32]) -> int32 { add(1, @pick(None)) }"""
    none = Evaluator(typed("def @main() -> Option[int32] { None }")).call("main")
    with pytest.raises(Trap) as trap:
        Evaluator(typed(text)).call("main", [none])
    assert trap.value.code == "match-failed"
    assert trap.value.span.line == 2
    assert [frame.split()[0] for frame in trap.value.stack] == ["@pick", "@main"]


def test_the_evaluator_is_usable_after_a_trap():
    text = """def @main(%o: Option[int32]) -> int32 { match? (%o) { Some(%x) => %x } }
    def @ok() -> int32 { 7 }"""
    evaluator = Evaluator(typed(text))
    none = Evaluator(typed("def @main() -> Option[int32] { None }")).call("main")
    with pytest.raises(Trap):
        evaluator.call("main", [none])
    assert int(evaluator.call("ok")) == 7


@pytest.mark.parametrize(
    "text",
    [
        "def @f(%x: Tensor[(5), float32]) { %x } def @main(%x: Tensor[(?), float32]) { @f(%x) }",
        "def @main(%x: Tensor[(?), float32]) { let %y: Tensor[(5), float32] = %x; %y }",
        "def @main(%x: Tensor[(?), float32]) -> Tensor[(5), float32] { %x }",
        "type B { Full(Tensor[(5), float32]) } def @main(%x: Tensor[(?), float32]) { Full(%x) }",
        """def @f[n](%x: Tensor[(n), float32], %y: Tensor[(n), float32]) { %x }
        def @main(%x: Tensor[(?), float32]) { @f(%x, ones(shape=[5], dtype="float32")) }""",
        """def @main(%x: Tensor[(?), float32]) {
          add(%x, ones(shape=[5], dtype="float32")) }""",
    ],
    ids=["parameter", "let", "result", "field", "size variable", "operator"],
)
def test_an_unknown_size_is_checked_where_a_known_one_is_declared(text):
    evaluator = Evaluator(typed(text))
    evaluator.call("main", [np.zeros(5, np.float32)])
    with pytest.raises(Trap) as trap:
        evaluator.call("main", [np.zeros(7, np.float32)])
    assert trap.value.code == "run-time-shape"


def test_sizes_of_a_call_are_known_inside_of_it():
    text = """def @main[n](%x: Tensor[(n), float32]) {
      let %f = fn (%y: Tensor[(n), float32]) { reshape(%y, newshape=[n, 1]) }; %f(%x) }"""
    assert evaluated(text, np.zeros(4, np.float32)).shape == (4, 1)


def test_a_budget_ends_an_endless_loop():
    text = "def @main(%i: int32) -> int32 { @main(add(%i, 1)) }"
    with pytest.raises(BudgetExceeded):
        Evaluator(typed(text), Budget(operations=10_000)).call("main", [0])


def test_a_budget_of_bytes_refuses_before_the_memory_is_taken():
    text = 'def @main() { zeros(shape=[1000000, 1000000], dtype="float32") }'
    with pytest.raises(BudgetExceeded):
        Evaluator(typed(text), Budget(10**9, 1 << 20)).call("main")


def test_an_argument_that_is_no_function_cannot_be_called():
    with pytest.raises(TypeError):
        Evaluator(parsed("def @main() { 1 }")).apply(3, [])


def test_a_tuple_in_10_000_tuples_is_an_argument_and_a_result():
    depth = 10_000
    inside, opened, closed = "(" * depth, ".0" * depth, ",)" * depth
    value: object = np.int32(7)
    for _ in range(depth):
        value = (value,)
    kind = f"{inside}Tensor[(), int32]{closed}"
    text = f"def @main[n](%t: {kind}, %x: Tensor[(n,), int32]) {{ (%t{opened}, %t) }}"
    number, again = Evaluator(typed(text)).call("main", [value, np.zeros(2, np.int32)])
    for _ in range(depth):
        (again,) = again
    assert int(number) == int(again) == 7


ROWS = "type Rows[A] { End, More(Rows[A], (A, ref(int32))) } "
LISTS = {
    "def @main(%l: List[int32]) { @foldl(fn (%a: int32, %b: int32) { %a * 2 + %b }, 0, %l) }": (
        [[1, 2, 3], (), [np.int32(4)]]
    ),
    "def @main(%l: List[List[int32]]) { @length(@concat(@hd(%l), @hd(@tl(%l)))) }": [[[1], [2, 3]]],
    "def @main(%l: (List[(int32, Array[int32])], bool)) { "
    "match? (%l.0) { Cons(%p, _) => (%p.0, array.get(%p.1, 1)) } }": [([(1, [2, 3])], True)],
    ROWS + "def @main(%l: Rows[float32]) { match? (%l) { "
    "More(More(End, %p), %q) => (%p.0, %q.0, ref_read(%q.1)) } }": [[(1.5, 2), (2.5, 3)]],
}


@pytest.mark.parametrize("text", LISTS)
def test_lists_of_python_are_what_they_are_on_the_machine(text):
    machine = relayvm.VirtualMachine(relayvm.compile(parsed(text)))
    for given in LISTS[text]:
        wanted = machine.run(given)
        got = evaluated(text, given)
        assert np.array_equal(np.asarray(got), np.asarray(wanted))


def test_a_long_list_of_python_is_an_argument():
    text = "def @main(%l: List[int32]) { @length(%l) }"
    assert int(evaluated(text, [1] * 20_000)) == 20_000


def test_a_data_type_that_is_no_list_takes_none():
    for inside in ("End, More(Rows, int32, int32)", "End(int32), More(Rows, int32)", "More(Rows)"):
        text = f"type Rows {{ {inside} }} def @main(%l: Rows) {{ 1 }}"
        with pytest.raises(RelayError) as failure:
            evaluated(text, [1])
        assert failure.value.code == "wrong-argument"
