"""Programs that hold what is stored in a byte, with the package ml_dtypes and without it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import relayvm
from relayvm.base.dtypes import ALIASES, BY_NAME, STORED, DType
from relayvm.base.narrow.arrays import as_bytes
from relayvm.compiler.evaluate import Evaluator
from relayvm.compiler.infer_types import infer_types
from relayvm.compiler.to_python import PythonProgram
from relayvm.ir.metadata.tensor_file import read_tensors, write_tensors
from relayvm.ir.printer import print_module

NAMES = [d.name for d in STORED]
PROGRAM = """
def @pass_NAME(%x: Tensor[(?, 3), NAME]) -> Tensor[(?, 3), NAME] { %x }
def @move_NAME(%x: Tensor[(?, 3), NAME]) {
  strided_slice(transpose(concatenate((%x, %x), axis=0), axes=[1, 0]), begin=[1], end=[3])
}
def @widen_NAME(%x: Tensor[(?, 3), NAME]) { add(cast(%x, dtype="float32"), 1f) }
def @store_NAME(%f: Tensor[(?, 3), float32]) { cast(multiply(%f, 2f), dtype="NAME") }
def @branch_NAME(%n: NAME, %c: bool) { if (%c) { %n } else { cast(1f, dtype="NAME") } }
def @hold_NAME(%n: NAME) { (%n, Some(%n), ones(shape=(2,), dtype="NAME")) }
def @dense_NAME(%f: Tensor[(?, 3), float32], %w: Tensor[(5, 3), NAME]) {
  nn.dense(nn.relu(%f), cast(%w, dtype="float32"))
}
def @quantize_NAME(%f: Tensor[(?, 3), float32]) {
  let %q = qnn.quantize(%f, 0.5f, 0, out_dtype="NAME");
  (%q, qnn.dequantize(%q, 0.5f, 0))
}
def @write_NAME(%n: NAME) {
  let %r = ref(%n);
  ref_write(%r, cast(add(cast(ref_read(%r), dtype="float32"), 1f), dtype="NAME"));
  ref_read(%r)
}
def @count_NAME(%i: int32, %n: NAME) -> NAME {
  if (equal(%i, 0)) { %n } else {
    @count_NAME(subtract(%i, 1), cast(add(cast(%n, dtype="float32"), 1f), dtype="NAME"))
  }
}
def @take_NAME(%x: Tensor[(?, 3), NAME], %at: Tensor[(?), int32]) { take(%x, %at, axis=0) }
"""
TEXT = "".join(PROGRAM.replace("NAME", name) for name in NAMES)
LAST = {"c": np.True_, "i": np.array(2, np.int32), "at": np.array([3, 0], np.int32)}


def values_of(dtype: DType, shape: tuple[int, ...]) -> np.ndarray:
    rng = np.random.default_rng(dtype.code)
    if dtype.is_real:
        return dtype.array(rng.normal(0, 3, shape))
    return dtype.array(rng.integers(int(dtype.min), int(dtype.max), shape, endpoint=True))


def arguments(parameter: str, dtype: DType) -> Any:
    floats = np.random.default_rng(1).normal(0, 5, (4, 3)).astype(np.float32)
    floats[0] = [np.nan, np.inf, -np.inf]
    known = {
        "x": values_of(dtype, (4, 3)),
        "n": values_of(dtype, ()),
        "w": values_of(dtype, (5, 3)),
        "f": floats,
    }
    return {**known, **LAST}[parameter]


def flat(value: Any) -> list[np.ndarray]:
    fields = value if isinstance(value, tuple) else getattr(value, "fields", None)
    return [np.asarray(value)] if fields is None else [a for f in fields for a in flat(f)]


@pytest.fixture(scope="module")
def module() -> Any:
    return infer_types(relayvm.parse(TEXT))


@pytest.fixture(scope="module")
def executable(module: Any) -> Any:
    return relayvm.compile(module)


def check(module: Any, invoke: Any, names: list[str]) -> None:
    evaluator = Evaluator(module)
    for name in names:
        for entry in (f for f in module.functions if f.endswith(f"_{name}")):
            given = [arguments(p.name, BY_NAME[name]) for p in module.functions[entry].params]
            expected, actual = flat(evaluator.call(entry, given)), flat(invoke(entry, *given))
            for a, b in zip(actual, expected, strict=True):
                assert a.dtype == b.dtype, entry
                if entry.startswith("dense"):
                    assert np.allclose(a, b, rtol=1e-5, equal_nan=True), entry
                else:
                    assert as_bytes(a).tobytes() == as_bytes(b).tobytes(), entry


@pytest.mark.parametrize("engine", ["interpreter", "jit"])
def test_engines_do_what_the_evaluator_does(module: Any, executable: Any, engine: str) -> None:
    check(module, relayvm.VirtualMachine(executable, engine=engine).invoke, NAMES)


def test_executables_keep_them(module: Any, executable: Any, tmp_path: Path) -> None:
    executable.save(tmp_path / "stored.rvm")
    loaded = relayvm.load(tmp_path / "stored.rvm", native=True)
    check(module, relayvm.VirtualMachine(loaded).invoke, ["int4", "float8_e5m2"])


def test_programs_as_python_do_the_same(module: Any) -> None:
    names = ["uint4", "float8_e4m3fn"]
    kept = {n: f for n, f in module.functions.items() if n.endswith(tuple(names))}
    program = PythonProgram(module)
    check(module.with_functions(kept), lambda entry, *given: program.call(entry, given), names)


def test_literals_come_back_from_their_text() -> None:
    text = "fn () { (7i4, -8i4, 3u2, 1.5f8e4m3fn, -inff8e5m2, nanf8e5m2, 6f4e2m1fn) }"
    printed = str(relayvm.relay.parse_expr(text))
    assert all(literal in printed for literal in ("7i4", "-8i4", "3u2", "1.5f8e4m3fn", "6f4e2m1fn"))
    assert str(relayvm.relay.parse_expr(printed)) == printed


@pytest.mark.parametrize(
    ("expression", "code"),
    [
        ("8i4", "bad-literal"),
        ("500f8e4m3fn", "bad-literal"),
        ("add(1i4, 1i4)", "dtype-mismatch"),
        ("nn.relu(ones(shape=(2,), dtype='float8_e5m2'))", "dtype-mismatch"),
        ("sum(ones(shape=(2,), dtype='int4'))", "dtype-mismatch"),
        ("cumsum(ones(shape=(2,)), dtype='int4')", "dtype-mismatch"),
    ],
)
def test_nothing_computes_in_them(expression: str, code: str) -> None:
    text = expression.replace("'", '"')
    with pytest.raises(relayvm.RelayError) as caught:
        relayvm.compile(relayvm.parse(f"def @main() {{ {text} }}"))
    assert caught.value.code == code


def test_the_message_names_the_wider_dtype() -> None:
    with pytest.raises(relayvm.RelayError, match="got int4; `cast` it to int8"):
        relayvm.compile(relayvm.parse("def @main(%x: int4) { add(%x, %x) }"))


def test_numbers_and_lists_are_arguments_where_they_fit(executable: Any) -> None:
    machine = relayvm.VirtualMachine(executable)
    assert machine.invoke("branch_int4", -8, True) == -8
    assert machine.invoke("branch_float4_e2m1fn", 1.5, True) == 1.5
    assert machine.invoke("pass_uint2", [[0, 1, 3]]).tolist() == [[0, 1, 3]]
    for wrong in (8, -9, 1.5):
        with pytest.raises(relayvm.RelayError, match="`int4`"):
            machine.invoke("branch_int4", wrong, True)


def test_constants_are_kept_beside_texts(tmp_path: Path) -> None:
    arrays = {d.name: values_of(d, (2, 3)) for d in STORED}
    write_tensors(tmp_path / "all.safetensors", arrays)
    found = read_tensors(tmp_path / "all.safetensors")
    assert all(found[n].tobytes() == arrays[n].tobytes() for n in arrays)
    assert all(found[n].dtype == arrays[n].dtype for n in arrays)


WITHOUT = """
import sys
sys.modules["ml_dtypes"] = None
import numpy as np, relayvm
text = '''
def @inside(%x: Tensor[(4), float32]) {
  let %q = cast(%x, dtype="float8_e4m3fn");
  let %i = transpose(stack((cast(%x, dtype="int4"), 3i4 + 0i4), axis=0));
  cast(reverse(%q, axis=0), dtype="float32")
}
def @outside(%x: int4) { %x }
'''.replace("3i4 + 0i4", 'full(3i4, shape=(4,))')
vm = relayvm.VirtualMachine(relayvm.compile(relayvm.parse(text)))
print(vm.invoke("inside", np.array([0.3, -500, 7.1, 1e-3], np.float32)).tolist())
try:
    vm.invoke("outside", 3)
