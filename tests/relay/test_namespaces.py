"""What stands beside `relay` in TVM: targets, arrays, sizes, helpers of tests, and how they are
imported.
"""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import relayvm as tvm
from relayvm import relay
from relayvm.base.diagnostics import RelayError
from relayvm.relay.namespace.target import target_of


def run(code):
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    return result.stdout.split()


def test_the_modules_of_tvm_are_imported_by_their_names():
    code = (
        "import relayvm.testing, relayvm.runtime.vm, relayvm.ir.instrument\n"
        "from relayvm.contrib import graph_executor, utils\n"
        "from relayvm.runtime.vm import VirtualMachine\n"
        "import relayvm as tvm\n"
        "print(tvm.testing.__spec__.name, tvm.runtime.vm.VirtualMachine is VirtualMachine,\n"
        "      relayvm.ir.instrument is tvm.instrument, tvm.ir.IRModule is tvm.IRModule)"
    )
    assert run(code) == ["relayvm.relay.namespace.testing", "True", "True", "True"]


def test_importing_relayvm_imports_none_of_it():
    names = run("import relayvm, sys; print(*(m for m in sys.modules if m.startswith('relayvm')))")
    assert names == ["relayvm"]


# --- arrays ----------------------------------------------------------------------------------


def test_arrays_answer_as_those_of_tvm():
    array = tvm.nd.array(np.arange(3))
    assert isinstance(array, tvm.nd.NDArray) and array.dtype == "int64"
    assert type(array.numpy()) is np.ndarray and array.device == tvm.cpu(0)
    copy = tvm.nd.empty((3,), "int64")
    assert array.copyto(copy) is copy and copy.asnumpy().tolist() == [0, 1, 2]
    copy[0] = 5
    assert array[0] == 0 and array.copyto(tvm.cpu()).numpy().tolist() == [0, 1, 2]
    assert tvm.nd.array([1, 2]).dtype == "int64"
    assert copy.copyfrom([7, 8, 9]).numpy().tolist() == [7, 8, 9]
    with pytest.raises(RelayError, match="does not fit"):
        copy.copyfrom([1])
    with pytest.raises(RelayError, match="cannot be copied there"):
        array.copyto(tvm.nd.empty((2,)))


def test_devices_have_kind_and_number():
    assert str(tvm.cpu(1)) == "cpu(1)" and tvm.device("llvm") == tvm.cpu(0)
    assert tvm.cuda(0).device_type == 2 and not tvm.cuda().exist
    with pytest.raises(RelayError, match="no device of kind `toaster`"):
        tvm.device("toaster")
    with pytest.raises(RelayError, match=r"no device cuda\(0\)"):
        tvm.nd.array([1], tvm.cuda())


# --- targets ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "cpu"),
    [
        ("llvm", ""),
        ("llvm -mcpu=skylake-avx512 -num-cores=4", "skylake-avx512"),
        ({"kind": "llvm", "mcpu": "generic", "keys": ["cpu"]}, "generic"),
    ],
)
def test_targets_of_llvm_are_the_cpu(text, cpu):
    target = tvm.target.Target(text)
    assert target.kind.name == "llvm" and target.mcpu == cpu
    assert target_of(text).kind == "cpu" and target == tvm.target.Target(str(target))


@pytest.mark.parametrize("text", ["cuda", "opencl", "nonsense", "llvm -frobnicate=1"])
def test_other_targets_are_refused(text):
    with pytest.raises(tvm.TVMError) as raised:
        tvm.target.Target(text)
    assert raised.value.code == "unknown-target"


def test_a_target_is_current_inside_of_its_block():
    assert tvm.target.Target.current() is None
    with tvm.target.Target("llvm -mcpu=generic") as target:
        assert tvm.target.Target.current() is target and target_of(None).cpu == "generic"
    with pytest.raises(RelayError, match="no target is current"):
        tvm.target.Target.current(allow_none=False)


def test_a_target_is_taken_out_of_what_holds_it():
    target = tvm.target.Target("llvm", host="llvm")
    assert target_of([target]) == target_of({tvm.cpu(): target}) == target.base


