"""Inputs of operators on images: all methods, places and roundings."""

from __future__ import annotations

from typing import Any

from operator_case import Case, Shape, result_shape

_MODES = ("align_corners", "asymmetric", "pytorch_half_pixel", "tf_half_pixel_for_nn")
_MODE = "coordinate_transformation_mode"
_ROI = {_MODE: "tf_crop_and_resize", "extrapolation_value": 2.0}

_RESIZE_1D: list[tuple[Shape, dict[str, Any]]] = [
    ((1, 2, 4), {"size": (7,)}),
    ((2, 3, 1), {"size": (2,), "layout": "NWC", "method": "nearest_neighbor"}),
    *(
        ((1, 1, 5), {"size": (n,), "method": "nearest_neighbor", _MODE: m, "rounding_method": r})
        for n, m, r in (
            (8, "half_pixel", "round_prefer_floor"),
            (10, "half_pixel", "round_prefer_ceil"),
            (7, "align_corners", ""),
            (3, "asymmetric", "ceil"),
            (8, "tf_half_pixel_for_nn", "floor"),
        )
    ),
    *(((1, 1, 4), {"size": (n,), _MODE: m}) for n, m in zip((7, 6, 1, 3), _MODES)),
    ((1, 1, 5), {"size": (7,), "method": "cubic", "cubic_alpha": -0.75, "cubic_exclude": True}),
    ((1, 1, 5), {"size": (6,), "roi": (0.1, 1.25), **_ROI}),
    ((1, 1, 5), {"size": (1,), "roi": (0.25, 0.5), **_ROI, "method": "nearest_neighbor"}),
    ((0, 1, 4), {"size": (2,)}),
]
_RESIZE_2D: list[tuple[Shape, dict[str, Any]]] = [
    ((1, 2, 3, 4), {"size": (5, 3)}),
    ((1, 2, 3, 2), {"size": (4, 4), "layout": "NHWC", "method": "cubic"}),
    ((1, 1, 3, 4), {"size": (2, 5), "roi": (-0.25, 0.0, 0.75, 1.0), **_ROI, "method": "cubic"}),
]
_RESIZE_3D: list[tuple[Shape, dict[str, Any]]] = [
    ((1, 1, 2, 2, 3), {"size": (3, 2, 4)}),
    ((1, 2, 1, 2, 1), {"size": (3, 2, 2), "layout": "NDHWC", "method": "nearest_neighbor"}),
]
_RESIZES = ((1, _RESIZE_1D), (2, _RESIZE_2D), (3, _RESIZE_3D))

