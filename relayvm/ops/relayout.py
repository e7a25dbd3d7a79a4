"""Operators that arrange elements by named layouts, and the reshape that counts from the right."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from relayvm.base.dims import Dim, dim_floordiv, dim_mod, dim_mul
from relayvm.base.shapes import ShapeError, require_equal
from relayvm.ir.types import TensorType
from relayvm.kernels import compute as te
from relayvm.kernels.compute import ScalarExpr, Tensor
from relayvm.ops.axes import sizes_of
from relayvm.ops.numeric import Array
from relayvm.ops.operator import Fusion, operator
from relayvm.ops.reshaping import reindexed, reshaped
from relayvm.ops.schema import AnyTensor, Dims

_AXIS = re.compile(r"([1-9]\d*)?([A-Za-z])")


@dataclass(frozen=True, slots=True)
class BlockedLayout:
    """Axes of a layout such as NCHW4c: letters, with the size of those that are parts of others."""

    text: str
    axes: tuple[tuple[str, int | None], ...]

    @property
    def letters(self) -> frozenset[str]:
        """The letters of the whole axes."""
        return frozenset(letter for letter, size in self.axes if size is None)

    def block(self, letter: str) -> int:
        """Return the size of the inner part of an axis, 1 where it is whole."""
        return next((size for a, size in self.axes if a == letter and size is not None), 1)

    def place(self, letter: str, inner: bool) -> int | None:
        """Return where an axis, or its inner part, stands."""
        places = (k for k, (a, size) in enumerate(self.axes) if a == letter)
        return next((k for k in places if (self.axes[k][1] is not None) == inner), None)


def read_blocked_layout(text: str, what: str) -> BlockedLayout:
    """Return the layout that a text names; raises ShapeError `bad-attribute`."""
    axes: list[tuple[str, int | None]] = []
    position = 0
    while position < len(text):
        match = _AXIS.match(text, position)
        if match is None or bool(match.group(1)) != match.group(2).islower():
            message = f"{what} is {text!r}: capitals are axes, a number and a small letter a part"
            raise ShapeError(message, "bad-attribute")
        axes.append((match.group(2).upper(), int(match.group(1)) if match.group(1) else None))
        position = match.end()
    layout = BlockedLayout(text, tuple(axes))
    kinds = [(letter, size is None) for letter, size in axes]
    if len(set(kinds)) < len(kinds) or {a for a, _ in axes} != layout.letters:
        message = f"{what} is {text!r}: each axis stands there once, a part only beside its axis"
        raise ShapeError(message, "bad-attribute")
    return layout


def _layouts(src_layout: str, dst_layout: str, rank: int) -> tuple[BlockedLayout, BlockedLayout]:
    source = read_blocked_layout(src_layout, "`src_layout` of `layout_transform`")
    target = read_blocked_layout(dst_layout, "`dst_layout` of `layout_transform`")
    if source.letters != target.letters:
        message = f"layouts {src_layout!r} and {dst_layout!r} have different axes"
        raise ShapeError(message, "bad-attribute")
    if len(source.axes) != rank:
        message = f"`src_layout` {src_layout!r} of `layout_transform` does not fit a rank of {rank}"
        raise ShapeError(message, "bad-attribute")
    return source, target


def _extents(shape: Dims, source: BlockedLayout) -> dict[str, Dim]:
    """Return the sizes of whole axes."""
    extents: dict[str, Dim] = {}
    for letter in source.letters:
        outer, inner = source.place(letter, False), source.place(letter, True)
        assert outer is not None
        extents[letter] = shape[outer]
        if inner is not None:
            block = source.block(letter)
            require_equal(shape[inner], block, f"axis {inner} of `data` and {source.text!r}")
            extents[letter] = dim_mul(shape[outer], block)
    return extents


def _target_shape(shape: Dims, source: BlockedLayout, target: BlockedLayout) -> Dims:
    extents = _extents(shape, source)
    sizes: list[Dim] = []
    for letter, size in target.axes:
        if size is not None:
            sizes.append(size)
            continue
        block = target.block(letter)
        what = f"remainder of axis {letter} by its part in {target.text!r} and 0"
        require_equal(dim_mod(extents[letter], block), 0, what)
        sizes.append(dim_floordiv(extents[letter], block))
    return tuple(sizes)


@operator("layout_transform", fusion=Fusion.INJECTIVE)
def layout_transform(data: AnyTensor, *, src_layout: str, dst_layout: str) -> TensorType:
    """`data` with the axes of `src_layout` in the order of `dst_layout`.

    `4c` names the inner part, of 4, of the axis `C`: parts are split off or joined again.

    >>> %x = int32 [[1, 2, 3, 4]]
    >>> layout_transform(%x, src_layout="NC", dst_layout="CN2c")
    [[[1, 2]], [[3, 4]]]
    """
    source, target = _layouts(src_layout, dst_layout, data.rank)
    return TensorType(_target_shape(data.shape, source, target), data.dtype)


@layout_transform.numpy
def _(data: Array, *, src_layout: str, dst_layout: str) -> Array:
    source, target = _layouts(src_layout, dst_layout, data.ndim)
    letters = sorted(source.letters)

    def order(layout: BlockedLayout) -> list[int]:
        places = (layout.place(letter, inner) for letter in letters for inner in (False, True))
        return [p for p in places if p is not None]

    extents = _extents(data.shape, source)
    whole = data.transpose(order(source)).reshape([int(str(extents[a])) for a in letters])
    shape = sizes_of(_target_shape(data.shape, source, target))
    parts = whole.reshape([shape[k] for k in order(target)])
    return np.asarray(parts.transpose(np.argsort(order(target))))


@layout_transform.compute
def _(data: Tensor, *, src_layout: str, dst_layout: str) -> Tensor:
    source, target = _layouts(src_layout, dst_layout, data.rank)

    def element(*i: ScalarExpr) -> ScalarExpr:
        places = {letter: _whole_place(i, target, letter) for letter in source.letters}
        return data[tuple(_part(places[a], source, a, size) for a, size in source.axes)]

    return te.compute(_target_shape(data.shape, source, target), element, "layout_transform")


def _whole_place(i: Sequence[ScalarExpr], layout: BlockedLayout, letter: str) -> ScalarExpr:
    outer, inner = layout.place(letter, False), layout.place(letter, True)
    assert outer is not None
    return i[outer] if inner is None else i[outer] * layout.block(letter) + i[inner]


def _part(place: ScalarExpr, layout: BlockedLayout, letter: str, size: int | None) -> ScalarExpr:
    block = layout.block(letter)
    if block == 1 and layout.place(letter, True) is None:
        return place
    return place % te.dim(block) if size is not None else place // te.dim(block)


@operator("contrib_reverse_reshape", fusion=Fusion.INJECTIVE)
def contrib_reverse_reshape(
    data: AnyTensor, *, newshape: Dims, allowzero: bool = False
) -> TensorType:
    """The elements of `data` in another shape, whose codes (see `reshape`; not -4) are read from
    the right.

    >>> %x = int32 [[1, 2], [3, 4], [5, 6]]
    >>> contrib_reverse_reshape(%x, newshape=[-1, 0])
    [[1, 2], [3, 4], [5, 6]]
    """
    return TensorType(_reversed_shape(data.shape, newshape, allowzero), data.dtype)


def _reversed_shape(shape: Dims, newshape: Dims, allowzero: bool) -> Dims:
    if -4 in newshape:
        raise ShapeError("`contrib_reverse_reshape` has no code -4", "bad-attribute")
    return reshaped(shape[::-1], newshape[::-1], allowzero)[::-1]


@contrib_reverse_reshape.numpy
def _(data: Array, *, newshape: Dims, allowzero: bool) -> Array:
    return data.reshape(sizes_of(_reversed_shape(data.shape, newshape, allowzero)))


@contrib_reverse_reshape.compute
def _(data: Tensor, *, newshape: Dims, allowzero: bool) -> Tensor:
    return reindexed(data, _reversed_shape(data.shape, newshape, allowzero), "reshape")


OPERATORS = (contrib_reverse_reshape, layout_transform)
