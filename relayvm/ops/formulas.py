"""One formula, two readings: over numpy arrays it is the meaning of an operator, over scalar
expressions its loops, with the same bits.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from relayvm.base.dims import Dim
from relayvm.base.dtypes import DType, dtype_of
from relayvm.kernels import compute as te
from relayvm.kernels.scalar_ops import SCALAR_OPS, cast_array

_ARRAY = (np.ndarray, np.generic)


class Reading(Protocol):
    """What a formula is written with; numbers take the dtype of the values beside them."""

    def apply(self, name: str, *args: Any) -> Any:
        """Return a row of the scalar operator table of values of one dtype."""

    def cast(self, value: Any, dtype: DType) -> Any:
        """Return a value converted as `cast` does."""

    def select(self, condition: Any, a: Any, b: Any) -> Any:
        """Return `a` where the condition holds, else `b`."""

    def const(self, value: Any, dtype: DType) -> Any:
        """Return a literal."""

    def dim(self, value: Dim) -> Any:
        """Return a size as int64."""


class ArrayReading:
    """Formulas over numpy arrays, broadcast against each other."""

    def apply(self, name: str, *args: Any) -> Any:
        """Return a row of the scalar operator table of arrays of one dtype."""
        dtype = next(a.dtype for a in args if isinstance(a, _ARRAY))
        row = SCALAR_OPS[name]
        return row(*(a if isinstance(a, _ARRAY) else dtype_of(dtype).array(a) for a in args))

    def cast(self, value: Any, dtype: DType) -> Any:
        """Return an array converted as `cast` does."""
        return value if value.dtype == dtype.numpy else cast_array(value, dtype)

    def select(self, condition: Any, a: Any, b: Any) -> Any:
        """Return `a` where the condition holds, else `b`."""
        known = a if isinstance(a, _ARRAY) else b
        return np.where(condition, a, b).astype(known.dtype)

    def const(self, value: Any, dtype: DType) -> Any:
        """Return a literal of rank 0."""
        return dtype.array(value)

    def dim(self, value: Dim) -> Any:
        """Return a size as int64."""
        assert isinstance(value, int), f"{value} has no value"
        return np.array(value, np.int64)


class ScalarReading:
    """Formulas over scalar expressions."""

    def apply(self, name: str, *args: Any) -> Any:
        """Return a row of the scalar operator table applied to expressions of one dtype."""
        return te.scalar(name, *args)

    def cast(self, value: Any, dtype: DType) -> Any:
        """Return an expression converted as `cast` does."""
        return te.cast(value, dtype)

    def select(self, condition: Any, a: Any, b: Any) -> Any:
        """Return `a` where the condition holds, else `b`."""
        return te.select(condition, a, b)

    def const(self, value: Any, dtype: DType) -> Any:
        """Return a literal."""
        return te.const(value, dtype)

    def dim(self, value: Dim) -> Any:
        """Return a size as int64."""
        return te.dim(value)


ARRAYS: Reading = ArrayReading()
SCALARS: Reading = ScalarReading()


def dtype_in(value: Any) -> DType:
    """Return the dtype of an array or a scalar expression."""
    return dtype_of(value.dtype)
