"""Fourier transforms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from relayvm.base.dims import Dim, dim_add, dim_floordiv, dim_max, dim_mul, dim_sub
from relayvm.base.dtypes import FLOAT64, DType, dtype_of
from relayvm.base.shapes import ShapeError, require_equal
from relayvm.ir.types import TensorType, TupleType
from relayvm.kernels import compute as te
from relayvm.kernels.compute import ScalarExpr, Tensor
from relayvm.ops.axes import product, require_rank
from relayvm.ops.fourier import transformed
from relayvm.ops.fourier_squares import Square, transformed_squares
from relayvm.ops.loads import Index, load_wide, wide
from relayvm.ops.numeric import Array
from relayvm.ops.operator import Fusion, operator
from relayvm.ops.reshaping import flattened, unflattened
from relayvm.ops.schema import Dims, Float, SameDtype, like


def _angle(turns: ScalarExpr, size: Dim) -> ScalarExpr:
    """Return the angle of a number of `size`-ths of a full turn, whole turns left out."""
    part = te.cast(turns % te.dim(size), FLOAT64)
    return te.scalar("divide", part * (2 * math.pi), te.cast(te.dim(size), FLOAT64))


def _wave(name: str, turns: ScalarExpr, size: Dim, dtype: DType) -> ScalarExpr:
    return te.cast(te.scalar(name, _angle(turns, size)), dtype)


def _waves(first: int, second: int, size: int, dtype: np.dtype[Any]) -> tuple[Array, Array]:
    """Return cosines and sines of `i * k` parts of a turn, a row for each i."""
    turns = np.outer(np.arange(first), np.arange(second)) % max(size, 1)
    angles = turns.astype(np.float64) * (2 * math.pi) / max(size, 1)
    return np.cos(angles).astype(dtype), np.sin(angles).astype(dtype)


@operator("dft", fusion=Fusion.REDUCTION, ulp=4)
def dft(re_data: Float, im_data: SameDtype, *, inverse: bool = False) -> TupleType:
    """The discrete Fourier transform along the last axis, real and imaginary parts; with `inverse`
    the inverse.

    A line with an element that is not finite is NaN throughout.

    >>> %r = float32 [1, 2]
    >>> %i = float32 [0, 0]
    >>> dft(%r, %i).0
    [3, -1]
    """
    require_rank(re_data, 1, 99, "`re_data` of `dft`")
    require_rank(im_data, re_data.rank, re_data.rank, "`im_data` of `dft`")
    for axis, (a, b) in enumerate(zip(re_data.shape, im_data.shape)):
        require_equal(a, b, f"axis {axis} of the operands of `dft`")
    return TupleType((re_data, im_data))


@dft.numpy
def _(re_data: Array, im_data: Array, *, inverse: bool) -> tuple[Array, ...]:
    kind, size = wide(dtype_of(re_data.dtype)).numpy, re_data.shape[-1]
    c, s = _waves(size, size, size, kind)
    s = s if inverse else -s
    re, im = re_data.astype(kind)[..., None, :], im_data.astype(kind)[..., None, :]
    parts = (re * c - im * s).sum(-1), (re * s + im * c).sum(-1)
    factor = kind.type(1 / size if inverse and size else 1)
    lost = ~(np.isfinite(re_data) & np.isfinite(im_data)).all(-1, keepdims=True)
    parts = tuple(np.where(lost, kind.type(np.nan), p) for p in parts)
    return tuple((p * factor).astype(re_data.dtype) for p in parts)


@dft.compute
def _(re_data: Tensor, im_data: Tensor, *, inverse: bool) -> tuple[Tensor, ...]:
    kind = wide(re_data.dtype)
    found = _transformed(_as(re_data, kind), _as(im_data, kind), inverse)
    return tuple(_as(f, re_data.dtype) for f in found)


def _transformed(re: Tensor, im: Tensor, inverse: bool) -> tuple[Tensor, ...]:
    """Return the transform of each line along the last axis, its real and imaginary part."""
    square = Square.of(re.shape[-1], re.dtype)
    if square is not None:
        return transformed_squares(re, im, square, inverse)
    found = transformed(_columns(re), _columns(im), inverse)
    return tuple(_lines(f, re.shape) for f in found)


def _as(data: Tensor, dtype: DType) -> Tensor:
    if data.dtype == dtype:
        return data
    return te.compute(data.shape, lambda *i: te.cast(data[i], dtype), "dft")


def _columns(data: Tensor) -> Tensor:
    """Return the lines of a tensor as columns of a matrix."""
    size, others = data.shape[-1], data.shape[:-1]

    def element(k: ScalarExpr, line: ScalarExpr) -> ScalarExpr:
        return data[unflattened(line, others) + (k,)]

    return te.compute((size, product(others)), element, "columns")


def _lines(columns: Tensor, shape: Dims) -> Tensor:
    """Return the columns of a matrix as the lines of a tensor."""

    def element(*i: ScalarExpr) -> ScalarExpr:
        return columns[i[-1], flattened(i[:-1], shape[:-1])]

    return te.compute(shape, element, "dft")


@dft.reduction_size
def _(re_data: TensorType, im_data: TensorType, *, inverse: bool) -> Dim:
    return dim_mul(re_data.shape[-1], 2)


# -- Short-time transforms ----------------------------------------------------------------------


@operator("stft", fusion=Fusion.REDUCTION, ulp=4)
def stft(
    data: Float,
    window: SameDtype,
    *,
    n_fft: int,
    hop_length: int,
    win_length: int,
    normalized: bool = False,
    onesided: bool = True,
) -> TensorType:
    """Fourier transforms of windows of `data`, `hop_length` apart: axes are the batch, if there is
    one, frequencies, windows, and real and imaginary part.

    Windows fit into `n_fft` elements and have the weights `window`; a shorter one has frequencies
    of its own length, `win_length`, where torch fills it with zeros. With `onesided` they
    end at the middle; with `normalized` all is divided by the root of `n_fft`. What belongs to a
    window with an element that is not finite is NaN.

    >>> %x = float32 [1, 2, 3, 4, 5, 6]
    >>> %w = float32 [4, 3]
    >>> stft(%x, %w, n_fft=2, hop_length=4, win_length=2)
    [[[10, 0], [38, 0]], [[-2, 0], [2, 0]]]
    """
    require_rank(data, 1, 2, "`data` of `stft`")
    require_rank(window, 1, 1, "`window` of `stft`")
    if min(n_fft, hop_length, win_length) < 1 or win_length > n_fft:
        raise ShapeError(
            f"`stft` got `n_fft` {n_fft}, `hop_length` {hop_length} and `win_length` {win_length}",
            "bad-attribute",
        )
    require_equal(window.shape[0], win_length, "the length of `window` and `win_length`")
    return TensorType(_spectrum(data.shape, n_fft, hop_length, onesided), data.dtype)


def _spectrum(shape: Dims, n_fft: int, hop: int, onesided: bool) -> Dims:
    frames = dim_max(dim_floordiv(dim_add(dim_sub(shape[-1], n_fft), hop), hop), 0)
    return (*shape[:-1], n_fft // 2 + 1 if onesided else n_fft, frames, 2)


def _scale(attrs: dict[str, Any]) -> float:
    return 1 / math.sqrt(attrs["n_fft"]) if attrs["normalized"] else 1.0


@stft.numpy
@like(stft.rule)
def _(data: Array, window: Array, **attrs: Any) -> Array:
    kind = wide(dtype_of(data.dtype)).numpy
    shape = _spectrum(data.shape, attrs["n_fft"], attrs["hop_length"], attrs["onesided"])
    rows, frames, size = int(str(shape[-3])), int(str(shape[-2])), attrs["win_length"]
    c, s = _waves(rows, size, size, kind)
    starts = np.arange(frames)[:, None] * attrs["hop_length"] + np.arange(size)
    pieces = data.astype(kind)[..., starts] * window.astype(kind)
    pieces = pieces[..., None, :, :]
    parts = (pieces * c[:, None, :]).sum(-1), -(pieces * s[:, None, :]).sum(-1)
    result = np.stack(parts, -1) * kind.type(_scale(attrs))
    lost = ~np.isfinite(pieces).all(-1)[..., None]
    return np.asarray(np.where(lost, kind.type(np.nan), result).astype(data.dtype))


@stft.compute
@like(stft.rule)
def _(data: Tensor, window: Tensor, **attrs: Any) -> Tensor:
    shape = _spectrum(data.shape, attrs["n_fft"], attrs["hop_length"], attrs["onesided"])
    size, kind = attrs["win_length"], wide(data.dtype)
    frames = (*shape[:-3], shape[-2], size)

    def weighted(*i: ScalarExpr) -> ScalarExpr:
        value = load_wide(data, (*i[:-2], i[-2] * attrs["hop_length"] + i[-1]))
        return value * load_wide(window, (i[-1],))

    def nothing(*i: ScalarExpr) -> ScalarExpr:
        return te.const(0.0, kind)

    re = te.compute(frames, weighted, "frames")
    parts = _transformed(re, te.compute(frames, nothing, "nothing"), False)

    def element(*i: ScalarExpr) -> ScalarExpr:
        *outer, row, frame, part = i
        place = (*outer, frame, row % size)
        value = te.select(part.equal(0), parts[0][place], parts[1][place])
        return te.cast(value * _scale(attrs), data.dtype)

    return te.compute(shape, element, "stft")


@stft.reduction_size
@like(stft.rule)
def _(data: TensorType, window: TensorType, **attrs: Any) -> Dim:
    return int(attrs["win_length"]) * 2


@operator("stft_grad", fusion=Fusion.REDUCTION, ulp=8)
def stft_grad(
    grad: Float,
    data: SameDtype,
    window: SameDtype,
    *,
    n_fft: int,
    hop_length: int,
    win_length: int,
    normalized: bool = False,
    onesided: bool = True,
) -> TupleType:
    """The gradients of `data` and of `window` of the same `stft`.

    >>> %g = float32 [[[1, 0], [1, 0]], [[0, 0], [0, 0]]]
    >>> %x = float32 [1, 2, 3, 4, 5, 6]
    >>> %w = float32 [4, 3]
    >>> stft_grad(%g, %x, %w, n_fft=2, hop_length=4, win_length=2).1
    [6, 8]
    """
    given = {"n_fft": n_fft, "hop_length": hop_length, "win_length": win_length}
    wanted = stft.rule(data, window, **given, normalized=normalized, onesided=onesided)
    assert isinstance(wanted, TensorType)
    require_rank(grad, wanted.rank, wanted.rank, "`grad` of `stft_grad`")
    for axis, (a, b) in enumerate(zip(grad.shape, wanted.shape)):
        require_equal(a, b, f"axis {axis} of `grad` and of what `stft` returns")
    return TupleType((data, window))


@stft_grad.numpy
@like(stft_grad.rule)
def _(grad: Array, data: Array, window: Array, **attrs: Any) -> tuple[Array, ...]:
    kind, size = wide(dtype_of(data.dtype)).numpy, attrs["win_length"]
    rows, frames = grad.shape[-3:-1]
    c, s = _waves(rows, size, size, kind)
    g = grad.astype(kind)[..., None, :]
    # Axes: batch, row, frame, place in the window.
    terms = g[..., 0] * c[:, None, :] - g[..., 1] * s[:, None, :]
    slopes = terms.sum(-3) * kind.type(_scale(attrs))
    starts = np.arange(frames)[:, None] * attrs["hop_length"] + np.arange(size)
    x = data.astype(kind)
    of_window = (slopes * x[..., starts]).reshape(-1, size).sum(0)
    of_data = np.zeros(x.shape, kind)
    places: Any = (Ellipsis, starts)
    np.add.at(of_data, places, slopes * window.astype(kind))
    return of_data.astype(data.dtype), of_window.astype(window.dtype)


@stft_grad.compute
@like(stft_grad.rule)
def _(grad: Tensor, data: Tensor, window: Tensor, **attrs: Any) -> tuple[Tensor, ...]:
    kind, size, hop = wide(data.dtype), attrs["win_length"], attrs["hop_length"]
    batch, (rows, frames) = data.shape[:-1], grad.shape[-3:-1]

    def slope(*i: ScalarExpr) -> ScalarExpr:
        frame, k = i[-2:]

        def term(row: ScalarExpr) -> ScalarExpr:
            at = (*i[:-2], row, frame)
            re, im = (load_wide(grad, (*at, te.dim(part))) for part in (0, 1))
            turns = row * k
            return re * _wave("cos", turns, size, kind) - im * _wave("sin", turns, size, kind)

        return te.reduce("sum", (rows,), term) * _scale(attrs)

    slopes = te.compute((*batch, frames, size), slope, "slopes")

    def of_data(*i: ScalarExpr) -> ScalarExpr:
        def term(frame: ScalarExpr) -> ScalarExpr:
            place = i[-1] - frame * hop
            at = te.index(place, size, "clip")
            value = slopes[i[:-1] + (frame, at)] * load_wide(window, (at,))
            return te.select(te.in_range(place, size), value, 0)

        return te.cast(te.reduce("sum", (frames,), term), data.dtype)

    def of_window(k: ScalarExpr) -> ScalarExpr:
        def term(*r: ScalarExpr) -> ScalarExpr:
            outer: Index = r[:-1]
            return slopes[r + (k,)] * load_wide(data, (*outer, r[-1] * hop + k))

        return te.cast(te.reduce("sum", (*batch, frames), term), window.dtype)

    return (
        te.compute(data.shape, of_data, "data_grad"),
        te.compute(window.shape, of_window, "window_grad"),
    )


@stft_grad.reduction_size
@like(stft_grad.rule)
def _(grad: TensorType, data: TensorType, window: TensorType, **attrs: Any) -> Dim:
    return dim_mul(dim_mul(grad.shape[-3], grad.shape[-2]), 4)


OPERATORS = (dft, stft, stft_grad)
