"""Inception, version 3.

Source: Szegedy et al., "Rethinking the Inception architecture for computer vision".
"""

from __future__ import annotations

from collections.abc import Sequence

from relayvm.ir.expr import Expr, Function
from relayvm.relay.expr import var
from relayvm.relay.module import IRModule
from relayvm.relay.ndarray import NDArray
from relayvm.relay.op import concatenate, nn
from relayvm.relay.testing import layers
from relayvm.relay.testing.init import create_workload

Shape = tuple[int, ...]
Step = tuple[int, Shape, Shape, Shape]  # channels, kernel, stride, padding
ONE, TWO, NONE = (1, 1), (2, 2), (0, 0)


def _conv(
    x: Expr,
    channels: int,
    kernel: Shape = ONE,
    stride: Shape = ONE,
    pad: Shape = NONE,
    name: str = "",
) -> Expr:
    x = layers.conv2d(
        x,
        channels=channels,
        kernel_size=kernel,
        strides=stride,
        padding=pad,
        name=f"{name}_conv1",
    )
    return nn.relu(layers.batch_norm_infer(x, epsilon=2e-5, scale=False, name=f"{name}_bn"))


def _same(channels: int, kernel: Shape = ONE) -> Step:
    """Return a convolution that keeps the size of images."""
    return channels, kernel, ONE, (kernel[0] // 2, kernel[1] // 2)


def _halve(channels: int) -> Step:
    return channels, (3, 3), TWO, NONE


def _tower(x: Expr, name: str, steps: Sequence[Step]) -> Expr:
    for i, step in enumerate(steps):
        x = _conv(x, *step, name=f"{name}_conv_{i}" if i else f"{name}_conv")
    return x


def _pool(x: Expr, kind: str, stride: Shape, pad: Shape) -> Expr:
    if kind == "max":
        return nn.max_pool2d(x, pool_size=(3, 3), strides=stride, padding=pad)
    return nn.avg_pool2d(x, pool_size=(3, 3), strides=stride, padding=pad, count_include_pad=True)


def _projected(x: Expr, pool: str, channels: int, name: str) -> Expr:
    return _conv(_pool(x, pool, ONE, ONE), channels, name=f"{name}_tower_2_conv")


def _block_a(x: Expr, projection: int, name: str) -> Expr:
    return concatenate(
        (
            _conv(x, 64, name=f"{name}_conv"),
            _tower(x, f"{name}_tower", (_same(48), _same(64, (5, 5)))),
            _tower(x, f"{name}_tower_1", (_same(64), _same(96, (3, 3)), _same(96, (3, 3)))),
            _projected(x, "avg", projection, name),
        ),
        axis=1,
    )


def _block_b(x: Expr, name: str) -> Expr:
    return concatenate(
        (
            _conv(x, *_halve(384), name=f"{name}_conv"),
            _tower(x, f"{name}_tower", (_same(64), _same(96, (3, 3)), _halve(96))),
            _pool(x, "max", TWO, NONE),
        ),
        axis=1,
    )


def _block_c(x: Expr, inner: int, name: str) -> Expr:
    row, column = (1, 7), (7, 1)
    once = (_same(inner), _same(inner, row), _same(192, column))
    twice = (
        _same(inner),
        _same(inner, column),
        _same(inner, row),
        _same(inner, column),
        _same(192, row),
    )
    return concatenate(
        (
            _conv(x, 192, name=f"{name}_conv"),
            _tower(x, f"{name}_tower", once),
            _tower(x, f"{name}_tower_1", twice),
            _projected(x, "avg", 192, name),
        ),
        axis=1,
    )


def _block_d(x: Expr, name: str) -> Expr:
    second = (_same(192), _same(192, (1, 7)), _same(192, (7, 1)), _halve(192))
    return concatenate(
        (
            _tower(x, f"{name}_tower", (_same(192), _halve(320))),
            _tower(x, f"{name}_tower_1", second),
            _pool(x, "max", TWO, NONE),
        ),
        axis=1,
    )


def _block_e(x: Expr, pool: str, name: str) -> Expr:
    first = _conv(x, 384, name=f"{name}_tower_conv")
    second = _tower(x, f"{name}_tower_1", (_same(448), _same(384, (3, 3))))
    split = [
        _conv(tower, *_same(384, kernel), name=f"{name}_{prefix}_mixed_conv{end}")
        for tower, prefix in ((first, "tower"), (second, "tower_1"))
        for kernel, end in (((1, 3), ""), ((3, 1), "_1"))
    ]
    return concatenate(
        (_conv(x, 320, name=f"{name}_conv"), *split, _projected(x, pool, 192, name)), axis=1
    )


def get_net(batch_size: int, num_classes: int, image_shape: Shape, dtype: str) -> Function:
    """Return the network."""
    x: Expr = var("data", shape=(batch_size, *image_shape), dtype=dtype)
    x = _conv(x, *_halve(32), name="conv")
    x = _conv(x, 32, (3, 3), name="conv_1")
    x = _conv(x, 64, (3, 3), pad=ONE, name="conv_2")
    x = _pool(x, "max", TWO, NONE)
    x = _conv(x, 80, name="conv_3")
    x = _conv(x, 192, (3, 3), name="conv_4")
    x = _pool(x, "max", TWO, NONE)
    for projection, name in ((32, "mixed"), (64, "mixed_1"), (64, "mixed_2")):
        x = _block_a(x, projection, name)
    x = _block_b(x, "mixed_3")
    for inner, name in ((128, "mixed_4"), (160, "mixed_5"), (160, "mixed_6"), (192, "mixed_7")):
        x = _block_c(x, inner, name)
    x = _block_d(x, "mixed_8")
    for pool, name in (("avg", "mixed_9"), ("max", "mixed_10")):
        x = _block_e(x, pool, name)
    sides = (_side(image_shape[1]), _side(image_shape[2]))
    x = nn.batch_flatten(layers.avg_pool2d_within(x, 8, sides))
    # The bias has this number in TVM too: old files of parameters hold it under this name.
    x = nn.bias_add(nn.dense(x, var("fc1_weight"), units=num_classes), var("fc2_bias"))
    return layers.network(nn.softmax(x))


def _side(side: int) -> int:
    """Return the side of images behind the last block; those of 299 become 8."""
    side = (side - 3) // 2 + 1
    for lost in (2, 2, 0, 0):
        side = (side - lost - 3) // 2 + 1
    return side


def get_workload(
    batch_size: int = 1,
    num_classes: int = 1000,
    image_shape: Shape = (3, 299, 299),
    dtype: str = "float32",
) -> tuple[IRModule, dict[str, NDArray]]:
    """Return the network as a module, and parameters."""
    return create_workload(get_net(batch_size, num_classes, image_shape, dtype))
