"""Inputs of pooling and its gradients."""

from __future__ import annotations

from typing import Any

from operator_case import Case, Shape, result_shape

_WINDOWS: dict[int, list[tuple[Shape, dict[str, Any]]]] = {
    1: [
        ((1, 2, 5), {"pool_size": (2,)}),
        ((1, 5, 1), {"pool_size": (3,), "strides": (2,), "padding": (1, 2), "layout": "NWC"}),
        ((1, 1, 6), {"pool_size": (3,), "strides": (3,), "padding": (1,), "ceil_mode": True}),
        ((1, 1, 6), {"pool_size": (2,), "dilation": (2,), "padding": (1,)}),
        ((1, 0, 3), {"pool_size": (2,)}),
    ],
    2: [
        ((1, 2, 3, 4), {"pool_size": (2, 2), "strides": (1, 2)}),
        (
            (1, 3, 4, 1),
            {"pool_size": (2, 3), "strides": (2, 2), "padding": (1, 0, 1, 1), "layout": "NHWC"},
        ),
        ((1, 1, 3, 4, 2), {"pool_size": (2, 2), "layout": "NCHW2c", "ceil_mode": True}),
    ],
    3: [
        ((1, 1, 2, 3, 2), {"pool_size": (1, 2, 2), "padding": (0, 1, 0)}),
        ((1, 2, 2, 3, 1), {"pool_size": (2,), "strides": (2,), "layout": "NDHWC"}),
    ],
}

_ADAPTIVE: dict[int, list[tuple[Shape, dict[str, Any]]]] = {
    1: [
        ((1, 2, 5), {"output_size": (3,)}),
        ((1, 3, 1), {"output_size": (5,), "layout": "NWC"}),
        ((2, 1, 4), {"output_size": (1,)}),
    ],
    2: [
        ((1, 1, 4, 5), {"output_size": (2, 3)}),
        ((1, 3, 3, 2), {"output_size": 2, "layout": "NHWC"}),
        ((1, 2, 2, 2), {}),
    ],
    3: [((1, 1, 2, 3, 2), {"output_size": (1, 2, 2)})],
}


def _cases() -> dict[str, list[Case]]:
    result: dict[str, list[Case]] = {}
    for kind in ("max", "avg"):
        for n in (1, 2, 3):
            families = (
                (f"nn.{kind}_pool{n}d", _WINDOWS[n]),
                (f"nn.adaptive_{kind}_pool{n}d", _ADAPTIVE[n]),
            )
            for name, given in families:
                rows = list(given)
                if name.startswith("nn.avg"):
                    rows += [(s, {**a, "count_include_pad": True}) for s, a in given[1:3]]
                result[name] = [Case((s,), a) for s, a in rows]
                result[f"{name}_grad"] = [
                    Case((result_shape(name, (s,), a), s), a) for s, a in rows
                ]
                if kind == "max":
                    result[f"{name}_pick"] = [Case((s, s), a) for s, a in rows]
        result[f"nn.global_{kind}_pool2d"] = [
            Case(((1, 2, 2, 3),)),
            Case(((1, 2, 3, 2),), {"layout": "NHWC"}),
            Case(((0, 2, 2, 2),)),
        ]
    return result


POOLING_CASES = _cases()
