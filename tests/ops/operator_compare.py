"""Comparison of results within the tolerance that the operator's row states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from relayvm.base.dtypes import dtype_of
from relayvm.base.narrow.arrays import as_bytes
from relayvm.ir.types import Type
from relayvm.ops.operator import Operator


def assert_same(
    op: Operator,
    types: Sequence[Type],
    attrs: Mapping[str, Any],
    actual: Any,
    expected: Any,
    what: str,
) -> None:
    """Fail unless both agree: exactly for integers, within the row's tolerance for floats."""
    if isinstance(expected, tuple):
        assert len(actual) == len(expected)
        for a, b in zip(actual, expected):
            assert_same(op, types, attrs, a, b, what)
        return
    assert actual.dtype == expected.dtype, what
    assert actual.shape == expected.shape, what
    if dtype_of(expected.dtype).is_stored:
        actual, expected = as_bytes(actual), as_bytes(expected)
    if not dtype_of(expected.dtype).is_float:
        assert np.array_equal(actual, expected), f"{what}:\n{actual}\n{expected}"
        return
    tolerance = op.tolerance(types, attrs)
    with np.errstate(all="ignore"):
        unit = np.spacing(np.abs(expected)).astype(np.float64)
        if "reduction_size" in op.facets:
            # The error of a sum is that of its terms, which may cancel.
            finite = np.abs(expected[np.isfinite(expected)])
            one = expected.dtype.type(1)  # its unit is that of the results
            unit = np.maximum(unit, np.spacing(np.max(finite, initial=one)))
        near = np.abs(actual.astype(np.float64) - expected.astype(np.float64)) <= tolerance * unit
    both_nan = np.isnan(actual) & np.isnan(expected)
    good = near | both_nan | (actual == expected)
    assert good.all(), f"{what}:\n{actual}\n{expected}"
