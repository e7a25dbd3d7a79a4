"""Types: what is inferred, what is an error."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm as tvm
from relayvm import relay
from relayvm.relay.prelude import Prelude
from tests.relay.programs.machine import run_infer_type


def assert_has_type(expr, typ, mod=None) -> None:
    mod = mod or tvm.IRModule({})
    mod["main"] = expr if isinstance(expr, relay.Function) else relay.Function([], expr)
    mod = relay.transform.InferType()(mod)
    main = mod["main"]
    checked = main.checked_type if isinstance(expr, relay.Function) else main.body.checked_type
    if checked != typ:
        raise RuntimeError(f"Type mismatch {checked} vs {typ}")


def test_monomorphic_let() -> None:
    sb = relay.ScopeBuilder()
    x = relay.var("x", dtype="float64", shape=())
    x = sb.let("x", relay.const(1.0, "float64"))
    sb.ret(x)
    xchecked = run_infer_type(sb.get())
    assert xchecked.checked_type == relay.scalar_type("float64")


def test_single_op() -> None:
    x = relay.var("x", shape=[])
    func = relay.Function([x], relay.op.log(x))
    ttype = relay.TensorType([], dtype="float32")
    assert_has_type(func, relay.FuncType([ttype], ttype))


def test_add_broadcast_op() -> None:
    x = relay.var("x", shape=(10, 4))
    y = relay.var("y", shape=(5, 10, 1))
    t1, t2 = relay.TensorType((10, 4)), relay.TensorType((5, 10, 1))
    func = relay.Function([x, y], x + y)
    assert_has_type(func, relay.FuncType([t1, t2], relay.TensorType((5, 10, 4))))


def test_dual_op() -> None:
    tp = relay.TensorType((10, 10), "float32")
    x = relay.var("x", tp)
    sb = relay.ScopeBuilder()
    t1 = sb.let("t1", relay.log(x))
    t2 = sb.let("t2", relay.add(t1, x))
    sb.ret(t2)
    checked_f = run_infer_type(relay.Function([x], sb.get()))
    assert checked_f.checked_type == relay.FuncType([tp], tp)


def test_declared_types_of_functions() -> None:
    tp = relay.TensorType((10,))
    f = relay.Function([relay.var("x", tp)], relay.const(1.0), tp)
    with pytest.raises(tvm.error.DiagnosticError):
        run_infer_type(f)


def test_recursion_of_a_global_function() -> None:
    sb = relay.ScopeBuilder()
    f = relay.GlobalVar("f")
    ti32 = relay.scalar_type("int32")
    tf32 = relay.scalar_type("float32")
    n = relay.var("n", ti32)
    data = relay.var("data", tf32)
    with sb.if_scope(relay.equal(n, relay.const(0, ti32.dtype))):
        sb.ret(data)
    with sb.else_scope():
        sb.ret(f(relay.subtract(n, relay.const(1, ti32.dtype)), relay.log(data)))
    mod = tvm.IRModule()
    mod[f] = relay.Function([n, data], sb.get())
    mod = relay.transform.InferType()(mod)
    assert "@f(%n: int32, %data: float32) -> float32" in mod.astext()
    assert mod[f].checked_type == relay.FuncType([ti32, tf32], tf32)


def test_incomplete_call_of_a_parameter() -> None:
    tt = relay.scalar_type("int32")
    x = relay.var("x", tt)
    f_type = relay.FuncType([tt], tt)
    f = relay.var("f")
    func = relay.Function([x, f], relay.Call(f, [x]), tt)
    ft = run_infer_type(func)
    assert ft.checked_type == relay.FuncType([tt, f_type], tt)


def test_higher_order_argument() -> None:
    a = relay.TypeVar("a")
    x = relay.Var("x", a)
    id_func = relay.Function([x], x, a, [a])
    b = relay.TypeVar("b")
    f = relay.Var("f", relay.FuncType([b], b))
    y = relay.Var("y", b)
    ho_func = relay.Function([f, y], f(y), b, [b])
    ho_call = ho_func(id_func, relay.const(0, "int32"))
    hc = run_infer_type(ho_call)
    expected = relay.scalar_type("int32")
    assert hc.checked_type == expected


def test_higher_order_return_and_nested() -> None:
    a = relay.TypeVar("a")
    x = relay.Var("x", a)
    id_func = relay.Function([x], x, a, [a])
    choice_t = relay.FuncType([], relay.scalar_type("bool"))
    f = relay.Var("f", choice_t)
    b = relay.TypeVar("b")
    z = relay.Var("z")
    top = relay.Function(
        [f], relay.If(f(), id_func, relay.Function([z], z)), relay.FuncType([b], b), [b]
    )
    assert run_infer_type(top).checked_type == relay.FuncType(
        [choice_t], relay.FuncType([b], b), [b]
    )


def test_tuples_and_items() -> None:
    tp = relay.TensorType((10,))
    x = relay.var("x", tp)
    res = relay.Tuple([x, x])
    assert run_infer_type(res).checked_type == relay.TupleType([tp, tp])
    assert run_infer_type(relay.TupleGetItem(res, 0)).checked_type == tp
    with pytest.raises(tvm.error.DiagnosticError):
        run_infer_type(relay.TupleGetItem(res, 2))


def test_references() -> None:
    x = relay.var("x", "float32")
    y = relay.var("y", "float32")
    r = relay.RefCreate(x)
    st, su = relay.scalar_type("float32"), relay.RefType(relay.scalar_type("float32"))
    assert run_infer_type(r).checked_type == su
    assert run_infer_type(relay.RefRead(r)).checked_type == st
    assert run_infer_type(relay.RefWrite(r, y)).checked_type == relay.TupleType([])


def test_free_expressions() -> None:
    x = relay.var("x", "float32")
    yy = run_infer_type(relay.add(x, x))
    assert tvm.ir.structural_equal(yy.args[0], x, map_free_vars=True)
    assert yy.checked_type == relay.scalar_type("float32")
    assert yy.args[0].name_hint == x.name_hint and x.vid.same_as(x.vid)


def test_types_of_the_operands_of_a_call() -> None:
    x = relay.var("x", shape=(10, 10))
    y = relay.var("y", shape=(1, 10))
    types = [a.checked_type for a in run_infer_type(relay.add(x, y)).args]
    assert types[0].dtype == "float32" and types[1].dtype == "float32"
    assert list(types[0].shape) == [10, 10] and list(types[1].shape) == [1, 10]


def test_a_global_variable_of_a_recursive_function() -> None:
    mod = tvm.IRModule({})
    gv = relay.GlobalVar("main")
    x = relay.var("x", shape=[])
    tt = relay.scalar_type("float32")
    mod[gv] = relay.Function([x], gv(x), tt)
    mod = relay.transform.InferType()(mod)
    assert mod[gv].checked_type == relay.FuncType([tt], tt)


def test_equal_variables_of_data_types() -> None:
    mod = tvm.IRModule()
    box, constructor = relay.GlobalTypeVar("box"), None
    tv = relay.TypeVar("tv")
    constructor = relay.Constructor("constructor", [tv], box)
    mod[box] = relay.TypeData(box, [tv], [constructor])
    a, x = relay.Var("a", relay.scalar_type("int32")), relay.Var("x")
    one = constructor(a)
    assert_has_type(
        relay.Function([a], one),
        relay.FuncType([relay.scalar_type("int32")], box(relay.scalar_type("int32"))),
        mod,
    )
    match = relay.Match(
        one, [relay.Clause(relay.PatternConstructor(constructor, [relay.PatternVar(x)]), x)]
    )
    typed = relay.Function([a], match)
    assert_has_type(
        typed, relay.FuncType([relay.scalar_type("int32")], relay.scalar_type("int32")), mod
    )


def test_constructor_call_of_the_prelude() -> None:
    p = Prelude(tvm.IRModule())
    _, cons, nil = p.mod.get_type("List")
    l = p.mod.get_type("List")[0]
    expr = cons(relay.const(1), nil())
    assert_has_type(expr, l(relay.scalar_type("int32")), p.mod)


def test_an_implicitly_incomplete_parameter_fails() -> None:
    x = relay.Var("x")
    with pytest.raises(tvm.error.DiagnosticError):
        run_infer_type(relay.Function([x], x + x, relay.IncompleteType()))


def test_weights_are_inferred_from_data() -> None:
    x = relay.var("x", shape=(1, 3, 8, 8))
    w, g, b, m, v = (relay.var(n) for n in ("w", "g", "b", "m", "v"))
    y = relay.nn.conv2d(x, w, channels=4, kernel_size=(3, 3))
    y = relay.nn.batch_norm(y, g, b, m, v)[0]
    f = run_infer_type(relay.Function([x, w, g, b, m, v], y))
    assert [tuple(p.checked_type.shape) for p in f.params[1:]] == [(4, 3, 3, 3)] + [(4,)] * 4
    assert f.ret_type == relay.TensorType((1, 4, 6, 6))


def test_symbolic_sizes() -> None:
    n, t = tvm.te.size_var("n"), tvm.te.size_var("t")
    x = relay.var("x", relay.ty.TensorType((n, t, 100), "float32"))
    y = run_infer_type(relay.expand_dims(x, axis=2))
    assert y.checked_type == relay.TensorType((n, t, 1, 100), "float32")
    z = run_infer_type(relay.concatenate([x, x], axis=0))
    assert z.checked_type == relay.TensorType((n + n, t, 100), "float32")


def test_shapes_that_do_not_fit_are_refused() -> None:
    x, y = relay.var("x", shape=(3, 4)), relay.var("y", shape=(5, 4))
    with pytest.raises(tvm.error.DiagnosticError):
        run_infer_type(x + y)
    with pytest.raises(tvm.TVMError):
        relay.transform.InferType()(tvm.IRModule.from_expr(relay.nn.dense(x, y) + x))


def test_dtype_of_an_operand_is_checked() -> None:
    with pytest.raises(tvm.error.DiagnosticError):
        run_infer_type(relay.var("x", shape=(3,), dtype="int32") + relay.const(1.0, "float32"))


def test_types_of_single_expressions() -> None:
    x = relay.var("x", shape=(3,))
    assert relay.transform.InferTypeLocal(relay.exp(x)) == relay.TensorType((3,))


def test_a_registered_operator_gets_its_type() -> None:
    name = "custom_of_these_programs"
    relay.op.op.register(name, "adds numbers")
    op = relay.op.op.get(name)
    op.set_num_inputs(2)
    op.add_argument("lhs", "Tensor", "left")
    op.add_argument("rhs", "Tensor", "right")
    op.add_type_rel("Broadcast")
    op.set_support_level(1)
    x, y = relay.var("x", shape=(2, 1)), relay.var("y", shape=(3,))
    f = relay.Function([x, y], relay.Call(op, [x, y]))
    assert run_infer_type(f).ret_type == relay.TensorType((2, 3))


def test_arrays_give_types_to_constants() -> None:
    narrowed = {"int64": "int32", "float64": "float32"}
    for dtype in ("int8", "uint8", "int64", "float16", "float64", "bool"):
        array = np.zeros((2,), dtype)
        wanted = relay.TensorType((2,), narrowed.get(dtype, dtype))
        assert run_infer_type(relay.const(array)).checked_type == wanted
        kept = relay.const(tvm.nd.array(array))
        assert run_infer_type(kept).checked_type == relay.TensorType((2,), dtype)
    assert run_infer_type(relay.const(1)).checked_type == relay.scalar_type("int32")
    assert run_infer_type(relay.const(1.0)).checked_type == relay.scalar_type("float32")
    assert run_infer_type(relay.const(True)).checked_type == relay.scalar_type("bool")
    assert run_infer_type(relay.const([1, 2], "int64")).checked_type == relay.TensorType(
        (2,), "int64"
    )
