"""Grids, boxes cut out and dilation against torch where it is there, and against loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from relayvm.base.dtypes import BY_NAME, FLOAT32
from relayvm.base.shapes import ShapeError
from relayvm.ir.types import TensorType
from relayvm.ops import OPS


@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("method", ["bilinear", "nearest", "bicubic"])
def test_images_are_sampled_as_in_torch(method: str, padding: str, aligned: bool) -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(4)
    x = rng.normal(0, 1, (2, 3, 5, 4))
    grid = rng.uniform(-2.2, 2.2, (2, 2, 6, 7))
    attrs = {"method": method, "padding_mode": padding, "align_corners": aligned}
    result = OPS["image.grid_sample"].evaluate([x, grid], attrs)
    expected = torch.nn.functional.grid_sample(
        torch.tensor(x),
        torch.tensor(grid).permute(0, 2, 3, 1),
        mode=method,
        padding_mode=padding,
        align_corners=aligned,
    )
    assert np.allclose(result, expected.numpy())


def test_volumes_are_sampled_as_in_torch() -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(5)
    x, grid = rng.normal(0, 1, (1, 2, 3, 4, 5)), rng.uniform(-1.2, 1.2, (1, 3, 2, 3, 2))
    result = OPS["image.grid_sample"].evaluate([x, grid], {"layout": "NCDHW"})
    places = torch.tensor(grid).permute(0, 2, 3, 4, 1)
    expected = torch.nn.functional.grid_sample(torch.tensor(x), places, align_corners=True)
    assert np.allclose(result, expected.numpy())


@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 4)])
def test_grids_are_those_of_torch(shape: tuple[int, ...]) -> None:
    torch = pytest.importorskip("torch")
    maps = np.random.default_rng(6).normal(0, 1, (2, len(shape), len(shape) + 1))
    result = OPS["image.affine_grid"].evaluate([maps], {"target_shape": shape})
    expected = torch.nn.functional.affine_grid(
        torch.tensor(maps), [2, 1, *shape], align_corners=True
    )
    assert np.allclose(np.moveaxis(result, 1, -1), expected.numpy())


def test_a_map_that_changes_nothing_gives_the_image_back() -> None:
    x = np.random.default_rng(7).normal(0, 1, (1, 2, 3, 5))
    unit = np.eye(2, 3)[None]
    grid = OPS["image.affine_grid"].evaluate([unit], {"target_shape": (3, 5)})
    assert np.allclose(OPS["image.grid_sample"].evaluate([x, grid], {}), x)


def test_boxes_are_cut_out_of_their_images() -> None:
    x = np.arange(24, dtype=np.float32).reshape(2, 1, 3, 4)
    boxes = np.float32([[0, 0, 1, 1], [0.5, 0, 1, 1 / 3], [0, 0, 0, 2]])
    given = (x, boxes, np.int32([1, 0, 0]))
    attrs = {"crop_size": (2, 3), "extrapolation_value": -1.0}
    result = OPS["image.crop_and_resize"].evaluate(given, attrs)
    assert np.allclose(result[0, 0], [[12, 13.5, 15], [20, 21.5, 23]])
    assert np.allclose(result[1, 0], [[4, 4.5, 5], [8, 8.5, 9]], atol=1e-5)
    assert np.allclose(result[2, 0], [[0, 3, -1]] * 2)
    with pytest.raises(IndexError, match="index 2 is outside an axis of 2"):
        OPS["image.crop_and_resize"].evaluate((x, boxes[:1], np.int32([2])), attrs)


def test_dilation_takes_the_greatest_sum() -> None:
    rng = np.random.default_rng(8)
    x, w = rng.integers(-9, 9, (1, 2, 5, 6)), rng.integers(-9, 9, (2, 2, 3))
    attrs: dict[str, Any] = {"strides": (2, 1), "dilations": (1, 2), "padding": (1, 0, 0, 2)}
    result = OPS["image.dilation2d"].evaluate([x, w], attrs)
    for c, y, u in np.ndindex(*result.shape[1:]):
        sums = [
            x[0, c, row, column] + w[c, i, j]
            for i in range(2)
            for j in range(3)
            if 0 <= (row := y * 2 + i - 1) < 5 and 0 <= (column := u + j * 2) < 6
        ]
        assert result[0, c, y, u] == max(sums)


@pytest.mark.parametrize(
    ("name", "shapes", "attrs", "message"),
    [
        ("image.grid_sample", [(1, 1, 2, 2), (1, 3, 2, 2)], {}, "coordinates of `grid`"),
        ("image.grid_sample", [(1, 1, 2, 2), (1, 2, 2, 2)], {"layout": "NHWC"}, '"NCHW"'),
        ("image.affine_grid", [(1, 2, 3)], {"target_shape": (4,)}, "2 or 3 entries"),
        ("image.dilation2d", [(1, 2, 4, 4), (3, 2, 2)], {}, "channels of `data`"),
    ],
)
def test_mistakes_are_named(name: str, shapes: Any, attrs: dict[str, Any], message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        OPS[name].result_type([TensorType(s, FLOAT32) for s in shapes], attrs)


def test_boxes_need_as_many_indices() -> None:
    types = [TensorType((1, 1, 2, 2), FLOAT32), TensorType((2, 4), FLOAT32)]
    types.append(TensorType((3,), BY_NAME["int32"]))
    with pytest.raises(ShapeError, match="boxes and indices"):
        OPS["image.crop_and_resize"].result_type(types, {"crop_size": (2, 2)})
