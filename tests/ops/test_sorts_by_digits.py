"""Lines long enough to be sorted by digits: stable, both zeros and all NaN as equals."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm
from relayvm.ops import OPS
from relayvm.ops.sorting import LONG

DTYPES = ("bool", "int8", "uint16", "int32", "uint64", "float16", "float32", "float64")


def values(dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    rng = np.random.default_rng(0)
    if dtype == "bool":
        return rng.random(shape) < 0.5
    found = (rng.standard_normal(shape) * 50).astype(dtype)
    if found.dtype.kind == "f":
        flat = found.reshape(-1)
        flat[::5], flat[1::7], flat[2::11], flat[3::13] = 0.0, -0.0, np.nan, -np.inf
        # NaN with other bits, and a sign, keep their order among the rest.
        bits = flat.view(f"u{found.dtype.itemsize}")
        bits[4::17] = np.array(-np.nan, found.dtype).view(bits.dtype) + 1
    return found


@pytest.mark.parametrize("is_ascend", [True, False])
@pytest.mark.parametrize("dtype", DTYPES)
def test_long_lines_are_sorted_as_numpy_does(dtype: str, is_ascend: bool) -> None:
    text = f"""
    def @main(%x: Tensor[(70, ?), {dtype}]) {{
      (sort(%x, is_ascend={is_ascend}), argsort(%x, is_ascend={is_ascend}))
    }}"""
    vm = relayvm.VirtualMachine(relayvm.compile(relayvm.parse(text)), num_threads=2)
    for size in (0, 1, 30, 300):
        x = values(dtype, (70, size))
        found, places = (np.asarray(a) for a in vm.run(x))
        attrs = {"axis": -1, "is_ascend": is_ascend}
        assert found.tobytes() == OPS["sort"].evaluate([x], attrs).tobytes()
        assert (places == OPS["argsort"].evaluate([x], {**attrs, "dtype": None})).all()


def test_digits_that_all_elements_share_are_left_out_without_changing_the_order() -> None:
    x = np.random.default_rng(0).integers(0, 5, 1000)
    vm = relayvm.VirtualMachine(
        relayvm.compile(relayvm.parse("def @main(%x: Tensor[(1000), int64]) { argsort(%x) }"))
    )
    assert (np.asarray(vm.run(x)) == np.argsort(x, kind="stable")).all()


@pytest.mark.parametrize(
    ("dtype", "is_ascend"),
    [("bool", True), ("float16", False), ("float16", True), ("int32", False)],
)
def test_lines_of_several_parts_are_sorted_as_numpy_does(dtype: str, is_ascend: bool) -> None:
    size = LONG + 17
    x = values(dtype, (2, size))
    attrs = {"axis": -1, "is_ascend": is_ascend}
    for shape in (f"(2, {size})", "(2, ?)"):
        text = f"""
        def @main(%x: Tensor[{shape}, {dtype}]) {{
          (sort(%x, is_ascend={is_ascend}), argsort(%x, is_ascend={is_ascend}))
        }}"""
        vm = relayvm.VirtualMachine(relayvm.compile(relayvm.parse(text)), num_threads=2)
        found, places = (np.asarray(a) for a in vm.run(x))
        assert found.tobytes() == OPS["sort"].evaluate([x], attrs).tobytes()
        assert (places == OPS["argsort"].evaluate([x], {**attrs, "dtype": None})).all()


def test_digits_that_all_elements_of_blocks_share_are_left_out() -> None:
    x = np.random.default_rng(0).integers(0, 5, LONG) + 2**40
    text = f"def @main(%x: Tensor[({len(x)}), int64]) {{ argsort(%x) }}"
    vm = relayvm.VirtualMachine(relayvm.compile(relayvm.parse(text)))
    assert (np.asarray(vm.run(x)) == np.argsort(x, kind="stable")).all()
