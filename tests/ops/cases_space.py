"""Inputs of pads, dilation, and of operators that move elements between space and batch."""

from __future__ import annotations

from typing import Any

from operator_case import Case, Shape, result_shape

_PADS: list[tuple[Shape, dict[str, Any]]] = [
    ((3,), {"pad_width": ((1, 2),), "pad_mode": "edge"}),
    ((3, 2), {"pad_width": ((2, 1), (0, 1)), "pad_mode": "reflect"}),
    ((2, 1, 3), {"pad_width": ((0, 0), (2, 0), (1, 1)), "pad_mode": "edge"}),
]

_UP: list[tuple[Shape, dict[str, Any]]] = [
    ((1, 1, 2, 3), {"scale_h": 2.0, "scale_w": 1.5}),
    ((1, 3, 2, 1), {"scale_w": 3.0, "layout": "NHWC", "method": "bilinear", "align_corners": True}),
    ((1, 1, 3, 1), {"scale_h": 2.0, "method": "bicubic"}),
]
_UP_3D: list[tuple[Shape, dict[str, Any]]] = [
    ((1, 1, 2, 1, 2), {"scale_d": 2.0, "scale_w": 2.0, "method": "trilinear"}),
    ((1, 1, 2, 2, 1), {"scale_h": 2.5, "layout": "NDHWC"}),
    (
        (1, 1, 3, 1, 1),
        {"scale_d": 2.0, "coordinate_transformation_mode": "align_corners"},
    ),
]

SPACE_CASES: dict[str, list[Case]] = {
    "nn.pad": [
        Case(((2, 3), ()), {"pad_width": ((1, 0), (0, 2))}),
        Case(((0, 3), ()), {"pad_width": ((1, 1), (0, 0))}),
        Case(((), ()), {"pad_width": ()}),
        Case(((2,), ()), {"pad_width": ((1, 2),)}, {0: "int8", 1: "float32"}, {1: 300.5}),
        *(Case((s, ()), a) for s, a in _PADS),
    ],
    "nn.mirror_pad": [
        Case(((3,),), {"pad_width": ((3, 2),)}),
        Case(((3, 2),), {"pad_width": ((2, 1), (0, 1)), "mode": "REFLECT"}),
    ],
    "nn.pad_grad": [
        *(Case((result_shape("nn.pad", (s, ()), a), s), a) for s, a in _PADS),
        Case(((8,), (3,)), {"pad_width": ((3, 2),), "pad_mode": "symmetric"}),
    ],
    "nn.dilate": [
        Case(((2, 3),), {"strides": (2, 3), "dilation_value": 1.5}),
        Case(((2,),), {"strides": (1,)}),
        Case(((0, 2),), {"strides": (3, 2)}),
    ],
    "nn.batch_flatten": [
        Case(((2, 3, 2),)),
        Case(((3,),)),
        Case(((2, 0, 3),)),
        Case(((2, 2, 1, 3),)),
    ],
    "nn.depth_to_space": [
        Case(((1, 8, 2, 1),), {"block_size": 2}),
        Case(((1, 2, 1, 8),), {"block_size": 2, "layout": "NHWC", "mode": "CRD"}),
    ],
    "nn.space_to_depth": [
        Case(((1, 2, 4, 2),), {"block_size": 2}),
        Case(((1, 2, 4, 3),), {"block_size": 2, "layout": "NHWC", "mode": "CRD"}),
    ],
    "nn.space_to_batch_nd": [
        Case(((1, 4, 3, 2),), {"block_shape": (2, 2), "paddings": ((1, 1), (0, 1))}),
        Case(((2, 6),), {"block_shape": (3,), "paddings": ((0, 0),), "pad_value": 2.0}),
    ],
    "nn.batch_to_space_nd": [
        Case(((4, 2, 2, 2),), {"block_shape": (2, 2), "crops": ((1, 0), (0, 1))}),
        Case(((6, 2),), {"block_shape": (3,), "crops": ((0, 0),)}),
    ],
    "nn.fifo_buffer": [
        Case(((2,), (5,))),
        Case(((3, 1), (3, 2)), {"axis": -1}),
        Case(((2, 3), (2, 3))),
    ],
    **{
        name: [Case((s,), a) for s, a in rows]
        for name, rows in (("nn.upsampling", _UP), ("nn.upsampling3d", _UP_3D))
    },
    **{
        f"{name}_grad": [Case((result_shape(name, (s,), a), s), a) for s, a in rows]
        for name, rows in (("nn.upsampling", _UP), ("nn.upsampling3d", _UP_3D))
    },
    "dyn.nn.upsampling_grad": [
        Case(
            ((1, 1, 4, 5), (1, 1, 2, 3), (), ()), {}, {2: "float32", 3: "float32"}, {2: 2.0, 3: 1.5}
        ),
        Case(
            ((1, 2, 4, 1), (1, 2, 3, 1), (), ()),
            {"layout": "NHWC", "method": "bilinear", "align_corners": True},
            {2: "float32", 3: "float64"},
            {2: 1.0, 3: 1.4},
        ),
    ],
    "dyn.nn.upsampling3d_grad": [
        Case(
            ((1, 1, 4, 1, 3), (1, 1, 2, 1, 2), (), (), ()),
            {"method": "trilinear"},
            {2: "float32", 3: "float32", 4: "float32"},
            {2: 2.0, 3: 1.0, 4: 1.5},
        ),
    ],
    "dyn.nn.upsampling": [
        Case(((1, 1, 2, 3), (), ()), {}, {1: "float32", 2: "float32"}, {1: 2.0, 2: 1.5}),
        Case(
            ((1, 2, 3, 1), (), ()),
            {"layout": "NHWC", "method": "bilinear", "align_corners": True},
            {1: "float32", 2: "float64"},
            {1: 1.0, 2: 1.4},
        ),
    ],
    "dyn.nn.upsampling3d": [
        Case(
            ((1, 1, 2, 1, 2), (), (), ()),
            {"method": "trilinear"},
            {1: "float32", 2: "float32", 3: "float32"},
            {1: 2.0, 2: 1.0, 3: 1.5},
        ),
    ],
}
