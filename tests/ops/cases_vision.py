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
}
