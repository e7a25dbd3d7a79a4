"""Attention whose mask has a batch of `?`, where a reshape splits the batch of the scores."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest

import relayvm

HEADS, LENGTH, WIDTH = 4, 9, 8
SUM = ("`add`", "do not broadcast")
PRODUCT = ("`nn.batch_matmul`", "batches of `tensor_a` and `tensor_b`")
ADDED, CHOSEN = "{0} + %m", "where(%m, {0}, -100f)"
COMPUTED = '{0} + (1f - cast(%m, dtype="float32")) * -10f'
DTYPES = {ADDED: "float32", CHOSEN: "bool", COMPUTED: "int64"}

# What is known of the batch and of the length; the mask.
SIZES = list(
    itertools.product(("1", "2", "b"), ("9", "t", "?"), ("?, 1, 1, ?", "?, 1, ?, ?", "?, ?, ?, ?"))
)


def attention(
    batch: str, length: str, mask: str, use: str, heads: int = HEADS, width: int = WIDTH
) -> str:
    names = ", ".join(name for name in (batch, length) if name.isalpha())
    rows = str(int(batch) * heads) if batch.isdigit() else f"{batch}*{heads}"
    three = ", ".join(f"%{x}: Tensor[({rows}, {length}, {width}), float32]" for x in "qkv")
    scores = f"reshape(nn.batch_matmul(%q, %k, transpose_b=True), newshape=[-4, -1, {heads}, -2])"
    weights = f"nn.softmax({use.format(f'{scores} * 0.125f')})"
    return (
        f"def @main{f'[{names}]' if names else ''}({three}, %m: Tensor[({mask}), {DTYPES[use]}]) {{"
        f" nn.batch_matmul(reshape({weights}, newshape=[-3, -2]), %v, transpose_b=False) }}"
    )


def operands(batch: int, sizes: tuple[int, ...], use: str) -> list[np.ndarray]:
    rng = np.random.default_rng(7)
    shape = (batch * HEADS, LENGTH, WIDTH)
    three = [rng.standard_normal(shape).astype(np.float32) for _ in "qkv"]
    values = rng.standard_normal(sizes).astype(np.float32)
    if use == CHOSEN:
        return [*three, values > -1]
    return [*three, (values > 0).astype(np.int64) if use == COMPUTED else values]


def expected(q: np.ndarray, k: np.ndarray, v: np.ndarray, m: np.ndarray, use: str) -> np.ndarray:
    scores = q.astype(np.float64) @ k.astype(np.float64).transpose(0, 2, 1) * 0.125
    scores = scores.reshape(-1, HEADS, LENGTH, LENGTH)
    if use == CHOSEN:
        scores = np.where(m, scores, -100.0)
    else:
        scores = scores + ((1.0 - m) * -10.0 if use == COMPUTED else m)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    return np.asarray(weights.reshape(-1, LENGTH, LENGTH) @ v)


def masks(batch: str, mask: str) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield batches of the scores, and masks of their sizes and with 1 for some or all `?`."""
    for size in [int(batch)] if batch.isdigit() else [1, 3]:
        full = (size, HEADS, LENGTH, LENGTH)
        for ones in ((), (0,), (1,), (2,), (3,), (0, 2), (0, 1, 2, 3)):
            parts = enumerate(zip(mask.split(", "), full))
            yield size, tuple(n if p == "?" and k not in ones else 1 for k, (p, n) in parts)


