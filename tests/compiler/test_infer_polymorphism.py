"""Type parameters, data types, recursion without annotations, functions as values."""

from __future__ import annotations

import pytest
from inference import result, type_text, typed

import relayvm
from relayvm.compiler.infer_types import infer_types
from relayvm.ir.expr import Call, Constructor, GlobalVar, Let, Tuple
from relayvm.ir.prelude import prelude
from relayvm.ir.printer import print_type
from relayvm.ops import OPS


def body_of(module, name="main"):
    return module.functions[name].body


def test_each_use_of_a_polymorphic_function_is_an_instance_of_its_own():
    text = "def @main() { (@id(1), @id(2f), @id(Nil[bool])) }"
    assert result(text) == "(int32, float32, List[bool])"


def test_calls_record_their_type_arguments():
    body = body_of(typed("def @main(%x: int32) { @map(fn (%y) { %y < 3 }, Cons(%x, Nil)) }"))
    assert isinstance(body, Call)
    assert [print_type(t) for t in body.type_args] == ["int32", "bool"]


def test_a_call_of_a_size_polymorphic_function_records_the_size():
    text = """
    def @f[n](%x: Tensor[(n), int8]) { %x }
    def @main(%x: Tensor[(3), int8]) { @f(%x) }"""
    body = body_of(typed(text))
    assert [print_type(t) for t in body.type_args] == ["3"]


def test_a_local_polymorphic_function_is_instantiated_at_each_use():
    text = "def @main() { let %k = fn [A](%x: A) { %x }; (%k(1), %k(2f)) }"
    assert result(text) == "(int32, float32)"


def test_a_global_function_as_a_value_has_the_type_of_its_use():
    body = body_of(
        typed(
            """def @main(%xs: List[int8], %f: fn (fn (int8) -> int8) -> int8) {
              (@map(@id, %xs), %f(@id))
            }"""
        )
    )
    assert isinstance(body, Tuple)
    for call in body.fields:
        assert isinstance(call, Call) and isinstance(call.args[0], GlobalVar)
        assert print_type(call.args[0].checked_type) == "fn (int8) -> int8"


def test_a_constructor_as_a_value_has_the_type_of_its_use():
    body = body_of(
        typed("def @main(%xs: List[int8]) { (@map(Some, %xs), @map(Some, Cons(%xs, Nil))) }")
    )
    first, second = body.fields
    assert isinstance(first.args[0], Constructor)
    assert print_type(first.args[0].checked_type) == "fn (int8) -> Option[int8]"
    assert print_type(second.args[0].checked_type) == "fn (List[int8]) -> Option[List[int8]]"


def test_the_result_of_a_recursive_function_needs_no_annotation():
    text = "def @main(%n: int32) { if (%n == 0) { 1f } else { @main(%n - 1) * 2f } }"
    assert result(text) == "float32"


def test_mutual_recursion_needs_no_annotation():
    text = """
    def @even(%n) { if (%n == 0) { True } else { @odd(%n - 1) } }
    def @odd(%n) { if (%n == 0) { False } else { @even(%n - 1) } }
    def @main() { @even(4) }"""
    assert type_text(text, "odd") == "fn (int32) -> bool"


def test_a_polymorphic_recursive_function_needs_no_written_result():
    text = """
    def @each[A, B](%f: fn (A) -> B, %xs: List[A]) {
      match (%xs) { Nil => Nil, Cons(%x, %rest) => Cons(%f(%x), @each(%f, %rest)) }
    }
    def @main(%xs: List[int32]) {
      (@each(fn (%x) { %x < 1 }, %xs), @each(fn (%x) { %x + 1 }, %xs))
    }"""
    assert type_text(text, "each") == "fn [A, B](fn (A) -> B, List[A]) -> List[B]"
    assert result(text) == "(List[bool], List[int32])"


def test_polymorphic_recursion_works_with_annotations():
    text = """
    type Nested[A] { Flat(A), Nest(Nested[(A, A)]) }
    def @depth[A](%x: Nested[A]) -> int32 {
      match (%x) { Flat(_) => 0, Nest(%y) => 1 + @depth(%y) }
    }
    def @main() { @depth(Nest(Flat((1, 2)))) }"""
    assert result(text) == "int32"


