"""VGG networks.

Source: Simonyan and Zisserman, "Very deep convolutional networks for large-scale image
recognition".
"""

from __future__ import annotations

from collections.abc import Sequence

from relayvm.base.diagnostics import error
from relayvm.ir.expr import Expr, Function
from relayvm.relay.expr import var
from relayvm.relay.module import IRModule
from relayvm.relay.ndarray import NDArray
from relayvm.relay.op import nn
from relayvm.relay.testing import layers as wrapper
from relayvm.relay.testing.init import create_workload

Shape = tuple[int, ...]

# convolutions of each stage, by the number of layers
STAGES = {
    11: (1, 1, 2, 2, 2),
    13: (2, 2, 2, 2, 2),
    16: (2, 2, 3, 3, 3),
    19: (2, 2, 4, 4, 4),
}
CHANNELS = (64, 128, 256, 512, 512)


def get_feature(
    internal_layer: Expr,
    layers: Sequence[int],
    filters: Sequence[int],
    batch_norm: bool = False,
) -> Expr:
    """Return the stages of convolutions, each with a pooling behind it."""
    x = internal_layer
    for stage, (count, channels) in enumerate(zip(layers, filters), 1):
        for place in range(1, count + 1):
            name = f"conv{stage}_{place}"
            x = wrapper.conv2d(x, kernel_size=(3, 3), padding=(1, 1), channels=channels, name=name)
            x = nn.bias_add(x, var(f"{name}_bias"))
            if batch_norm:
                x = wrapper.batch_norm_infer(x, name=f"bn{stage}_{place}")
            x = nn.relu(x)
        x = nn.max_pool2d(x, pool_size=(2, 2), strides=(2, 2))
    return x


def get_classifier(input_data: Expr, num_classes: int) -> Expr:
    """Return the three dense layers behind the convolutions."""
    x: Expr = nn.batch_flatten(input_data)
    for name in ("fc6", "fc7"):
        x = nn.relu(wrapper.dense_add_bias(x, units=4096, name=name))
        x = nn.dropout(x, rate=0.5)
    return wrapper.dense_add_bias(x, units=num_classes, name="fc8")


def get_net(
    batch_size: int,
    image_shape: Shape,
    num_classes: int,
    dtype: str,
    num_layers: int = 11,
    batch_norm: bool = False,
) -> Function:
    """Return the network of 11, 13, 16 or 19 layers."""
    if num_layers not in STAGES:
        raise error("bad-option", f"VGG has 11, 13, 16 or 19 layers, not {num_layers}")
    data = var("data", shape=(batch_size, *image_shape), dtype=dtype)
    features = get_feature(data, STAGES[num_layers], CHANNELS, batch_norm)
    return wrapper.network(nn.softmax(get_classifier(features, num_classes)))


def get_workload(
    batch_size: int,
    num_classes: int = 1000,
    image_shape: Shape = (3, 224, 224),
    dtype: str = "float32",
    num_layers: int = 11,
    batch_norm: bool = False,
) -> tuple[IRModule, dict[str, NDArray]]:
    """Return the network as a module, and parameters."""
    net = get_net(batch_size, image_shape, num_classes, dtype, num_layers, batch_norm)
    return create_workload(net)
