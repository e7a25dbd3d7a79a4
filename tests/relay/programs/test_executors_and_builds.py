"""Executors, builds and graph modules, end to end."""

from __future__ import annotations

import numpy as np
import pytest
from relayvm.contrib import graph_executor
from relayvm.contrib.utils import tempdir

import relayvm as tvm
from relayvm import relay
from relayvm.relay.backend import Executor, Runtime
from tests.relay.programs.machine import RNG


def test_evaluation_of_an_expression() -> None:
    x = relay.var("x", shape=())
    ex = relay.create_executor()
    assert ex.evaluate(relay.const(1.0) + relay.const(2.0)).numpy() == 3
    assert ex.evaluate(relay.Function([x], x * x))(3.0).numpy() == 9
    assert ex.evaluate(x + x, binds={x: relay.const(4.0)}).numpy() == 8


def test_named_and_positional_arguments() -> None:
    x, y = relay.var("x", shape=(2,)), relay.var("y", shape=(2,))
    f = relay.Function([x, y], x - y)
    a, b = np.float32([3, 4]), np.float32([1, 1])
    for kind in ("debug", "vm", "graph"):
        run = relay.create_executor(kind).evaluate(f)
        for out in (run(a, b), run(a, y=b), run(y=b, x=a), run(tvm.nd.array(a), b)):
            tvm.testing.assert_allclose(out.numpy(), [2, 3])
        with pytest.raises(Exception, match="."):
            run(a)


def test_parameters_of_an_executor() -> None:
    x, w = relay.var("x", shape=(1, 2)), relay.var("w", shape=(3, 2))
    mod = tvm.IRModule.from_expr(relay.Function([x, w], relay.nn.dense(x, w)))
    w_np = RNG.random((3, 2)).astype("float32")
    x_np = RNG.random((1, 2)).astype("float32")
    for kind in ("graph", "vm"):
        run = relay.create_executor(kind, mod, tvm.cpu(), "llvm", {"w": w_np}).evaluate()
        tvm.testing.assert_allclose(run(x_np).numpy(), x_np @ w_np.T, rtol=1e-5)
    with pytest.raises(RuntimeError):
        relay.create_executor("no such kind", mod)


def test_results_that_are_tuples_of_tuples() -> None:
    x = relay.var("x", shape=(2,))
    f = relay.Function([x], relay.Tuple([x, relay.Tuple([x + x])]))
    a = np.float32([1, 2])
    for kind in ("debug", "vm"):
        first, (second,) = relay.create_executor(kind).evaluate(f)(a)
        assert first.numpy().tolist() == [1, 2] and second.numpy().tolist() == [2, 4]


def test_build_and_run_a_graph() -> None:
    x, y = relay.var("x", shape=(4,)), relay.var("y", shape=(4,))
    func = relay.Function([x, y], relay.Tuple([x + y, x * relay.const(2.0)]))
    with tvm.transform.PassContext(opt_level=3):
        lib = relay.build(tvm.IRModule.from_expr(func), target="llvm", params=None)
    m = graph_executor.GraphModule(lib["default"](tvm.cpu()))
    a, b = RNG.random(4).astype("float32"), RNG.random(4).astype("float32")
    m.set_input("x", a)
    m.set_input(y=tvm.nd.array(b))
    m.run()
    assert m.get_num_outputs() == 2 and m.get_num_inputs() == 2
    tvm.testing.assert_allclose(m.get_output(0).numpy(), a + b)
    tvm.testing.assert_allclose(m.get_output(1, tvm.nd.empty((4,))).numpy(), a * 2)
    assert m.get_input("x").numpy().tolist() == a.tolist()
    assert len(m.benchmark(tvm.cpu(), repeat=3, number=1).results) == 3
    timer = m.module.time_evaluator("run", tvm.cpu(), number=1)
    assert timer().mean >= 0


def test_a_built_library_is_saved_and_loaded() -> None:
    mod, params = relay.testing.mlp.get_workload(1)
    with tvm.transform.PassContext(opt_level=3):
        lib = relay.build(mod, "llvm", params=params)
    data = RNG.random((1, 1, 28, 28)).astype("float32")
    m = graph_executor.GraphModule(lib["default"](tvm.cpu(0)))
    m.run(data=data)
    first = m.get_output(0).numpy()
    temp = tempdir()
    path = temp.relpath("deploy_lib.so")
    lib.export_library(path)
    loaded = tvm.runtime.load_module(path)
    again = graph_executor.GraphModule(loaded["default"](tvm.cpu(0)))
    again.set_input("data", data)
    again.run()
    tvm.testing.assert_allclose(again.get_output(0).numpy(), first)
    assert sorted(lib.get_params()) and lib.get_graph_json()


