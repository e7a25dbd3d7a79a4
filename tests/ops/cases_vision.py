"""Inputs of operators of object detection."""

from __future__ import annotations

from typing import Any

import numpy as np
from operator_case import Case


def _rows(seed: int, batch: int, count: int, classes: int = 2) -> np.ndarray:
    """Return boxes (class, score, corners) on a coarse grid, so that many overlap."""
    rng = np.random.default_rng(seed)
    corners = rng.integers(0, 5, (batch, count, 4)) / 2
    labels = rng.integers(-1, classes, (batch, count, 1))
    scores = rng.integers(-2, 9, (batch, count, 1)) / 8
    return np.concatenate([labels, scores, corners], 2)


def _nms(seed: int, shape: tuple[int, int, int], most: int, threshold: float, **attrs: Any) -> Case:
    batch, count, _ = shape
    indices = np.arange(batch * count).reshape(batch, count)
    valid = [max(count - 1 - row, 0) for row in range(batch)]
    values = {0: _rows(seed, batch, count), 1: valid, 2: indices, 3: most, 4: threshold}
    kinds = {1: "int32", 2: "int32", 3: "int32", 4: "float32"}
    return Case((shape, (batch,), (batch, count), (), ()), attrs, kinds, values)


def _classes(seed: int, shape: tuple[int, int, int], regular: bool) -> dict[int, Any]:
    batch, count, classes = shape
    rng = np.random.default_rng(seed)
    boxes = rng.integers(0, 5, (batch, count, 4)) / 2
    scores = rng.integers(-2, 9, (batch, count, classes) if regular else (batch, classes, count))
    return {0: boxes, 1: scores / 8}


def _all(seed: int, shape: tuple[int, int, int], limits: tuple[Any, ...], **attrs: Any) -> Case:
    batch, count, classes = shape
    values = {**_classes(seed, shape, False), **dict(enumerate(limits, 2))}
    kinds = {2: "int32", 3: "float32", 4: "float32"}
    return Case(((batch, count, 4), (batch, classes, count), (), (), ()), attrs, kinds, values)


def _regular(seed: int, shape: tuple[int, int, int], **attrs: Any) -> Case:
    batch, count, classes = shape
    shapes = (batch, count, 4), (batch, count, classes)
    return Case(shapes, attrs, {}, _classes(seed, shape, True))


_ROIS = {1: [[0, 0, 0, 4, 3], [1, 1.5, -2, 9, 3.25], [1, 8, 7, 2, 1]]}


def _proposal(seed: int, shape: tuple[int, int, int], **attrs: Any) -> Case:
    batch, rows, columns = shape
    rng = np.random.default_rng(seed)
    given = {
        "scales": (0.5, 2.0),
        "ratios": (0.5, 1.0),
        "feature_stride": 8,
        "threshold": 0.5,
        "rpn_post_nms_top_n": 4,
        "rpn_min_size": 3,
    }
    values = {
        0: rng.integers(0, 9, (batch, 8, rows, columns)) / 8,
        1: rng.integers(-4, 5, (batch, 16, rows, columns)) / 8,
        2: [[20, 12, 1]] * batch,
    }
    shapes = (batch, 8, rows, columns), (batch, 16, rows, columns), (batch, 3)
    return Case(shapes, {**given, **attrs}, {}, values)


