"""Structural equality and hash: what counts and what does not."""

from __future__ import annotations

import pytest

import relayvm
from relayvm.base.diagnostics import RelayError
from relayvm.compiler.infer_types import infer_types
from relayvm.compiler.passes import run_passes
from relayvm.ir.equal import assert_structural_equal, structural_equal, structural_hash
from relayvm.ir.expr import Call, Function, PatternVar, PatternWildcard, Tuple, Var
from relayvm.ir.module import Module
from relayvm.ir.parser import parse_module
from relayvm.ir.prelude import prelude
from relayvm.ir.printer import print_module
from relayvm.ops import OPS
from tests.ir.programs import PROGRAMS, parse

X = "def @main(%x: float32) "

SAME = [
    (X + "{ add(%x, 1f) }", "def @main(%other: float32) { %other + 1f }"),
    (X + "{ let %a = exp(%x); %a }", X + "{ let %b = exp(%x); %b }"),
    (X + "{ %0 = exp(%x); add(%0, %0) }", X + "{ %7 = exp(%x); add(%7, %7) }"),
    (X + "{ sum(%x) }", X + "{ sum(%x, axis=None, keepdims=False) }"),
    (X + "{ (1, 1) }", X + "{ (1, 0001) }"),
    ("def @f[A](%x: A) { %x }", "def @f[B](%x: B) { %x }"),
    (
        "def @f[n, m](%x: Tensor[(n*m + n, min(n, m)), bool]) { %x }",
        "def @f[z, a](%x: Tensor[(a*z + z, min(a, z)), bool]) { %x }",
    ),
    ("def @a() { 1 } def @b() { 2 }", "def @b() { 2 } def @a() { 1 }"),
    (
        "def @main(%p: (bool, bool)) { match (%p) { (%a, %b) => %a } }",
        "def @main(%p: (bool, bool)) { match (%p) { (%c, %d) => %c } }",
    ),
]

DIFFERENT = [
    (X + "{ %0 = exp(%x); add(%0, %0) }", X + "{ add(exp(%x), exp(%x)) }"),
    (X + "{ let %a = exp(%x); %a }", X + "{ exp(%x) }"),
    (X + "{ 0f }", X + "{ -0f }"),
    (X + "{ 1 }", X + "{ 1i64 }"),
    (X + "{ sum(%x, axis=[0]) }", X + "{ sum(%x, axis=[1]) }"),
    (X + "{ sum(%x, axis=[0]) }", X + "{ prod(%x, axis=[0]) }"),
    (X + "{ %x }", "def @main(%x) { %x }"),
    (X + "{ %x }", "def @main(%x: float64) { %x }"),
    ("def @f[A, B](%x: A, %y: B) { 1 }", "def @f[A, B](%x: A, %y: A) { 1 }"),
    ("def @f(%x: bool, %y: bool) { %x }", "def @f(%x: bool, %y: bool) { %y }"),
    ("def @f(%x, Inline=True) { %x }", "def @f(%x, Inline=1) { %x }"),
    ("def @f() { 1 }", "def @g() { 1 }"),
    ("type T { A, B }", "type T { B, A }"),
    ("type T { A(int32) }", "type T { A(bool) }"),
    (
        "def @main(%l: List[bool]) { match (%l) { _ => 1 } }",
        "def @main(%l: List[bool]) { match? (%l) { _ => 1 } }",
    ),
    (
        "def @f[n](%x: Tensor[(n, 2), bool]) { %x }",
        "def @f[n](%x: Tensor[(n, n), bool]) { %x }",
    ),
]


@pytest.mark.parametrize("a, b", SAME)
def test_names_and_spelling_do_not_count(a, b):
    assert structural_equal(parse(a), parse(b))
    assert structural_hash(parse(a)) == structural_hash(parse(b))


@pytest.mark.parametrize("a, b", DIFFERENT)
def test_meaning_and_sharing_count(a, b):
    assert not structural_equal(parse(a), parse(b))
    assert structural_hash(parse(a)) != structural_hash(parse(b))


