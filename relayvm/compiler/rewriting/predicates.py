"""Conditions and computed attributes that rules in text name."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from relayvm.base.dtypes import BFLOAT16, BY_NAME, FLOAT32, DType, number_of
from relayvm.base.narrow.arrays import readable
from relayvm.compiler.rewriting.build import is_determined, is_static, tensor, type_of
from relayvm.ir.expr import Constant, Expr

Condition = Callable[..., bool]


def _is_numeric(expr: Expr) -> bool:
    return not tensor(expr).dtype.is_bool


def _holds(dtype: DType, source: DType) -> bool:
    """Tell whether each value of `source` is one of a float dtype."""
    if source.is_stored:
        return _holds(dtype, BY_NAME[source.wide])
    if BFLOAT16 not in (dtype, source):
        return np.can_cast(source.numpy, dtype.numpy)
    if source is BFLOAT16:
        return dtype.bits >= FLOAT32.bits or dtype is BFLOAT16
    return source.is_integer and source.bits <= 8


def _is_lossless(expr: Expr, dtype: DType, final: Expr) -> bool:
    """Return True if a cast to `dtype` in between makes no difference to a cast.

    A float saturates where an integer wraps: so integers that become floats stay floats.
    """
    source, target = tensor(expr).dtype, tensor(final).dtype
    if source.is_bool:
        return True
    if source.is_real:
        return dtype.is_float and _holds(dtype, source)
    if dtype.is_float:
        once = target.bits >= 32 or source.bits <= 8
        return target.is_float and once and _holds(dtype, source)
    if not dtype.is_integer:
        return False
    if target.is_integer and dtype.bits >= target.bits:
        return True
    return source.min >= dtype.min and source.max <= dtype.max


def _is_inside(expr: Expr, dtype: DType, low: float, high: float) -> bool:
    """Return True if whole numbers between two bounds survive a cast to `dtype`."""
    source = tensor(expr).dtype
    if not source.is_integer or not dtype.is_integer or math.isnan(low + high):
        return False
    least, most = math.floor(max(low, source.min)), math.ceil(min(high, source.max))
    return least >= dtype.min and most <= dtype.max


def _is_within_bounds(expr: Expr, low: float, high: float) -> bool:
    dtype = tensor(expr).dtype
    return dtype.is_integer and low <= dtype.min and high >= dtype.max


def _is_positional(newshape: tuple[Any, ...]) -> bool:
    """Return True if a new shape copies no sizes of the old one."""
    return all(isinstance(d, int) and (d > 0 or d == -1) for d in newshape)


def _is_identity(axes: tuple[int, ...] | None, expr: Expr) -> bool:
    return _axes(axes, expr) == tuple(range(tensor(expr).rank))


def _axes(axes: tuple[int, ...] | None, expr: Expr) -> tuple[int, ...]:
    rank = tensor(expr).rank
    return tuple(range(rank))[::-1] if axes is None else tuple(a % rank for a in axes)


def _is_ordinary_scale(expr: Expr) -> bool:
    """Return True for a positive number whose products with small integers stay apart."""
    if not isinstance(expr, Constant) or expr.data.ndim:
        return False
    return bool(1e-30 < number_of(expr.data) < 1e30)


def _is_small_integer(expr: Expr) -> bool:
    """Return True for an integer that float32 holds beside any of 16 bits."""
    return isinstance(expr, Constant) and bool(np.all(np.abs(readable(expr.data)) < 1 << 20))


def _is_unchanged(expr: Expr, result: Expr, numbers_are_scalars: bool) -> bool:
    """Return True if broadcasting with numbers leaves an operand as it is."""
    kind = type_of(expr)
    return kind == type_of(result) and (numbers_are_scalars or is_determined(kind))


CONDITIONS: dict[str, Condition] = {
    "static": lambda expr: is_static(type_of(expr)),
    "determined": lambda expr: is_determined(type_of(expr)),
    "numeric": _is_numeric,
    "integers": lambda expr: tensor(expr).dtype.is_integer,
    "floats": lambda expr: tensor(expr).dtype.is_float,
    "constant": lambda expr: isinstance(expr, Constant),
    "not_constant": lambda expr: not isinstance(expr, Constant),
    "same_type": lambda a, b: type_of(a) == type_of(b),
    "same_dtype": lambda a, b: tensor(a).dtype is tensor(b).dtype,
    "unchanged": _is_unchanged,
    "lossless": _is_lossless,
    "inside": _is_inside,
    "within_bounds": _is_within_bounds,
    "positional": _is_positional,
    "identity": _is_identity,
    "small": _is_small_integer,
    "positive": _is_ordinary_scale,
    "narrow": lambda expr: tensor(expr).dtype.bits <= 16,
}

ATTRIBUTE_VALUES: dict[str, Callable[..., Any]] = {
    "shape": lambda expr: tensor(expr).shape,
    "dtype": lambda expr: tensor(expr).dtype,
    # Axis i of the outer transpose is axis outer[i] of the inner one.
    "compose": lambda inner, outer, x: tuple(_axes(inner, x)[a] for a in _axes(outer, x)),
}
