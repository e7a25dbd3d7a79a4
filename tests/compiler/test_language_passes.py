"""What golden files cannot show of the language-level passes: limits, entries, tensors, spans,
depth.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from programs_text import parsed, typed

import relayvm
from relayvm.base.diagnostics import RelayError
from relayvm.base.dtypes import INT32
from relayvm.compiler.entries import bind_params, entry_names
from relayvm.compiler.evaluate import Evaluator
from relayvm.compiler.passes import PASSES, run_passes
from relayvm.compiler.transforms.instantiate import instantiate, needs_uniform
from relayvm.ir.expr import Call, Constant, Function, Let, Var
from relayvm.ir.module import Module
from relayvm.ir.printer import print_module
from relayvm.ir.types import TensorType, scalar_type
from relayvm.ir.visit import post_order
from relayvm.ops import OPS


def operators(module: Module) -> list[str]:
    return [
        node.op.name
        for function in module.functions.values()
        for node in post_order(function)
        if isinstance(node, Call) and node.op in OPS.values()
    ]


# -- Entries and parameters ---------------------------------------------------------------------


def test_entries_are_the_monomorphic_functions_that_the_program_defines():
    module = parsed("""def @id[A](%x: A) -> A { %x }
    def @rows[n](%x: Tensor[(n), float32]) { %x }
    def @main(%l: List[int32]) { @id(@length(%l)) }""")
    assert entry_names(module) == ("rows", "main")


def test_bound_parameters_disappear_and_become_constants():
    module = parsed("def @main(%x: int32, %w: Tensor[(2), float32]) { (%x, exp(%w)) }")
    w = np.array([1, 2], np.float32)
    bound = bind_params(module, {"w": w})
    assert [p.name for p in bound["main"].params] == ["x"]
    assert np.array_equal(Evaluator(bound).call("main", [1])[1], np.exp(w))


def test_binding_a_parameter_that_is_not_there_names_those_that_are():
    with pytest.raises(RelayError) as reported:
        bind_params(parsed("def @main(%x: int32) { %x }"), {"y": np.zeros(1)})
    assert reported.value.code == "unknown-parameter"
    assert "`%x`" in reported.value.message


# -- Constant folding ---------------------------------------------------------------------------


def test_transposed_weights_are_folded():
    module = parsed(
        "def @main(%x: Tensor[(1, 2), float32], %w: Tensor[(2, 3), float32]) "
        "{ nn.dense(%x, transpose(%w)) }"
    )
    bound = bind_params(module, {"w": np.arange(6, dtype=np.float32).reshape(2, 3)})
    assert operators(run_passes(bound, ["fold_constants"], verify=True)) == ["nn.dense"]


def test_a_loop_beyond_the_budget_is_left():
    module = typed("""def @main() { @count(100000000) }
    def @count(%n: int32) -> int32 { if (equal(%n, 0)) { 0 } else { @count(subtract(%n, 1)) } }""")
    folded = run_passes(module, ["fold_constants"])
    assert isinstance(folded["main"].body, Call)


def test_a_result_that_is_large_for_its_operands_is_left():
    text = "def @main() { add(broadcast_to(1f, shape=[100, 100]), 0f) }"
    assert operators(run_passes(parsed(text), ["fold_constants"])) == ["broadcast_to", "add"]


def test_a_result_that_holds_a_function_is_left():
    module = typed("""def @make(%x: int32) { fn (%y: int32) { add(%x, %y) } }
    def @main() { @make(1) }""")
    assert isinstance(run_passes(module, ["fold_constants"])["main"].body, Call)


def test_effects_in_a_tuple_are_not_lost_by_a_projection():
    text = """def @main(%r: ref(int32)) { (ref_write(%r, 5), 1).1 }"""
    for name in ("fold_constants", "eliminate_dead_code"):
        after = run_passes(parsed(text), [name])
        assert "RefWrite" in {type(n).__name__ for n in post_order(after["main"])}, name


# -- Constant parameters ------------------------------------------------------------------------


def test_a_size_that_a_constant_had_becomes_a_number():
    module = typed("""
    def @f[A, n](%t: A, %x: Tensor[(n), float32], %w: Tensor[(n), float32])
        -> Tensor[(n), float32] { add(%x, %w) }
    def @main(%x: Tensor[(2), float32], %w: Tensor[(2), float32]) { @f(1, %x, %w) }""")
    bound = bind_params(module, {"w": np.ones(2, np.float32)})
    after = run_passes(bound, ["constant_parameters", "infer_types"], verify=True)
    f = after["f"]
    assert [p.name for p in f.params] == ["t", "x"]
    assert isinstance(f.ret_type, TensorType) and f.ret_type.shape == (2,)
    assert len(f.type_params) == 1


def test_equal_small_constants_from_different_places_are_the_same():
    module = typed("""def @f[A](%t: A, %k: int32) -> int32 { %k }
    def @main(%x: int32) { add(@f(%x, 3), @f(1f, 3)) }""")
    after = run_passes(module, ["constant_parameters"])
    assert isinstance(after["f"].body, Constant)


# -- Instantiation ------------------------------------------------------------------------------


def test_types_that_grow_without_end_ask_for_uniform_layouts():
    module = typed("""type Nest[A] { More(A, Nest[(A, A)]), End }
    def @main(%x: int32) { More(%x, End) }""")
    assert needs_uniform(instantiate(module))


def test_uniform_layouts_can_be_asked_for(monkeypatch):
    module = typed("def @main(%x: int32) { Cons(%x, Nil) }")
    assert not needs_uniform(instantiate(module))
    monkeypatch.setenv("RELAYVM_UNIFORM", "1")
    assert needs_uniform(instantiate(module))


def test_renamed_types_and_constructors_are_listed():
    module = typed("def @main(%x: int32, %y: float32) { (Cons(%x, Nil), Cons(%y, Nil)) }")
    attrs = instantiate(module).attrs
    assert dict(attrs["instances"])["List_int32"] == "List[int32]"
    assert dict(attrs["constructors"])["Cons_float32"] == "Cons"


def test_a_type_and_a_constructor_of_one_name_have_instances_of_two_names():
    text = """type Box[A] { Box(A) }
    def @main(%x: int32, %y: float32) { (Box(%x), Box(%y)) }"""
    attrs = instantiate(typed(text)).attrs
    types, constructors = dict(attrs["instances"]), dict(attrs["constructors"])
    assert sorted(types.values()) == ["Box[float32]", "Box[int32]"]
    assert list(constructors.values()) == ["Box", "Box"] and not types.keys() & constructors.keys()
    result = relayvm.VirtualMachine(relayvm.compile(relayvm.parse(text))).run(1, np.float32(2))
    assert [(str(box.type_name), box.fields[0].item()) for box in result] == [
        ("Box[int32]", 1),
        ("Box[float32]", 2.0),
    ]


def test_a_function_of_many_types_has_an_instance_for_each():
    dims = ", ".join(f'@id(ones(shape=[{n}], dtype="float32"))' for n in range(1, 30))
    module = typed(f"def @id[A](%x: A) -> A {{ %x }} def @main() {{ ({dims}) }}")
    after = instantiate(module)
    assert len(after.functions) == 30
    assert [len(v) for v in Evaluator(after).call("main")] == list(range(1, 30))


# -- All passes ---------------------------------------------------------------------------------


def marked_program() -> str:
    return """def @main(%x: int32, %l: List[int32]) {
  let %f = fn (%y: int32) { add(%y, %x) };
  let %m = @map(%f, %l);
  match (%m) { Cons(%h, _) => floor_divide(%h, 7), Nil => 0 }
}"""


def test_the_span_of_a_marked_node_survives_all_passes():
    after = run_passes(parsed(marked_program()))
    marked = [
        node
        for function in after.functions.values()
        for node in post_order(function)
        if isinstance(node, Call) and getattr(node.op, "name", "") == "floor_divide"
    ]
    assert marked and all(node.span is not None and node.span.line == 4 for node in marked)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(PASSES)))
def test_a_chain_of_5000_calls_and_lets_is_no_problem(name):
    x = Var("x", scalar_type(INT32))
    names = [x, *(Var("y") for _ in range(2500))]
    body = names[-1]
    for _ in range(2500):
        body = Call(OPS["negative"], (body,))
    for before, var in reversed(list(pairwise(names))):
        body = Let(var, Call(OPS["negative"], (before,)), body)
    module = Module({"main": Function((x,), body)})
    after = run_passes(module, [name])
    assert int(Evaluator(after).call("main", [3])) == 3


FUNCTIONS_IN_LIBRARY_DATA = """
    def @main(%k: int32) -> int32 {
      let %f = fn (%x: int32) -> int32 { %x + %k };
      match (Some(%f)) { Some(%g) => %g(2), None => @sum(Cons(%k, Nil)) }
    }"""


@pytest.mark.parametrize("name", ["to_cps", "defunctionalize", "instantiate", "lift_closures"])
def test_text_after_a_pass_holds_what_it_made_of_the_library(name: str) -> None:
    after = run_passes(relayvm.parse(FUNCTIONS_IN_LIBRARY_DATA), [name])
    again = relayvm.parse(print_module(after))
    result = relayvm.VirtualMachine(relayvm.compile(again, entries=["main"])).run(5)
    assert result == 7
