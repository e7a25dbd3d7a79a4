"""SqueezeNet.

Source: Iandola et al., "SqueezeNet: AlexNet-level accuracy with 50x fewer parameters".
"""

from __future__ import annotations

from relayvm.base.diagnostics import error
from relayvm.ir.expr import Expr, Function
from relayvm.relay.expr import var
from relayvm.relay.module import IRModule
from relayvm.relay.ndarray import NDArray
from relayvm.relay.op import concatenate, nn
from relayvm.relay.testing import layers
from relayvm.relay.testing.init import create_workload

Shape = tuple[int, ...]

# channels, kernel and padding of the first convolution, then fires: squeeze and expand channels,
# 0 for a pooling
VERSIONS = {
    "1.0": (
        (96, 7, 3),
        (0, (16, 64), (16, 64), (32, 128), 0, (32, 128), (48, 192), (48, 192), (64, 256), 0)
        + ((64, 256),),
    ),
    "1.1": (
        (64, 3, 1),
        (0, (16, 64), (16, 64), 0, (32, 128), (32, 128), 0, (48, 192), (48, 192))
        + ((64, 256), (64, 256)),
    ),
}


def _convolution(x: Expr, channels: int, size: int, padding: int, name: str) -> Expr:
    x = layers.conv2d(
        x, channels=channels, kernel_size=(size, size), padding=(padding, padding), name=name
    )
    return nn.relu(nn.bias_add(x, var(f"{name}_bias")))


def _fire(x: Expr, squeeze: int, expand: int, prefix: str) -> Expr:
    x = _convolution(x, squeeze, 1, 0, f"{prefix}_input_conv")
    left = _convolution(x, expand, 1, 0, f"{prefix}_left_conv")
    right = _convolution(x, expand, 3, 1, f"{prefix}_right_conv")
    return concatenate((left, right), axis=1)


def get_net(
    batch_size: int, image_shape: Shape, num_classes: int, version: str, dtype: str
) -> Function:
    """Return the network of a version, `1.0` or `1.1`."""
    if version not in VERSIONS:
        raise error("bad-option", f"there is no SqueezeNet version `{version}`; known: 1.0, 1.1")
    (channels, size, padding), plan = VERSIONS[version]
    data = var("data", shape=(batch_size, *image_shape), dtype=dtype)
    x: Expr = layers.conv2d(
        data,
        channels=channels,
        kernel_size=(size, size),
        strides=(2, 2),
        padding=(padding, padding),
        name="conv1",
    )
    x = nn.relu(nn.bias_add(x, var("conv1_bias")))
    fires = 0
    for step in plan:
        if isinstance(step, tuple):
            fires += 1
            squeeze, expand = step
            x = _fire(x, squeeze, expand, f"fire{fires}")
        else:
            x = nn.max_pool2d(x, pool_size=(3, 3), strides=(2, 2))
    x = _convolution(nn.dropout(x, rate=0.5), num_classes, 1, 0, "conv_final")
    return layers.network(nn.softmax(nn.batch_flatten(nn.global_avg_pool2d(x))))


def get_workload(
    batch_size: int = 1,
    num_classes: int = 1000,
    version: str = "1.0",
    image_shape: Shape = (3, 224, 224),
    dtype: str = "float32",
) -> tuple[IRModule, dict[str, NDArray]]:
    """Return the network as a module, and parameters."""
    return create_workload(get_net(batch_size, image_shape, num_classes, version, dtype))
