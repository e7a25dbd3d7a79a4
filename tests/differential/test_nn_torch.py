"""Convolutions, pooling and layers against PyTorch: values and gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from test_operators_torch import Shapes, compare  # noqa: E402

from relayvm.ops import OPS  # noqa: E402

F = torch.nn.functional
Row = tuple[str, Shapes, dict[str, Any], Callable[..., Any]]


def _nhwc(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of NCHW data, and OIHW weights, that takes NHWC and HWIO."""

    def turned(x: Any, *weights: Any) -> Any:
        result = function(x.permute(0, 3, 1, 2), *(w.permute(3, 2, 0, 1) for w in weights))
        return result.permute(0, 2, 3, 1)

    return turned


CONVOLUTIONS: list[Row] = [
    (
        "nn.conv1d",
        ((2, 3, 9), (4, 3, 3)),
        {"padding": (1,)},
        lambda x, w: F.conv1d(x, w, None, 1, 1),
    ),
    (
        "nn.conv2d",
        ((2, 4, 8, 7), (6, 2, 3, 2)),
        {"groups": 2, "strides": (2, 1), "padding": (1, 2), "dilation": (2, 1)},
        lambda x, w: F.conv2d(x, w, None, (2, 1), (1, 2), (2, 1), 2),
    ),
    (
        "nn.conv2d",
        ((1, 4, 6, 6), (8, 1, 3, 3)),
        {"groups": 4, "padding": (0, 1, 1, 2)},
        lambda x, w: F.conv2d(F.pad(x, (1, 2, 0, 1)), w, groups=4),
    ),
    (
        "nn.conv2d",
        ((1, 6, 5, 3), (3, 3, 3, 4)),
        {"data_layout": "NHWC", "kernel_layout": "HWIO", "padding": (1, 1)},
        _nhwc(lambda x, w: F.conv2d(x, w, padding=1)),
    ),
    (
        "nn.conv3d",
        ((1, 2, 4, 5, 4), (3, 2, 2, 3, 2)),
        {"strides": (1, 2, 1), "padding": (1, 1, 0)},
        lambda x, w: F.conv3d(x, w, None, (1, 2, 1), (1, 1, 0)),
    ),
    (
        "nn.conv1d_transpose",
        ((2, 4, 5), (4, 3, 4)),
        {"strides": (3,), "padding": (1,), "output_padding": (2,)},
        lambda x, w: F.conv_transpose1d(x, w, None, 3, 1, 2),
    ),
    (
        "nn.conv2d_transpose",
        ((1, 4, 3, 4), (4, 2, 3, 3)),
        {"strides": (2, 2), "padding": (1, 1), "output_padding": (1, 0), "groups": 2},
        lambda x, w: F.conv_transpose2d(x, w, None, 2, 1, (1, 0), 2),
    ),
    (
        "nn.conv3d_transpose",
        ((1, 2, 2, 3, 2), (2, 2, 2, 2, 3)),
        {"strides": (2, 1, 2), "dilation": (1, 2, 1)},
        lambda x, w: F.conv_transpose3d(x, w, None, (2, 1, 2), dilation=(1, 2, 1)),
    ),
]

