"""Scatters along another axis than the last go to rows in parts: values, traps, unknown sizes."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm
from relayvm import Trap
from relayvm.ops import OPS
from relayvm.ops.gathering import BESIDE, IN_LANES

SIZES = (1, BESIDE - 1, BESIDE + 3, IN_LANES + 5)
TYPES = {
    "static": "Tensor[({rows}, {columns}), {dtype}]",
    "dynamic": "Tensor[(?, ?), {dtype}]",
}


def machine(text: str, kind: str, *values: np.ndarray) -> relayvm.VirtualMachine:
    """Return a machine for a call of operands of rank 2, whose sizes are told or not."""
    params = ", ".join(
        f"%{name}: " + TYPES[kind].format(rows=v.shape[0], columns=v.shape[1], dtype=v.dtype)
        for name, v in zip("abc", values)
    )
    return relayvm.VirtualMachine(
        relayvm.compile(relayvm.parse(f"def @main({params}) {{ {text} }}"))
    )


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("columns", SIZES)
@pytest.mark.parametrize("reduction", ["update", "add", "mean"])
@pytest.mark.parametrize("dtype", ["float32", "int8", "float16"])
def test_rows_are_scattered_to_in_order(
    kind: str, columns: int, reduction: str, dtype: str
) -> None:
    rng = np.random.default_rng(columns)
    data, updates = ((rng.random((n, columns)) * 20).astype(dtype) for n in (5, 9))
    updates = updates[:5]
    places = rng.integers(-5, 5, (5, columns))
    text = f'scatter_elements(%a, %b, %c, axis=0, reduction="{reduction}")'
    expected = OPS["scatter_elements"].evaluate(
        [data, places, updates], {"axis": 0, "reduction": reduction}
    )
    result = machine(text, kind, data, places, updates).run(data, places, updates)
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("columns", SIZES)
@pytest.mark.parametrize("mode", ["update", "add", "mul"])
@pytest.mark.parametrize("dtype", ["float32", "int8", "float16"])
def test_whole_rows_are_scattered_in_order(kind: str, columns: int, mode: str, dtype: str) -> None:
    rng = np.random.default_rng(columns)
    data, updates = ((rng.random((n, columns)) * 8).astype(dtype) for n in (5, 20))
    places = rng.integers(-5, 5, (1, 20))
    text = f'scatter_nd(%a, %b, %c, mode="{mode}")'
    expected = OPS["scatter_nd"].evaluate([data, places, updates], {"mode": mode})
    result = machine(text, kind, data, places, updates).run(data, places, updates)
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("columns", SIZES)
def test_the_first_index_outside_is_told(kind: str, columns: int) -> None:
    rng = np.random.default_rng(columns)
    data, places = np.zeros((5, columns), np.float32), rng.integers(-5, 5, (5, columns))
    for number, (row, column) in enumerate([(4, 0), (1, columns - 1), (3, columns // 2)]):
        places[row, column] = 100 + number
    with pytest.raises(IndexError) as expected:
        OPS["scatter_elements"].evaluate([data, places, data], {"axis": 0, "reduction": "add"})
    text = 'scatter_elements(%a, %b, %c, axis=0, reduction="add")'
    with pytest.raises(Trap) as found:
        machine(text, kind, data, places, data).run(data, places, data)
    told = next(n for n in (100, 101, 102) if str(n) in str(expected.value))
    assert str(told) in str(found.value)
