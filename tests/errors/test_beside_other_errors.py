"""Whatever is wrong with one part of a program, a type error in another part is told beside it."""

from __future__ import annotations

import pytest

import relayvm
from relayvm.base.diagnostics import RelayError
from relayvm.base.error_codes import ERROR_CODES
from relayvm.compiler.infer_types import infer_types
from relayvm.compiler.inference import unify

# Expressions with one error: the code, and what is wrong.
EXPRESSIONS = [
    ("bad-attribute", 'sum(%x, axis="q")'),
    ("bad-attribute", 'cast(%x, dtype="zork")'),
    ("bad-axis", "nn.softmax(%x, axis=7)"),
    ("bad-condition", "if (1f) { 1 } else { 2 }"),
    ("bad-dim", 'fn (%z: Tensor[(-1), int32]) { %z + ones(shape=[7], dtype="int32") }'),
    ("bad-dim", "fn (%z: Tensor[(2 % 0), int32]) { reshape(%z, newshape=[7]) }"),
    ("bad-dim", "reshape(%x, newshape=[1, 2 % 0])"),
    ("bad-literal", "300i8 + %x"),
    ("bad-literal", "12abc + %x"),
    ("bad-literal", 'nn.pad(%x, 0f, pad_width=[[0, 0]], pad_mode="\\q")'),
    ("bad-literal", "sum(%x, axis=99999999999999999999999999999999999999999999)"),
    ("bad-metadata", "meta[relay.Constant][3] + %x"),
    ("bad-metadata", "nn.conv2d(%x, %x, meta[relay.attrs.Conv2DAttrs][0])"),
    ("cannot-infer", "Nil"),
    ("dtype-mismatch", "%x + True"),
    ("duplicate-name", "sum(%x, axis=[0], axis=[0]).1"),
    ("duplicate-name", "fn (%a: int32, %a: bool) { %a.0 }"),
    ("duplicate-name", "fn [A, A](%z: A) { %z + 1 }"),
    ("duplicate-name", "match (%l) { Cons(%a, %a) => %a.0, _ => 2 }"),
    ("incomplete-match", "match (%l) { Nil => 1 }"),
    ("infinite-type", "fn (%f) { %f(%f) }"),
    ("missing-attribute", "ones() + %x"),
    ("not-a-function", "%x(1)"),
    ("not-a-reference", "ref_read(%x)"),
    ("operator-value", "(exp, 1)"),
    ("reserved-name", "fn [int32](%z: int32) { %z + 1 }"),
    ("reserved-name", "fn [Tensor](%z: Tensor, %y: Tensor[(3), int32]) { %z + %y }"),
    ("shape-mismatch", "%x + zeros(shape=[2])"),
    ("tuple-index", "(1, 2).7"),
    ("type-mismatch", "%x.0"),
    ("unknown-attribute", "nn.relu(%x, zork=1).0"),
    ("unknown-attribute", "@id(%x, zork=1)"),
    ("unknown-constructor", "match (%l) { Zork(%a, Cons(%b, _)) => %a.0 + %b, _ => 2 }"),
    ("unknown-function", "@zork(%x) + True"),
    ("unknown-operator", "zork(%x, axis=1) + True"),
    ("unknown-operator", "fn [A](%a: A) -> A where zork(A, A, A) { %a + %a }"),
    ("unknown-type", "fn (%z: Zork) { %z.0 }"),
    ("unknown-type", "fn (%z: Zork[int32, 3]) { %z.0 }"),
    ("unknown-type", "fn (%z: List[Zork]) { match (%z) { Cons(%h, _) => %h + 1, Nil => 2 } }"),
    ("unknown-type", "fn (%z: Tensor[(2), zork]) { %z + 1f }"),
    ("unknown-type", "fn (%z: Tensor[(zork), float32]) { nn.relu(%z) + %x }"),
    ("unknown-type", "@id[Zork](%x) + True"),
    ("unknown-type", "fn [A](%a: A) -> A where add(A, A, Zork) { %a + %a }"),
    ("unknown-type", "{ let %z: (Zork, int32) = (1, 2); %z.0 + 1f }"),
    ("unknown-variable", "%zork + True"),
    ("wrong-arity", "exp(%x, %x)"),
    ("wrong-arity", "match (%l) { Cons(%a) => %a.0, _ => 2 }"),
    ("wrong-kind", "fn (%z: List) { match (%z) { Cons(%a, _) => %a, Nil => 1f } }"),
    ("wrong-kind", "fn (%z: int32[bool]) { %z + True }"),
    ("wrong-kind", "fn [A: Zork](%z: A, %y: Tensor[(A), int32]) { %z + %y }"),
    ("wrong-kind", "fn [n](%z: Tensor[(n), int32], %y: n) { %y + 1f }"),
    ("wrong-kind", "fn (%z: List[3]) { %z }"),
]

