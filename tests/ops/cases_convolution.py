"""Inputs of convolutions, transposed ones and their gradients."""

from __future__ import annotations

from typing import Any

from operator_case import Case, Shape, result_shape

# Shapes of data and weight, and attributes.
Convolution = tuple[Shape, Shape, dict[str, Any]]

_CONVOLUTIONS: dict[int, list[Convolution]] = {
    1: [
        ((1, 2, 5), (2, 2, 2), {}),
        ((2, 2, 4), (4, 1, 3), {"groups": 2, "padding": (1,), "strides": (2,)}),
        (
            (1, 5, 2),
            (2, 2, 1),
            {"data_layout": "NWC", "kernel_layout": "WIO", "padding": (1, 2), "dilation": (2,)},
        ),
        ((1, 1, 0), (1, 1, 2), {"padding": (1,)}),
    ],
    2: [
        ((1, 2, 3, 4), (2, 2, 2, 2), {"channels": 2, "kernel_size": (2, 2)}),
        (
            (1, 2, 4, 3),
            (2, 1, 3, 2),
            {"groups": 2, "padding": (1, 1, 0, 0), "strides": (1, 2)},
        ),
        (
            (1, 3, 4, 2),
            (3, 2, 2, 1),
            {
                "data_layout": "NHWC",
                "kernel_layout": "HWIO",
                "padding": (1, 0),
                "strides": (2, 1),
            },
        ),
        (
            (1, 3, 3, 2),
            (2, 2, 2, 1),
            {
                "data_layout": "NHWC",
                "kernel_layout": "HWOI",
                "out_layout": "NCHW",
                "groups": 2,
                "padding": (1,),
                "dilation": (2, 2),
            },
        ),
    ],
    3: [
        ((1, 1, 2, 3, 2), (1, 1, 2, 2, 1), {}),
        (
            (1, 2, 2, 3, 1),
            (1, 2, 1, 1, 1),
            {"data_layout": "NDHWC", "kernel_layout": "DHWOI", "strides": (1, 2, 1)},
        ),
    ],
}

_TRANSPOSED: dict[int, list[Case]] = {
    1: [
        Case(((1, 2, 3), (2, 2, 2))),
        Case(
            ((1, 2, 3), (2, 1, 3)),
            {"groups": 2, "strides": (2,), "padding": (1,), "output_padding": (1,)},
        ),
    ],
    2: [
        Case(((1, 2, 2, 3), (2, 1, 2, 2)), {"strides": (2, 1), "channels": 1}),
        Case(
            ((1, 2, 2, 2), (2, 1, 2, 2)),
            {
                "data_layout": "NHWC",
                "kernel_layout": "HWOI",
                "strides": (2, 2),
                "padding": (0, 1, 1, 0),
                "output_padding": (1, 0),
            },
        ),
    ],
    3: [Case(((1, 1, 2, 2, 1), (1, 2, 1, 2, 2)), {"strides": (1, 2, 1), "dilation": (1, 1, 2)})],
}


def _without(attrs: dict[str, Any], *names: str) -> dict[str, Any]:
    return {k: v for k, v in attrs.items() if k not in names}


def _cases() -> dict[str, list[Case]]:
    result: dict[str, list[Case]] = {}
    for n, rows in _CONVOLUTIONS.items():
        inner = [(x, w, _without(a, "channels", "kernel_size")) for x, w, a in rows]
        results = [result_shape(f"nn.conv{n}d", (x, w), a) for x, w, a in rows]
        result[f"nn.conv{n}d"] = [
            *(Case((x, w), a) for x, w, a in rows),
            Case(rows[0][:2], {**rows[0][2], "out_dtype": "float64"}),
        ]
        result[f"nn.conv{n}d_data_grad"] = [
            Case((y, w, x), a) for y, (x, w, a) in zip(results, inner)
        ]
        result[f"nn.conv{n}d_weight_grad"] = [
            Case((y, x, w), a) for y, (x, w, a) in zip(results, inner)
        ]
        result[f"nn.conv{n}d_transpose"] = _TRANSPOSED[n]
    return result


def _deformed() -> dict[str, list[Case]]:
    given = {
        "data_layout": "NHWC",
        "kernel_layout": "OHWI",
        "strides": (2, 2),
        "padding": (1, 0),
        "groups": 2,
        "deformable_groups": 2,
    }
    plain = ((1, 2, 3, 3), (1, 8, 2, 2), (1, 2, 2, 2))
    grouped = ((1, 3, 3, 4), (1, 3, 2, 4), (2, 1, 1, 2))
    many = ((2, 2, 2, 3), (2, 2, 2, 3), (2, 1, 1, 1))
    return {
        "nn.deformable_conv2d": [
            Case(plain),
            Case(grouped, given),
            Case(many, {"groups": 2, "out_dtype": "float64"}),
        ],
        "nn.deformable_conv2d_grad": [
            Case(((1, 1, 2, 2), *plain)),
            Case(((1, 3, 2, 2), *grouped), given),
            Case(((2, 2, 2, 3), *many), {"groups": 2}),
        ],
    }


def _correlations() -> dict[str, list[Case]]:
    rows: list[tuple[Shape, dict[str, Any]]] = [
        ((1, 2, 3, 3), {"padding": (1, 1)}),
        (
            (1, 1, 4, 3),
            {
                "kernel_size": 3,
                "max_displacement": 2,
                "stride1": 2,
                "stride2": 2,
                "padding": (3, 3),
                "is_multiply": False,
            },
        ),
        ((1, 2, 2, 2), {"max_displacement": 0}),
    ]
    results = [result_shape("nn.correlation", (s, s), a) for s, a in rows]
    return {
        "nn.correlation": [Case((s, s), a) for s, a in rows],
        "nn.correlation_grad": [
            Case((y, s, s), {**a, "second": k == 0})
            for k, (y, (s, a)) in enumerate(zip(results, rows))
        ]
        + [Case((results[0], rows[0][0], rows[0][0]), {**rows[0][1], "is_multiply": False})],
        "nn.correlation_change": [
            Case((s,) * 3, {n: v for n, v in {**a, "second": k == 0}.items() if n != "is_multiply"})
            for k, (s, a) in enumerate(rows)
        ],
    }


CONVOLUTION_CASES: dict[str, list[Case]] = {
    **_cases(),
    "nn.conv2d_backward_weight": [
        Case(((1, 2, 2, 3), (1, 2, 3, 4)), {"kernel_size": (2, 2), "channels": 2}),
        Case(
            ((1, 2, 3, 2), (1, 4, 3, 2)),
            {
                "kernel_size": (3, 2),
                "groups": 2,
                "padding": (1, 1, 0, 0),
                "strides": (1, 2),
                "kernel_layout": "NHWC",
                "out_layout": "HWIO",
            },
        ),
    ],
    "nn.contrib_dense_pack": [
        Case(((2, 3), (2, 3, 4)), {"units": 8}),
        Case(((1, 2), (1, 2, 2)), {"out_dtype": "float64"}),
    ],
    **_correlations(),
    **_deformed(),
}
