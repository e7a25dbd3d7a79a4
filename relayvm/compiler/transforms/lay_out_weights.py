"""Weights that are constants, laid out as kernels read them fastest.

Those of bytes are packed for instructions that sum products of four bytes; other matrices get the
contracted axis last. Late constants keep the layout that the program gives them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from relayvm.base.dtypes import INT8, INT32, UINT8, dtype_of
from relayvm.compiler.rewriting import CallRule, Site, rewrite_calls
from relayvm.compiler.rewriting.build import attrs_of, call, constant, is_call, tensor, typed_call
from relayvm.ir.expr import Attrs, Call, Constant, Expr
from relayvm.ir.module import Module
from relayvm.ir.types import TensorType
from relayvm.ops.numeric import Array
from relayvm.ops.operator import Operator

_BYTES = (INT8, UINT8)
COLUMNS, GROUP = 16, 4
# Shorter sums are faster with columns in lanes; there is little to be folded in packs.
SHORTEST_ROW = 64
LEAST_PACKED = 16


def lay_out_weights(module: Module, dots: str | None = None) -> Module:
    """Pack constant weights of bytes, and transpose matrices whose columns are long.

    `nn.matmul(%x, w)` -> `nn.matmul(%x, wt, transpose_b=True)`; where the target sums products of
    four bytes, `nn.dense(%x, w, out_dtype="int32")` of `int8` -> `nn.contrib_dense_pack(%x ^ 128,
    packs) - sums`, of `uint8` -> `nn.contrib_dense_pack(%x, packs) + sum(%x) * 128`, also where
    bytes were widened before. `dots` is what the target has for sums of small integers, by default
    that of the compilation: packs are for `mixed`.
    """
    layouts = _Layouts((module.attrs.get("dots") if dots is None else dots) == "mixed")
    rules = [
        CallRule("pack", "nn.dense", layouts.packed),
        CallRule("pack", "nn.matmul", layouts.packed),
        CallRule("transpose", "nn.matmul", layouts.transposed),
        CallRule("transpose", "nn.batch_matmul", layouts.transposed),
    ]
    return rewrite_calls(module, rules)


@dataclass(slots=True)
class _Layouts:
    """The rules; one constant is laid out once, however often it is used."""

    has_packs: bool
    known: dict[tuple[object, ...], tuple[Constant, Constant]] = field(default_factory=dict)

    def transposed(self, node: Call, site: Site) -> Expr | None:
        """Give the second operand its contracted axis last."""
        attrs, weight = attrs_of(node), node.args[1]
        if attrs["transpose_b"] or not isinstance(weight, Constant):
            return None
        if weight.data.shape[-2] < SHORTEST_ROW or weight.data.shape[-1] == 1:
            return None
        turned = self._once(weight, _turned)
        assert isinstance(node.op, Operator)
        new = Attrs({**node.attrs, "transpose_b": True})
        return typed_call(node.op, (node.args[0], turned), new, node.span)

    def packed(self, node: Call, site: Site) -> Expr | None:
        """Multiply bytes with packs of bytes."""
        attrs = attrs_of(node)
        data, weight = _bytes_of(node.args[0], site), self._weight(node.args[1], site)
        result = node.checked_type
        if not self.has_packs or data is None or not isinstance(weight, Constant):
            return None
        if attrs.get("transpose_a") or not isinstance(result, TensorType) or result.dtype != INT32:
            return None
        is_row_major = bool(attrs.get("transpose_b", True))
        units, inner = weight.data.shape if is_row_major else weight.data.shape[::-1]
        if min(units, inner) < LEAST_PACKED:
            return None
        signed = (tensor(data).dtype is INT8, weight.data.dtype == np.int8)
        if signed == (False, False):
            packs = self._once(weight, _signed_packs, is_row_major)
            product = _product(data, packs, units, node)
            return call("add", (product, _row_lack(data)), node.span)
        packs = self._once(weight, _packs, is_row_major)
        if signed != (True, True):
            return _product(data, packs, units, node)
        lack = self._once(weight, _lack, is_row_major)
        product = _product(_unsigned(data, site), packs, units, node)
        return call("subtract", (product, lack), node.span)

    def _weight(self, expr: Expr, site: Site) -> Expr | None:
        """Return a weight of bytes; one of int32 as bytes where all its numbers are such."""
        found = site.definition(expr)
        if isinstance(found, Constant) and found.data.dtype == np.int32 and found.data.size:
            if found.data.min() < -128 or found.data.max() > 127:
                return None
            return self._once(found, _narrowed)
        return _bytes_of(expr, site)

    def _once(
        self, weight: Constant, make: Callable[[Array], Array], is_row_major: bool = True
    ) -> Constant:
        key = (id(weight), make, is_row_major)
        if key not in self.known:
            data = np.ascontiguousarray(make(weight.data if is_row_major else weight.data.T))
            kind = TensorType(data.shape, dtype_of(data.dtype))
            self.known[key] = weight, Constant(data, span=weight.span, checked_type=kind)
        return self.known[key][1]


def _product(data: Expr, packs: Expr, units: int, node: Call) -> Expr:
    name = "nn.contrib_dense_pack"
    return call(name, (data, packs), node.span, units=units, out_dtype=INT32)


def _bytes_of(expr: Expr, site: Site) -> Expr | None:
    """Return the bytes that an operand is, or was widened from; else None."""
    found = site.definition(expr)
    if is_call(found, "cast") and isinstance(found, Call) and tensor(found).dtype == INT32:
        expr = found.args[0]
        found = site.definition(expr)
    expr = found if isinstance(found, Constant) else expr
    return expr if tensor(expr).dtype in _BYTES else None


def _unsigned(data: Expr, site: Site) -> Expr:
    """Return signed bytes plus 128; what they were where they are unsigned ones minus 128."""
    found = site.definition(data)
    if is_call(found, "bitwise_xor") and isinstance(found, Call):
        inner, by = (site.definition(arg) for arg in found.args)
        is_moved = isinstance(by, Constant) and by.data.ndim == 0 and by.data == -128
        if is_moved and is_call(inner, "reinterpret") and isinstance(inner, Call):
            plain = inner.args[0]
            if tensor(plain).dtype is UINT8:
                return plain
    plain = call("reinterpret", (data,), data.span, dtype=UINT8)
    return call("bitwise_xor", (plain, constant(128, UINT8)), data.span)


def _row_lack(data: Expr) -> Expr:
    """Return what results of unsigned bytes lack if each byte of the weight is 128 too small."""
    wide = call("cast", (data,), data.span, dtype=INT32)
    sums = call("sum", (wide,), data.span, axis=-1, keepdims=True)
    return call("multiply", (sums, constant(128, INT32)), data.span)


def _narrowed(data: Array) -> Array:
    return np.asarray(data.astype(np.int8))


def _turned(data: Array) -> Array:
    return np.asarray(np.swapaxes(data, -1, -2))


def _packs(weight: Array) -> Array:
    """Return a matrix [units, k] as [units / 16, k / 4, 16, 4], filled up with 0."""
    units, inner = weight.shape
    blocks, groups = -(-units // COLUMNS), -(-inner // GROUP)
    filled = np.zeros((blocks * COLUMNS, groups * GROUP), weight.dtype)
    filled[:units, :inner] = weight
    packs = filled.reshape(blocks, COLUMNS, groups, GROUP)
    return np.asarray(packs.transpose(0, 2, 1, 3))


def _signed_packs(weight: Array) -> Array:
    """Return the packs of unsigned bytes minus 128, which are signed ones."""
    return _packs((weight ^ np.uint8(128)).view(np.int8))


def _lack(weight: Array) -> Array:
    """Return by how much results are too large if each byte of data is 128 too large."""
    return np.asarray(np.int32(128) * weight.sum(axis=1, dtype=np.int32))
