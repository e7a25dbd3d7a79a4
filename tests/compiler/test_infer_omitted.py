"""Types that are left out and found: each program with the signatures that follow."""

from __future__ import annotations

import pytest

import relayvm
from relayvm.base.diagnostics import RelayError
from relayvm.ir.equal import structural_equal
from relayvm.ir.printer import print_type
from tests.compiler.inference import typed

CASES = {
    "a constructor goes through an unannotated flip": (
        """
def @flip(%f, %a, %b) { %f(%b, %a) }
def @main() { @flip(fn (%x, %y) { Cons(%x, %y) }, Nil, 1) }
""",
        {
            "flip": "fn (fn (int32, List[int32]) -> List[int32], List[int32], int32) -> "
            "List[int32]",
            "main": "fn () -> List[int32]",
        },
    ),
    "a constructor goes through a polymorphic flip": (
        """
def @flip[A, B, C](%f: fn (A, B) -> C) -> fn (B, A) -> C { fn (%b: B, %a: A) -> C { %f(%a, %b) } }
def @main(%l: List[int32]) { let %snoc = @flip(Cons); @foldl(%snoc, Nil, %l) }
""",
        {
            "flip": "fn [A, B, C](fn (A, B) -> C) -> fn (B, A) -> C",
            "main": "fn (List[int32]) -> List[int32]",
        },
    ),
    "a flipped constructor reverses a list": (
        """
def @flip[A, B, C](%f: fn (A, B) -> C) -> fn (B, A) -> C { fn (%b: B, %a: A) -> C { %f(%a, %b) } }
def @rev[A](%l: List[A]) -> List[A] { @foldl(@flip(Cons), Nil, %l) }
def @main(%l: List[int32]) { @rev(%l) }
""",
        {
            "flip": "fn [A, B, C](fn (A, B) -> C) -> fn (B, A) -> C",
            "rev": "fn [A](List[A]) -> List[A]",
            "main": "fn (List[int32]) -> List[int32]",
        },
    ),
    "a constructor is mapped over a list": (
        """
def @main(%l: List[int32]) { @map(Some, %l) }
""",
        {
            "main": "fn (List[int32]) -> List[Option[int32]]",
        },
    ),
    "one constructor at two types in one call": (
        """
def @compose[A,B,C](%f: fn (B) -> C, %g: fn (A) -> B) { fn (%x: A) { %f(%g(%x)) } }
def @main(%x: int32) { @compose(Some, Some)(%x) }
""",
        {
            "compose": "fn [A, B, C](fn (B) -> C, fn (A) -> B) -> fn (A) -> C",
            "main": "fn (int32) -> Option[Option[int32]]",
        },
    ),
    "recursion without a result type": (
        """
def @fact(%n: int32) { if (%n == 0) { 1 } else { %n * @fact(%n - 1) } }
def @main(%n: int32) { @fact(%n) }
""",
        {
            "fact": "fn (int32) -> int32",
            "main": "fn (int32) -> int32",
        },
    ),
    "recursion without any type": (
        """
def @fact(%n) { if (%n == 0) { 1 } else { %n * @fact(%n - 1) } }
def @main(%n: int32) { @fact(%n) }
""",
        {
            "fact": "fn (int32) -> int32",
            "main": "fn (int32) -> int32",
        },
    ),
    "mutual recursion without result types": (
        """
def @even(%n: int32) { if (%n == 0) { True } else { @odd(%n - 1) } }
def @odd(%n: int32) { if (%n == 0) { False } else { @even(%n - 1) } }
def @main(%n: int32) { @even(%n) }
""",
        {
            "even": "fn (int32) -> bool",
            "odd": "fn (int32) -> bool",
            "main": "fn (int32) -> bool",
        },
    ),
    "mutual recursion without any type": (
        """
def @even(%n) { if (%n == 0) { True } else { @odd(%n - 1) } }
def @odd(%n) { if (%n == 0) { False } else { @even(%n - 1) } }
def @main() { @even(3) }
""",
        {
            "even": "fn (int32) -> bool",
            "odd": "fn (int32) -> bool",
            "main": "fn () -> bool",
        },
    ),
    "a local recursive function without types": (
        """
def @main(%n: int32) {
  let %loop = fn (%i, %acc) { if (%i == 0) { %acc } else { %loop(%i - 1, %acc + 1f) } };
  %loop(%n, 0f)
}
""",
        {
            "main": "fn (int32) -> float32",
        },
    ),
    "a local recursive function over a list": (
        """
def @main(%l: List[float32]) {
  let %len = fn (%l) { match (%l) { Nil => 0, Cons(_, %t) => 1 + %len(%t) } };
  %len(%l)
}
""",
        {
            "main": "fn (List[float32]) -> int32",
        },
    ),
    "a reference holds sizes that differ": (
        """
def @main(%x: Tensor[(3,), float32], %y: Tensor[(4,), float32]) {
  let %r = ref(%x); ref_write(%r, %y); ref_read(%r)
}
""",
        {
            "main": "fn (Tensor[(3), float32], Tensor[(4), float32]) -> Tensor[(?), float32]",
        },
    ),
    "a reference to an empty list gets its type from what is written": (
        """
def @main() { let %r = ref(Nil); ref_write(%r, Cons(1, Nil)); ref_read(%r) }
""",
        {
            "main": "fn () -> List[int32]",
        },
    ),
    "recursion through a reference": (
        """
def @main(%n: int32) {
  let %r = ref(fn (%x: int32) { %x });
  let %f = fn (%x: int32) { if (%x == 0) { 0 } else { ref_read(%r)(%x - 1) } };
  ref_write(%r, %f); %f(%n)
}
""",
        {
            "main": "fn (int32) -> int32",
        },
    ),
    "mutually recursive data types": (
        """
type Tree2[A] { Leaf2(A), Branch(Forest[A]) }
type Forest[A] { Empty, Grow(Tree2[A], Forest[A]) }
def @sumt(%t: Tree2[int32]) { match (%t) { Leaf2(%x) => %x, Branch(%f) => @sumf(%f) } }
def @sumf(%f: Forest[int32]) { match (%f) { Empty => 0, Grow(%t, %r) => @sumt(%t) + @sumf(%r) } }
def @main() { @sumt(Branch(Grow(Leaf2(1), Empty))) }
""",
        {
            "sumt": "fn (Tree2[int32]) -> int32",
            "sumf": "fn (Forest[int32]) -> int32",
            "main": "fn () -> int32",
        },
    ),
    "polymorphic recursion without a result type": (
        """
def @len[A](%l: List[A]) { match (%l) { Nil => 0, Cons(_, %t) => 1 + @len(%t) } }
def @main(%l: List[float32]) { @len(%l) }
""",
        {
            "len": "fn [A](List[A]) -> int32",
            "main": "fn (List[float32]) -> int32",
        },
    ),
    "polymorphic mutual recursion without result types": (
        """
def @evens[A](%l: List[A]) { match (%l) { Nil => Nil, Cons(%h, %t) => Cons(%h, @odds(%t)) } }
def @odds[A](%l: List[A]) { match (%l) { Nil => Nil, Cons(_, %t) => @evens(%t) } }
def @main(%l: List[float32]) { @evens(%l) }
""",
        {
            "evens": "fn [A](List[A]) -> List[A]",
            "odds": "fn [A](List[A]) -> List[A]",
            "main": "fn (List[float32]) -> List[float32]",
        },
    ),
    "branches of two sizes join": (
        """
def @main(%c: bool, %x: Tensor[(3, 2), float32], %y: Tensor[(4, 2), float32]) {
  let %z = if (%c) { %x } else { %y }; concatenate((%z, %x), axis=0)
}
""",
        {
            "main": "fn (bool, Tensor[(3, 2), float32], Tensor[(4, 2), float32]) -> "
            "Tensor[(?, 2), float32]",
        },
    ),
    "a loop over an unannotated tuple": (
        """
def @loop(%i: int32, %s) { if (%i == 0) { %s } else { @loop(%i - 1, (%s.0 + 1f, %s.1 * 2f)) } }
def @main() { @loop(3, (1f, 2f)) }
""",
        {
            "loop": "fn (int32, (float32, float32)) -> (float32, float32)",
            "main": "fn () -> (float32, float32)",
        },
    ),
    "weights from the data": (
        """
def @main(%x: Tensor[(4, 8), float32], %w, %b) { nn.bias_add(nn.dense(%x, %w, units=16), %b) }
""",
        {
            "main": "fn (Tensor[(4, 8), float32], Tensor[(16, 8), float32], Tensor[(16), "
            "float32]) -> Tensor[(4, 16), float32]",
        },
    ),
    "weights of a layer and of its caller": (
        """
def @layer(%x: Tensor[(4, 8), float32], %w) { nn.dense(%x, %w, units=16) }
def @main(%x: Tensor[(4, 8), float32], %w) { @layer(%x, %w) }
""",
        {
            "layer": "fn (Tensor[(4, 8), float32], Tensor[(16, 8), float32]) -> Tensor[(4, "
            "16), float32]",
            "main": "fn (Tensor[(4, 8), float32], Tensor[(16, 8), float32]) -> Tensor[(4, "
            "16), float32]",
        },
    ),
    "a polymorphic function applied to itself": (
        """
def @id[A](%x: A) { %x }
def @main() { @id(@id)(1) }
""",
        {
            "id": "fn [A](A) -> A",
            "main": "fn () -> int32",
        },
    ),
    "a local polymorphic function at two types": (
        """
def @main() { let %id = fn [A](%x: A) { %x }; (%id(1), %id(2f)) }
""",
        {
            "main": "fn () -> (int32, float32)",
        },
    ),
    "a function that ignores an argument": (
        """
def @main() { let %k = fn (%x, %y) { %x }; %k(1, 2f) }
""",
        {
            "main": "fn () -> int32",
        },
    ),
    "sizes double twice": (
        """
def @double[n](%x: Tensor[(n,), float32]) { concatenate((%x, %x), axis=0) }
def @main[m](%x: Tensor[(m,), float32]) { @double(@double(%x)) }
""",
        {
            "double": "fn [n](Tensor[(n), float32]) -> Tensor[(n*2), float32]",
            "main": "fn [m](Tensor[(m), float32]) -> Tensor[(m*4), float32]",
        },
    ),
    "sizes double in a recursion": (
        """
def @grow[n](%i: int32, %x: Tensor[(n,), float32]) { if (%i == 0) { %x } else {
    @grow(%i - 1, concatenate((%x, %x), axis=0)) } }
def @main(%x: Tensor[(3,), float32]) { @grow(2, %x) }
""",
        {
            "grow": "fn [n](int32, Tensor[(n), float32]) -> Tensor[(?), float32]",
            "main": "fn (Tensor[(3), float32]) -> Tensor[(?), float32]",
        },
    ),
    "a closure over a symbolic size": (
        """
def @main[n](%l: List[Tensor[(n, 3), float32]]) { @map(fn (%x) { sum(%x, axis=[0]) }, %l) }
""",
        {
            "main": "fn [n](List[Tensor[(n, 3), float32]]) -> List[Tensor[(3), float32]]",
        },
    ),
    "a loop that grows its state": (
        """
def @main(%x: Tensor[(?,), float32]) {
  let %loop = fn (%i: int32, %st: Tensor[(?,), float32]) { if (%i < 3) {
    %loop(%i + 1, concatenate((%st, %x), axis=0)) } else { (%i, %st) } };
  %loop(0, %x)
}
""",
        {
            "main": "fn (Tensor[(?), float32]) -> (int32, Tensor[(?), float32])",
        },
    ),
    "a data type over a size": (
        """
type Vec[n] { MkVec(Tensor[(n,), float32]) }
def @add_vec[n](%a: Vec[n], %b: Vec[n]) -> Vec[n] { match (%a) { MkVec(%x) => match (%b) {
    MkVec(%y) => MkVec(%x + %y) } } }
def @main[n](%x: Tensor[(n,), float32]) { match (@add_vec(MkVec(%x), MkVec(%x))) {
    MkVec(%z) => %z } }
""",
        {
            "add_vec": "fn [n](Vec[n], Vec[n]) -> Vec[n]",
            "main": "fn [n](Tensor[(n), float32]) -> Tensor[(n), float32]",
        },
    ),
    "continuations without types": (
        """
def @mapk(%f, %l, %k) { match (%l) { Nil => %k(Nil), Cons(%h, %t) => @mapk(%f, %t, fn (%r) {
    %k(Cons(%f(%h), %r)) }) } }
def @main(%l: List[int32]) { @mapk(fn (%x) { %x * 2 }, %l, fn (%r) { %r }) }
""",
        {
            "mapk": "fn (fn (int32) -> int32, List[int32], fn (List[int32]) -> "
            "List[int32]) -> List[int32]",
            "main": "fn (List[int32]) -> List[int32]",
        },
    ),
    "functions in a list": (
        """
def @main() { let %fs = Cons(fn (%x) { %x + 1 }, Cons(fn (%y) { %y * 2 }, Nil)); @map(fn (%f) {
    %f(3) }, %fs) }
""",
        {
            "main": "fn () -> List[int32]",
        },
    ),
    "an option without types": (
        """
def @get(%o) { match (%o) { Some(%x) => %x, None => 0f } }
def @main() { @get(Some(1f)) }
""",
        {
            "get": "fn (Option[float32]) -> float32",
            "main": "fn () -> float32",
        },
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_omitted_types_are_found(name) -> None:
    text, expected = CASES[name]
    module = typed(text)
    found = {n: print_type(f.checked_type) for n, f in module.functions.items()}
    assert {n: found[n] for n in expected} == expected


REFUSED = {
    "a function that only calls itself": (
        "def @f(%x) { @f(%x) } def @main() { @f(1) }",
        "the result type of `@f`; annotate it",
    ),
    "a parameter that nothing uses": (
        "def @f(%x) { 1 } def @main() { 2 }",
        "the type of `%x`; annotate it",
    ),
    "a field of a parameter of unknown length": (
        "def @main(%p) { %p.0 + 1 }",
        "the type of `%p`; annotate it",
    ),
    "a list of nothing": ("def @main() { Nil }", "type argument `A` of `Nil`; annotate it"),
    "two functions that only call each other": (
        "def @f(%x: int32) { @g(%x) } def @g(%x: int32) { @f(%x) } def @main() { @f(1) }",
        "the result type of `@g`; annotate it",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_follow_is_named_once(name) -> None:
    text, message = REFUSED[name]
    with pytest.raises(RelayError) as raised:
        typed(text)
    assert [d.code for d in raised.value.diagnostics] == ["cannot-infer"]
    assert raised.value.message == f"cannot infer {message}"
    assert raised.value.span is not None


def test_type_parameters_of_one_name_are_told_apart() -> None:
    text = "def @f[A](%x: A) { %x } def @g[A](%h: fn (A) -> A, %x: A) -> A { %h(%x) }"
    text += "def @k[A](%x: A, %l: fn [A](A) -> A) -> A { %l(%x) }"
    typed(text)
    with pytest.raises(RelayError) as raised:
        typed("def @f[A](%x: A) { fn [A](%y: A) -> A { %x } }")
    assert raised.value.diagnostics[0].notes[-1].message.startswith("type parameters of one name")


@pytest.mark.slow
def test_types_of_any_depth_are_inferred_compared_and_compiled() -> None:
    depth = 1_200  # Above the recursion limit of Python.
    fields = "".join(f"let %t{i + 1} = (%t{i},); " for i in range(depth))
    back = "".join(f"let %u{i + 1} = %u{i}.0; " for i in range(depth))
    text = f"def @main(%t0: int32) {{ {fields}let %u0 = %t{depth}; {back}%u{depth} }}"
    one, two = typed(text), typed(text)
    assert structural_equal(one, two)
    deep = [let_type(module, depth) for module in (one, two)]
    assert deep[0] == deep[1]
    assert hash(deep[0]) == hash(deep[1])
    relayvm.compile(one)


def let_type(module, depth):
    body = module["main"].body
    for _ in range(depth - 1):
        body = body.body
    return body.var.checked_type


def test_the_host_is_told_that_a_type_is_too_deep() -> None:
    kind = "(" * 10_001 + "int32" + ",)" * 10_001
    with pytest.raises(RelayError) as raised:
        relayvm.compile(relayvm.parse(f"def @main(%x: {kind}) {{ %x }}"))
    assert raised.value.code == "too-deep"
