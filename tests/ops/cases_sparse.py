"""Inputs of products with sparse matrices and of their gradients, and of words of bits."""

from __future__ import annotations

from operator_case import Case

_PLACES = {1: "int32", 2: "int32", 3: "int32", 4: "int32"}
_ROWS = [0, 1, 1, 3]


def _convolution(channels: int, taps: int, **attrs: object) -> list[Case]:
    last = channels * taps
    x = (2, 3, 2, channels) if attrs.get("layout") != "NCHW" else (2, channels, 3, 2)
    kinds = {2: "int32", 3: "int64"}
    return [
        Case((x, (3,), (3,), (4,)), dict(attrs), kinds, {2: [last - 1, 0, last // 2], 3: _ROWS}),
        Case((x, (2, 3), (2,), (3,)), dict(attrs), kinds, {2: [last - 1, 0], 3: [0, 1, 2]}),
        Case((x, (2, 2, 2), (2,), (3,)), dict(attrs), kinds, {2: [last // 2 - 1, 0], 3: [0, 2, 2]}),
    ]


_WORDS = {0: "int32", 1: "uint8"}

SPARSE_CASES: dict[str, list[Case]] = {
    "nn.sparse_conv2d": [
        *_convolution(2, 1),
        *_convolution(2, 3, layout="NCHW", kernel_size=(1, 3)),
        *_convolution(2, 9, kernel_size=(3,)),
        Case(
            ((0, 2, 2, 1), (1, 1), (1,), (2,)),
            {},
            {2: "int32", 3: "int32"},
            {2: [0], 3: [0, 1]},
        ),
    ],
    "nn.sparse_dense_grad": [
        Case(
            ((2, 3), (2, 4), (3,), (3,), (4,)),
            {},
            {3: "int32", 4: "int32"},
            {3: [3, 0, 2], 4: _ROWS},
        ),
        Case(
            ((3, 4), (3, 4), (2, 2, 2), (2,), (3,)),
            {},
            {3: "int64", 4: "int32"},
            {3: [1, 0], 4: [0, 1, 2]},
        ),
        Case(((2, 0), (2, 3), (0,), (0,), (1,)), {}, {3: "int32", 4: "int32"}, {4: [0]}),
    ],
    "nn.sparse_add_grad": [
        Case(
            ((3, 4), (3,), (3,), (4,)),
            {},
            {2: "int32", 3: "int32"},
            {2: [3, 0, 2], 3: _ROWS},
        ),
        Case(((0, 4), (0,), (0,), (1,)), {}, {2: "int32", 3: "int64"}, {3: [0]}),
    ],
    "nn.bitpack": [
        Case(((2, 8),), {"pack_type": "uint8"}),
        Case(((2, 64),), {"bits": 3, "bit_axis": 1}),
        Case(((16, 3),), {"bits": 2, "pack_axis": 0, "bit_axis": 0, "pack_type": "uint16"}),
        Case(((1, 64, 2),), {"bits": 8, "pack_axis": -2, "bit_axis": 2, "pack_type": "uint64"}),
        Case(((3, 0),), {"bits": 2}),
    ],
    "nn.bitserial_dense": [
        Case(((2, 5), (3, 5))),
        Case(((2, 5), (3, 5)), {"units": 3, "data_bits": 2, "weight_bits": 3, "unipolar": False}),
        Case(((2, 1, 5), (3, 5)), {"data_bits": 4, "weight_bits": 8, "out_dtype": "int32"}),
        Case(((5,), (3, 5)), {"data_bits": 9, "weight_bits": 20, "out_dtype": "int64"}),
        Case(((2, 5), (3, 5)), {"data_bits": 32, "weight_bits": 32, "out_dtype": "int8"}),
        Case(((2, 16), (3, 2, 2)), {"weight_bits": 2, "pack_dtype": "uint8"}, _WORDS),
        Case(((2, 64), (3, 1, 2)), {"out_dtype": "int16"}, {0: "uint8", 1: "uint32"}),
        Case(((0, 8), (3, 1, 1)), {"out_dtype": "uint16"}, _WORDS),
    ],
    "nn.bitserial_conv2d": [
        Case(((1, 2, 4, 3), (3, 2, 3, 3)), {"padding": (1, 1), "channels": 3}),
        Case(
            ((1, 4, 3, 2), (2, 2, 2, 3)),
            {
                "data_layout": "NHWC",
                "kernel_layout": "HWIO",
                "kernel_size": (2, 2),
                "strides": (2, 1),
                "activation_bits": 2,
                "weight_bits": 8,
                "out_dtype": "int32",
                "unipolar": False,
            },
        ),
        Case(
            ((1, 8, 3, 3), (2, 1, 2, 2, 2)),
            {"kernel_size": (2, 2), "weight_bits": 2, "pack_dtype": "uint8", "padding": (1, 0)},
            _WORDS,
        ),
        Case(
            ((1, 2, 2, 16), (1, 1, 1, 3, 2)),
            {
                "data_layout": "NHWC",
                "kernel_layout": "HWIiO",
                "kernel_size": (1, 1),
                "weight_bits": 3,
                "activation_bits": 2,
            },
            {0: "uint8", 1: "uint16"},
        ),
    ],
}
