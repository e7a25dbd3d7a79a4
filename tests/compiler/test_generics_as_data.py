"""Polymorphic functions that are values at no type in particular: there is data for them."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm
from relayvm.base.diagnostics import RelayError
from relayvm.compiler.evaluate import Evaluator
from relayvm.compiler.infer_types import infer_types
from relayvm.compiler.passes import run_passes
from relayvm.ir.expr import Function
from relayvm.ir.module import Module
from relayvm.ir.types import FuncType
from relayvm.ir.visit import node_types, post_order, type_walk

TYPES = """
type Box[A] { Box(A) }
type Poly { Poly(fn [A](A) -> A) }
type Half[X] { Half(fn [B](B) -> (X, B)) }
type Nest[A] { Leaf, Nest(A, Nest[(A, A)]) }
"""
FUNCTIONS = """
def @call[A, B](%f: fn (A) -> B, %a: A) -> B { %f(%a) }
def @same[A](%a: A) -> A { %a }
def @twice[A](%f: fn (A) -> A, %a: A) -> A { %f(%f(%a)) }
def @at_two(%f: fn [A](A) -> A, %x: int32, %c: bool) -> (int32, bool) { (%f(%x), %f(%c)) }
def @pair[X](%x: X) -> fn [B](B) -> (X, B) { fn [B](%b: B) -> (X, B) { (%x, %b) } }
def @half[X](%x: X) -> Half[X] { Half(fn [B](%b: B) -> (X, B) { (%x, %b) }) }
def @later[X](%n: int32, %x: X) -> fn [B](B) -> (X, B) {
  if (%n <= 0) { @pair(%x) } else { @later(%n - 1, %x) }
}
"""

PROGRAMS = {
    "a result": """
        let %k = fn [A](%a: A) { fn [B](%b: B) -> (A, B) { (%a, %b) } };
        let %q = %k(%x); (%q(1), %k(%c)(True))""",
    "a result of a result": """
        let %k = fn [A](%a: A) {
          fn [B](%b: B) { fn [D](%d: D) -> (A, B, D) { (%a, %b, %d) } } };
        let %q = %k(%x)(%c); (%q(1f), %q((%x, %c)), %k(%c)(%c)(%x))""",
    "a result that recursion makes": "let %f = @later(3, %x); (%f(1), %f(True), @later(1, %c)(2))",
    "of a match": """
        let %f = fn [A](%a: A) -> A { %a };
        let %h = match (Cons(%x, Nil)) { Cons(_, _) => %f, Nil => %f }; %h(%x)""",
    "in tuples of branches": """
        let %f = fn [A](%a: A) -> A { %a };
        let %q = if (%x < 1) { (%x, (@same, %f)) } else { (2, (%f, @same)) };
        (%q.1.0(%x), %q.1.1(%c), %q.0)""",
    "a field": "match (Poly(@same)) { Poly(%f) => (%f(%x), %f(%c)) }",
    "a field of a chosen value": """
        let %r = ref(0);
        let %f = fn [A](%a: A) -> A { ref_write(%r, %x); %a };
        let %p = if (%c) { Poly(@same) } else { Poly(%f) };
        match (%p) { Poly(%g) => (%g(%x), %g(%c), ref_read(%r)) }""",
    "fields in a list": """
        let %r = ref(0);
        let %f = fn [A](%a: A) -> A { ref_write(%r, ref_read(%r) + %x); %a };
        let %go = fn (%p: Poly) { match (%p) { Poly(%g) => (%g(%x), %g(%c)) } };
        (@map(%go, Cons(Poly(@same), Cons(Poly(%f), Nil))), ref_read(%r))""",
    "a field that depends on a parameter of the data type": """
        match (@half(%x)) { Half(%f) =>
          match (@half(%c)) { Half(%g) => (%f(%c), %f(%x), %g(1), %g((%x, %c))) } }""",
    "a parameter": "(@at_two(@same, %x, %c), @at_two(fn [A](%a: A) -> A { %a }, %x, %c))",
    "a parameter of a local function": """
        let %g = fn (%f: fn [A](A) -> (A, int32)) { (%f(%x), %f(%c)) };
        (%g(fn [A](%a: A) -> (A, int32) { (%a, %x) }), %g(fn [A](%a: A) { (%a, 2) }))""",
    "a parameter of a polymorphic function": """
        let %f = fn [A](%g: fn [B](B) -> (A, B), %a: A) -> (A, (A, bool)) { (%g(%a).0, %g(%c)) };
        (%f(@pair(%x), %x), %f(@pair(1f), 2f))""",
    "in a reference": """
        let %r: ref(fn [A](A) -> A) = ref(@same); let %v = (ref_read(%r)(%x), ref_read(%r)(%c));
        ref_write(%r, fn [A](%a: A) -> A { %a }); (%v, ref_read(%r)(%x))""",
    "a knot": """
        let %r = ref(Poly(@same));
        let %f = fn [A](%n: int32, %a: A) -> (A, int32) {
          if (%n <= 0) { (%a, 0) } else { match (ref_read(%r)) { Poly(%g) => (%g(%a), %g(%n)) } } };
        ref_write(%r, Poly(fn [B](%b: B) -> B { %f(0, %b).0 })); (%f(%x, %c), %f(%x, %x))""",
    "given to itself": "match (Poly(@same)) { Poly(%g) => (%g(%g)(%x), %g(@same)(%c)) }",
    "narrowed as a result": """
        let %k = fn (%y: int32) -> fn [A](A) -> A { fn [A](%a: A) -> A { %a } };
        let %g: fn (int32) -> (fn (int32) -> int32) = %k; (%g(1)(2), %k(1)(%c))""",
    "narrowed in a tuple": """
        let %k = fn (%y: int32) -> (int32, fn [A](A) -> A) { (%y, @same) };
        let %g: (int32, fn (int32) -> int32) = %k(%x); (%g.1(2), %k(1).1(%c))""",
    "narrowed in a list": """
        let %r: List[fn [A](A) -> A] = Cons(@same, Cons(fn [A](%a: A) -> A { %a }, Nil));
        let %s: List[fn (int32) -> int32] = %r;
        (match? (%s) { Cons(%f, Cons(%g, _)) => (%f(%x), %g(%x)) },
         match? (%r) { Cons(%f, _) => %f(%c) })""",
    "narrowed in data in tuples in a list": """
        let %r: List[(Box[fn [A](A) -> A], int32)] = Cons((Box(@same), 1), Nil);
        let %s: List[(Box[fn (int32) -> int32], int32)] = %r;
        match? (%s) { Cons((Box(%f), %i), %t) => (%f(%x), %i, @length(%t)) }""",
    "narrowed in a list whose type has parameters": """
        let %h = fn [A](%a: A) {
          let %r: List[fn [B](B) -> (A, B)] = Cons(@pair(%a), Nil);
          let %s: List[fn (int32) -> (A, int32)] = %r;
          match? (%s) { Cons(%f, _) => %f(%x) } };
        (%h(%x), %h(%c))""",
    "narrowed beside a reference": """
        let %r: List[(ref(fn [A](A) -> A), fn [A](A) -> A)] = Cons((ref(@same), @same), Nil);
        let %s: List[(ref(fn [A](A) -> A), fn (int32) -> int32)] = %r;
        match? (%s) { Cons((%f, %g), _) => (ref_read(%f)(%x), ref_read(%f)(%c), %g(%x)) }""",
    "with parameters in another order, in a list": """
        let %k = fn [A, B](%a: A, %b: B) -> Box[A] { Box(%a) };
        let %l: List[fn [B, A](A, B) -> Box[A]] =
          Cons(%k, Cons(fn [Q, P](%a: Q, %b: P) -> Box[Q] { Box(%a) }, Nil));
        match? (%l) { Cons(%f, Cons(%g, _)) => (%f[int32, bool](%c, %x), %g(%c, %x)) }""",
    "in an array": """
        let %a = array.push(array.push(array.new(2), @same), fn [B](%b: B) -> B { %b });
        (array.get(%a, 0)(%x), array.get(%a, 1)(%c), array.get(%a, 0)(%c), array.length(%a))""",
    "narrowed in an array": """
        let %r: Array[fn [A](A) -> A] = array.push(array.push(array.new(1), @same), @same);
        let %s: Array[fn (int32) -> int32] = %r;
        (array.get(%s, 0)(%x), array.get(%s, 1)(%x), array.length(%s))""",
    "an instance at polymorphic functions": """
        let %r = ref(@twice);
        let %v = ref_read(%r)(fn (%h: fn [A](fn (A) -> A, A) -> A) { %h }, @twice);
        %v(fn (%b: bool) { False }, %c)""",
    "an instance at polymorphic functions that is chosen and called": """
        let %v = (let %u = 1; @twice)(fn (%h: fn [A](A) -> A) { %h }, fn [A](%a: A) -> A { %a });
        (%v(%x), %v(%c))""",
    "with sizes": """
        let %f = fn [A, n](%a: A, %t: Tensor[(n), int32]) -> (A, Tensor[(n), int32]) {
          (%a, %t + %t) };
        let %k = fn (%u: int32) { %f };
        (%k(1)(%c, ones(shape=[2], dtype="int32")), %k(2)(%x, ones(shape=[3], dtype="int32")))""",
}
ARGS = ([np.int32(3), np.bool_(True)], [np.int32(0), np.bool_(False)])

# All uses of functions are at known types here, but the data types have polymorphic fields.
MENTIONED = (
    "let %p: (fn [A](A) -> A, fn (int32) -> int32) = (@same, @same); (%p.0(%c), %p.1(%x))",
    """let %f = fn (%y: int32) { %x + %y }; let %b = (Box(%f), Box(%c));
       match (%b) { (Box(%g), Box(%d)) => (%g(%x), %d) }""",
    """let %f = fn (%y: int32) { %x + %y }; let %l: (List[Poly], List[Half[bool]]) = (Nil, Nil);
       match (%l) { (Cons(Poly(_), _), Cons(Half(_), _)) => %x, _ => %f(%x) }""",
)


def program(body: str) -> Module:
    text = TYPES + FUNCTIONS + f"def @main(%x: int32, %c: bool) {{ {body} }}"
    return infer_types(relayvm.parse(text))


def plain(value: object) -> object:
    """Return a result in which data is known by its fields."""
    if hasattr(value, "fields"):
        value = tuple(value.fields)
    if isinstance(value, (tuple, list)):
        return tuple(map(plain, value))
    return np.asarray(value).dtype, np.asarray(value).tolist()


def has_functions(module: Module) -> bool:
    """Return True if a program has function values or types of such."""
    for function in module.functions.values():
        for node in post_order(function.body):
            if isinstance(node, Function):
                return True
            if any(isinstance(p, FuncType) for t in node_types(node) for p in type_walk(t)):
                return True
    fields = [t for d in module.types.values() for c in d.constructors for t in c.inputs]
    return any(isinstance(p, FuncType) for t in fields for p in type_walk(t))


@pytest.mark.parametrize("before", [[], ["lambda_lift"]], ids=["alone", "lifted"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_all_functions_become_data(name, before):
    module = program(PROGRAMS[name])
    after = run_passes(module, [*before, "defunctionalize", "infer_types"], verify=True)
    assert not has_functions(after)
    for args in ARGS:
        expected = plain(Evaluator(module).call("main", args))
        assert plain(Evaluator(after).call("main", args)) == expected


@pytest.mark.parametrize("before", [[], ["lambda_lift"]], ids=["alone", "lifted"])
@pytest.mark.parametrize("body", MENTIONED)
def test_types_that_are_only_mentioned_become_data_too(body, before):
    start = f"{TYPES}def @same[A](%a: A) -> A {{ %a }}\n"
    module = infer_types(relayvm.parse(f"{start}def @main(%x: int32, %c: bool) {{ {body} }}"))
    closed = run_passes(module, ["instantiate"])
    assert "uniform" not in closed.attrs
    after = run_passes(module, [*before, "defunctionalize", "infer_types"], verify=True)
    assert not has_functions(after)
    # What instances were before is not forgotten.
    for names in ("instances", "constructors"):
        assert set(closed.attrs.get(names, ())) <= set(after.attrs[names])
    machine = relayvm.VirtualMachine(relayvm.compile(after, entries=["main"]))
    for args in ARGS:
        expected = plain(Evaluator(module).call("main", args))
        assert plain(Evaluator(after).call("main", args)) == expected
        assert plain(machine.run(*args)) == expected


def test_types_of_local_functions_that_are_only_mentioned_become_data_too():
    text = """def @main(%x: int32) {
      let %f = fn (%g: fn [A](A) -> A) -> int32 { %g(%x) }; let %h = fn () { %x }; %h() }"""
    after = run_passes(relayvm.parse(text), ["defunctionalize", "infer_types"], verify=True)
    assert not has_functions(after)
    assert Evaluator(after).call("main", [np.int32(3)]) == 3


@pytest.mark.parametrize("name", ["fields in a list", "a knot", "with sizes"])
def test_the_machine_runs_what_comes_out(name):
    module = program(PROGRAMS[name])
    after = run_passes(module, ["defunctionalize"])
    vm = relayvm.VirtualMachine(relayvm.compile(after, entries=["main"]))
    for args in ARGS:
        assert plain(vm.run(*args)) == plain(Evaluator(module).call("main", args))


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (
            """let %f = fn [A](%n: int32, %a: A) -> Poly {
                 if (%n <= 0) { Poly(@same) } else { %f(%n - 1, (%a, %a)) } };
               match (%f(%x, %c)) { Poly(%g) => %g(%x) }""",
            "grow without end",
        ),
        (
            """let %r: Nest[fn [A](A) -> A] = Nest(@same, Leaf);
               let %s: Nest[fn (int32) -> int32] = %r;
               match (%s) { Nest(%f, _) => %f(%x), Leaf => 0 }""",
            "grow without end",
        ),
    ],
)
def test_what_cannot_be_listed_is_told_with_its_reason(body, reason):
    with pytest.raises(RelayError, match=reason) as caught:
        run_passes(program(body), ["defunctionalize"])
    assert caught.value.code == "polymorphic-entry"


def test_types_may_grow_without_end_where_no_function_is_a_value():
    module = relayvm.parse(
        """def @d[A](%x: A, %n: int32) -> int32 { if (%n == 0) { 7 } else { @d((%x, %x), %n - 1) } }
        def @main(%x: int32) { @d(%x, 3) }"""
    )
    after = run_passes(module, ["defunctionalize"], verify=True)
    assert Evaluator(infer_types(after)).call("main", [np.int32(1)]) == 7
