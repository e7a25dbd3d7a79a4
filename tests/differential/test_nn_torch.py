"""Convolutions, pooling and layers against PyTorch: values and gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from test_operators_torch import Shapes, compare  # noqa: E402

from relayvm.base.dims import DimVar, symbol  # noqa: E402
from relayvm.base.dtypes import FLOAT64, INT64  # noqa: E402
from relayvm.compiler.evaluate import Evaluator  # noqa: E402
from relayvm.compiler.infer_types import infer_expr  # noqa: E402
from relayvm.ir.expr import Attrs, Call, Function, Tuple, Var  # noqa: E402
from relayvm.ir.module import Module  # noqa: E402
from relayvm.ir.types import TensorType  # noqa: E402
from relayvm.ops import OPS, gradient_call  # noqa: E402

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
    (
        "nn.upsampling",
        ((1, 2, 3, 4),),
        {"scale_h": 2.0, "scale_w": 3.0},
        lambda x: F.interpolate(x, scale_factor=(2, 3)),
    ),
    (
        "nn.upsampling",
        ((1, 2, 3, 4),),
        {"scale_h": 2.0, "scale_w": 1.5, "method": "bilinear", "align_corners": True},
        lambda x: F.interpolate(x, (6, 6), mode="bilinear", align_corners=True),
    ),
    (
        "nn.upsampling3d",
        ((1, 1, 2, 3, 2),),
        {"scale_d": 2.0, "scale_h": 2.0, "scale_w": 3.0, "method": "trilinear"},
        lambda x: F.interpolate(x, (4, 6, 6), mode="trilinear"),
    ),
    (
        "nn.mirror_pad",
        ((1, 4, 3),),
        {"mode": "REFLECT", "pad_width": ((0, 0), (0, 0), (2, 1))},
        lambda x: F.pad(x, (2, 1), "reflect"),
    ),
    (
        "nn.depth_to_space",
        ((1, 8, 2, 3),),
        {"block_size": 2, "mode": "CRD"},
        lambda x: F.pixel_shuffle(x, 2),
    ),
]


@pytest.mark.parametrize(("name", "shapes", "attrs", "reference"), CONVOLUTIONS + POOLING + LAYERS)
def test_values_and_gradients_are_those_of_torch(
    name: str, shapes: Shapes, attrs: dict[str, Any], reference: Callable[..., Any]
) -> None:
    compare(name, shapes, attrs, reference)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("classes", ["3", "c"])
def test_the_negative_likelihood_and_its_gradient_are_those_of_torch(
    reduction: str, classes: str
) -> None:
    rng = np.random.default_rng(5)
    p, w = rng.normal(size=(2, 3, 4)), rng.random(3) + 0.5
    t = rng.integers(0, 3, (2, 4))
    t[0, 1] = -100
    attrs = {"reduction": reduction}
    leaf, target, weight = torch.tensor(p, requires_grad=True), torch.tensor(t), torch.tensor(w)
    expected = F.nll_loss(leaf, target, weight, reduction=reduction)
    g = rng.normal(size=tuple(expected.shape))
    expected.backward(torch.tensor(g))
    assert np.allclose(OPS["nn.nll_loss"].evaluate([p, t, w], attrs), expected.detach().numpy())

    size = int(classes) if classes.isdigit() else symbol(DimVar(classes))
    types = [
        TensorType((2, size, 4), FLOAT64),
        TensorType((2, 4), INT64),
        TensorType((size,), FLOAT64),
    ]
    params = tuple(Var(n, t) for n, t in zip("ptw", types))
    incoming = Var("g", TensorType(g.shape, FLOAT64))
    output = Call(OPS["nn.nll_loss"], params, Attrs(attrs))
    view = gradient_call(OPS["nn.nll_loss"], params, attrs, output, types)
    of_p, _, of_w = OPS["nn.nll_loss"].facets["gradient"](view, incoming)
    symbols = () if classes.isdigit() else (size.variable,)  # type: ignore[union-attr]
    body = Tuple((of_p, of_w))
    function = Function((*params, incoming), body, None, symbols)  # type: ignore[arg-type]
    evaluator = Evaluator(Module())
    result = evaluator.apply(evaluator.evaluate(infer_expr(function)), (p, t, w, g))
    assert np.allclose(result[0], leaf.grad.numpy())
    # torch has no gradient of the weights: compare with differences.
    for k in range(3):
        step = np.eye(3)[k] * 1e-6
        values = [OPS["nn.nll_loss"].evaluate([p, t, w + s], attrs) for s in (step, -step)]
        assert np.isclose(result[1][k], np.sum(g * (values[0] - values[1])) / 2e-6)


def test_the_gradient_of_the_weight_is_that_of_torch() -> None:
    rng = np.random.default_rng(3)
    x, g = rng.normal(size=(2, 4, 6, 5)), rng.normal(size=(2, 6, 3, 5))
    expected = torch.nn.grad.conv2d_weight(
        torch.tensor(x), (6, 2, 3, 3), torch.tensor(g), (2, 1), 1, 1, 2
    )
    attrs = {"kernel_size": (3, 3), "groups": 2, "strides": (2, 1), "padding": (1, 1)}
    actual = OPS["nn.conv2d_backward_weight"].evaluate([g, x], attrs)
    assert np.allclose(actual, expected.numpy())
