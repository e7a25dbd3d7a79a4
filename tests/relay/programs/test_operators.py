"""Operators as programs call them, level by level."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm as tvm
from relayvm import relay
from tests.relay.programs.machine import RNG, compare, run_infer_type


def verify(func, args, expected, rtol=1e-5) -> None:
    """Run a function on each executor that takes it."""
    for target, dev in tvm.testing.enabled_targets():
        for kind in ("graph", "debug", "vm"):
            executor = relay.create_executor(kind, device=dev, target=target)
            compare(executor.evaluate(func)(*args), expected)


def sigmoid(x):
    one = np.ones_like(x)
    return one / (one + np.exp(-x))


@pytest.mark.parametrize(
    ("op", "ref"),
    [
        (relay.log, np.log),
        (relay.exp, np.exp),
        (relay.sqrt, np.sqrt),
        (relay.rsqrt, lambda x: 1 / np.sqrt(x)),
        (relay.sigmoid, sigmoid),
        (relay.tanh, np.tanh),
        (relay.nn.relu, lambda x: np.maximum(x, 0)),
        (relay.cos, np.cos),
        (relay.tan, np.tan),
        (relay.atan, np.arctan),
        (relay.log2, np.log2),
        (relay.ceil, np.ceil),
        (relay.sign, np.sign),
        (relay.abs, np.abs),
    ],
)
def test_unary_operators(op, ref) -> None:
    shape = (10, 4)
    x = relay.var("x", relay.TensorType(shape, "float32"))
    y = op(x)
    assert ("%x" in y.astext()) and run_infer_type(y).checked_type == relay.TensorType(shape)
    data = RNG.random(shape).astype("float32")
    verify(relay.Function([x], y), [data], ref(data))


@pytest.mark.parametrize(
    ("op", "ref"),
    [
        (relay.add, np.add),
        (relay.subtract, np.subtract),
        (relay.multiply, np.multiply),
        (relay.divide, np.divide),
        (relay.floor_divide, np.floor_divide),
        (relay.floor_mod, np.fmod),
        (relay.power, np.power),
        (relay.maximum, np.maximum),
    ],
)
def test_binary_operators(op, ref) -> None:
    x, y = relay.var("x", shape=(2, 5, 3)), relay.var("y", shape=(5, 3))
    a = RNG.random((2, 5, 3)).astype("float32") + 1
    b = RNG.random((5, 3)).astype("float32") + 1
    verify(relay.Function([x, y], op(x, y)), [a, b], ref(a, b))


def test_comparisons_and_logic() -> None:
    x, y = relay.var("x", shape=(4,)), relay.var("y", shape=(4,))
    a, b = np.float32([1, 2, 3, 4]), np.float32([4, 2, 1, 4])
    z = relay.logical_and(relay.less(x, y), relay.logical_not(relay.equal(x, relay.const(2.0))))
    verify(relay.Function([x, y], z), [a, b], (a < b) & (a != 2))


def test_biases_and_products() -> None:
    x, b = relay.var("x", shape=(3, 4)), relay.var("b", shape=(4,))
    z = relay.nn.bias_add(x, b, axis=-1)
    a, v = RNG.random((3, 4)).astype("float32"), RNG.random(4).astype("float32")
    verify(relay.Function([x, b], z), [a, v], a + v)
    w = relay.var("w", relay.TensorType((2, 4)))
    y = relay.nn.dense(x, w, units=2)
    assert "units=2" in y.astext()
    k = RNG.random((2, 4)).astype("float32")
    verify(relay.Function([x, w], y), [a, k], a @ k.T)
    m = relay.nn.matmul(x, w, transpose_b=True)
    verify(relay.Function([x, w], m), [a, k], a @ k.T)


def test_softmaxes_and_norms() -> None:
    x = relay.var("x", shape=(3, 4))
    a = RNG.random((3, 4)).astype("float32")
    e = np.exp(a - a.max(1, keepdims=True))
    soft = e / e.sum(1, keepdims=True)
    verify(relay.Function([x], relay.nn.softmax(x, axis=1)), [a], soft)
    verify(relay.Function([x], relay.nn.log_softmax(x, axis=1)), [a], np.log(soft))
    g, b = relay.const(np.ones(4, "float32")), relay.const(np.zeros(4, "float32"))
    norm = relay.nn.layer_norm(x, g, b, axis=-1)
    ref = (a - a.mean(1, keepdims=True)) / np.sqrt(a.var(1, keepdims=True) + 1e-5)
    verify(relay.Function([x], norm), [a], ref)
    l2 = relay.nn.l2_normalize(x, eps=0.001, axis=[1])
    verify(relay.Function([x], l2), [a], a / np.sqrt((a * a).sum(1, keepdims=True)))


def test_convolutions_and_pooling() -> None:
    x = relay.var("x", shape=(1, 2, 5, 5))
    w = relay.var("w", shape=(3, 2, 1, 1))
    a, k = RNG.random((1, 2, 5, 5)).astype("float32"), RNG.random((3, 2, 1, 1)).astype("float32")
    y = relay.nn.conv2d(x, w, kernel_size=(1, 1), channels=3)
    verify(relay.Function([x, w], y), [a, k], np.einsum("bchw,ocij->bohw", a, k))
    y = relay.nn.avg_pool2d(x, pool_size=(5, 5))
    verify(relay.Function([x], y), [a], a.mean((2, 3), keepdims=True))
    y = relay.nn.global_max_pool2d(x)
    verify(relay.Function([x], y), [a], a.max((2, 3), keepdims=True))
    up = relay.nn.upsampling(x, scale_h=2, scale_w=2)
    verify(relay.Function([x], up), [a], a.repeat(2, 2).repeat(2, 3))


@pytest.mark.parametrize(("axes", "layout"), [(1, "IOW"), (2, "IOHW"), (3, "IODHW")])
def test_transposed_convolutions_without_a_layout(axes, layout) -> None:
    size = (4,) * axes
    x = relay.var("x", shape=(1, 3, *size))
    w = relay.var("w", shape=(3, 10, *(1,) * axes))
    y = getattr(relay.nn, f"conv{axes}d_transpose")(x, w, channels=10, kernel_size=(1,) * axes)
    assert y.attrs.kernel_layout == layout
    assert run_infer_type(y).checked_type == relay.TensorType((1, 10, *size))
    a = RNG.random((1, 3, *size)).astype("float32")
    k = RNG.random((3, 10, *(1,) * axes)).astype("float32")
    expected = np.tensordot(k.reshape(3, 10).T, a[0], 1)[None]
    verify(relay.Function([x, w], y), [a, k], expected)


def test_shapes_change() -> None:
    x = relay.var("x", relay.TensorType((2, 3, 4)))
    a = RNG.random((2, 3, 4)).astype("float32")
    for y, ref in (
        (relay.reshape(x, newshape=(6, 4)), a.reshape(6, 4)),
        (relay.reshape(x, (0, -1)), a.reshape(2, 12)),
        (relay.reshape(x, -1), a.ravel()),
        (relay.transpose(x, axes=(0, 2, 1)), a.transpose(0, 2, 1)),
        (relay.expand_dims(x, axis=0, num_newaxis=2), a[None, None]),
        (relay.squeeze(relay.expand_dims(x, 1)), a),
        (relay.strided_slice(x, begin=[0, 1], end=[2, 3]), a[0:2, 1:3]),
        (relay.strided_slice(x, begin=[1], end=[0], strides=[-1], axes=[1]), a[:, 1:0:-1]),
        (relay.reverse(x, axis=1), a[:, ::-1]),
        (relay.concatenate([x, x], axis=-1), np.concatenate([a, a], -1)),
        (relay.concatenate((x, x), axis=0), np.concatenate([a, a], 0)),
        (relay.stack([x, x], axis=1), np.stack([a, a], 1)),
        (relay.broadcast_to(x, (5, 2, 3, 4)), np.broadcast_to(a, (5, 2, 3, 4))),
        (relay.tile(x, (2,)), np.tile(a, (2,))),
        (relay.nn.pad(x, ((0, 0), (1, 1), (0, 2))), np.pad(a, ((0, 0), (1, 1), (0, 2)))),
        (relay.full(relay.const(2.0), (2, 2)), np.full((2, 2), 2)),
        (relay.layout_transform(x, "NCW", "NWC"), a.transpose(0, 2, 1)),
    ):
        params = relay.analysis.free_vars(y)
        verify(relay.Function(params, y), [a] if params else [], ref)


def test_reductions_with_their_options() -> None:
    x = relay.var("x", shape=(2, 3, 4))
    a = RNG.random((2, 3, 4)).astype("float32")
    for y, ref in (
        (relay.sum(x), a.sum()),
        (relay.sum(x, axis=1, exclude=True), a.sum((0, 2))),
        (relay.mean(x, axis=(0, 1), keepdims=True), a.mean((0, 1), keepdims=True)),
        (relay.prod(x, axis=-1), a.prod(-1)),
        (relay.argmin(x, axis=2), a.argmin(2)),
        (relay.std(x, axis=0), a.std(0)),
        (relay.logsumexp(x, axis=1), np.log(np.exp(a).sum(1))),
    ):
        verify(relay.Function([x], y), [a], ref)
    mean, variance = relay.mean_variance(x, axis=0)
    f = relay.Function([x], relay.Tuple([mean, variance]))
    verify(f, [a], [a.mean(0), a.var(0)])


def test_reductions_of_bools() -> None:
    x, y = relay.var("x", shape=(2, 3)), relay.var("y", shape=(2, 3))
    a = np.ones((2, 3), "float32")
    same = relay.equal(x, y)
    for op, ref in (
        (relay.all, np.all),
        (relay.any, np.any),
        (relay.min, np.all),
        (relay.max, np.any),
        (relay.prod, np.all),
        (relay.sum, np.any),
    ):
        f = relay.Function([x, y], op(same, axis=[0, 1]))
        assert run_infer_type(f).ret_type == relay.scalar_type("bool")
        b = np.float32([[1, 0, 1], [1, 1, 1]])
        verify(f, [a, b], ref(a == b))
        verify(f, [a, a * 0], ref(a == 0))


def test_casts_clips_and_roundings() -> None:
    x = relay.var("x", shape=(4,))
    a = np.float32([-1.5, 0.5, 2.5, 300])
    for y, ref in (
        (x.astype("int32"), a.astype("int32")),
        (relay.cast(x, "float64"), a.astype("float64")),
        (relay.clip(x, 0, 2), a.clip(0, 2)),
        (relay.round(relay.clip(x, -1.2, 2.4)), [-1, 0, 2, 2]),
        (relay.reinterpret(relay.reinterpret(x, "int32"), "float32"), a),
        (relay.copy(x) * relay.const(2.0), a * 2),
        (relay.where(x > relay.const(0.0), x, -x), abs(a)),
    ):
        verify(relay.Function([x], y), [a], ref)


def test_indexing() -> None:
    x = relay.var("x", shape=(3, 4))
    i = relay.var("i", shape=(2,), dtype="int32")
    a, at = RNG.random((3, 4)).astype("float32"), np.array([2, 0], "int32")
    verify(relay.Function([x, i], relay.take(x, i, axis=0)), [a, at], a[at])
    verify(relay.Function([x, i], relay.take(x, i)), [a, at], a.ravel()[at])
    j = relay.const(np.array([[0, 2], [1, 3]]), "int32")
    verify(relay.Function([x], relay.gather_nd(x, j)), [a], a[[0, 2], [1, 3]])
    hot = relay.one_hot(i, relay.const(1.0), relay.const(0.0), 3, -1, "float32")
    verify(relay.Function([i], hot), [at], np.eye(3)[at])
    s = relay.op.scatter_elements(x, relay.const([[0, 1, 2, 0]], "int32"), relay.const([[9.0] * 4]))
    b = a.copy()
    np.put_along_axis(b, np.array([[0, 1, 2, 0]]), 9.0, 0)
    verify(relay.Function([x], s), [a], b)


def test_sorting() -> None:
    x = relay.var("x", shape=(3, 5))
    a = RNG.random((3, 5)).astype("float32")
    verify(relay.Function([x], relay.sort(x)), [a], np.sort(a))
    verify(relay.Function([x], relay.argsort(x, axis=0)), [a], np.argsort(a, 0))
    values, indices = relay.topk(x, k=2, axis=1)
    f = relay.Function([x], relay.Tuple([values, indices]))
    verify(f, [a], [-np.sort(-a)[:, :2], np.argsort(-a)[:, :2]])


def test_scans_and_products() -> None:
    x = relay.var("x", shape=(2, 3))
    a = RNG.random((2, 3)).astype("float32")
    verify(relay.Function([x], relay.op.cumsum(x, axis=1)), [a], a.cumsum(1))
    verify(relay.Function([x], relay.op.cumprod(x, axis=0)), [a], a.cumprod(0))
    verify(relay.Function([x], relay.einsum([x, x], "ij,kj->ik")), [a], a @ a.T)


def test_batch_norm_has_three_results() -> None:
    x = relay.var("x", shape=(2, 3))
    vs = [relay.var(n, shape=(3,)) for n in ("gamma", "beta", "mean", "var")]
    y = relay.nn.batch_norm(x, *vs, axis=1)
    assert len(y) == 3
    ty = run_infer_type(relay.Function([x, *vs], y.astuple())).ret_type
    assert [list(f.shape) for f in ty.fields] == [[2, 3], [3], [3]]


def test_quantized_numbers() -> None:
    x = relay.var("x", shape=(3,))
    q = relay.qnn.quantize(x, relay.const(0.5), relay.const(0), out_dtype="int8")
    d = relay.qnn.dequantize(q, relay.const(0.5), relay.const(0))
    a = np.float32([1, -2.5, 100])
    for kind in ("debug", "vm"):
        result = relay.create_executor(kind).evaluate(relay.Function([x], d))(a)
        tvm.testing.assert_allclose(result.numpy(), [1, -2.5, 63.5])


def test_random_numbers() -> None:
    key = relay.random.threefry_key(7)
    left, right = relay.random.threefry_split(key)
    _, numbers = relay.random.uniform(left, (50,), low=1.0, high=2.0)
    out = relay.create_executor("vm").evaluate(relay.Function([], numbers))()
    assert ((out.numpy() >= 1) & (out.numpy() < 2)).all()
    again = relay.create_executor("debug").evaluate(relay.Function([], numbers))()
    tvm.testing.assert_allclose(out.numpy(), again.numpy())
    assert right is not left


def test_sizes_and_axes_as_numpy_gives_them() -> None:
    x = relay.var("x", shape=(4, 4))
    for y, shape in (
        (relay.strided_slice(x, begin=np.array([0, 1]), end=np.array([2, 3])), (2, 2)),
        (relay.reshape(x, (np.int64(2), tvm.tir.IntImm("int32", 8))), (2, 8)),
        (relay.reshape(x, np.array([8, 2])), (8, 2)),
        (relay.mean(x, np.int32(1)), (4,)),
        (relay.broadcast_to(x, np.array([3, 4, 4])), (3, 4, 4)),
        (relay.transpose(x, np.array([1, 0])), (4, 4)),
        (relay.nn.pad(x, np.array([[1, 1], [0, 0]])), (6, 4)),
    ):
        assert run_infer_type(y).checked_type == relay.TensorType(shape)
