"""Each row of the original's text format is read as what it means there, written and read again.

Where the original cannot read what it writes (NaN, `ref(T)`, constants without their table), this
one can.
"""

from __future__ import annotations

import numpy as np
import pytest

import relayvm
from relayvm.base.diagnostics import RelayError
from relayvm.base.dims import ANY
from relayvm.base.source import Source
from relayvm.compiler.infer_types import infer_types
from relayvm.ir.build import call, const, function, tuple_
from relayvm.ir.equal import structural_equal
from relayvm.ir.expr import Attrs, Call, Constant, If, Let, Match, Tuple, TupleGetItem
from relayvm.ir.module import Module
from relayvm.ir.parser import parse_expr
from relayvm.ir.prelude import prelude
from relayvm.ir.printer import print_expr, print_module
from relayvm.ir.types import GlobalTypeVar, IncompleteType, RefType, TypeCall
from relayvm.ops import OPS


def expr(text: str):
    return parse_expr(Source("test.rly", text), OPS, prelude(OPS))


def value_of(text: str) -> np.ndarray:
    read = expr(text)
    assert isinstance(read, Constant)
    return read.data


def main_of(text: str):
    return relayvm.parse(text)["main"]


MODULES = {
    "no version": "def @main() { 1 }",
    "version": '#[version = "0.0.5"]\ndef @main() { 1 }',
    "definition without anything": "def @main() { () }",
    "type parameters": "def @main[A, B](%x: A, %y: B) -> (A, B) { (%x, %y) }",
    "data types": "type T[A] { C1(A, int32), C2, } def @main[A](%t: T[A]) -> T[A] { C2 }",
    "empty type arguments": "type T { C } def @main(%t: T[]) -> T[] { C }",
    "extern types anywhere": """extern type A
        def @f(%a: A) { %a } extern type B[X]; type T { C(A, B[int32]) } extern type D
        def @main(%d: D) { (%d, C) }""",
    "names with slashes": "def @main(%a/b_1: int32, %/c: int32, %_d: int32) { %a/b_1 + %/c + %_d }",
    "dotted operator": "def @main(%x: Tensor[(2, 3), float32]) { nn.relu(%x) }",
    "tensor types": "def @main(%x: Tensor[(1, ?, 3i64), int8], %y: Tensor[(), bool]) { %x }",
    "function types": "def @main(%f: fn (int32, (int32,)) -> fn () -> ()) { %f }",
    "polymorphic function types": "def @main(%f: fn [A](A) -> A) { %f }",
    "reference types": "def @main(%r: ref((int32, ref(bool)))) -> ref(bool) { ref_read(%r).1 }",
    "holes": "def @main(%x: _, %l: List[_]) -> _ { add(%x, 1) }",
    "let": "def @main() { let %x: int32 = 1; let %y = %x; %y }",
    "graph bindings": "def @main(%x: int32) { %0 = add(%x, %x); %1 = (%0, %0); %1.0 }",
    "anonymous let": "def @main(%r: ref(int32)) { ref_write(%r, 1); ref_read(%r) }",
    "branches": "def @main(%c: bool) { if (%c) { 1 } else if (False) { 2 } else { 3 } }",
    "matches": "def @main(%l: List[int32]) { match? (%l) { Cons(%h: int32, _) => { %h }, } }",
    "tuple patterns": "def @main(%p: (int32, (bool,))) { match (%p) { (%a, (_,)) => %a } }",
    "functions with attributes": 'def @main() { fn (%x: int32, Primitive=1, hash="0a") { %x } }',
    "tuples": "def @main() { ((), (1,), (1, 2), (1, (2,)).1.0) }",
    "references": "def @main() { let %r = ref(1); ref_write(%r, ref_read(%r)); %r }",
    "curried calls": "def @main(%f: fn (int32) -> fn (int32) -> int32) { %f(1)(2) }",
    "nullary constructors": "def @main() { (Nil, Nil(), Cons(1, Nil), None) }",
    "constructor as value": "def @main(%l: List[int32]) { @map(Some, %l) }",
    "type arguments of a call": "def @main() { @id[(int32, bool)]((1, True)) }",
    "call attributes": "def @main(%x: Tensor[(2, 2), float32]) { sum(%x, axis=[0], exclude=True) }",
    "attributes on a call of a function": """def @f(%x: int32) { %x }
        def @main() { @f(1, a=[1, (2f, "x")], b=None, attrs_type_key="DictAttrs") }""",
    "parameters with devices": """def @main(%x {virtual_device=meta[VirtualDevice][0]}: int32,
        virtual_device=meta[VirtualDevice][0], param_device_types=[1, 2]) { %x }""",
    "operators": "def @main(%x: int32) { %x * 2 + 3 - 4 / %x < 5 == (6 <= %x) != (7 > 8) }",
    "comments": "/* a /* b */ */ def @main() { 1 /* ty=int32 span=x.py:1:2 */ } // end",
    "carriage returns": "def @main() {\r\n  1 // x\r\n}\r\n",
    "attribute values": r"""def @main(a=1, b=-1, c=1.5f, d=True, e="x", f=None, g=nullptr, h=[],
        i=[1, [2f, "y"]], j=(), k=(1,), l=-1e-05f, m=inff, n=-inff, o=nanf, p=float16, q={},
        r={"k": {"l": [1]}}, s="\n\t\"\\\u{1F600}", relay.reshape_only=1, t=1i64, u=-0f) { 1 }""",
    "module attributes": '#[version = "0.0.5"]\n#[attrs(a=1, b={"k": [1f]})]\ndef @main() { 1 }',
}


