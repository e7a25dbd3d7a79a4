"""Residual networks on volumes.

Source: Tran et al., "A closer look at spatiotemporal convolutions for action recognition".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from relayvm.base.diagnostics import error
from relayvm.ir.expr import Expr, Function
from relayvm.relay.expr import var
from relayvm.relay.module import IRModule
from relayvm.relay.ndarray import NDArray
from relayvm.relay.op import nn
from relayvm.relay.testing import layers
from relayvm.relay.testing import resnet as flat
from relayvm.relay.testing.init import create_workload
from relayvm.relay.testing.resnet import EPSILON, plan, stages

Shape = tuple[int, ...]
KERNEL_LAYOUTS = {"NCDHW": "OIDHW", "NDHWC": "DHWIO"}


def _kernel_layout(layout: str) -> str:
    if layout not in KERNEL_LAYOUTS:
        known = ", ".join(KERNEL_LAYOUTS)
        raise error("bad-option", f"there is no layout `{layout}` of volumes; known are {known}")
    return KERNEL_LAYOUTS[layout]


def residual_unit(
    data: Expr,
    num_filter: int,
    stride: Shape,
    dim_match: bool,
    name: str,
    bottle_neck: bool = True,
    data_layout: str = "NCDHW",
    kernel_layout: str = "OIDHW",
) -> Expr:
    """Return the sum of volumes and convolutions of them; without `dim_match`, `data` is convolved
    too.
    """
    rest = (dim_match, name, bottle_neck, data_layout, kernel_layout)
    return flat.residual_unit(data, num_filter, stride, *rest)


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
    if len(units) != num_stages:
        raise error("bad-option", f"{num_stages} stages need as many units, not {len(units)}")
    kernel_layout = _kernel_layout(layout)
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
    x = stages(x, units, filter_list, bottle_neck, form)
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
    _kernel_layout(layout)
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
