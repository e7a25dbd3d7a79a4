"""Continuation-passing style: there and back, for all that functions may hold and be held by."""

from __future__ import annotations

import numpy as np
import pytest
from programs_text import typed

import relayvm
from relayvm.base.diagnostics import RelayError
from relayvm.compiler.evaluate import Evaluator
from relayvm.compiler.passes import run_passes
from relayvm.compiler.transforms.cps import function_un_cps, is_cps
from relayvm.ir.printer import print_type
from relayvm.ir.types import FuncType

PROGRAMS = {
    "calls": """def @f(%x: int32) -> int32 { add(%x, 1) }
      def @main(%n: int32) -> int32 { multiply(@f(%n), @f(@f(%n))) }""",
    "recursion": """def @main(%n: int32) -> int32 {
      if (less(%n, 1)) { 1 } else { add(%n, @main(subtract(%n, 1))) } }""",
    "local recursion": """def @main(%n: int32) -> int32 {
      let %f = fn (%i: int32) -> int32 { if (less(%i, 1)) { %n } else { %f(subtract(%i, 1)) } };
      add(%f(%n), %f(3)) }""",
    "matches": """def @main(%n: int32) -> (int32, List[int32]) {
      let %l = @map(fn (%x: int32) { multiply(%x, %n) }, Cons(1, Cons(2, Nil)));
      (match (%l) {
        Cons(%a, Cons(_, _)) => @foldl(fn (%s: int32, %x: int32) { add(%s, %x) }, %a, %l),
        _ => 0 }, %l) }""",
    "references": """def @main(%n: int32) -> (int32, int32) {
      let %r = ref(fn (%x: int32) -> int32 { %x });
      let %c = ref(0);
      ref_write(%r, fn (%x: int32) -> int32 { ref_write(%c, add(ref_read(%c), 1)); add(%x, %n) });
      (add(ref_read(%r)(1), ref_read(%r)(2)), ref_read(%c)) }""",
    "functions in data": """type Op[A] { Unary(fn (A) -> A), Both(Op[A], Op[A]) }
      def @run[A](%o: Op[A], %x: A) -> A { match (%o) {
        Unary(%f) => %f(%x), Both(%a, %b) => @run(%b, @run(%a, %x)) } }
      def @main(%n: int32) -> int32 {
        let %twice = Unary(fn (%x: int32) { multiply(%x, 2) });
        @run(Both(%twice, Both(Unary(fn (%x: int32) { add(%x, %n) }), %twice)), 1) }""",
    "functions of functions": """def @compose2(%f: fn (int32) -> int32, %g: fn (int32) -> int32)
        -> fn (int32) -> int32 { fn (%x: int32) { %g(%f(%x)) } }
      def @main(%n: int32) -> int32 {
        let %h = @compose2(fn (%x: int32) { add(%x, %n) }, fn (%x: int32) { multiply(%x, 3) });
        @compose2(%h, %h)(1) }""",
}

