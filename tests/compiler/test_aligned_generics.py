"""Local names declare polymorphic types whose parameters stand in another order than those of the
functions that they name.
"""

from __future__ import annotations

import numpy as np
import pytest

import relayvm
from relayvm.base.dtypes import BOOL, INT32
from relayvm.compiler.evaluate import Evaluator
from relayvm.compiler.infer_types import infer_types
from relayvm.compiler.passes import run_passes
from relayvm.compiler.transforms.aligned_generics import with_aligned_params
from relayvm.compiler.transforms.instances import match_types
from relayvm.ir.printer import print_module
from relayvm.ir.types import FuncType, Type, TypeVar, scalar_type
from relayvm.ir.visit import substitute_in_type

HEAD = """type Pair[A, B] { Pair(A, B) }
def @one[A, B](%a: A, %b: B) -> Option[A] { Some(%a) }
"""
USES = "(%s(%x, %c), %s(%c, %x), %s[float32, int32](1f, %x))"
BODIES = {
    "a function": "let %s: fn [A, B](A, B) -> Option[A] = "
    f"fn [Q, P](%a: P, %b: Q) -> Option[P] {{ Some(%a) }}; {USES}",
    "what it captures": "let %s: fn [A, B](A, B) -> (Option[A], int32) = "
    f"fn [Q, P](%a: P, %b: Q) -> (Option[P], int32) {{ (Some(%a), %x) }}; {USES}",
    "one that calls itself": """let %s: fn [A, B](int32, A, B) -> Option[A] =
        fn [Q, P](%n: int32, %a: P, %b: Q) -> Option[P] {
            if (%n <= 0) { Some(%a) } else { %s(%n - 1, %a, %b) } };
        (%s(%x, %x, %c), %s[bool, int32](1, %c, %x))""",
    "a global": "let %s: fn [B, A](A, B) -> Option[A] = @one; "
    "(%s(%x, %c), %s[int32, bool](%c, %x), %s(1f, %x))",
    "a constructor": "let %s: fn [A, B](B, A) -> Pair[B, A] = Pair; "
    "(%s(%x, %c), %s[int32, bool](%c, %x), %s(1f, %x))",
    "one parameter for two": "let %s: fn [A](A, A) -> Option[A] = "
    "fn [Q, P](%a: P, %b: Q) -> Option[P] { let %z: Q = %b; Some(%a) }; "
    "(%s(%x, 1), %s[bool](%c, True), %s(1f, 2f))",
    "a global with a known type": "let %s: fn [A](A, int32) -> Option[A] = @one; "
    "(%s(%x, 1), %s[bool](%c, %x), %s(1f, %x))",
    "a choice": """let %s: fn [B, A](A, B) -> Option[A] =
        if (%c) { @one } else { fn [Q, P](%a: Q, %b: P) -> Option[Q] { Some(%a) } };
        (%s(%x, %c), %s[int32, bool](%c, %x))""",
    "a reference": "let %s: ref(fn [B, A](A, B) -> Option[A]) = ref(@one); "
    "(ref_read(%s)(%x, %c), ref_read(%s)[int32, bool](%c, %x))",
    "a reference to a reference": "let %s: ref(ref(fn [B, A](A, B) -> Option[A])) = "
    "ref(ref(@one)); (ref_read(ref_read(%s))(%x, %c), ref_read(ref_read(%s))[int32, bool](%c, %x))",
    "a reference in a tuple that is chosen": """
        let %s: (ref(fn [A](A, A) -> Option[A]), int32) =
          if (%c) { (ref(@one), 1) } else { (ref(fn [Q](%a: Q, %b: Q) { Some(%b) }), 2) };
        (ref_read(%s.0)(%x, 1), ref_read(%s.0)(%c, True), %s.1)""",
    "a reference that a function gives": """
        let %h = fn (%i: int32) -> ref(fn [A](A, A) -> Option[A]) { ref(@one) }; let %s = %h(1);
        (ref_read(%s)(%x, 1), ref_read(%s)(%c, True))""",
    "sizes": """let %s: fn [n, m](Tensor[(n), int32], Tensor[(m), int32]) -> Tensor[(n), int32] =
        fn [q, p](%a: Tensor[(p), int32], %b: Tensor[(q), int32]) -> Tensor[(p), int32] { %a + %a };
        let %p = full(%x, shape=[2], dtype="int32"); let %q = full(%x, shape=[3], dtype="int32");
        (%s(%p, %q), %s(%q, %p), %s[3, 2](%q, %p))""",
}
PASSES = (
    ["lambda_lift"],
    ["defunctionalize"],
    ["to_cps"],
    ["to_cps", "un_cps"],
    ["partial_evaluate"],
    ["inline"],
    ["instantiate"],
    ["to_anf", "to_graph_normal_form"],
)
ARGS = [np.int32(3), np.bool_(True)]


