"""Layouts of constant weights: what the pass writes, and that programs give the same numbers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import relayvm
from relayvm.compiler.api import bind_params
from relayvm.compiler.passes import run_passes
from relayvm.ir.expr import Attrs, Call, Constant
from relayvm.ir.visit import post_order


def laid_out(text, params=None, dots="mixed"):
    """Return the operators of `main` after the pass, and its constants."""
    module = bind_params(relayvm.parse(text), params or {})
    module = replace(module, attrs=Attrs(module.attrs, dots=dots))
    module = run_passes(module, ["infer_types", "fold_constants", "lay_out_weights"])
    order = list(post_order(module.functions["main"].body))
    calls = [node for node in order if isinstance(node, Call)]
    return calls, [node for node in order if isinstance(node, Constant)]


def names(calls):
    return [call.op.name for call in calls]


def weights(shape, dtype="int8", seed=0):
    rng = np.random.default_rng(seed)
    if dtype == "float32":
        return rng.standard_normal(shape).astype(dtype)
    least = 0 if dtype == "uint8" else -128
    return rng.integers(least, least + 256, shape).astype(dtype)


def dense(data, weight, shape, op="nn.dense", k=70):
    return (
        f"def @main(%x: Tensor[(5, {k}), {data}], %w: Tensor[{shape}, {weight}]) "
        f'{{ {op}(%x, %w, out_dtype="int32") }}'
    )


@pytest.mark.parametrize(
    ("data", "weight", "expected"),
    [
        ("uint8", "int8", ["nn.contrib_dense_pack"]),
        ("int8", "uint8", ["nn.contrib_dense_pack"]),
        ("int8", "int8", ["reinterpret", "bitwise_xor", "nn.contrib_dense_pack", "subtract"]),
        ("uint8", "uint8", ["nn.contrib_dense_pack", "cast", "sum", "multiply", "add"]),
    ],
)
def test_bytes_are_packed_where_their_signs_allow_it(data, weight, expected):
    text = dense(data, weight, (33, 70))
    w, x = weights((33, 70), weight), weights((5, 70), data, seed=1)
    calls, constants = laid_out(text, {"w": w})
    assert names(calls) == expected
    assert [c.data.shape for c in constants if c.data.ndim == 4] == [(3, 18, 16, 4)]
    vm = relayvm.VirtualMachine(relayvm.compile(relayvm.parse(text), params={"w": w}))
    assert np.array_equal(vm.run(x), x.astype(np.int32) @ w.T.astype(np.int32))


def test_a_matrix_of_bytes_by_columns_is_packed_too():
    text = dense("uint8", "int8", (70, 33), "nn.matmul")
    w, x = weights((70, 33)), weights((5, 70), "uint8", seed=1)
    calls, _ = laid_out(text, {"w": w})
    assert names(calls) == ["nn.contrib_dense_pack"]
    vm = relayvm.VirtualMachine(relayvm.compile(relayvm.parse(text), params={"w": w}))
    assert np.array_equal(vm.run(x), x.astype(np.int32) @ w.astype(np.int32))


def test_bytes_that_were_widened_are_packed_as_bytes():
    """The cast of the weight is evaluated before, which makes it four times as large."""
    text = """
    def @main(%x: Tensor[(5, 70), int8], %w: Tensor[(33, 70), int8]) {
      nn.dense(cast(%x, dtype="int32"), cast(%w, dtype="int32"))
    }
    """
    w, x = weights((33, 70)), weights((5, 70), seed=1)
    calls, constants = laid_out(text, {"w": w})
    assert "nn.contrib_dense_pack" in names(calls)
    assert {str(c.data.dtype) for c in constants if c.data.ndim == 4} == {"int8"}
    vm = relayvm.VirtualMachine(relayvm.compile(relayvm.parse(text), params={"w": w}))
    assert np.array_equal(vm.run(x), x.astype(np.int32) @ w.T.astype(np.int32))


def test_numbers_that_are_no_bytes_stay_as_they_are():
    text = """
    def @main(%x: Tensor[(5, 70), int8], %w: Tensor[(33, 70), int32]) {
      nn.dense(cast(%x, dtype="int32"), %w)
    }
    """
    w = np.full((33, 70), 128, np.int32)
    assert names(laid_out(text, {"w": w})[0]) == ["cast", "nn.dense"]


@pytest.mark.parametrize("dots", ["", "pairs", "same"])
def test_packs_are_for_targets_that_sum_products_of_mixed_bytes(dots):
    calls, _ = laid_out(dense("uint8", "int8", (33, 70)), {"w": weights((33, 70))}, dots)
    assert names(calls) == ["nn.dense"]


def test_weights_that_are_no_constants_keep_their_layout():
    assert names(laid_out(dense("uint8", "int8", (33, 70)))[0]) == ["nn.dense"]
    text = "def @main(%x: Tensor[(5, 70), float32], %w: Tensor[(70, 33), float32]) {{ {} }}"
    (call,) = laid_out(text.format("nn.matmul(%x, %w)"))[0]
    assert not call.attrs.get("transpose_b")


@pytest.mark.parametrize(
    ("text", "shape", "expected"),
    [
        ("def @main(%x: Tensor[(5, 70), float32], %w: Tensor[(70, 33), float32]) "
         "{ nn.matmul(%x, %w) }", (70, 33), (33, 70)),
        ("def @main(%x: Tensor[(2, 5, 70), float32], %w: Tensor[(2, 70, 33), float32]) "
         "{ nn.batch_matmul(%x, %w) }", (2, 70, 33), (2, 33, 70)),
        ("def @main(%x: Tensor[(5, 20), float32], %w: Tensor[(20, 33), float32]) "
         "{ nn.matmul(%x, %w) }", (20, 33), None),
    ],
    ids=["matmul", "batch", "short"],
)  # fmt: skip
def test_matrices_are_transposed_where_sums_are_long(text, shape, expected):
    w = weights(shape, "float32")
    (call,), (constant,) = laid_out(text, {"w": w})
    assert bool(call.attrs.get("transpose_b")) == (expected is not None)
    assert constant.data.shape == (expected or shape)
    x = weights((*shape[:-2], 5, shape[-2]), "float32", seed=1)
    module = relayvm.parse(text)
    fast = relayvm.VirtualMachine(relayvm.compile(module, params={"w": w})).run(x)
    plain = relayvm.VirtualMachine(relayvm.compile(module)).run(x, w)
    assert fast.tobytes() == plain.tobytes()


def test_a_weight_that_is_used_twice_is_laid_out_once():
    text = """
    def @main(%x: Tensor[(5, 70), float32], %y: Tensor[(5, 70), float32],
              %w: Tensor[(70, 33), float32]) {
      nn.matmul(%x, %w) + nn.matmul(%y, %w)
    }
    """
    assert len(laid_out(text, {"w": weights((70, 33), "float32")})[1]) == 1


def test_bytes_moved_back_and_forth_are_multiplied_as_they_were():
    text = """
    def @main(%x: Tensor[(5, 70), uint8], %w: Tensor[(33, 70), int8]) {
      let %moved = bitwise_xor(reinterpret(%x, dtype="int8"), -128i8);
      nn.dense(%moved, %w, out_dtype="int32")
    }
    """
    w, x = weights((33, 70)), weights((5, 70), "uint8", seed=1)
    product = next(c for c in laid_out(text, {"w": w})[0] if c.op.name == "nn.contrib_dense_pack")
    assert str(product.args[0].checked_type.dtype) == "uint8"
    assert not isinstance(product.args[0], Call)
    vm = relayvm.VirtualMachine(relayvm.compile(relayvm.parse(text), params={"w": w}))
    assert np.array_equal(vm.run(x), (x.astype(np.int32) - 128) @ w.T.astype(np.int32))
