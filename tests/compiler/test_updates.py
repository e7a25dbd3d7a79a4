"""Parts of tensors are set in place where nobody else sees the tensor: a part is all it costs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import relayvm

ENGINES = ("interpreter", "jit")
ROWS, COLUMNS = 50, 4
X = np.arange(ROWS * COLUMNS, dtype=np.float32).reshape(ROWS, COLUMNS)
V = -np.ones((1, COLUMNS), np.float32)
TENSOR, ROW = f"Tensor[({ROWS}, {COLUMNS}), float32]", f"Tensor[(1, {COLUMNS}), float32]"
SET = f"""
def @set(%x: {TENSOR}, %v: {ROW}, %n: int64) -> {TENSOR} {{
  let %b = reshape(%n, newshape=[1]);
  let %e = reshape(%n + 1i64, newshape=[1]);
  strided_set(%x, %v, %b, %e, ones(shape=[1], dtype="int64"))
}}
"""
SCATTER = f"""
def @set(%x: {TENSOR}, %v: {ROW}, %n: int64) -> {TENSOR} {{
  scatter_nd(%x, reshape(%n, newshape=[1, 1]), %v)
}}
"""
ELEMENTS = f"""
def @set(%x: {TENSOR}, %v: {ROW}, %n: int64) -> {TENSOR} {{
  scatter_elements(%x, broadcast_to(%n, shape=[1, {COLUMNS}]), %v, axis=0)
}}
"""
LOOP = f"""
def @loop(%n: int64, %x: {TENSOR}, %v: {ROW}) -> {TENSOR} {{
  if (%n < 1i64) {{ %x }} else {{ @loop(%n - 1i64, @set(%x, %v, %n - 1i64), %v) }}
}}
def @main(%n: int64, %x: {TENSOR}, %v: {ROW}) {{ @loop(%n, %x, %v) }}
"""
REFERENCE = f"""
def @loop(%n: int64, %r: ref({TENSOR}), %v: {ROW}) -> () {{
  if (%n < 1i64) {{ () }} else {{
    ref_write(%r, @set(ref_read(%r), %v, %n - 1i64));
    @loop(%n - 1i64, %r, %v)
  }}
}}
def @main(%n: int64, %x: {TENSOR}, %v: {ROW}) {{
  let %r = ref(%x);
  @loop(%n, %r, %v);
  ref_read(%r)
}}
"""
CELLS = f"""
type Held {{ Held({TENSOR}) }}
def @next(%h: Held, %v: {ROW}, %n: int64) -> Held {{
  match (%h) {{ Held(%x) => Held(@set(%x, %v, %n)) }}
}}
def @loop(%n: int64, %h: Held, %v: {ROW}) -> Held {{
  if (%n < 1i64) {{ %h }} else {{ @loop(%n - 1i64, @next(%h, %v, %n - 1i64), %v) }}
}}
def @main(%n: int64, %x: {TENSOR}, %v: {ROW}) {{
  match (@loop(%n, Held(%x), %v)) {{ Held(%y) => %y }}
}}
"""


def new_bytes(text: str, engine: str, *args: Any, opt_level: int = 3) -> tuple[Any, int]:
    """Return the result of `main` and the bytes of the tensors that kernels had made for them."""
    exe = relayvm.compile(relayvm.parse(text), opt_level=opt_level, entries=["main"])
    vm = relayvm.VirtualMachine(exe, engine=engine)
    result = vm.run(*args)
    return result, sum(kernel.new_bytes for kernel in vm.profile(*args).kernels)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("loop", [LOOP, REFERENCE, CELLS], ids=["loop", "reference", "cell"])
@pytest.mark.parametrize("one", [SET, SCATTER, ELEMENTS], ids=["slice", "rows", "elements"])
def test_a_tensor_is_copied_once_however_often_it_is_set(one: str, loop: str, engine: str) -> None:
    wanted, small = X.copy(), 32 * ROWS
    wanted[:ROWS] = V
    result, made = new_bytes(one + loop, engine, np.int64(ROWS), X, V)
    np.testing.assert_array_equal(result, wanted)
    assert made <= X.nbytes + small, "the tensor of the host is copied, its copy is set in place"


@pytest.mark.parametrize("engine", ENGINES)
def test_a_function_that_is_not_inlined_sets_what_it_is_given(engine: str) -> None:
    text = SET + LOOP
    result, made = new_bytes(text, engine, np.int64(ROWS), X, V, opt_level=0)
    np.testing.assert_array_equal(result, np.broadcast_to(V, X.shape))
    assert made <= X.nbytes + 64 * ROWS


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("opt_level", [0, 3])
def test_what_somebody_still_sees_is_not_changed(engine: str, opt_level: int) -> None:
    text = f"""{SET}
    def @main(%n: int64, %x: {TENSOR}, %v: {ROW}) {{
      let %a = @set(exp(%x), %v, %n);
      let %p = strided_slice(%a, begin=[0], end=[2]);
      let %b = @set(%a, %v * 2f, 1i64);
      let %c = @set(@set(%b, %v, 3i64), %v, 2i64);
      (%a, %p, %b, %c)
    }}
    """
    (a, p, b, c), _ = new_bytes(text, engine, np.int64(0), X / 100, V, opt_level=opt_level)
    wanted = np.exp(X / 100)
    wanted[0] = V
    np.testing.assert_allclose(a, wanted, rtol=1e-6)
    np.testing.assert_allclose(p, wanted[:2], rtol=1e-6)
    wanted[1] = 2 * V
    np.testing.assert_allclose(b, wanted, rtol=1e-6)
    wanted[2:4] = V
    np.testing.assert_allclose(c, wanted, rtol=1e-6)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_tensor_set_to_a_part_of_itself_keeps_that_part(engine: str) -> None:
    text = f"""{SET}
    def @main(%n: int64, %x: {TENSOR}) {{
      let %y = exp(%x);
      let %z = @set(%y, strided_slice(%y, begin=[3], end=[4]), %n);
      @set(%z, strided_slice(%z, begin=[5], end=[6]), %n + 1i64)
    }}
    """
    result, _ = new_bytes(text, engine, np.int64(4), X / 100)
    wanted = np.exp(X / 100)
    wanted[4] = wanted[3]
    np.testing.assert_allclose(result, wanted, rtol=1e-6)


JOINED = """
def @main(%x: Tensor[(2, 4), float32], %k: Tensor[(2, 4), int64], %c: bool) {
  let %s = UPDATE;
  concatenate((%x, %s), axis=AXIS)
}
"""
ADDED = 'scatter_elements(%x, %k, %x, axis=0, reduction="add")'


@pytest.mark.parametrize("level", range(5))
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("update", [ADDED, f"if (%c) {{ {ADDED} }} else {{ tanh(%x) }}"])
def test_what_is_updated_may_be_joined_with_the_update(update: str, axis: int, level: int) -> None:
    text = JOINED.replace("UPDATE", update).replace("AXIS", str(axis))
    exe = relayvm.compile(relayvm.parse(text), opt_level=level)
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    k = np.zeros((2, 4), np.int64)
    added = x + np.stack([x.sum(0), np.zeros(4, np.float32)])
    for engine in ENGINES:
        result = relayvm.VirtualMachine(exe, engine=engine).run(x, k, True)
        np.testing.assert_array_equal(result, np.concatenate((x, added), axis))
