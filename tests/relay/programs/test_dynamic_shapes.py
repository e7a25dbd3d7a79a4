"""Sizes that only a run knows: operators over `relay.Any()`, and shapes as values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import relayvm as tvm
from relayvm import relay
from relayvm.relay.loops import while_loop
from tests.relay.programs.machine import RNG, check_result


def any_dims(ndim: int) -> tuple[Any, ...]:
    return tuple(relay.Any() for _ in range(ndim))


def data_of(*shape: int, dtype: str = "float32") -> np.ndarray:
    return RNG.random(shape).astype(dtype)


def check(params: list[Any], body: Any, args: list[Any], expected: Any) -> None:
    mod = tvm.IRModule()
    mod["main"] = relay.Function(params, body)
    check_result(args, expected, mod=mod)


@pytest.mark.parametrize(
    ("x_shape", "y_shape", "x_np", "y_np", "op", "np_op"),
    [
        ((relay.Any(),), (3, 2), (1,), (3, 2), relay.add, np.add),
        ((relay.Any(), 2), (1, 2), (1, 2), (1, 2), relay.add, np.add),
        ((relay.Any(), 2), (3, 2), (3, 2), (3, 2), relay.subtract, np.subtract),
        ((relay.Any(), 2), (3, relay.Any()), (1, 2), (3, 1), relay.multiply, np.multiply),
        (any_dims(2), any_dims(2), (3, 2), (1, 2), relay.maximum, np.maximum),
    ],
)
def test_broadcast(x_shape, y_shape, x_np, y_np, op, np_op) -> None:
    x, y = relay.var("x", shape=x_shape), relay.var("y", shape=y_shape)
    a, b = data_of(*x_np), data_of(*y_np)
    check([x, y], op(x, y), [a, b], np_op(a, b))


def test_sizes_that_do_not_broadcast_are_an_error_of_the_run() -> None:
    x, y = relay.var("x", shape=any_dims(1)), relay.var("y", shape=any_dims(1))
    mod = tvm.IRModule.from_expr(relay.Function([x, y], x + y))
    with pytest.raises(tvm.TVMError):
        relay.create_executor("vm", mod=mod).evaluate()(data_of(4), data_of(3))


def test_full_zeros_and_ones_of_a_shape_value() -> None:
    x = relay.var("x", shape=any_dims(2))
    shape = relay.shape_of(x)
    body = relay.Tuple(
        [
            relay.full(relay.const(3.0), shape, "float32"),
            relay.zeros(shape, "float32"),
            relay.ones(shape, "int32"),
            relay.full_like(x, relay.const(2.0)),
            relay.ones_like(x),
        ]
    )
    a = data_of(3, 2)
    ones = np.ones((3, 2))
    check([x], body, [a], [ones * 3, ones * 0, ones, ones * 2, ones])


def test_concatenation_of_unknown_lengths() -> None:
    xs = [relay.var(f"x{i}", shape=(relay.Any(), 2)) for i in range(3)]
    body = relay.concatenate(xs, axis=0)
    arrays = [data_of(i + 1, 2) for i in range(3)]
    check(xs, body, arrays, np.concatenate(arrays))


@pytest.mark.parametrize(
    ("newshape", "given", "wanted"),
    [
        ((1, -1), (2, 3), (1, 6)),
        ((0, -1), (2, 3), (2, 3)),
        ((0, -2), (5, 2), (5, 2)),
        ((-4, -1, 2, -3), (6, 3, 4), (3, 2, 12)),
        ((-4, 2, -1, -2), (6, 3, 4), (2, 3, 3, 4)),
    ],
)
def test_reshape(newshape, given, wanted) -> None:
    x = relay.var("x", shape=any_dims(len(given)))
    a = data_of(*given)
    check([x], relay.reshape(x, newshape), [a], a.reshape(wanted))


def test_reshape_by_a_tensor() -> None:
    x = relay.var("x", shape=any_dims(2))
    shape = relay.var("shape", shape=(3,), dtype="int64")
    a = data_of(4, 6)
    check([x, shape], relay.reshape(x, shape), [a, np.array([2, -1, 3])], a.reshape(2, 4, 3))


def test_argwhere() -> None:
    for shape in ((5,), (3, 4), (2, 3, 2)):
        x = relay.var("x", shape=any_dims(len(shape)), dtype="bool")
        a = RNG.random(shape) > 0.5
        check([x], relay.argwhere(x), [a], np.argwhere(a))


def test_take_gather_and_where() -> None:
    x = relay.var("x", shape=any_dims(2))
    i = relay.var("i", shape=any_dims(1), dtype="int32")
    a, at = data_of(4, 5), np.array([0, 3, 1], "int32")
    check([x, i], relay.take(x, i, axis=0), [a, at], a[at])
    cond = relay.var("c", shape=any_dims(2), dtype="bool")
    flags = a > 0.5
    check([cond, x], relay.where(cond, x, relay.const(0.0)), [flags, a], np.where(flags, a, 0))
    j = relay.var("j", shape=any_dims(2), dtype="int32")
    places = np.array([[0, 1], [3, 2]], "int32")
    check([x, j], relay.gather(x, 1, j), [a[:2], places], np.take_along_axis(a[:2], places, 1))


def test_tile_repeat_and_transpose() -> None:
    x = relay.var("x", shape=any_dims(2))
    a = data_of(2, 3)
    check([x], relay.tile(x, (2, 1)), [a], np.tile(a, (2, 1)))
    check([x], relay.repeat(x, 2, 0), [a], a.repeat(2, 0))
    check([x], relay.transpose(x), [a], a.T)
    reps = relay.var("reps", shape=(2,), dtype="int64")
    check([x, reps], relay.tile(x, reps), [a, np.array([1, 3])], np.tile(a, (1, 3)))


def test_split_expand_squeeze() -> None:
    x = relay.var("x", shape=(relay.Any(), 6))
    a = data_of(2, 6)
    check([x], relay.split(x, 3, axis=1)[1], [a], a[:, 2:4])
    check([x], relay.expand_dims(x, axis=1, num_newaxis=2), [a], a[:, None, None])
    y = relay.var("y", shape=(1, relay.Any(), 1))
    check([y], relay.squeeze(y, axis=[0, 2]), [data_of(1, 4, 1) * 0], np.zeros(4))


def test_reductions() -> None:
    x = relay.var("x", shape=any_dims(3))
    a = data_of(2, 3, 4)
    check([x], relay.sum(x, axis=0), [a], a.sum(0))
    check([x], relay.mean(x, axis=[0, 2], keepdims=True), [a], a.mean((0, 2), keepdims=True))
    check([x], relay.argmax(x, axis=1), [a], a.argmax(1))
    check([x], relay.max(x), [a], a.max())
    check([x], relay.variance(x, axis=1), [a], a.var(1))


def test_layers() -> None:
    x = relay.var("x", shape=(relay.Any(), 3, 6, 6))
    w = relay.var("w", shape=(2, 3, 3, 3))
    a, k = data_of(2, 3, 6, 6), data_of(2, 3, 3, 3)
    y = relay.nn.conv2d(x, w, padding=(1, 1), channels=2, kernel_size=(3, 3))
    y = relay.nn.batch_flatten(relay.nn.max_pool2d(y, pool_size=(2, 2), strides=(2, 2)))
    static = relay.Function([x, w], y)
    for kind in ("debug", "vm"):
        result = relay.create_executor(kind).evaluate(static)(a, k)
        assert result.shape == (2, 18)
    d = relay.var("d", shape=any_dims(2))
    v = relay.var("v", shape=(4, 5))
    b, m = data_of(3, 5), data_of(4, 5)
    check([d, v], relay.nn.dense(d, v), [b, m], b @ m.T)
    check([d], relay.nn.softmax(d), [b], np.exp(b) / np.exp(b).sum(1, keepdims=True))


def test_batch_matmul() -> None:
    x, y = relay.var("x", shape=any_dims(3)), relay.var("y", shape=any_dims(3))
    a, b = data_of(2, 3, 4), data_of(2, 5, 4)
    check([x, y], relay.nn.batch_matmul(x, y), [a, b], a @ b.transpose(0, 2, 1))


def test_pad_topk_and_sort() -> None:
    x = relay.var("x", shape=any_dims(2))
    a = data_of(3, 5)
    check(
        [x],
        relay.nn.pad(x, ((1, 0), (0, 2)), 7),
        [a],
        np.pad(a, ((1, 0), (0, 2)), constant_values=7),
    )
    top = relay.topk(x, 2)
    check([x], top.astuple(), [a], [-np.sort(-a)[:, :2], np.argsort(-a)[:, :2]])
    k = relay.var("k", shape=(), dtype="int32")
    check(
        [x, k], relay.topk(x, k, ret_type="values"), [a, np.array(3, "int32")], -np.sort(-a)[:, :3]
    )
    check([x], relay.sort(x, axis=0), [a], np.sort(a, 0))
    check([x], relay.argsort(x, is_ascend=False), [a], np.argsort(-a))


def test_slices_by_values() -> None:
    x = relay.var("x", shape=any_dims(2))
    begin = relay.var("begin", shape=(2,), dtype="int64")
    end = relay.var("end", shape=(2,), dtype="int64")
    a = data_of(5, 6)
    args = [a, np.array([1, -3]), np.array([4, 6])]
    check([x, begin, end], relay.strided_slice(x, begin, end), args, a[1:4, -3:])
    check([x], relay.strided_slice(x, [0, 1], [9, 5], [1, 2]), [a], a[:, 1:5:2])


def test_one_hot_and_arange() -> None:
    i = relay.var("i", shape=any_dims(1), dtype="int32")
    on, off = relay.const(1.0), relay.const(0.0)
    at = np.array([2, 0], "int32")
    check([i], relay.one_hot(i, on, off, 3, -1, "float32"), [at], np.eye(3)[at])
    depth = relay.var("depth", shape=(), dtype="int32")
    hot = relay.one_hot(i, on, off, depth, -1, "float32")
    check([i, depth], hot, [at, np.array(4, "int32")], np.eye(4)[at])
    n = relay.var("n", shape=(), dtype="int32")
    up = relay.arange(relay.const(0), n, relay.const(2), dtype="int32")
    check([n], up, [np.array(7, "int32")], np.arange(0, 7, 2))


def test_unique_and_nonzero_counts() -> None:
    x = relay.var("x", shape=any_dims(1), dtype="int32")
    unique, _, _, count = relay.unique(x, is_sorted=True)
    values = relay.strided_slice(
        unique, begin=[0], end=relay.reshape(count, [1]), slice_mode="size"
    )
    check([x], values, [np.array([3, 1, 3, 2], "int32")], [1, 2, 3])


def test_a_shape_is_a_tensor() -> None:
    x = relay.var("x", shape=any_dims(3))
    a = data_of(2, 1, 4)
    check([x], relay.shape_of(x, "int64"), [a], [2, 1, 4])
    check([x], relay.op.ndarray_size(x), [a], 8)
    y = relay.var("y", shape=any_dims(2))
    check([x, y], relay.reshape_like(x, y), [a, data_of(4, 2)], a.reshape(4, 2))
    check(
        [x, y],
        relay.broadcast_to(y, relay.const([2, 4, 2])),
        [a, a[0, :, :2] * 0],
        np.zeros((2, 4, 2)),
    )


def test_a_branch_of_other_sizes() -> None:
    x = relay.var("x", shape=any_dims(1))
    c = relay.var("c", shape=(), dtype="bool")
    body = relay.If(c, relay.concatenate([x, x], 0), x)
    a = data_of(3)
    check([c, x], body, [np.array(True), a], np.concatenate([a, a]))
    check([c, x], body, [np.array(False), a], a)


def test_a_loop_over_a_length() -> None:
    x = relay.var("x", shape=any_dims(1), dtype="int32")
    n = relay.take(relay.shape_of(x), relay.const(0))

    def cond(i, _total):
        return relay.less(i, n)

    def body(i, total):
        return i + relay.const(1), total + relay.take(x, i)

    i, total = relay.var("i", "int32"), relay.var("total", "int32")
    loop = while_loop(cond, [i, total], body)
    result = relay.TupleGetItem(loop(relay.const(0), relay.const(0)), 1)
    check([x], result, [np.arange(6, dtype="int32")], 15)


def test_recursion_whose_result_grows() -> None:
    mod = tvm.IRModule()
    grow = relay.GlobalVar("grow")
    i = relay.var("i", shape=(), dtype="int32")
    x = relay.var("x", shape=(relay.Any(),))
    again = grow(i - relay.const(1), relay.concatenate([x, x], 0))
    body = relay.If(relay.greater(i, relay.const(0)), again, x)
    mod[grow] = relay.Function([i, x], body, relay.TensorType((relay.Any(),)))
    mod["main"] = relay.Function([i, x], grow(i, x))
    check_result([np.array(3, "int32"), np.ones(2, "float32")], np.ones(16), mod=mod)
