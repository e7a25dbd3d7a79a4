"""Matrix products, dense and sparse, and biases."""

from __future__ import annotations

from typing import Any

from relayvm.ir.expr import Call, Expr
from relayvm.relay.expr import TupleWrapper
from relayvm.relay.op.make import as_expr, call, wrapped


def bias_add(data: Expr, bias: Expr, axis: int = 1) -> Call:
    """Return the sum with a vector along an axis."""
    return call("nn.bias_add", data, bias, axis=axis)


def dense(data: Expr, weight: Expr, units: int | None = None, out_dtype: str = "") -> Call:
    """Return the product of `data` [..., k] with the transpose of `weight` [units, k]."""
    return call("nn.dense", data, weight, units=units, out_dtype=out_dtype)


def matmul(
    tensor_a: Expr,
    tensor_b: Expr,
    units: int | None = None,
    out_dtype: str = "",
    transpose_a: bool = False,
    transpose_b: bool = False,
) -> Call:
    """Return the product of two matrices, each transposed first if it says so.

    With only `transpose_b`, this is `dense`.
    """
    if transpose_b and not transpose_a:
        return dense(tensor_a, tensor_b, units, out_dtype)
    return call(
        "nn.matmul",
        tensor_a,
        tensor_b,
        units=units,
        out_dtype=out_dtype,
        transpose_a=transpose_a,
        transpose_b=transpose_b,
    )


def batch_matmul(
    tensor_a: Expr,
    tensor_b: Expr,
    out_dtype: str = "",
    transpose_a: bool = False,
    transpose_b: bool = True,
) -> Call:
    """Return the products of two batches of matrices; the second ones are transposed by default."""
    return call(
        "nn.batch_matmul",
        tensor_a,
        tensor_b,
        out_dtype=out_dtype,
        transpose_a=transpose_a,
        transpose_b=transpose_b,
    )


def contrib_dense_pack(
    data: Expr,
    weight: Expr,
    weight_layout: str = "NC",
    units: int | None = None,
    out_dtype: str = "",
) -> Call:
    """Return the product of `data` with the transpose of a weight stored in tiles."""
    return call(
        "nn.contrib_dense_pack",
        data,
        weight,
        units=units,
        out_dtype=out_dtype,
        weight_layout=weight_layout,
    )


def bitserial_dense(
    data: Expr,
    weight: Expr,
    units: int | None = None,
    data_bits: int = 1,
    weight_bits: int = 1,
    pack_dtype: str = "uint32",
    out_dtype: str = "int16",
    unipolar: bool = True,
) -> Call:
    """Return the product of the lowest bits of `data` and those of a weight, packed or not."""
    return call(
        "nn.bitserial_dense",
        data,
        weight,
        units=units,
        data_bits=data_bits,
        weight_bits=weight_bits,
        pack_dtype=pack_dtype,
        out_dtype=out_dtype,
        unipolar=unipolar,
    )


def bitpack(
    data: Expr,
    bits: int = 1,
    pack_axis: int = 1,
    bit_axis: int = 2,
    pack_type: str = "uint32",
    name: str = "BitPack",
) -> Call:
    """Return the lowest bits of elements, those of neighbours along an axis in one word."""
    return call(
        "nn.bitpack",
        data,
        bits=bits,
        pack_axis=pack_axis,
        bit_axis=bit_axis,
        pack_type=pack_type,
        name=name,
    )


def _sparse(matrix: Any) -> tuple[Expr, Expr, Expr]:
    """Return data, indices and row starts of a sparse matrix: a tuple, or scipy's object."""
    parts = (
        (matrix.data, matrix.indices, matrix.indptr)
        if hasattr(matrix, "indices")
        else tuple(matrix)
    )
    data, indices, indptr = (as_expr(part) for part in parts)
    return data, indices, indptr


def sparse_dense(dense_mat: Expr, sparse_mat: Any, sparse_lhs: bool = False) -> Call:
    """Return the product of a dense matrix with the transpose of a sparse one, or the reverse."""
    return call("nn.sparse_dense", as_expr(dense_mat), *_sparse(sparse_mat), sparse_lhs=sparse_lhs)


def sparse_transpose(x: Any) -> TupleWrapper:
    """Return the transpose of a sparse square matrix: data, indices and row starts."""
    return wrapped(3, "nn.sparse_transpose", *_sparse(x))


def sparse_add(dense_mat: Expr, sparse_mat: Any) -> Call:
    """Return the sum of a dense and a sparse matrix."""
    return call("nn.sparse_add", as_expr(dense_mat), *_sparse(sparse_mat))