def test_the_three_parts_of_a_build() -> None:
    mod, params = relay.testing.mlp.get_workload(1)
    graph, lib, new_params = relay.build(mod, target="llvm", params=params)
    m = graph_executor.create(graph, lib, tvm.cpu())
    m.load_params(relay.save_param_dict(new_params))
    m.set_input("data", np.zeros((1, 1, 28, 28), "float32"))
    m.run()
    assert m.get_output(0).shape == (1, 10)
    saved = relay.save_param_dict(params)
    back = relay.load_param_dict(saved)
    assert all((back[k].numpy() == params[k].numpy()).all() for k in params)


def test_options_of_a_build() -> None:
    x = relay.var("x", shape=(2,))
    mod = tvm.IRModule.from_expr(relay.Function([x], x + x))
    target = tvm.target.Target("llvm", host="llvm")
    lib = relay.build(mod, target, executor=Executor("graph"), runtime=Runtime("cpp"), mod_name="m")
    m = graph_executor.GraphModule(lib["m"](tvm.cpu()))
    m.run(x=np.float32([1, 2]))
    assert m.get_output(0).numpy().tolist() == [2, 4]
    with target:
        assert tvm.target.Target.current() == target
        assert str(target.kind) == "llvm"
    optimized, _ = relay.optimize(mod, "llvm")
    assert "main" in optimized
    with pytest.raises(tvm.TVMError):
        relay.build(mod, "cuda")


@pytest.mark.slow
def test_a_residual_network_through_the_graph_and_the_machine() -> None:
    mod, params = relay.testing.resnet.get_workload(
        num_layers=18, batch_size=1, image_shape=(3, 32, 32), num_classes=10
    )
    data = RNG.random((1, 3, 32, 32)).astype("float32")
    with tvm.transform.PassContext(opt_level=3):
        lib = relay.build(mod, target="llvm", params=params)
    module = graph_executor.GraphModule(lib["default"](tvm.cpu()))
    module.set_input("data", tvm.nd.array(data))
    module.run()
    out = module.get_output(0, tvm.nd.empty((1, 10))).numpy()
    assert out.shape == (1, 10) and abs(out.sum() - 1) < 1e-4
    with tvm.transform.PassContext(opt_level=3):
        exe = relay.vm.compile(mod, target="llvm", params=params)
    vm = tvm.runtime.vm.VirtualMachine(exe, tvm.cpu())
    tvm.testing.assert_allclose(vm.invoke("main", data=data).numpy(), out, rtol=1e-4, atol=1e-5)


def lstm_over_a_length() -> tuple[tvm.IRModule, dict[str, np.ndarray]]:
    """An LSTM whose sequence has a length that only a run knows, as a recursive function."""
    hidden, inputs = 4, 3
    mod = tvm.IRModule()
    cell = relay.GlobalVar("cell")
    state = relay.TensorType((1, hidden))
    x = relay.var("x", shape=(1, inputs))
    h, c = relay.var("h", state), relay.var("c", state)
    wi, wh = (
        relay.var("wi", shape=(4 * hidden, inputs)),
        relay.var("wh", shape=(4 * hidden, hidden)),
    )
    gates = relay.nn.dense(x, wi) + relay.nn.dense(h, wh)
    i, f, g, o = relay.split(gates, 4, axis=1)
    new_c = relay.sigmoid(f) * c + relay.sigmoid(i) * relay.tanh(g)
    new_h = relay.sigmoid(o) * relay.tanh(new_c)
    mod[cell] = relay.Function([x, h, c, wi, wh], relay.Tuple([new_h, new_c]))

    loop = relay.GlobalVar("loop")
    seq = relay.var("seq", shape=(relay.Any(), inputs))
    at = relay.var("at", shape=(), dtype="int32")
    h2, c2 = relay.var("h", state), relay.var("c", state)
    wi2, wh2 = relay.var("wi", wi.type_annotation), relay.var("wh", wh.type_annotation)
    sb = relay.ScopeBuilder()
    length = relay.take(relay.shape_of(seq), relay.const(0))
    with sb.if_scope(relay.less(at, length)):
        one = sb.let("one", relay.expand_dims(relay.take(seq, at, axis=0), 0))
        step = sb.let("step", cell(one, h2, c2, wi2, wh2))
        sb.ret(
            loop(
                seq,
                at + relay.const(1),
                relay.TupleGetItem(step, 0),
                relay.TupleGetItem(step, 1),
                wi2,
                wh2,
            )
        )
    with sb.else_scope():
        sb.ret(h2)
    mod[loop] = relay.Function([seq, at, h2, c2, wi2, wh2], sb.get(), state)

    seq1 = relay.var("seq", shape=(relay.Any(), inputs))
    wi1, wh1 = relay.var("wi", wi.type_annotation), relay.var("wh", wh.type_annotation)
    zeros = relay.zeros((1, hidden), "float32")
    mod["main"] = relay.Function(
        [seq1, wi1, wh1], loop(seq1, relay.const(0), zeros, zeros, wi1, wh1)
    )
    params = {
        "wi": RNG.standard_normal((4 * hidden, inputs)).astype("float32"),
        "wh": RNG.standard_normal((4 * hidden, hidden)).astype("float32"),
    }
    return mod, params


