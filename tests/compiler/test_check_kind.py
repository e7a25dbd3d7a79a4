"""The kind of each type, and each kind in each place where it is not allowed."""

from __future__ import annotations

import pytest

from relayvm.base.diagnostics import RelayError
from relayvm.base.dims import DimVar
from relayvm.base.dtypes import INT32
from relayvm.compiler.kinds import check_kind
from relayvm.ir.expr import Constructor
from relayvm.ir.module import Module, TypeData
from relayvm.ir.types import (
    FuncType,
    GlobalTypeVar,
    IncompleteType,
    Kind,
    RefType,
    ShapeArg,
    TensorType,
    TupleType,
    TypeCall,
    TypeRelation,
    TypeVar,
)

A, B = TypeVar("A"), TypeVar("B")
INT = TensorType((2,), INT32)
LIST, VEC, UNITS = GlobalTypeVar("List"), GlobalTypeVar("Vec"), GlobalTypeVar("Unit")
N = DimVar("n")
DATA = {
    "List": TypeData(LIST, (A,), (Constructor("Nil", (), LIST, 0),)),
    "Vec": TypeData(VEC, (N,), ()),
    "Unit": TypeData(UNITS, (), ()),
}
MODULE = Module({}, DATA)
RELATION = TypeRelation("add", (A, B, A))


@pytest.mark.parametrize(
    ("item", "kind"),
    [
        (INT, Kind.TYPE),
        (TupleType((A, INT)), Kind.TYPE),
        (FuncType((A, B), INT, (A, B), (RELATION,)), Kind.TYPE),
        (RefType(INT), Kind.TYPE),
        (A, Kind.TYPE),
        (TypeVar("s", Kind.SHAPE_VAR), Kind.SHAPE_VAR),
        (TypeVar("b", Kind.BASE_TYPE), Kind.BASE_TYPE),
        (TypeVar("c", Kind.CONSTRAINT), Kind.CONSTRAINT),
        (N, Kind.SHAPE_VAR),
        (ShapeArg(3), Kind.SHAPE_VAR),
        (LIST, Kind.ADT_HANDLE),
        (TypeCall(LIST, (INT,)), Kind.TYPE),
        (TypeCall(VEC, (ShapeArg(3),)), Kind.TYPE),
        (RELATION, Kind.CONSTRAINT),
        (DATA["List"], Kind.TYPE_DATA),
        (IncompleteType(), Kind.TYPE),
        (IncompleteType(Kind.CONSTRAINT), Kind.CONSTRAINT),
        (TupleType((UNITS,)), Kind.TYPE),
    ],
)
def test_the_kind_of_a_type(item, kind) -> None:
    assert check_kind(item, MODULE) is kind


NOT_TYPES = {
    "dim": ShapeArg(3),
    "dim variable": N,
    "shape variable": TypeVar("s", Kind.SHAPE_VAR),
    "base type": TypeVar("b", Kind.BASE_TYPE),
    "constraint": RELATION,
    "constraint variable": TypeVar("c", Kind.CONSTRAINT),
    "handle variable": TypeVar("h", Kind.ADT_HANDLE),
    "definition variable": TypeVar("d", Kind.TYPE_DATA),
    "handle with parameters": LIST,
    "definition": DATA["Unit"],
    "hole of another kind": IncompleteType(Kind.SHAPE_VAR),
}
PLACES = {
    "field of a tuple": lambda t: TupleType((INT, t)),
    "parameter": lambda t: FuncType((t,), INT),
    "result": lambda t: FuncType((INT,), t),
    "reference": RefType,
    "argument of a constraint": lambda t: TypeRelation("negative", (t, INT)),
    "result of a constraint": lambda t: TypeRelation("negative", (INT, t)),
    "inside a tuple of a result": lambda t: FuncType((), TupleType((t,))),
    "field of a constructor": lambda t: TypeData(
        GlobalTypeVar("D"), (), (Constructor("C", (t,), GlobalTypeVar("D"), 0),)
    ),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("part", NOT_TYPES)
def test_no_other_kind_stands_in_the_place_of_a_type(part, place) -> None:
    with pytest.raises(RelayError) as raised:
        check_kind(PLACES[place](NOT_TYPES[part]), MODULE)
    assert [d.code for d in raised.value.diagnostics] == ["wrong-kind"]


@pytest.mark.parametrize("part", [p for p in NOT_TYPES if "hole" not in p])
def test_no_other_kind_is_an_argument_of_a_data_type(part) -> None:
    with pytest.raises(RelayError) as raised:
        check_kind(TypeCall(LIST, (NOT_TYPES[part],)), MODULE)
    assert raised.value.code == "wrong-kind"


@pytest.mark.parametrize("part", [INT, A, LIST, RELATION])
def test_only_a_dim_stands_for_a_shape_variable(part) -> None:
    with pytest.raises(RelayError) as raised:
        check_kind(TypeCall(VEC, (part,)), MODULE)
    assert raised.value.code == "wrong-kind"


@pytest.mark.parametrize("args", [(), (INT, INT), (INT, INT, INT)])
def test_a_data_type_gets_as_many_arguments_as_it_has_parameters(args) -> None:
    with pytest.raises(RelayError) as raised:
        check_kind(TypeCall(LIST, args), MODULE)
    assert "takes 1 type argument" in raised.value.message


@pytest.mark.parametrize("func", [A, INT, RELATION, TypeVar("h", Kind.ADT_HANDLE)])
def test_only_a_data_type_is_applied(func) -> None:
    with pytest.raises(RelayError) as raised:
        check_kind(TypeCall(func, (INT,)), MODULE)
    assert raised.value.code == "wrong-kind"


@pytest.mark.parametrize("part", [INT, A, N, LIST, TupleType(())])
def test_only_a_constraint_is_one(part) -> None:
    with pytest.raises(RelayError) as raised:
        check_kind(FuncType((A,), A, (A,), (part,)), MODULE)
    assert raised.value.code == "wrong-kind"


def test_data_types_that_are_not_there_are_named() -> None:
    with pytest.raises(RelayError) as raised:
        check_kind(TupleType((TypeCall(GlobalTypeVar("Nowhere"), ()),)), MODULE)
    assert raised.value.code == "unknown-type"


def test_a_definition_may_name_itself_and_others() -> None:
    tree = GlobalTypeVar("Rose")
    forest = TypeCall(LIST, (TypeCall(tree, (B,)),))
    data = TypeData(tree, (B,), (Constructor("Node", (B, forest), tree, 0),))
    assert check_kind(data, MODULE) is Kind.TYPE_DATA


def test_parameters_of_a_definition_are_types_or_dims() -> None:
    with pytest.raises(RelayError) as raised:
        check_kind(TypeData(GlobalTypeVar("D"), (TypeVar("b", Kind.BASE_TYPE),), ()))
    assert raised.value.code == "wrong-kind"


def test_every_error_of_a_type_is_reported() -> None:
    wrong = TupleType((ShapeArg(1), TypeCall(LIST, ()), RefType(RELATION)))
    with pytest.raises(RelayError) as raised:
        check_kind(wrong, MODULE)
    assert len(raised.value.diagnostics) == 3
