"""Denormals, infinities, NaN and signed zeros in contractions and reductions of every float dtype:
schedules keep the bits of naive loops, on this CPU and on one with AVX2 alone.
"""

from __future__ import annotations

import platform

import numpy as np
import pytest

import relayvm
from relayvm.base.dtypes import BY_NAME
from tests.kernels.images import same_bits

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="runs code for x86-64"),
]
DTYPES = ("float32", "float64", "float16", "bfloat16")
TARGETS = ("cpu", "cpu -mcpu=x86-64-v3")
SPECIAL = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, -1e-40, 6e-8, 1e-38, 65504.0)
PRODUCTS = (
    ("[m, k, n]", ["m, k", "n, k", "n"], "sigmoid(nn.bias_add(nn.dense(%a, %b), %c))"),
    ("", ["9, 100", "100, 3"], "nn.relu(nn.matmul(%a, %b))"),
    ("", ["64, 5", "70, 64"], "nn.matmul(%a, %b, transpose_a=True, transpose_b=True)"),
    ("", ["9, 33", "33, 40"], "nn.matmul(exp(%a), %b)"),
    ("", ["1, 7, 37", "3, 37, 21"], "nn.batch_matmul(%a, %b)"),
    ("", ["2, 0, 5", "2, 4, 5"], "nn.batch_matmul(%a, %b, transpose_b=True)"),
    ("", ["4, 0", "5, 0"], "nn.dense(%a, %b)"),
    (
        "[n]",
        ["3, n, 20", "3, n, 20", "3, n, 20", "n, n"],
        "nn.batch_matmul(nn.softmax(nn.batch_matmul(%a, %b, transpose_b=True) + %d), %c)",
    ),
)
REDUCTIONS = (
    "(sum(%a, axis=[0]), sum(%a, axis=[2]), sum(%a))",
    "(max(%a, axis=[1]), min(%a, axis=[2]), max(%a, axis=[0, 2]))",
    "(argmax(%a, axis=[2]), argmin(%a, axis=[0]), argmax(%a, axis=[1]))",
    "(prod(%a, axis=[2]), mean(%a, axis=[0, 1]))",
    "(nn.softmax(%a), nn.log_softmax(%a, axis=1), nn.softmax(%a, axis=0))",
    "(cumsum(%a, axis=2), cumprod(%a, axis=0), nn.l2_normalize(%a, eps=0.001f, axis=[1]))",
    "(transpose(%a), nn.max_pool1d(%a, pool_size=[3]), nn.avg_pool1d(%a, pool_size=[2]))",
)
SIZES = {"m": 6, "k": 35, "n": 18}


def flat(value: object) -> list[np.ndarray]:
    if isinstance(value, (tuple, list)):
        return [array for part in value for array in flat(part)]
    return [np.asarray(value)]


def values(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    plain = rng.standard_normal(shape)
    chosen = np.where(rng.random(shape) < 0.02, rng.choice(SPECIAL, shape), plain)
    with np.errstate(all="ignore"):
        return chosen.astype(BY_NAME[dtype].numpy)


def check(head: str, shapes: list[str], body: str, dtype: str) -> None:
    """Compare levels 0 and 3 on all targets."""
    params = ", ".join(f"%{x}: Tensor[({s}), {dtype}]" for x, s in zip("abcd", shapes))
    module = relayvm.parse(f"def @main{head}({params}) {{ {body} }}")
    machines = [relayvm.VirtualMachine(relayvm.compile(module, opt_level=0))]
    for target in TARGETS:
        exe = relayvm.compile(module, target=target)
        machines.append(relayvm.VirtualMachine(exe, num_threads=2))
    known = [tuple(SIZES.get(d) or int(d) for d in s.split(", ")) for s in shapes]
    for seed in range(3):
        rng = np.random.default_rng(seed)
        args = [values(rng, shape, dtype) for shape in known]
        expected, *results = [flat(machine.run(*args)) for machine in machines]
        for result in results:
            for a, b in zip(result, expected):
                assert a.shape == b.shape and a.dtype == b.dtype
                assert same_bits(a, b).all(), body


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", PRODUCTS, ids=lambda case: case[2])
def test_products_of_special_values_have_the_bits_of_naive_loops(
    case: tuple[str, list[str], str], dtype: str
) -> None:
    check(*case, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("body", REDUCTIONS)
def test_reductions_of_special_values_have_the_bits_of_naive_loops(body: str, dtype: str) -> None:
    check("", ["3, 5, 37"], body, dtype)
