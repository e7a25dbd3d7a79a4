"""Casts from and to what is stored in a byte: scalar programs have the bits of arrays in numpy."""

from __future__ import annotations

import numpy as np
import pytest

from relayvm.base.dtypes import COMPUTED, DTYPES, STORED, DType
from relayvm.base.narrow.arrays import as_bytes, readable
from relayvm.base.narrow.stored import FORMATS, magnitudes
from relayvm.kernels.scalar_ops import cast_array
from relayvm.ops.numeric import cast


def values_of(dtype: DType) -> np.ndarray:
    rng = np.random.default_rng(3)
    if dtype.is_stored:
        return (
            dtype.array(np.arange(256))
            if not dtype.is_real
            else (np.arange(1 << dtype.bits, dtype=np.uint8).view(dtype.numpy))
        )
    if dtype.is_bool:
        return np.array([False, True])
    if not dtype.is_float:
        wide = rng.integers(int(dtype.min), int(dtype.max), 400, dtype.numpy, endpoint=True)
        return np.concatenate([wide, np.arange(127, dtype=dtype.numpy)])
    parts = [rng.normal(0, 1, 400) * 10.0 ** rng.uniform(-6, 4.5, 400)]
    for format in FORMATS.values():
        table = magnitudes(format)
        middles = (table[1:] + table[:-1]) / 2
        parts += [table, middles, np.nextafter(middles, 0), np.nextafter(middles, 1e9)]
    whole = np.concatenate([*parts, [np.nan, np.inf, 0.0, 7.5]])
    with np.errstate(over="ignore"):
        return dtype.array(np.concatenate([whole, -whole]))


@pytest.mark.parametrize("source", COMPUTED, ids=str)
@pytest.mark.parametrize("target", STORED, ids=str)
def test_what_is_computed_is_stored_as_numpy_does(source: DType, target: DType) -> None:
    given = values_of(source)
    assert np.array_equal(as_bytes(cast_array(given, target)), as_bytes(cast(given, target)))


@pytest.mark.parametrize("source", STORED, ids=str)
@pytest.mark.parametrize("target", DTYPES, ids=str)
def test_what_is_stored_is_read_as_numpy_does(source: DType, target: DType) -> None:
    given = values_of(source)
    actual, expected = readable(cast_array(given, target)), readable(cast(given, target))
    assert actual.dtype == expected.dtype
    assert np.array_equal(actual, expected, equal_nan=actual.dtype.kind == "f")