def test_options_that_change_nothing_are_remembered():
    text = '{"kind": "llvm", "mcpu": "generic", "libs": ["cblas", "mkl"], "num-cores": 4}'
    target = tvm.target.Target(text, host="llvm")
    assert target.libs == ["cblas", "mkl"] and target.attrs["num-cores"] == 4
    assert target.model == "unknown" and target.keys == ["cpu"] and target.mattr == []
    assert str(target) == "llvm -mcpu=generic -libs=cblas,mkl -num-cores=4"
    assert tvm.target.Target(target.export()) == target != tvm.target.Target(str(target))
    assert tvm.target.Target("llvm -model=a") != tvm.target.Target("llvm -model=b")
    with pytest.raises(RelayError, match="no JSON"):
        tvm.target.Target("{kind")


def test_targets_are_taken_in_all_forms():
    kind = tvm.target.Target
    assert kind.canon_target(None) is None and kind.canon_multi_target(None) is None
    assert kind.canon_multi_target({tvm.cpu(): "llvm"}) == [kind("llvm")]
    with_host = kind("llvm", "llvm -mcpu=generic")
    assert kind.canon_target_and_host("llvm", "llvm -mcpu=generic") == (with_host, with_host.host)
    assert kind.canon_multi_target_and_host(["llvm"], "llvm -mcpu=generic") == [with_host]
    named, host = kind.canon_target_map_and_host({"llvm": 1}, "llvm -mcpu=generic")
    assert named == {with_host: 1} and host == with_host.host
    with kind("llvm -mcpu=generic") as current:
        assert kind.target_or_current(None) is current
    with pytest.raises(RelayError, match="a host without a target"):
        kind.canon_target_and_host(None, "llvm")


def test_machines_are_targets_by_name():
    assert str(tvm.target.arm_cpu("rasp4b64").base) == (
        "cpu -mtriple=aarch64-linux-gnu -mcpu=cortex-a72 -mattr=+neon"
    )
    assert tvm.target.arm_cpu("board", "-mtriple=aarch64-linux-gnu").model == "board"
    assert tvm.target.riscv_cpu().attrs["mabi"] == "lp64d"
    place = tvm.target.VirtualDevice(tvm.cpu(0))
    assert place.device_type == 1 and place == tvm.target.VirtualDevice(tvm.cpu(0))


def test_devices_are_named_in_all_forms():
    assert tvm.device("cuda:1") == tvm.cuda(1) == tvm.device(2, 1)
    assert tvm.device(tvm.cpu(3)) == tvm.cpu(3) and tvm.device("llvm -mcpu=generic") == tvm.cpu()
    assert not tvm.nd.opencl().exist and tvm.nd.rocm(2).device_id == 2
    for wrong in (("cpu", -1), ("cpu:x",), (99,)):
        with pytest.raises(RelayError):
            tvm.device(*wrong)
    values = np.arange(3)
    shared = tvm.nd.from_dlpack(values)
    assert np.shares_memory(shared, values) and shared.device == tvm.cpu()


def test_arrays_of_bfloat16_are_lent_to_pytorch_and_copied_from_it():
    torch = pytest.importorskip("torch")
    array = tvm.nd.empty((2, 3), "bfloat16")
    array[...] = np.arange(6).reshape(2, 3)
    lent = torch.from_dlpack(array)
    assert lent.dtype == torch.bfloat16 and lent.tolist() == [[0, 1, 2], [3, 4, 5]]
    lent[1, 2] = -7
    assert float(array[1, 2]) == -7
    back = tvm.nd.from_dlpack(lent.t())
    assert back.dtype == array.dtype and back.tobytes() == array.T.tobytes()
    eighths = tvm.nd.from_dlpack(torch.full((2,), 1.5, dtype=torch.float8_e5m2))
    assert (
        str(eighths.dtype) == "float8_e5m2" and eighths.asnumpy().astype("f4").tolist() == [1.5] * 2
    )
    with pytest.raises(RuntimeError):
        tvm.nd.from_dlpack(torch.zeros(2, dtype=torch.float8_e8m0fnu))


