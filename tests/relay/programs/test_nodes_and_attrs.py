"""Nodes: how they are made, taken apart, compared, hashed, saved and printed."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm as tvm
from relayvm import relay
from relayvm.relay.adt import *  # noqa: F403
from relayvm.relay.expr import *  # noqa: F403 - as programs of TVM do
from relayvm.relay.ty import TupleType


def check_json_roundtrip(node) -> None:
    json_str = tvm.ir.save_json(node)
    back = tvm.ir.load_json(json_str)
    assert tvm.ir.structural_equal(back, node, map_free_vars=True)


def test_tensor_type_fields() -> None:
    tt = relay.TensorType([1, 1, 1], "float32")
    assert tt.dtype == "float32"
    assert list(tt.shape) == [1, 1, 1]
    assert tt.concrete_shape == (1, 1, 1)
    assert tt.span is None
    str(tt)
    check_json_roundtrip(tt)


def test_function_type_fields() -> None:
    type_params = tvm.runtime.convert([])
    ft = relay.FuncType([], relay.TupleType([]), type_params, [])
    assert list(ft.type_params) == []
    assert list(ft.type_constraints) == []
    str(ft)
    check_json_roundtrip(ft)


def test_type_variables_have_kinds() -> None:
    tp = relay.TypeVar("name", relay.TypeKind.Type)
    assert tp.kind == relay.TypeKind.Type
    assert relay.GlobalTypeVar("d").kind == relay.TypeKind.AdtHandle
    assert relay.TypeVar("s", relay.TypeKind.ShapeVar).kind == relay.TypeKind.ShapeVar
    str(tp)
    check_json_roundtrip(tp)


def test_a_type_relation_is_saved() -> None:
    tp = relay.TypeVar("tp", relay.TypeKind.Type)
    tf = relay.FuncType([tp], relay.TupleType([]), [tp], [])
    rel = tvm.ir.TypeRelation(
        tvm.ir.EnvFunc.get("tvm.relay.type_relation.Broadcast"), [tp, tp, tp], 2, None
    )
    ft = relay.FuncType([tp, tp], tp, [tp], [rel])
    assert ft.type_constraints[0] is not None
    assert list(rel.args) == [tp, tp, tp] and rel.num_inputs == 2
    str(rel), str(tf)
    check_json_roundtrip(ft)


def test_constants() -> None:
    arr = tvm.nd.array(np.arange(10))
    const = relay.Constant(arr)
    assert (const.data.numpy() == arr.numpy()).all()
    assert const.span.line > 1  # of this file: nodes know where they were made
    str(const)
    check_json_roundtrip(const)


def test_tuples_and_their_items() -> None:
    fields = [relay.const(1), relay.const(2.0)]
    tup = relay.Tuple(fields)
    assert list(tup.fields) == fields and len(tup) == 2
    assert tup[0] is fields[0]
    with pytest.raises(IndexError):
        tup[2]
    item = relay.TupleGetItem(tup, 1)
    assert item.tuple_value is tup and item.index == 1
    str(tup)
    check_json_roundtrip(tup)
    check_json_roundtrip(item)
    with pytest.raises(TypeError, match="astype"):
        tup.astype("int32")


def test_variables() -> None:
    lv = relay.Var("x")
    assert lv.name_hint == "x" and lv.type_annotation is None
    t1 = relay.ty.TensorType([], "int32")
    lv = relay.Var("x", t1)
    assert lv.name_hint == "x" and lv.type_annotation == t1
    gv = relay.GlobalVar("foo")
    assert gv.name_hint == "foo"
    check_json_roundtrip(lv)
    check_json_roundtrip(gv)


def test_functions_with_attributes() -> None:
    params = [relay.Var("a"), relay.Var("b")]
    fn = relay.Function(params, relay.Tuple([]), relay.TupleType([]), [])
    fn = fn.with_attr("test_attribute", "value")
    fn = fn.with_attr("test_attribute1", "value1")
    assert list(fn.params) == params
    assert fn.attrs["test_attribute"] == "value"
    assert fn.attrs["test_attribute1"] == "value1"
    fn2 = fn.without_attr("test_attribute1")
    assert "test_attribute1" not in fn2.attrs
    fn3 = fn.with_attr({"Primitive": 1, "Composite": "c"})
    assert int(fn3.attrs["Primitive"]) == 1 and fn3.attrs.Composite == "c"
    assert not relay.Function(params, params[0]).attrs
    made = relay.Function(params, params[0], attrs=tvm.ir.make_node("DictAttrs", k=3))
    assert made.attrs["k"] == 3
    str(fn)
    check_json_roundtrip(fn)


def test_calls_have_attributes_by_name() -> None:
    x = relay.var("x", shape=(1, 3, 8, 8))
    w = relay.var("w", shape=(4, 3, 3, 3))
    call = relay.nn.conv2d(x, w, padding=(1, 1), channels=4, kernel_size=(3, 3))
    assert call.op == relay.op.get("nn.conv2d") == tvm.ir.Op.get("nn.conv2d")
    assert list(call.args) == [x, w]
    assert call.attrs.channels == 4 and list(call.attrs.padding) == [1, 1, 1, 1]
    assert call.attrs["kernel_layout"] == "OIHW" and call.attrs.get_str("data_layout") == "NCHW"
    assert call.attrs.get_int_tuple("strides") == (1, 1)
    assert "groups" in call.attrs
    with pytest.raises(AttributeError):
        call.attrs.nothing
    again = relay.Call(call.op, call.args, call.attrs)
    assert tvm.ir.structural_equal(call, again)
    check_json_roundtrip(call)


def test_let_if_and_references() -> None:
    lv = relay.Var("x", relay.ty.TensorType((), "float32"))
    let = relay.Let(lv, relay.const(10.0), lv)
    assert let.var is lv and let.value.data.numpy() == 10.0 and let.body is lv
    cond = relay.Var("c", relay.ty.TensorType((), "bool"))
    ife = relay.If(cond, lv, let)
    assert ife.cond is cond and ife.true_branch is lv and ife.false_branch is let
    ref = relay.RefCreate(lv)
    assert relay.RefRead(ref).ref is ref and relay.RefWrite(ref, lv).value is lv
    for node in (let, ife, ref, relay.RefWrite(ref, lv)):
        str(node)
        check_json_roundtrip(node)


def test_operators_of_python() -> None:
    x, y = relay.var("x", shape=(2,)), relay.var("y", shape=(2,))
    for made, name in (
        (x + y, "add"),
        (x - y, "subtract"),
        (x * y, "multiply"),
        (x / y, "divide"),
        (x < y, "less"),
        (x >= y, "greater_equal"),
        (-x, "negative"),
        (1.0 - x, "subtract"),
        (x.astype("int32"), "cast"),
    ):
        assert isinstance(made, relay.Call) and made.op.name == name
    f = relay.Function([x], x)
    assert isinstance(f(y), relay.Call) and isinstance(relay.GlobalVar("g")(x, y), relay.Call)
    with pytest.raises(TypeError):
        x % y
    with pytest.raises(TypeError):
        x**y


def test_structural_equality_and_hashing() -> None:
    x, y = relay.var("x", shape=(2,)), relay.var("y", shape=(2,))
    f, g = relay.Function([x], x + x), relay.Function([y], y + y)
    assert tvm.ir.structural_equal(f, g)
    assert tvm.ir.structural_hash(f) == tvm.ir.structural_hash(g)
    assert not tvm.ir.structural_equal(x, y)
    assert tvm.ir.structural_equal(x + x, y + y, map_free_vars=True)
    assert not tvm.ir.structural_equal(f, relay.Function([x, y], x + y))
    with pytest.raises(ValueError):
        tvm.ir.assert_structural_equal(f, relay.Function([x], x - x))
    assert f != g and f == f
    assert len({f, g, f}) == 2
    assert f.same_as(f) and not f.same_as(g)


def test_types_equal_by_structure() -> None:
    assert relay.TensorType((1, 2)) == relay.TensorType((1, 2), "float32")
    assert relay.TensorType((1, 2)) != relay.TensorType((2, 1))
    assert TupleType([relay.scalar_type("int32")]) == TupleType([relay.TensorType((), "int32")])
    assert hash(relay.TensorType((3,))) == hash(relay.TensorType((3,)))
    a = relay.TypeVar("a")
    assert relay.FuncType([a], a, [a]) == relay.FuncType([a], a, [a])


def test_a_module_is_a_mapping() -> None:
    x = relay.var("x", shape=(2,))
    mod = tvm.IRModule({"f": relay.Function([x], x)})
    mod["g"] = relay.Function([x], x + x)
    g = mod.get_global_var("g")
    assert {v.name_hint for v in mod.get_global_vars()} == {"f", "g"}
    assert mod[g] is mod["g"] and "f" in mod and len(list(mod.functions.items())) == 2
    assert all(isinstance(k, relay.GlobalVar) for k in mod.functions)
    other = tvm.IRModule({"h": relay.Function([x], x)})
    mod.update(other)
    assert "h" in mod
    with pytest.raises(tvm.TVMError):
        mod.get_global_var("missing")
    mod = mod.with_attr("name", "m")
    assert mod.attrs["name"] == "m"
    check_json_roundtrip(mod)


def test_from_expr_abstracts_free_variables() -> None:
    x, y = relay.var("x", shape=(2,)), relay.var("y", shape=(2,))
    mod = tvm.IRModule.from_expr(x + y)
    assert list(mod["main"].params) == [x, y]
    mod = tvm.IRModule.from_expr(relay.Function([x], x + y))
    assert [v.name_hint for v in relay.analysis.free_vars(mod["main"])] == ["y"]
    helper = relay.GlobalVar("helper")
    mod = tvm.IRModule.from_expr(relay.Function([x], helper(x)), {helper: relay.Function([y], y)})
    assert {v.name_hint for v in mod.get_global_vars()} == {"main", "helper"}


def test_data_types_are_defined_by_hand() -> None:
    mod = tvm.IRModule()
    nat = relay.GlobalTypeVar("nat")
    z = relay.Constructor("z", [], nat)
    s = relay.Constructor("s", [nat()], nat)
    data = relay.TypeData(nat, [], [z, s])
    mod[nat] = data
    assert mod.get_type("nat")[1].name_hint == "z" and mod[nat].constructors[1] == s
    assert list(s.inputs) == [nat()] and s.belong_to == nat
    assert mod.get_constructor(s.tag) == s
    v = relay.Var("v", nat())
    p = relay.PatternConstructor(s, [relay.PatternVar(v)])
    assert p.constructor == s and p.patterns[0].var is v
    m = relay.Match(z(), [relay.Clause(p, v), relay.Clause(relay.PatternWildcard(), z())])
    assert m.complete and m.data.op == z and m.clauses[0].lhs is p and m.clauses[0].rhs is v
    mod["main"] = relay.Function([], m)
    check_json_roundtrip(mod)
    tup = relay.PatternTuple([relay.PatternVar(v), relay.PatternWildcard()])
    assert len(tup.patterns) == 2


def test_wrapped_tuples_unpack() -> None:
    x = relay.var("x", shape=(4, 6))
    parts = relay.split(x, 2, axis=1)
    left, _right = parts
    assert len(parts) == 2 and isinstance(parts[1], relay.TupleGetItem)
    assert isinstance(parts.astuple(), relay.Call)
    assert "split" in parts.astext()
    with pytest.raises(IndexError):
        parts[2]
    with pytest.raises(TypeError):
        parts.astype("int32")
    assert tvm.ir.structural_equal(left, relay.TupleGetItem(parts.tuple_value, 0))


def test_binding_of_variables() -> None:
    x, y = relay.var("x"), relay.var("y")
    z = relay.add(x, y)
    f = relay.Function([x], z)
    fbinded = relay.bind(f, {y: relay.const(1, "float32")})
    expected = relay.Function([x], relay.add(x, relay.const(1, "float32")))
    assert tvm.ir.structural_equal(fbinded, expected)
    zbinded = relay.bind(z, {y: x})
    assert tvm.ir.structural_equal(zbinded, relay.add(x, x))
    bound = relay.build_module.bind_params_by_name(relay.Function([x, y], z), {"y": np.float32(2)})
    assert [p.name_hint for p in bound.params] == ["x"]


def test_spans_of_nodes() -> None:
    span = relay.Span(relay.SourceName("a.rly"), 2, 2, 3, 9)
    assert span.line == 2 and span.end_column == 9 and span.source_name.name == "a.rly"
    call = relay.Call(relay.op.get("abs"), [relay.var("x")], span=span)
    assert call.span.line == 2
    assert relay.const(1, span=span).span.column == 3


def test_attributes_are_listed() -> None:
    x = relay.var("x", shape=(4,))
    attrs = relay.strided_slice(x, [0], [2]).attrs
    names = set(attrs.keys())
    assert {"begin", "end", "strides", "slice_mode", "axes"} <= names
    made = tvm.ir.make_node("relay.attrs.StridedSliceAttrs", begin=[0], end=[2], strides=[1])
    assert list(made.begin) == [0]


def test_annotated_text_calls_back() -> None:
    x = relay.var("x", shape=(2,))
    seen = []

    def annotate(node) -> str:
        seen.append(node)
        return " /* here */" if isinstance(node, relay.Call) else ""

    text = relay.Function([x], relay.exp(x) + x).astext(show_meta_data=False, annotate=annotate)
    assert text.count("/* here */") == 2
    assert any(isinstance(n, relay.Call) and n.op.name == "exp" for n in seen)


def test_nodes_are_saved_whole() -> None:
    x = relay.var("x", shape=(relay.Any(), 3))
    w = relay.const(np.eye(3, dtype="float16"))
    f = relay.Function([x], relay.cast(relay.cast(x, "float16") + w, "float32"))
    back = tvm.ir.load_json(tvm.ir.save_json(f))
    assert tvm.ir.structural_equal(back, f)
    assert tvm.ir.structural_hash(back) == tvm.ir.structural_hash(f)
    prelude = relay.prelude.Prelude(tvm.IRModule()).mod
    assert tvm.ir.structural_equal(tvm.ir.load_json(tvm.ir.save_json(prelude)), prelude)