@pytest.mark.parametrize("name", MODULES)
def test_module_text_is_read_and_written(name):
    module = relayvm.parse(MODULES[name])
    text = print_module(module)
    again = relayvm.parse(text)
    assert structural_equal(module, again)
    assert print_module(again) == text
    with_types = print_module(module, show_types=True)
    assert structural_equal(module, relayvm.parse(with_types))


@pytest.mark.parametrize("version", ["0.0.4", "", "0.0.5.1"])
def test_other_versions_are_refused(version):
    with pytest.raises(RelayError) as raised:
        relayvm.parse(f'#[version = "{version}"]\ndef @main() {{ 1 }}')
    assert raised.value.code == "unsupported-version"


def test_types_mean_what_they_say():
    main = main_of("def @main(%x: Tensor[(1, ?, 3i64), int8], %r: ref(_), %l: List[int32]) { %x }")
    tensor, ref, data = (p.type_annotation for p in main.params)
    assert tensor.shape == (1, ANY, 3) and str(tensor.dtype) == "int8"
    assert isinstance(ref, RefType) and isinstance(ref.value, IncompleteType)
    assert isinstance(data, TypeCall) and data.func == GlobalTypeVar("List")


def test_statements_mean_what_they_say():
    body = main_of("def @main(%x: int32) { %0 = add(%x, 1); ref(%0); (%0, %0) }").body
    assert isinstance(body, Let) and body.var.name == "_"
    assert isinstance(body.body, Tuple) and body.body.fields[0] is body.body.fields[1]
    assert body.value.value is body.body.fields[0], "a graph binding makes no let: it is one node"


def test_postfixes_mean_what_they_say():
    body = main_of("def @main(%f: fn (int32) -> (int32, int32)) { %f(1).1 }").body
    assert isinstance(body, TupleGetItem) and body.index == 1
    assert isinstance(expr("Nil"), Call) and expr("Nil").args == ()
    assert isinstance(expr("if (True) { 1 } else { 2 }"), If)
    match = expr("match? (Nil) { Nil => 1 }")
    assert isinstance(match, Match) and not match.complete


def test_operators_bind_as_in_the_original():
    assert structural_equal(expr("1 + 2 * 3 - 4"), expr("(1 + (2 * 3)) - 4"))
    assert structural_equal(expr("1 - 2 - 3"), expr("(1 - 2) - 3"))
    assert structural_equal(expr("1 + 1 < 2 == 3 >= 2"), expr("((1 + 1) < 2) == (3 >= 2)"))
    assert expr("1 / 2").op is OPS["divide"]
    assert value_of("--5") == 5 and value_of("---5") == -5


@pytest.mark.parametrize(
    "text, dtype",
    [("1", "int32"), ("9000000000", "int64"), ("1i16", "int16"), ("1i64", "int64"),
     ("1f", "float32"), ("1.5f", "float32"), ("1e-3f", "float32"), ("1f16", "float16"),
     ("1f64", "float64"), ("inff", "float32"), ("-inff", "float32"), ("nanf", "float32"),
     ("True", "bool"), ("1u8", "uint8"), ("1i8", "int8"), ("1u16", "uint16")],
)  # fmt: skip
def test_literals_have_their_types(text, dtype):
    assert value_of(text).dtype == dtype and value_of(text).shape == ()


def test_an_expression_declares_its_free_variables():
    read = expr('#[version = "0.0.5"]\nfree_var %x: Tensor[(3), float32];\nfree_var %y;\n%x + %y')
    assert [v.name for v in read.args] == ["x", "y"]
    assert structural_equal(read, expr(print_expr(read)), map_free_vars=True)


def test_strings_keep_every_character():
    text = "".join(map(chr, [*range(1, 300), 0, 0x2028, 0x1F600, 0x10FFFF, ord('"'), ord("\\")]))
    module = Module({"main": function([], const(1), note=text, nested=[text, {text: [text]}])})
    again = relayvm.parse(print_module(module))
    assert again["main"].attrs == Attrs(note=text, nested=[text, {text: [text]}])


def test_text_with_constants_needs_no_table():
    """A text of `meta[relay.Constant]` was useless without the table it was printed with."""
    weight = np.arange(12, dtype="f4").reshape(3, 4)
    module = Module({"main": function([], call(OPS["exp"], Constant(weight)))})
    read = relayvm.parse(print_module(module))["main"].body.args[0]
    assert read.data.tobytes() == weight.tobytes() and read.data.shape == (3, 4)


def test_types_on_request_stand_in_comments():
    module = infer_types(relayvm.parse("def @main(%x: Tensor[(2), float32]) { exp(%x) + 1f }"))
    text = print_module(module, show_types=True)
    assert "exp(%x) /* ty=Tensor[(2), float32] */" in text
    assert structural_equal(relayvm.parse(text), relayvm.parse(print_module(module)))


def test_every_attribute_of_a_function_keeps_its_kind():
    values = [None, True, 0, -3, 1 << 70, 0.1, -0.0, 1e300, 5e-324, float("inf"), "", OPS and "x"]
    attrs = Attrs(v=values, w=(tuple(values), {"a": values}))
    module = Module({"main": function([], tuple_(), v=values, w=(values, {"a": values}))})
    again = relayvm.parse(print_module(module))["main"].attrs
    assert again == attrs
    assert [repr(v) for v in again["v"]] == [repr(v) for v in values]
