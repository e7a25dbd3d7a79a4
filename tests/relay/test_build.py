"""`relay.build`, the graph executor's calls, `relay.vm.compile` and the machine by TVM's names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import relayvm as tvm
from relayvm import relay
from relayvm.base.diagnostics import RelayError
from relayvm.relay.backend.executor_factory import load_module
from relayvm.relay.backend.graph_module import GraphModule, create
from relayvm.relay.machine import BenchmarkResult, Executable, VirtualMachine
from relayvm.relay.param_dict import save_param_dict

X = np.float32([[1, 2, 3], [4, 5, 6]])
W = np.float32([[1, 0, 1], [0, 2, 0]])


def module() -> tvm.IRModule:
    x, w = relay.var("x", shape=(2, 3)), relay.var("w", shape=(2, 3))
    result = relay.Tuple([relay.multiply(x, w), relay.sum(x)])
    return tvm.IRModule.from_expr(relay.Function([x, w], result))


DYNAMIC = """#[version = "0.0.5"]
def @main(%x: Tensor[(?, 2), float32], %n: int32) -> Tensor[(?, 2), float32] {
  if (%n <= 0) { %x } else { @main(concatenate((%x, %x)), %n - 1) }
}
"""


def test_a_library_makes_modules_that_run() -> None:
    library = relay.build(module(), target="llvm", params={"w": W})
    runtime = GraphModule(library["default"](tvm.cpu()))
    runtime.set_input("x", X)
    runtime.run()
    np.testing.assert_array_equal(runtime.get_output(0).numpy(), X * W)
    assert runtime.get_output(1) == 21
    assert (runtime.get_num_inputs(), runtime.get_num_outputs()) == (1, 2)


def test_a_build_is_a_graph_a_library_and_parameters() -> None:
    graph, library, params = relay.build(module(), "llvm", params={"w": W})
    assert json.loads(graph)["heads"] == [[1, 0, 0], [1, 1, 0]]
    runtime = create(graph, library, tvm.cpu(0))
    runtime.set_input(**params)
    runtime.run(x=X)
    np.testing.assert_array_equal(runtime.get_output(0), X * W)
    runtime.load_params(save_param_dict(params))


def test_inputs_are_known_by_name_and_number() -> None:
    runtime = relay.build(module())["default"](tvm.cpu())
    assert runtime.get_input_info() == (
        {"x": (2, 3), "w": (2, 3)},
        {"x": "float32", "w": "float32"},
    )
    assert runtime.get_input_index("w") == 1 and runtime.get_input_index("z") == -1
    assert runtime.get_output_info() == (
        {"output_0": (2, 3), "output_1": ()},
        {"output_0": "float32", "output_1": "float32"},
    )
    assert runtime.get_output_index("output_1") == 1 and runtime.get_output_index("z") == -1
    runtime.set_input(0, X)
    np.testing.assert_array_equal(runtime.get_input("x"), X)
    with pytest.raises(RelayError, match="no input `z`; it has `x`, `w`"):
        runtime.set_input("z", X)
    with pytest.raises(RelayError, match="`w` of `main` is not given"):
        runtime.run()


def test_inputs_are_copied_unless_asked_not_to() -> None:
    runtime = relay.build(module(), params={"w": W})["default"](tvm.cpu())
    given = X.copy()
    runtime.set_input("x", given)
    given[...] = 0
    runtime.run()
    assert runtime.get_output(1) == 21
    runtime.set_input_zero_copy("x", given)
    given[...] = 1
    out = np.zeros((2, 3), np.float32)
    runtime.set_output_zero_copy(0, out)
    runtime.run()
    assert runtime.get_output(1) == 6
    np.testing.assert_array_equal(out, W)


def test_outputs_need_a_run_first() -> None:
    runtime = relay.build(module())["default"](tvm.cpu())
    with pytest.raises(RelayError, match="no outputs before `run`"):
        runtime.get_output(0)
    with pytest.raises(RelayError, match="is not kept"):
        runtime.debug_get_output("n", None)


def test_a_library_is_written_and_read(tmp_path: Path) -> None:
    path = str(tmp_path / "lib.so")
    relay.build(module(), params={"w": W}).export_library(path)
    runtime = load_module(path)["default"](tvm.cpu())
    runtime.run(x=X)
    np.testing.assert_array_equal(runtime.get_output(0), X * W)


def test_dynamic_shapes_and_control_flow_run_in_a_graph_too() -> None:
    runtime = relay.build(relay.fromtext(DYNAMIC))["default"](tvm.cpu())
    runtime.run(x=np.ones((1, 2), np.float32), n=3)
    assert runtime.get_output(0).shape == (8, 2)


def test_benchmarks_give_seconds() -> None:
    runtime = relay.build(module(), params={"w": W})["default"](tvm.cpu())
    result = runtime.benchmark(tvm.cpu(), repeat=3, number=2, x=X)
    assert isinstance(result, BenchmarkResult) and len(result.results) == 3
    assert 0 < result.min <= result.median <= result.max
    machine = VirtualMachine(relay.vm.compile(module(), params={"w": W}), tvm.cpu())
    assert len(machine.benchmark(tvm.cpu(), X, repeat=2, number=1).results) == 2


def test_an_executable_is_saved_and_loaded() -> None:
    executable = relay.vm.compile(module(), target="llvm", params={"w": W})
    code, library = executable.save()
    loaded = Executable.load_exec(code, library)
    assert loaded.globals == ["main"] and loaded.get_function_params("main") == ["x"]
    result = VirtualMachine(loaded, tvm.cpu()).invoke("main", X)
    np.testing.assert_array_equal(result[0], X * W)
    fresh = VirtualMachine(Executable.load_exec(bytes(code), None), [tvm.cpu()], "pooled")
    np.testing.assert_array_equal(fresh.run(x=X)[0], X * W)
    with pytest.raises(TypeError):
        Executable.load_exec("code", None)


def test_an_executable_describes_itself() -> None:
    executable = relay.vm.compile(module(), params={"w": W})
    assert "Constant shapes (# 1): [[2, 3]]" in executable.stats
    assert executable.constants == "VM Const[0]: float32[2, 3]"
    assert executable.virtual_devices == "VM VirtualDevice[0]: cpu"
    assert executable.primitives.startswith("VM PackedFunc[0]: ")
    assert len(executable.primitive_ops) >= 1 and "kernel" in executable.bytecode


def run(executable: Any) -> np.ndarray:
    return VirtualMachine(executable, tvm.cpu()).invoke("main", X)[0].numpy()


def test_large_constants_move_out_and_are_taken_again() -> None:
    executable = relay.vm.compile(module(), params={"w": W})
    assert not executable.get_late_bound_consts(25)
    np.testing.assert_array_equal(run(executable), X * W)
    running = VirtualMachine(executable, tvm.cpu())
    moved = executable.get_late_bound_consts(24)
    assert list(moved) == ["const_0"]
    np.testing.assert_array_equal(moved["const_0"].numpy(), W)
    with pytest.raises(RelayError, match="lacks constants, which are bound late: `const_0`"):
        run(executable)
    with pytest.raises(RelayError, match="lacks constants"):
        executable.get_late_bound_consts(0)
    np.testing.assert_array_equal(running.invoke("main", X)[0], X * W)
    executable.load_late_bound_consts_from_map(moved)
    np.testing.assert_array_equal(run(executable), X * W)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "`const_0` is missing"),
        ({"const_0": W + 1}, "`const_0` has other elements"),
        ({"const_0": W.astype(np.float64)}, r"`const_0` is float64\[2, 3\], not float32\[2, 3\]"),
        ({"const_0": W[0]}, r"`const_0` is float32\[3\], not"),
        ({"const_0": W, "const_1": W}, "`const_1` is not among them"),
    ],
)
def test_other_constants_than_those_that_moved_are_refused(given: Any, told: str) -> None:
    executable = relay.vm.compile(module(), params={"w": W})
    executable.get_late_bound_consts(0)
    with pytest.raises(RelayError, match=told) as caught:
        executable.load_late_bound_consts_from_map(given)
    assert caught.value.code == "wrong-constants"


def test_a_library_and_its_constants_are_two_files(tmp_path: Path) -> None:
    weights = np.random.default_rng(0).normal(size=(2, 3)).astype(np.float32)
    executable = relay.vm.compile(module(), params={"w": weights})
    whole, small, path = (str(tmp_path / n) for n in ("whole.so", "small.so", "consts"))
    executable.mod.export_library(whole)
    expected = run(executable)
    executable.move_late_bound_consts(path, byte_limit=1)
    executable.mod.export_library(small)
    assert list(tvm.runtime.load_param_dict_from_file(path)) == ["const_0"]
    for take in (
        lambda mod: mod["load_late_bound_consts"](path),
        lambda mod: mod["load_late_bound_consts_from_map"](
            tvm.runtime.load_param_dict_from_file(path)
        ),
    ):
        mod = tvm.runtime.load_module(small)
        with pytest.raises(RelayError, match="lacks constants"):
            VirtualMachine(mod, tvm.cpu())
        take(mod)
        np.testing.assert_array_equal(run(mod), expected)
    again = tvm.runtime.vm.Executable(tvm.runtime.load_module(small))
    again.load_late_bound_consts(path)
    np.testing.assert_array_equal(run(again), expected)
    assert again.native.to_bytes() == Path(whole).read_bytes()


def test_a_file_of_constants_that_is_damaged_or_missing_is_refused(tmp_path: Path) -> None:
    executable = relay.vm.compile(module(), params={"w": W})
    path = tmp_path / "consts"
    with pytest.raises(RelayError, match="cannot be written"):
        executable.move_late_bound_consts(str(tmp_path / "none" / "consts"), 0)
    np.testing.assert_array_equal(run(executable), X * W)
    executable.move_late_bound_consts(str(path), 0)
    data = path.read_bytes()
    refused = set()
    for at in range(len(data)):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :])
        try:
            executable.load_late_bound_consts(str(path))
        except RelayError as failure:
            refused.add(failure.code)
        else:
            assert at < data.index(W.tobytes()), "elements are compared"
            np.testing.assert_array_equal(run(executable), X * W)
            executable.get_late_bound_consts(0)
        path.write_bytes(data[:at])
        with pytest.raises(RelayError, match="bad-parameters"):
            executable.load_late_bound_consts(str(path))
    assert refused == {"bad-parameters", "wrong-constants"}
    path.unlink()
    with pytest.raises(RelayError, match="cannot be read"):
        executable.load_late_bound_consts(str(path))
    with pytest.raises(RelayError, match="has no function `load_constants`"):
        executable["load_constants"]


def test_a_machine_keeps_the_arguments_that_are_set() -> None:
    machine = VirtualMachine(relay.vm.compile(module()), tvm.cpu())
    machine.set_input("main", X, w=W)
    machine.invoke_stateful("main")
    first, total = machine.get_outputs()
    np.testing.assert_array_equal(first, X * W)
    assert total == 21
    machine.set_one_input("main", "w", W * 2)
    np.testing.assert_array_equal(machine.invoke("main")[0], X * W * 2)
    machine.set_one_input("main", x=X * 0)
    assert machine.run()[1] == 0
    assert machine.get_input_index("w") == 1 and machine.get_input_index("z") == -1
    # Arguments without a name take the places that are left; names that it has not are skipped.
    machine.invoke_stateful("main", W, x=X, z=X)
    np.testing.assert_array_equal(machine.get_outputs()[0], X * W)


def test_a_machine_writes_into_given_outputs() -> None:
    machine = VirtualMachine(relay.vm.compile(module()), tvm.cpu())
    out, total = np.zeros((2, 3), np.float32), np.zeros((), np.float32)
    machine.invoke_with_outputs("main", {"x": X, "w": W}, [out, total])
    np.testing.assert_array_equal(out, X * W)
    assert total == 21


def test_wrong_arguments_of_a_machine_are_named() -> None:
    machine = VirtualMachine(relay.vm.compile(module()), tvm.cpu())
    for act, text in (
        (lambda: machine.invoke("main", X), "takes 2 arguments, 1 given"),
        (lambda: machine.set_one_input("main", "z", X), "no parameter `z`"),
        (lambda: machine.set_one_input("main", X), "sets one argument"),
        (lambda: machine.invoke("other"), "no entry `other`"),
        (lambda: machine.invoke("main", X, X.astype("int32")), "`w` of `main`"),
        (lambda: VirtualMachine(module(), tvm.cpu()), "runs an Executable"),
        (lambda: VirtualMachine(relay.vm.compile(module()), tvm.cuda()), "no device"),
        (
            lambda: VirtualMachine(relay.vm.compile(module()), tvm.cpu(), "greedy"),
            "no allocator `greedy`",
        ),
    ):
        with pytest.raises(RelayError, match=text):
            act()


def test_the_compiler_works_in_steps() -> None:
    compiler = relay.vm.VMCompiler()
    with pytest.raises(RelayError, match="`codegen` comes after `lower`"):
        compiler.codegen()
    compiler.set_params({"w": W})
    np.testing.assert_array_equal(compiler.get_params()["w"].numpy(), W)
    compiler.lower(module(), "llvm")
    compiler.codegen()
    result = VirtualMachine(compiler.get_exec(), tvm.cpu()).run(X)
    np.testing.assert_array_equal(result[0], X * W)
    optimized, params = compiler.optimize(module())
    assert "main" in optimized and set(params) == {"w"}


def test_optimize_returns_a_module_and_parameters() -> None:
    optimized, params = relay.optimize(module(), "llvm", params={"w": W})
    assert len(optimized["main"].params) == 1 and set(params) == {"w"}


def test_parameters_of_another_type_are_refused() -> None:
    for value in (W.astype("int32"), W[:1]):
        with pytest.raises(RelayError, match="`%w` of `@main` is `Tensor"):
            relay.build(module(), params={"w": value})


def test_parameters_are_bound_by_name() -> None:
    function = relay.build_module.bind_params_by_name(module()["main"], {"w": W, "other": W})
    assert [p.name_hint for p in function.params] == ["x"]


def test_every_level_of_optimization_gives_the_same() -> None:
    for level in range(5):
        with relay.build_config(opt_level=level):
            runtime = relay.build(module(), params={"w": W})["default"](tvm.cpu())
        runtime.run(x=X)
        np.testing.assert_array_equal(runtime.get_output(0), X * W)


def test_a_build_in_steps() -> None:
    builder = relay.build_module.BuildModule()
    with pytest.raises(RelayError, match="`build` comes first"):
        builder.get_graph_json()
    graph, _, params = builder.build(module(), "llvm", params={"w": W})
    assert builder.get_graph_json() == graph and set(params) == {"w"}


def test_targets_of_the_original_are_understood() -> None:
    from relayvm.relay.backend.vm import native_target

    assert native_target("llvm -mcpu=generic -opt-level=3").cpu == "generic"
    assert native_target({tvm.cpu(): "llvm"}).kind == "cpu"
    with pytest.raises(RelayError, match="no target `cuda`"):
        native_target("cuda")
