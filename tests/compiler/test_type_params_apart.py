"""Type parameters of functions inside of types are others than those around, in all passes."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm
from relayvm.base.dtypes import INT32
from relayvm.compiler.evaluate import Evaluator
from relayvm.compiler.infer_types import infer_types
from relayvm.compiler.passes import run_passes
from relayvm.compiler.transforms.copies import TypeMap
from relayvm.ir.equal import structural_equal
from relayvm.ir.printer import print_module
from relayvm.ir.types import FuncType, TupleType, Type, TypeVar, scalar_type
from relayvm.ir.visit import substitute_in_type

HEAD = "type Box[A] { Box(A) }\ntype Held { Held(fn [A](int32, A) -> A) }\n"
STEP = "if (%n <= 0) { %a } else { let %q = HELD(%n - 1, True); if (%q) { HELD(%n - 1, %a) } "
STEP += "else { %a } }"
AGAIN = "(if (%n <= 0) { (%a, %b) } else { let %v = @pair(%n - 1, %b)(%a); (%v.1, %v.0) })"
PROGRAMS = {
    "itself in a reference": "let %r = ref(@f); " + STEP.replace("HELD", "ref_read(%r)"),
    "itself in a declared reference": "let %r: ref(fn [B](int32, B) -> B) = ref(@f); "
    + STEP.replace("HELD", "ref_read(%r)"),
    "itself in data": f"match (Box(@f)) {{ Box(%h) => {STEP.replace('HELD', '%h')} }}",
    "itself in declared data": f"match (Held(@f)) {{ Held(%h) => {STEP.replace('HELD', '%h')} }}",
    "itself as an argument": "let %g = fn (%h: fn [B](int32, B) -> B) { "
    + STEP.replace("HELD", "%h")
    + " }; %g(@f)",
}
PASSES = (
    ["defunctionalize"],
    ["partial_evaluate"],
    ["to_cps"],
    ["to_cps", "partial_evaluate"],
    ["to_cps", "defunctionalize"],
    ["lambda_lift", "defunctionalize"],
    ["eta_expand"],
    ["inline"],
)
ARGS = [np.int32(3), np.bool_(True)]


def plain(value: object) -> object:
    fields = getattr(value, "fields", value)
    if isinstance(fields, (tuple, list)):
        return tuple(map(plain, fields))
    array = np.asarray(value)
    return str(array.dtype), array.tolist()


def check(text: str) -> None:
    module = infer_types(relayvm.parse(HEAD + text))
    expected = plain(Evaluator(module).call("main", ARGS))
    assert plain(relayvm.VirtualMachine(relayvm.compile(module)).run(*ARGS)) == expected
    for passes in PASSES:
        after = infer_types(run_passes(module, passes, verify=True))
        assert plain(Evaluator(after).call("main", ARGS)) == expected, passes


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_polymorphic_function_may_hold_itself(name):
    check(
        f"def @f[A](%n: int32, %a: A) -> A {{ {PROGRAMS[name]} }}\n"
        "def @main(%x: int32, %c: bool) { (@f(2, %x), @f(3, %c)) }"
    )


def test_a_function_that_gives_polymorphic_ones_is_called_inside_of_them():
    check(
        f"def @pair[A](%n: int32, %a: A) -> fn [B](B) -> (A, B) "
        f"{{ fn [B](%b: B) -> (A, B) {{ {AGAIN} }} }}\n"
        "def @main(%x: int32, %c: bool) { (@pair(2, %x)(%c), @pair(3, %c)(%x)) }"
    )


def test_what_is_put_into_a_type_is_not_of_the_functions_inside():
    number, a, b = scalar_type(INT32), TypeVar("A"), TypeVar("B")
    inside = FuncType((b,), TupleType((a, b)), (b,))
    for known in (substitute_in_type(inside, {a: b}), TypeMap({a: b})(inside)):
        other = TypeVar("C")
        assert structural_equal(known, FuncType((other,), TupleType((b, other)), (other,)))
    own = FuncType((a,), a, (a,))
    for map_type in (TypeMap({a: number}), lambda t: substitute_in_type(t, {a: number})):
        held: Type = TupleType((own, a))
        assert structural_equal(map_type(held), TupleType((own, number)))


def test_sides_of_equal_polymorphic_parts_have_their_type_in_typed_text_too():
    side = "fn (%k: fn (fn [B](B) -> B) -> int32) -> int32 { %k(fn [B](%b: B) { %b }) }"
    module = infer_types(
        relayvm.parse(
            f"""def @use(%f: fn (fn (fn (bool) -> bool) -> int32) -> int32) {{
              %f(fn (%g: fn (bool) -> bool) {{ if (%g(True)) {{ 1 }} else {{ 2 }} }}) }}
            def @main(%c: bool) {{ @use(if (%c) {{ {side} }} else {{ {side} }}) }}"""
        )
    )
    text = print_module(module, show_types=True)
    assert "/* ty=fn (fn (fn [B](B) -> B) -> int32) -> int32 */;" in text
    assert print_module(infer_types(relayvm.parse(text)), show_types=True) == text