def lstm_by_numpy(seq, wi, wh):
    h = c = np.zeros((1, wh.shape[1]), "float32")
    for x in seq:
        i, f, g, o = np.split(x[None] @ wi.T + h @ wh.T, 4, axis=1)
        sig = lambda v: 1 / (1 + np.exp(-v))  # noqa: E731
        c = sig(f) * c + sig(i) * np.tanh(g)
        h = sig(o) * np.tanh(c)
    return h


def test_a_recurrent_network_over_lengths_that_only_runs_know() -> None:
    mod, params = lstm_over_a_length()
    with tvm.transform.PassContext(opt_level=3):
        exe = relay.vm.compile(mod, target="llvm", params=params)
    code, lib = exe.save()
    vm = tvm.runtime.vm.VirtualMachine(tvm.runtime.vm.Executable.load_exec(code, lib), tvm.cpu())
    for length in (0, 1, 5):
        seq = RNG.standard_normal((length, 3)).astype("float32")
        expected = lstm_by_numpy(seq, params["wi"], params["wh"])
        tvm.testing.assert_allclose(vm.invoke("main", seq).numpy(), expected, rtol=1e-4, atol=1e-5)
        tvm.testing.assert_allclose(
            vm.invoke("main", seq=seq).numpy(), expected, rtol=1e-4, atol=1e-5
        )


def test_an_executable_is_kept_in_files() -> None:
    x = relay.var("x", shape=(relay.Any(),))
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.exp(x)))
    exe = relay.vm.compile(mod, "llvm")
    code, lib = exe.save()
    folder = tempdir()
    lib.export_library(folder.relpath("lib.so"))
    with open(folder.relpath("code.ro"), "wb") as file:
        file.write(code)
    with open(folder.relpath("code.ro"), "rb") as file:
        loaded_code = bytearray(file.read())
    loaded_lib = tvm.runtime.load_module(folder.relpath("lib.so"))
    again = tvm.runtime.vm.Executable.load_exec(loaded_code, loaded_lib)
    exe.mod.export_library(folder.relpath("whole.so"))
    whole = tvm.runtime.load_module(folder.relpath("whole.so"))
    for program in (again, whole):
        vm = tvm.runtime.vm.VirtualMachine(program, tvm.cpu())
        assert vm.run(np.zeros(2, "float32")).numpy().tolist() == [1, 1]
    assert exe.get_function_arity("main") == 1


def test_calls_of_a_machine_are_measured() -> None:
    x = relay.var("x", shape=(2,))
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.exp(x)))
    executor = relay.create_executor("vm", mod, tvm.cpu(), "llvm")
    assert "main" in executor.executable.globals
    vm = executor.vm
    vm.set_input("main", np.zeros(2, "float32"))
    timed = vm.module.time_evaluator("invoke", tvm.cpu(), number=2, repeat=3)
    assert len(timed("main").results) == 3
    assert vm.module["invoke"]("main").numpy().tolist() == [1, 1]


def test_arrays() -> None:
    a = tvm.nd.array(np.arange(6, dtype="float32").reshape(2, 3))
    assert a.shape == (2, 3) and a.dtype == "float32" and a.device == tvm.cpu(0)
    b = tvm.nd.empty((2, 3))
    a.copyto(b)
    assert (b.numpy() == a.numpy()).all() and (b.asnumpy() == a.asnumpy()).all()
    b[:] = 1
    assert b.numpy().sum() == 6 and a.numpy().sum() == 15
    assert str(tvm.cpu()) == "cpu(0)" and tvm.device("cpu", 0).exist
    c = a.copyto(tvm.cpu())
    assert c.same_as(c) and not c.same_as(a)


def test_closures_and_data_come_out_of_executors() -> None:
    mod = tvm.IRModule()
    p = relay.prelude.Prelude(mod)
    _, cons, nil = p.mod.get_type("List")
    mod["main"] = relay.Function([], cons(relay.const(1), cons(relay.const(2), nil())))
    for kind in ("debug", "vm"):
        value = relay.create_executor(kind, mod).evaluate()()
        assert value.constructor.name_hint == "Cons" and value.tag == cons.tag
        assert value.fields[0].numpy() == 1 and value[1].fields[0].numpy() == 2
    x = relay.var("x", "int32")
    r = relay.create_executor().evaluate(relay.RefCreate(relay.const(5)))
    assert r.value.numpy() == 5
    f = relay.create_executor().evaluate(relay.Function([], relay.Function([x], x)))()
    assert callable(f)


def test_python_of_a_program() -> None:
    x = relay.const(1.0)
    assert relay.testing.run_as_python(x + x).numpy() == 2
