"""Operators that keep the elements in order and change the axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from relayvm.base.abi import MAX_RANK
from relayvm.base.dims import AnyDim, Dim, DimExpr, dim_floordiv, dim_mod, dim_mul, dims_equal
from relayvm.base.shapes import ShapeError, require_equal
from relayvm.ir.expr import AttrValue
from relayvm.ir.types import TensorType
from relayvm.kernels import compute as te
from relayvm.kernels.compute import ScalarExpr, Tensor
from relayvm.ops.axes import product, require_axes, sizes_of
from relayvm.ops.loads import Index
from relayvm.ops.numeric import Array
from relayvm.ops.operator import Fusion, operator
from relayvm.ops.schema import AnyTensor, Dims, Ints


@dataclass(slots=True)
class _Reshaping:
    """One walk over the codes of a `newshape`: what came out, and which input axes are used up."""

    source: Dims
    used: int = 0
    result: list[Dim] = field(default_factory=list)
    inferred: int | None = None
    # Dims that went over unchanged: both products leave them out, so that `?` and symbols cancel.
    copied_in: set[int] = field(default_factory=set)
    copied_out: set[int] = field(default_factory=set)

    def take(self, code: int) -> Dim:
        """Return the next input dim."""
        if self.used >= len(self.source):
            raise ShapeError(f"`reshape` code {code} needs one more axis than {len(self.source)}")
        self.used += 1
        self.copied_in.add(self.used - 1)
        return self.source[self.used - 1]

    def put(self, dim: Dim, copied: bool = True) -> None:
        """Append a result dim."""
        if copied:
            self.copied_out.add(len(self.result))
        self.result.append(dim)

    def put_inferred(self) -> None:
        """Append the one dim that follows from the others."""
        if self.inferred is not None:
            raise ShapeError("`newshape` has two entries to be inferred (-1)", "bad-attribute")
        self.inferred = len(self.result)
        self.result.append(1)


def reshaped(source: Dims, newshape: Dims, allowzero: bool) -> Dims:
    """Return the shape that `newshape` with its codes means for `source`; leaves checks."""
    walk = _Reshaping(source)
    position = 0
    while position < len(newshape):
        code = newshape[position]
        position += 1
        if isinstance(code, AnyDim) or (isinstance(code, int) and code < -4):
            raise ShapeError(f"`newshape` has the illegal entry {code}", "bad-attribute")
        if code == 0 and not allowzero:
            walk.put(walk.take(0))
        elif code == -1:
            walk.put_inferred()
            walk.used += 1
        elif code == -2:
            while walk.used < len(source):
                walk.put(walk.take(-2))
        elif code == -3:
            walk.put(dim_mul(walk.take(-3), walk.take(-3)))
        elif code == -4:
            _split_axis(walk, newshape[position : position + 2])
            position += 2
        else:
            walk.put(code, copied=False)
            walk.used += 1
    return _balanced(walk)


def with_sizes_of_zero(attrs: Mapping[str, AttrValue]) -> Mapping[str, AttrValue]:
    """Return attributes of an operator for which a size by name, that is 0 in a run, is not taken
    for the code 0, where no other entry is that code.
    """
    entries = attrs.get("newshape")
    if not isinstance(entries, tuple) or "allowzero" not in attrs or 0 in entries:
        return attrs
    if not any(isinstance(entry, DimExpr) for entry in entries):
        return attrs
    return {**attrs, "allowzero": True}


def _split_axis(walk: _Reshaping, parts: Dims) -> None:
    """Apply code -4: the next axis is split in two, one of which may be -1."""
    if len(parts) != 2 or parts == (-1, -1):
        raise ShapeError("code -4 of `reshape` needs two sizes after it", "bad-attribute")
    for part in parts:
        if isinstance(part, AnyDim) or (isinstance(part, int) and part < -1):
            raise ShapeError(f"code -4 of `reshape` cannot split into {part}", "bad-attribute")
    whole = walk.take(-4)
    known = parts[1] if parts[0] == -1 else parts[0]
    rest = _quotient(whole, known, "the axis that code -4 splits and its parts")
    if -1 not in parts:
        rest = require_equal(parts[1], rest, "the second part of code -4 and what remains")
    for part in (rest, known) if parts[0] == -1 else (known, rest):
        walk.put(part)


def _quotient(whole: Dim, part: Dim, what: str) -> Dim:
    if part == 0:
        raise ShapeError(f"{what}: a size cannot be inferred beside 0")
    require_equal(dim_mod(whole, part), 0, f"remainder of {whole} by {part} ({what}) and 0")
    return dim_floordiv(whole, part)


def _balanced(walk: _Reshaping) -> Dims:
    """Return the result with its inferred dim; the numbers of elements agree or are checked."""
    total = product(d for i, d in enumerate(walk.source) if i not in walk.copied_in)
    others = product(
        d for i, d in enumerate(walk.result) if i not in walk.copied_out and i != walk.inferred
    )
    if walk.inferred is None:
        require_equal(total, others, "numbers of elements of `data` and `newshape`")
    else:
        what = "elements for the entry -1 of `newshape`"
        walk.result[walk.inferred] = _quotient(total, others, what)
    return tuple(walk.result)


@operator("reshape", fusion=Fusion.INJECTIVE)
def reshape(data: AnyTensor, *, newshape: Dims, allowzero: bool = False) -> TensorType:
    """The elements of `data` in row-major order in another shape.

    Entries of `newshape` that are not sizes: 0 takes the next axis over (with `allowzero` it is
    the size 0), -1 follows from the others, -2 takes all remaining axes over, -3 joins the next
    two axes, -4 splits the next axis into the two sizes that stand after it, one of which may be
    -1.

    >>> %x = int32 [[1, 2], [3, 4]]
    >>> reshape(%x, newshape=[-1])
    [1, 2, 3, 4]
    """
    return TensorType(reshaped(data.shape, newshape, allowzero), data.dtype)


@reshape.numpy
def _(data: Array, *, newshape: Dims, allowzero: bool) -> Array:
    return data.reshape(sizes_of(reshaped(data.shape, newshape, allowzero)))


@reshape.compute
def _(data: Tensor, *, newshape: Dims, allowzero: bool) -> Tensor:
    return reindexed(data, reshaped(data.shape, newshape, allowzero), "reshape")


def reindexed(data: Tensor, shape: Dims, name: str) -> Tensor:
    """Return the elements of `data` in row-major order in `shape`, which has as many.

    Axes that are as many elements in both are converted for themselves: from [n, 768] to
    [n, 12, 64] the row stays, and `[i, j, k]` is read at `[i, j * 64 + k]` without a division.
    """
    parts = _matching_axes(data.shape, shape)

    def element(*i: ScalarExpr) -> ScalarExpr:
        index: Index = ()
        for old, new in parts:
            axes = [k for k in new if shape[k] != 1]
            places = [k for k in old if data.shape[k] != 1]
            flat = flattened([i[k] for k in axes], [shape[k] for k in axes])
            long = iter(unflattened(flat, [data.shape[k] for k in places]))
            index += tuple(next(long) if k in places else te.dim(0) for k in old)
        return data[index]

    return te.compute(shape, element, name)


def _matching_axes(old: Dims, new: Dims) -> list[tuple[range, range]]:
    """Return which axes of two shapes of one number of elements follow from each other, in order:
    the smallest ranges of axes that are known to have as many elements.
    """
    if 0 in (*old, *new):
        return [(range(len(old)), range(len(new)))]
    parts: list[tuple[range, range]] = []
    a = b = 0
    for i in range(1, len(old)):
        for j in range(b, len(new) + 1):
            same_before = dims_equal(product(old[a:i]), product(new[b:j]))
            if same_before or dims_equal(product(old[i:]), product(new[j:])):
                parts.append((range(a, i), range(b, j)))
                a, b = i, j
                break
    return [*parts, (range(a, len(old)), range(b, len(new)))]


def flattened(index: Sequence[ScalarExpr], shape: Sequence[Dim]) -> ScalarExpr:
    """Return the row-major position of an index into `shape`."""
    if not index:
        return te.dim(0)
    flat = index[0]
    for value, extent in zip(index[1:], shape[1:]):
        flat = flat * te.dim(extent) + value
    return flat


def unflattened(flat: ScalarExpr, shape: Sequence[Dim]) -> Index:
    """Return the index into `shape` of a row-major position."""
    result: list[ScalarExpr] = []
    for axis in reversed(range(len(shape))):
        if axis == 0:
            result.append(flat)
        else:
            result.append(flat % te.dim(shape[axis]))
            flat = flat // te.dim(shape[axis])
    return tuple(reversed(result))


@operator("reshape_like", fusion=Fusion.INJECTIVE)
def reshape_like(
    data: AnyTensor,
    shape_like: AnyTensor,
    *,
    lhs_begin: int = 0,
    lhs_end: int | None = None,
    rhs_begin: int = 0,
    rhs_end: int | None = None,
) -> TensorType:
    """The elements of `data` in the shape of `shape_like`.

    Only the axes from `lhs_begin` to `lhs_end` of `data` are replaced, by those from `rhs_begin` to
    `rhs_end` of `shape_like`; ends are the ranks by default.

    >>> %x = int32 [1, 2, 3, 4]
    >>> %y = float32 [[0, 0], [0, 0]]
    >>> reshape_like(%x, %y)
    [[1, 2], [3, 4]]
    """
    shape = _reshaped_like(data.shape, shape_like.shape, (lhs_begin, lhs_end), (rhs_begin, rhs_end))
    return TensorType(shape, data.dtype)


Bounds = tuple[int, "int | None"]


def _reshaped_like(source: Dims, like: Dims, lhs: Bounds, rhs: Bounds) -> Dims:
    left = [_axis_bound("lhs", bound, len(source), k) for k, bound in enumerate(lhs)]
    right = [_axis_bound("rhs", bound, len(like), k) for k, bound in enumerate(rhs)]
    if left[0] > left[1] or right[0] > right[1]:
        raise ShapeError("a range of axes of `reshape_like` ends before it begins", "bad-attribute")
    old, new = source[left[0] : left[1]], like[right[0] : right[1]]
    what = "numbers of elements of `data` and `shape_like`"
    require_equal(product(old), product(new), what)
    return (*source[: left[0]], *new, *source[left[1] :])


def _axis_bound(side: str, bound: int | None, rank: int, which: int) -> int:
    """Return a begin or an end of axes counted from the front; there may be none behind it."""
    if bound is None:
        return rank * which
    if not -rank <= bound <= rank:
        name = f"`{side}_{('begin', 'end')[which]}` of `reshape_like`"
        raise ShapeError(f"{name} is {bound}, legal are {-rank} to {rank}", "bad-axis")
    return bound + rank if bound < 0 else bound


@reshape_like.numpy
def _(
    data: Array,
    shape_like: Array,
    *,
    lhs_begin: int,
    lhs_end: int | None,
    rhs_begin: int,
    rhs_end: int | None,
) -> Array:
    shape = _reshaped_like(data.shape, shape_like.shape, (lhs_begin, lhs_end), (rhs_begin, rhs_end))
    return data.reshape(sizes_of(shape))


@reshape_like.compute
def _(
    data: Tensor,
    shape_like: Tensor,
    *,
    lhs_begin: int,
    lhs_end: int | None,
    rhs_begin: int,
    rhs_end: int | None,
) -> Tensor:
    shape = _reshaped_like(data.shape, shape_like.shape, (lhs_begin, lhs_end), (rhs_begin, rhs_end))
    return reindexed(data, shape, "reshape_like")


@operator("expand_dims", fusion=Fusion.BROADCAST)
def expand_dims(data: AnyTensor, *, axis: int, num_newaxis: int = 1) -> TensorType:
    """`data` with `num_newaxis` axes of size 1 inserted before `axis`; -1 is behind the last.

    >>> %x = int32 [1, 2]
    >>> expand_dims(%x, axis=1)
    [[1], [2]]
    """
    place = _insertion(axis, num_newaxis, data.rank)
    shape = (*data.shape[:place], *((1,) * num_newaxis), *data.shape[place:])
    return TensorType(shape, data.dtype)


def _insertion(axis: int, count: int, rank: int) -> int:
    if count < 0:
        raise ShapeError(f"`num_newaxis` must be at least 0, got {count}", "bad-attribute")
    if count + rank > MAX_RANK:
        message = f"the result of `expand_dims` has rank {count + rank}, above {MAX_RANK}"
        raise ShapeError(message, "rank-limit")
    if not -rank - 1 <= axis <= rank:
        raise ShapeError(
            f"`axis` of `expand_dims` is {axis}, legal are {-rank - 1} to {rank}", "bad-axis"
        )
    return axis + rank + 1 if axis < 0 else axis


@expand_dims.numpy
def _(data: Array, *, axis: int, num_newaxis: int) -> Array:
    place = _insertion(axis, num_newaxis, data.ndim)
    return data.reshape((*data.shape[:place], *((1,) * num_newaxis), *data.shape[place:]))


@expand_dims.compute
def _(data: Tensor, *, axis: int, num_newaxis: int) -> Tensor:
    place = _insertion(axis, num_newaxis, data.rank)
    shape = (*data.shape[:place], *((1,) * num_newaxis), *data.shape[place:])
    return te.compute(shape, lambda *i: data[i[:place] + i[place + num_newaxis :]], "expand_dims")


@operator("squeeze", fusion=Fusion.INJECTIVE)
def squeeze(data: AnyTensor, *, axis: Ints | None = None) -> TensorType:
    """`data` without the axes in `axis`, all of size 1; by default without all axes of size 1,
    which must be known.

    >>> %x = int32 [[1], [2]]
    >>> squeeze(%x, axis=[1])
    [1, 2]
    """
    axes = _squeezed(data.shape, axis)
    for a in axes:
        require_equal(data.shape[a], 1, f"axis {a} of `data` and the size that `squeeze` removes")
    return TensorType(tuple(d for i, d in enumerate(data.shape) if i not in axes), data.dtype)


def _squeezed(shape: Dims, axis: Ints | None) -> Ints:
    if axis is not None:
        return require_axes(axis, len(shape), "`axis` of `squeeze`")
    unknown = next((i for i, d in enumerate(shape) if not isinstance(d, int)), None)
    if unknown is not None:
        raise ShapeError(
            f"`squeeze` without `axis` needs known sizes, axis {unknown} is {shape[unknown]}"
        )
    return tuple(i for i, d in enumerate(shape) if d == 1)


@squeeze.numpy
def _(data: Array, *, axis: Ints | None) -> Array:
    return np.squeeze(data, axis=_squeezed(data.shape, axis))


@squeeze.compute
def _(data: Tensor, *, axis: Ints | None) -> Tensor:
    axes = _squeezed(data.shape, axis)
    kept = [i for i in range(data.rank) if i not in axes]

    def element(*i: ScalarExpr) -> ScalarExpr:
        return data[tuple(i[kept.index(k)] if k in kept else te.dim(0) for k in range(data.rank))]

    return te.compute(tuple(data.shape[k] for k in kept), element, "squeeze")


OPERATORS = (expand_dims, reshape, reshape_like, squeeze)
