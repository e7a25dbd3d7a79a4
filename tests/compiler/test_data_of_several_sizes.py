"""Polymorphic data of functions, references and arrays that is used at several sizes."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm
from relayvm.compiler.evaluate import Evaluator
from relayvm.compiler.infer_types import infer_types
from relayvm.compiler.passes import run_passes
from relayvm.ir.module import Module
from relayvm.ir.printer import print_module

HEAD = """
type R[A] { R(ref(A)) }
type F[A] { F(fn (A) -> A) }
type L[A] { L(fn () -> A) }
type S[A] { S(fn (A) -> float32) }
type Y[A] { Y(Array[A]) }
type Box[A] { Box(A) }
type Both[A] { Both(R[A], List[A]), Neither }
type Tree[A] { Leaf(A), Node(Step[A]) }
type Step[A] { Step(fn (A) -> A, List[Tree[A]]) }
type Own[A, n] { Own(ref(A), Tensor[(n), float32]) }
type Sized[n] { Sized(ref(Tensor[(n), float32])) }
def @get[A](%r: R[A]) -> A { match (%r) { R(%q) => ref_read(%q) } }
def @set[A](%r: R[A], %v: A) { match (%r) { R(%q) => ref_write(%q, %v) } }
def @twice[A](%f: F[A], %x: A) -> A { match (%f) { F(%g) => %g(%g(%x)) } }
def @late[A](%l: L[A]) -> A { match (%l) { L(%g) => %g() } }
def @first[A](%y: Y[A]) -> A { match (%y) { Y(%q) => array.get(%q, 0) } }
def @make[A](%x: A) -> R[A] { R(ref(%x)) }
def @joined[A](%f: F[A], %g: F[A]) -> F[A] { F(fn (%x: A) { @twice(%f, @twice(%g, %x)) }) }
def @walk[A](%t: Tree[A], %x: A) -> A {
  match (%t) {
    Leaf(%a) => %a,
    Node(Step(%f, %l)) => %f(match (%l) { Cons(%h, _) => @walk(%h, %x), Nil => %x })
  }
}
"""
PLUS = "fn (%a: Tensor[(#), float32]) { %a + 1f }"
TIMES = "fn (%a: Tensor[(#), float32]) { %a * 2f }"
# What is made of `%v`, of size `#`.
BODIES = {
    "a reference": "@get(R(ref(%v)))",
    "a reference that is written": "let %r = @make(%v); @set(%r, %v + 1f); @get(%r)",
    "a function": f"@twice(F({PLUS}), %v)",
    "a result": "@late(L(fn () { %v + 1f }))",
    "an array": "@first(Y(array.push(array.new(1), %v)))",
    "a parameter": "match (S(fn (%a: Tensor[(#), float32]) { sum(%a) })) { S(%f) => %f(%v) }",
    "data in data": "match (Box(R(ref(%v)))) { Box(%r) => @get(%r) }",
    "data in a list": f"match? (Cons(F({PLUS}), Nil)) {{ Cons(%f, _) => @twice(%f, %v) }}",
    "functions in a list": f"match? (Cons({PLUS}, Nil)) {{ Cons(%f, _) => %f(%v) }}",
    "beside a list": """match (Both(@make(%v), Cons(%v, Nil))) {
        Both(%r, Cons(%h, _)) => @get(%r) + %h, _ => %v }""",
    "mutual recursion": f"""
        @walk(Node(Step({PLUS}, Cons(Node(Step({TIMES}, Nil)), Nil))), %v)""",
    "closures": f"@twice(@joined(F({PLUS}), F({TIMES})), %v)",
    "a polymorphic closure": """
        let %f = fn [A](%a: A) -> R[A] { R(ref(%a)) }; (@get(%f(%v)), @get(%f(1)))""",
    "a polymorphic value": """
        let %f: fn [A](A) -> R[A] = @make; (@get(%f(%v)), @get(%f(1)))""",
    "in a reference": "let %r = ref(R(ref(%v))); @get(ref_read(%r))",
    "in an array": f"let %r = array.push(array.new(1), F({PLUS})); @twice(array.get(%r, 0), %v)",
    "in a tuple": f"let %r = (F({PLUS}), R(ref(%v))); @twice(%r.0, @get(%r.1))",
    "a size of its own": "match (Own(ref(%v), %v + 1f)) { Own(%r, %t) => ref_read(%r) + %t }",
    "data with a size": "match? (Cons(Sized(ref(%v)), Nil)) { Cons(Sized(%r), _) => ref_read(%r) }",
    "a choice": f"@twice(if (sum(%v) > 0f) {{ F({PLUS}) }} else {{ F({TIMES}) }}, %v)",
    "a constructor that is a value": """
        match? (@map(R, Cons(ref(%v), Nil))) { Cons(%r, _) => @get(%r) }""",
    "a global that is a value": "match? (@map(@get, Cons(R(ref(%v)), Nil))) { Cons(%r, _) => %r }",
    "what closures hold": """
        let %r = R(ref(%v));
        let %f = fn (%z: float32) { @set(%r, %v * %z); @get(%r) };
        %f(2f) + %f(3f)""",
}
MAIN = "def @main(%x: Tensor[(8), float32], %y: Tensor[(16), float32]) {{ {0} }}"


def at_known_sizes(body: str) -> str:
    """Return a program that does the same for two vectors."""
    first, second = body.replace("#", "8"), body.replace("#", "16")
    return MAIN.format(f"(let %v = %x; {first}, let %v = %y; {second})")


def at_all_sizes(body: str) -> str:
    """Return a program with one function for any size, one for a symbolic one and a known one."""
    one, other = body.replace("#", "?"), body.replace("#", "n")
    known = body.replace("#", "8")
    return f"""
    def @any(%v: Tensor[(?), float32]) {{ {one} }}
    def @sized[n](%v: Tensor[(n), float32]) {{ {other} }}
    """ + MAIN.format(f"(@any(%x), @sized(%y), let %v = %x; {known})")


X, Y = np.arange(8, dtype="float32"), np.arange(16, dtype="float32") - 3


def flat(value: object) -> list[object]:
    """Return what a value is made of."""
    if isinstance(value, (tuple, list)):
        return [row for part in value for row in flat(part)]
    array = np.asarray(value)
    return [array.dtype, array.shape, array.tobytes()]


def typed(text: str) -> tuple[Module, list[object]]:
    """Return the typed program and its value."""
    module = infer_types(relayvm.parse(HEAD + text))
    return module, flat(Evaluator(module).call("main", (X, Y)))


def check_instances(text: str) -> Module:
    """Check that instances have the types that inference finds for their text, and the value."""
    module, expected = typed(text)
    after = run_passes(module, ["instantiate"], verify=True)
    again = infer_types(relayvm.parse(print_module(infer_types(after), library=True)))
    assert flat(Evaluator(again).call("main", (X, Y))) == expected
    return again


@pytest.mark.parametrize("name", BODIES)
def test_instances_at_known_sizes_have_their_types(name):
    check_instances(at_known_sizes(BODIES[name]))


@pytest.mark.parametrize("name", BODIES)
def test_instances_at_sizes_of_a_run_have_their_types(name):
    check_instances(at_all_sizes(BODIES[name]))


@pytest.mark.parametrize("name", BODIES)
def test_programs_at_several_sizes_run(name):
    for text, opt_level in ((at_known_sizes, 0), (at_known_sizes, 3), (at_all_sizes, 2)):
        module, expected = typed(text(BODIES[name]))
        machine = relayvm.VirtualMachine(relayvm.compile(module, opt_level=opt_level))
        assert flat(machine.run(X, Y)) == expected


def test_definitions_of_known_sizes_stay_apart_and_of_open_ones_have_parameters():
    known = check_instances(at_known_sizes(BODIES["a reference"]))
    assert [len(d.type_params) for n, d in known.types.items() if n.startswith("R_")] == [0, 0]
    sized = check_instances(at_all_sizes(BODIES["a reference"]))
    assert [len(d.type_params) for n, d in sized.types.items() if n == "R"] == [1]


def test_data_of_functions_of_any_size_goes_where_a_known_one_is_declared():
    text = """
    type Use[n] { Use(fn (Tensor[(n), float32]) -> float32) }
    def @at[n](%u: Use[n], %x: Tensor[(n), float32]) { match (%u) { Use(%f) => %f(%x) } }
    def @main(%x: Tensor[(8), float32], %y: Tensor[(16), float32]) {
      let %u: Use[?] = Use(fn (%a: Tensor[(?), float32]) { sum(%a) });
      (@at(%u, %x), @at(%u, %y))
    }"""
    module, expected = typed(text)
    machine = relayvm.VirtualMachine(relayvm.compile(module))
    assert flat(machine.run(X, Y)) == expected


def test_data_of_functions_of_a_known_size_does_not_go_where_any_is_declared():
    text = """
    type Use[n] { Use(fn (Tensor[(n), float32]) -> float32) }
    def @main(%x: Tensor[(8), float32]) {
      let %u: Use[?] = Use[8](fn (%a: Tensor[(8), float32]) { sum(%a) });
      match (%u) { Use(%f) => %f(%x) }
    }"""
    with pytest.raises(relayvm.RelayError, match=r"declared as `Use\[\?\]`, but its value is"):
        infer_types(relayvm.parse(text))


def test_functions_bind_sizes_in_data():
    text = """
    def @main(%x: Tensor[(8), float32], %y: Tensor[(16), float32]) {
      let %f = fn [n](%a: Tensor[(n), float32]) -> Tensor[(n), float32] { %a + 1f };
      match? (Cons(%f, Nil)) { Cons(%g, _) => (%g(%x), %g(%y)) }
    }"""
    check_instances(text)


def test_the_host_sees_the_names_of_the_program() -> None:
    exe = relayvm.compile(
        relayvm.parse(
            "type R[A] { R(ref(A)), E } "
            "def @main[n](%x: Tensor[(n), float32], %y: Tensor[(5), float32]) -> "
            "(R[Tensor[(n), float32]], R[Tensor[(?), float32]], R[Tensor[(5), float32]]) "
            "{ (R(ref(%x)), R(ref(%x)), R(ref(%y))) } "
            "def @back(%r: R[Tensor[(5), float32]]) "
            '{ match (%r) { R(%x) => ref_read(%x), E => zeros(shape=[5], dtype="float32") } }'
        ),
        entries=["main", "back"],
    )
    vm = relayvm.VirtualMachine(exe)
    made = vm.run(np.ones(2, np.float32), np.ones(5, np.float32))
    assert [value.constructor for value in made] == ["R", "R", "R"]
    for size in ("n", "?", "5"):
        assert set(dir(exe.adt(f"R[Tensor[({size}), float32]]"))) >= {"R", "E"}
    given = exe.adt("R[Tensor[(5), float32]]").R(np.arange(5, dtype=np.float32))
    assert np.asarray(vm.invoke("back", given)).tolist() == [0, 1, 2, 3, 4]


def test_a_reference_that_comes_back_must_hold_the_declared_size() -> None:
    exe = relayvm.compile(
        relayvm.parse(
            "def @make[n](%x: Tensor[(n), float32]) { ref(%x) } "
            "def @main(%r: ref(Tensor[(3), float32])) { ref_read(%r) } "
            "def @first(%l: List[ref(Tensor[(3), float32])]) "
            "{ match? (%l) { Cons(%r, _) => ref_read(%r) } }"
        ),
        entries=["make", "main", "first"],
    )
    vm = relayvm.VirtualMachine(exe)
    fits, other = (vm.invoke("make", np.ones(n, np.float32)) for n in (3, 2))
    assert np.asarray(vm.run(fits)).tolist() == [1, 1, 1]
    assert np.asarray(vm.invoke("first", [fits])).tolist() == [1, 1, 1]
    for name, given, place in (("main", other, "`r`"), ("first", [other], "item 0 of `l`")):
        with pytest.raises(relayvm.RelayError) as caught:
            vm.invoke(name, given)
        assert caught.value.code == "wrong-argument"
        assert f"the content of {place}" in str(caught.value)
