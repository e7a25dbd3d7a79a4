"""Windows of pooling at the edges of the data: how many there are, what those of padding give."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import relayvm
from relayvm.base.dtypes import BY_NAME
from relayvm.ir.types import TensorType
from relayvm.ops import OPS

GRID = [
    row
    for row in itertools.product(
        (1, 2, 5, 6), (1, 2, 3), (1, 2, 3), (1, 2), (0, 1, 2), (0, 3), (False, True)
    )
    if (row[1] - 1) * row[3] < row[0] + row[4] + row[5]
]


def attributes(row: tuple[Any, ...]) -> dict[str, Any]:
    _, taps, stride, dilation, before, after, ceil = row
    return {
        "pool_size": (taps,),
        "strides": (stride,),
        "dilation": (dilation,),
        "padding": (before, after),
        "ceil_mode": ceil,
    }


def windows(row: tuple[Any, ...]) -> list[list[int]]:
    """Return the elements that each window covers, by the formula of the original."""
    size, taps, stride, dilation, before, after, ceil = row
    room = size + before + after - ((taps - 1) * dilation + 1)
    count = (room + (stride - 1 if ceil else 0)) // stride + 1
    starts = [k * stride - before for k in range(count)]
    return [[i for i in range(s, s + taps * dilation, dilation) if 0 <= i < size] for s in starts]


def pooled(name: str, x: np.ndarray, attrs: dict[str, Any]) -> np.ndarray:
    op = OPS[name]
    kind = op.result_type([TensorType(x.shape, BY_NAME[x.dtype.name])], attrs)
    result = op.evaluate([x], attrs)
    assert isinstance(kind, TensorType) and isinstance(result, np.ndarray)
    assert kind.shape == result.shape
    return result[0, 0]


def test_windows_are_as_many_as_in_the_original_and_those_of_padding_alone_are_known() -> None:
    empty = 0
    for row in GRID:
        x = np.arange(row[0], dtype=np.float32)[None, None] - 3
        covered = windows(row)
        empty += [] in covered
        greatest = [max((x[0, 0, i] for i in w), default=-np.inf) for w in covered]
        means = [np.mean(x[0, 0, w]) if w else 0 for w in covered]
        assert np.array_equal(pooled("nn.max_pool1d", x, attributes(row)), greatest)
        assert np.allclose(pooled("nn.avg_pool1d", x, attributes(row)), means)
    assert empty > 100


def test_the_maximum_of_padding_alone_is_the_least_integer() -> None:
    x = np.ones((1, 1, 6), np.int8)
    attrs = {"pool_size": (1,), "strides": (3,), "ceil_mode": True}
    assert pooled("nn.max_pool1d", x, attrs).tolist() == [1, 1, -128]


@pytest.mark.parametrize("size", ["6", "?"])
@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("nn.max_pool1d(%x, pool_size=[1], strides=[3], ceil_mode=True)", [1, 4, -np.inf]),
        ("nn.avg_pool1d(%x, pool_size=[1], strides=[3], ceil_mode=True)", [1, 4, 0]),
        (
            "nn.avg_pool1d(%x, pool_size=[1], strides=[3], ceil_mode=True, count_include_pad=True)",
            [1, 4, 0],
        ),
        ("nn.max_pool1d(%x, pool_size=[2], strides=[2], padding=[3, 2])", [-np.inf, 1, 3, 5, 6]),
    ],
)
def test_the_machine_has_the_same_windows(size: str, call: str, expected: list[float]) -> None:
    text = f"def @main(%x: Tensor[(1, 1, {size}), float32]) {{ {call} }}"
    x = np.arange(1, 7, dtype=np.float32)[None, None]
    result = relayvm.VirtualMachine(relayvm.compile(relayvm.parse(text))).run(x)
    assert result[0, 0].tolist() == expected[: result.shape[2]]


@pytest.mark.parametrize("kind", ["max", "avg"])
def test_other_frameworks_have_the_same_windows_but_a_last_one_behind_the_data(kind: str) -> None:
    torch = pytest.importorskip("torch")
    compared = 0
    for row in GRID:
        size, taps, stride, dilation, before, after, ceil = row
        if before != after or 2 * before > taps or (kind == "avg" and dilation > 1):
            continue
        x = np.arange(size, dtype=np.float32)[None, None] - 3
        given = torch.tensor(x), taps, stride, before
        more = (dilation, ceil) if kind == "max" else (ceil, False)
        theirs = getattr(torch.nn.functional, f"{kind}_pool1d")(*given, *more).numpy()[0, 0]
        ours = pooled(f"nn.{kind}_pool1d", x, attributes(row))
        dropped = len(ours) - len(theirs)
        assert dropped == (ceil and (len(ours) - 1) * stride >= size + before)
        assert np.allclose(ours[: len(theirs)], theirs)
        compared += 1
    assert compared > 50
