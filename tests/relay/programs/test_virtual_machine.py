"""Control flow, closures and data on the virtual machine."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm as tvm
from relayvm import relay
from relayvm.relay.loops import while_loop
from relayvm.relay.prelude import Prelude
from relayvm.relay.scope_builder import ScopeBuilder
from tests.relay.programs.machine import RNG, check_result, veval, vmobj_to_list


def test_split_gives_fields() -> None:
    x = relay.var("x", shape=(12,))
    y = relay.split(x, 3, axis=0).astuple()
    f = relay.Function([x], y)
    data = RNG.random(12).astype("float32")
    mod = tvm.IRModule()
    mod["main"] = f
    check_result([data], [data[:4], data[4:8], data[8:]], mod=mod)


def test_split_without_fusion() -> None:
    x = relay.var("x", shape=(12,))
    y = relay.split(x, 3, axis=0).astuple()
    z = relay.concatenate([relay.TupleGetItem(y, 0)], axis=0)
    z = relay.annotation.stop_fusion(z)
    f = relay.Function([x], z)
    data = RNG.random(12).astype("float32")
    tvm.testing.assert_allclose(veval(f, data).numpy(), data[:4])


def test_identity() -> None:
    x = relay.var("x", shape=(10, 10))
    data = RNG.random((10, 10)).astype("float32")
    check_result([data], data, mod=tvm.IRModule.from_expr(relay.Function([x], x)))


def test_condition_chooses_a_branch() -> None:
    x = relay.var("x", shape=(10, 10))
    y = relay.var("y", shape=(10, 10))
    cond = relay.op.min(relay.op.equal(x, y), axis=[0, 1])
    f = relay.Function([x, y], relay.If(cond, x, y))
    a = RNG.random((10, 10)).astype("float32")
    b = RNG.random((10, 10)).astype("float32")
    mod = tvm.IRModule()
    mod["main"] = f
    check_result([a, a], a, mod=mod)
    check_result([a, b], b, mod=mod)


def test_a_multiplied_condition() -> None:
    x = relay.var("x", shape=(10, 10))
    y = relay.var("y", shape=(10, 10))
    z = relay.var("z", shape=(10, 10))
    cond1 = relay.op.min(relay.op.equal(x, y), axis=[0, 1])
    cond2 = relay.op.min(relay.op.equal(y, z), axis=[0, 1])
    cond = relay.op.logical_or(cond1, cond2)
    f = relay.Function([x, y, z], relay.If(cond, x + y, y - z))
    a, b, c = (RNG.random((10, 10)).astype("float32") for _ in range(3))
    mod = tvm.IRModule()
    mod["main"] = f
    check_result([a, a, c], a + a, mod=mod)
    check_result([a, b, c], b - c, mod=mod)


def test_a_call_of_a_simple_function() -> None:
    mod = tvm.IRModule({})
    sum_up = relay.GlobalVar("sum_up")
    i = relay.var("i", shape=[], dtype="int32")
    sb = ScopeBuilder()
    sb.ret(i)
    mod[sum_up] = relay.Function([i], sb.get(), ret_type=relay.TensorType([], "int32"))
    iarg = relay.var("iarg", shape=[], dtype="int32")
    mod["main"] = relay.Function([iarg], sum_up(iarg))
    check_result([np.array(0, dtype="int32")], 0, mod=mod)


@pytest.mark.parametrize("n", [0, 1, 10])
def test_a_recursive_sum(n: int) -> None:
    mod = tvm.IRModule({})
    sum_up = relay.GlobalVar("sum_up")
    i = relay.var("i", shape=[], dtype="int32")
    sb = ScopeBuilder()
    with sb.if_scope(relay.equal(i, relay.const(0, dtype="int32"))):
        sb.ret(i)
    with sb.else_scope():
        one_less = relay.subtract(i, relay.const(1, dtype="int32"))
        rec_call = relay.Call(sum_up, [one_less])
        sb.ret(relay.add(rec_call, i))
    mod[sum_up] = relay.Function([i], sb.get(), ret_type=relay.TensorType([], "int32"))
    mod = relay.transform.InferType()(mod)
    iarg = relay.var("i", shape=[], dtype="int32")
    mod["main"] = relay.Function([iarg], sum_up(iarg))
    check_result([np.array(n, dtype="int32")], sum(range(1, n + 1)), mod=mod)


def test_a_loop_with_an_accumulator() -> None:
    mod = tvm.IRModule({})
    sum_up = relay.GlobalVar("sum_up")
    i = relay.var("i", shape=[], dtype="int32")
    accum = relay.var("accum", shape=[], dtype="int32")
    sb = ScopeBuilder()
    with sb.if_scope(relay.equal(i, relay.const(0, "int32"))):
        sb.ret(accum)
    with sb.else_scope():
        sb.ret(relay.Call(sum_up, [relay.subtract(i, relay.const(1, "int32")), accum + i]))
    mod[sum_up] = relay.Function([i, accum], sb.get())
    iarg = relay.var("i", shape=[], dtype="int32")
    aarg = relay.var("accum", shape=[], dtype="int32")
    mod["main"] = relay.Function([iarg, aarg], sum_up(iarg, aarg))
    loop_bound = 100
    args = [np.array(loop_bound, "int32"), np.array(0, "int32")]
    check_result(args, sum(range(1, loop_bound + 1)), mod=mod)


def test_tuples_in_and_out() -> None:
    ttype = relay.TupleType([relay.TensorType((1,)), relay.TensorType((10,))])
    tup = relay.var("tup", type_annotation=ttype)
    i = RNG.random(41).astype("float32")[:1]
    j = RNG.random(10).astype("float32")
    mod = tvm.IRModule.from_expr(relay.Function([tup], relay.TupleGetItem(tup, 1)))
    check_result([(i, j)], j, mod=mod)
    f = relay.Function([tup], relay.Tuple([relay.TupleGetItem(tup, 1), relay.TupleGetItem(tup, 0)]))
    check_result([(i, j)], [j, i], mod=tvm.IRModule.from_expr(f))


def test_a_list_of_the_prelude() -> None:
    mod = tvm.IRModule()
    p = Prelude(mod)
    _, cons, nil = p.mod.get_type("List")
    one3 = cons(relay.const(1), cons(relay.const(2), cons(relay.const(3), nil())))
    mod["main"] = relay.Function([], one3)
    obj = veval(mod)
    assert vmobj_to_list(obj) == [1, 2, 3]
    assert obj.tag == cons.tag and len(obj) == 2


def test_head_and_tail_of_a_list() -> None:
    mod = tvm.IRModule()
    p = Prelude(mod)
    _, cons, nil = p.mod.get_type("List")
    hd, tl = p.hd, p.tl
    l = cons(relay.const(1), cons(relay.const(4), nil()))
    mod["main"] = relay.Function([], relay.Tuple([hd(l), hd(tl(l))]))
    assert vmobj_to_list(veval(mod)) == [1, 4]


def test_an_option() -> None:
    mod = tvm.IRModule()
    p = Prelude(mod)
    some, none = p.mod.get_type("Option")[1:]
    for made, left in ((some(relay.const(2)), 2), (none(), 0)):
        y = relay.Var("y", relay.TensorType((), "int32"))
        clauses = [
            relay.Clause(relay.PatternConstructor(some, [relay.PatternVar(y)]), y),
            relay.Clause(relay.PatternConstructor(none, []), relay.const(0)),
        ]
        mod["main"] = relay.Function([], relay.Match(made, clauses))
        assert vmobj_to_list(veval(mod)) == [left]


def test_concatenation_of_lists() -> None:
    mod = tvm.IRModule()
    p = Prelude(mod)
    _, cons, nil = p.mod.get_type("List")
    l1 = cons(relay.const(1), nil())
    l2 = cons(relay.const(7), cons(relay.const(8), nil()))
    mod["main"] = relay.Function([], p.concat(l1, l2))
    assert vmobj_to_list(veval(mod)) == [1, 7, 8]


def test_map_filter_and_fold() -> None:
    mod = tvm.IRModule()
    p = Prelude(mod)
    _, cons, nil = p.mod.get_type("List")
    x = relay.var("x", "int32")
    y = relay.var("y", "int32")
    add_one = relay.Function([x], x + relay.const(1))
    v = relay.var("v", "int32")
    greater_than_one = relay.Function([v], relay.greater(v, relay.const(1)))
    add = relay.Function([y, relay.var("z", "int32")], y)
    a, b = relay.var("a", "int32"), relay.var("b", "int32")
    add = relay.Function([a, b], a + b)
    l = cons(relay.const(1), cons(relay.const(2), cons(relay.const(3), nil())))
    mod["main"] = relay.Function([], p.map(add_one, l))
    assert vmobj_to_list(veval(mod)) == [2, 3, 4]
    mod["main"] = relay.Function([], p.filter(greater_than_one, l))
    assert vmobj_to_list(veval(mod)) == [2, 3]
    mod["main"] = relay.Function([], p.foldl(add, relay.const(0), l))
    assert vmobj_to_list(veval(mod)) == [6]
    mod["main"] = relay.Function([], p.sum(l))
    assert vmobj_to_list(veval(mod)) == [6]


def test_a_closure_over_an_argument() -> None:
    x = relay.var("x", shape=())
    y = relay.var("y", shape=())
    f = relay.Function([x], x + y)
    ff = relay.Function([y], f)
    clo = ff(relay.const(1.0))
    main = clo(relay.const(2.0))
    tvm.testing.assert_allclose(veval(relay.Function([], main)).numpy(), 3.0)


def test_an_adder_made_at_run_time() -> None:
    mod = tvm.IRModule({})
    x = relay.var("x", "int32")
    y = relay.var("y", "int32")
    inc = relay.Function([x], relay.Function([y], relay.add(x, y)))
    mod["main"] = relay.Function([], relay.Call(inc(relay.const(3)), [relay.const(4)]))
    assert veval(mod).numpy() == 7


def test_a_global_function_called_by_another() -> None:
    mod = tvm.IRModule({})
    x = relay.var("x", "int32")
    n = relay.GlobalVar("name")
    mod[n] = relay.Function([x], x + relay.const(1))
    y = relay.var("y", "int32")
    mod["main"] = relay.Function([y], n(n(y)))
    check_result([np.array(3, "int32")], 5, mod=mod)


def test_a_while_loop_of_a_growing_tensor() -> None:
    i = relay.var("i", shape=(), dtype="int32")
    st = relay.var("st", shape=(relay.Any(), 1), dtype="int32")

    def _cond(i, st):
        return relay.op.min(relay.op.less(i, relay.const(5, "int32")))

    def _body(i, st):
        i_vec = relay.op.reshape(i, (1, 1))
        return i + relay.const(1, dtype="int32"), relay.op.concatenate([st, i_vec], axis=0)

    loop = while_loop(_cond, [i, st], _body)
    start = relay.var("start", shape=(), dtype="int32")
    body = loop(start, relay.op.reshape(relay.const(0), newshape=(1, 1)))
    func = relay.Function([start], relay.TupleGetItem(body, 1))
    expected = np.array([0, *range(5)]).reshape((-1, 1))
    check_result([np.array(0, "int32")], expected, mod=tvm.IRModule.from_expr(func))


def test_a_fibonacci_of_two_calls() -> None:
    mod = tvm.IRModule({})
    fib = relay.GlobalVar("fib")
    n = relay.var("n", shape=(), dtype="int64")
    sb = ScopeBuilder()
    with sb.if_scope(relay.less_equal(n, relay.const(1, "int64"))):
        sb.ret(n)
    with sb.else_scope():
        a = sb.let("a", fib(n - relay.const(1, "int64")))
        b = sb.let("b", fib(n - relay.const(2, "int64")))
        sb.ret(a + b)
    mod[fib] = relay.Function([n], sb.get(), relay.TensorType((), "int64"))
    m = relay.var("m", shape=(), dtype="int64")
    mod["main"] = relay.Function([m], fib(m))
    check_result([np.array(10, "int64")], 55, mod=mod)


def test_parameters_are_bound_by_name() -> None:
    x = relay.var("x", shape=(2, 2))
    w = relay.var("w", shape=(3, 2))
    f = relay.Function([x, w], relay.nn.dense(x, w))
    data = np.ones((2, 2), "float32")
    weight = np.arange(6, dtype="float32").reshape(3, 2)
    result = veval(f, data, params={"w": tvm.nd.array(weight)})
    tvm.testing.assert_allclose(result.numpy(), data @ weight.T)


def test_let_of_a_tensor_and_of_a_scalar() -> None:
    sb = ScopeBuilder()
    x = relay.var("x", "int32")
    y = sb.let("y", relay.add(x, relay.const(1)))
    z = sb.let(("z", relay.scalar_type("int32")), relay.multiply(y, y))
    sb.ret(z - y)
    mod = tvm.IRModule.from_expr(relay.Function([x], sb.get()))
    check_result([np.array(4, "int32")], 20, mod=mod)


def test_executable_tells_of_itself() -> None:
    x = relay.var("x", shape=(4,))
    exe = relay.vm.compile(tvm.IRModule.from_expr(relay.Function([x], relay.exp(x) + x)), "llvm")
    assert "main" in exe.globals
    assert exe.get_function_params("main") == ["x"]
    assert "main" in exe.bytecode
    assert isinstance(exe.stats, str)
    vm = tvm.runtime.vm.VirtualMachine(exe, tvm.cpu())
    vm.set_input("main", x=np.zeros(4, "float32"))
    tvm.testing.assert_allclose(vm.run().numpy(), np.ones(4))
    vm.set_input("main", np.zeros(4, "float32"))
    vm.invoke_stateful("main")
    assert vm.get_outputs()[0].shape == (4,)
    assert len(vm.benchmark(tvm.cpu(), np.zeros(4, "float32"), repeat=2).results) == 2


def test_compiler_object_of_the_machine() -> None:
    x = relay.var("x", shape=(2,))
    w = relay.var("w", shape=(2,))
    mod = tvm.IRModule.from_expr(relay.Function([x, w], x + w))
    compiler = relay.vm.VMCompiler()
    compiler.set_params({"w": tvm.nd.array(np.ones(2, "float32"))})
    compiler.lower(mod, "llvm")
    compiler.codegen()
    vm = tvm.runtime.vm.VirtualMachine(compiler.get_exec(), tvm.cpu())
    tvm.testing.assert_allclose(vm.run(np.ones(2, "float32")).numpy(), [2, 2])


def test_set_input_checks_arguments() -> None:
    x = relay.var("x", shape=(2,))
    exe = relay.vm.compile(tvm.IRModule.from_expr(relay.Function([x], x)), "llvm")
    vm = tvm.runtime.vm.VirtualMachine(exe, tvm.cpu())
    with pytest.raises(tvm.TVMError):
        vm.invoke("main", np.zeros(3, "float32"))
    with pytest.raises(tvm.TVMError):
        vm.invoke("nothing", np.zeros(2, "float32"))


def test_a_length_that_only_a_run_knows() -> None:
    x = relay.var("x", shape=(relay.Any(),))
    f = relay.Function([x], relay.Tuple([relay.shape_of(x), relay.nn.relu(x) * relay.const(2.0)]))
    data = np.array([-1, 2, 3], "float32")
    check_result([data], [[3], [0, 4, 6]], mod=tvm.IRModule.from_expr(f))


def test_storage_is_not_shared_between_results() -> None:
    x = relay.var("x", shape=(relay.Any(),))
    exe = relay.vm.compile(tvm.IRModule.from_expr(relay.Function([x], x + x)), "llvm")
    vm = tvm.runtime.vm.VirtualMachine(exe, tvm.cpu())
    one = vm.invoke("main", np.ones(3, "float32"))
    two = vm.invoke("main", np.full(3, 5, "float32"))
    assert one.numpy().tolist() == [2, 2, 2] and two.numpy().tolist() == [10, 10, 10]


def test_constants_of_the_program_come_out() -> None:
    data = RNG.random((2, 3)).astype("float32")
    f = relay.Function([], relay.Tuple([relay.const(data), relay.const(1)]))
    check_result([], [data, 1], mod=tvm.IRModule.from_expr(f))


def test_a_match_of_nested_patterns() -> None:
    mod = tvm.IRModule()
    p = Prelude(mod)
    _, cons, nil = p.mod.get_type("List")
    a, b = relay.Var("a"), relay.Var("b")
    l = relay.Var("l", p.mod.get_type("List")[0](relay.scalar_type("int32")))
    two = relay.PatternConstructor(
        cons,
        [
            relay.PatternVar(a),
            relay.PatternConstructor(cons, [relay.PatternVar(b), relay.PatternWildcard()]),
        ],
    )
    body = relay.Match(
        l, [relay.Clause(two, a + b), relay.Clause(relay.PatternWildcard(), relay.const(-1))]
    )
    first = relay.GlobalVar("first")
    mod[first] = relay.Function([l], body)
    made = cons(relay.const(3), cons(relay.const(4), nil()))
    mod["main"] = relay.Function([], relay.Tuple([first(made), first(nil())]))
    assert vmobj_to_list(veval(mod)) == [7, -1]


def test_references_count() -> None:
    mod = tvm.IRModule()
    sb = ScopeBuilder()
    i = sb.let("i", relay.RefCreate(relay.const(0)))
    sb.let("_1", relay.RefWrite(i, relay.RefRead(i) + relay.const(2)))
    sb.let("_2", relay.RefWrite(i, relay.RefRead(i) * relay.const(3)))
    sb.ret(relay.RefRead(i))
    mod["main"] = relay.Function([], sb.get())
    check_result([], 6, mod=mod)
