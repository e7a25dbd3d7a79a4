"""Priors, detections, regions and space in channels against loops written from the definition."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from relayvm.base.dtypes import FLOAT32
from relayvm.base.shapes import ShapeError
from relayvm.ir.types import TensorType
from relayvm.ops import OPS


def test_priors_lie_around_the_centres_of_places() -> None:
    x = np.zeros((1, 1, 2, 3), np.float32)
    attrs = {"sizes": (0.5, 0.2), "ratios": (1.0, 4.0)}
    result = OPS["vision.multibox_prior"].evaluate([x], attrs)
    expected = []
    for y in range(2):
        for u in range(3):
            centre = ((u + 0.5) / 3, (y + 0.5) / 2)
            for w, h in ((0.5, 0.5), (0.2, 0.2), (0.5 * 2, 0.5 / 2)):
                half = (w * 2 / 3 / 2, h / 2)
                low = [c - s for c, s in zip(centre, half)]
                expected.append(low + [c + s for c, s in zip(centre, half)])
    assert np.allclose(result, [expected], atol=1e-6)


def test_a_detection_moves_and_scales_its_prior() -> None:
    scores = np.array([[[0.1, 0.7], [0.8, 0.2], [0.1, 0.1]]], np.float32)
    moves = np.array([[1, 2, 0.5, -0.5, 0, 0, 0, 0]], np.float32)
    priors = np.array([[[0.2, 0.2, 0.6, 0.4], [0, 0, 1, 1]]], np.float32)
    rows, count = OPS["vision.multibox_transform_loc"].evaluate([scores, moves, priors], {})
    assert count.tolist() == [2]
    centre, size = (0.1 * 0.4 + 0.4, 0.2 * 0.2 + 0.3), (math.exp(0.1) * 0.4, math.exp(-0.1) * 0.2)
    box = [c - s / 2 for c, s in zip(centre, size)] + [c + s / 2 for c, s in zip(centre, size)]
    assert np.allclose(rows[0, 0], [0, 0.8, *box], atol=1e-6)
    assert np.allclose(rows[0, 1], [0, 0.2, 0, 0, 1, 1])


def between(x: np.ndarray, y: float, u: float) -> float:
    height, width = x.shape
    if not (-1 <= y <= height and -1 <= u <= width):
        return 0.0
    y, u = min(max(y, 0), height - 1), min(max(u, 0), width - 1)
    top, left = int(y), int(u)
    rows, columns = (top, min(top + 1, height - 1)), (left, min(left + 1, width - 1))
    f, g = y - top, u - left
    return sum(
        float(x[r, c]) * (f if i else 1 - f) * (g if j else 1 - g)
        for i, r in enumerate(rows)
        for j, c in enumerate(columns)
    )


@pytest.mark.parametrize(("ratio", "mode"), [(2, "avg"), (-1, "avg"), (3, "max")])
def test_regions_are_sampled_between_elements(ratio: int, mode: str) -> None:
    x = np.random.default_rng(1).normal(0, 1, (1, 1, 7, 8))
    region = (0.5, 1.0, 6.5, 9.0)
    attrs = {"pooled_size": (2, 2), "spatial_scale": 0.9, "sample_ratio": ratio, "mode": mode}
    result = OPS["vision.roi_align"].evaluate([x, np.array([[0, *region]])], attrs)
    left, top, right, bottom = (v * 0.9 for v in region)
    part = ((bottom - top) / 2, (right - left) / 2)
    counts = [ratio if ratio > 0 else math.ceil(p) for p in part]
    for i, j in np.ndindex(2, 2):
        samples = [
            between(
                x[0, 0],
                top + (i + (a + 0.5) / counts[0]) * part[0],
                left + (j + (b + 0.5) / counts[1]) * part[1],
            )
            for a in range(counts[0])
            for b in range(counts[1])
        ]
        expected = max(samples) if mode == "max" else sum(samples) / len(samples)
        assert abs(result[0, 0, i, j] - expected) < 1e-9


def test_regions_are_pooled_over_whole_elements() -> None:
    x = np.arange(36, dtype=np.float32).reshape(1, 1, 6, 6)
    rois = np.array([[0, 1, 0, 4, 3], [0, 9, 9, 9, 9]], np.float32)
    attrs = {"pooled_size": (2, 2), "spatial_scale": 1.0}
    result = OPS["vision.roi_pool"].evaluate([x, rois], attrs)
    assert result[0, 0].tolist() == [[8, 10], [20, 22]]
    assert not result[1].any()


def test_proposals_are_the_best_anchors() -> None:
    scores = np.zeros((1, 2, 1, 3), np.float32)
    scores[0, 1, 0] = [0.2, 0.9, 0.5]
    attrs = {
        "scales": (1.0,),
        "ratios": (1.0,),
        "feature_stride": 16,
        "threshold": 0.7,
        "rpn_pre_nms_top_n": -1,
        "rpn_post_nms_top_n": 3,
        "rpn_min_size": 1,
        "iou_loss": False,
    }
    given = (scores, np.zeros((1, 4, 1, 3), np.float32), np.float32([[16, 48, 1]]))
    result = OPS["vision.proposal"].evaluate(given, attrs)
    assert result.tolist() == [[0, 16, 0, 31, 15], [0, 32, 0, 47, 15], [0, 0, 0, 15, 15]]


def test_channels_are_reordered_as_in_the_networks() -> None:
    n, c, rows, columns, stride = 2, 8, 4, 6, 2
    x = np.arange(n * c * rows * columns)
    expected = []
    for image in range(n):
        for k in range(c):
            for j in range(rows):
                for i in range(columns):
                    inner, offset = k % (c // stride**2), k // (c // stride**2)
                    across, down = i * stride + offset % stride, j * stride + offset // stride
                    line = down + rows * stride * (inner + c // stride**2 * image)
                    expected.append(across + columns * stride * line)
    data = x.reshape(n, c, rows, columns)
    result = OPS["vision.yolo_reorg"].evaluate([data], {"stride": stride})
    assert result.shape == (n, c * 4, rows // 2, columns // 2)
    assert result.reshape(-1).tolist() == expected


@pytest.mark.parametrize(
    ("name", "shapes", "attrs", "message"),
    [
        ("vision.yolo_reorg", [(1, 3, 2, 2)], {"stride": 2}, "channels of `data`"),
        ("vision.multibox_prior", [(1, 1, 2, 2)], {"sizes": ()}, "at least one number"),
        ("vision.multibox_prior", [(1, 1, 2, 2)], {"ratios": (1.0, -1.0)}, "above 0"),
        (
            "vision.roi_pool",
            [(1, 1, 2, 2), (3, 4)],
            {"pooled_size": (1, 1), "spatial_scale": 1.0},
            "numbers of a region",
        ),
        (
            "vision.roi_align",
            [(1, 1, 2, 2), (3, 5)],
            {"pooled_size": (1, 1), "spatial_scale": 0.0},
            "finite and above 0",
        ),
    ],
)
def test_mistakes_are_named(name: str, shapes: Any, attrs: dict[str, Any], message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        OPS[name].result_type([TensorType(s, FLOAT32) for s in shapes], attrs)