IMAGE_CASES: dict[str, list[Case]] = {
    **{f"image.resize{n}d": [Case((s,), a) for s, a in rows] for n, rows in _RESIZES},
    **{
        f"image.resize{n}d_grad": [
            Case((result_shape(f"image.resize{n}d", (s,), a), s), a) for s, a in rows
        ]
        for n, rows in _RESIZES
    },
    "dyn.image.resize2d_grad": [
        Case(
            (result_shape("image.resize2d", (shape,), attrs), shape, (4,)),
            {k: v for k, v in attrs.items() if k not in ("size", "roi")},
            {2: "float32"},
            {2: attrs.get("roi", (0, 0, 1, 1))},
            known=(2,),
        )
        for shape, attrs in _RESIZE_2D
    ],
    "dyn.image.resize2d": [
        Case(
            (shape, (2,), (4,)),
            {k: v for k, v in attrs.items() if k not in ("size", "roi")},
            {1: "int32", 2: "float32"},
            {1: attrs["size"], 2: attrs.get("roi", (0, 0, 1, 1))},
            known=(1, 2),
        )
        for shape, attrs in _RESIZE_2D
    ],
}
_GRIDS = [
    ((1, 2, 3, 4), (1, 2, 2, 3), {}),
    ((2, 1, 3, 2), (2, 2, 2, 2), {"align_corners": False, "padding_mode": "border"}),
    ((1, 1, 3, 4), (1, 2, 2, 3), {"padding_mode": "reflection"}),
    ((1, 1, 3, 1), (1, 2, 2, 3), {"padding_mode": "reflection", "align_corners": False}),
    ((1, 1, 3, 4), (1, 2, 2, 3), {"method": "nearest", "padding_mode": "reflection"}),
    ((1, 1, 3, 4), (1, 2, 1, 3), {"method": "bicubic"}),
    ((1, 1, 3, 4), (1, 2, 1, 1), {"method": "bicubic", "padding_mode": "reflection"}),
    ((1, 1, 2, 3, 2), (1, 3, 1, 2, 2), {"layout": "NCDHW"}),
]
IMAGE_CASES |= {
    "image.affine_grid": [
        Case(((2, 2, 3),), {"target_shape": (3, 4)}),
        Case(((1, 3, 4),), {"target_shape": (2, 1, 3)}),
        Case(((1, 2, 3),), {"target_shape": (0, 2)}),
    ],
    "image.grid_sample": [Case((x, g), attrs) for x, g, attrs in _GRIDS],
    "image.grid_sample_grad": [
        Case((result_shape("image.grid_sample", (x, g), a), x, g), a)
        for x, g, a in _GRIDS
        if a != {"method": "bicubic"}
    ],
    "image.crop_and_resize_grad": [
        Case(
            ((3, 1, 2, 3), (2, 1, 3, 4), (3, 4), (3,)),
            {"crop_size": (2, 3), "extrapolation_value": 5.0},
            {2: "float32", 3: "int32"},
            {2: [[0, 0, 1, 1], [0.25, -0.1, 0.75, 0.6], [1, 1, 0, 0]], 3: [0, 1, 1]},
        ),
        Case(
            ((1, 1, 4, 2), (1, 3, 2, 2), (1, 4), (1,)),
            {"crop_size": (1, 4), "layout": "NHWC", "method": "nearest_neighbor"},
            {2: "float64", 3: "int64"},
            {2: [[0.2, 0.1, 0.9, 1.2]], 3: [0]},
        ),
        Case(
            ((0, 1, 2, 2), (1, 1, 2, 2), (0, 4), (0,)),
            {"crop_size": (2, 2)},
            {2: "float32", 3: "int32"},
        ),
    ],
    "image.crop_and_resize": [
        Case(
            ((2, 1, 3, 4), (3, 4), (3,)),
            {"crop_size": (2, 3), "extrapolation_value": 5.0},
            {1: "float32", 2: "int32"},
            {1: [[0, 0, 1, 1], [0.25, -0.1, 0.75, 0.6], [1, 1, 0, 0]], 2: [0, 1, 1]},
        ),
        Case(
            ((1, 3, 2, 2), (1, 4), (1,)),
            {
                "crop_size": (1, 4),
                "layout": "NHWC",
                "method": "nearest_neighbor",
                "out_dtype": "float32",
            },
            {1: "float64", 2: "int64"},
            {1: [[0.2, 0.1, 0.9, 1.2]], 2: [0]},
        ),
        Case(
            ((1, 1, 2, 2), (0, 4), (0,)),
            {"crop_size": (2, 2)},
            {1: "float32", 2: "int32"},
        ),
    ],
    "image.dilation2d_grad": [
        Case(((1, 2, 2, 6), (1, 2, 4, 5), (2, 2, 3)), {"padding": (1, 1, 0, 2), "strides": (2, 1)}),
        Case(
            ((2, 2, 2, 1), (2, 4, 3, 1), (2, 2, 1)),
            {"data_layout": "NHWC", "kernel_layout": "HWI", "dilations": (2, 1)},
        ),
        Case(((0, 1, 2, 2), (0, 1, 2, 2), (1, 1, 1))),
    ],
    "image.dilation2d_change": [
        Case(
            ((1, 2, 4, 5), (2, 2, 3)) * 2,
            {"padding": (1, 1, 0, 2), "strides": (2, 1)},
        ),
        Case(
            ((2, 4, 3, 1), (2, 2, 1)) * 2,
            {"data_layout": "NHWC", "kernel_layout": "HWI", "dilations": (2, 1)},
        ),
        Case(((0, 1, 2, 2), (1, 1, 1)) * 2),
    ],
    "image.dilation2d": [
        Case(((1, 2, 4, 5), (2, 2, 3)), {"padding": (1, 1, 0, 2), "strides": (2, 1)}),
        Case(
            ((2, 4, 3, 1), (2, 2, 1)),
            {"data_layout": "NHWC", "kernel_layout": "HWI", "dilations": (2, 1)},
        ),
        Case(((0, 1, 2, 2), (1, 1, 1))),
    ],
}
IMAGE_CASES["image.resize1d"].append(Case(((1, 1, 4),), {"size": (6,), "out_dtype": "float64"}))
