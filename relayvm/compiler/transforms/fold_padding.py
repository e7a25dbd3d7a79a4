"""Padding and dilation as attributes of the convolution or pooling that they are written around."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from relayvm.base.narrow.arrays import readable
from relayvm.compiler.rewriting import CallRule, Site, rewrite_calls
from relayvm.compiler.rewriting.build import attrs_of, is_call, tensor, typed_call
from relayvm.ir.expr import Attrs, Call, Constant, Expr
from relayvm.ir.module import Module
from relayvm.ops.operator import Operator

_CONVOLUTIONS = ("nn.conv1d", "nn.conv2d", "nn.conv3d", "qnn.conv2d")
_MAX_POOLS = ("nn.max_pool1d", "nn.max_pool2d", "nn.max_pool3d")
_AVG_POOLS = ("nn.avg_pool1d", "nn.avg_pool2d", "nn.avg_pool3d")
_SPATIAL = "DHW"


def fold_explicit_padding(module: Module) -> Module:
    """Let convolutions and poolings pad by themselves.

    `nn.conv2d(nn.pad(%x, 0f, pad_width=[[0, 0], [0, 0], [1, 1], [1, 1]]), %w)` -> `nn.conv2d(%x,
    %w, padding=[1, 1, 1, 1])`. The filling must be what the operator pads with.
    """
    names = (*_CONVOLUTIONS, *_MAX_POOLS, *_AVG_POOLS)
    return rewrite_calls(module, [CallRule("padding", name, _padded) for name in names])


def flatten_atrous_conv(module: Module) -> Module:
    """Write a convolution of interleaved blocks as a dilated one.

    `nn.batch_to_space_nd(nn.conv2d(nn.space_to_batch_nd(%x, ...), %w), ...)` -> `nn.conv2d(%x, %w,
    dilation=...)`.
    """
    return rewrite_calls(module, [CallRule("atrous", "nn.batch_to_space_nd", _dilated)])


# --- padding ---------------------------------------------------------------------------------


def _padded(node: Call, site: Site) -> Expr | None:
    pad = site.definition(node.args[0])
    if not isinstance(pad, Call) or not is_call(pad, "nn.pad"):
        return None
    attrs, widths = attrs_of(node), attrs_of(pad)
    layout = attrs["data_layout"] if "data_layout" in attrs else attrs["layout"]
    axes = _spatial_axes(layout)
    pairs = widths["pad_width"]
    if axes is None or widths["pad_mode"] != "constant" or len(pairs) != len(layout):
        return None
    if any(tuple(pair) != (0, 0) for i, pair in enumerate(pairs) if i not in axes):
        return None
    if any(width < 0 for pair in pairs for width in pair) or not _fills_alike(node, pad, attrs):
        return None
    before, after = _both_sides(attrs["padding"], len(axes))
    sums = [a + pairs[i][0] for a, i in zip(before, axes)]
    sums += [a + pairs[i][1] for a, i in zip(after, axes)]
    changed: dict[str, Any] = {"padding": tuple(sums)}
    if "count_include_pad" in attrs:
        changed["count_include_pad"] = True
    return _with(node, (pad.args[0], *node.args[1:]), changed)


def _spatial_axes(layout: str) -> list[int] | None:
    """Return the places of the spatial axes; None for layouts with blocks of channels."""
    if not layout.isalpha() or not layout.isupper():
        return None
    return [layout.index(letter) for letter in _SPATIAL if letter in layout]


def _both_sides(padding: Sequence[int], count: int) -> tuple[list[int], list[int]]:
    """Return the padding before and behind each spatial axis: it is written once for all axes, once
    an axis, or once a side.
    """
    if len(padding) == 1:
        return [padding[0]] * count, [padding[0]] * count
    if len(padding) == count:
        return list(padding), list(padding)
    return list(padding[:count]), list(padding[count:])


def _fills_alike(node: Call, pad: Call, attrs: dict[str, Any]) -> bool:
    filling = pad.args[1]
    if not isinstance(filling, Constant) or filling.data.size != 1:
        return False
    value = readable(filling.data).reshape(())
    if is_call(node, "qnn.conv2d"):
        assert isinstance(node.op, Operator)
        names = [operand.name for operand in node.op.operands]
        zero_point = node.args[names.index("input_zero_point")]
        return isinstance(zero_point, Constant) and bool(np.all(zero_point.data == value))
    if is_call(node, *_MAX_POOLS):
        dtype = tensor(node).dtype
        return bool(value == (-np.inf if dtype.is_float else dtype.min))
    if value != 0:
        return False
    # An average over a window that hangs over the end would count other elements.
    own_padding_counts = not any(attrs["padding"]) or attrs.get("count_include_pad")
    return not is_call(node, *_AVG_POOLS) or bool(own_padding_counts and not attrs["ceil_mode"])


def _with(node: Call, args: Sequence[Expr], changed: dict[str, Any]) -> Call:
    assert isinstance(node.op, Operator)
    return typed_call(node.op, args, Attrs({**node.attrs, **changed}), node.span)


# --- dilation --------------------------------------------------------------------------------


def _dilated(node: Call, site: Site) -> Expr | None:
    conv = site.definition(node.args[0])
    if not isinstance(conv, Call) or not is_call(conv, "nn.conv2d"):
        return None
    split = site.definition(conv.args[0])
    if not isinstance(split, Call) or not is_call(split, "nn.space_to_batch_nd"):
        return None
    attrs, before, after = attrs_of(conv), attrs_of(split), attrs_of(node)
    axes = _spatial_axes(attrs["data_layout"])
    same_layout = attrs["out_layout"] in ("", attrs["data_layout"])
    if axes is None or not same_layout or before["pad_value"] != 0:
        return None
    if any(attrs["padding"]) or any(s != 1 for s in attrs["strides"]):
        return None
    blocks, pads, crops = before["block_shape"], before["paddings"], after["crops"]
    if tuple(blocks) != tuple(after["block_shape"]) or not _are_spatial(blocks, pads, crops, axes):
        return None
    rows = [i - 1 for i in axes]  # blocks are counted from the axis behind the batch
    dilation = [d * _at(blocks, r, 1) for d, r in zip(_twice(attrs["dilation"]), rows)]
    padding = [_at(pads, r, (0, 0))[s] - _at(crops, r, (0, 0))[s] for s in (0, 1) for r in rows]
    if any(p < 0 for p in padding):
        return None
    changed = {"dilation": tuple(dilation), "padding": tuple(padding)}
    return _with(conv, (split.args[0], conv.args[1]), changed)


def _twice(values: Sequence[int]) -> Sequence[int]:
    return (values[0], values[0]) if len(values) == 1 else values


def _at(values: Sequence[Any], index: int, default: Any) -> Any:
    return values[index] if 0 <= index < len(values) else default


def _are_spatial(
    blocks: Sequence[int], pads: Sequence[Any], crops: Sequence[Any], axes: Sequence[int]
) -> bool:
    """Return True if other axes than the spatial ones are left as they are."""
    return all(
        (block, *pad, *crop) == (1, 0, 0, 0, 0)
        for i, (block, pad, crop) in enumerate(zip(blocks, pads, crops))
        if i + 1 not in axes
    )
