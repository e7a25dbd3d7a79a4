"""TVM's constructors make the nodes of the language, and `isinstance` knows them."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import relayvm as tvm
from relayvm import relay
from relayvm.base.diagnostics import RelayError
from relayvm.base.dims import ANY, DimVar
from relayvm.ir import expr as ir
from relayvm.ir import types
from relayvm.ir.types import Kind

X = relay.var("x", shape=(2, 3))


def test_a_constructor_makes_a_node_of_the_language():
    call = relay.Call(relay.op.get("exp"), [X])
    assert type(call) is ir.Call
    assert isinstance(call, relay.Call) and isinstance(call, relay.Expr)
    assert not isinstance(call, relay.Var) and not isinstance(3, relay.Expr)
    assert issubclass(ir.Call, relay.Expr) and issubclass(relay.Call, relay.Expr)
    assert not issubclass(ir.Call, relay.Var)


def test_every_expression_has_a_constructor():
    made = [
        relay.Constant(np.zeros(2, "float32")),
        relay.Tuple([X, X]),
        relay.Var("y"),
        relay.GlobalVar("f"),
        relay.Function([X], X),
        relay.Call(relay.GlobalVar("f"), [X]),
        relay.Let(relay.var("y"), X, X),
        relay.If(relay.const(True), X, X),
        relay.TupleGetItem(relay.Tuple([X]), 0),
        relay.RefCreate(X),
        relay.RefRead(X),
        relay.RefWrite(X, X),
        relay.Match(X, [relay.Clause(relay.PatternWildcard(), X)]),
    ]
    names = [type(node).__name__ for node in made]
    assert all(isinstance(node, getattr(relay, name)) for node, name in zip(made, names))
    assert len(set(names)) == 13


def test_signatures_are_those_of_the_original():
    assert list(inspect.signature(relay.Call).parameters) == [
        "op",
        "args",
        "attrs",
        "type_args",
        "span",
    ]
    assert list(inspect.signature(relay.Any).parameters) == ["span"]


def test_names_without_objects_of_their_own_cannot_be_called():
    with pytest.raises(TypeError, match="no objects of its own"):
        relay.Expr()


def test_a_constant_has_the_dtype_of_tvm():
    assert relay.const(1).data.dtype == "int32"
    assert relay.const(1.5).data.dtype == "float32"
    assert relay.const(True).data.dtype == "bool"
    assert relay.const(np.arange(2)).data.dtype == "int32"
    assert relay.const(np.ones(2)).data.dtype == "float32"
    assert relay.const(tvm.nd.array(np.arange(2))).data.dtype == "int64"
    assert relay.const([0, 1]).data.dtype == "int32"
    assert relay.const(np.float16(1)).data.dtype == "float16"
    assert relay.const([1.0, 2.0]).data.shape == (2,)
    assert relay.const(3, "uint8").data.dtype == "uint8"
    assert relay.Constant(np.arange(2)).data.dtype == "int64"
    assert type(relay.const(1).data.numpy()) is np.ndarray


def test_a_variable_takes_its_type_in_three_ways():
    assert relay.var("x", "int32").type_annotation == relay.scalar_type("int32")
    assert relay.var("x", shape=[1, 2]).type_annotation == relay.TensorType((1, 2), "float32")
    given = relay.TensorType((relay.Any(), 2))
    assert relay.var("x", given).type_annotation is given
    with pytest.raises(ValueError, match="either type_annotation or shape"):
        relay.var("x", "int32", shape=())


def test_types_have_constructors():
    a = relay.TypeVar("a")
    tensor = relay.TensorType((1, relay.Any()), "int8")
    assert tensor.shape == (1, ANY) and tensor.dtype == "int8"
    assert relay.TupleType([tensor, a]).fields == (tensor, a)
    function = relay.FuncType([a], tensor, [a])
    assert function.arg_types == (a,) and function.type_params == (a,)
    assert relay.RefType(tensor).value is tensor
    assert relay.IncompleteType().kind is relay.TypeKind.Type
    box = relay.GlobalTypeVar("Box")
    assert relay.TypeCall(box, [a]) == box(a) == types.TypeCall(box, (a,))
    assert all(isinstance(t, relay.Type) for t in (tensor, a, function, box, box(a)))
    assert isinstance(box(a), relay.TypeCall) and not isinstance(box, relay.TypeCall)


def test_a_data_type_without_parameters_is_called_too():
    tree = relay.GlobalTypeVar("Tree")
    assert tree() == relay.TypeCall(tree, []) and tree().func is tree and tree().args == ()


def test_a_type_variable_of_kind_shape_var_is_a_size():
    n = relay.TypeVar("n", relay.TypeKind.ShapeVar)
    assert isinstance(n, DimVar) and isinstance(n, relay.TypeVar) and n.kind is Kind.SHAPE_VAR
    tensor = relay.TensorType((n, 2))
    assert tensor.shape[0].variable is n
    assert isinstance(relay.ShapeVar("m"), DimVar)


def test_constructors_get_their_places_from_the_definition():
    nat = relay.GlobalTypeVar("nat")
    zero, succ = relay.Constructor("Z", [], nat), relay.Constructor("S", [nat], nat)
    pattern = relay.PatternConstructor(succ, [relay.PatternWildcard()])
    data = relay.TypeData(nat, [], [zero, succ])
    assert [c.index for c in data.constructors] == [0, 1]
    assert data.constructors[1] is succ is pattern.constructor
    assert succ.tag == zero.tag + 1
    with pytest.raises(RelayError, match="stands at 0, but is already number 1"):
        relay.TypeData(nat, [], [succ])
    with pytest.raises(RelayError, match="belongs to `nat`, not to `other`"):
        relay.TypeData(relay.GlobalTypeVar("other"), [], [zero])


def test_patterns_hold_what_they_are_given():
    v = relay.var("v")
    pattern = relay.PatternTuple([relay.PatternVar(v), relay.PatternWildcard()])
    assert isinstance(pattern, relay.PatternTuple) and isinstance(pattern, relay.adt.Pattern)
    assert pattern.patterns[0].var is v
    assert relay.PatternTuple().patterns == ()


WRONG = {
    "a number as argument": lambda: relay.Call(relay.op.get("exp"), [1.0]),
    "one argument without a list": lambda: relay.Call(relay.op.get("exp"), X),
    "a parameter that is no variable": lambda: relay.Function([relay.const(1)], X),
    "a let that binds no variable": lambda: relay.Let(relay.const(1), X, X),
    "a name that is no text": lambda: relay.Var(3),
    "a type that is none": lambda: relay.TupleType([3]),
    "one type without a list": lambda: relay.TupleType(relay.scalar_type("int32")),
    "an index that is no integer": lambda: relay.TupleGetItem(X, 1.0),
    "a pattern that is none": lambda: relay.Clause(X, X),
    "a pattern of no constructor": lambda: relay.PatternConstructor(X),
    "a pattern that binds no variable": lambda: relay.PatternVar(relay.const(1)),
    "attributes that are no mapping": lambda: relay.Call(X, [], attrs=[1]),
}


@pytest.mark.parametrize("make", WRONG.values(), ids=WRONG)
def test_what_belongs_in_no_node_is_refused(make):
    with pytest.raises(RelayError) as raised:
        make()
    assert raised.value.code == "bad-node"


def test_the_error_says_what_was_given_and_the_way_out():
    with pytest.raises(RelayError) as raised:
        relay.Tuple([X, 2])
    assert str(raised.value) == (
        "error[bad-node]: a tuple holds expressions, not `2` of class `int`\n"
        "help: wrap numbers and arrays in `relay.const`"
    )


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda: relay.TensorType((-1,)), "bad-dim"),
        (lambda: relay.TensorType(3), "bad-dim"),
        (lambda: relay.TensorType((1.5,)), "bad-dim"),
        (lambda: relay.TensorType((), "float31"), "unknown-dtype"),
        (lambda: relay.var("x", "complex64"), "unknown-dtype"),
    ],
)
def test_types_that_cannot_be_are_refused(make, code):
    with pytest.raises(RelayError) as raised:
        make()
    assert raised.value.code == code


def test_a_dtype_that_is_unknown_is_told_with_those_that_are_known():
    with pytest.raises(RelayError) as raised:
        relay.scalar_type("float31")
    assert str(raised.value) == (
        "error[unknown-dtype]: there is no dtype `float31`; known are `bool`, `int8`, `int16`, "
        "`int32`, `int64`, `uint8`, `uint16`, `uint32`, `uint64`, `float16`, `float32`, `float64`, "
        "`bfloat16`, `int4`, `uint4`, `int2`, `uint2`, `float8_e4m3fn`, `float8_e5m2`, "
        "`float8_e4m3fnuz`, `float8_e5m2fnuz`, `float4_e2m1fn`\n"
        "help: `relayvm explain unknown-dtype`"
    )


def test_a_tuple_wrapper_is_indexed_unpacked_and_passed_on():
    wrapper = relay.TupleWrapper(relay.Tuple([X, X]), 2)
    first, second = wrapper
    assert first.index == 0 and second.index == 1 and len(wrapper) == 2
    assert wrapper[-1].index == 1
    with pytest.raises(IndexError, match="out of range"):
        wrapper[2]
    assert relay.Function([X], wrapper).body is wrapper.astuple()
    assert wrapper.astext() == "free_var %x: Tensor[(2, 3), float32];\n(%x, %x)"
    with pytest.raises(TypeError):
        wrapper.astype("int32")


def test_spans_are_lines_and_columns():
    span = relay.Span(relay.SourceName("model.py"), 3, 3, 5, 9)
    node = relay.Tuple([X], span=span)
    assert str(node.span) == "model.py:3:5"
    assert (node.span.line, node.span.column, node.span.end_line, node.span.end_column) == (
        3,
        5,
        3,
        9,
    )
    assert node.span.source_name.name == "model.py"


def test_a_node_without_a_span_has_the_line_it_is_built_on():
    wrong = relay.Function([X], X + relay.var("y", shape=(4,)))
    with pytest.raises(RelayError) as raised:
        relay.transform.InferType()(tvm.IRModule.from_expr(wrong))
    lines = str(raised.value).splitlines()
    assert lines[1].lstrip().startswith(f"--> {__file__}:")
    assert 'wrong = relay.Function([X], X + relay.var("y", shape=(4,)))' in str(raised.value)
    given = relay.Span(relay.SourceName("model.py"), 1, 1, 1, 2)
    assert str(relay.Tuple([X], span=given).span) == "model.py:1:1"


def test_a_node_built_where_no_text_is_has_no_span():
    scope = {"relay": relay}
    exec(compile("node = relay.Tuple([])", "<nowhere>", "exec"), scope)
    assert scope["node"].span is None


def test_relations_constrain_type_parameters():
    a, b, c = (relay.TypeVar(name) for name in "abc")
    broadcast = tvm.ir.EnvFunc.get("tvm.relay.type_relation.Broadcast")
    relation = relay.TypeRelation(broadcast, [a, b, c], 2, None)
    assert isinstance(relation, relay.TypeRelation) and isinstance(relation, relay.TypeConstraint)
    assert relation.func == "add" and relation.num_inputs == 2 and relation.args == (a, b, c)
    function = relay.FuncType([a, b], c, [a, b, c], [relation])
    assert function.type_constraints == (relation,)
    assert relay.TypeMutator().visit(function) == function
    with pytest.raises(RelayError, match="3 types are 2 inputs and a result, not 3 inputs"):
        relay.TypeRelation("add", [a, b, c], 3, None)


def test_nodes_are_copied_with_other_fields():
    function = relay.Function([X], X)
    other = relay.function.FunctionWithFields(function, body=X + X)
    assert other.params == function.params and other.body is not function.body
    assert relay.function.FunctionWithFields(function) is function
    assert relay.expr.VarWithFields(X) is X
    assert relay.expr.VarWithFields(X, relay.base.Id("z")).name_hint == "z"


def test_the_dtype_of_a_constant_may_be_a_scalar_type():
    assert relay.const(0, relay.scalar_type("int32")).data.dtype == "int32"
    with pytest.raises(RelayError, match="there is no dtype"):
        relay.const(0, relay.TupleType([]))


def test_names_of_tvm_for_floats_of_a_byte_are_element_types():
    x = relay.var("x", shape=(2,), dtype="e5m2_float8")
    assert x.type_annotation.dtype == "float8_e5m2"
    call = relay.cast(relay.const([1.0, 2.0]), "e4m3_float8")
    assert relay.transform.InferType()(tvm.IRModule.from_expr(call))["main"].ret_type.dtype == (
        "float8_e4m3fn"
    )
    with pytest.raises(tvm.TVMError, match="e4m3_float9"):
        relay.var("x", shape=(2,), dtype="e4m3_float9")
