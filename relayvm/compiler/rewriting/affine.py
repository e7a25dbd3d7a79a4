"""Tensors of floats as tensors of integers with a scale and a zero point, and how they are made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from relayvm.base.dtypes import FLOAT32, INT32, DType
from relayvm.base.narrow.arrays import readable
from relayvm.base.source import Span
from relayvm.compiler.rewriting.build import call, constant, folded, tensor
from relayvm.ir.equal import structural_equal
from relayvm.ir.expr import AttrValue, Constant, Expr
from relayvm.ops import OPS


@dataclass(frozen=True, slots=True)
class Target:
    """The scale, zero point, dtype and axis that a `quantize` wants."""

    scale: Expr
    zero_point: Expr
    dtype: DType
    axis: int


@dataclass(frozen=True, slots=True)
class Affine:
    """The floats `(integers - zero_point) * scale`; scales may differ along `axis`.

    `wants_target` tells that it was made for the scale of the `quantize` that asked.
    """

    integers: Expr
    scale: Expr
    zero_point: Expr
    axis: int
    wants_target: bool = False

    @property
    def dtype(self) -> DType:
        """The dtype of the integers."""
        return tensor(self.integers).dtype

    @property
    def is_uniform(self) -> bool:
        """True if one scale and zero point hold for all elements."""
        return all(
            all(d == 1 for d in tensor(part).shape) for part in (self.scale, self.zero_point)
        )

    @property
    def is_centered(self) -> bool:
        """True if 0 stands for 0."""
        return isinstance(self.zero_point, Constant) and not np.any(readable(self.zero_point.data))

    def with_integers(self, integers: Expr) -> Affine:
        """Return other numbers with the same scale and zero point."""
        return replace(self, integers=integers)

    def as_floats(self, span: Span | None) -> Expr:
        """Return what the integers stand for."""
        args = (self.integers, self.scale, self.zero_point)
        return call("qnn.dequantize", args, span, axis=self.axis)

    def fits(self, target: Target) -> bool:
        """Return True if this is already what a `quantize` wants."""
        same_axis = self.is_uniform or self.axis == target.axis
        return self.dtype is target.dtype and same_axis and self.has_scale_of(target)

    def has_scale_of(self, other: Target | Affine) -> bool:
        """Return True if scale and zero point are the same."""
        return same_numbers(self.scale, other.scale) and same_numbers(
            self.zero_point, other.zero_point
        )

    def requantized(self, target: Target, span: Span | None) -> Affine:
        """Return the same numbers with the scale and dtype of a target."""
        if self.fits(target):
            return self
        operands = {
            "data": self.integers,
            "input_scale": self.scale,
            "input_zero_point": self.zero_point,
            "output_scale": target.scale,
            "output_zero_point": target.zero_point,
        }
        axis = target.axis if self.is_uniform else self.axis
        made = quantized("qnn.requantize", operands, span, axis=axis, out_dtype=target.dtype)
        return Affine(made, target.scale, target.zero_point, target.axis, self.wants_target)


def quantized(
    name: str, operands: Mapping[str, Expr], span: Span | None, **attrs: AttrValue
) -> Expr:
    """Return a call with operands by name."""
    return call(name, [operands[row.name] for row in OPS[name].operands], span, **attrs)


def product(a: Expr, b: Expr) -> Expr:
    """Return the product of two scales."""
    return folded(call("multiply", (a, b), a.span))


def no_offset() -> Constant:
    """Return the zero point 0."""
    return constant(0, INT32)


def quantized_constant(value: Constant, target: Target | Affine, dtype: DType) -> Constant | None:
    """Return a constant of floats as integers with a uniform scale, or None."""
    scale, offset = target.scale, target.zero_point
    if not isinstance(scale, Constant) or not isinstance(offset, Constant):
        return None
    if scale.data.size != 1 or offset.data.size != 1 or value.data.dtype != np.float32:
        return None
    attrs: dict[str, Any] = {"out_dtype": dtype}
    args = [value.data, scale.data.reshape(()), offset.data.reshape(())]
    data = OPS["qnn.quantize"].evaluate(args, attrs)
    return constant(data, dtype)


def same_numbers(a: Expr, b: Expr) -> bool:
    """Return True if two expressions are known to be equal, scales up to rounding."""
    if a is b:
        return True
    if isinstance(a, Constant) and isinstance(b, Constant):
        x, y = readable(a.data), readable(b.data)
        if x.size == y.size == 1:
            x, y = x.reshape(()), y.reshape(())
        tolerance = 1e-5 if a.data.dtype == FLOAT32.numpy else 0
        return x.shape == y.shape and bool(np.allclose(x, y, rtol=tolerance, atol=0))
    return structural_equal(a, b)