ID = "fn [A](%a: A) -> A { %a }"
POLYMORPHIC = {
    "an instance at polymorphic functions": """
      def @twice[A](%f: fn (A) -> A, %a: A) -> A { %f(%f(%a)) }
      def @main(%n: int32) -> bool {
        let %r = ref(@twice);
        let %v = ref_read(%r)(fn (%h: fn [A](fn (A) -> A, A) -> A) { %h }, @twice);
        %v(fn (%b: bool) { %n < 3 }, True) }""",
    "a parameter": f"""
      def @f(%g: fn [A](A) -> A, %x: int32) {{ (%g(%x), %g(True)) }}
      def @main(%n: int32) {{ @f({ID}, %n) }}""",
    "a parameter beside type parameters": """
      def @f[B](%b: B, %g: fn [A](A, B) -> A) -> (int32, B) { (%g(1, %b), %g(%b, %b)) }
      def @main(%n: int32) { @f(%n, fn [A](%a: A, %b: int32) -> A { %a }) }""",
    "a parameter of sizes": """
      def @f(%g: fn [k](Tensor[(k,), int32]) -> Tensor[(k,), int32], %x: int32) {
        (sum(%g(full(%x, shape=[2], dtype="int32"))), sum(%g(full(%x, shape=[3], dtype="int32"))))
      }
      def @main(%n: int32) {
        @f(fn [k](%t: Tensor[(k,), int32]) -> Tensor[(k,), int32] { add(%t, %t) }, %n)
      }""",
    "a result": f"""
      def @f() -> fn [A](A) -> A {{ {ID} }}
      def @main(%n: int32) {{ let %g = @f(); (%g(%n), %g(True)) }}""",
    "in a reference": f"""
      def @main(%n: int32) {{ let %r = ref({ID}); (ref_read(%r)(%n), ref_read(%r)(True)) }}""",
    "in data": f"""type Q {{ Q(fn [A](A) -> A), Nothing }}
      def @call(%q: Q, %n: int32) {{
        match (%q) {{ Q(%h) => (%h(%n), %h(True)), Nothing => (0, False) }}
      }}
      def @main(%n: int32) {{ (@call(Q({ID}), %n), @call(Nothing, %n)) }}""",
    "data without functions in it": """
      type Box { Box(fn (int32) -> int32), Held(ref(Box)), Empty }
      def @f(%n: int32) -> int32 { %n }
      def @main(%n: int32) { let %v = (let %u = @f(%n); ref(Empty)); %n }""",
    "a global in a reference": f"""def @id[A](%a: A) -> A {{ %a }}
      def @main(%n: int32) {{
        let %r = ref(@id);
        let %v = ref_read(%r)(%n);
        ref_write(%r, {ID});
        (%v, ref_read(%r)(True))
      }}""",
    "a global that is shared": """def @id[A](%a: A) -> A { %a }
      def @main(%n: int32) { %0 = ref(@id); (ref_read(%0)(%n), ref_read(%0)(True)) }""",
    "a global or a local function": f"""def @id[A](%a: A) -> A {{ %a }}
      def @main(%n: int32) {{
        let %f = if (less(%n, 3)) {{ @id }} else {{ {ID} }};
        (%f(%n), %f(True))
      }}""",
    "a global or a local function as parameter": f"""def @id[A](%a: A) -> A {{ %a }}
      def @both(%f: fn [A](A) -> A, %n: int32) {{ (%f(%n), %f(True)) }}
      def @main(%n: int32) {{
        @both(match (Some(%n)) {{ Some(_) => @id, None => {ID} }}, %n)
      }}""",
}


def plain(value):
    """Return numbers for arrays, tuples for tuples and data."""
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    return value.tolist() if isinstance(value, np.ndarray) else tuple(map(plain, value.fields))


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_goes_there_and_back_means_the_same(name):
    module = typed(PROGRAMS[name])
    expected = plain(Evaluator(module).call("main", [4]))
    after = run_passes(module, ["to_cps", "infer_types"], verify=True)
    assert is_cps(after["main_cps"])
    back = function_un_cps(after["main_cps"])
    whole = run_passes(
        after.with_functions({**after.functions, "main": back}), ["infer_types"], verify=True
    )
    assert whole["main"].checked_type == module["main"].checked_type
    assert plain(Evaluator(whole).call("main", [4])) == expected
    for level in (0, 3):
        exe = relayvm.compile(whole, opt_level=level, entries=["main"])
        assert plain(relayvm.VirtualMachine(exe).run(4)) == expected


def test_deep_recursion_becomes_tail_calls():
    module = run_passes(typed(PROGRAMS["recursion"]), ["to_cps", "infer_types"])
    evaluator = Evaluator(module, max_depth=10)
    assert int(evaluator.call("main", [20_000])) == 20_000 * 20_001 // 2 + 1


def test_a_parameter_that_is_a_function_of_data_gets_a_continuation():
    text = "def @apply(%f: fn (int32) -> int32, %x: int32) -> int32 { add(%f(%x), 1) }"
    after = run_passes(typed(text), ["to_cps", "infer_types"], verify=True)
    kind = after["apply_cps"].params[0].type_annotation
    assert isinstance(kind, FuncType) and len(kind.arg_types) == 2
    back = function_un_cps(after["apply_cps"])
    assert back.params[0].type_annotation == typed(text)["apply"].params[0].type_annotation


