"""Attention and layers are one kernel where what is added has unknown sizes of its own."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm
from relayvm.compiler.passes import run_passes

SCORES = "nn.batch_matmul(%q, %k, transpose_b=True) * 0.125f"
KINDS = {
    "added": ("Tensor[(?, ?), float32]", "nn.softmax({0} + %m)"),
    "added first": ("Tensor[(?, ?), float32]", "nn.softmax(%m + {0})"),
    "of one row": ("Tensor[(1, ?), float32]", "nn.softmax({0} + %m)"),
    "of rank 3": ("Tensor[(1, 1, ?), float32]", "nn.softmax({0} + %m)"),
    "chosen": ("Tensor[(?, ?), bool]", "nn.softmax(where(%m, {0}, -10000f))"),
    "made of numbers": (
        "Tensor[(?, ?), int64]",
        'nn.softmax({0} + (1f - cast(%m, dtype="float32")) * -10f)',
    ),
    "between reshapes": (
        "Tensor[(1, 1, ?, ?), float32]",
        "reshape(nn.softmax(reshape({0}, newshape=[-4, 1, 3, -2]) + %m), newshape=[-3, -2])",
    ),
    "behind a scaled operand": (
        "Tensor[(?, ?), float32]",
        "nn.softmax(nn.batch_matmul(%q * 0.125f, %k, transpose_b=True) + %m)",
    ),
    "of turned keys": (
        "Tensor[(?, ?), float32]",
        "nn.softmax(nn.batch_matmul(%q, transpose(%k, axes=[0, 2, 1]), transpose_b=False)"
        " * 0.125f + %m)",
    ),
}


def attention(kind: str, size: str, heads: int = 3, width: int = 8) -> str:
    mask, weights = KINDS[kind]
    head = "[t]" if size == "t" else ""
    three = ", ".join(f"%{x}: Tensor[({heads}, {size}, {width}), float32]" for x in "qkv")
    weights = weights.format(SCORES)
    return (
        f"def @main{head}({three}, %m: {mask}) "
        f"{{ nn.batch_matmul({weights}, %v, transpose_b=False) }}"
    )


def machine(text: str) -> tuple[relayvm.VirtualMachine, int]:
    exe = relayvm.compile(relayvm.parse(text))
    return relayvm.VirtualMachine(exe), len(exe.program().kernels)


def operands(t: int, u: int, w: int | None = None) -> list[np.ndarray]:
    rng = np.random.default_rng(t * 100 + u)
    return [
        rng.standard_normal((3, n, 8)).astype(np.float32) for n in (t, u, u if w is None else w)
    ]


def mask_of(kind: str, shape: tuple[int, ...]) -> np.ndarray:
    values = np.random.default_rng(1).standard_normal(shape)
    if kind == "chosen":
        return np.asarray(values > -0.5)
    return (values > 0).astype(np.int64) if kind == "made of numbers" else values.astype(np.float32)


def expected(kind: str, q: np.ndarray, k: np.ndarray, v: np.ndarray, m: np.ndarray) -> np.ndarray:
    scores = q.astype(np.float64) @ k.astype(np.float64).transpose(0, 2, 1) * 0.125
    m = m.reshape(m.shape[-2:]) if m.ndim == 4 else m
    if kind == "chosen":
        scores = np.where(m, scores, -10000.0)
    else:
        scores = scores + ((1.0 - m) * -10.0 if kind == "made of numbers" else m)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v  # type: ignore[no-any-return]


# Rows of the queries, keys and values; the mask's size in each axis.
SIZES = [(5, 7, 7, 5, 7), (5, 7, 7, 1, 7), (5, 7, 7, 5, 1), (1, 7, 7, 6, 7), (5, 1, 6, 5, 6)]
SIZES += [(1, 1, 1, 1, 1), (1, 1, 20, 9, 20), (37, 18, 18, 37, 18), (37, 18, 18, 1, 1)]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_attention_with_a_mask_of_open_sizes_is_one_kernel(kind: str) -> None:
    vm, kernels = machine(attention(kind, "?"))
    assert kernels == 1
    for t, u, w, rows, columns in SIZES:
        shape = (rows, columns)
        if "(1, ?)" in KINDS[kind][0] or "(1, 1, ?)" in KINDS[kind][0]:
            shape = (1, columns)
        m = mask_of(kind, shape)
        m = m.reshape((1,) * (KINDS[kind][0].count(",") - 2) + shape)
        args = [*operands(t, u, w), m]
        result = np.asarray(vm.run(*args))
        wanted = expected(kind, *args)
        assert result.shape == wanted.shape, (t, u, w, shape)
        np.testing.assert_allclose(result, wanted, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("kind", ["added", "chosen"])
def test_open_sizes_against_one_symbol_are_one_kernel(kind: str) -> None:
    vm, kernels = machine(attention(kind, "t"))
    assert kernels == 1
    for t, rows, columns in ((6, 6, 6), (6, 1, 6), (6, 6, 1), (1, 1, 1), (1, 4, 1), (33, 33, 33)):
        args = [*operands(t, t), mask_of(kind, (rows, columns))]
        np.testing.assert_allclose(
            np.asarray(vm.run(*args)), expected(kind, *args), rtol=2e-5, atol=2e-6
        )


def test_sizes_that_do_not_fit_are_told_by_the_rule_of_the_operator() -> None:
    vm, _ = machine(attention("added", "?"))
    for t, u, w, rows, columns, reason in (
        (5, 7, 7, 3, 7, "`add`: axis 1 of the shapes do not broadcast"),
        (5, 7, 7, 0, 7, "`add`: axis 1 of the shapes do not broadcast"),
        (5, 7, 7, 5, 6, "`add`: axis 2 of the shapes do not broadcast"),
        (5, 7, 8, 5, 7, "contracted axes of `tensor_a` and `tensor_b`: 7 and 8"),
        (5, 7, 7, 5, 7, ""),
    ):
        args = [*operands(t, u, w), mask_of("added", (rows, columns))]
        if not reason:
            assert np.asarray(vm.run(*args)).shape == (3, t, 8)
            continue
        with pytest.raises(relayvm.RelayError) as caught:
            vm.run(*args)
        assert caught.value.code == "run-time-shape"
        assert reason in str(caught.value)


def test_bits_are_those_of_a_mask_with_named_sizes() -> None:
    named = attention("added", "t").replace("(?, ?)", "(t, t)")
    args = [*operands(37, 37), mask_of("added", (37, 37))]
    first = np.asarray(machine(named)[0].run(*args))
    second = np.asarray(machine(attention("added", "?"))[0].run(*args))
    assert first.tobytes() == second.tobytes()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["added", "made of numbers"])
def test_masks_of_open_sizes_take_little_memory(kind: str) -> None:
    length = 2048
    vm, kernels = machine(attention(kind, "?", heads=12, width=64))
    assert kernels == 1
    args = [np.ones((12, length, 64), np.float32)] * 3
    mask = mask_of(kind, (length, length))
    before = vm.stats()["peak_bytes"]
    result = vm.run(*args, mask)
    assert vm.stats()["peak_bytes"] - before - result.nbytes < 3 << 20


def test_a_layer_and_its_rows_of_open_sizes_are_one_kernel() -> None:
    vm, kernels = machine(
        "def @main(%x: Tensor[(?, 16), float32], %y: Tensor[(?, 16), float32], "
        "%w: Tensor[(16, 16), float32], %b: Tensor[(?), float32], %g: Tensor[(16), float32]) "
        "{ nn.layer_norm(nn.dense(%x, %w) + %b + %y, %g, %b) }"
    )
    assert kernels == 1
    rng = np.random.default_rng(3)
    w, b, g = (rng.standard_normal(s).astype(np.float32) for s in ((16, 16), 16, 16))
    for n, m in ((9, 9), (1, 5), (7, 1), (1, 1), (0, 1)):
        x, y = (rng.standard_normal((rows, 16)).astype(np.float32) for rows in (n, m))
        z = x.astype(np.float64) @ w.T + b + y
        wanted = (z - z.mean(-1, keepdims=True)) / np.sqrt(z.var(-1, keepdims=True) + 1e-5) * g + b
        np.testing.assert_allclose(np.asarray(vm.run(x, y, w, b, g)), wanted, rtol=2e-4, atol=2e-5)


# What is known of the batch and the length, and the type of the mask.
OPEN_BATCHES = [
    ("?, ?", ""),
    ("?, ?", "?, ?"),
    ("?, ?", "?, ?, ?"),
    ("?, ?", "1, 1, ?"),
    ("3, ?", "5, ?"),
    ("3, ?", "5, 5"),
]
# Batches of the queries, keys and values.
BATCHES = [(3, 3, 3), (1, 3, 3), (1, 1, 3), (3, 3, 1), (1, 3, 1), (3, 1, 1), (1, 1, 1)]


@pytest.mark.slow
@pytest.mark.parametrize(("sizes", "mask"), OPEN_BATCHES)
def test_attention_of_open_batches_is_one_kernel(sizes: str, mask: str) -> None:
    three = ", ".join(f"%{x}: Tensor[({sizes}, 8), float32]" for x in "qkv")
    added = f", %m: Tensor[({mask}), float32]" if mask else ""
    weights = f"nn.softmax({SCORES}{' + %m' if mask else ''})"
    vm, kernels = machine(
        f"def @main({three}{added}) {{ nn.batch_matmul({weights}, %v, transpose_b=False) }}"
    )
    assert kernels == 1
    rng = np.random.default_rng(len(sizes + mask))
    for batches in BATCHES if sizes.startswith("?") else [(3, 3, 3)]:
        q, k, v = (rng.standard_normal((b, 5, 8)).astype(np.float32) for b in batches)
        m = rng.standard_normal({2: (5, 5), 3: (3, 5, 5)}.get(mask.count(",") + 1, (5, 5)))
        m = m[:, :1] if mask == "1, 1, ?" else m
        m = m[:1].astype(np.float32) if mask == "1, 1, ?" else m.astype(np.float32)
        args = [q, k, v, *([m] if mask else [])]
        wanted = expected("added", q, k, v, m if mask else np.zeros((5, 5), np.float32))
        result = np.asarray(vm.run(*args))
        assert result.shape == wanted.shape
        np.testing.assert_allclose(result, wanted, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("level", [0, 1])
def test_sizes_without_names_stay_as_they_are(level: int) -> None:
    text = (
        "def @main(%q: Tensor[(?, 31, 3), float32], %k: Tensor[(3, ?, 3), float32], "
        "%v: Tensor[(3, ?, 5), float32]) { nn.batch_matmul(nn.softmax(nn.batch_matmul("
        "%q, %k, transpose_b=True)), %v, transpose_b=False) }"
    )
    vm = relayvm.VirtualMachine(relayvm.compile(relayvm.parse(text), opt_level=level))
    rng = np.random.default_rng(4)
    for batch in (1, 3):
        q, k, v = (
            rng.standard_normal(s).astype(np.float32)
            for s in ((batch, 31, 3), (3, 7, 3), (3, 7, 5))
        )
        zero = np.zeros((31, 7), np.float32)
        wanted = expected("added", q, k * np.float32(8), v, zero)
        np.testing.assert_allclose(np.asarray(vm.run(q, k, v)), wanted, rtol=2e-5, atol=2e-6)


def test_batches_that_do_not_fit_are_told_by_their_sizes() -> None:
    three = ", ".join(f"%{x}: Tensor[(?, ?, 8), float32]" for x in "qkv")
    vm, _ = machine(
        f"def @main({three}, %m: Tensor[(?, ?, ?), float32]) "
        f"{{ nn.batch_matmul(nn.softmax({SCORES} + %m), %v, transpose_b=False) }}"
    )
    ones = [np.ones((b, 5, 8), np.float32) for b in (2, 3)]
    masks = [np.ones((b, 5, 5), np.float32) for b in (1, 3)]
    for q, k, v, m in (
        (ones[0], ones[1], ones[1], masks[0]),
        (ones[0], ones[0], ones[1], masks[0]),
        (ones[0], ones[0], ones[0], masks[1]),
    ):
        with pytest.raises(relayvm.RelayError) as caught:
            vm.run(q, k, v, m)
        assert caught.value.code == "run-time-shape"
        assert "do not broadcast in" in str(caught.value)
        assert ": 2 and 3" in str(caught.value) or ": 3 and 2" in str(caught.value)


@pytest.mark.parametrize("columns", [1, 3, 5, 7, 15, 16, 17])
def test_products_of_open_sizes_take_rows_of_a_known_size(columns: int) -> None:
    rng = np.random.default_rng(columns)
    layer = machine(
        "def @main(%q: Tensor[(?, 16), float32], %w: Tensor[(?, 16), float32], "
        f"%m: Tensor[({columns}), float32]) {{ add(nn.dense(%q, %w), %m) }}"
    )[0]
    m = rng.standard_normal(columns).astype(np.float32)
    for rows, of in ((5, columns), (1, columns), (37, 1), (0, columns)):
        q, w = (rng.standard_normal((n, 16)).astype(np.float32) for n in (rows, of))
        wanted = q.astype(np.float64) @ w.T + m
        np.testing.assert_allclose(np.asarray(layer.run(q, w, m)), wanted, rtol=1e-4, atol=1e-5)
    text = attention("added", "?").replace("%m: Tensor[(?, ?)", f"%m: Tensor[(?, {columns})")
    attend = machine(text)[0]
    for rows, keys, masks in ((5, columns, 5), (5, columns, 1), (1, 1, 4)):
        q, k, _ = operands(rows, keys)
        v = rng.standard_normal((3, columns, 8)).astype(np.float32)
        args = [q, k, v, mask_of("added", (masks, columns))]
        wanted = expected("added", *args)
        np.testing.assert_allclose(np.asarray(attend.run(*args)), wanted, rtol=2e-5, atol=2e-6)


def test_a_product_in_front_of_what_may_be_seen_stays_as_it_is() -> None:
    text = (
        "def @main[n, a, b](%q: Tensor[(2, n, 4), float32], %m: Tensor[(a, b), float32], "
        "%r: ref(int64)) {{\n"
        "  let %s = nn.batch_matmul(%q, %q, transpose_b=True);\n"
        "  {0}\n"
        "  nn.softmax(%s + %m)\n}}"
    )
    for between, broadens in (("let %z = ref_write(%r, 7i64);", False), ("", True)):
        module = run_passes(relayvm.parse(text.format(between)), ["to_anf", "fuse"])
        assert ("broadcast_to" in str(module)) is broadens
