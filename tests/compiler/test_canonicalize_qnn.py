"""Quantized operators written as operators on integers: the same bits, and none is left."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm
from relayvm.compiler.evaluate import Evaluator
from relayvm.compiler.passes import run_passes
from relayvm.ir.module import Module
from relayvm.ir.printer import print_module

SCALES = "%s, %z, %t, %o"
CALLS = {
    "requantize": "qnn.requantize(%x, %v, %w, %t, %o, axis=1)",
    "quantize": 'qnn.quantize(qnn.dequantize(%x, %s, %z), %t, %o, out_dtype="int16")',
    "add": f"qnn.add(%x, %x, {SCALES}, %t, %z)",
    "mul": f"qnn.mul(%x, %x, %v, %w, {SCALES}, lhs_axis=1)",
    "leaky_relu": f"qnn.leaky_relu(%x, {SCALES})",
    "softmax": f"qnn.softmax(%x, {SCALES}, axis=1)",
    "tanh": f"qnn.tanh(%x, {SCALES})",
    "concatenate": "qnn.concatenate((%x, %x), (%s, %t), (%z, %o), %s, %z, axis=1)",
    "dense": "qnn.dense(%x, %x, %z, %o, %s, %t)",
}


def program(call: str, scales: str = "") -> Module:
    text = f"""def @main(%x: Tensor[(3, 4), int8], %s: Tensor[(), float32], %z: Tensor[(), int32],
      %t: Tensor[(), float32], %o: Tensor[(), int32], %v: Tensor[(4), float32],
      %w: Tensor[(4), int32]) {{ {call} }}"""
    return run_passes(relayvm.parse(text), ["infer_types"])


def values() -> list[np.ndarray]:
    x = np.random.default_rng(2).integers(-128, 128, (3, 4)).astype(np.int8)
    numbers = (np.float32(0.3), np.int32(2), np.float32(0.07), np.int32(-5))
    vectors = (np.array([1, 0.2, 3, 0.4], np.float32), np.array([1, -1, 0, 9], np.int32))
    return [x, *(np.asarray(n) for n in numbers), *vectors]


@pytest.mark.parametrize("name", sorted(CALLS))
def test_the_canonical_form_has_the_bits_of_the_operator(name: str) -> None:
    module = program(CALLS[name])
    plain = run_passes(module, ["qnn_canonicalize", "infer_types"], verify=True)
    assert "qnn." not in print_module(plain)
    expected = Evaluator(module).call("main", values())
    assert np.array_equal(Evaluator(plain).call("main", values()), expected)


def test_compiled_forms_agree() -> None:
    module = program(f"({', '.join(CALLS.values())})")
    plain = run_passes(module, ["qnn_canonicalize", "infer_types"])
    first, second = (
        relayvm.VirtualMachine(relayvm.compile(m)).run(*values()) for m in (module, plain)
    )
    for a, b in zip(first, second, strict=True):
        assert np.array_equal(a, b)


def test_a_vector_of_unknown_size_is_left_to_the_operator_to_check() -> None:
    text = """def @main(%x: Tensor[(3, 4), int8], %v: Tensor[(?), float32], %z: Tensor[(), int32]) {
      qnn.dequantize(%x, %v, %z)
    }"""
    module = run_passes(relayvm.parse(text), ["infer_types"])
    assert run_passes(module, ["qnn_canonicalize"]).functions == module.functions


def test_effects_of_operands_come_first_and_once() -> None:
    text = """def @next(%r: ref(Tensor[(), float32])) {
      let %u = ref_write(%r, multiply(ref_read(%r), 2f));
      ref_read(%r)
    }
    def @main(%x: Tensor[(2), int8]) {
      let %r = ref(0.5f);
      let %y = qnn.requantize(%x, @next(%r), 0, @next(%r), 0, out_dtype="int32");
      (%y, ref_read(%r))
    }"""
    module = run_passes(relayvm.parse(text), ["infer_types"])
    plain = run_passes(module, ["qnn_canonicalize", "infer_types"], verify=True)
    assert "qnn." not in print_module(plain)
    result = Evaluator(plain).call("main", [np.array([4, 8], np.int8)])
    assert result[0].tolist() == [2, 4]
    assert result[1] == 2


def test_functions_of_eight_bits_become_tables() -> None:
    text = """def @main(%x: Tensor[(256), int8]) {
      (qnn.exp(%x, 0.05f, 3, 0.11f, -100), qnn.hardswish(%x, 0.05f, 3, 0.11f, -100))
    }"""
    module = run_passes(relayvm.parse(text), ["infer_types"])
    tables = run_passes(module, ["qnn_legalize", "infer_types"], verify=True)
    assert "qnn." not in print_module(tables)
    x = np.arange(-128, 128).astype(np.int8)
    for a, b in zip(Evaluator(module).call("main", [x]), Evaluator(tables).call("main", [x])):
        assert np.array_equal(a, b)


def test_wide_numbers_and_unknown_scales_keep_the_function() -> None:
    text = """def @main(%x: Tensor[(4), int16], %y: Tensor[(4), int8], %s: Tensor[(), float32]) {
      (qnn.exp(%x, 0.05f, 3, 0.11f, 0), qnn.exp(%y, %s, 3, 0.11f, 0))
    }"""
    module = run_passes(relayvm.parse(text), ["infer_types"])
    assert run_passes(module, ["qnn_legalize"]).functions == module.functions


@pytest.mark.parametrize("form", ["dense", "batch_matmul"])
@pytest.mark.parametrize("dtypes", [("int8", "int8"), ("uint8", "int8"), ("int8", "uint8")])
@pytest.mark.parametrize("zeros", [(0, 0), (3, 0), (0, -7), (128, 5)])
def test_products_of_bytes_are_those_without_zero_points(form, dtypes, zeros) -> None:
    rng = np.random.default_rng(5)
    first, second = ((0, 256) if d == "uint8" else (-128, 128) for d in dtypes)
    x = rng.integers(*first, (2, 5, 70)).astype(dtypes[0])
    w = rng.integers(*second, (2, 9, 70)).astype(dtypes[1])
    attrs = "transpose_b=True" if form == "batch_matmul" else "units=9"
    if form == "dense":
        x, w = x[0], w[0]
    text = (
        f"def @main(%x: Tensor[{x.shape}, {x.dtype}], %w: Tensor[{w.shape}, {w.dtype}]) {{"
        f" qnn.{form}(%x, %w, {zeros[0]}, {zeros[1]}, 0.5f, 0.25f, {attrs}) }}"
    )
    wide = x.astype(np.int64) - zeros[0], w.astype(np.int64) - zeros[1]
    expected = np.matmul(wide[0], np.swapaxes(wide[1], -1, -2)).astype(np.int32)
    for params in ({}, {"w": w}):
        exe = relayvm.compile(relayvm.parse(text), params=params)
        result = relayvm.VirtualMachine(exe).run(x) if params else None
        result = relayvm.VirtualMachine(exe).run(x, w) if result is None else result
        assert np.array_equal(np.asarray(result), expected)
        assert any("dot(" in kernel.nest for kernel in exe.program().kernels)
