"""Inputs of quantized operators: scales and zero points of one number, and one for each channel."""

from __future__ import annotations

from typing import Any

from operator_case import Case, Shape

S, Z = 0.37, 3
VECTOR = [0.5, 0.11, 1.7]
ZEROS = [0, -2, 5]
UNARY = ("abs", "erf", "exp", "hardswish", "log", "rsqrt", "sigmoid", "sqrt", "tanh")


def with_scales(
    first: tuple[Any, ...],
    scales: list[Any],
    attrs: dict[str, Any] | None = None,
    dtypes: dict[int, Any] | None = None,
    values: dict[int, Any] | None = None,
) -> Case:
    """Return a case of operands `first`, then scales (floats) and zero points (integers)."""
    count = len(first)
    given = dict(enumerate(scales, count))
    one = {i: v[0] if isinstance(v, list) else v for i, v in given.items()}
    kinds = {i: "float32" if isinstance(v, float) else "int32" for i, v in one.items()}
    shapes = tuple((len(v),) if isinstance(v, list) else () for v in scales)
    known = tuple(i for i, v in given.items() if isinstance(v, list) and len(v) == 1)
    fixed = {**(values or {}), **given}
    return Case((*first, *shapes), attrs or {}, {**kinds, **(dtypes or {})}, fixed, known)


def small(first: tuple[Any, ...], *rest: Any, types: tuple[str, ...] = ("uint8",)) -> list[Case]:
    """Return a case with operands of each of these dtypes."""
    return [with_scales(first, *rest, dtypes=dict.fromkeys(range(len(first)), t)) for t in types]


_ANY = ((), (7,), (2, 3), (0, 3))


def _unary() -> list[Case]:
    return [
        *(with_scales((s,), [S, Z, 0.05, -1], dtypes={0: "int8"}) for s in _ANY),
        *small((((5,)),), [0.02, 100, 0.01, 7], types=("uint8", "int16", "int32")),
    ]


def _binary() -> list[Case]:
    pairs: list[tuple[Shape, Shape]] = [((), ()), ((3,), ()), ((2, 1, 3), (4, 1)), ((0, 3), (1, 3))]
    kinds = {0: "int8", 1: "int8"}
    return [
        *(with_scales(p, [S, Z, 0.2, -4, 0.9, 1], dtypes=kinds) for p in pairs),
        *small(((4,), (4,)), [S, Z, 0.2, 9, 0.9, 1], types=("uint8", "int16", "int32")),
        with_scales(
            ((2, 3), (2, 1)),
            [VECTOR, ZEROS, [0.5, 0.7], 2, 0.4, 0],
            {"rhs_axis": 0},
            kinds,
        ),
    ]


def _requantize() -> list[Case]:
    data = {0: [-1000, -3, -2, -1, 0, 1, 2, 3, 999]}
    halves = [0.5, 0, 1.0, 1]
    roundings = [
        {"rounding": r, "compute_dtype": t}
        for r in ("UPWARD", "TONEAREST")
        for t in ("int64", "float32", "float64")
    ]
    return [
        *(with_scales(((9,),), halves, a, {0: "int32"}, data) for a in roundings),
        *small((((9,)),), [S, Z, 0.0021, -7], types=("int8", "uint16", "int32", "int64")),
        with_scales(((9,),), [1e-9, 0, 1e3, 5], {"out_dtype": "uint8"}, {0: "int32"}),
        with_scales(((9,),), [1e9, 0, 1e-3, 5], {"out_dtype": "int32"}, {0: "int8"}),
        with_scales(((2, 3, 2),), [VECTOR, ZEROS, 0.3, 1], {"axis": 1}, {0: "int32"}),
        with_scales(((2, 3),), [VECTOR, Z, 0.3, 1], {"rounding": "TONEAREST"}, {0: "int16"}),
        with_scales(((),), [[S], [Z], 0.3, 1], {}, {0: "int32"}),
        with_scales(((0, 3),), [S, Z, 0.3, 1], {}, {0: "int32"}),
    ]


def _quantize() -> list[Case]:
    return [
        *(with_scales((s,), [S, Z]) for s in _ANY),
        with_scales(((2, 3, 2),), [VECTOR, ZEROS], {"axis": -2, "out_dtype": "uint8"}),
        with_scales(((2, 3),), [[S], [Z]], {"axis": 0, "out_dtype": "int32"}),
    ]


def _dequantize() -> list[Case]:
    return [
        *(with_scales((s,), [S, Z]) for s in _ANY),
        with_scales(((2, 3, 2),), [VECTOR, ZEROS], {"axis": 1}),
        with_scales(((5,),), [S, Z], {"out_dtype": "float16"}),
    ]


