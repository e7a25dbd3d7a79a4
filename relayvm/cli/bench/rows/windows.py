"""Convolutions, pooling and resampling, for `bench operators`."""

from __future__ import annotations

from typing import Any

from relayvm.cli.bench.rows.row import (
    IMAGE,
    SEQUENCE,
    VOLUME,
    Operand,
    Row,
    Size,
    channels,
    named,
    shaped,
)

_SPATIAL: dict[int, tuple[str, tuple[Size, ...]]] = {1: SEQUENCE, 2: IMAGE, 3: VOLUME}


def _every(axes: int, number: int) -> str:
    """Return a list of the same number for each axis."""
    return f"[{', '.join([str(number)] * axes)}]"


def _convolved(
    axes: int,
    note: str = "",
    *,
    taps: int = 3,
    stride: int = 1,
    dilation: int = 1,
    groups: int = 1,
    results: int = 64,
    data: Operand | None = None,
) -> Row:
    """Return a convolution of 64 channels over some axes that keeps their sizes at stride 1."""
    name, around = f"nn.conv{axes}d", taps // 2 * dilation
    text = (
        f"{name}(%a, %b, strides={_every(axes, stride)}, padding={_every(axes, around)}, "
        f"dilation={_every(axes, dilation)}, groups={groups})"
    )
    weight = ("float32", (results, 64 // groups, *[taps] * axes))

    def peer(t: Any, x: Any, w: Any) -> Any:
        convolve = named(t, f"nn.functional.conv{axes}d")
        return convolve(x, w, None, stride, around, dilation, groups)

    return Row(name, text, (data or _SPATIAL[axes], weight), peer, note)


def _transposed(axes: int, note: str = "", groups: int = 1, stride: int = 2) -> Row:
    name = f"nn.conv{axes}d_transpose"
    attrs = f"strides={_every(axes, stride)}, padding={_every(axes, 1)}, groups={groups}"
    weight = ("float32", (64, 32 // groups, *[4] * axes))

    def peer(t: Any, x: Any, w: Any) -> Any:
        convolve = named(t, f"nn.functional.conv_transpose{axes}d")
        return convolve(x, w, None, stride, 1, 0, groups)

    return Row(name, f"{name}(%a, %b, {attrs})", (_SPATIAL[axes], weight), peer, note)


def _pooled(kind: str, axes: int, size: int, stride: int, padding: int = 0, note: str = "") -> Row:
    attrs = f"pool_size={_every(axes, size)}, strides={_every(axes, stride)}"
    attrs += f", padding={_every(axes, padding)}"

    def peer(t: Any, x: Any) -> Any:
        pool = named(t, f"nn.functional.{kind}_pool{axes}d")
        if kind == "max":
            return pool(x, size, stride, padding)
        return pool(x, size, stride, padding, count_include_pad=False)

    note = note or f"{size} by {stride}"
    return shaped(f"nn.{kind}_pool{axes}d", attrs, peer, _SPATIAL[axes], note)


def _adapted(kind: str, axes: int, size: int) -> Row:
    attrs = f"output_size=[{', '.join([str(size)] * axes)}]"
    peer = lambda t, x: named(t, f"nn.functional.adaptive_{kind}_pool{axes}d")(x, size)  # noqa: E731
    return shaped(f"nn.adaptive_{kind}_pool{axes}d", attrs, peer, _SPATIAL[axes], f"to {size}")


def _resized(axes: int, method: str, mode: str, coordinates: str = "half_pixel") -> Row:
    """Return a resampling to twice the size of each axis."""
    name, data = f"image.resize{axes}d", _SPATIAL[axes]
    result = {1: ["{twice_rows}"], 2: ["{twice_image}", "64"], 3: ["{twice_image}", "8", "16"]}[
        axes
    ]
    # PyTorch's cubic weights are those of -0.75.
    attrs = f'size=[{", ".join(result)}], method="{method}", cubic_alpha=-0.75, ' + (
        f'coordinate_transformation_mode="{coordinates}", rounding_method="floor"'
    )
    corners = None if mode == "nearest" else coordinates == "align_corners"

    def peer(t: Any, x: Any) -> Any:
        resize = t.nn.functional.interpolate
        return resize(x, scale_factor=2, mode=mode, align_corners=corners)

    note = method if coordinates == "half_pixel" else f"{method} {coordinates}"[:16]
    return shaped(name, attrs, peer, data, note)


CONVOLUTIONS = (
    _convolved(1),
    _convolved(1, "grouped", groups=4),
    _convolved(1, "depthwise", groups=64),
    _convolved(1, "dilated", dilation=2),
    _convolved(2),
    _convolved(2, "1x1", taps=1),
    _convolved(2, "7x7 by 2", taps=7, stride=2),
    _convolved(2, "by 2", stride=2),
    _convolved(2, "grouped", groups=4),
    _convolved(2, "32 groups", groups=32),
    _convolved(2, "depthwise", groups=64),
    _convolved(2, "depthwise by 2", groups=64, stride=2),
    _convolved(2, "multiplied", groups=64, results=128),
    _convolved(2, "dilated", dilation=2),
    _convolved(2, "5x5", taps=5),
    _convolved(3),
    _convolved(3, "grouped", groups=4),
    _convolved(3, "depthwise", groups=64),
    _transposed(1),
    _transposed(2),
    _transposed(2, "grouped", groups=4),
    _transposed(2, "by 1", stride=1),
    _transposed(3),
    Row(
        "nn.conv2d_data_grad",
        "nn.conv2d_data_grad(%a, %b, %c, padding=[1, 1])",
        (IMAGE, ("float32", (64, 64, 3, 3)), IMAGE),
        lambda t, g, w, x: t.nn.grad.conv2d_input(x.shape, w, g, padding=1),
    ),
    Row(
        "nn.conv2d_weight_grad",
        "nn.conv2d_weight_grad(%a, %b, %c, padding=[1, 1])",
        (IMAGE, IMAGE, ("float32", (64, 64, 3, 3))),
        lambda t, g, x, w: t.nn.grad.conv2d_weight(x, w.shape, g, padding=1),
    ),
    Row(
        "nn.deformable_conv2d",
        "nn.deformable_conv2d(%a, %b, %c, padding=[1, 1])",
        (IMAGE, ("float32", (1, 18, "image", 32)), ("float32", (64, 64, 3, 3))),
    ),
    Row(
        "nn.correlation",
        "nn.correlation(%a, %b, max_displacement=2, padding=[2, 2])",
        (IMAGE, IMAGE),
    ),
)
POOLING = (
    *(_pooled(kind, axes, 2, 2) for kind in ("max", "avg") for axes in (1, 2, 3)),
    *(_pooled(kind, axes, 3, 1, 1) for kind in ("max", "avg") for axes in (1, 2, 3)),
    *(_pooled(kind, 2, 3, 2, 1) for kind in ("max", "avg")),
    *(_adapted(kind, axes, 4) for kind in ("max", "avg") for axes in (1, 2, 3)),
    *(_adapted(kind, 2, 7) for kind in ("max", "avg")),
    shaped("nn.global_avg_pool2d", "", lambda t, x: x.mean((2, 3), keepdim=True), IMAGE),
    shaped("nn.global_max_pool2d", "", lambda t, x: x.amax((2, 3), keepdim=True), IMAGE),
    Row(
        "nn.max_pool2d_grad",
        "nn.max_pool2d_grad(%b, %a, pool_size=[2, 2], strides=[2, 2])",
        (IMAGE, ("float32", (1, 64, "half_image", 16))),
    ),
    Row(
        "nn.avg_pool2d_grad",
        "nn.avg_pool2d_grad(%b, %a, pool_size=[2, 2], strides=[2, 2])",
        (IMAGE, ("float32", (1, 64, "half_image", 16))),
    ),
)
RESAMPLING = (
    _resized(1, "linear", "linear"),
    _resized(1, "nearest_neighbor", "nearest", "asymmetric"),
    _resized(2, "linear", "bilinear"),
    _resized(2, "linear", "bilinear", "align_corners"),
    _resized(2, "nearest_neighbor", "nearest", "asymmetric"),
    _resized(2, "cubic", "bicubic"),
    _resized(2, "cubic", "bicubic", "align_corners"),
    _resized(3, "linear", "trilinear"),
    _resized(3, "nearest_neighbor", "nearest", "asymmetric"),
    shaped(
        "nn.upsampling",
        "scale_h=2f, scale_w=2f",
        lambda t, x: t.nn.functional.interpolate(x, scale_factor=2),
        IMAGE,
        "nearest",
    ),
    shaped(
        "nn.upsampling",
        'scale_h=2f, scale_w=2f, method="bilinear", align_corners=True',
        lambda t, x: t.nn.functional.interpolate(
            x, scale_factor=2, mode="bilinear", align_corners=True
        ),
        IMAGE,
        "bilinear",
    ),
    shaped(
        "nn.upsampling3d",
        "scale_d=2f, scale_h=2f, scale_w=2f",
        lambda t, x: t.nn.functional.interpolate(x, scale_factor=2),
        VOLUME,
        "nearest",
    ),
    Row(
        "image.dilation2d",
        "image.dilation2d(%a, %b, padding=[1, 1])",
        (IMAGE, ("float32", (64, 3, 3))),
    ),
    shaped(
        "sliding_window",
        "axis=2, window_shape=[3, 3], strides=[1, 1]",
        lambda t, x: x.unfold(2, 3, 1).unfold(3, 3, 1).contiguous(),
        IMAGE,
    ),
)
LAYERS = (
    Row(
        "nn.batch_norm",
        "nn.batch_norm(%a, %b, %c, %d, %e).0",
        (IMAGE, *[channels()] * 4),
        lambda t, x, g, b, m, v: t.nn.functional.batch_norm(x, m, v, g, b),
    ),
    Row(
        "nn.instance_norm",
        "nn.instance_norm(%a, %b, %c)",
        (IMAGE, channels(), channels()),
        lambda t, x, g, b: t.nn.functional.instance_norm(x, weight=g, bias=b),
    ),
    Row(
        "nn.group_norm",
        "nn.group_norm(%a, %b, %c, num_groups=8)",
        (IMAGE, channels(), channels()),
        lambda t, x, g, b: t.nn.functional.group_norm(x, 8, g, b),
    ),
    Row(
        "nn.layer_norm",
        "nn.layer_norm(%a, %b, %c)",
        (("float32", ("rows", 64)), channels(), channels()),
        lambda t, x, g, b: t.nn.functional.layer_norm(x, (64,), g, b),
        "64",
    ),
    Row(
        "nn.layer_norm",
        "nn.layer_norm(%a, %b, %c)",
        (("float32", ("side", "side")), ("float32", ("side",)), ("float32", ("side",))),
        lambda t, x, g, b: t.nn.functional.layer_norm(x, x.shape[1:], g, b),
        "rows",
    ),
    Row(
        "nn.bias_add",
        "nn.bias_add(%a, %b)",
        (IMAGE, channels()),
        lambda t, x, b: x + b[:, None, None],
    ),
    Row(
        "nn.prelu",
        "nn.prelu(%a, %b)",
        (IMAGE, channels()),
        lambda t, x, a: t.nn.functional.prelu(x, a),
    ),
    shaped(
        "nn.l2_normalize",
        "eps=1e-12f, axis=[1]",
        lambda t, x: t.nn.functional.normalize(x, dim=1),
    ),
    shaped(
        "nn.lrn",
        "",
        lambda t, x: t.nn.functional.local_response_norm(x, 5, k=2.0),
        IMAGE,
    ),
    shaped("nn.log_softmax", "axis=1", lambda t, x: t.log_softmax(x, 1)),
    shaped("nn.log_softmax", "axis=0", lambda t, x: t.log_softmax(x, 0), note="first"),
    shaped("nn.softmax", "axis=1", lambda t, x: t.softmax(x, 1), IMAGE, "channels"),
    shaped("nn.leaky_relu", "alpha=0.01f", lambda t, x: t.nn.functional.leaky_relu(x)),
    Row(
        "nn.nll_loss",
        "nn.nll_loss(%a, %b, %c)",
        (("float32", ("rows", 64)), ("int64:64", ("rows",)), channels()),
        lambda t, x, i, w: t.nn.functional.nll_loss(x, i, w),
    ),
    Row(
        "nn.cross_entropy_with_logits",
        "nn.cross_entropy_with_logits(%a, %b)",
        (("float32", ("rows", 64)), ("float32", ("rows", 64))),
        lambda t, x, y: -(x * y).sum() / x.shape[0],
    ),
    shaped(
        "nn.depth_to_space",
        'block_size=2, mode="CRD"',
        lambda t, x: t.pixel_shuffle(x, 2),
        IMAGE,
    ),
    shaped("nn.space_to_depth", "block_size=2", lambda t, x: t.pixel_unshuffle(x, 2), IMAGE),
    shaped(
        "nn.mirror_pad",
        'pad_width=[[0, 0], [0, 0], [2, 2], [2, 2]], mode="REFLECT"',
        lambda t, x: t.nn.functional.pad(x, (2, 2, 2, 2), mode="reflect"),
        IMAGE,
    ),
    shaped(
        "nn.space_to_batch_nd",
        "block_shape=[2, 2], paddings=[[0, 0], [0, 0]]",
        lambda t, x: _to_batch(x),
        ("float32", (1, "image", 32, 64)),
    ),
    shaped(
        "nn.batch_to_space_nd",
        "block_shape=[2, 2], crops=[[0, 0], [0, 0]]",
        lambda t, x: _from_batch(x),
        ("float32", (4, "image", 16, 32)),
    ),
)


def _to_batch(x: Any) -> Any:
    n, h, w, c = x.shape
    parts = x.reshape(n, h // 2, 2, w // 2, 2, c).permute(2, 4, 0, 1, 3, 5)
    return parts.reshape(4 * n, h // 2, w // 2, c).contiguous()


def _from_batch(x: Any) -> Any:
    n, h, w, c = x.shape
    parts = x.reshape(2, 2, n // 4, h, w, c).permute(2, 3, 0, 4, 1, 5)
    return parts.reshape(n // 4, 2 * h, 2 * w, c).contiguous()
