"""Numbers that are stored in a byte: all values, ties and ends, beside those of ml_dtypes."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from relayvm.base.dtypes import BY_NAME, STORED, dtype_of, number_of
from relayvm.base.narrow.arrays import as_bytes, readable
from relayvm.base.narrow.stored import FORMATS, WHOLE, magnitudes

ALL = np.arange(256, dtype=np.uint8)


def same_floats(a: np.ndarray, b: np.ndarray) -> bool:
    return np.array_equal(a, b, equal_nan=True) and np.array_equal(np.signbit(a), np.signbit(b))


@pytest.mark.parametrize("name", FORMATS)
def test_every_byte_is_the_float_that_it_is_elsewhere(name: str) -> None:
    codes = ALL[: 1 << BY_NAME[name].bits]
    other = codes.view(getattr(ml_dtypes, name)).astype(np.float32)
    assert same_floats(readable(codes.view(BY_NAME[name].numpy)), other)


@pytest.mark.parametrize("name", FORMATS)
def test_floats_go_to_the_nearest_and_ties_to_even(name: str) -> None:
    table = magnitudes(FORMATS[name])
    middles = (table[1:] + table[:-1]) / 2
    near = [middles, np.nextafter(middles, 0), np.nextafter(middles, np.inf), table, 1e5 * table]
    values = np.concatenate([*near, [np.inf, 0.0]])
    values = np.concatenate([values, -values, [np.nan]]).astype(np.float32)
    wanted = values.astype(getattr(ml_dtypes, name)).view(np.uint8)
    assert np.array_equal(as_bytes(BY_NAME[name].array(values)), wanted)


@pytest.mark.parametrize("name", FORMATS)
def test_float64_is_rounded_once(name: str) -> None:
    dtype, table = BY_NAME[name], magnitudes(FORMATS[name])
    middles = (table[1:-1] + table[:-2]) / 2
    below, above = (np.nextafter(middles, end) for end in (0, np.inf))
    assert np.array_equal(readable(dtype.array(below)), table[:-2].astype(np.float32))
    assert np.array_equal(readable(dtype.array(above)), table[1:-1].astype(np.float32))


@pytest.mark.parametrize("name", WHOLE)
def test_integers_wrap_and_floats_saturate(name: str) -> None:
    dtype = BY_NAME[name]
    numbers = np.arange(-300, 300)
    wanted = numbers.astype(getattr(ml_dtypes, name)).astype(np.int64)
    assert np.array_equal(readable(dtype.array(numbers)), wanted)
    given = readable(dtype.array(np.array([-99.5, 99.5, -0.9, np.nan, 1.9], np.float32)))
    assert given.tolist() == [dtype.min, dtype.max, 0, 0, 1]


@pytest.mark.parametrize("dtype", STORED, ids=str)
def test_rows_tell_their_range(dtype: object) -> None:
    row = dtype_of(str(dtype))
    info = (ml_dtypes.iinfo if row.name in WHOLE else ml_dtypes.finfo)(getattr(ml_dtypes, row.name))
    assert (row.min, row.max) == (float(info.min), float(info.max))
    assert row.is_stored
    assert row.itemsize_bytes == row.numpy.itemsize == 1
    assert not (row.is_float or row.is_integer or row.is_bool)
    assert dtype_of(np.dtype([(row.name, "V1")])) is row
    assert number_of(row.array(1)) == 1
