"""Programs as TVM's own tests of its machine write them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import relayvm as tvm
from relayvm import relay
from relayvm.relay.prelude import Prelude


def run(program: Any, *args: Any) -> Any:
    module = program
    if isinstance(program, relay.Expr):
        module = tvm.IRModule()
        module["main"] = program
    executable = relay.vm.compile(module, "llvm")
    return tvm.runtime.vm.VirtualMachine(executable, tvm.cpu()).invoke("main", *args)


def items(value: Any) -> list[Any]:
    if isinstance(value, tvm.nd.NDArray):
        return [value.numpy().tolist()]
    assert isinstance(value, tvm.runtime.container.ADT)
    return [item for field in value for item in items(field)]


def test_a_list_comes_out() -> None:
    module = tvm.IRModule()
    Prelude(module)
    _, cons, nil = module.get_type("List")
    made = cons(relay.const(1), cons(relay.const(3), cons(relay.const(2), nil())))
    module["main"] = relay.Function([], made)
    assert items(run(module)) == [1, 3, 2]


def test_a_global_function_is_passed_to_map() -> None:
    module = tvm.IRModule()
    Prelude(module)
    x = relay.var("x", "int32")
    add_one = relay.GlobalVar("add_one")
    module[add_one] = relay.Function([x], x + relay.const(1))
    _, cons, nil = module.get_type("List")
    mapped = module.get_global_var("map")(
        add_one, cons(relay.const(2), cons(relay.const(1), nil()))
    )
    module["main"] = relay.Function([], mapped)
    assert items(run(module)) == [3, 2]


def test_a_loop_is_a_recursive_function() -> None:
    module = tvm.IRModule({})
    sum_up = relay.GlobalVar("sum_up")
    i, acc = (relay.var(n, shape=[], dtype="int32") for n in ("i", "acc"))
    scope = relay.ScopeBuilder()
    with scope.if_scope(relay.equal(i, relay.const(0, "int32"))):
        scope.ret(acc)
    with scope.else_scope():
        less = relay.subtract(i, relay.const(1, "int32"))
        scope.ret(relay.Call(sum_up, [less, relay.add(acc, i)]))
    module[sum_up] = relay.Function([i, acc], scope.get())
    module = relay.transform.InferType()(module)
    i, acc = (relay.var(n, shape=[], dtype="int32") for n in ("i", "acc"))
    module["main"] = relay.Function([i, acc], sum_up(i, acc))
    assert run(module, np.array(100, "int32"), np.array(0, "int32")) == 5050


def test_code_and_library_are_written_and_read(tmp_path: Path) -> None:
    x = relay.var("x", shape=(10, 10))
    executable = relay.vm.compile(tvm.IRModule.from_expr(relay.Function([x], x + x)), "llvm")
    code, library = executable.save()
    library.export_library(str(tmp_path / "lib.so"))
    (tmp_path / "code.ro").write_bytes(code)
    loaded = tvm.runtime.vm.Executable.load_exec(
        bytearray((tmp_path / "code.ro").read_bytes()),
        tvm.runtime.load_module(str(tmp_path / "lib.so")),
    )
    machine = tvm.runtime.vm.VirtualMachine(loaded, tvm.cpu())
    data = np.random.default_rng(0).random((10, 10), dtype=np.float32)
    np.testing.assert_array_equal(machine.run(data).numpy(), data * 2)


def test_graph_and_machine_give_the_same() -> None:
    module, params = relay.testing.mlp.get_workload(1)
    data = np.random.default_rng(0).random((1, 1, 28, 28), dtype=np.float32)
    with tvm.transform.PassContext(opt_level=3):
        library = relay.build(module, "llvm", params=params)
    graph = tvm.contrib.graph_executor.GraphModule(library["default"](tvm.cpu(0)))
    graph.set_input("data", data)
    graph.run()
    executor = relay.create_executor("vm", module, tvm.cpu(), "llvm", params)
    np.testing.assert_array_equal(graph.get_output(0).numpy(), executor.evaluate()(data).numpy())


def test_the_network_takes_its_weights_as_inputs_too() -> None:
    module, params = relay.testing.mlp.get_workload(1)
    graph_json, library, _ = relay.build(module, "llvm")
    graph = tvm.contrib.graph_executor.create(graph_json, library, tvm.cpu())
    graph.set_input(**params)
    graph.set_input(data=np.zeros((1, 1, 28, 28), "float32"))
    graph.run()
    np.testing.assert_allclose(graph.get_output(0).numpy(), np.full((1, 10), 0.1), rtol=1e-6)


def test_sizes_are_known_only_when_the_program_runs() -> None:
    data = relay.var("data", shape=(relay.Any(), 2))
    module = tvm.IRModule.from_expr(relay.Function([data], relay.reshape(data, (-1,))))
    for kind in ("debug", "vm"):
        executor = relay.create_executor(kind, mod=module, device=tvm.cpu(), target="llvm")
        assert executor.evaluate()(np.ones((3, 2), "float32")).shape == (6,)


def test_references_are_read_and_written() -> None:
    cell, first, done, second = (relay.Var(n) for n in ("i", "iv", "u", "uv"))
    body = relay.add(first, second)
    for variable, value in (
        (second, relay.RefRead(cell)),
        (done, relay.RefWrite(cell, relay.const(2))),
        (first, relay.RefRead(cell)),
        (cell, relay.RefCreate(relay.const(1))),
    ):
        body = relay.Let(variable, value, body)
    for kind in ("debug", "vm"):
        assert relay.create_executor(kind).evaluate(body) == 3


def test_a_while_loop_gives_its_variables() -> None:
    i = relay.var("i", shape=(), dtype="int32")
    loop = relay.loops.while_loop(
        lambda i: relay.less(i, relay.const(5)), [i], lambda i: [i + relay.const(1)]
    )
    result = relay.create_executor("vm").evaluate(relay.Function([], loop(relay.const(0))))()
    assert items(result) == [5]
