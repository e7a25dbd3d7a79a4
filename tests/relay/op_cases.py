"""One example a function of `relay.op`: the call on variables, their values, what to expect."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from relayvm import relay

A = np.linspace(-0.9, 0.9, 6, dtype=np.float32).reshape(2, 3)
B = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
P = B / 7
I = np.array([[1, -2, 3], [7, 5, -6]], np.int32)
J = np.array([[3, 2, 2], [4, 1, 3]], np.int32)
T = np.array([[True, False, True], [False, False, True]])
U = np.array([[True, True, False], [False, True, True]])
IMAGE = np.arange(1, 33, dtype=np.float32).reshape(1, 2, 4, 4)
WAVE = np.arange(1, 9, dtype=np.float32).reshape(1, 2, 4)
CUBE = np.arange(1, 17, dtype=np.float32).reshape(1, 2, 2, 2, 2)


@dataclass(frozen=True)
class Case:
    """`build` makes the call of variables that have the types of `inputs`."""

    name: str
    build: Callable[..., Any]
    inputs: tuple[Any, ...]
    expected: Any

    def __str__(self) -> str:
        return self.name


CASES: list[Case] = []


def case(name: str, build: Callable[..., Any], *inputs: Any, want: Any) -> None:
    CASES.append(Case(name, build, inputs, want))


def erf(x: np.ndarray) -> np.ndarray:
    from math import erf as scalar

    return np.vectorize(scalar)(x)


UNARY: dict[str, tuple[np.ndarray, Callable[[np.ndarray], Any]]] = {
    "log": (B, np.log),
    "log2": (B, np.log2),
    "log10": (B, np.log10),
    "tan": (A, np.tan),
    "cos": (A, np.cos),
    "cosh": (A, np.cosh),
    "sin": (A, np.sin),
    "sinh": (A, np.sinh),
    "acos": (A, np.arccos),
    "acosh": (B, np.arccosh),
    "asin": (A, np.arcsin),
    "asinh": (A, np.arcsinh),
    "atan": (A, np.arctan),
    "atanh": (A, np.arctanh),
    "exp": (A, np.exp),
    "erf": (A, erf),
    "sqrt": (B, np.sqrt),
    "rsqrt": (B, lambda x: 1 / np.sqrt(x)),
    "sigmoid": (A, lambda x: 1 / (1 + np.exp(-x))),
    "floor": (A * 3, np.floor),
    "ceil": (A * 3, np.ceil),
    "trunc": (A * 3, np.trunc),
    "round": (A * 3, np.round),
    "abs": (A, np.abs),
    "sign": (A, np.sign),
    "tanh": (A, np.tanh),
    "negative": (A, np.negative),
    "logical_not": (T, np.logical_not),
    "bitwise_not": (I, np.invert),
    "copy": (A, np.copy),
    "isnan": (np.array([1, np.nan, np.inf], np.float32), np.isnan),
    "isfinite": (np.array([1, np.nan, np.inf], np.float32), np.isfinite),
    "isinf": (np.array([1, np.nan, np.inf], np.float32), np.isinf),
    "zeros_like": (A, np.zeros_like),
    "ones_like": (A, np.ones_like),
    "fast_exp": (A, np.exp),
    "fast_tanh": (A, np.tanh),
    "fast_erf": (A, erf),
}
for _name, (_input, _meaning) in UNARY.items():
    case(_name, getattr(relay, _name), _input, want=_meaning(_input))

BINARY: dict[str, tuple[np.ndarray, np.ndarray, Callable[..., Any]]] = {
    "add": (A, B, np.add),
    "subtract": (A, B, np.subtract),
    "multiply": (A, B, np.multiply),
    "divide": (A, B, np.divide),
    "floor_divide": (I, J, np.floor_divide),
    "trunc_divide": (I, J, lambda x, y: np.trunc(x / y).astype(np.int32)),
    "power": (B, A, np.power),
    "mod": (I, J, np.fmod),
    "floor_mod": (I, J, np.mod),
    "trunc_mod": (I, J, np.fmod),
    "logical_and": (T, U, np.logical_and),
    "logical_or": (T, U, np.logical_or),
    "logical_xor": (T, U, np.logical_xor),
    "bitwise_and": (I, J, np.bitwise_and),
    "bitwise_or": (I, J, np.bitwise_or),
    "bitwise_xor": (I, J, np.bitwise_xor),
    "equal": (I, J, np.equal),
    "not_equal": (I, J, np.not_equal),
    "less": (I, J, np.less),
    "less_equal": (I, J, np.less_equal),
    "greater": (I, J, np.greater),
    "greater_equal": (I, J, np.greater_equal),
    "maximum": (A, B, np.maximum),
    "minimum": (A, B, np.minimum),
    "right_shift": (I, J, np.right_shift),
    "left_shift": (I, J, np.left_shift),
}
for _name, (_left, _right, _meaning) in BINARY.items():
    case(_name, getattr(relay, _name), _left, _right, want=_meaning(_left, _right))

# -- Tensors --------------------------------------------------------------------------------------

case("zeros", lambda: relay.zeros((2, 3), "float32"), want=np.zeros((2, 3), np.float32))
case("ones", lambda: relay.ones([2], "int32"), want=np.ones(2, np.int32))
case("clip", lambda x: relay.clip(x, -0.5, 0.5), A, want=A.clip(-0.5, 0.5))
case(
    "fixed_point_multiply",
    lambda x: relay.fixed_point_multiply(x, 1 << 30, 2),
    J,
    want=J * 2,
)
case(
    "fixed_point_multiply_per_axis",
    lambda x: relay.op.fixed_point_multiply_per_axis(
        x,
        relay.const([1 << 30] * 3),
        relay.const([0] * 3),
        relay.const([0] * 3),
        False,
        False,
        [1],
    ),
    J * 2,
    want=J,
)
case("concatenate", lambda x, y: relay.concatenate([x, y], 1), A, B, want=np.hstack([A, B]))
case("stack", lambda x, y: relay.stack((x, y), axis=0), A, B, want=np.stack([A, B]))
case("einsum", lambda x, y: relay.einsum([x, y], "ij,kj->ik"), A, B, want=A @ B.T)
case("shape_of", lambda x: relay.shape_of(x, "int64"), A, want=np.array([2, 3], np.int64))
case("ndarray_size", relay.ndarray_size, A, want=np.int32(6))
case("device_copy", lambda x: relay.op.device_copy(x, "cpu", "cpu"), A, want=A)

# -- Transforms -----------------------------------------------------------------------------------

case(
    "sliding_window",
    lambda x: relay.sliding_window(x, 1, [2], [1]),
    B,
    want=np.lib.stride_tricks.sliding_window_view(B, 2, 1),
)
case("cast", lambda x: relay.cast(x, "int32"), B, want=B.astype(np.int32))
case("cast_like", relay.cast_like, I, B, want=I.astype(np.float32))
case("reinterpret", lambda x: relay.reinterpret(x, "int32"), B, want=B.view(np.int32))
case("expand_dims", lambda x: relay.expand_dims(x, 1, 2), A, want=A[:, None, None])
case("transpose", relay.transpose, A, want=A.T)
case("squeeze", lambda x: relay.squeeze(x, axis=[0]), A[None], want=A)
case("reshape", lambda x: relay.reshape(x, (-1, 2)), A, want=A.reshape(3, 2))
case("reverse_reshape", lambda x: relay.reverse_reshape(x, (0, -1)), A, want=A)
case("reshape_like", relay.reshape_like, A, B.reshape(3, 2), want=A.reshape(3, 2))
case("full", lambda: relay.full(relay.const(2.0), (2,)), want=np.full(2, 2, np.float32))
case("full_like", relay.full_like, A, np.float32(3), want=np.full_like(A, 3))
case("arange", lambda: relay.arange(relay.const(1), relay.const(4), dtype="int32"), want=[1, 2, 3])
case(
    "meshgrid",
    lambda x, y: relay.meshgrid([x, y]),
    B[0],
    B[1],
    want=tuple(np.meshgrid(B[0], B[1], indexing="ij")),
)
case("repeat", lambda x: relay.repeat(x, 2, 1), A, want=np.repeat(A, 2, 1))
case("tile", lambda x: relay.tile(x, (2, 1)), A, want=np.tile(A, (2, 1)))
case("reverse", lambda x: relay.reverse(x, 1), A, want=A[:, ::-1])
case(
    "reverse_sequence",
    lambda x, n: relay.reverse_sequence(x, n, 1, 0),
    B,
    np.array([2, 3]),
    want=[[2, 1, 3], [6, 5, 4]],
)
case("where", relay.where, T, A, B, want=np.where(T, A, B))
case("broadcast_to", lambda x: relay.broadcast_to(x, (2, 3)), A[0], want=[A[0], A[0]])
case("broadcast_to_like", relay.broadcast_to_like, A[0], B, want=[A[0], A[0]])
case("collapse_sum_like", relay.collapse_sum_like, B, A[0], want=B.sum(0))
case("collapse_sum_to", lambda x: relay.collapse_sum_to(x, (3,)), B, want=B.sum(0))
case("split", lambda x: relay.split(x, [1], axis=1), A, want=(A[:, :1], A[:, 1:]))
case("strided_slice", lambda x: relay.strided_slice(x, [0, 1], [2, 3]), A, want=A[:, 1:3])
case(
    "strided_set",
    lambda x, v: relay.strided_set(x, v, [0, 1], [2, 3], [1, 1]),
    A,
    B[:, :2],
    want=np.hstack([A[:, :1], B[:, :2]]),
)
case("slice_like", relay.slice_like, A, B[:1, :2], want=A[:1, :2])
case(
    "layout_transform",
    lambda x: relay.layout_transform(x, "NCHW", "NHWC"),
    IMAGE,
    want=IMAGE.transpose(0, 2, 3, 1),
)
case(
    "sequence_mask",
    lambda x, n: relay.sequence_mask(x, n, 9, 1),
    B,
    np.array([1, 2], np.int32),
    want=[[1, 9, 9], [4, 5, 9]],
)
case(
    "matrix_set_diag",
    relay.matrix_set_diag,
    B,
    np.array([8, 9], np.float32),
    want=[[8, 2, 3], [4, 9, 6]],
)
case("trilu", lambda x: relay.trilu(x, 0), B, want=np.triu(B))
case("cumsum", lambda x: relay.op.cumsum(x, axis=1), B, want=B.cumsum(1))
case("cumprod", relay.op.cumprod, B, want=B.cumprod())
case(
    "stft",
    lambda x: relay.op.stft(x, 2, 1, 2),
    B[0],
    want=[[[3, 0], [5, 0]], [[-1, 0], [-1, 0]]],
)
case(
    "dft",
    relay.op.dft,
    B,
    np.zeros_like(B),
    want=(np.fft.fft(B).real.astype(np.float32), np.fft.fft(B).imag.astype(np.float32)),
)
case(
    "adv_index",
    lambda x, i, j: relay.adv_index([x, i, j]),
    B,
    np.array([0, 1]),
    np.array([2, 0]),
    want=[3, 4],
)

# -- Indices --------------------------------------------------------------------------------------

INDEX = np.array([[1, 0, 1]], np.int64)
case("argwhere", relay.argwhere, T, want=np.argwhere(T))
case(
    "scatter_elements",
    lambda x, i, u: relay.op.scatter_elements(x, i, u, 0, "add"),
    np.zeros((2, 3), np.float32),
    INDEX,
    B[:1],
    want=[[0, 2, 0], [1, 0, 3]],
)
case(
    "scatter_nd",
    relay.op.scatter_nd,
    np.zeros(4, np.float32),
    np.array([[3, 0]]),
    np.array([5, 6], np.float32),
    want=[6, 0, 0, 5],
)
case("take", lambda x, i: relay.take(x, i, axis=1), B, np.array([2, 0]), want=B[:, [2, 0]])
case(
    "gather",
    lambda x, i: relay.gather(x, 0, i),
    B,
    INDEX,
    want=np.take_along_axis(B, INDEX, 0),
)
case("gather_nd", relay.gather_nd, B, np.array([[0, 1], [2, 1]]), want=[3, 5])
case(
    "one_hot",
    lambda i: relay.one_hot(i, relay.const(1.0), relay.const(0.0), 3, -1, "float32"),
    np.array([2, 0], np.int32),
    want=np.eye(3, dtype=np.float32)[[2, 0]],
)
case(
    "unravel_index",
    lambda i: relay.unravel_index(i, relay.const([3, 4])),
    np.array([5, 11], np.int32),
    want=np.array(np.unravel_index([5, 11], (3, 4)), np.int32),
)
case("unique", lambda x: relay.unique(x)[3], np.array([4, 5, 4], np.int32), want=[2])
case(
    "invert_permutation",
    relay.op.invert_permutation,
    np.array([2, 0, 1], np.int32),
    want=[1, 2, 0],
)
case(
    "sparse_to_dense",
    lambda i, v: relay.sparse_to_dense(i, (2, 2), v, relay.const(0.0)),
    np.array([[0, 1], [1, 0]], np.int32),
    np.array([5, 6], np.float32),
    want=[[0, 5], [6, 0]],
)
case(
    "sparse_fill_empty_rows",
    relay.sparse_fill_empty_rows,
    np.array([[0, 1], [2, 0]], np.int64),
    np.array([5, 6], np.int64),
    np.array([3, 2], np.int64),
    np.int64(9),
    want=([[0, 1], [1, 0], [2, 0]], [5, 9, 6], [False, True, False]),
)
case(
    "sparse_reshape",
    relay.op.sparse_reshape,
    np.array([[0, 1], [1, 2]], np.int64),
    np.array([2, 3], np.int64),
    np.array([3, -1], np.int64),
    want=([[0, 1], [2, 1]], [3, 2]),
)
case(
    "segment_sum",
    lambda x, i: relay.op.segment_sum(x, i, 3),
    B,
    np.array([2, 0], np.int32),
    want=[[4, 5, 6], [0, 0, 0], [1, 2, 3]],
)

# -- Reductions and sorting -----------------------------------------------------------------------

case("argmax", lambda x: relay.argmax(x, axis=1), A, want=A.argmax(1).astype(np.int32))
case("argmin", lambda x: relay.argmin(x, axis=1), A, want=A.argmin(1).astype(np.int32))
case("sum", lambda x: relay.sum(x, axis=1, keepdims=True), B, want=B.sum(1, keepdims=True))
case("all", lambda x: relay.all(x, axis=0), T, want=T.all(0))
case("any", lambda x: relay.any(x, axis=0), T, want=T.any(0))
case("max", relay.max, A, want=A.max())
case("min", lambda x: relay.min(x, axis=0, exclude=True), A, want=A.min(1))
case("prod", lambda x: relay.prod(x, 1), B, want=B.prod(1))
case("mean", lambda x: relay.mean(x, 1), B, want=B.mean(1))
case("variance", lambda x: relay.variance(x, 1), B, want=B.var(1))
case("std", lambda x: relay.std(x, 1, unbiased=True), B, want=B.std(1, ddof=1))
case("mean_variance", lambda x: relay.mean_variance(x, 1), B, want=(B.mean(1), B.var(1)))
case("mean_std", lambda x: relay.mean_std(x, 1), B, want=(B.mean(1), B.std(1)))
case("logsumexp", lambda x: relay.logsumexp(x, 1), B, want=np.log(np.exp(B).sum(1)))
case("sort", lambda x: relay.sort(x, 1, is_ascend=False), B, want=-np.sort(-B, 1))
case("argsort", lambda x: relay.argsort(x, axis=0), I, want=[[0, 0, 1], [1, 1, 0]])
case("topk", lambda x: relay.topk(x, 2), B, want=([[3, 2], [6, 5]], [[2, 1], [2, 1]]))
case(
    "searchsorted",
    relay.searchsorted,
    np.array([1, 3, 5], np.float32),
    np.array([2, 5], np.float32),
    want=np.array([1, 2], np.int32),
)
