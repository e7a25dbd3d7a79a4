"""Local polymorphic functions as values: each place that takes one has an instance of it."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm
from relayvm.compiler.evaluate import Evaluator
from relayvm.compiler.infer_types import infer_types
from relayvm.compiler.passes import run_passes
from relayvm.compiler.transforms.instantiate import needs_uniform
from relayvm.ir.printer import print_module
from relayvm.ir.types import FuncType
from relayvm.ir.visit import node_types, post_order

ID = "fn [A](%a: A) -> A { %a }"
CALL = "def @call[A, B](%f: fn (A) -> B, %a: A) -> B { %f(%a) }\n"
BOTH = "(@call(%f, %x), @call(%f, %c))"

PROGRAMS = {
    "anonymous": f"@call({ID}, %x)",
    "shared": f"%0 = {ID}; (@call(%0, %x), @call(%0, %c))",
    "shared between branches": f"%0 = {ID}; if (%c) {{ @call(%0, %x) }} else {{ %0(%x) + 1 }}",
    "named": f"let %f = {ID}; @call(%f, %x)",
    "named twice": f"let %g = {ID}; let %f = %g; {BOTH}",
    "called too": f"let %f = {ID}; (%f(%x), %f(%c), {BOTH})",
    "declared at one type": f"let %f: fn (int32) -> int32 = {ID}; @call(%f, %x)",
    "a global": f"let %f = @same; {BOTH}",
    "a constructor": "let %f = Box; match (@call(%f, %x)) { Box(%a) => %a }",
    "taken by a function of one type": f"""
        let %f = {ID}; let %g = fn (%h: fn (int32) -> int32) {{ %h(%x) }}; %g(%f)""",
    "in a tuple": f"let %t = ({ID}, %x); @call(%t.0, %t.1)",
    "in a tuple, at two types": f"let %t = ({ID}, 1); (@call(%t.0, %c), @call(%t.0, %t.1), %t.1)",
    "in tuples of tuples": f"""
        let %f = {ID}; let %t = (%x, (%f, (%f, %c))); let %u = %t.1; let %v = %u.1;
        (%u.0(%x), @call(%v.0, %v.1), @call(%u.0, %t.0))""",
    "a tuple of them taken at types": f"""
        let %t = ({ID}, ({ID}, 1));
        let %g = fn (%p: (fn (int32) -> int32, (fn (bool) -> bool, int32))) {{
          let %q = %p.1; (%p.0(%q.1), %q.0(%c))
        }};
        %g(%t)""",
    "a tuple taken apart by a pattern": f"""
        match (({ID}, %x)) {{ (%f, %a) => (@call(%f, %a), @call(%f, %c)) }}""",
    "tuples of tuples taken apart by patterns": f"""
        let %t = (({ID}, %x), (@same, (Cons(%x, Nil), {ID})));
        match (%t) {{
          (%p, (%g, (Cons(%n, Nil), %h))) => (@call(%p.0, %c), @call(%g, %n), %h(%p.1)),
          ((%f, %a), %q) => (@call(%f, %c), %a, %q.1.1(%a)),
        }}""",
    "in data": f"let %f = {ID}; match (Box(%f)) {{ Box(%g) => %g(%x) }}",
    "in data of two types": f"""
        let %f = {ID};
        (match (Box(%f)) {{ Box(%g) => %g(%x) }}, match (Box(%f)) {{ Box(%g) => %g(%c) }})""",
    "in a list": f"""
        let %l = @map(fn (%g: fn (int32) -> int32) {{ %g(%x) }}, Cons({ID}, Cons(@same, Nil)));
        (@hd(%l), @length(%l))""",
    "in a reference": f"""
        let %f = {ID}; let %r = ref(%f); ref_write(%r, fn (%a: int32) {{ %a + 1 }});
        let %before = ref_read(%r)(%x); ref_write(%r, %f); (%before, ref_read(%r)(%x))""",
    "a choice": f"""
        let %f = {ID}; let %g = fn [B](%b: B) -> B {{ %b }};
        @call(if (%c) {{ %f }} else {{ %g }}, %x)""",
    "a result": f"let %make = fn () -> fn (int32) -> int32 {{ let %f = {ID}; %f }}; %make()(%x)",
    "with a free variable": "let %f = fn [A](%a: A) -> (A, int32) { (%a, %x) }; " + BOTH,
    "captured": f"""
        let %f = {ID}; let %g = fn (%a: int32) {{ (@call(%f, %a), @call(%f, %c)) }};
        @call(%g, %x)""",
    "inside of another": """
        let %f = fn [A](%a: A) -> (A, bool) {
          let %g = fn [B](%b: B) -> (A, B) { (%a, %b) }; let %h = (%g, 1); @call(%h.0, %c)
        };
        """
    + BOTH,
    "inside of a polymorphic global": "(@pair(%x), @pair(%c))",
    "given to itself": f"let %f = {ID}; %f(%f)(%x)",
    "recursive": """
        let %f = fn [A](%a: A, %n: int32) -> A { if (%n == 0) { %a } else { %f(%a, %n - 1) } };
        let %g = fn (%h: fn (bool, int32) -> bool) { %h(%c, %x) }; (%g(%f), %f(%x, %x))""",
    "a value inside of itself": """
        let %f = fn [A](%a: A, %n: int32) -> A {
          if (%n == 0) { %a } else {
            let %g = fn (%h: fn (A, int32) -> A) { %h(%a, %n - 1) }; %g(%f)
          }
        };
        (%f(%x, 2), %f(%c, 3))""",
    "for tensors of each size": """
        let %f = fn [n: ShapeVar, A](%t: Tensor[(n,), int32], %a: A) -> (int32, A) {
          (sum(%t), %a)
        };
        let %g = fn (%h: fn (Tensor[(3,), int32], bool) -> (int32, bool)) {
          %h(full(%x, shape=[3], dtype="int32"), %c)
        };
        %g(%f)""",
    "uses another": f"""
        let %f = {ID}; let %g = fn [B](%b: B) -> (B, B) {{ (%f(%b), %b) }}; (%g(%x), %g(%c))""",
    "uses another, which is a value too": f"""
        let %f = {ID};
        let %t = (%f, fn [A, B](%b: B, %a: A) -> (A, B) {{ (@call(%f, %a), %f(%b)) }});
        (%t.1(%c, %x), %t.1(%x, %c), @call(%t.0, %c))""",
    "uses another inside of one": f"""
        let %f = {ID};
        let %g = fn [A](%a: A) -> ((A, A), bool) {{
          let %h = fn [B](%b: B) -> (A, B) {{ (%f(%a), %f(%b)) }};
          (%h(%a), %f(%h(%c).1))
        }};
        """
    + "(@call(%g, %x), %g(%c))",
    "uses another and is not used": f"""
        let %f = {ID}; let %g = fn [A, B](%b: B, %a: A) -> A {{ %f(%a) }}; %x""",
    "uses another at types that it makes": f"""
        let %f = {ID}; let %g = fn [B](%b: B) -> (B, (B, B)) {{ %f((%b, (%b, %f(%b)))) }};
        let %h = fn [C](%d: C) -> ((C, C), ((C, C), (C, C))) {{ %g((%f(%d), %d)) }};
        (%h(%x), %h(%c))""",
    "effects happen once": f"""
        let %r = ref(%x);
        let %t = ({ID}, {{ ref_write(%r, ref_read(%r) + 1); ref_read(%r) }});
        (@call(%t.0, %t.1), @call(%t.0, %c), ref_read(%r))""",
}
OTHERS = """type Box[A] { Box(A) }
def @same[A](%a: A) -> A { %a }
def @pair[B](%b: B) -> (int32, B) {
  let %f = fn [A](%a: A) -> (A, B) { (%a, %b) }; let %t = (%f, 1); @call(%t.0, %t.1)
}
"""


def program(body: str, more: str = "") -> relayvm.Module:
    text = f"{CALL}{OTHERS}{more} def @main(%x: int32, %c: bool) {{ {body} }}"
    return infer_types(relayvm.parse(text))


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_local_polymorphic_function_may_be_a_value(name):
    module = program(PROGRAMS[name])
    args = [np.int32(3), np.bool_(True)]
    expected = repr(Evaluator(module).call("main", args))
    instances = run_passes(module, ["instantiate"], verify=True)
    assert not needs_uniform(instances)
    assert repr(Evaluator(instances).call("main", args)) == expected
    lowered = infer_types(run_passes(module, ["defunctionalize"], verify=True))
    assert repr(Evaluator(lowered).call("main", args)) == expected
    kinds = [t for f in lowered.functions.values() for n in post_order(f) for t in node_types(n)]
    assert not any(isinstance(kind, FuncType) for kind in kinds)
    assert infer_types(relayvm.parse(print_module(lowered, library=True)))
    for level in (0, 3):
        machine = relayvm.VirtualMachine(relayvm.compile(module, opt_level=level))
        assert repr(machine.run(*args)) == expected


@pytest.mark.parametrize(
    "body",
    [
        """
        let %f = fn [A](%n: int32, %a: A) -> A { if (%n <= 0) { %a } else { %f(%n - 1, %a) } };
        (%f(%x, %c), %f(%x, 1f))""",
        """
        let %k = fn [A](%a: A) {
          let %g = fn [B](%b: B) -> (A, B) { (%a, %b) }; (%g(%x), %g(%c), @call(%g, %a))
        };
        (%k(%x), %k(%c))""",
        """
        let %f = fn [n: ShapeVar](%i: int32, %a: Tensor[(n,), int32]) -> Tensor[(n,), int32] {
          if (%i <= 0) { %a } else { %f(%i - 1, %a + %a) }
        };
        (%f(%x, full(%x, shape=[2], dtype="int32")), %f(%x, full(%x, shape=[3], dtype="int32")))""",
    ],
    ids=["recursive", "inside of another", "of each size"],
)
def test_code_that_is_left_of_a_local_function_at_several_places_has_own_type_parameters(body):
    module = program(body)
    args = [np.int32(3), np.bool_(True)]
    left = run_passes(module, ["partial_evaluate", "infer_types"], verify=True)
    assert repr(Evaluator(left).call("main", args)) == repr(Evaluator(module).call("main", args))


@pytest.mark.parametrize(
    "body",
    [
        f"let %g = if (%c) {{ @same }} else {{ {ID} }}; let %v = %g(%g); (%v(%x), %v(%c))",
        f"let %g = match (Some(@same)) {{ Some(%q) => if (%c) {{ %q }} else {{ {ID} }}, "
        "None => @same }; let %v = (let %z = %x; %g)(%g)(%g); (%v(%x), %v(%c))",
        "let %r: ref(fn [A](A, A) -> A) = ref(@first); (ref_read(%r)(%x, 1), ref_read(%r)(%c, %c))",
        """
        let %r: ref(fn [A](A, A) -> A) = ref(@first);
        let %f = if (%c) { ref_read(%r) } else { fn [A](%a: A, %b: A) -> A { %b } };
        let %n = if (%c) { ref_write(%r, %f) } else { () };
        (%f(%x, 1), ref_read(%r)(%c, %c))""",
        """
        let %f: fn [A, B](A, B) -> Option[A] = fn [Y, X](%a: X, %b: Y) -> Option[X] {
          let %o: Option[X] = if (%c) { None } else { Some(%a) }; %o
        };
        (%f(%x, %c), %f(%c, %x))""",
    ],
    ids=["given to itself", "found in data", "more general", "of a choice", "in another order"],
)
def test_what_is_left_says_where_polymorphic_functions_are(body):
    module = program(body, "def @first[A, B](%a: A, %b: B) -> A { %a }")
    for args in ([np.int32(3), np.bool_(True)], [np.int32(4), np.bool_(False)]):
        expected = repr(Evaluator(module).call("main", args))
        for passes in (["partial_evaluate"], ["to_cps", "partial_evaluate"]):
            left = run_passes(module, [*passes, "infer_types"], verify=True)
            assert repr(Evaluator(left).call("main", args)) == expected


def test_tail_calls_whose_results_are_polymorphic_stay_tail_calls():
    pick = f"if (%n <= 0) {{ {ID} }} else {{ @pick(%n - 1) }}"
    more = f"def @pick(%n: int32) -> fn [A](A) -> A {{ {pick} }}"
    module = program("let %f = @pick(%x); (%f(%x), %f(%c))", more)
    left = run_passes(module, ["partial_evaluate", "infer_types"], verify=True)
    result = Evaluator(left, max_depth=10).call("main", [np.int32(500), np.bool_(True)])
    assert tuple(part.item() for part in result) == (500, True)


def test_local_functions_whose_types_double_keep_uniform_layouts():
    lets = "".join(
        f"let %f{i + 1} = fn [A](%a: A) -> A {{ %f{i}((%a, %a)).0 }}; " for i in range(40)
    )
    module = program(f"let %f0 = {ID}; {lets} %f40(%x)")
    assert needs_uniform(run_passes(module, ["instantiate"]))


def test_a_long_way_of_names_and_tuples_to_a_function_is_followed():
    depth = 3_000
    steps = "".join(f"let %t{i + 1} = (%t{i}, {i}); " for i in range(depth))
    back = "".join(f"let %u{i} = %u{i + 1}.0; " for i in reversed(range(depth)))
    module = program(f"let %t0 = {ID}; {steps} let %u{depth} = %t{depth}; {back} @call(%u0, %x)")
    instances = run_passes(module, ["instantiate"])
    assert not needs_uniform(instances)
    assert Evaluator(instances).call("main", [np.int32(3), np.bool_(True)]) == 3