# Definitions with one error.
DEFINITIONS = [
    ("bad-metadata", "#[metadata] zork"),
    ("duplicate-name", "def @f() { 1 } def @f() { 1f } def @g() { @f() + True }"),
    ("duplicate-name", "type S = int32; type S = bool; def @f(%z: S) { %z + 1f }"),
    (
        "duplicate-name",
        "type T { A(int32), B } type T { A(bool), C } def @f(%z: T) { "
        "(match (%z) { A(%a) => %a + 1f, B => 1f, C => 2f }, A(1), A(True)) }",
    ),
    (
        "duplicate-name",
        "type T { A(int32), A(bool) } def @f(%z: T) { (match (%z) { A(%a) => %a }, A(1f)) }",
    ),
    ("library-conflict", "type List { L } def @f() { @map(fn (%a: int32) { %a }, L) + 1 }"),
    ("library-conflict", "type Array { A } def @f() { array.new(1) + True }"),
    ("reserved-name", "type int32 = bool; def @f(%z: int32) { %z + 1 }"),
    ("reserved-name", "type Tensor = bool; def @f(%z: Tensor) { %z + 1 }"),
    ("reserved-name", "type _ = bool; def @f(%z: _) { %z + 1 }"),
    ("reserved-name", "type Tensor { A } def @f(%z: Tensor) { match (%z) { A => A } }"),
    ("reserved-name", "type int8 { A } def @f() { match (A) { A => A } }"),
    ("reserved-name", "extern type float32 def @f(%z: float32) { %z + 1f }"),
    ("reserved-name", "type D[Tensor] { D(Tensor) } def @f() { (D(1), D(True)) }"),
    ("unknown-type", "def @f(%z: Zork) -> bool { %z + 1 } def @g() { (@f(1), @f(True)) }"),
    ("unknown-type", "def @f(%z: int32) -> Zork { %z } def @g() { @f(1).0 + 1f }"),
    ("unknown-type", "type D { D(Zork) } def @f(%z: D) { match (%z) { D(%a) => %a.0 + 1f } }"),
    ("unknown-type", "type S = (Zork, int32); def @f(%z: S) { (%z.0 + 1f, %z.1 + 1) }"),
    ("unsupported-version", '#[version = "9"]'),
    ("wrong-arity", "def @f[A](%a: A) -> A where add(A, A) { %a + %a }"),
    ("wrong-kind", "type D[A] { D(List) } def @f() { match (D(1)) { D(%a) => %a.0 } }"),
    (
        "wrong-kind",
        "type D[n: ShapeVar] { D(Tensor[(n), int32]) } "
        "def @f(%z: D[int32]) { match (%z) { D(%a) => %a + 1 } }",
    ),
]

# What a text or the types of a program can be told for, but not beside other errors.
EXCEPTIONS = {
    "syntax": "what the rest of the statement or definition means is not known",
    "too-deep": "attributes are not read further where they nest too deep",
}
# All other codes are of files, executables, options, runs and passes behind inference.
OF_PARSING_AND_INFERENCE = {code for code, _ in EXPRESSIONS + DEFINITIONS} | {
    *EXCEPTIONS,
    "too-large-type",
}

