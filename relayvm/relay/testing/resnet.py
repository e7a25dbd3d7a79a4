"""Residual networks with normalisation first.

Source: He et al., "Identity mappings in deep residual networks".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from relayvm.base.diagnostics import error, quantity
from relayvm.ir.expr import Expr, Function
from relayvm.relay.expr import var
from relayvm.relay.module import IRModule
from relayvm.relay.ndarray import NDArray
from relayvm.relay.op import add, nn
from relayvm.relay.testing import layers
from relayvm.relay.testing.init import create_workload

Shape = tuple[int, ...]
EPSILON = 2e-5
SMALL_IMAGE = 28
DEEP_LAYERS = 164
BOTTLENECK_LAYERS = 50

# units of each of the four stages, by the number of layers
UNITS = {
    18: (2, 2, 2, 2),
    34: (3, 4, 6, 3),
    50: (3, 4, 6, 3),
    101: (3, 4, 23, 3),
    152: (3, 8, 36, 3),
    200: (3, 24, 36, 3),
    269: (3, 30, 48, 8),
}


def residual_unit(
    data: Expr,
    num_filter: int,
    stride: Shape,
    dim_match: bool,
    name: str,
    bottle_neck: bool = True,
    data_layout: str = "NCHW",
    kernel_layout: str = "IOHW",
) -> Expr:
    """Return the sum of `data` and convolutions of it; without `dim_match`, `data` is convolved
    too. Works on volumes where the layout has three spatial axes.
    """
    axes = len(data_layout) - 2
    convolve = layers.conv2d if axes == 2 else layers.conv3d
    point = (1,) * axes
    form: dict[str, Any] = {"data_layout": data_layout, "kernel_layout": kernel_layout}
    axis = data_layout.index("C")
    inner = int(num_filter * 0.25)
    # channels, kernel, stride of each convolution
    plan = (
        ((inner, 1, stride), (inner, 3, point), (num_filter, 1, point))
        if bottle_neck
        else ((num_filter, 3, stride), (num_filter, 3, point))
    )
    x, first = data, data
    for number, (channels, size, step) in enumerate(plan, 1):
        normal = layers.batch_norm_infer(x, epsilon=EPSILON, axis=axis, name=f"{name}_bn{number}")
        x = nn.relu(normal)
        first = x if number == 1 else first
        x = convolve(
            x,
            channels=channels,
            kernel_size=(size,) * axes,
            strides=step,
            padding=(size // 2,) * axes,
            name=f"{name}_conv{number}",
            **form,
        )
    if dim_match:
        return add(x, data)
    shortcut = convolve(
        first,
        channels=num_filter,
        kernel_size=point,
        strides=stride,
        name=f"{name}_sc",
        **form,
    )
    return add(x, shortcut)


def resnet(
    units: Sequence[int],
    num_stages: int,
    filter_list: Sequence[int],
    num_classes: int,
    data_shape: Shape,
    bottle_neck: bool = True,
    layout: str = "NCHW",
    dtype: str = "float32",
) -> Function:
    """Return the network of stages of units; images of at most 32 pixels begin at full size."""
    if len(units) != num_stages:
        raise error("bad-option", f"{num_stages} stages need as many units, not {len(units)}")
    kernel_layout = layers.conv_kernel_layout(layout)
    form: dict[str, Any] = {"data_layout": layout, "kernel_layout": kernel_layout}
    axis = layout.index("C")
    x: Expr = layers.batch_norm_infer(
        var("data", shape=data_shape, dtype=dtype),
        epsilon=EPSILON,
        axis=axis,
        scale=False,
        name="bn_data",
    )
    x = _stem(x, filter_list[0], data_shape[layout.index("H")], axis, layout, form)
    x = stages(x, units, filter_list, bottle_neck, form)
    x = nn.relu(layers.batch_norm_infer(x, epsilon=EPSILON, axis=axis, name="bn1"))
    x = nn.batch_flatten(nn.global_avg_pool2d(x, layout=layout))
    return layers.network(nn.softmax(layers.dense_add_bias(x, units=num_classes, name="fc1")))


def stages(
    x: Expr,
    units: Sequence[int],
    filter_list: Sequence[int],
    bottle_neck: bool,
    form: dict[str, Any],
) -> Expr:
    """Return the stages of units; each but the first halves the image."""
    axes = len(form["data_layout"]) - 2
    for stage, count in enumerate(units):
        for unit in range(count):
            halves = stage > 0 and unit == 0
            x = residual_unit(
                x,
                filter_list[stage + 1],
                (2 if halves else 1,) * axes,
                unit > 0,
                name=f"stage{stage + 1}_unit{unit + 1}",
                bottle_neck=bottle_neck,
                **form,
            )
    return x


def _stem(
    x: Expr, channels: int, height: int, axis: int, layout: str, form: dict[str, Any]
) -> Expr:
    if height <= 32:
        return layers.conv2d(
            x,
            channels=channels,
            kernel_size=(3, 3),
            strides=(1, 1),
            padding=(1, 1),
            name="conv0",
            **form,
        )
    x = layers.conv2d(
        x,
        channels=channels,
        kernel_size=(7, 7),
        strides=(2, 2),
        padding=(3, 3),
        name="conv0",
        **form,
    )
    x = nn.relu(layers.batch_norm_infer(x, epsilon=EPSILON, axis=axis, name="bn0"))
    return nn.max_pool2d(x, pool_size=(3, 3), strides=(2, 2), padding=(1, 1), layout=layout)


def get_net(
    batch_size: int,
    num_classes: int,
    num_layers: int = 50,
    image_shape: Shape = (3, 224, 224),
    layout: str = "NCHW",
    dtype: str = "float32",
    **kwargs: Any,
) -> Function:
    """Return the network of so many layers; images of at most 28 pixels get three stages."""
    layers.conv_kernel_layout(layout)  # refuses what is no layout
    units, filters, bottle_neck = plan(num_layers, image_shape[1 if layout == "NCHW" else 0])
    shape = (batch_size, *image_shape)
    return resnet(units, len(units), filters, num_classes, shape, bottle_neck, layout, dtype)


def plan(num_layers: int, height: int) -> tuple[Shape, Shape, bool]:
    """Return the units and the channels of each stage, and whether units have a bottleneck.

    Raises RelayError `bad-option` for numbers of layers that nobody has tried.
    """
    if height <= SMALL_IMAGE:
        return _small_plan(num_layers)
    if num_layers not in UNITS:
        raise _no_plan(num_layers)
    bottle_neck = num_layers >= BOTTLENECK_LAYERS
    filters = (64, 256, 512, 1024, 2048) if bottle_neck else (64, 64, 128, 256, 512)
    return UNITS[num_layers], filters, bottle_neck


def _small_plan(num_layers: int) -> tuple[Shape, Shape, bool]:
    deep = num_layers >= DEEP_LAYERS
    count, rest = divmod(num_layers - 2, 9 if deep else 6)
    if rest or count < 1:
        raise _no_plan(num_layers)
    filters = (16, 64, 128, 256) if deep else (16, 16, 32, 64)
    return (count,) * 3, filters, deep


def _no_plan(num_layers: int) -> Exception:
    layers_wanted = quantity(num_layers, "layer")
    return error("bad-option", f"there is no plan for a residual network of {layers_wanted}")


def get_workload(
    batch_size: int = 1,
    num_classes: int = 1000,
    num_layers: int = 18,
    image_shape: Shape = (3, 224, 224),
    layout: str = "NCHW",
    dtype: str = "float32",
    **kwargs: Any,
) -> tuple[IRModule, dict[str, NDArray]]:
    """Return the network as a module, and parameters."""
    net = get_net(batch_size, num_classes, num_layers, image_shape, layout, dtype, **kwargs)
    return create_workload(net)
