"""Products of integers of few bits, and words that bits of neighbours are packed into."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from relayvm.base.dims import Dim, dim_floordiv, dim_mod, dim_mul
from relayvm.base.dtypes import BY_NAME, INT8, INT32, INT64, UINT8, DType
from relayvm.base.shapes import ShapeError, require_equal
from relayvm.ir.types import TensorType
from relayvm.kernels import compute as te
from relayvm.kernels.compute import ScalarExpr, Tensor
from relayvm.ops.axes import require_axis, require_rank
from relayvm.ops.composing import Composer, defined_by
from relayvm.ops.numeric import Array
from relayvm.ops.operator import Fusion, operator
from relayvm.ops.quantized import named_type
from relayvm.ops.schema import Dims, Integer, Ints, like

_PACK, _DENSE, _CONV = "nn.bitpack", "nn.bitserial_dense", "nn.bitserial_conv2d"
_NO_GRADIENT = "integers have no derivative"
_WORDS = ("uint8", "uint16", "uint32", "uint64")
_WORD = BY_NAME["uint32"]


def _require_bits(name: str, attribute: str, bits: int, most: int) -> None:
    if not 1 <= bits <= most:
        message = f"`{attribute}` of `{name}` must be 1 to {most}, got {bits}"
        raise ShapeError(message, "bad-attribute")


def _word(name: str, attribute: str, given: DType | None) -> DType:
    """Return the dtype that bits are packed into."""
    word = given or _WORD
    if word.name not in _WORDS:
        message = f"`{attribute}` of `{name}` must be an unsigned integer, got {word}"
        raise ShapeError(message, "dtype-mismatch")
    return word


# -- Words ----------------------------------------------------------------------------------------


@operator(_PACK, fusion=Fusion.REDUCTION, ignored=("name",), no_gradient=_NO_GRADIENT)
def bitpack(
    data: Integer,
    *,
    bits: int = 1,
    pack_axis: int = 1,
    bit_axis: int = -1,
    pack_type: DType | None = None,
) -> TensorType:
    """The lowest `bits` of elements, those of neighbours along `pack_axis` in one word.

    Words are `pack_type`, uint32 where it is not given; the first of the neighbours is the highest
    bit. The result has one more axis: along `bit_axis` it has one word for each bit, the lowest
    first.

    >>> %x = int32 [[1, 0, 3, 2, 0, 0, 1, 1]]
    >>> nn.bitpack(%x, bits=2, pack_type="uint8")
    [[[163, 48]]]
    """
    _require_bits(_PACK, "bits", bits, data.dtype.bits)
    word = _word(_PACK, "pack_type", pack_type)
    at = require_axis(pack_axis, data.rank, f"`pack_axis` of `{_PACK}`")
    to = require_axis(bit_axis, data.rank + 1, f"`bit_axis` of `{_PACK}`")
    what = f"size of axis {at} of `data` of `{_PACK}` modulo the bits of a word, and 0,"
    require_equal(dim_mod(data.shape[at], word.bits), 0, what)
    shape = list(data.shape)
    shape[at] = dim_floordiv(shape[at], word.bits)
    shape.insert(to, bits)
    return TensorType(tuple(shape), word)


@bitpack.numpy
@like(bitpack.rule)
def _(data: Array, **attrs: Any) -> Array:
    word = _word(_PACK, "pack_type", attrs["pack_type"])
    at, bits = attrs["pack_axis"] % data.ndim, attrs["bits"]
    shape = (*data.shape[:at], data.shape[at] // word.bits, word.bits, *data.shape[at + 1 :])
    apart = np.moveaxis(data.reshape(shape), at + 1, -1)
    high = np.arange(word.bits, dtype=word.numpy)[::-1]
    planes = []
    for bit in range(bits):
        single = ((apart >> data.dtype.type(bit)) & data.dtype.type(1)).astype(word.numpy)
        planes.append((single << high).sum(-1, dtype=word.numpy))
    return np.stack(planes, axis=attrs["bit_axis"] % (data.ndim + 1))


@bitpack.compute
@like(bitpack.rule)
def _(data: Tensor, **attrs: Any) -> Tensor:
    word = _word(_PACK, "pack_type", attrs["pack_type"])
    at, to = attrs["pack_axis"] % data.rank, attrs["bit_axis"] % (data.rank + 1)
    shape = list(data.shape)
    shape[at] = dim_floordiv(shape[at], word.bits)
    shape.insert(to, attrs["bits"])

    def element(*i: ScalarExpr) -> ScalarExpr:
        bit, rest = te.cast(i[to], data.dtype), list(i[:to] + i[to + 1 :])

        def term(k: ScalarExpr) -> ScalarExpr:
            place = (*rest[:at], rest[at] * word.bits + k, *rest[at + 1 :])
            single = te.scalar("bitwise_and", te.scalar("right_shift", data[place], bit), 1)
            return te.scalar("left_shift", te.cast(single, word), te.cast(word.bits - 1 - k, word))

        return te.reduce("sum", (word.bits,), term)

    return te.compute(tuple(shape), element, "bitpack")


# -- Products -------------------------------------------------------------------------------------
#
# The original multiplies words by counting bits. Here numbers of few bits are bytes, of which the
# kernels of products are made; what is packed is unpacked first.


def _unpacked_shape(weight: TensorType, axis: int) -> Dims:
    """Return the shape of a weight whose last axis is one of bits, packed along an axis."""
    shape = list(weight.shape[:-1])
    shape[axis] = dim_mul(shape[axis], weight.dtype.bits)
    return tuple(shape)


def _unpacked(c: Composer, weight: Any, given: TensorType, axis: int, bits: int) -> Any:
    """Return the numbers of a packed weight, whose last axis is that of bits, as int64."""
    word, after = given.dtype, given.rank - 1 - axis
    shifts = c.vector(range(word.bits - 1, -1, -1), word)
    shifts = c("reshape", shifts, newshape=(word.bits, *(1,) * after))
    apart = c("expand_dims", weight, axis=axis + 1)
    apart = c("bitwise_and", c("right_shift", apart, shifts), c.number(1, word))
    apart = c("left_shift", c("cast", apart, dtype=INT64), c.vector(range(bits), INT64))
    # Merged before they are summed: what is computed of the sums then has no part in this.
    apart = c("reshape", apart, newshape=(*(0,) * axis, -3, *(0,) * after))
    return c("sum", apart, axis=(-1,))


def _require_packed(name: str, weight: TensorType, attrs: dict[str, Any]) -> None:
    """Check a weight of words: one word for each bit along its last axis."""
    word = _word(name, "pack_dtype", attrs["pack_dtype"])
    if attrs["pack_dtype"] is None:
        word = _word(name, "dtype of `weight`", weight.dtype)
    if weight.dtype is not word:
        message = f"`weight` of `{name}` must be {word} as `pack_dtype` is, got {weight.dtype}"
        raise ShapeError(message, "dtype-mismatch")
    what = f"bits of `weight` of `{name}` and `weight_bits`"
    require_equal(weight.shape[-1], attrs["weight_bits"], what)


def _dtype(name: str, data: TensorType, attrs: dict[str, Any]) -> DType:
    """Check what both layers have in common, and return the dtype of the result."""
    _word(name, "pack_dtype", attrs["pack_dtype"])
    _require_bits(name, "weight_bits", attrs["weight_bits"], 32)
    given: DType = attrs["out_dtype"] or data.dtype
    if not given.is_integer:
        message = f"`out_dtype` of `{name}` must be an integer, got {given}"
        raise ShapeError(message, "dtype-mismatch")
    return given


def _total(dtype: DType) -> DType:
    return INT64 if dtype.bits == 64 else INT32


def _lowest(c: Composer, x: Any, bits: int, total: DType) -> Any:
    """Return the lowest bits of integers, as integers of the dtype of the sum."""
    mask = (1 << bits) - 1
    if bits >= total.bits:
        return c("cast", x, dtype=total)
    return c("bitwise_and", c("cast", x, dtype=total), c.number(mask, total))


def _product(
    c: Composer, core: str, operands: tuple[Any, Any], bits: tuple[int, int], attrs: dict[str, Any]
) -> Any:
    """Return the layer `core` of the lowest bits of both operands.

    Where `unipolar` is set a bit b of a weight counts `2 b - 1`, so that the weight counts
    `2 w - (2^bits - 1)`.
    """
    dtype = attrs.pop("out_dtype")
    total = _total(dtype)
    data, weight = (_lowest(c, x, n, total) for x, n in zip(operands, bits))
    if attrs.pop("unipolar"):
        most = (1 << bits[1]) - 1
        weight = c("subtract", c("add", weight, weight), c.number(_wrapped(most, total), total))
    if total is INT32 and bits[0] <= 8 and bits[1] <= 7:
        data, weight = c("cast", data, dtype=UINT8), c("cast", weight, dtype=INT8)
    result = c(core, data, weight, **attrs, out_dtype=total)
    return result if dtype is total else c("cast", result, dtype=dtype)


def _wrapped(value: int, dtype: DType) -> int:
    """Return the integer of a signed dtype that has the lowest bits of `value`."""
    half = 1 << (dtype.bits - 1)
    return (value + half) % (2 * half) - half


@operator(_DENSE, fusion=Fusion.CONTRACTION, no_gradient=_NO_GRADIENT)
def bitserial_dense(
    data: Integer,
    weight: Integer,
    *,
    units: Dim | None = None,
    data_bits: int = 1,
    weight_bits: int = 1,
    pack_dtype: DType | None = None,
    out_dtype: DType | None = None,
    unipolar: bool = True,
) -> TensorType:
    """`nn.dense` of the lowest bits of integers, in arithmetic of `out_dtype` that wraps.

    With `unipolar` a bit of `weight` that is not set counts -1 instead of 0. `weight` is
    [units, k], or packed along k as `nn.bitpack` does it: [units, weight_bits, k / bits of a word].

    >>> %x = uint8 [[1, 1, 0]]
    >>> %w = uint8 [[1, 1, 1], [1, 0, 0]]
    >>> nn.bitserial_dense(%x, %w, out_dtype="int16")
    [[2, 0]]
    """
    attrs = {"weight_bits": weight_bits, "pack_dtype": pack_dtype, "out_dtype": out_dtype}
    dtype = _dtype(_DENSE, data, attrs)
    _require_bits(_DENSE, "data_bits", data_bits, 32)
    require_rank(weight, 2, 3, f"`weight` of `{_DENSE}`")
    if weight.rank == 3:
        turned = _bits_last(weight)
        _require_packed(_DENSE, turned, attrs)
        weight = TensorType(_unpacked_shape(turned, 1), weight.dtype)
    result = named_type(_DENSE, "nn.dense", [data, weight], {"units": units})
    assert isinstance(result, TensorType)
    return TensorType(result.shape, dtype)


def _bits_last(weight: TensorType) -> TensorType:
    return TensorType((weight.shape[0], weight.shape[2], weight.shape[1]), weight.dtype)


@defined_by(bitserial_dense)
def _(c: Composer, types: Sequence[Any], args: Sequence[Any], attrs: dict[str, Any]) -> Any:
    data, weight = args
    if types[1].rank == 3:
        turned = c("transpose", weight, axes=(0, 2, 1))
        weight = _unpacked(c, turned, _bits_last(types[1]), 1, attrs["weight_bits"])
    more = {
        "units": attrs["units"],
        "out_dtype": attrs["out_dtype"] or types[0].dtype,
        "unipolar": attrs["unipolar"],
    }
    bits = (attrs["data_bits"], attrs["weight_bits"])
    return _product(c, "nn.dense", (data, weight), bits, more)


@bitserial_dense.row_axis
@like(bitserial_dense.rule)
def _(data: TensorType, weight: TensorType, **attrs: Any) -> int:
    return 0 if data.rank > 1 else -1


@operator(_CONV, fusion=Fusion.CONTRACTION, no_gradient=_NO_GRADIENT)
def bitserial_conv2d(
    data: Integer,
    weight: Integer,
    *,
    strides: Ints = (1, 1),
    padding: Ints = (0, 0),
    channels: Dim | None = None,
    kernel_size: Dims = (3, 3),
    activation_bits: int = 1,
    weight_bits: int = 1,
    data_layout: str = "NCHW",
    kernel_layout: str = "OIHW",
    pack_dtype: DType | None = None,
    out_dtype: DType | None = None,
    unipolar: bool = True,
) -> TensorType:
    """`nn.conv2d` of the lowest bits of integers, in arithmetic of `out_dtype` that wraps.

    With `unipolar` a bit of `weight` that is not set counts -1 instead of 0. `weight` may be packed
    along its input channels as `nn.bitpack` does it, its axis of bits the last one, or where `i`
    stands in `kernel_layout`.

    >>> %x = uint8 [[[[1, 0, 1, 1]]]]
    >>> %w = uint8 [[[[1, 0]]]]
    >>> nn.bitserial_conv2d(%x, %w, kernel_size=[1, 2], out_dtype="int16")
    [[[[1, -1, 0]]]]
    """
    attrs = {"weight_bits": weight_bits, "pack_dtype": pack_dtype, "out_dtype": out_dtype}
    dtype = _dtype(_CONV, data, attrs)
    _require_bits(_CONV, "activation_bits", activation_bits, 32)
    require_rank(weight, 4, 5, f"`weight` of `{_CONV}`")
    layout = kernel_layout
    if weight.rank == 5:
        layout, order = _packed_layout(kernel_layout)
        turned = TensorType(tuple(weight.shape[k] for k in order), weight.dtype)
        _require_packed(_CONV, turned, attrs)
        weight = TensorType(_unpacked_shape(turned, layout.index("I")), weight.dtype)
    more = {
        "strides": strides,
        "padding": padding,
        "channels": channels,
        "kernel_size": kernel_size,
        "data_layout": data_layout,
        "kernel_layout": layout,
    }
    result = named_type(_CONV, "nn.conv2d", [data, weight], more)
    assert isinstance(result, TensorType)
    return TensorType(result.shape, dtype)


def _packed_layout(text: str) -> tuple[str, tuple[int, ...]]:
    """Return the layout of a weight without its axis of bits, and the axes with that one last."""
    whole = text if "i" in text else f"{text}i"
    if sorted(whole) != sorted("OIHWi"):
        wanted = "must have the letters of `OIHWi` in any order"
        message = f"`kernel_layout` of `{_CONV}` {wanted}, got {text!r}"
        raise ShapeError(message, "bad-attribute")
    at = whole.index("i")
    return whole.replace("i", ""), (*(k for k in range(5) if k != at), at)


@defined_by(bitserial_conv2d)
def _(c: Composer, types: Sequence[Any], args: Sequence[Any], attrs: dict[str, Any]) -> Any:
    (data, weight), given = args, types[1]
    layout = attrs["kernel_layout"]
    if given.rank == 5:
        layout, order = _packed_layout(layout)
        turned = TensorType(tuple(given.shape[k] for k in order), given.dtype)
        weight = c("transpose", weight, axes=order)
        weight = _unpacked(c, weight, turned, layout.index("I"), attrs["weight_bits"])
    names = ("strides", "padding", "channels", "kernel_size", "data_layout", "unipolar")
    more = {name: attrs[name] for name in names}
    more |= {"kernel_layout": layout, "out_dtype": attrs["out_dtype"] or types[0].dtype}
    bits = (attrs["activation_bits"], attrs["weight_bits"])
    return _product(c, "nn.conv2d", (data, weight), bits, more)


OPERATORS = (bitpack, bitserial_conv2d, bitserial_dense)
