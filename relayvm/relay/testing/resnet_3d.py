"""Residual networks on volumes.

Source: Tran et al., "A closer look at spatiotemporal convolutions for action recognition".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from relayvm.ir.expr import Expr, Function
from relayvm.relay.expr import var
from relayvm.relay.module import IRModule
from relayvm.relay.ndarray import NDArray
from relayvm.relay.op import nn
from relayvm.relay.testing import layers
from relayvm.relay.testing.init import create_workload
from relayvm.relay.testing.resnet import EPSILON, plan, stages

Shape = tuple[int, ...]


def resnet(
    units: Sequence[int],
    num_stages: int,
    filter_list: Sequence[int],
    num_classes: int,
    data_shape: Shape,
    bottle_neck: bool = True,
    layout: str = "NCDHW",
    dtype: str = "float32",
) -> Function:
    """Return the network of stages of units; volumes of at most 32 pixels begin at full size."""
    kernel_layout = "OIDHW" if layout == "NCDHW" else "DHWIO"
    form: dict[str, Any] = {"data_layout": layout, "kernel_layout": kernel_layout}
    axis = layout.index("C")
    x: Expr = layers.batch_norm_infer(
        var("data", shape=data_shape, dtype=dtype),
        epsilon=EPSILON,
        axis=axis,
        scale=False,
        name="bn_data",
    )
    small = data_shape[layout.index("H")] <= 32
    x = layers.conv3d(
        x,
        channels=filter_list[0],
        kernel_size=(3, 3, 3) if small else (3, 7, 7),
        strides=(1, 1, 1) if small else (1, 2, 2),
        padding=(1, 1, 1) if small else (1, 3, 3),
        name="conv0",
        **form,
    )
    if not small:
        x = nn.relu(layers.batch_norm_infer(x, epsilon=EPSILON, axis=axis, name="bn0"))
    x = stages(x, units[:num_stages], filter_list, bottle_neck, form)
    x = nn.relu(layers.batch_norm_infer(x, epsilon=EPSILON, axis=axis, name="bn1"))
    x = nn.batch_flatten(nn.global_avg_pool3d(x, layout=layout))
    return layers.network(nn.softmax(layers.dense_add_bias(x, units=num_classes, name="fc1")))


def get_net(
    batch_size: int,
    num_classes: int,
    num_layers: int = 50,
    image_shape: Shape = (3, 16, 112, 112),
    layout: str = "NCDHW",
    dtype: str = "float32",
    **kwargs: Any,
) -> Function:
    """Return the network of so many layers."""
    units, filters, bottle_neck = plan(num_layers, image_shape[2 if layout == "NCDHW" else 1])
    shape = (batch_size, *image_shape)
    return resnet(units, len(units), filters, num_classes, shape, bottle_neck, layout, dtype)


def get_workload(
    batch_size: int = 1,
    num_classes: int = 1000,
    num_layers: int = 18,
    image_shape: Shape = (3, 16, 112, 112),
    layout: str = "NCDHW",
    dtype: str = "float32",
    **kwargs: Any,
) -> tuple[IRModule, dict[str, NDArray]]:
    """Return the network as a module, and parameters."""
    return create_workload(get_net(batch_size, num_classes, num_layers, image_shape, layout, dtype))
