"""DenseNet.

Source: Huang et al., "Densely connected convolutional networks". As in TVM, whose files of
parameters fit, a layer sees what the layer before it gives, and a block gives what its layers give.
"""

from __future__ import annotations

from collections.abc import Sequence

from relayvm.base.diagnostics import error, quantity
from relayvm.ir.expr import Expr, Function
from relayvm.relay.expr import var
from relayvm.relay.module import IRModule
from relayvm.relay.ndarray import NDArray
from relayvm.relay.op import concatenate, nn
from relayvm.relay.testing import layers
from relayvm.relay.testing.init import create_workload

Shape = tuple[int, ...]

# channels of the first convolution, growth, layers of each block
SPECS = {
    121: (64, 32, (6, 12, 24, 16)),
    161: (96, 48, (6, 12, 36, 24)),
    169: (69, 32, (6, 12, 32, 32)),
    201: (64, 32, (6, 12, 48, 32)),
}


def _layer(x: Expr, growth_rate: int, bn_size: int, index: str) -> Expr:
    x = nn.relu(layers.batch_norm_infer(x, name=f"batch_1_{index}"))
    x = layers.conv2d(
        x, channels=bn_size * growth_rate, kernel_size=(1, 1), name=f"conv2d_1_{index}"
    )
    x = nn.relu(layers.batch_norm_infer(x, name=f"batch_2_{index}"))
    return layers.conv2d(
        x,
        channels=growth_rate,
        kernel_size=(3, 3),
        padding=(1, 1),
        name=f"conv2d_2_{index}",
    )


def _block(x: Expr, count: int, growth_rate: int, bn_size: int, index: int) -> Expr:
    outputs = []
    for i in range(count):
        x = _layer(x, growth_rate, bn_size, f"{index}_{i}")
        outputs.append(x)
    return concatenate(outputs, axis=1)


def _transition(x: Expr, channels: int, index: int) -> Expr:
    x = nn.relu(layers.batch_norm_infer(x, name=f"batch_t_{index}"))
    x = layers.conv2d(x, channels=channels, kernel_size=(1, 1), name=f"conv_t_{index}")
    return nn.avg_pool2d(x, pool_size=(2, 2), strides=(2, 2))


def dense_net(
    num_init_features: int,
    growth_rate: int,
    block_config: Sequence[int],
    data_shape: Shape,
    data_dtype: str,
    bn_size: int = 4,
    classes: int = 1000,
) -> Function:
    """Return the network of blocks, with a transition behind each but the last."""
    data = var("data", shape=data_shape, dtype=data_dtype)
    x: Expr = layers.conv2d(
        data,
        channels=num_init_features,
        kernel_size=(7, 7),
        strides=(2, 2),
        padding=(3, 3),
        name="conv1",
    )
    x = nn.relu(layers.batch_norm_infer(x, name="batch1"))
    x = nn.max_pool2d(x, pool_size=(3, 3), strides=(2, 2), padding=(1, 1))
    channels = num_init_features
    for i, count in enumerate(block_config):
        x = _block(x, count, growth_rate, bn_size, i)
        channels += count * growth_rate
        if i != len(block_config) - 1:
            channels //= 2
            x = _transition(x, channels, i)
    x = nn.relu(layers.batch_norm_infer(x, name="batch2"))
    sides = [_side(side, len(block_config)) for side in data_shape[2:]]
    x = nn.batch_flatten(layers.avg_pool2d_within(x, 7, (sides[0], sides[1])))
    return layers.network(layers.dense_add_bias(x, units=classes, name="dense"))


def _side(side: int, blocks: int) -> int:
    """Return the side of images behind the last block; those of 224 become 7 behind four."""
    side = ((side + 1) // 2 + 1) // 2
    return side >> (blocks - 1)


def get_net(
    densenet_size: int = 121,
    classes: int = 1000,
    batch_size: int = 4,
    image_shape: Shape = (3, 224, 224),
    dtype: str = "float32",
) -> Function:
    """Return the network of 121, 161, 169 or 201 layers."""
    if densenet_size not in SPECS:
        known = ", ".join(str(size) for size in SPECS)
        wanted = quantity(densenet_size, "layer")
        raise error("bad-option", f"there is no DenseNet of {wanted}; known: {known}")
    first, growth, blocks = SPECS[densenet_size]
    return dense_net(first, growth, blocks, (batch_size, *image_shape), dtype, classes=classes)


def get_workload(
    densenet_size: int = 121,
    classes: int = 1000,
    batch_size: int = 4,
    image_shape: Shape = (3, 224, 224),
    dtype: str = "float32",
) -> tuple[IRModule, dict[str, NDArray]]:
    """Return the network as a module, and parameters."""
    return create_workload(get_net(densenet_size, classes, batch_size, image_shape, dtype))