except relayvm.RelayError as reason:
    print(str(reason).splitlines()[0])
"""


def test_programs_that_cast_at_their_ends_need_no_package() -> None:
    run = subprocess.run(
        [sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=True
    )
    numbers, refused = run.stdout.splitlines()
    assert numbers == "[0.001953125, 7.0, nan, 0.3125]"
    assert "arrays of `int4` need the package ml_dtypes" in refused


def test_tensors_of_pytorch_come_by_dlpack(executable: Any) -> None:
    torch = pytest.importorskip("torch")
    machine = relayvm.VirtualMachine(executable)
    tensor = torch.tensor([[1.5, -2, 448], [0, 1, 2]]).to(torch.float8_e4m3fn)
    given = machine.invoke("pass_float8_e4m3fn", tensor)
    assert given.view(np.uint8).tolist() == tensor.view(torch.uint8).tolist()
    back = torch.from_dlpack(relayvm.relay.ndarray.as_ndarray(given))
    assert back.dtype == torch.float8_e4m3fn


@pytest.mark.parametrize("alias", ALIASES)
def test_a_name_that_tvm_has_for_a_stored_dtype_is_read_as_ours(alias: str) -> None:
    text = f'def @main(%x: Tensor[(2), {alias}], %n: {alias}) {{ (cast(%x, dtype="{alias}"), %n) }}'
    module = relayvm.parse(text)
    ours = relayvm.parse(text.replace(alias, ALIASES[alias]))
    assert print_module(module) == print_module(ours)
    x, n = BY_NAME[alias].array([1.5, -2.0]), BY_NAME[alias].array(3.0)
    moved, number = relayvm.VirtualMachine(relayvm.compile(module)).run(x, n)
    assert np.array_equal(as_bytes(moved), as_bytes(x))
    assert np.array_equal(as_bytes(np.asarray(number)), as_bytes(n))