# --- sizes -----------------------------------------------------------------------------------


def test_sizes_are_symbols_integers_and_any():
    n = tvm.te.var("n")
    x = relay.var("x", shape=(n, n * 2, tvm.tir.Any(), tvm.tir.IntImm("int64", 3)))
    assert str(x.type_annotation) == "Tensor[(n, n*2, ?, 3), float32]"
    assert isinstance(n, tvm.tir.Var) and isinstance(3, tvm.tir.IntImm)
    assert tvm.te.size_var("m") != tvm.te.size_var("m")
    assert str(tvm.tir.indexdiv(n, 2)) == "(n // 2)" and tvm.tir.indexmod(7, 4) == 3
    assert str(tvm.tir.max(n, 2)) == "max(2, n)" and tvm.tir.min(1, 2) == 1
    assert tvm.tir.const(1.0, "float32") == 1.0 and tvm.tir.const(2) == 2


# --- programs as data ------------------------------------------------------------------------


def test_modules_go_to_json_and_back():
    mod = relay.parse("def @main(%x: int32) { add(%x, 1) }")
    back = tvm.ir.load_json(tvm.ir.save_json(mod))
    assert isinstance(back, tvm.IRModule)
    tvm.ir.assert_structural_equal(back, mod)
    assert tvm.ir.structural_hash(back) == tvm.ir.structural_hash(mod)


def test_operators_are_found_by_name_and_take_attributes():
    add = tvm.ir.Op.get("add")
    assert isinstance(add, tvm.ir.Op) and add.name == "add" and "add" in tvm.ir.Op.list_op_names()
    with pytest.raises(RelayError, match="no operator `nonsense`"):
        tvm.ir.Op.get("nonsense")

    @tvm.ir.register_op_attr("add", "FTest")
    def first(attrs, inputs, types):
        return None

    tvm.ir.register_op_attr("add", "FTest", 3, level=5)
    assert add.get_attr("FTest") is first
    tvm.ir.register_op_attr("add", "FTest", 3, level=11)
    assert add.get_attr("FTest") == 3
    add.reset_attr("FTest")
    assert add.get_attr("FTest") is None


def test_attributes_are_made_by_name():
    assert tvm.ir.make_node("DictAttrs", axis=1).axis == 1
    with pytest.raises(RelayError, match="call its class"):
        tvm.ir.make_node("relay.Call")


def test_functions_are_registered_by_name():
    @tvm.register_func("test.double")
    def double(x):
        return 2 * x

    assert tvm.get_global_func("test.double")(3) == tvm.ir.EnvFunc.get("test.double")(3) == 6
    with pytest.raises(RelayError, match="named `test.double` already"):
        tvm.register_func("test.double", abs)
    tvm.register_func("test.double", abs, override=True)
    assert tvm.get_global_func("test.nothing", allow_missing=True) is None
    with pytest.raises(RelayError, match="no function is named `test.nothing`"):
        tvm.get_global_func("test.nothing")


def test_values_are_converted_and_folders_are_temporary():
    assert tvm.runtime.convert([np.zeros(2), 1])[1] == 1
    assert isinstance(tvm.runtime.convert(np.zeros(2)), tvm.nd.NDArray)
    with tvm.contrib.utils.tempdir() as folder:
        path = folder / "x"
        path.write_text("x")
        assert folder.listdir() == ["x"] and folder.relpath("x") == str(path)
    assert not path.exists()


# --- helpers of tests ------------------------------------------------------------------------


def test_arrays_are_compared_with_their_shapes():
    tvm.testing.assert_allclose(np.ones(2), [1, 1 + 1e-9])
    with pytest.raises(AssertionError):
        tvm.testing.assert_allclose(np.ones(2), [1, 1.1])
    with pytest.raises(AssertionError):
        tvm.testing.assert_allclose(np.ones(2), 1)