def plain(value: object) -> object:
    """Return a value as data of Python, whoever it comes from."""
    fields = getattr(value, "fields", value)
    if isinstance(fields, (tuple, list)):
        return tuple(map(plain, fields))
    array = np.asarray(value)
    return str(array.dtype), array.tolist()


def typed(name: str) -> relayvm.IRModule:
    text = f"{HEAD}def @main(%x: int32, %c: bool) {{ {BODIES[name]} }}"
    return infer_types(relayvm.parse(text))


@pytest.mark.parametrize("name", BODIES)
def test_the_machine_takes_type_arguments_in_the_declared_order(name):
    module = typed(name)
    expected = plain(Evaluator(module).call("main", ARGS))
    for level in (0, 3):
        exe = relayvm.compile(module, opt_level=level, entries=["main"])
        assert plain(relayvm.VirtualMachine(exe).run(*ARGS)) == expected


@pytest.mark.parametrize("name", BODIES)
def test_passes_give_programs_whose_types_hold(name):
    module = typed(name)
    expected = plain(Evaluator(module).call("main", ARGS))
    for passes in PASSES:
        after = infer_types(run_passes(module, passes, verify=True))
        if "instantiate" not in passes:
            assert plain(Evaluator(after).call("main", ARGS)) == expected, passes
        text = print_module(after)
        assert print_module(infer_types(relayvm.parse(text))) == text


def test_what_is_in_the_declared_order_stays_the_same_object():
    text = """def @one[A, B](%a: A, %b: B) -> A { %a }
    def @main(%x: int32) {
      let %f: fn [A, B](A, B) -> A = @one;
      let %g: fn [A, B](A, B) -> A = fn [P, Q](%a: P, %b: Q) -> P { %a };
      (%f(%x, 1f), %g(True, %x))
    }"""
    module = infer_types(relayvm.parse(text))
    assert with_aligned_params(module["main"], module) is module["main"]


def test_type_parameters_of_functions_inside_are_others():
    number, flag, b = scalar_type(INT32), scalar_type(BOOL), TypeVar("B")
    inner = FuncType((b,), b, (b,))
    outer = FuncType((inner, b), b)
    known = substitute_in_type(outer, {b: number})
    assert isinstance(known, FuncType)
    assert known.arg_types[0] is inner and known.arg_types[1] == known.ret_type == number
    found: dict[TypeVar, Type] = {}
    instance = FuncType((FuncType((flag,), flag), number), number)
    match_types(FuncType(outer.arg_types, outer.ret_type, (b,)), instance, {b}, found)
    assert found == {b: number}


def test_a_function_may_be_given_to_itself_where_its_result_is_polymorphic():
    module = infer_types(
        relayvm.parse(
            """def @pair[A](%a: A) { fn [B](%b: B) -> (A, B) { (%a, %b) } }
            def @main(%x: int32, %c: bool) {
              let %f = @pair(@pair)(ref(Some)).0; (%f(%x)(%c), %f(%c)(%x))
            }"""
        )
    )
    expected = plain(Evaluator(module).call("main", ARGS))
    for passes in (["defunctionalize"], ["to_cps", "infer_types", "defunctionalize"]):
        after = run_passes(module, [*passes, "infer_types"], verify=True)
        assert plain(Evaluator(after).call("main", ARGS)) == expected
