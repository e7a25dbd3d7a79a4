"""The deep Q-network for Atari games.

Source: Mnih et al., "Human-level control through deep reinforcement learning", Nature 518.
"""

from __future__ import annotations

from relayvm.ir.expr import Expr, Function
from relayvm.relay.expr import var
from relayvm.relay.module import IRModule
from relayvm.relay.ndarray import NDArray
from relayvm.relay.op import nn
from relayvm.relay.testing import layers
from relayvm.relay.testing.init import create_workload

Shape = tuple[int, ...]

# channels, kernel, stride of each convolution
CONVOLUTIONS = ((32, 8, 4), (64, 4, 2), (64, 3, 1))


def get_net(
    batch_size: int,
    num_actions: int = 18,
    image_shape: Shape = (4, 84, 84),
    dtype: str = "float32",
    layout: str = "NCHW",
) -> Function:
    """Return the network."""
    data = var("data", shape=(batch_size, *image_shape), dtype=dtype)
    kernel_layout = layers.conv_kernel_layout(layout)
    axis = layout.index("C")
    x: Expr = data
    for number, (channels, size, stride) in enumerate(CONVOLUTIONS, 1):
        name = f"conv{number}"
        x = layers.conv2d(
            x,
            kernel_size=(size, size),
            strides=(stride, stride),
            padding=(0, 0),
            channels=channels,
            name=name,
            data_layout=layout,
            kernel_layout=kernel_layout,
        )
        x = nn.relu(nn.bias_add(x, var(f"{name}_bias"), axis))
    x = nn.batch_flatten(x)
    x = nn.relu(layers.dense_add_bias(x, units=512, name="dense1"))
    return layers.network(layers.dense_add_bias(x, units=num_actions, name="dense2"))


def get_workload(
    batch_size: int,
    num_actions: int = 18,
    image_shape: Shape = (4, 84, 84),
    dtype: str = "float32",
    layout: str = "NCHW",
) -> tuple[IRModule, dict[str, NDArray]]:
    """Return the network as a module, and parameters."""
    return create_workload(get_net(batch_size, num_actions, image_shape, dtype, layout))