def compare(sizes: tuple[str, str, str], use: str, level: int) -> None:
    exe = relayvm.compile(relayvm.parse(attention(*sizes, use)), opt_level=level)
    assert level < 2 or len(exe.program().kernels) == 1
    for engine in ("interpreter", "jit"):
        vm = relayvm.VirtualMachine(exe, engine=engine)
        for batch, shape in masks(sizes[0], sizes[2]):
            args = operands(batch, shape, use)
            result = np.asarray(vm.run(*args))
            np.testing.assert_allclose(result, expected(*args, use), rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("batch", ["1", "b"])
def test_attention_with_a_batch_of_masks_is_one_kernel(batch: str) -> None:
    compare((batch, "t", "?, 1, 1, ?"), ADDED, 3)


@pytest.mark.slow
@pytest.mark.parametrize("use", [ADDED, CHOSEN, COMPUTED], ids=["added", "chosen", "computed"])
@pytest.mark.parametrize("sizes", SIZES, ids=" of ".join)
def test_attention_with_any_mask_of_four_axes_is_one_kernel(
    sizes: tuple[str, str, str], use: str
) -> None:
    compare(sizes, use, 3)


@pytest.mark.slow
@pytest.mark.parametrize("level", [0, 1, 2, 4])
@pytest.mark.parametrize("batch", ["1", "b"])
def test_attention_with_a_batch_of_masks_is_the_same_at_all_levels(batch: str, level: int) -> None:
    for use in (ADDED, CHOSEN):
        compare((batch, "?", "?, ?, ?, ?"), use, level)


@pytest.mark.slow
@pytest.mark.parametrize("mask", ["?, 1, 1, ?", "?, ?, ?, ?"])
def test_attention_of_one_tensor_of_open_sizes_is_one_kernel(mask: str) -> None:
    """Behind the layers of queries, keys and values, which are a kernel of their own."""
    of = [
        f"reshape(transpose(reshape(nn.dense(%x, %w{k}), newshape=[0, 0, 4, 8]), "
        "axes=[0, 2, 1, 3]), newshape=[-3, -2])"
        for k in range(3)
    ]
    scores = f"nn.batch_matmul({of[0]}, {of[1]}, transpose_b=True) * 0.125f"
    scores = f"reshape({scores}, newshape=[-4, -1, 4, -2]) + %m"
    weights = f"reshape(nn.softmax({scores}), newshape=[-3, -2])"
    layers = ", ".join(f"%w{k}: Tensor[(32, 32), float32]" for k in range(3))
    exe = relayvm.compile(
        relayvm.parse(
            f"def @main(%x: Tensor[(?, ?, 32), float32], {layers}, %m: Tensor[({mask}), float32]) "
            f"{{ nn.batch_matmul({weights}, {of[2]}, transpose_b=False) }}"
        )
    )
    assert len(exe.program().kernels) == 2
    vm = relayvm.VirtualMachine(exe)
    rng = np.random.default_rng(2)
    three = [rng.standard_normal((32, 32)).astype(np.float32) / 8 for _ in range(3)]
    for batch, shape in masks("b", mask):
        x = rng.standard_normal((batch, LENGTH, 32)).astype(np.float32)
        m = rng.standard_normal(shape).astype(np.float32)
        q, k, v = (
            (x @ w.T).reshape(-1, LENGTH, 4, 8).transpose(0, 2, 1, 3).reshape(-1, LENGTH, 8)
            for w in three
        )
        result = np.asarray(vm.run(x, *three, m))
        np.testing.assert_allclose(result, expected(q, k, v, m, ADDED), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("level", [0, 3])
@pytest.mark.parametrize(
    ("sizes", "batch", "shape", "told"),
    [
        (("b", "t", "?, 1, 1, ?"), 2, (3, 1, 1, 9), (*SUM, "axis 0", ": 2 and 3")),
        (("b", "t", "?, 1, 1, ?"), 2, (0, 1, 1, 9), (*SUM, "axis 0", ": 2 and 0")),
        (("b", "t", "?, 1, 1, ?"), 2, (2, 1, 1, 8), (*SUM, "axis 3", ": 9 and 8")),
        # The sum takes it; but there are not so many values.
        (("b", "t", "?, 1, 1, ?"), 1, (2, 1, 1, 9), (*PRODUCT, ": 8 and 4")),
        (("b", "t", "?, 1, 1, ?"), 1, (0, 1, 1, 9), (*PRODUCT, ": 0 and 4")),
        (("1", "9", "?, 1, 1, ?"), 1, (2, 1, 1, 9), (*PRODUCT, ": 8 and 4")),
        (("1", "9", "?, 1, 1, ?"), 1, (0, 1, 1, 9), (*PRODUCT, ": 0 and 4")),
    ],
)
def test_masks_of_another_batch_are_told_by_the_operator_that_was_written(
    sizes: tuple[str, str, str],
    batch: int,
    shape: tuple[int, ...],
    told: tuple[str, ...],
    level: int,
) -> None:
    exe = relayvm.compile(relayvm.parse(attention(*sizes, ADDED)), opt_level=level)
    for engine in ("interpreter", "jit"):
        with pytest.raises(relayvm.RelayError) as caught:
            relayvm.VirtualMachine(exe, engine=engine).run(*operands(batch, shape, ADDED))
        assert caught.value.code == "run-time-shape"
        assert all(part in str(caught.value) for part in told)
        assert "`broadcast_to`" not in str(caught.value)


@pytest.mark.parametrize("level", [0, 3])
def test_scores_of_other_batches_than_the_values_are_told(level: int) -> None:
    """Where the batches of scores and mask are 1, the sum is not as many as the values."""
    text = attention("b", "t", "?, 1, 1, ?", ADDED).replace("%v: Tensor[(b*4", "%v: Tensor[(c*4")
    text = text.replace("[b, t]", "[b, c, t]")
    vm = relayvm.VirtualMachine(relayvm.compile(relayvm.parse(text), opt_level=level))
    for batches, masks in (((3, 3), 3), ((3, 3), 1), ((1, 3), 3)):
        q, k, _, m = operands(batches[0], (masks, 1, 1, LENGTH), ADDED)
        v = operands(batches[1], (1, 1, 1, 1), ADDED)[2]
        wanted = expected(q, k, v, m, ADDED)
        np.testing.assert_allclose(np.asarray(vm.run(q, k, v, m)), wanted, rtol=2e-5, atol=2e-6)
    for batches, masks in (((1, 3), 1), ((3, 1), 3), ((3, 1), 1)):
        q, k, _, m = operands(batches[0], (masks, 1, 1, LENGTH), ADDED)
        v = operands(batches[1], (1, 1, 1, 1), ADDED)[2]
        with pytest.raises(relayvm.RelayError):
            vm.run(q, k, v, m)


@pytest.mark.slow
@pytest.mark.parametrize("batch", ["1", "b"])
@pytest.mark.parametrize("length", ["2048", "?"])
@pytest.mark.parametrize("mask", ["?, 1, 1, ?", "?, ?, ?, ?"])
def test_attention_with_a_batch_of_masks_takes_little_memory(
    batch: str, length: str, mask: str
) -> None:
    text = attention(batch, length, mask, ADDED, heads=12, width=64)
    vm = relayvm.VirtualMachine(relayvm.compile(relayvm.parse(text)))
    args = [np.ones((12, 2048, 64), np.float32)] * 3
    full = (1, 12, 2048, 2048)
    shape = [n if p == "?" else 1 for p, n in zip(mask.split(", "), full)]
    before = vm.stats()["peak_bytes"]
    result = vm.run(*args, np.ones(shape, np.float32))
    assert vm.stats()["peak_bytes"] - before - result.nbytes < 3 << 20
