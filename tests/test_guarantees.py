"""Promises of docs/guarantees.md that no other test holds."""

from __future__ import annotations

import os

import numpy as np
import pytest

import relayvm

LAYERS = """
def @main{params}(%x: Tensor[({rows}, 37), float32], %w: Tensor[(29, 37), float32],
                  %b: Tensor[(29), float32]) {{
  let %h = nn.softmax(tanh(nn.bias_add(nn.dense(%x, %w), %b)));
  (%h, sum(%h, axis=[1]), mean(%x, axis=[1]), nn.layer_norm(%h, %b, %b))
}}
"""
ROWS = 19


def machine(text: str, **options: object) -> relayvm.VirtualMachine:
    return relayvm.VirtualMachine(relayvm.compile(relayvm.parse(text)), **options)


def layers(rows: int | str, **options: object) -> relayvm.VirtualMachine:
    params = f"[{rows}]" if isinstance(rows, str) else ""
    return machine(LAYERS.format(params=params, rows=rows), **options)


@pytest.fixture(scope="module")
def arrays() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(7)
    shapes = ((ROWS, 37), (29, 37), (29,))
    x, w, b = (rng.normal(size=shape).astype(np.float32) for shape in shapes)
    return x, w, b


def bits(results: tuple[np.ndarray, ...]) -> list[bytes]:
    return [r.tobytes() for r in results]


def test_symbolic_sizes_give_the_bits_of_fixed_ones(arrays) -> None:
    assert bits(layers("n").run(*arrays)) == bits(layers(ROWS).run(*arrays))


@pytest.mark.parametrize("engine", ["interpreter", "jit"])
@pytest.mark.parametrize("rows", [0, "n", "?"])
def test_what_is_nan_is_so_for_sizes_of_any_form(rows: int | str, engine: str) -> None:
    """Its sign and payload are not promised: language.md, Numbers."""
    generic = "[n]" if rows == "n" else ""
    vm = machine(
        f"""def @main{generic}(%x: Tensor[({rows}), float32], %nan: float32) {{
          let %m = mean(%x, keepdims=True);
          (%m, variance(%x, %m, keepdims=True), sum(%x) / sum(%x), sum(%x) * inff, %nan + %nan)
        }}""",
        engine=engine,
    )
    results = vm.run(np.zeros(0, np.float32), np.float32("nan"))
    assert all(np.isnan(r).all() for r in results)


def test_a_row_gives_the_same_bits_alone_and_in_a_batch(arrays) -> None:
    x, w, b = arrays
    vm = layers("n")
    batch = vm.run(x, w, b)
    for row in range(ROWS):
        alone = vm.run(x[row : row + 1], w, b)
        assert bits(alone) == bits(tuple(r[row : row + 1] for r in batch))


def test_the_number_of_threads_changes_no_bit(arrays, monkeypatch) -> None:
    monkeypatch.setattr("relayvm.vm.machine.available_cores", lambda: 5)
    expected = bits(layers("n").run(*arrays))
    for threads in (1, 2, 5):
        assert bits(layers("n", num_threads=threads).run(*arrays)) == expected


def test_a_machine_runs_in_a_forked_child(arrays) -> None:
    vm = layers("n")
    expected = bits(vm.run(*arrays))
    child = os.fork()
    if child == 0:
        os._exit(0 if bits(vm.run(*arrays)) == expected else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert bits(vm.run(*arrays)) == expected


IN_PLACE = """
def @main(%x: Tensor[(64), float32]) -> (Tensor[(64), float32], Tensor[(64), float32]) {
  let %r = ref(%x);
  ref_write(%r, exp(ref_read(%r)));
  ref_write(%r, ref_read(%r) + 1f);
  (ref_read(%r), %x)
}
"""


def test_arguments_are_never_written() -> None:
    x = np.linspace(0, 1, 64, dtype=np.float32)
    before = x.copy()
    changed, same = machine(IN_PLACE).run(x)
    assert x.tobytes() == before.tobytes() == same.tobytes()
    np.testing.assert_allclose(changed, np.exp(before) + 1, rtol=1e-6)


def test_results_share_no_memory() -> None:
    x = np.zeros(64, np.float32)
    vm = machine(IN_PLACE)
    first, second = vm.run(x), vm.run(x)
    arrays = [x, *first, *second]
    for i, a in enumerate(arrays):
        for b in arrays[:i]:
            assert not np.shares_memory(a, b)
    first[1][:] = 5
    assert not x.any() and not vm.run(x)[1].any()