def test_programs_differ_from_each_other():
    modules = [parse(text) for text in PROGRAMS.values()]
    hashes = {structural_hash(m) for m in modules}
    assert len(hashes) == len(modules)


def test_free_variables_correspond_only_where_asked():
    a, b = Var("a"), Var("b")
    left, right = Call(OPS["add"], (a, a)), Call(OPS["add"], (b, b))
    assert not structural_equal(left, right)
    assert structural_equal(left, right, map_free_vars=True)
    assert not structural_equal(Tuple((a, b)), Tuple((a, a)), map_free_vars=True)
    assert structural_equal(left, Call(OPS["add"], (a, a)))


# --- comparison with an error ----------------------------------------------------------------


def test_what_is_equal_passes_the_assertion():
    one = relayvm.parse("def @main(%x: int32) { %x + 1 }")
    assert_structural_equal(one, relayvm.parse("def @main(%y: int32) { %y + 1 }"))


def test_what_differs_is_told_with_the_first_lines_that_do():
    one = relayvm.parse("def @main(%x: int32) { let %y = %x + 1; %y }")
    two = relayvm.parse("def @main(%x: int32) { let %y = %x + 2; %y }")
    with pytest.raises(ValueError) as raised:
        assert_structural_equal(one, two)
    assert str(raised.value) == (
        "error[not-equal]: the two are not structurally equal\n"
        "note: line 2 of the first:   let %y = add(%x, 1);\n"
        "note: of the second:   let %y = add(%x, 2);\n"
        "help: `relayvm explain not-equal`"
    )


def test_what_differs_in_sharing_alone_says_so():
    x = Var("x")
    node = Tuple((x,))
    with pytest.raises(RelayError, match="differ in what is shared"):
        assert_structural_equal(Function((), x), Function((), Var("x")))
    with pytest.raises(RelayError, match="not-equal"):
        assert_structural_equal(Tuple((node, node)), Tuple((node, Tuple((x,)))))


def test_patterns_lists_and_values_are_compared():
    x, y = Var("x"), Var("y")
    assert structural_equal(PatternVar(x), PatternVar(y))
    assert not structural_equal(PatternVar(x), PatternWildcard())
    assert structural_equal([x, {"a": 1}], [x, {"a": 1}])
    assert not structural_equal([x], [x, x])
    assert not structural_equal({"a": 1}, {"a": 1.0})
    assert structural_hash([1, "a"]) == structural_hash((1, "a"))


def test_library_definitions_that_nothing_uses_make_no_difference():
    library = prelude(OPS)
    plain = parse_module("def @main(%x: int32) { %x }", OPS)
    names = frozenset(library.functions) | frozenset(library.types)
    functions = {**plain.functions, **library.functions}
    full = Module(functions, library.types, names)
    assert structural_equal(plain, full)
    assert structural_hash(plain) == structural_hash(full)
    used = parse_module("def @main(%x: int32) { Some(%x) }", OPS, library)
    assert not structural_equal(used, plain)


def test_types_that_inference_adds_to_the_library_make_no_difference():
    text = (
        "def @main(%x: int32) -> List[int32] { @map[int32, int32](fn (%p: int32) -> int32 { %p }, "
    )
    read = relayvm.parse(text + "Cons[int32](%x, Nil[int32])) }")
    typed = infer_types(read)
    assert typed.functions["map"].body != read.functions["map"].body
    again = relayvm.parse(print_module(typed))
    assert structural_equal(typed, again) and structural_hash(typed) == structural_hash(again)
    assert_structural_equal(typed, again)


def test_a_library_function_that_a_pass_changed_counts_with_its_body():
    typed = infer_types(relayvm.parse("def @main(%x: List[int32]) { @rev(%x) }"))
    changed = run_passes(typed, ["to_anf"])
    other = run_passes(typed, ["to_cps"])
    assert changed.altered and not structural_equal(typed, changed)
    assert not structural_equal(changed, other)
    again = relayvm.parse(print_module(changed))
    assert structural_equal(changed, again) and structural_hash(changed) == structural_hash(again)
