"""Inputs of random numbers: keys of every kind."""

from __future__ import annotations

from typing import Any

import numpy as np
from operator_case import Case

_TOP = 1 << 63
_FRESH = [5, 0, 0, 0, 0, 0, 0, 0, _TOP, 0]
_WORN = [1, 2, 3, 4, _TOP, 0, 0, 2**64 - 2, 1 << 62, 0]
_FULL = [1, 2, 3, 4, 2**64 - 1, 2**64 - 1, 0, 2**64 - 3, 0, 0]
_LAST = [1, 2, 3, 4, 5, 6, 0, 9, 0, 1]
_BETWEEN = [1, 2, 3, 4, 5, 6, 0, 9, 1, 0]
_KEYS = (_FRESH, _WORN, _FULL, _LAST, _BETWEEN)


def _key(values: list[int]) -> dict[int, Any]:
    return {0: np.array(values, np.uint64)}


def _drawn(*extra: tuple[int, ...]) -> list[Case]:
    shapes: list[tuple[int, ...]] = [(2, 3), (), (0,), (8,), (3,)]
    return [
        Case(((10,), *extra), {"out_shape": s}, {0: "uint64"}, _key(k))
        for s, k in zip(shapes, _KEYS)
    ]


def _scaled() -> list[Case]:
    kinds = {0: "uint64", 1: "float32", 2: "float32"}
    double = {0: "uint64", 1: "float64", 2: "float64"}
    return [
        *(Case(c.shapes, c.attrs, kinds, {**c.values, 1: -1.5, 2: 2.25}) for c in _drawn((), ())),
        Case(
            ((10,), (), ()),
            {"out_shape": (2, 2), "out_dtype": "float64"},
            double,
            {**_key(_FRESH), 1: 0.25, 2: 3.0},
        ),
    ]


RANDOM_CASES: dict[str, list[Case]] = {
    "random.threefry_generate": _drawn(),
    "random.threefry_split": [Case(((10,),), {}, {0: "uint64"}, _key(k)) for k in _KEYS],
    "random.uniform": _scaled(),
    "random.normal": _scaled(),
    "random.multinomial": [
        Case(((10,), (4,)), {"num_samples": 5}, {0: "uint64"}, _key(_FRESH)),
        Case(((10,), (2, 3)), {"num_samples": 3}, {0: "uint64"}, _key(_WORN)),
        Case(((10,), (2, 0)), {}, {0: "uint64"}, _key(_FULL)),
        Case(((10,), (3,)), {"num_samples": 0}, {0: "uint64"}, _key(_FULL)),
    ],
}
