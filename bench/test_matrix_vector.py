"""Matrix times vector with a constant weight in the second-level cache, beside reading as much.

Sweeps are read again and again in one call, or once a call and timed as the product is, which then
pays to begin as that does.
"""

from __future__ import annotations

import numpy as np
import pytest

import relayvm
from relayvm.cli.bench.machine_rates import read_rate, single_read_rate
from relayvm.cli.bench.timing import kernel_seconds

SIZES = [(150, 150), (300, 150), (150, 600), (77, 513), (1020, 100), (300, 300), (512, 512)]
BYTES = [(300, 300), (512, 512), (768, 768), (300, 150)]


@pytest.mark.parametrize(
    ("k", "units", "dtype"),
    [(*size, "float32") for size in SIZES] + [(*size, "int8") for size in BYTES],
)
def test_one_row_beside_a_sweep_over_its_weights(benchmark, k, units, dtype) -> None:
    rng = np.random.default_rng(0)
    x, weight = (rng.integers(-100, 100, (rows, k)).astype(dtype) for rows in (1, units))
    out = "int32" if dtype == "int8" else ""
    text = (
        f"def @main(%x: Tensor[(1, {k}), {dtype}], %w: Tensor[({units}, {k}), {dtype}]) "
        f'{{ nn.dense(%x, %w, out_dtype="{out}") }}'
    )
    exe = relayvm.compile(relayvm.parse(text), params={"w": weight})
    vm = relayvm.VirtualMachine(exe, num_threads=1)
    kernel = kernel_seconds(lambda: vm.run(x), lambda: vm.profile(x))
    benchmark(lambda: vm.run(x))
    size = x.nbytes + weight.nbytes
    benchmark.extra_info["kernel, us"] = kernel * 1e6
    benchmark.extra_info["of repeated sweeps"] = size / read_rate(size) / kernel
    benchmark.extra_info["of single sweeps"] = size / single_read_rate(size) / kernel