def test_gradients_are_compared_with_differences():
    def square(x):
        return x * x

    x = np.array([1.0, 2.0])
    tvm.testing.check_numerical_grads(square, [x], [2 * x])
    tvm.testing.check_numerical_grads(square, {"x": x}, {"x": 2 * x})
    with pytest.raises(AssertionError, match="gradient 0"):
        tvm.testing.check_numerical_grads(square, [x], [3 * x])


@tvm.testing.parametrize_targets
def test_a_test_runs_for_the_targets_that_are_here(target, dev):
    assert (target, dev) == ("llvm", tvm.cpu(0))


@tvm.testing.parametrize_targets("llvm", "cuda")
def test_a_test_does_not_run_for_targets_that_are_not_here(target, dev):
    assert target == "llvm"


@tvm.testing.requires_cuda
def test_what_needs_cuda_is_skipped():
    raise AssertionError


@tvm.testing.requires_llvm
def test_what_needs_the_cpu_runs():
    assert tvm.testing.device_enabled("llvm -mcpu=generic")


@tvm.testing.known_failing_targets("cuda")
@tvm.testing.exclude_targets("cuda")
@tvm.testing.uses_gpu
def test_what_concerns_other_targets_changes_nothing():
    assert not tvm.testing.device_enabled("cuda")


@tvm.testing.known_failing_targets("llvm")
def test_what_is_known_to_fail_runs_and_may_fail():
    raise AssertionError


@tvm.testing.requires_package("numpy", "a_package_that_nobody_has")
def test_what_needs_a_package_is_skipped():
    raise AssertionError


@tvm.testing.requires_nvcc_version(11, 4)
def test_what_needs_a_version_of_cuda_is_skipped():
    raise AssertionError


@tvm.testing.requires_package("numpy")
@tvm.testing.skip_if_32bit(reason="addresses are too short")
def test_marks_of_features_are_lists():
    assert [*tvm.testing.requires_llvm(), *tvm.testing.requires_x86.marks()] == []
    assert [mark.name for mark in tvm.testing.requires_cuda()] == ["skip"]
    n = tvm.te.var("n")
    tvm.testing.assert_prim_expr_equal(n * 2, n + n)
    with pytest.raises(ValueError, match="are not equal"):
        tvm.testing.assert_prim_expr_equal(n * 2, n)
    assert tvm.testing.identity_after(3, 0) == 3


number = tvm.testing.parameter(1, 2)
named = tvm.testing.parameter(by_dict={"one": 1})
low, high = tvm.testing.parameters((1, 10), (2, 20))


@tvm.testing.fixture
def doubled(number):
    return 2 * number


@tvm.testing.fixture(cache_return_value=True)
def cached():
    return SimpleNamespace(uses=0)


def test_parameters_are_fixtures(number, named, doubled, cached):
    assert number in (1, 2) and named == 1 and doubled == 2 * number
    cached.uses += 1
    assert cached.uses == number


def test_parameters_of_a_set_stay_together(low, high):
    assert high == 10 * low


def test_names_that_are_no_features_are_unknown():
    with pytest.raises(AttributeError, match="no attribute `requires_magic`"):
        tvm.testing.requires_magic


def test_the_package_is_an_attribute_of_its_parent() -> None:
    code = "import relayvm as tvm; print(tvm.relay.__name__, tvm.ir.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["relayvm.relay", "relayvm.ir"]


def test_files_are_locks_and_programs_are_found(tmp_path):
    from relayvm.contrib import utils

    lock = utils.filelock(tmp_path / "lock")
    lock.release()
    lock.release()
    assert utils.which("sh") and utils.which("a_program_that_nobody_has") is None
    assert utils.is_source_path("a.cc") and utils.is_source_path(str(tmp_path))
    assert not utils.is_source_path("int x;\nreturn a.b;") and not utils.is_source_path("text")


def test_machines_tell_their_threads_and_targets():
    assert tvm.runtime.num_threads() >= 1
    assert tvm.runtime.enabled("llvm") and not tvm.runtime.module.enabled("cuda")
