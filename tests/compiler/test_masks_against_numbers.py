"""Attention and elementwise kernels where `?` is broadcast to sizes that are numbers, and attention
whose heads have a size that is `?`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import relayvm

HEADS, LENGTH, WIDTH = 3, 20, 8
ADDED, CHOSEN = "{0} + %m", "where(%m, {0}, -100f)"
COMPUTED = '{0} + (1f - cast(%m, dtype="float32")) * -10f'
OF_HEADS = "reshape({0}, newshape=[1, 3, 20, 20])"

# Sizes of queries, keys and values; of the mask, and how it is used; the shape of the scores.
CASES = [
    ("3, 20, 8", "?, ?", ADDED, ""),
    ("3, 20, 8", "?, ?", CHOSEN, ""),
    ("3, 20, 8", "?, ?", COMPUTED, ""),
    ("3, 20, 8", "?, ?, ?", ADDED, ""),
    ("3, 20, 8", "1, ?, ?", ADDED, ""),
    ("3, 20, 8", "3, 1, ?", ADDED, ""),
    ("3, 20, 8", "?", ADDED, ""),
    ("3, 20, 8", "20, ?", ADDED, ""),
    ("?, 20, 8", "?, ?", ADDED, ""),
    ("?, 20, 8", "?, ?, ?", CHOSEN, ""),
    ("3, 20, 8", "?, ?", ADDED, OF_HEADS),
    ("3, 20, 8", "1, ?, ?, ?", CHOSEN, OF_HEADS),
    ("?, ?, ?", "", "{0}", ""),
    ("?, ?, ?", "?, ?", ADDED, ""),
    ("?, ?, ?", "?, ?, ?", CHOSEN, ""),
    ("3, 20, ?", "?, ?", ADDED, ""),
]


def attention(sizes: str, mask: str, use: str, heads: str) -> str:
    three = ", ".join(f"%{x}: Tensor[({sizes}), float32]" for x in "qkv")
    dtype = {CHOSEN: "bool", COMPUTED: "int64"}.get(use, "float32")
    scores = "nn.batch_matmul(%q, %k, transpose_b=True) * 0.125f"
    weights = f"nn.softmax({use.format(heads.format(scores) if heads else scores)})"
    weights = f"reshape({weights}, newshape=[-3, -2])" if heads else weights
    operand = f", %m: Tensor[({mask}), {dtype}]" if mask else ""
    return f"def @main({three}{operand}) {{ nn.batch_matmul({weights}, %v, transpose_b=False) }}"


def masks(mask: str, use: str, full: Sequence[int]) -> list[np.ndarray]:
    """Return masks of a declared type: of the scores' sizes, and with 1 for some or all `?`."""
    sizes = mask.split(", ")
    full = [1, *full][4 - len(sizes) :]
    found = []
    for ones in ((), (-1,), (-2,), (-3,), (-1, -2, -3)):
        places = {len(sizes) + k for k in ones}
        shape = [
            (1 if k in places else d) if s == "?" else int(s)
            for k, (s, d) in enumerate(zip(sizes, full))
        ]
        values = np.random.default_rng(len(found)).standard_normal(shape)
        if use == CHOSEN:
            found.append(values > -1)
        elif use == COMPUTED:
            found.append((values > 0).astype(np.int64))
        else:
            found.append(values.astype(np.float32))
    return found


def expected(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, use: str, m: np.ndarray | None
) -> np.ndarray:
    scores = q.astype(np.float64) @ k.astype(np.float64).transpose(0, 2, 1) * 0.125
    if m is not None:
        m = m[0] if m.ndim == 4 else m
        if use == CHOSEN:
            scores = np.where(m, scores, -100.0)
        else:
            scores = scores + ((1.0 - m) * -10.0 if use == COMPUTED else m)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return np.asarray(weights / weights.sum(-1, keepdims=True) @ v)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: " of ".join(map(str, case[:2])))
def test_attention_with_a_mask_against_numbers_is_one_kernel(case: tuple[str, ...]) -> None:
    _, mask, use, _ = case
    exe = relayvm.compile(relayvm.parse(attention(*case)))
    assert len(exe.program().kernels) == 1
    rng = np.random.default_rng(5)
    shape = (HEADS, LENGTH, WIDTH)
    three = [rng.standard_normal(shape).astype(np.float32) for _ in "qkv"]
    for engine in ("interpreter", "jit"):
        vm = relayvm.VirtualMachine(exe, engine=engine)
        for m in masks(mask, use, (HEADS, LENGTH, LENGTH)) if mask else [None]:
            result = np.asarray(vm.run(*three, *([] if m is None else [m])))
            np.testing.assert_allclose(
                result, expected(*three, use, m), rtol=2e-5, atol=2e-6, err_msg=engine
            )


def test_masks_that_do_not_fit_numbers_are_told_by_both_sizes() -> None:
    exe = relayvm.compile(relayvm.parse(attention("3, 20, 8", "?, ?", COMPUTED, "")))
    vm = relayvm.VirtualMachine(exe)
    three = [np.ones((3, 20, 8), np.float32)] * 3
    for shape, size in (((20, 7), 7), ((7, 20), 7), ((0, 20), 0), ((2, 1), 2), ((21, 20), 21)):
        with pytest.raises(relayvm.RelayError, match=f"do not broadcast .*: 20 and {size}") as e:
            vm.run(*three, np.zeros(shape, np.int64))
        assert e.value.code == "run-time-shape"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sizes", "mask"),
    [("12, 2048, 64", "?, ?"), ("?, 2048, 64", "?, ?, ?"), ("?, ?, ?", ""), ("?, ?, ?", "?, ?")],
)
def test_attention_of_long_rows_takes_little_memory(sizes: str, mask: str) -> None:
    exe = relayvm.compile(relayvm.parse(attention(sizes, mask, ADDED if mask else "{0}", "")))
    vm = relayvm.VirtualMachine(exe)
    args = [np.ones((12, 2048, 64), np.float32)] * 3
    if mask:
        args.append(np.ones((12, 2048, 2048)[-1 - mask.count(",") :], np.float32))
    before = vm.stats()["peak_bytes"]
    result = vm.run(*args)
    assert vm.stats()["peak_bytes"] - before - result.nbytes < 3 << 20


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "bool"])
@pytest.mark.parametrize("size", [1, 2, 7, 16, 100])
def test_an_operand_of_open_sizes_is_broadcast_to_numbers(dtype: str, size: int) -> None:
    body = "where(%m, %x, %y)" if dtype == "bool" else "(%x + %m) * %y"
    of_x = "float32" if dtype == "bool" else dtype
    vm = relayvm.VirtualMachine(
        relayvm.compile(
            relayvm.parse(
                f"def @main(%x: Tensor[(5, {size}), {of_x}], %y: Tensor[(?), {of_x}], "
                f"%m: Tensor[(?, ?), {dtype}]) {{ {body} }}"
            )
        )
    )
    rng = np.random.default_rng(size)
    x = rng.integers(-3, 4, (5, size)).astype(of_x)
    for rows in (1, 5):
        for columns in {1, size}:
            y = rng.integers(-3, 4, (columns,)).astype(of_x)
            m = rng.integers(0, 2, (rows, size + 1 - columns if size > 1 else 1)).astype(dtype)
            wanted = np.where(m, x, y) if dtype == "bool" else (x + m) * y
            np.testing.assert_array_equal(np.asarray(vm.run(x, y, m)), wanted)
    if size > 2:
        with pytest.raises(relayvm.RelayError, match=f"{size} and 2|2 and {size}"):
            vm.run(x, x[0], np.ones((5, 2), dtype))
