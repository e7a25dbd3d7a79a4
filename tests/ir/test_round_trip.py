"""Text to program to text: nothing is lost, and printing is canonical."""

from __future__ import annotations

import pytest

from relayvm.base.source import Source
from relayvm.compiler.infer_types import infer_types
from relayvm.ir.equal import structural_equal, structural_hash
from relayvm.ir.parser import parse_expr, parse_module
from relayvm.ir.prelude import PRELUDE_PATH, prelude
from relayvm.ir.printer import print_expr, print_module
from relayvm.ir.verify import verify_module
from relayvm.ops import OPS
from tests.ir.programs import PROGRAMS, parse


@pytest.mark.parametrize("name", PROGRAMS)
def test_printed_program_is_read_back_equal(name):
    module = parse(PROGRAMS[name])
    again = parse(print_module(module))
    assert structural_equal(module, again)
    assert structural_hash(module) == structural_hash(again)


@pytest.mark.parametrize("name", PROGRAMS)
def test_printing_is_stable(name):
    once = print_module(parse(PROGRAMS[name]))
    assert print_module(parse(once)) == once


@pytest.mark.parametrize("name", PROGRAMS)
def test_parsed_program_is_well_formed(name):
    verify_module(parse(PROGRAMS[name]))


@pytest.mark.parametrize("name", PROGRAMS)
def test_printed_form_is_golden(name, golden, request):
    golden.check(
        request.path.parent / "printed" / f"{name}.rly", print_module(parse(PROGRAMS[name]))
    )


def test_prelude_is_read_back_equal():
    module = prelude(OPS)
    again = parse_module(print_module(module, library=True), OPS)
    assert structural_equal(module, again)


def test_prelude_has_its_types_and_functions():
    module = prelude(OPS)
    assert list(module.types) == ["List", "Option", "Tree", "Array"]
    assert len(module.functions) == 24 + 9
    assert PRELUDE_PATH.exists()
    verify_module(module)


def test_expression_declares_its_free_variables():
    text = "free_var %x: Tensor[(3), float32];\nfree_var %f: fn (int32) -> int32;\nadd(%x, %f(1))"
    expr = parse_expr(Source("test.rly", text), OPS)
    printed = print_expr(expr)
    assert printed == text
    assert structural_equal(expr, parse_expr(printed, OPS), map_free_vars=True)


def test_expression_keeps_its_constants():
    text = print_expr(
        parse_expr(
            "add(meta[relay.Constant][0], 1)\n"
            '#[metadata]\n{"relay.Constant": '
            '[{"dtype": "int32", "shape": [1], "data": "BwAAAA=="}]}',
            OPS,
        )
    )
    assert "BwAAAA==" in text
    assert print_expr(parse_expr(text, OPS)) == text


@pytest.mark.parametrize(
    "text",
    [
        "def @main() { let %f = fn [A](%x: A) -> A { %x }; (%f(1), %f(2f)) }",
        "def @main() { fn [A](%x: A) -> A { %x } }",
        "def @main() { fn [n](%x: Tensor[(n), float32]) { concatenate((%x, %x)) } }",
        "def @main[A](%f: fn [A](A) -> A, %x: A) { (%f(%x), fn [A](%y: A) -> A { %y }) }",
        "def @main(%f: fn [A](A) -> fn [B](A, B) -> A) { let %g = %f; %g(1) }",
    ],
)
def test_a_typed_polymorphic_function_is_read_back_equal(text):
    module = infer_types(parse(text))
    once = print_module(module)
    again = parse(once)
    assert structural_equal(module, again)
    assert structural_hash(module) == structural_hash(again)
    assert print_module(again) == once


def test_parameters_of_function_types_are_told_apart_by_place():
    same, other = (parse(f"def @main(%f: fn [A, B](A, B) -> {result}) {{ %f }}") for result in "AB")
    assert not structural_equal(same, other)
