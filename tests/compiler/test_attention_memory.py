"""Attention of any length is one kernel, and takes little memory besides its result."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm
from relayvm.base.dims import dim_value
from relayvm.ir.types import TensorType

HEADS, LENGTH, WIDTH = 12, 2048, 64
MOST_BYTES = 3 << 20  # of which 1 MiB is what the heap rounds the result up to

SCORES = "nn.batch_matmul(%q, %k, transpose_b=True) * 0.125f"
FOUR = f"reshape({SCORES}, newshape=[b, 12, t, t])"
KINDS = {
    "none": ("", "nn.softmax({0})"),
    "added to all heads": (", %m: Tensor[(t, t), float32]", "nn.softmax({0} + %m)"),
    "added to all rows": (", %m: Tensor[(1, 1, t), float32]", "nn.softmax({0} + %m)"),
    "added for each of a batch": (
        ", %m: Tensor[(b, 1, 1, t), float32]",
        "reshape(nn.softmax({1} + %m), newshape=[-1, t, t])",
    ),
    "added between reshapes": (
        ", %m: Tensor[(b, 1, 1, t), float32]",
        "nn.softmax(reshape({1} + %m, newshape=[-1, t, t]))",
    ),
    "chosen": (", %m: Tensor[(t, t), bool]", "nn.softmax(where(%m, {0}, -10000f))"),
    "chosen for each of a batch": (
        ", %m: Tensor[(b, 1, 1, t), bool]",
        "reshape(nn.softmax(where(%m, {1}, -10000f)), newshape=[-1, t, t])",
    ),
    "causal": (
        ", %i: Tensor[(t), int32]",
        "nn.softmax(where(expand_dims(%i, axis=1) >= expand_dims(%i, axis=0), {0}, -10000f))",
    ),
}


def attention(kind: str) -> str:
    mask, weights = KINDS[kind]
    three = ", ".join(f"%{x}: Tensor[(b*{HEADS}, t, {WIDTH}), float32]" for x in "qkv")
    weights = weights.format(SCORES, FOUR)
    return (
        f"def @main[b, t]({three}{mask}, %one: Tensor[(b), float32]) {{ "
        f"(nn.batch_matmul({weights}, %v, transpose_b=False), %one) }}"
    )


def arguments(module: relayvm.Module, length: int) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    result: list[np.ndarray] = []
    for param in module["main"].params:
        kind = param.type_annotation
        assert isinstance(kind, TensorType)
        known = {"b": 1, "t": length, f"b*{HEADS}": HEADS}
        shape = [known.get(str(d)) or int(str(d)) for d in kind.shape]
        values = rng.standard_normal(shape)
        if kind.dtype.is_bool:
            result.append(values > 0)
        elif kind.dtype.is_integer:
            result.append(np.arange(length, dtype=np.int32))
        else:
            result.append(values.astype(np.float32))
    return result


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_attention_of_2048_positions_takes_less_than_3_mib(kind: str) -> None:
    module = relayvm.parse(attention(kind))
    exe = relayvm.compile(module)
    assert len(exe.program().kernels) == 1
    args = arguments(module, LENGTH)
    for threads in (1, 2) if kind == "added to all heads" else (2,):
        vm = relayvm.VirtualMachine(exe, num_threads=threads)
        before = vm.stats()["peak_bytes"]
        result = vm.run(*args)[0]
        assert result.shape == (HEADS, LENGTH, WIDTH)
        assert vm.stats()["peak_bytes"] - before - result.nbytes < MOST_BYTES


def test_a_thread_more_takes_less_than_a_fifth_of_a_mib_more() -> None:
    kernel = relayvm.compile(relayvm.parse(attention("added to all heads"))).program().kernels[0]
    signature = kernel.signature
    sizes = {v: 1 if v.name == "b" else LENGTH for v in signature.dim_vars}
    assert dim_value(signature.scratch_bytes, sizes) == 0
    assert dim_value(signature.private_bytes, sizes) <= 160 << 10
