"""Operators that take as a tensor what others have as an attribute: shapes and axes.

The size of a result is computed in the machine. Values that mean nothing trap; what a constant
says is known to the type.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from relayvm.base.abi import MAX_RANK
from relayvm.base.diagnostics import quantity
from relayvm.base.dims import ANY, Dim, dims_equal
from relayvm.base.dtypes import INT64
from relayvm.base.shapes import ShapeError, bad_value
from relayvm.ir.types import TensorType
from relayvm.kernels import compute as te
from relayvm.kernels.compute import ScalarExpr, Tensor
from relayvm.kernels.schedules.program import Memory
from relayvm.ops.axes import product
from relayvm.ops.numeric import Array
from relayvm.ops.operator import Fusion, operator
from relayvm.ops.reshaping import reindexed, reshaped
from relayvm.ops.schema import AnyTensor, Dims, Integer, Ints

CONSTANT = "no operand has an influence on the elements"


def length_of(tensor: TensorType | Tensor | Memory, what: str) -> int:
    """Return the number of elements of a vector of sizes or axes, which must be known."""
    if len(tensor.shape) != 1 or not isinstance(tensor.shape[0], int):
        shape = ", ".join(map(str, tensor.shape))
        raise ShapeError(f"{what} must be a vector of known length, got the shape ({shape})")
    if tensor.shape[0] > MAX_RANK:
        raise ShapeError(f"{what} has {tensor.shape[0]} entries, above {MAX_RANK}", "rank-limit")
    return tensor.shape[0]


def open_shape(tensor: TensorType, what: str) -> Dims:
    """Return as many unknown sizes as a vector of sizes has entries."""
    return (ANY,) * length_of(tensor, what)


def numbers(array: Array) -> Ints:
    """Return the elements of an array of integers as int64, in which loops read them."""
    return tuple(array.reshape(-1).astype(INT64.numpy).tolist())


def sizes_in(array: Array) -> Ints:
    """Return sizes; raises ShapeError `bad-value` where one is none."""
    sizes = numbers(array)
    for k, size in enumerate(sizes):
        if not 0 <= size <= INT64.max:
            raise bad_value("size", size, k)
    return sizes


def entry(tensor: Tensor | Memory, k: int) -> ScalarExpr:
    """Return an entry of a vector of integers; those above int64 come out negative."""
    return te.cast(tensor[(te.dim(k),)[: tensor.rank]], INT64)


def entries(tensor: Tensor) -> list[ScalarExpr]:
    """Return all entries of a vector of known length."""
    return [entry(tensor, k) for k in range(length_of(tensor, "an operand"))]


def all_of(*conditions: ScalarExpr) -> ScalarExpr:
    """Return whether all conditions hold."""
    result: ScalarExpr = te.const(True, "bool")
    for condition in conditions:
        result = te.scalar("logical_and", result, condition)
    return result


def any_of(*conditions: ScalarExpr) -> ScalarExpr:
    """Return whether one of the conditions holds."""
    result: ScalarExpr = te.const(False, "bool")
    for condition in conditions:
        result = te.scalar("logical_or", result, condition)
    return result


# What must hold of values, and what a trap tells where it does not.
Rule = tuple[ScalarExpr, te.Told]


def dims_if(rules: Sequence[Rule], sizes: Sequence[ScalarExpr]) -> tuple[Tensor, ...]:
    """Return sizes as the tensors of a `value_dims`; the first of the rules that does not hold
    traps.
    """
    if not sizes:
        return ()
    # Zeros that trap, computed from left to right.
    checks: ScalarExpr = te.const(0, INT64)
    for condition, told in rules:
        checks = checks + te.required(condition, told)
    first, *others = sizes
    return tuple(_word(size) for size in (checks + first, *others))


def _word(value: ScalarExpr) -> Tensor:
    return te.compute((), lambda: value, "size")


def size_rules(tensor: Tensor) -> list[Rule]:
    """Return that all entries of a vector are sizes."""
    return [
        (v >= 0, te.told("size", tensor[(te.dim(k),)[: tensor.rank]], k))
        for k, v in enumerate(entries(tensor))
    ]


def plain_sizes(tensor: Tensor) -> tuple[Tensor, ...]:
    """Return the entries of a vector as sizes, which they must be."""
    return dims_if(size_rules(tensor), entries(tensor))


# -- Shapes -------------------------------------------------------------------------------------


@operator("dyn.reshape", fusion=Fusion.OPAQUE, value_operands=("newshape",), ignored=("newshape",))
def dyn_reshape(data: AnyTensor, newshape: Integer, *, allowzero: bool = False) -> TensorType:
    """The elements of `data` in row-major order in the shape `newshape`.

    An entry of 0 takes the size of the same axis over (with `allowzero` it is the size 0), one of
    -1 follows from the others.

    >>> %x = int32 [[1, 2], [3, 4]]
    >>> %s = int64 [4, -1]
    >>> dyn.reshape(%x, %s)
    [[1], [2], [3], [4]]
    """
    return TensorType(open_shape(newshape, "`newshape` of `dyn.reshape`"), data.dtype)


def _new_shape(shape: Dims, newshape: Array, allowzero: bool) -> Dims:
    codes = numbers(newshape)
    for k, code in enumerate(codes):
        if not -1 <= code <= INT64.max:
            raise bad_value("new_size", code, k)
    copied = [k for k, code in enumerate(codes) if code == 0 and not allowzero]
    for k in copied:
        if k >= len(shape):
            raise bad_value("taken_over", k, len(shape))
    known = tuple(shape[k] if k in copied else code for k, code in enumerate(codes))
    if known.count(-1) > 1:
        raise bad_value("open_sizes", known.count(-1))
    try:
        return reshaped(shape, known, allowzero=True)
    except ShapeError:
        held = product(tuple(n for n in known if n != -1))
        raise bad_value("elements", _known(product(shape)), _known(held)) from None


def _known(count: Dim) -> int:
    """Return a number of elements as a word: what has no value was not compared."""
    return (count + 2**63) % 2**64 - 2**63 if isinstance(count, int) else 0


@dyn_reshape.value_shape
def _(data: Any, newshape: Array, *, allowzero: bool) -> Dims:
    return _new_shape(data.shape, newshape, allowzero)


@dyn_reshape.numpy
def _(data: Array, newshape: Array, *, allowzero: bool) -> Array:
    return data.reshape(_new_shape(data.shape, newshape, allowzero))


@dyn_reshape.value_dims
def _(data: Tensor, newshape: Tensor, *, allowzero: bool) -> tuple[Tensor, ...]:
    sizes, rules, taken_over = [], list[Rule](), list[Rule]()
    for k, code in enumerate(entries(newshape)):
        rules.append((code >= -1, te.told("new_size", newshape[te.dim(k),], k)))
        if k < data.rank and not allowzero:
            code = te.select(code.equal(0), te.dim(data.shape[k]), code)
        elif not allowzero:
            is_size = te.scalar("not_equal", code, 0)
            taken_over.append((is_size, te.told("taken_over", k, data.rank)))
        sizes.append(code)
    known, inferred = te.const(1, INT64), te.const(0, INT64)
    for size in sizes:
        open_ = size.equal(-1)
        known = te.select(open_, known, known * size)
        inferred = inferred + te.cast(open_, INT64)
    total = te.dim(product(data.shape))
    quotient = total // known
    fits = te.select(
        inferred.equal(0),
        total.equal(known),
        all_of(known > 0, (quotient * known).equal(total)),
    )
    rules += taken_over
    rules.append((inferred <= 1, te.told("open_sizes", inferred)))
    rules.append((fits, te.told("elements", total, known)))
    found = [te.select(s.equal(-1), quotient, s) for s in sizes]
    # A result without axes has a word all the same: that tells whether the values mean something.
    return dims_if(rules, found or [te.const(0, INT64)])


@dyn_reshape.compute
def _(dims: Dims, data: Tensor, newshape: Tensor, *, allowzero: bool) -> Tensor:
    if not entries(newshape):
        return te.compute((), lambda: data[(0,) * data.rank], "reshape")
    return reindexed(data, dims, "reshape")


@operator("dyn.expand_dims", fusion=Fusion.OPAQUE, value_operands=("axis",))
def dyn_expand_dims(data: AnyTensor, axis: Integer, *, num_newaxis: int = 1) -> TensorType:
    """`data` with `num_newaxis` axes of size 1 inserted before `axis`; -1 is behind the last.

    >>> %x = int32 [1, 2]
    >>> %a = int32 1
    >>> dyn.expand_dims(%x, %a)
    [[1], [2]]
    """
    require_single(axis, "`axis` of `dyn.expand_dims`")
    if num_newaxis < 0:
        raise ShapeError(f"`num_newaxis` must be at least 0, got {num_newaxis}", "bad-attribute")
    if data.rank + num_newaxis > MAX_RANK:
        message = f"the result of `dyn.expand_dims` has rank {data.rank + num_newaxis}"
        raise ShapeError(f"{message}, above {MAX_RANK}", "rank-limit")
    return TensorType((ANY,) * (data.rank + num_newaxis), data.dtype)


def require_single(tensor: TensorType, what: str) -> None:
    """Raise ShapeError unless a tensor has one element, by its type."""
    if tensor.rank > 1 or (tensor.rank == 1 and tensor.shape[0] != 1):
        raise ShapeError(f"{what} must be one number, got the shape {list(tensor.shape)}")


def _expanded(shape: Dims, axis: Array, count: int) -> Dims:
    (place,) = numbers(axis)
    if not -len(shape) - 1 <= place <= len(shape):
        raise bad_value("place", place, len(shape))
    place = place + len(shape) + 1 if place < 0 else place
    return (*shape[:place], *(1,) * count, *shape[place:])


@dyn_expand_dims.value_shape
def _(data: Any, axis: Array, *, num_newaxis: int) -> Dims:
    return _expanded(data.shape, axis, num_newaxis)


@dyn_expand_dims.numpy
def _(data: Array, axis: Array, *, num_newaxis: int) -> Array:
    return data.reshape(_expanded(data.shape, axis, num_newaxis))


@dyn_expand_dims.value_dims
def _(data: Tensor, axis: Tensor, *, num_newaxis: int) -> tuple[Tensor, ...]:
    rank, place = data.rank, entry(axis, 0)
    valid = all_of(place >= -rank - 1, place <= rank)
    told = te.told("place", axis[(te.dim(0),)[: axis.rank]], rank)
    place = te.select(place < 0, place + (rank + 1), place)
    sizes = []
    for k in range(rank + num_newaxis):
        before = te.dim(data.shape[k]) if k < rank else te.const(1, INT64)
        behind = te.dim(data.shape[k - num_newaxis]) if k >= num_newaxis else te.const(1, INT64)
        is_new = place + num_newaxis > k
        sizes.append(te.select(place > k, before, te.select(is_new, te.const(1, INT64), behind)))
    return dims_if([(valid, told)], sizes)


@dyn_expand_dims.compute
def _(dims: Dims, data: Tensor, axis: Tensor, *, num_newaxis: int) -> Tensor:
    return reindexed(data, dims, "expand_dims") if dims else te.compute((), lambda: data[()])


@operator("dyn.squeeze", fusion=Fusion.OPAQUE, value_operands=("axes",), ignored=("axis",))
def dyn_squeeze(data: AnyTensor, axes: Integer) -> TensorType:
    """`data` without the axes in `axes`, all of size 1.

    >>> %x = int32 [[1], [2]]
    >>> %a = int32 [1]
    >>> dyn.squeeze(%x, %a)
    [1, 2]
    """
    count = length_of(axes, "`axes` of `dyn.squeeze`")
    if count > data.rank:
        axes_named = quantity(count, "axis", "axes")
        raise ShapeError(f"`dyn.squeeze` of {axes_named} of a rank of {data.rank}")
    return TensorType((ANY,) * (data.rank - count), data.dtype)


def _kept_shape(shape: Dims, axes: Array) -> Dims:
    places = numbers(axes)
    for place in places:
        if not -len(shape) <= place < len(shape):
            raise bad_value("axis", place, len(shape))
    named = [a % len(shape) for a in places]
    gone = set(named)
    for a in sorted(gone):
        if named.count(a) > 1:
            raise bad_value("axis_twice", a)
    for a in sorted(gone):
        size = shape[a]
        if dims_equal(size, 1) is False:
            raise bad_value("not_one", a, size if isinstance(size, int) else 0)
    return tuple(d for k, d in enumerate(shape) if k not in gone)


@dyn_squeeze.value_shape
def _(data: Any, axes: Array) -> Dims:
    return _kept_shape(data.shape, axes)


@dyn_squeeze.numpy
def _(data: Array, axes: Array) -> Array:
    return data.reshape(_kept_shape(data.shape, axes))


@dyn_squeeze.value_dims
def _(data: Tensor, axes: Tensor) -> tuple[Tensor, ...]:
    rank = data.rank
    places = [te.select(v < 0, v + rank, v) for v in entries(axes)]
    rules = [
        (all_of(p >= 0, p < rank), te.told("axis", axes[te.dim(k),], rank))
        for k, p in enumerate(places)
    ]
    sized: list[Rule] = []
    kept_before: ScalarExpr = te.const(0, INT64)
    result = [te.const(0, INT64)] * (rank - len(places))
    for k in range(rank):
        named, size = [p.equal(k) for p in places], te.dim(data.shape[k])
        kept = te.scalar("logical_not", any_of(*named))
        times = sum((te.cast(n, INT64) for n in named), te.const(0, INT64))
        rules.append((times <= 1, te.told("axis_twice", k)))
        sized.append((any_of(kept, size.equal(1)), te.told("not_one", k, size)))
        for position in range(len(result)):
            here = te.scalar("logical_and", kept, kept_before.equal(position))
            result[position] = te.select(here, te.dim(data.shape[k]), result[position])
        kept_before = kept_before + te.cast(kept, INT64)
    # As above, a word tells whether the values mean something.
    return dims_if([*rules, *sized], result or [te.const(0, INT64)])


@dyn_squeeze.compute
def _(dims: Dims, data: Tensor, axes: Tensor) -> Tensor:
    if len(entries(axes)) == data.rank:
        return te.compute((), lambda: data[(0,) * data.rank], "squeeze")
    return reindexed(data, dims, "squeeze")


OPERATORS = (dyn_expand_dims, dyn_reshape, dyn_squeeze)
