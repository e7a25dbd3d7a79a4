"""Kinds of written types, and which values a match leaves without a clause."""

from __future__ import annotations

import pytest

from relayvm.base.diagnostics import RelayError
from relayvm.base.dims import DimVar
from relayvm.base.dtypes import INT32
from relayvm.base.source import Source
from relayvm.compiler.infer_types import infer_types
from relayvm.compiler.inference.match_coverage import pattern_text, unmatched_cases
from relayvm.compiler.kinds import check_kinds
from relayvm.ir.expr import Constructor, Function, Match, Tuple, Var
from relayvm.ir.module import Module, TypeData
from relayvm.ir.prelude import parse_program
from relayvm.ir.types import GlobalTypeVar, ShapeArg, TypeCall, TypeVar, scalar_type
from relayvm.ops import OPS

BOX, VEC = GlobalTypeVar("Box"), GlobalTypeVar("Vec")
TYPES = {
    "Box": TypeData(BOX, (TypeVar("A"),), ()),
    "Vec": TypeData(VEC, (DimVar("n"),), ()),
}
INT = scalar_type(INT32)


@pytest.mark.parametrize(
    ("annotation", "code"),
    [
        (GlobalTypeVar("Nowhere"), "unknown-type"),
        (TypeCall(GlobalTypeVar("Nowhere"), (INT,)), "unknown-type"),
        (BOX, "wrong-kind"),
        (TypeCall(BOX, ()), "wrong-kind"),
        (TypeCall(BOX, (INT, INT)), "wrong-kind"),
        (TypeCall(BOX, (ShapeArg(3),)), "wrong-kind"),
        (TypeCall(VEC, (INT,)), "wrong-kind"),
        (TypeCall(BOX, (TypeCall(BOX, ()),)), "wrong-kind"),
        (ShapeArg(3), "wrong-kind"),
    ],
)
def test_types_of_the_wrong_kind_are_errors(annotation, code):
    function = Function((Var("x", annotation),), Tuple(()))
    module = Module({"main": function}, TYPES)
    for check in (check_kinds, infer_types):
        with pytest.raises(RelayError) as raised:
            check(module)
        assert raised.value.code == code


def test_types_of_the_right_kind_pass():
    types = (TypeCall(BOX, (TypeCall(VEC, (ShapeArg(3),)),)), TypeCall(BOX, (INT,)))
    function = Function(tuple(Var("x", t) for t in types), Tuple(()))
    check_kinds(Module({"main": function}, TYPES))


def test_fields_of_constructors_are_checked():
    field = TypeCall(BOX, ())
    data = TypeData(GlobalTypeVar("T"), (), (Constructor("C", (field,), GlobalTypeVar("T"), 0),))
    with pytest.raises(RelayError):
        check_kinds(Module({}, {**TYPES, "T": data}))


DEFINITIONS = """
type Color { Red, Green, Blue }
def @main(%c: Color, %xs: List[Color], %o: Option[(Color, Color)]) -> int32 {
  match? (VALUE) { CLAUSES }
}
"""


def missing(value, *patterns):
    clauses = ", ".join(f"{p} => 1" for p in patterns)
    text = DEFINITIONS.replace("VALUE", value).replace("CLAUSES", clauses)
    module = parse_program(Source("test.rly", text), OPS)
    match = module.functions["main"].body
    assert isinstance(match, Match)
    return [pattern_text(p) for p in unmatched_cases(match, module)]


def test_all_constructors_cover_a_type():
    assert missing("%c", "Red", "Blue", "Green") == []


def test_a_wildcard_or_variable_covers_the_rest():
    assert missing("%c", "Red", "_") == []
    assert missing("%c", "Red", "%x") == []


def test_missing_constructors_are_listed():
    assert missing("%c", "Green") == ["Red", "Blue"]


def test_a_redundant_clause_is_fine():
    assert missing("%c", "_", "Red") == []


def test_no_clauses_cover_nothing():
    assert missing("%c") == ["_"]


def test_nested_patterns_are_looked_into():
    assert missing("%xs", "Nil", "Cons(Red, _)") == ["Cons(Green, _)", "Cons(Blue, _)"]
    assert missing("%xs", "Nil", "Cons(_, Nil)") == ["Cons(_, Cons(_, _))"]


def test_tuples_are_covered_field_by_field():
    cases = ("None", "Some((Red, _))", "Some((_, Red))", "Some((Green, Green))")
    assert missing("%o", *cases) == [
        "Some((Green, Blue))",
        "Some((Blue, Green))",
        "Some((Blue, Blue))",
    ]


def test_at_most_twenty_cases_are_listed():
    assert len(missing("%xs", "Cons(_, " * 100 + "Nil" + ")" * 100)) == 20
