"""Inputs for operators on bits, on the order of elements, on indices, and for sorts and scans."""

from __future__ import annotations

from operator_case import Case

_INT32 = dict.fromkeys(range(4), "int32")

TRANSFORM_CASES: dict[str, list[Case]] = {
    "bitwise_not": [Case((s,)) for s in ((), (7,), (2, 3), (0, 3))],
    "cast_like": [Case(((2, 3), (1,)), dtypes={1: d}) for d in ("int8", "float64", "bool")],
    "reinterpret": [
        Case(((2, 3),), {"dtype": d}, {0: s})
        for d, s in (("int32", "float32"), ("float64", "uint64"), ("float16", "int16"))
    ]
    + [Case(((),), {"dtype": "int8"}, {0: "uint8"}), Case(((0,),), {"dtype": "int8"}, {0: "int8"})],
    "ndarray_size": [Case(((2, 3),)), Case(((),), {"dtype": "int64"}), Case(((0, 3),))],
    "fixed_point_multiply": [
        Case(((9,),), {"multiplier": 1 << 30, "shift": 1}, _INT32),
        Case(((2, 3),), {"multiplier": -1234567890, "shift": -3}, _INT32),
        Case(((),), {"multiplier": 2**31 - 1, "shift": 31}, _INT32),
        Case(((0,),), {"multiplier": 1, "shift": -31}, _INT32),
    ],
    "fixed_point_multiply_per_axis": [
        Case(((2, 3), (3,), (3,), (3,)), {"axes": (1,), "is_lshift_required": True}, _INT32),
        Case(
            ((2, 3), (3, 2), (3, 2), (3, 2)),
            {"axes": (-1, 0), "is_rshift_required": True, "is_lshift_required": True},
            _INT32,
        ),
        Case(((0, 2), (2,), (2,), (2,)), {"axes": (1,)}, _INT32),
    ],
    "invert_permutation": [
        Case(((5,),), values={0: [3, 0, 4, 2, 1]}),
        Case(((3,),), values={0: [1, 1, 0]}),
        Case(((0,),)),
    ],
}
