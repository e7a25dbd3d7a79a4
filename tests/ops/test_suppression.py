"""Suppression of boxes against a walk over all pairs, written from the definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from relayvm.base.dtypes import BY_NAME
from relayvm.base.shapes import ShapeError
from relayvm.ir.types import TensorType
from relayvm.ops import OPS


def shared(a: np.ndarray, b: np.ndarray) -> float:
    sides = np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2])
    common = float(np.prod(np.maximum(sides, 0)))
    whole = float(np.prod(a[2:] - a[:2]) + np.prod(b[2:] - b[:2])) - common
    return common / whole if whole > 0 else 0.0


def best(boxes: np.ndarray, scores: np.ndarray, overlap: float, least: float) -> list[int]:
    chosen: list[int] = []
    for k in np.argsort(-scores, kind="stable"):
        if scores[k] > least and all(shared(boxes[k], boxes[j]) < overlap for j in chosen):
            chosen.append(int(k))
    return chosen


def some(seed: int, count: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    low = rng.uniform(0, 4, (count, 2))
    boxes = np.concatenate([low, low + rng.uniform(0.5, 3, (count, 2))], 1).astype(np.float32)
    return boxes, rng.uniform(0, 1, (classes, count)).astype(np.float32)


@pytest.mark.parametrize("seed", range(4))
def test_each_class_has_its_best_boxes(seed: int) -> None:
    boxes, scores = some(seed, 40, 3)
    limits = np.int32(-1), np.float32(0.3), np.float32(0.2)
    given = (boxes[None], scores[None], *(np.asarray(v) for v in limits))
    rows, count = OPS["vision.all_class_non_max_suppression"].evaluate(given, {})
    expected = [(0, c, k) for c in range(3) for k in best(boxes, scores[c], 0.3, 0.2)]
    assert [tuple(row) for row in rows[: int(count[0])]] == expected
    assert not rows[int(count[0]) :].any()


@pytest.mark.parametrize("force", [False, True])
def test_boxes_of_another_class_suppress_only_by_force(force: bool) -> None:
    boxes, scores = some(9, 30, 1)
    labels = np.arange(30) % 2
    data = np.concatenate([labels[:, None], scores.T, boxes], 1).astype(np.float32)[None]
    given: list[Any] = [data, np.array([30], np.int32), np.arange(30, dtype=np.int32)[None]]
    given += [np.asarray(np.int32(-1)), np.asarray(np.float32(0.3))]
    attrs = {"force_suppress": force}
    places, count = OPS["vision.non_max_suppression"].evaluate(given, attrs)
    found = set(places[0, : int(count[0, 0])].tolist())
    if force:
        assert found == set(best(boxes, scores[0], 0.3, 0.0))
        return
    for label in (0, 1):
        own = np.flatnonzero(labels == label)
        assert found & set(own) == {int(own[k]) for k in best(boxes[own], scores[0][own], 0.3, 0.0)}


def test_the_best_of_all_classes_come_in_order() -> None:
    boxes, scores = some(3, 25, 3)
    attrs = {
        "max_detections_per_class": 4,
        "max_detections": 6,
        "num_classes": 2,
        "iou_threshold": 0.3,
        "score_threshold": 0.2,
    }
    given = (boxes[None], np.ascontiguousarray(scores.T)[None])
    result = OPS["vision.regular_non_max_suppression"].evaluate(given, attrs)
    found = [(scores[c, k], c - 1, k) for c in (1, 2) for k in best(boxes, scores[c], 0.3, 0.2)[:4]]
    found = sorted(found, key=lambda row: -row[0])[:6]
    assert result[3].tolist() == [len(found)]
    assert np.allclose(result[2][0, : len(found)], [row[0] for row in found])
    assert result[1][0, : len(found)].tolist() == [row[1] for row in found]
    assert np.array_equal(result[0][0, : len(found)], boxes[[row[2] for row in found]])


def test_mistakes_are_named() -> None:
    float32, int32 = BY_NAME["float32"], BY_NAME["int32"]
    types = [TensorType((1, 4, 5), float32), TensorType((1,), int32), TensorType((1, 4), int32)]
    types += [TensorType((), int32), TensorType((), float32)]
    with pytest.raises(ShapeError, match="`coord_start` .* is 2, outside the 5 numbers"):
        OPS["vision.non_max_suppression"].result_type(types, {})
    with pytest.raises(ShapeError, match="must be float32, got int32"):
        OPS["vision.non_max_suppression"].result_type([*types[:4], types[3]], {"coord_start": 1})
