"""Boxes of objects out of the results of YOLO networks.

Source: Redmon and Farhadi, "YOLOv3: an incremental improvement", and Darknet's layers `yolo` and
`region`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableSequence, Sequence
from functools import cmp_to_key
from typing import Any, NamedTuple

import numpy as np

from relayvm.base.diagnostics import error
from relayvm.relay.lazy import absent


class Box(NamedTuple):
    """A rectangle by its centre and its sides."""

    x: Any
    y: Any
    w: Any
    h: Any


Detection = dict[str, Any]


def nms_comparator(a: Mapping[str, Any], b: Mapping[str, Any]) -> Any:
    """Return how much likelier `a` is than `b`: in the class that `b` is sorted by, or at all."""
    chosen = b.get("sort_class", -1)
    if chosen >= 0:
        return a["prob"][chosen] - b["prob"][chosen]
    return a["objectness"] - b["objectness"]


# -- Boxes of layers ------------------------------------------------------------------------------


def fill_network_boxes(
    net_shape: Sequence[int],
    im_shape: Sequence[int],
    thresh: float,
    relative: bool,
    tvm_out: Sequence[Mapping[str, Any]],
) -> list[Detection]:
    """Return what layers detect in an image, with boxes in the image's own coordinates.

    `net_shape` and `im_shape` are width and height: of what the network takes, and of the image
    that was put into it with borders. Boxes are in parts of the image where `relative` is set, in
    pixels otherwise. A layer is a mapping with `type`, `Yolo` or `Region`, `output`, an array of
    anchors, numbers of each, rows and columns, and what the type needs: `biases`, `classes`, and
    `mask`, or `coords` and `background`. Others detect nothing.
    """
    kinds = {"Yolo": _yolo_detections, "Region": _region_detections}
    found = []
    for layer in tvm_out:
        if layer["type"] in kinds:
            for detection in kinds[layer["type"]](layer, net_shape, thresh):
                box = _without_borders(detection["bbox"], im_shape, net_shape, relative)
                found.append({**detection, "bbox": box})
    return found


def _yolo_detections(
    layer: Mapping[str, Any], net_shape: Sequence[int], thresh: float
) -> Iterator[Detection]:
    data, classes = layer["output"], layer["classes"]
    for anchor, row, column in np.argwhere(data[:, 4] > thresh):
        numbers = data[anchor, :, row, column]
        prior = layer["mask"][anchor]
        yield {
            "bbox": _box(numbers, layer["biases"], prior, (row, column), data.shape, net_shape),
            "classes": classes,
            "prob": _likely(numbers[4] * numbers[5 : 5 + classes], thresh),
            "objectness": numbers[4],
        }


def _region_detections(
    layer: Mapping[str, Any], net_shape: Sequence[int], thresh: float
) -> Iterator[Detection]:
    data, classes, coords = layer["output"], layer["classes"], layer["coords"]
    rows, columns = data.shape[2:]
    # Priors of this layer are in cells, not in pixels of the network.
    whole = (columns, rows)
    for row, column, anchor in np.ndindex(rows, columns, data.shape[0]):
        numbers = data[anchor, :, row, column]
        scale = 1 if layer["background"] else numbers[coords]
        there = scale > thresh
        probs = _likely(scale * numbers[coords + 1 : coords + 1 + classes], thresh)
        yield {
            "bbox": _box(numbers, layer["biases"], anchor, (row, column), data.shape, whole),
            "prob": probs if there else [0] * classes,
            "objectness": scale if there else 0,
        }


def _box(
    numbers: np.ndarray,
    biases: Sequence[float],
    prior: int,
    cell: tuple[int, int],
    shape: Sequence[int],
    whole: Sequence[int],
) -> Box:
    """Return the box of a cell: its centre is inside of the cell, its sides are those of the prior,
    scaled; all in parts of the network's input.
    """
    (row, column), (rows, columns) = cell, shape[2:]
    width, height = biases[2 * prior], biases[2 * prior + 1]
    return Box(
        (column + numbers[0]) / columns,
        (row + numbers[1]) / rows,
        np.exp(numbers[2]) * width / whole[0],
        np.exp(numbers[3]) * height / whole[1],
    )


def _likely(probs: np.ndarray, thresh: float) -> np.ndarray:
    return np.where(probs < thresh, 0, probs).astype(probs.dtype)


def _without_borders(box: Box, image: Sequence[int], net: Sequence[int], relative: bool) -> Box:
    """Return a box in coordinates of the image, which fills the network's input in one direction
    and has borders in the other.
    """
    (w, h), (net_w, net_h) = image[:2], net[:2]
    wide = net_w / w < net_h / h
    used_w, used_h = (net_w, h * net_w // w) if wide else (w * net_h // h, net_h)
    result = Box(
        (box.x - (net_w - used_w) / 2 / net_w) / (used_w / net_w),
        (box.y - (net_h - used_h) / 2 / net_h) / (used_h / net_h),
        box.w * net_w / used_w,
        box.h * net_h / used_h,
    )
    return result if relative else Box(result.x * w, result.y * h, result.w * w, result.h * h)


# -- Boxes of the same object ---------------------------------------------------------------------


def do_nms_sort(dets: MutableSequence[Detection], classes: int, thresh: float) -> None:
    """Sort detections, those of nothing last, and set the probability of a class to 0 where a
    likelier box of the class overlaps by more than `thresh`, intersection over union.
    """
    there = [d for d in dets if d["objectness"] != 0]
    rest = [d for d in dets if d["objectness"] == 0]
    for chosen in range(classes):
        for detection in there:
            detection["sort_class"] = chosen
        there.sort(key=cmp_to_key(nms_comparator), reverse=True)
        for place, first in enumerate(there):
            if first["prob"][chosen] != 0:
                for second in there[place + 1 :]:
                    if _overlap(first["bbox"], second["bbox"]) > thresh:
                        second["prob"][chosen] = 0
    dets[:] = there + rest


def _overlap(a: Box, b: Box) -> float:
    """Return intersection over union."""
    sides = (
        min(a.x + a.w / 2, b.x + b.w / 2) - max(a.x - a.w / 2, b.x - b.w / 2),
        min(a.y + a.h / 2, b.y + b.h / 2) - max(a.y - a.h / 2, b.y - b.h / 2),
    )
    common = sides[0] * sides[1] if min(sides) > 0 else 0.0
    union = a.w * a.h + b.w * b.h - common
    return float(common / union) if union else 0.0


# -- What is shown --------------------------------------------------------------------------------


def get_detections(
    im: np.ndarray, det: Mapping[str, Any], thresh: float, names: Sequence[str], classes: int
) -> tuple[bool, dict[str, Any] | None]:
    """Return whether a detection is likelier than `thresh` in a class, and where and what it is:
    `category`, the first such class, `labelstr`, names with probabilities, the pixels `left`,
    `top`, `right` and `bot`, and how its frame is drawn, `width` and `rgb`.
    """
    likely = [j for j in range(classes) if det["prob"][j] > thresh]
    if not likely:
        return False, None
    if im.ndim != 3:
        raise error("bad-option", f"an image has channels, rows and columns, not shape {im.shape}")
    _, height, width = im.shape
    box = det["bbox"]
    offset = likely[0] * 123457 % classes
    return True, {
        "category": likely[0],
        "labelstr": [f"{names[j]} {round(det['prob'][j], 4)}" for j in likely],
        "left": max(int((box.x - box.w / 2) * width), 0),
        "top": max(int((box.y - box.h / 2) * height), 0),
        "right": min(int((box.x + box.w / 2) * width), width - 1),
        "bot": min(int((box.y + box.h / 2) * height), height - 1),
        "width": int(height * 0.006),
        "rgb": [_shade(channel, offset / classes) for channel in (2, 1, 0)],
    }


# Colours on the way round the circle; classes take theirs in between.
_COLOURS = np.array([[1, 0, 1], [0, 0, 1], [0, 1, 1], [0, 1, 0], [1, 1, 0], [1, 0, 0]])


def _shade(channel: int, part: float) -> float:
    return float(np.interp(part * 5, np.arange(6), _COLOURS[:, channel]))


def show_detections(
    im: np.ndarray,
    dets: Sequence[Mapping[str, Any]],
    thresh: float,
    names: Sequence[str],
    classes: int,
) -> None:
    """Print classes and pixels of detections that are likelier than `thresh`."""
    for det in dets:
        _, found = get_detections(im, det, thresh, names, classes)
        if found is not None:
            print(
                f"class:{found['labelstr']} left:{found['left']} right:{found['right']} "
                f"top:{found['top']} bottom:{found['bot']}"
            )


__getattr__ = absent("relayvm.relay.testing.yolo_detection")
