"""What programs of TVM do with nodes: operators, calls, names of fields, texts."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

from relayvm import relay
from relayvm.base.diagnostics import RelayError
from relayvm.base.dtypes import FLOAT32, INT8
from relayvm.ir import expr as ir
from relayvm.ir import structural_equal

X, Y = relay.var("x", shape=(2,)), relay.var("y", shape=(2,))


@pytest.mark.parametrize(
    ("made", "name"),
    [
        (X + Y, "add"),
        (X - Y, "subtract"),
        (X * Y, "multiply"),
        (X / Y, "divide"),
        (X < Y, "less"),
        (X > Y, "greater"),
        (X <= Y, "less_equal"),
        (X >= Y, "greater_equal"),
    ],
)
def test_a_python_operator_is_a_call(made, name):
    assert made.op.name == name and made.args == (X, Y)


def test_minus_and_casts_are_calls():
    assert (-X).op.name == "negative"
    cast = X.astype("int8")
    assert cast.op.name == "cast" and cast.attrs.dtype == "int8"


@pytest.mark.parametrize(
    ("made", "name", "number_first"),
    [
        (X + 1, "add", False),
        (1 + X, "add", True),
        (1 - X, "subtract", True),
        (2 * X, "multiply", True),
        (1.5 / X, "divide", True),
        (X > 3, "greater", False),
    ],
)
def test_a_number_beside_an_expression_takes_its_dtype(made, name, number_first):
    constant = made.args[0 if number_first else 1]
    assert made.op.name == name
    assert isinstance(constant, relay.Constant) and constant.data.dtype == "float32"


def test_a_number_beside_an_unknown_type_is_what_const_makes_of_it():
    free = relay.var("v")
    assert (free + 1).args[1].data.dtype == "int32"
    whole = relay.var("i", "int64")
    assert (whole + 1).args[1].data.dtype == "int64"
    assert (whole + 1.5).args[1].data.dtype == "float32"


def test_arrays_of_numpy_are_operands_on_both_sides():
    array = np.ones(2, "float32")
    assert (array * X).args[1] is X
    assert (np.float32(2) * X).args[0].data == 2
    assert (X * array).args[1].data.shape == (2,)


def test_what_is_no_operand_is_a_type_error():
    with pytest.raises(TypeError):
        X + "1"


def test_a_number_that_does_not_fit_is_refused():
    with pytest.raises(RelayError, match="300 does not fit into int8"):
        relay.var("b", "int8") + 300


def test_functions_variables_and_constructors_are_called():
    f = relay.var("f")
    function = relay.Function([X], X)
    g = relay.GlobalVar("g")
    for callee in (f, function, g, f(X)):
        made = callee(Y)
        assert isinstance(made, relay.Call) and made.op is callee and made.args == (Y,)


def test_names_of_fields_are_those_of_the_original():
    assert X.name_hint == X.vid.name_hint == "x"
    assert relay.GlobalVar("g").name_hint == "g"
    a = relay.TypeVar("a")
    data = relay.TypeData(relay.GlobalTypeVar("T"), [a], [])
    assert a.name_hint == "a" and data.header.name_hint == "T" and data.type_vars == (a,)
    assert relay.FuncType([], a).type_constraints == ()
    assert relay.TensorType((2, 3)).concrete_shape == (2, 3)
    with pytest.raises(TypeError, match="not known"):
        relay.TensorType((relay.Any(),)).concrete_shape


def test_attributes_are_read_by_their_names():
    call = relay.sum(X, axis=0, keepdims=True)
    assert call.attrs.keepdims is True
    with pytest.raises(AttributeError, match="no attribute `nonsense`"):
        call.attrs.nonsense


def test_calls_that_are_parsed_hold_all_attributes():
    mod = relay.parse("def @main(%x: Tensor[(2,), float32]) { sum(%x) }")
    assert mod["main"].body.attrs.keepdims is False and "keepdims" not in mod.astext()


def test_a_tuple_has_a_length_and_is_true():
    assert len(relay.Tuple([X, Y])) == 2 and relay.Tuple([X, Y])[1] is Y
    assert bool(relay.Tuple([]))
    with pytest.raises(IndexError):
        relay.Tuple([])[0]
    with pytest.raises(TypeError, match="cannot be used on tuple"):
        relay.Tuple([X]).astype("int8")


def test_texts_are_those_of_the_printer():
    function = relay.Function([X], X + Y)
    assert str(function) == function.astext() != repr(function)
    assert str(relay.TensorType((2, relay.Any()))) == "Tensor[(2, ?), float32]"
    assert "add(%x, %y)" in str(X + Y)


def test_a_dtype_equals_its_name_and_is_one_of_numpy():
    dtype = relay.TensorType(()).dtype
    assert dtype == "float32" and dtype == "float32" and dtype != "int8" and dtype is FLOAT32
    assert {dtype: 1}["float32"] == 1 and INT8 != FLOAT32
    assert np.zeros(2, dtype).dtype == "float32" and dtype.startswith("float")
    assert np.arange(2).astype(dtype).dtype == "float32"


def test_functions_take_attributes():
    marked = relay.Function([X], X).with_attr("Primitive", 1)
    assert marked.attrs["Primitive"] == 1 and marked.body is X
    assert "Primitive" not in marked.without_attr("Primitive").attrs
    assert marked.with_attr({"Inline": 1}).attrs.Inline == 1


def test_nodes_are_equal_only_to_themselves():
    assert X.same_as(X) and not X.same_as(Y) and X != Y
    assert (X + Y) != (X + Y) and structural_equal(X + Y, X + Y)
    assert isinstance(X + Y, ir.Expr)


def test_binding_replaces_free_variables_and_takes_parameters_away():
    z = relay.var("z", shape=(2,))
    assert relay.bind(X + Y, {X: Y}).args == (Y, Y)
    function = relay.Function([X, Y], X + Y)
    bound = relay.bind(function, {X: relay.const(np.zeros(2, "float32"))})
    assert bound.params == (Y,)
    grown = relay.bind(function, {X: z + z})
    assert grown.params == (Y, z)
    assert relay.bind(function, {}) is function
    assert relay.bind(function, {"y": z}).params == (X, z)
    with pytest.raises(RelayError, match="no parameter `w`"):
        relay.bind(function, {"w": z})
    with pytest.raises(RelayError, match="bound inside"):
        relay.bind(relay.Function([X], relay.Let(Y, X, Y)), {Y: z})


def test_programs_are_copied_and_pickled_with_the_operators_themselves():
    function = relay.Function([X], X + X)
    for made in (copy.deepcopy(function), pickle.loads(pickle.dumps(function))):
        assert structural_equal(made, function) and made.params[0] is made.body.args[0] is not X
        assert made.body.op is relay.op.get("add") and isinstance(made.body.op, relay.op.Op)