OTHER = "%y + 1i8"
PARAMS = "(%x: Tensor[(3), float32], %l: List[int32], %y: int16)"
ID = " def @id[A](%a: A) -> A { %a }"


# Parts of programs with several errors, none of which follows from another, and all their codes.
# `%x`, `%y` and `%l` are as above, `%s` and `%d` are tensors with a wrong dim and a wrong dtype.
INDEPENDENT = [
    # An operand that never fits is told whatever the others are.
    ("%zork - (1, 2)", ["unknown-variable", "type-mismatch"]),
    ("%x(1) - %l", ["not-a-function", "type-mismatch"]),
    ("%x(1) - 1 - Nil", ["not-a-function", "type-mismatch"]),
    ("(1, 2) - %l", ["type-mismatch", "type-mismatch"]),
    ("True * %zork", ["unknown-variable", "dtype-mismatch"]),
    ("nn.dense(%zork, (1, 2))", ["unknown-variable", "type-mismatch"]),
    ("concatenate((%zork, (1, 2)))", ["unknown-variable", "type-mismatch"]),
    ("where(%l, %zork, ref(1))", ["unknown-variable", "type-mismatch", "type-mismatch"]),
    ("fn [A](%a: A) { %zork + %a }", ["unknown-variable", "type-mismatch"]),
    # A tensor of a wrong dim or element type is a tensor.
    *((use, [code]) for use, code in [("%s.7", "type-mismatch"), ("%d.7", "type-mismatch")]),
    *((use, ["not-a-function"]) for use in ("%s(1)", "%d(1)")),
    *((use, ["not-a-reference"]) for use in ("ref_read(%s)", "ref_read(%d)")),
    ("if (%s) { 1 } else { 2 }", ["bad-condition"]),
    ("if (%d) { 1 } else { 2 }", ["bad-condition"]),
    ("{ let %z: int32 = %s; let %w: int32 = %d; 1 }", ["type-mismatch", "type-mismatch"]),
    ("%s + 1", ["dtype-mismatch"]),
    ("%s + zeros(shape=[4])", ["shape-mismatch"]),
    ("%d + zeros(shape=[4])", ["shape-mismatch"]),
    ("(nn.softmax(%s, axis=2), sum(%d, axis=[1]))", ["bad-axis", "bad-axis"]),
    ("nn.dense(%d, (1, 2))", ["type-mismatch"]),
    # A type that is wrong in a part is of its kind.
    ("fn (%z: (Zork, int32)) { %z + 1 }", ["unknown-type", "type-mismatch"]),
    ("fn (%z: ref(Zork)) { nn.relu(%z) }", ["unknown-type", "type-mismatch"]),
    ("fn (%z: List[Zork]) { exp(%z) }", ["unknown-type", "type-mismatch"]),
    ("fn (%z: fn (Zork) -> int8) { %z + 1i8 }", ["unknown-type", "type-mismatch"]),
    # A call with wrong attributes has operands.
    ('nn.dense(%x, units="a")', ["bad-attribute", "wrong-arity"]),
    ('nn.dense(%x, %l, units="a")', ["bad-attribute", "type-mismatch"]),
    (
        "sum(%x, axis=[7], keepdims=3, zork=1)",
        ["bad-attribute", "unknown-attribute", "bad-axis"],
    ),
    # A constraint with wrong types has an operator.
    ("fn [B](%b: B) -> B where zork(B, A) { %b }", ["unknown-type", "unknown-operator"]),
    ("fn [B](%b: B) -> B where add(B, A) { %b }", ["unknown-type", "wrong-arity"]),
]

