"""Gradients of operators on sparse matrices and tensors, by their values."""

from __future__ import annotations

from relayvm.base.dtypes import INT64
from relayvm.ir.expr import Constant, Expr, Tuple, TupleGetItem
from relayvm.ops.creation import ones_like, zeros_like
from relayvm.ops.elementwise import cast
from relayvm.ops.gathering import scatter_elements
from relayvm.ops.gradient_elementwise import Gradients
from relayvm.ops.movement import concatenate, stack, transpose
from relayvm.ops.operator import GradientCall
from relayvm.ops.padding import pad
from relayvm.ops.reshaping import expand_dims, reshape, reshape_like, squeeze
from relayvm.ops.rows import add
from relayvm.ops.scans import cumsum
from relayvm.ops.slicing import strided_slice
from relayvm.ops.sparse_convolution import read_sparse_layout, sparse_conv2d
from relayvm.ops.sparse_grads import sparse_add_grad, sparse_dense_grad
from relayvm.ops.sparse_matrices import sparse_add, sparse_dense, sparse_transpose
from relayvm.ops.sparse_tensors import sparse_fill_empty_rows

_END = 2**31 - 1


@sparse_dense.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    slope = transpose(g) if call.sparse_lhs else g
    both = sparse_dense_grad(slope, *call.args)
    return TupleGetItem(both, 0), TupleGetItem(both, 1), None, None


@sparse_dense_grad.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    # Both gradients are linear in `grad` and one of the factors.
    grad, dense, data, *places = call.args
    of_dense, of_data = TupleGetItem(g, 0), TupleGetItem(g, 1)
    return (
        add(sparse_dense(of_dense, data, *places), sparse_dense(dense, of_data, *places)),
        TupleGetItem(sparse_dense_grad(grad, dense, of_data, *places), 0),
        TupleGetItem(sparse_dense_grad(grad, of_dense, data, *places), 1),
        None,
        None,
    )


@sparse_add.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    return g, sparse_add_grad(g, *call.args[1:]), None, None


@sparse_add_grad.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    return sparse_add(zeros_like(call.grad), g, *call.args[2:]), None, None, None


# -- Values that only move ------------------------------------------------------------------------


def _numbers(values: Expr) -> Expr:
    """Return 1, 2, 3, ... for the elements of a vector."""
    return cumsum(cast(ones_like(values), dtype=INT64), axis=0)


def _gathered(call: GradientCall, values: str, g: Expr, numbers: Expr) -> Expr:
    """Return the sums of `g` by the numbers of values, and before them the sum for number 0."""
    zero = Constant(call.type_of(values).dtype.array([0]))
    sums = concatenate(Tuple((zero, zeros_like(getattr(call, values)))), axis=0)
    return scatter_elements(sums, numbers, g, axis=0, reduction="add")


@sparse_transpose.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    moved = sparse_transpose(_numbers(call.sparse_data), *call.args[1:])
    sums = _gathered(call, "sparse_data", TupleGetItem(g, 0), TupleGetItem(moved, 0))
    return strided_slice(sums, begin=(1,), end=(_END,)), None, None


@sparse_fill_empty_rows.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    default = Constant(INT64.array(0))
    numbers = _numbers(call.sparse_values)
    moved = sparse_fill_empty_rows(call.sparse_indices, numbers, call.dense_shape, default)
    sums = _gathered(call, "sparse_values", TupleGetItem(g, 1), TupleGetItem(moved, 1))
    of_default = squeeze(strided_slice(sums, begin=(0,), end=(1,)), axis=(0,))
    return None, strided_slice(sums, begin=(1,), end=(_END,)), None, of_default


# -- Convolution ----------------------------------------------------------------------------------


@sparse_conv2d.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    # As `nn.sparse_dense` of a matrix with a row for each place: the elements that its taps read.
    beside = call.layout == "NHWC"
    _, taps = read_sparse_layout(call.attrs)
    x, slope = call.dense_data, g
    if not beside:
        x, slope = (transpose(e, axes=(0, 2, 3, 1)) for e in (x, slope))
    windows = stack(Tuple(_windows(call, x, taps)), axis=3 if beside else 4)
    matrix = reshape(reshape(windows, newshape=(-3, 0, -3)), newshape=(-3, 0))
    slope = reshape(reshape(slope, newshape=(-3, 0, 0)), newshape=(-3, 0))
    data = call.sparse_data
    if call.type_of("sparse_data").rank == 2:
        data = expand_dims(data, axis=2)
    both = sparse_dense_grad(slope, matrix, data, *call.args[2:])
    apart = reshape_like(TupleGetItem(both, 0), windows)
    of_dense = _put_back(call, apart, taps, 3 if beside else 4)
    if not beside:
        of_dense = transpose(of_dense, axes=(0, 3, 1, 2))
    return of_dense, reshape_like(TupleGetItem(both, 1), call.sparse_data), None, None


def _padded(call: GradientCall, x: Expr, rows: tuple[int, int], columns: tuple[int, int]) -> Expr:
    if not any((*rows, *columns)):
        return x
    zero = Constant(call.type_of("dense_data").dtype.array(0))
    return pad(x, zero, pad_width=((0, 0), rows, columns, (0, 0)))


def _part(x: Expr, begin: tuple[int, int], after: tuple[int, int]) -> Expr:
    """Return images without elements at the begins and ends of their rows and columns."""
    if not any((*begin, *after)):
        return x
    return strided_slice(x, begin=begin, end=tuple(-n or _END for n in after), axes=(1, 2))


def _windows(call: GradientCall, x: Expr, taps: tuple[int, int]) -> tuple[Expr, ...]:
    """Return for each tap the elements that it reads."""
    rows, columns = taps
    padded = _padded(call, x, (rows // 2,) * 2, (columns // 2,) * 2)
    return tuple(
        _part(padded, (i, j), (rows - 1 - i, columns - 1 - j))
        for i in range(rows)
        for j in range(columns)
    )


def _put_back(call: GradientCall, apart: Expr, taps: tuple[int, int], axis: int) -> Expr:
    """Return the sums of what the taps of elements have along an axis."""
    rows, columns = taps
    total = None
    for k in range(rows * columns):
        one = strided_slice(apart, begin=(k,), end=(k + 1,), axes=(axis,))
        i, j = divmod(k, columns)
        before = (i, rows - 1 - i), (j, columns - 1 - j)
        moved = _padded(call, squeeze(one, axis=(axis,)), *before)
        total = moved if total is None else add(total, moved)
    assert total is not None
    around = (rows // 2, columns // 2)
    return _part(total, around, around)