def _simulated() -> list[Case]:
    result = []
    for code in (0, 1, 2, 3):
        case = with_scales(((6,), ()), [S, Z], dtypes={1: "int32"}, values={1: code})
        result.append(case)
    vector = with_scales(((2, 3, 2), ()), [VECTOR, ZEROS], {"axis": 1}, {1: "int32"}, values={1: 2})
    return [*result, vector]


_LAYER = [Z, -4, S, 0.2]

QUANTIZED_CASES: dict[str, list[Case]] = {
    **{f"qnn.{name}": _unary() for name in UNARY},
    **{f"qnn.{name}": _binary() for name in ("add", "subtract", "mul")},
    "qnn.quantize": _quantize(),
    "qnn.dequantize": _dequantize(),
    "qnn.requantize": _requantize(),
    "qnn.simulated_quantize": _simulated(),
    "qnn.simulated_dequantize": _simulated(),
    "qnn.leaky_relu": [
        *(with_scales((s,), [S, Z, 0.2, -4], {"alpha": 0.3}, {0: "int8"}) for s in _ANY),
        *small((((5,)),), [S, 2, 0.2, 3], types=("uint8", "int16", "int32")),
    ],
    "qnn.concatenate": [
        Case(
            ([(2,), (3,)], [(), ()], [(), ()], (), ()),
            {},
            {0: "int8", 1: "float32", 2: "int32", 3: "float32", 4: "int32"},
            {1: [S, 0.8], 2: [Z, 0], 3: 0.5, 4: 1},
        ),
        Case(
            ([(2, 3), (2, 1)], [(), ()], [(), ()], (), ()),
            {"axis": -1},
            {0: "uint8", 1: "float32", 2: "int32", 3: "float32", 4: "int32"},
            {1: [S, 0.8], 2: [Z, 0], 3: 0.5, 4: 1},
        ),
    ],
    "qnn.softmax": [
        with_scales(((2, 6),), [0.1, Z, 1 / 256, -128], {}, {0: "int8"}),
        with_scales(((2, 4, 3),), [0.02, 0, 1 / 128, 0], {"axis": 1}, {0: "uint8"}),
        with_scales(((0, 3),), [3.0, 0, 1 / 128, 0], {}, {0: "int8"}),
    ],
    "qnn.avg_pool2d": [
        with_scales(((1, 2, 4, 3),), [S, Z, 0.2, -4], {"pool_size": (2, 2)}, {0: "int8"}),
        with_scales(
            ((1, 4, 3, 2),),
            [S, Z, S, Z],
            {
                "pool_size": (3, 2),
                "strides": (2, 1),
                "padding": (1, 1),
                "layout": "NHWC",
                "count_include_pad": True,
                "ceil_mode": True,
            },
            {0: "uint8"},
        ),
    ],
    "qnn.dense": [
        *small(((2, 4), (3, 4)), _LAYER, types=("int8", "uint8", "int16")),
        with_scales(((2, 4), (3, 4)), [Z, ZEROS, S, VECTOR], {}, {0: "uint8", 1: "int8"}),
        with_scales(((4,), (3, 4)), _LAYER, {"units": 3}, {0: "int8", 1: "int8"}),
        with_scales(((0, 4), (3, 4)), _LAYER, {"out_dtype": "int64"}, {0: "int8", 1: "int8"}),
    ],
    "qnn.contrib_dense_pack": small(((2, 3), (2, 3, 2)), _LAYER, types=("int8",)),
    "qnn.batch_matmul": [
        *small(((2, 3, 4), (2, 4, 2)), _LAYER, types=("int8",)),
        with_scales(((1, 3, 4), (2, 2, 4)), _LAYER, {"transpose_b": True}, {0: "uint8", 1: "int8"}),
    ],
    "qnn.conv2d": [
        *small(((1, 2, 4, 3), (3, 2, 2, 2)), _LAYER, {"padding": (1, 1)}, types=("int8", "uint8")),
        with_scales(
            ((1, 3, 3, 2), (2, 2, 2, 3)),
            [Z, ZEROS, S, VECTOR],
            {"data_layout": "NHWC", "kernel_layout": "HWIO", "strides": (2, 1)},
            {0: "uint8", 1: "int8"},
        ),
        with_scales(((1, 2, 3, 3), (2, 1, 2, 2)), _LAYER, {"groups": 2}, {0: "int8", 1: "int8"}),
    ],
    "qnn.conv2d_transpose": [
        with_scales(
            ((1, 2, 2, 3), (2, 3, 2, 2)),
            [Z, ZEROS, S, VECTOR],
            {"strides": (2, 1), "padding": (1, 0)},
            {0: "uint8", 1: "int8"},
        ),
    ],
}
