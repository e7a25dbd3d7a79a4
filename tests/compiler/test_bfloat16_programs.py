"""Programs that hold bfloat16, with the package ml_dtypes and without it."""

import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

import relayvm
from relayvm.base.dtypes import BFLOAT16, number_of
from relayvm.base.narrow.bfloat16 import rounded
from relayvm.compiler.evaluate import Evaluator
from relayvm.compiler.to_python import PythonProgram
from relayvm.compiler.transforms.to_mixed_precision import to_mixed_precision
from relayvm.ir.metadata.tensor_file import read_tensors, write_tensors
from relayvm.ir.printer import print_module
from tests.compiler.programs_text import typed

TEXT = """
def @layer[n](%x: Tensor[(n, 64), bfloat16], %w: Tensor[(8, 64), bfloat16]) {
  nn.softmax(nn.dense(%x, %w) * 1.5bf16 + 0.1bf16)
}
def @word(%x: bfloat16) -> bfloat16 { %x * 3bf16 + cast(1f, dtype="bfloat16") }
def @inside(%x: Tensor[(5, 4), float32]) -> Tensor[(5, 4), float32] {
  let %c = cast(%x, dtype="bfloat16");
  let %k = (1.5bf16 * 2bf16, -infbf16, 1bf16 / 3bf16);
  let %s = nn.softmax(sin(%c) * 1.7bf16 + %k.0);
  let %m = if (max(%s) > 0.01bf16) { maximum(%s, %k.1) } else { negative(%s) };
  cast(nn.relu(%m) * %k.2, dtype="float32")
}
"""
WITHOUT = """
import sys
sys.modules["ml_dtypes"] = None
import numpy as np, relayvm
vm = relayvm.VirtualMachine(relayvm.compile(relayvm.parse(sys.stdin.read())))
x = np.random.default_rng(0).standard_normal((5, 4)).astype(np.float32)
print(vm.invoke("inside", x).tobytes().hex())
for call in (lambda: vm.invoke("word", 2.5), lambda: vm.invoke("layer", x, x)):
    try:
        call()
    except relayvm.RelayError as reason:
        print(str(reason).splitlines()[0])
"""


@pytest.fixture(scope="module")
def module():
    return relayvm.parse(TEXT)


@pytest.fixture(scope="module")
def machine(module):
    return relayvm.VirtualMachine(relayvm.compile(module))


def operands():
    rng = np.random.default_rng(7)
    x, w = rng.standard_normal((5, 64)), rng.standard_normal((8, 64))
    return x.astype(ml_dtypes.bfloat16), w.astype(ml_dtypes.bfloat16)


def test_the_text_comes_back(module):
    assert str(relayvm.parse(str(module))) == str(module)


def test_the_machine_computes_what_the_evaluator_does(module, machine):
    x, w = operands()
    for entry, args in (("layer", (x, w)), ("layer", (x[::-1, ::-1], w)), ("layer", (x[:0], w))):
        given, wanted = machine.invoke(entry, *args), Evaluator(typed(TEXT)).call(entry, args)
        assert given.dtype == wanted.dtype == ml_dtypes.bfloat16
        assert np.allclose(given.astype("f4"), wanted.astype("f4"), rtol=2e-2, atol=1e-6)
    for value in (2.5, ml_dtypes.bfloat16(2.5), np.array(2.5, ml_dtypes.bfloat16)):
        assert number_of(machine.invoke("word", value)) == 8.5


def test_results_go_into_arrays_of_the_caller(machine):
    x, w = operands()
    out = np.zeros((5, 8), ml_dtypes.bfloat16)
    assert (
        machine.invoke("layer", x, w, out=out).tobytes() == machine.invoke("layer", x, w).tobytes()
    )


def test_sums_of_products_are_kept_in_float32():
    text = """def @main(%x: Tensor[(1, 4096), bfloat16], %w: Tensor[(1, 4096), bfloat16]) {
      nn.dense(%x, %w)
    }"""
    ones = np.ones((1, 4096), ml_dtypes.bfloat16)
    vm = relayvm.VirtualMachine(relayvm.compile(relayvm.parse(text)))
    assert number_of(vm.invoke("main", ones, ones)) == 4096


def test_other_arrays_are_refused_with_the_way_to_cast_them(machine):
    x, w = operands()
    with pytest.raises(relayvm.RelayError, match=r"x\.astype\(ml_dtypes\.bfloat16\)"):
        machine.invoke("layer", x.astype(np.float32), w)
    with pytest.raises(relayvm.RelayError, match="wrong-argument"):
        machine.invoke("layer", x.view(np.uint16), w)


def test_programs_that_cast_at_their_ends_run_without_ml_dtypes(machine):
    run = subprocess.run(
        [sys.executable, "-c", WITHOUT], input=TEXT, capture_output=True, text=True, check=True
    )
    bits, *refused = run.stdout.splitlines()
    x = np.random.default_rng(0).standard_normal((5, 4)).astype(np.float32)
    assert bits == machine.invoke("inside", x).tobytes().hex()
    assert len(refused) == 2
    assert all("need the package ml_dtypes" in line for line in refused)


def test_tensors_of_pytorch_come_by_dlpack(machine):
    torch = pytest.importorskip("torch")
    x, w = operands()
    tensor = torch.from_numpy(x.view(np.uint16).copy()).view(torch.bfloat16)
    wanted = machine.invoke("layer", x, w).tobytes()
    for given in (tensor, tensor.t().contiguous().t(), torch.cat([tensor, tensor])[5:]):
        result = machine.invoke("layer", given, w)
        assert result.tobytes() == wanted
    back = torch.from_numpy(result.view(np.uint16)).view(torch.bfloat16)
    assert np.array_equal(back.float().numpy(), result.astype(np.float32))
    with pytest.raises(relayvm.RelayError, match="wrong-argument"):
        machine.invoke("layer", tensor.float(), w)


def test_models_are_narrowed_to_it():
    text = """def @main(%x: Tensor[(4, 8), float32]) {
      nn.relu(nn.dense(%x, cast(1f, dtype="float32") * zeros(shape=(3, 8), dtype="float32")))
    }"""
    narrow = to_mixed_precision(typed(text), "bfloat16")
    assert "bfloat16" in print_module(narrow)
    result = relayvm.VirtualMachine(relayvm.compile(narrow)).invoke("main", np.ones((4, 8), "f4"))
    assert result.dtype == np.float32


def test_files_of_tensors_name_it_as_safetensors_does(tmp_path):
    data = rounded(np.arange(6.0).reshape(2, 3) / 7)
    write_tensors(tmp_path / "a.safetensors", {"w": data})
    content = (tmp_path / "a.safetensors").read_bytes()
    assert b'"dtype":"BF16"' in content
    read = read_tensors(tmp_path / "a.safetensors")["w"]
    assert (read.dtype, read.tobytes()) == (BFLOAT16.numpy, data.tobytes())


def test_programs_as_python_compute_the_same():
    x = np.random.default_rng(0).standard_normal((5, 4)).astype(np.float32)
    given = PythonProgram(typed(TEXT)).call("inside", [x])
    assert given.tobytes() == Evaluator(typed(TEXT)).call("inside", [x]).tobytes()
