"""Operators of object detection, by TVM's names."""

from __future__ import annotations

from typing import Any

from relayvm.ir.expr import Call, Expr
from relayvm.relay.expr import TupleWrapper
from relayvm.relay.op.make import as_expr, call, folded, is_dynamic, spread, wrapped


def multibox_prior(
    data: Expr,
    sizes: Any = (1.0,),
    ratios: Any = (1.0,),
    steps: Any = (-1.0, -1.0),
    offsets: Any = (0.5, 0.5),
    clip: bool = False,
) -> Call:
    """Return the prior boxes of every place of a feature map."""
    return call(
        "vision.multibox_prior",
        data,
        sizes=sizes,
        ratios=ratios,
        steps=steps,
        offsets=offsets,
        clip=clip,
    )


def multibox_transform_loc(
    cls_prob: Expr,
    loc_pred: Expr,
    anchor: Expr,
    clip: bool = True,
    threshold: float = 0.01,
    variances: Any = (0.1, 0.1, 0.2, 0.2),
    keep_background: bool = False,
) -> TupleWrapper:
    """Return boxes with class and score, and how many of each item are valid."""
    return wrapped(
        2,
        "vision.multibox_transform_loc",
        cls_prob,
        loc_pred,
        anchor,
        clip=clip,
        threshold=threshold,
        variances=variances,
        keep_background=keep_background,
    )


def get_valid_counts(
    data: Expr, score_threshold: Any, id_index: int = 0, score_index: int = 1
) -> TupleWrapper:
    """Return how many boxes score above a threshold, these boxes first, and their indices."""
    return wrapped(
        3,
        "vision.get_valid_counts",
        data,
        as_expr(score_threshold, _of(score_threshold, "float32")),
        id_index=id_index,
        score_index=score_index,
    )


def _of(value: Any, dtype: str) -> str | None:
    """Return the dtype that a plain number gets; an expression keeps its own."""
    return None if is_dynamic(value) else dtype


def non_max_suppression(
    data: Expr,
    valid_count: Expr,
    indices: Expr,
    max_output_size: Any = -1,
    iou_threshold: Any = 0.5,
    force_suppress: bool = False,
    top_k: int = -1,
    coord_start: int = 2,
    score_index: int = 1,
    id_index: int = 0,
    return_indices: bool = True,
    invalid_to_bottom: bool = False,
) -> Call | TupleWrapper:
    """Return the boxes that no better box overlaps, or their indices and how many they are."""
    result = call(
        "vision.non_max_suppression",
        data,
        valid_count,
        indices,
        as_expr(max_output_size, _of(max_output_size, "int32")),
        as_expr(iou_threshold, _of(iou_threshold, "float32")),
        force_suppress=force_suppress,
        top_k=top_k,
        coord_start=coord_start,
        score_index=score_index,
        id_index=id_index,
        return_indices=return_indices,
        invalid_to_bottom=invalid_to_bottom,
    )
    return TupleWrapper(result, 2) if return_indices else result


def all_class_non_max_suppression(
    boxes: Expr,
    scores: Expr,
    max_output_boxes_per_class: Any = -1,
    iou_threshold: Any = -1.0,
    score_threshold: Any = -1.0,
    output_format: str = "onnx",
) -> TupleWrapper:
    """Return the boxes of each class that no better box overlaps: for `onnx` their indices and how
    many they are, for `tensorflow` the scores as well.
    """
    count = max_output_boxes_per_class
    return wrapped(
        2 if output_format == "onnx" else 3,
        "vision.all_class_non_max_suppression",
        boxes,
        scores,
        as_expr(count, _of(count, "int32")),
        as_expr(iou_threshold, _of(iou_threshold, "float32")),
        as_expr(score_threshold, _of(score_threshold, "float32")),
        output_format=output_format,
    )


def regular_non_max_suppression(
    boxes: Expr,
    scores: Expr,
    max_detections_per_class: int,
    max_detections: int,
    num_classes: int,
    iou_threshold: float,
    score_threshold: float,
) -> TupleWrapper:
    """Return boxes, classes and scores of the best detections, and how many they are."""
    return wrapped(
        4,
        "vision.regular_non_max_suppression",
        boxes,
        scores,
        max_detections_per_class=max_detections_per_class,
        max_detections=max_detections,
        num_classes=num_classes,
        iou_threshold=iou_threshold,
        score_threshold=score_threshold,
    )


def roi_align(
    data: Expr,
    rois: Expr,
    pooled_size: Any,
    spatial_scale: float,
    sample_ratio: int = -1,
    layout: str = "NCHW",
    mode: str = "avg",
) -> Call:
    """Return regions of images resampled to one size."""
    return call(
        "vision.roi_align",
        data,
        rois,
        pooled_size=spread(folded(pooled_size), 2),
        spatial_scale=spatial_scale,
        sample_ratio=sample_ratio,
        layout=layout,
        mode=mode,
    )


def roi_pool(
    data: Expr, rois: Expr, pooled_size: Any, spatial_scale: float, layout: str = "NCHW"
) -> Call:
    """Return regions of images pooled to one size."""
    return call(
        "vision.roi_pool",
        data,
        rois,
        pooled_size=spread(folded(pooled_size), 2),
        spatial_scale=spatial_scale,
        layout=layout,
    )


def proposal(
    cls_prob: Expr,
    bbox_pred: Expr,
    im_info: Expr,
    scales: Any,
    ratios: Any,
    feature_stride: int,
    threshold: float,
    rpn_pre_nms_top_n: int,
    rpn_post_nms_top_n: int,
    rpn_min_size: int,
    iou_loss: bool,
) -> Call:
    """Return the regions that a region proposal network gives."""
    return call(
        "vision.proposal",
        cls_prob,
        bbox_pred,
        im_info,
        scales=scales,
        ratios=ratios,
        feature_stride=feature_stride,
        threshold=threshold,
        rpn_pre_nms_top_n=rpn_pre_nms_top_n,
        rpn_post_nms_top_n=rpn_post_nms_top_n,
        rpn_min_size=rpn_min_size,
        iou_loss=iou_loss,
    )


def yolo_reorg(data: Expr, stride: int) -> Call:
    """Return images in which every `stride`-th place of both axes has become a channel."""
    return call("vision.yolo_reorg", data, stride=stride)
