"""Names that are no identifiers: text keeps those of functions, types and constructors."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from relayvm.base.diagnostics import RelayError
from relayvm.base.source import Source
from relayvm.compiler.infer_types import infer_types
from relayvm.ir.equal import structural_equal
from relayvm.ir.expr import (
    Call,
    Clause,
    Constructor,
    Function,
    GlobalVar,
    Let,
    Match,
    PatternConstructor,
    PatternVar,
    Var,
)
from relayvm.ir.module import Module, TypeData
from relayvm.ir.prelude import parse_program
from relayvm.ir.printer import print_module
from relayvm.ir.types import GlobalTypeVar, TypeCall
from relayvm.ops import OPS

NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=1, max_size=12)
ODD = [
    "my fn-1",
    "a.b",
    "1st",
    "let",
    "match?",
    "`",
    "\\",
    "\n",
    '"',
    "é",
    "😀",
    "a`b",
    "//",
    "%x",
    "@f",
]


def module_of(function: str, type_: str, constructor: str, local: str) -> Module:
    """Return a program that uses each name wherever one of its kind can stand."""
    header = GlobalTypeVar(type_)
    leaf = Constructor("Leaf", (), header, 0)
    kind = TypeCall(header, ())
    node = Constructor(constructor, (kind,), header, 1)
    x, y, z = Var(local, kind), Var(local), Var(local + " ", kind)
    clauses = (
        Clause(PatternConstructor(node, (PatternVar(y),)), Call(GlobalVar(function), (y,))),
        Clause(PatternConstructor(leaf), x),
    )
    body = Let(z, Call(node, (x,)), Match(z, clauses))
    functions = {function: Function((x,), body, kind)}
    return Module(functions, {type_: TypeData(header, (), (leaf, node))})


def parsed(text: str) -> Module:
    return parse_program(Source("names.rly", text), OPS)


# `_` and words of the language for types mean something wherever they stand.
USED = {"_", "Leaf", "Tensor", "meta", "bool", "where"}


@given(NAMES, NAMES, NAMES, NAMES)
@example("my fn-1", "List of", "Cons-1", "x y")
def test_any_names_come_back_from_text(function, type_, constructor, local):
    type_, constructor = f"{type_}-", f"{constructor}:" if constructor in USED else constructor
    module = module_of(function, type_, constructor, local)
    again = parsed(print_module(module))
    assert structural_equal(again, module)
    assert list(again.functions) == [function]
    assert print_module(again) == print_module(module)


@pytest.mark.parametrize("name", ODD)
def test_odd_names_come_back_from_typed_text(name):
    module = infer_types(module_of(name, name, name, name))
    assert structural_equal(infer_types(parsed(print_module(module))), module)


def test_plain_names_have_no_quotes():
    assert "`" not in print_module(module_of("f/g_1", "Tree", "Node", "x"))


def test_a_name_in_quotes_is_the_same_name():
    text = "def @`f`(%x: int32) { %x } def @main(%x: int32) { @f(%x) }"
    assert set(parsed(text).functions) == {"f", "main"}


@pytest.mark.parametrize("text", ["def @`f(%x) { %x }", "def @`\\q`() { 1 }"])
def test_a_name_that_is_not_closed_or_has_a_bad_escape_is_an_error(text):
    with pytest.raises(RelayError) as raised:
        parsed(text)
    assert raised.value.code in ("syntax", "bad-literal")
