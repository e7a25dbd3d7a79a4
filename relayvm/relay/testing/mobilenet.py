"""MobileNet.

Source: Howard et al., "MobileNets: efficient convolutional neural networks for mobile vision
applications".
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

# channels that each separable block gives, and whether it halves the image
BLOCKS = (
    (64, False),
    (128, True),
    (128, False),
    (256, True),
    (256, False),
    (512, True),
    *((512, False),) * 5,
    (1024, True),
    (1024, False),
)
SHALLOW_BLOCKS = (*BLOCKS[:6], (1024, True), (1024, True))


def conv_block(
    data: Expr,
    name: str,
    channels: int,
    kernel_size: Shape = (3, 3),
    strides: Shape = (1, 1),
    padding: Shape = (1, 1),
    epsilon: float = 1e-5,
    layout: str = "NCHW",
) -> Expr:
    """Return a convolution, normalised, without negative elements."""
    x = layers.conv2d(
        data,
        channels=channels,
        kernel_size=kernel_size,
        strides=strides,
        padding=padding,
        data_layout=layout,
        kernel_layout=layers.conv_kernel_layout(layout),
        name=f"{name}_conv",
    )
    axis = layout.index("C")
    return nn.relu(layers.batch_norm_infer(x, epsilon=epsilon, name=f"{name}_bn", axis=axis))


def separable_conv_block(
    data: Expr,
    name: str,
    depthwise_channels: int,
    pointwise_channels: int,
    kernel_size: Shape = (3, 3),
    downsample: bool = False,
    padding: Shape = (1, 1),
    epsilon: float = 1e-5,
    layout: str = "NCHW",
    dtype: str = "float32",
) -> Expr:
    """Return a convolution of each channel by itself, then one of 1 x 1 over the channels."""
    kernel_layout = layers.conv_kernel_layout(layout, True)
    axis = layout.index("C")
    shape = (depthwise_channels, 1, *kernel_size)
    if layout == "NHWC":
        shape = (*kernel_size, depthwise_channels, 1)
    x: Expr = layers.conv2d(
        data,
        weight=var(f"{name}_weight", shape=shape, dtype=dtype),
        channels=depthwise_channels,
        groups=depthwise_channels,
        kernel_size=kernel_size,
        strides=(2, 2) if downsample else (1, 1),
        padding=padding,
        data_layout=layout,
        kernel_layout=kernel_layout,
        name=f"{name}_depthwise_conv1",
    )
    x = nn.relu(layers.batch_norm_infer(x, epsilon=epsilon, axis=axis, name=f"{name}_bn1"))
    x = layers.conv2d(
        x,
        channels=pointwise_channels,
        kernel_size=(1, 1),
        strides=(1, 1),
        padding=(0, 0),
        data_layout=layout,
        kernel_layout=layers.conv_kernel_layout(layout),
        name=f"{name}_conv2",
    )
    return nn.relu(layers.batch_norm_infer(x, epsilon=epsilon, axis=axis, name=f"{name}_bn2"))


def mobile_net(
    num_classes: int = 1000,
    data_shape: Shape = (1, 3, 224, 224),
    dtype: str = "float32",
    alpha: float = 1.0,
    is_shallow: bool = False,
    layout: str = "NCHW",
) -> Function:
    """Return the network; `alpha` scales its channels."""
    data = var("data", shape=data_shape, dtype=dtype)
    channels = int(32 * alpha)
    x = conv_block(data, "conv_block_1", channels, strides=(2, 2), layout=layout)
    for number, (full, halves) in enumerate(SHALLOW_BLOCKS if is_shallow else BLOCKS, 1):
        wanted = int(full * alpha)
        x = separable_conv_block(
            x,
            f"separable_conv_block_{number}",
            channels,
            wanted,
            downsample=halves,
            layout=layout,
            dtype=dtype,
        )
        channels = wanted
    x = nn.batch_flatten(nn.global_avg_pool2d(x, layout=layout))
    x = nn.bias_add(nn.dense(x, var("fc_weight"), units=num_classes), var("fc_bias"))
    return layers.network(nn.softmax(x))


def get_workload(
    batch_size: int = 1,
    num_classes: int = 1000,
    image_shape: Shape = (3, 224, 224),
    dtype: str = "float32",
    layout: str = "NCHW",
) -> tuple[IRModule, dict[str, NDArray]]:
    """Return the network as a module, and parameters."""
    shape = (batch_size, *image_shape)
    return create_workload(mobile_net(num_classes, shape, dtype, layout=layout))