POOLING: list[Row] = [
    (
        "nn.max_pool1d",
        ((2, 3, 9),),
        {"pool_size": (3,), "strides": (2,), "padding": (1,), "dilation": (2,)},
        lambda x: F.max_pool1d(x, 3, 2, 1, 2),
    ),
    (
        "nn.max_pool2d",
        ((2, 3, 8, 7),),
        {"pool_size": (3, 2), "strides": (2, 2), "padding": (1, 0), "ceil_mode": True},
        lambda x: F.max_pool2d(x, (3, 2), 2, (1, 0), ceil_mode=True),
    ),
    (
        "nn.max_pool2d",
        ((1, 6, 6, 2),),
        {"pool_size": (2, 2), "strides": (2, 2), "layout": "NHWC"},
        _nhwc(lambda x: F.max_pool2d(x, 2)),
    ),
    ("nn.max_pool3d", ((1, 2, 4, 5, 4),), {"pool_size": 2}, lambda x: F.max_pool3d(x, 2, 1)),
    (
        "nn.avg_pool1d",
        ((2, 3, 9),),
        {"pool_size": (4,), "strides": (3,), "padding": (2,), "count_include_pad": True},
        lambda x: F.avg_pool1d(x, 4, 3, 2),
    ),
    (
        "nn.avg_pool2d",
        ((2, 3, 8, 7),),
        {"pool_size": 3, "strides": 2, "padding": 1},
        lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
    ),
    (
        "nn.avg_pool2d",
        ((1, 2, 8, 8),),
        {"pool_size": 3, "strides": 2, "padding": 1, "ceil_mode": True, "count_include_pad": True},
        lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True),
    ),
    (
        "nn.avg_pool3d",
        ((1, 2, 4, 5, 4),),
        {"pool_size": (2, 3, 2), "strides": (1, 2, 2)},
        lambda x: F.avg_pool3d(x, (2, 3, 2), (1, 2, 2)),
    ),
    (
        "nn.adaptive_avg_pool1d",
        ((1, 2, 7),),
        {"output_size": 3},
        lambda x: F.adaptive_avg_pool1d(x, 3),
    ),
    (
        "nn.adaptive_avg_pool2d",
        ((1, 2, 7, 6),),
        {"output_size": (3, 4)},
        lambda x: F.adaptive_avg_pool2d(x, (3, 4)),
    ),
    (
        "nn.adaptive_max_pool2d",
        ((1, 2, 7, 3),),
        {"output_size": (4, 5)},
        lambda x: F.adaptive_max_pool2d(x, (4, 5)),
    ),
    (
        "nn.adaptive_max_pool3d",
        ((1, 2, 4, 5, 6),),
        {"output_size": (2, 3, 4)},
        lambda x: F.adaptive_max_pool3d(x, (2, 3, 4)),
    ),
    ("nn.global_avg_pool2d", ((2, 3, 4, 5),), {}, lambda x: x.mean((2, 3), keepdim=True)),
    ("nn.global_max_pool2d", ((2, 3, 4, 5),), {}, lambda x: x.amax((2, 3), keepdim=True)),
]

LAYERS: list[Row] = [
    ("nn.leaky_relu", ((9,),), {"alpha": 0.1}, lambda x: F.leaky_relu(x, 0.1)),
    ("nn.prelu", ((2, 3, 4), (3,)), {}, F.prelu),
    (
        "nn.instance_norm",
        ((2, 3, 4), (3,), (3,)),
        {},
        lambda x, g, b: F.instance_norm(x, None, None, g, b),
    ),
    (
        "nn.group_norm",
        ((2, 6, 4), (6,), (6,)),
        {"num_groups": 3},
        lambda x, g, b: F.group_norm(x, 3, g, b),
    ),
    (
        "nn.lrn",
        ((2, 7, 3),),
        {"size": 3, "bias": 1.5, "alpha": 0.2, "beta": 0.6},
        lambda x: F.local_response_norm(x, 3, 0.2, 0.6, 1.5),
    ),
]


@pytest.mark.parametrize(("name", "shapes", "attrs", "reference"), CONVOLUTIONS + POOLING + LAYERS)
def test_values_and_gradients_are_those_of_torch(
    name: str, shapes: Shapes, attrs: dict[str, Any], reference: Callable[..., Any]
) -> None:
    compare(name, shapes, attrs, reference)


def test_the_gradient_of_the_weight_is_that_of_torch() -> None:
    rng = np.random.default_rng(3)
    x, g = rng.normal(size=(2, 4, 6, 5)), rng.normal(size=(2, 6, 3, 5))
    expected = torch.nn.grad.conv2d_weight(
        torch.tensor(x), (6, 2, 3, 3), torch.tensor(g), (2, 1), 1, 1, 2
    )
    attrs = {"kernel_size": (3, 3), "groups": 2, "strides": (2, 1), "padding": (1, 1)}
    actual = OPS["nn.conv2d_backward_weight"].evaluate([g, x], attrs)
    assert np.allclose(actual, expected.numpy())
