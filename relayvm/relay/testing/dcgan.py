"""The generator of a deep convolutional adversarial network.

Source: Radford et al., "Unsupervised representation learning with deep convolutional generative
adversarial networks".
"""

from __future__ import annotations

from typing import Any

from relayvm.base.diagnostics import error
from relayvm.ir.expr import Call, Expr, Function
from relayvm.relay.expr import var
from relayvm.relay.module import IRModule
from relayvm.relay.ndarray import NDArray
from relayvm.relay.op import nn, reshape, tanh
from relayvm.relay.testing import layers
from relayvm.relay.testing.init import create_workload

Shape = tuple[int, ...]
KERNEL = (4, 4)


def deconv2d(
    data: Expr,
    ishape: Shape,
    oshape: Shape,
    kshape: Shape,
    layout: str,
    name: str,
    stride: Shape = (2, 2),
) -> Call:
    """Return a transposed convolution from images of one shape to those of another; shapes have
    their channels first in every layout.
    """
    pads = [(k - 1) // 2 for k in kshape]
    rest = [(o + 2 * p - k) % s for o, p, k, s in zip(oshape[-2:], pads, kshape, stride)]
    return layers.conv2d_transpose(
        data,
        kernel_size=kshape,
        strides=stride,
        channels=oshape[0],
        padding=tuple(pads),
        output_padding=tuple(rest),
        data_layout=layout,
        kernel_layout=_kernel_layout(layout),
        name=name,
    )


def _kernel_layout(layout: str) -> str:
    layers.conv_kernel_layout(layout)  # refuses what is no layout
    return "IOHW" if layout == "NCHW" else "HWOI"


def deconv2d_bn_relu(data: Expr, prefix: str, **kwargs: Any) -> Expr:
    """Return a transposed convolution, normalised, without negative elements."""
    x = deconv2d(data, name=f"{prefix}_deconv", **kwargs)
    axis = kwargs.get("layout", "NCHW").index("C")
    normal = layers.batch_norm_infer(
        x, epsilon=1e-5 + 1e-12, scale=False, axis=axis, name=f"{prefix}_batch_norm"
    )
    return nn.relu(normal)


def get_net(
    batch_size: int,
    random_len: int = 100,
    oshape: Shape = (3, 64, 64),
    ngf: int = 128,
    code: Expr | None = None,
    layout: str = "NCHW",
    dtype: str = "float32",
) -> Function:
    """Return the network; it draws images of 64 x 64. `oshape` has the channels first in every
    layout.
    """
    if tuple(oshape[-2:]) != (64, 64):
        raise error("bad-option", f"`dcgan` draws images of 64 x 64, not of shape {oshape}")
    data = var("data", shape=(batch_size, random_len), dtype=dtype) if code is None else code
    x: Expr = nn.relu(nn.dense(data, var("dense_weight"), units=16 * ngf * 8))
    side, channels = 4, ngf * 8
    _kernel_layout(layout)
    image = (channels, side, side) if layout == "NCHW" else (side, side, channels)
    x = reshape(x, (-1, *image))
    for prefix in ("g2", "g3", "g4"):
        before = (channels, side, side)
        side, channels = side * 2, channels // 2
        x = deconv2d_bn_relu(
            x,
            prefix,
            ishape=before,
            oshape=(channels, side, side),
            kshape=KERNEL,
            layout=layout,
        )
    last = deconv2d(x, (ngf, side, side), oshape[-3:], KERNEL, layout, "g5_deconv")
    return layers.network(tanh(last))


def get_workload(
    batch_size: int,
    oshape: Shape = (3, 64, 64),
    ngf: int = 128,
    random_len: int = 100,
    layout: str = "NCHW",
    dtype: str = "float32",
) -> tuple[IRModule, dict[str, NDArray]]:
    """Return the network as a module, and parameters."""
    net = get_net(batch_size, random_len, oshape=oshape, ngf=ngf, layout=layout, dtype=dtype)
    return create_workload(net)