@pytest.mark.parametrize("name", POLYMORPHIC)
def test_polymorphic_functions_have_continuations(name):
    module = typed(POLYMORPHIC[name])
    expected = plain(Evaluator(module).call("main", [4]))
    for passes in (["to_cps"], ["to_cps", "un_cps"], ["to_cps", "partial_evaluate"]):
        after = run_passes(module, [*passes, "infer_types"], verify=True)
        assert plain(Evaluator(after).call("main", [4])) == expected
    after = run_passes(module, ["to_cps", "infer_types"])
    back = {n: function_un_cps(f) for n, f in after.functions.items() if is_cps(f)}
    whole = run_passes(
        after.with_functions({**after.functions, "main": back["main_cps"]}),
        ["infer_types"],
        verify=True,
    )
    assert plain(Evaluator(whole).call("main", [4])) == expected
    for level in (0, 3):
        exe = relayvm.compile(whole, opt_level=level, entries=["main"])
        assert plain(relayvm.VirtualMachine(exe).run(4)) == expected


def test_a_polymorphic_parameter_has_its_plain_type_again():
    after = run_passes(typed(POLYMORPHIC["a parameter"]), ["to_cps", "infer_types"])
    back = function_un_cps(after["f_cps"])
    assert print_type(back.params[0].type_annotation) == "fn [A](A) -> A"
    run_passes(after.with_functions({**after.functions, "f": back}), ["infer_types"], verify=True)


def test_lifted_closures_have_continuations():
    text = """
    def @main(%a: Tensor[(3), float32]) -> float32 {
        %0 = sum(%a);
        let %f = fn (%v: Tensor[(3), float32], %k: int32) -> float32 { %0 };
        %0 + %f(%a, 2)
    }
    """
    after = run_passes(typed(text), ["lift_closures", "to_cps", "infer_types"], verify=True)
    machine = relayvm.VirtualMachine(relayvm.compile(after, entries=["main"]))
    assert plain(machine.run(np.ones(3, "float32"))) == 6.0


SIZED = {
    "recursion": """def @main[n](%k: int32, %s: Tensor[(n), float32], %a: Tensor[(?), float32])
      -> Tensor[(n), float32] { if (%k == 0) { %s } else { @main(%k - 1, %s + %a, %a) } }""",
    "call": """def @id(%x: Tensor[(?), float32]) -> Tensor[(?), float32] { %x }
      def @main(%k: int32, %s: Tensor[(3), float32], %a: Tensor[(?), float32])
      -> Tensor[(3), float32] { @id(%s + %a) }""",
    "local function": """def @main(%k: int32, %s: Tensor[(3), float32], %a: Tensor[(?), float32]) {
      let %f = fn (%x: Tensor[(?), float32]) -> Tensor[(3), float32] {
        let %g = fn (%y: Tensor[(?), float32]) -> Tensor[(?), float32] { %y }; %g(%x) };
      %f(%s + %a) }""",
}


@pytest.mark.parametrize("name", SIZED)
def test_results_of_other_sizes_are_compared_before_they_are_handed_on(name):
    module = run_passes(typed(SIZED[name]), ["to_cps"])
    ones = np.ones(3, "f")
    machine = relayvm.VirtualMachine(relayvm.compile(module))
    wanted = Evaluator(typed(SIZED[name])).call("main", [np.int32(2), ones, ones])
    assert np.array_equal(machine.run(2, ones, ones), wanted)


def test_a_result_of_another_size_than_is_handed_on_traps():
    module = run_passes(typed(SIZED["call"].replace("%s + %a", "%a")), ["to_cps"])
    machine = relayvm.VirtualMachine(relayvm.compile(module))
    with pytest.raises(RelayError, match="run-time-shape"):
        machine.run(2, np.ones(3, "f"), np.ones(1, "f"))