def test_parameters_without_type_get_it_from_calls_of_any_function():
    text = """
    def @twice(%f, %x) { %f(%f(%x)) }
    def @main(%y: Tensor[(3), float32]) { @twice(fn (%a) { exp(%a) }, %y) }"""
    assert type_text(text, "twice") == (
        "fn (fn (Tensor[(3), float32]) -> Tensor[(3), float32], Tensor[(3), float32])"
        " -> Tensor[(3), float32]"
    )


def test_a_parameter_without_type_gets_it_from_where_it_goes():
    text = """
    def @f(%x: Tensor[(3), float32]) -> float32 { sum(%x) }
    def @main(%y) { @f(%y) }"""
    assert type_text(text) == "fn (Tensor[(3), float32]) -> float32"


def test_holes_in_annotations_are_filled():
    text = "def @main(%x: List[_], %y: (int8, _)) -> _ { Cons(%y.1, Cons(1f, %x)) }"
    assert type_text(text) == "fn (List[float32], (int8, float32)) -> List[float32]"


def test_a_pattern_binds_variables_with_the_types_of_fields():
    text = """
    def @main(%xs: List[(int8, bool)]) { match? (%xs) { Cons((%a, %b), _) => (%b, %a) } }"""
    assert result(text) == "(bool, int8)"


def test_curried_functions_and_closures_have_function_types():
    text = "def @main(%x: int32) { let %add = fn (%a: int32) { fn (%b) { %a + %b } }; %add(1)(%x) }"
    module = typed(text)
    let = body_of(module)
    assert isinstance(let, Let)
    assert print_type(let.var.type_annotation) == "fn (int32) -> fn (int32) -> int32"


def test_a_polymorphic_parameter_can_be_used_at_two_types():
    text = """
    def @both(%f: fn [A](A) -> A) { (%f(1), %f(2f)) }
    def @main() { @both(@id) }"""
    assert result(text) == "(int32, float32)"


def test_a_recursive_let_may_be_used_as_a_value_in_itself():
    text = """
    def @main(%xs: List[Tree[int32]]) {
      let %count = fn (%t: Tree[int32]) -> int32 {
        match (%t) { Rose(%v, %ts) => %v + @sum(@map(%count, %ts)) }
      };
      @map(%count, %xs)
    }"""
    assert result(text) == "List[int32]"


def test_the_whole_prelude_is_typed():
    module = infer_types(prelude(OPS))
    assert len(module.functions) == 24 + 9
    assert all(f.checked_type is not None for f in module.functions.values())


def test_the_function_of_a_call_keeps_its_general_type():
    body = body_of(typed("def @main() { @id(1) }"))
    assert print_type(body.op.checked_type) == "fn [A](A) -> A"


@pytest.mark.parametrize(
    ("body", "type_"),
    [
        ("let %c = Some; (%c(1), %c(2f))", "(Option[int32], Option[float32])"),
        ("let %g = @id; (%g(1), %g(2f))", "(int32, float32)"),
        ("let %c = Cons; let %d = %c; (%d(1, Nil), %c(2f, Nil))", "(List[int32], List[float32])"),
        ("let %g = @map; 1", "int32"),
        ("let %g: fn (int32) -> int32 = @id; %g(1)", "int32"),
        (
            "let %g = @map; let %c = Some; (%g(%c, Cons(1, Nil)), %g(%c, Cons(2f, Nil)))",
            "(List[Option[int32]], List[Option[float32]])",
        ),
    ],
)
def test_a_named_global_or_constructor_has_an_instance_at_each_use(body, type_, monkeypatch):
    text = f"def @main() {{ {body} }}"
    assert result(text) == type_
    results = []
    for uniform in ("0", "1"):
        monkeypatch.setenv("RELAYVM_UNIFORM", uniform)
        for level in (0, 3):
            exe = relayvm.compile(relayvm.parse(text), opt_level=level)
            results.append(str(relayvm.VirtualMachine(exe).run()))
    assert len(set(results)) == 1
    assert "1" in results[0]


def test_a_name_of_a_function_that_is_not_closed_yet_is_no_use_of_its_own():
    text = """
    def @poly[A](%x: A, %n: int32) -> A {
      let %me = @poly;
      if (%n > 0) { %me(%x, %n - 1) } else { %x }
    }
    def @main() { (@poly(1, 3), @poly(2f, 2)) }"""
    assert result(text) == "(int32, float32)"
