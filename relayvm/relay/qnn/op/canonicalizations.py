"""Functions of quantized values by tables: what rewrites of quantized operators are made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from relayvm.base.diagnostics import error
from relayvm.ir.expr import Call, Expr
from relayvm.relay.build_module import create_executor
from relayvm.relay.expr import const
from relayvm.relay.op.indexing import take
from relayvm.relay.op.transform import cast, reinterpret

TABLE_BITS = 8


def run_const_expr(expr: Expr) -> np.ndarray:
    """Return the value of an expression of constants."""
    return np.asarray(create_executor("vm").evaluate(expr))


def create_integer_lookup_table(
    floating_point_func: Callable[[np.ndarray], np.ndarray],
    input_scale: Expr,
    input_zero_point: Expr,
    output_scale: Expr,
    output_zero_point: Expr,
    in_axis: int = -1,
    out_axis: int = -1,
    in_dtype: str = "uint8",
    out_dtype: str = "uint8",
) -> np.ndarray:
    """Return what a function of numbers gives for each value of 8 bits, quantized.

    The table is ordered by the bits of the value, read as an unsigned number. Scales and zero
    points are constants of rank 0. Raises RelayError `bad-option` for wider dtypes.
    """
    for dtype in (in_dtype, out_dtype):
        if np.dtype(dtype).itemsize * 8 != TABLE_BITS:
            raise error("bad-option", f"a table is over values of 8 bits, not over `{dtype}`")
    scales = (input_scale, input_zero_point, output_scale, output_zero_point)
    in_scale, in_zero, out_scale, out_zero = (run_const_expr(s) for s in scales)
    values = np.arange(1 << TABLE_BITS, dtype=np.uint8).view(in_dtype)
    real = (values.astype(np.float32) - in_zero.astype(np.float32)) * in_scale
    with np.errstate(all="ignore"):
        rounded = np.round(floating_point_func(real) / out_scale) + out_zero
    limits = np.iinfo(out_dtype)
    kept = np.clip(np.nan_to_num(rounded, nan=0.0), limits.min, limits.max)
    return np.asarray(kept.astype(out_dtype))


def create_integer_lookup_op(
    input_arg: Expr,
    floating_point_func: Callable[[np.ndarray], np.ndarray],
    in_scale: Expr,
    in_zero_point: Expr,
    out_scale: Expr,
    out_zero_point: Expr,
    in_axis: int = -1,
    out_axis: int = -1,
    in_dtype: str = "uint8",
    out_dtype: str = "uint8",
) -> Call:
    """Return the look-up of quantized values in the table of a function."""
    table: Any = create_integer_lookup_table(
        floating_point_func,
        in_scale,
        in_zero_point,
        out_scale,
        out_zero_point,
        in_axis=in_axis,
        out_axis=out_axis,
        in_dtype=in_dtype,
        out_dtype=out_dtype,
    )
    places = cast(reinterpret(input_arg, "uint8"), "int32")
    return take(const(table, out_dtype), places, axis=0, mode="clip")
