"""Any number of threads gives the same bits, whatever the program and its sizes."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import relayvm

THREADS = (2, 3, 5, 16)
PROGRAMS = {
    "a dense layer": "tanh(nn.bias_add(nn.dense(%x, %w), %b))",
    "rows": "nn.softmax(multiply(%x, exp(%x)))",
    "several results": "(sum(%x, axis=[0]), mean(%x, axis=[1]), add(%x, 1f), max(%x))",
    "a normalised layer": "nn.layer_norm(nn.dense(%x, %w), %b, %b)",
    "columns": "transpose(cumsum(%x, axis=1))",
    "places": "(argmax(%x, axis=[1]), argsort(sum(%x, axis=[1])), sort(%x, axis=0))",
    "attention": """
        let %q = reshape(nn.dense(%x, %w), newshape=[1, -1, 30]);
        let %s = multiply(nn.batch_matmul(%q, %q, transpose_b=True), 0.2f);
        nn.batch_matmul(nn.softmax(%s), %q)""",
}
# Extents below, at and above the threads, and sizes around the work that is worth a second one.
ROWS = st.sampled_from([1, 2, 3, 4, 15, 16, 17, 33, 64, 150, 400])
COLUMNS = st.sampled_from([1, 2, 7, 16, 60, 301, 1000, 4099])


@pytest.fixture(autouse=True, scope="module")
def as_on_sixteen_cores():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("relayvm.vm.machine.available_cores", lambda: 16)
        yield


@lru_cache
def machine(name: str, threads: int) -> relayvm.VirtualMachine:
    return relayvm.VirtualMachine(executable(name), num_threads=threads)


@lru_cache
def executable(name: str) -> relayvm.Executable:
    text = f"""
        def @main[n, k](%x: Tensor[(n, k), float32], %w: Tensor[(30, k), float32],
                        %b: Tensor[(30), float32]) {{ {PROGRAMS[name]} }}
    """
    return relayvm.compile(relayvm.parse(text))


def bits(result: object) -> list[bytes]:
    return [r.tobytes() for r in (result if isinstance(result, tuple) else (result,))]


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
@settings(max_examples=12)
@given(rows=ROWS, columns=COLUMNS, seed=st.integers(0, 3))
def test_any_number_of_threads_gives_the_same_bits(name, rows, columns, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, columns)).astype(np.float32)
    w, b = (rng.normal(size=size).astype(np.float32) for size in ((30, columns), 30))
    expected = bits(machine(name, 1).run(x, w, b))
    for threads in THREADS:
        for _ in range(2):
            assert bits(machine(name, threads).run(x, w, b)) == expected, threads