VISION_CASES: dict[str, list[Case]] = {
    "vision.get_valid_counts": [
        Case(((2, 5, 6), ()), {}, {1: "float32"}, {1: 0.25}),
        Case(((1, 4, 5), ()), {"id_index": -1, "score_index": 0}, {1: "float32"}, {1: -0.5}),
        Case(((2, 0, 3), ()), {}, {1: "float32"}, {1: 0.0}),
    ],
    "vision.non_max_suppression": [
        _nms(1, (2, 8, 6), -1, 0.4),
        _nms(2, (1, 9, 6), 2, 0.3, top_k=5, invalid_to_bottom=True, return_indices=False),
        _nms(3, (2, 7, 6), -1, 0.5, force_suppress=True, return_indices=False),
        _nms(4, (1, 8, 6), 3, 0.2, id_index=-1),
        _nms(5, (2, 4, 6), -1, 0.0, return_indices=False),
        _nms(6, (1, 0, 6), -1, 0.5),
    ],
    "vision.all_class_non_max_suppression": [
        _all(1, (2, 6, 3), (-1, 0.3, 0.1)),
        _all(2, (2, 6, 2), (2, 0.4, -1.0), output_format="tensorflow"),
        _all(3, (1, 4, 2), (-1, 0.0, 0.1)),
        _all(4, (2, 0, 2), (-1, 0.5, 0.1)),
        _all(4, (2, 0, 2), (-1, 0.5, 0.1), output_format="tensorflow"),
    ],
    "vision.regular_non_max_suppression": [
        _regular(
            seed,
            shape,
            max_detections_per_class=2,
            max_detections=5,
            num_classes=2,
            iou_threshold=0.3,
            score_threshold=0.2,
        )
        for seed, shape in ((1, (2, 6, 3)), (2, (1, 8, 2)), (3, (1, 0, 2)))
    ],
    "vision.multibox_prior": [
        Case(((1, 2, 3, 4),)),
        Case(
            ((2, 1, 2, 3),),
            {
                "sizes": (0.5, 0.25),
                "ratios": (1.0, 2.0, 0.5),
                "steps": (0.5, -1.0),
                "offsets": (0.0, 0.75),
                "clip": True,
            },
        ),
        Case(((1, 1, 0, 3),)),
    ],
    "vision.multibox_transform_loc": [
        Case(((2, 3, 4), (2, 16), (1, 4, 4)), {"threshold": 0.3}),
        Case(((1, 2, 3), (1, 12), (1, 3, 4)), {"clip": False, "keep_background": True}),
        Case(((1, 2, 0), (1, 0), (1, 0, 4))),
    ],
    "vision.roi_align": [
        Case(((2, 2, 5, 6), (3, 5)), {"pooled_size": (2, 3), "spatial_scale": 0.5}, {}, _ROIS),
        Case(
            ((2, 2, 5, 6), (3, 5)),
            {"pooled_size": (2, 2), "spatial_scale": 1.0, "sample_ratio": 2, "mode": "max"},
            {},
            _ROIS,
        ),
        Case(
            ((2, 5, 6, 2), (3, 5)),
            {"pooled_size": (1, 2), "spatial_scale": 0.7, "layout": "NHWC"},
            {},
            _ROIS,
        ),
    ],
    "vision.roi_pool": [
        Case(((2, 2, 5, 6), (3, 5)), {"pooled_size": (2, 3), "spatial_scale": 0.5}, {}, _ROIS),
        Case(
            ((2, 5, 6, 2), (3, 5)),
            {"pooled_size": (2, 2), "spatial_scale": 1.0, "layout": "NHWC"},
            {},
            _ROIS,
        ),
    ],
    "vision.roi_align_grad": [
        Case(
            ((3, 2, 2, 3), (2, 2, 5, 6), (3, 5)),
            {"pooled_size": (2, 3), "spatial_scale": 0.5},
            {},
            {2: _ROIS[1]},
        ),
        Case(
            ((3, 2, 2, 2), (2, 2, 5, 6), (3, 5)),
            {"pooled_size": (2, 2), "spatial_scale": 1.0, "sample_ratio": 2, "mode": "max"},
            {},
            {2: _ROIS[1]},
        ),
        Case(
            ((3, 1, 2, 2), (2, 5, 6, 2), (3, 5)),
            {"pooled_size": (1, 2), "spatial_scale": 0.7, "layout": "NHWC"},
            {},
            {2: _ROIS[1]},
        ),
    ],
    "vision.roi_pool_grad": [
        Case(
            ((3, 2, 2, 3), (2, 2, 5, 6), (3, 5)),
            {"pooled_size": (2, 3), "spatial_scale": 0.5},
            {},
            {2: _ROIS[1]},
        ),
        Case(
            ((3, 2, 2, 2), (2, 5, 6, 2), (3, 5)),
            {"pooled_size": (2, 2), "spatial_scale": 1.0, "layout": "NHWC"},
            {},
            {2: _ROIS[1]},
        ),
    ],
    "vision.roi_align_pick": [
        Case(
            ((2, 2, 5, 6), (2, 2, 5, 6), (3, 5)),
            {"pooled_size": (2, 3), "spatial_scale": 0.5},
            {},
            {2: _ROIS[1]},
        ),
        Case(
            ((2, 5, 6, 2), (2, 5, 6, 2), (3, 5)),
            {"pooled_size": (1, 2), "spatial_scale": 0.7, "layout": "NHWC", "sample_ratio": 2},
            {},
            {2: _ROIS[1]},
        ),
    ],
    "vision.roi_pool_pick": [
        Case(
            ((2, 2, 5, 6), (2, 2, 5, 6), (3, 5)),
            {"pooled_size": (2, 3), "spatial_scale": 0.5},
            {},
            {2: _ROIS[1]},
        ),
        Case(
            ((2, 5, 6, 2), (2, 5, 6, 2), (3, 5)),
            {"pooled_size": (2, 2), "spatial_scale": 1.0, "layout": "NHWC"},
            {},
            {2: _ROIS[1]},
        ),
    ],
    "vision.proposal": [
        _proposal(1, (2, 3, 2), iou_loss=False, rpn_pre_nms_top_n=9),
        _proposal(2, (1, 2, 3), iou_loss=True, rpn_pre_nms_top_n=-1),
        _proposal(3, (1, 0, 3), iou_loss=True, rpn_pre_nms_top_n=-1),
    ],
    "vision.yolo_reorg": [
        Case(((1, 4, 2, 4),), {"stride": 2}),
        Case(((2, 3, 1, 2),)),
        Case(((0, 8, 2, 2),), {"stride": 2}),
    ],
}