# Parts with the errors of which everything else follows.
FOLLOWING = [
    ("(%s + %s, %d + %d, %s + %d, %s + zeros(shape=[5, 3]))", []),
    ("(squeeze(%s), dyn.reshape(%x, %d), reshape(%s, newshape=[2, 9]))", []),
    ("{ let %r: ref(Tensor[(7, 3), float32]) = ref(%s); ref_read(%r) + %s }", []),
    ("{ let %z: List[Tensor[(7, 3), float32]] = Cons(%s, Nil); @id(%z) }", []),
    ("if (True) { %s } else { zeros(shape=[7, 3]) }", []),
    ("(%l + %l, 1)", ["type-mismatch"]),
    ("sum(1f, axi=[7])", ["unknown-attribute"]),
    ("nn.softmax(1f, axis=[7])", ["bad-attribute"]),
    ("nn.dense(%x, weight=3)", ["unknown-attribute"]),
    ("{ let %n: List[int32] = None; %n }", ["type-mismatch"]),
    ("@id[Option[int8]](Nil)", ["type-mismatch"]),
    ("if (True) { Nil } else { None }", ["type-mismatch"]),
]


def codes(text: str) -> list[str]:
    with pytest.raises(RelayError) as caught:
        infer_types(relayvm.parse(text))
    return sorted(d.code for d in caught.value.diagnostics)


@pytest.mark.parametrize(("code", "wrong"), EXPRESSIONS)
def test_an_error_hides_no_type_error_of_its_function(code, wrong):
    assert codes(f"def @main{PARAMS} {{ ({wrong}, {OTHER}) }}{ID}") == sorted(
        [code, "dtype-mismatch"]
    )
    assert codes(f"def @main{PARAMS} {{ ({OTHER}, {wrong}) }}{ID}") == sorted(
        [code, "dtype-mismatch"]
    )


@pytest.mark.parametrize(("code", "wrong"), EXPRESSIONS)
def test_an_error_hides_no_type_error_of_another_function(code, wrong):
    text = f"def @f{PARAMS} {{ {wrong} }} def @main{PARAMS} {{ {OTHER} }}{ID}"
    assert codes(text) == sorted([code, "dtype-mismatch"])


@pytest.mark.parametrize(("code", "wrong"), EXPRESSIONS)
def test_an_error_is_told_once_however_it_is_used(code, wrong):
    text = f"def @main{PARAMS} {{ let %v = {wrong}; let %w = (%v, %v); %w }}{ID}"
    assert codes(text) == [code]


@pytest.mark.parametrize(("part", "expected"), INDEPENDENT + FOLLOWING)
def test_all_that_is_independent_is_told_and_nothing_else(part, expected):
    params = PARAMS[:-1] + ", %s: Tensor[(nowhere, 3), float32], %d: Tensor[(3), nothing])"
    own = ["unknown-type", "unknown-type"]
    assert codes(f"def @main{params} {{ ({part}, 1) }}{ID}") == sorted(expected + own)


@pytest.mark.parametrize(("code", "wrong"), DEFINITIONS)
def test_a_wrong_definition_hides_no_type_error(code, wrong):
    main = f"def @main{PARAMS.replace('%l: List[int32], ', '')} {{ {OTHER} }}"
    text = f"{main}\n{wrong}" if wrong.startswith("#[metadata") else f"{wrong}\n{main}"
    assert codes(text) == sorted([code, "dtype-mismatch"])


def test_a_type_of_too_many_parts_hides_no_type_error(monkeypatch):
    monkeypatch.setattr(unify, "MOST_PARTS", 1 << 10)
    lets = "".join(f"let %x{i + 1} = @pair(%x{i}); " for i in range(60))
    main = f"def @main(%x0: Tensor[(3), int32], %y: int16) {{ let %z = {OTHER}; {lets} {OTHER} }}"
    found = codes(f"def @pair[A](%x: A) -> (A, A) {{ (%x, %x) }} {main}")
    assert found == ["dtype-mismatch", "dtype-mismatch", "too-large-type"]


def test_the_codes_here_are_in_the_table():
    assert set(ERROR_CODES) >= OF_PARSING_AND_INFERENCE
