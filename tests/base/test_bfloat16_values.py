"""Values of bfloat16: every one is widened exactly, and every number is rounded once."""

from fractions import Fraction

import numpy as np
import pytest

from relayvm.base.dtypes import BFLOAT16, dtype_of, number_of
from relayvm.base.narrow.bfloat16 import MAX, TINY, rounded, widened
from relayvm.base.narrow.host import array_dtype

ALL = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16)
STEP_AT_TOP = 2.0**120


def nearest(value):
    """Return the bits of the element nearest to a rational number, by trying them all."""
    finite = VALUES[np.isfinite(VALUES)]
    start = int(np.searchsorted(finite, float(value)))
    near = range(max(start - 2, 0), min(start + 2, len(finite)))
    best = min(near, key=lambda k: (abs(Fraction(float(finite[k])) - value), _bits(finite[k]) & 1))
    if abs(value) >= Fraction(MAX) + Fraction(STEP_AT_TOP) / 2:
        return float("inf") if value > 0 else float("-inf")
    return float(finite[best])


def _bits(value):
    return int(np.float32(value).view(np.uint32)) >> 16


VALUES = np.unique(
    widened(ALL[(ALL & 0x7F80) != 0x7F80].view(array_dtype("bfloat16"))).astype(np.float64)
)


def test_all_values_come_back_with_their_bits():
    assert np.array_equal(rounded(widened(ALL.view(array_dtype("bfloat16")))).view(np.uint16), ALL)


def test_numbers_halfway_go_to_even_and_their_neighbours_to_the_nearer():
    rng = np.random.default_rng(4)
    picked = rng.choice(len(VALUES) - 1, 300)
    middles = (VALUES[picked] + VALUES[picked + 1]) / 2
    ends = (MAX + STEP_AT_TOP / 2, -MAX - STEP_AT_TOP / 2, TINY / 256, 1e300, 5e-324)
    for middle in (*middles, *ends):
        for value in (middle, np.nextafter(middle, np.inf), np.nextafter(middle, -np.inf)):
            assert number_of(rounded(np.array(value))) == nearest(Fraction(float(value)))


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
def test_wide_integers_are_rounded_once(dtype):
    rng = np.random.default_rng(5)
    limit = np.iinfo(dtype)
    ties = [(257 + 2 * int(k)) << int(s) for k in rng.integers(0, 60, 80) for s in (9, 40, 54)]
    near = [n + d for n in ties for d in (-1, 0, 1)]
    near += [-n for n in near] + [limit.max, limit.min, 0, 1]
    values = [n for n in near if limit.min <= n <= limit.max]
    given = widened(rounded(np.array(values, dtype)))
    assert given.tolist() == [nearest(Fraction(n)) for n in values]


def test_not_a_number_stays_so_whatever_its_bits():
    odd = np.array([0x7F800001, 0xFFFFFFFF, 0x7FC00000], np.uint32).view(np.float32)
    assert np.isnan(widened(rounded(odd))).all()
    assert np.isnan(widened(rounded(np.array(np.nan))))


def test_the_row_of_the_table_names_its_arrays():
    assert dtype_of(array_dtype("bfloat16")) is BFLOAT16
    assert dtype_of(np.dtype([("bfloat16", "V2")])) is BFLOAT16
    assert (BFLOAT16.max, BFLOAT16.min, BFLOAT16.tiny) == (VALUES[-1], VALUES[0], 2.0**-126)
