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
    "tile": [
        Case(((2, 3),), {"reps": (2, 1)}),
        Case(((3,),), {"reps": (2, 3)}),
        Case(((2, 1, 3),), {"reps": (2,)}),
        Case(((),), {"reps": (2,)}),
        Case(((2, 3),), {"reps": ()}),
        Case(((0, 3),), {"reps": (2, 2)}),
        Case(((2, 3),), {"reps": (0, 2)}),
    ],
    "repeat": [
        Case(((2, 3),), {"repeats": 2, "axis": 1}),
        Case(((2, 3),), {"repeats": 3}),
        Case(((2, 3),), {"repeats": 2, "axis": -2}),
        Case(((),), {"repeats": 2}),
        Case(((2,),), {"repeats": 0, "axis": 0}),
        Case(((0, 2),), {"repeats": 2, "axis": 0}),
    ],
    "reverse": [Case(((2, 3),), {"axis": a}) for a in (0, -1)] + [Case(((0,),))],
    "reverse_sequence": [
        Case(((3, 4), (3,)), values={1: [2, 9, 0]}, dtypes={1: "int32"}),
        Case(
            ((4, 2, 2), (2,)),
            {"seq_axis": 0, "batch_axis": -1},
            values={1: [3, -1]},
            dtypes={1: "int64"},
        ),
        Case(((0, 4), (0,)), dtypes={1: "int32"}),
    ],
    "slice_like": [
        Case(((3, 4), (2, 4))),
        Case(((3, 4, 5), (9, 2, 3)), {"axes": (1, -1)}),
        Case(((3,), (0,))),
        Case(((), ())),
    ],
    "slice_like_grad": [Case(((2, 4), (3, 4))), Case(((0,), (3,))), Case(((), ()))],
    "sliding_window": [
        Case(((2, 7),), {"axis": 1, "window_shape": (3,), "strides": (2,)}),
        Case(((5, 4),), {"axis": 0, "window_shape": (2, 3), "strides": (1, 1)}),
        Case(((2, 2),), {"axis": -1, "window_shape": (3,), "strides": (1,)}),
    ],
    "sliding_window_grad": [
        Case(((2, 3, 3), (2, 7)), {"axis": 1, "window_shape": (3,), "strides": (2,)}),
        Case(((4, 2, 2, 3), (5, 4)), {"axis": 0, "window_shape": (2, 3), "strides": (1, 1)}),
    ],
    "meshgrid": [
        Case(([(2,), (3,), ()],)),
        Case(([(2,), (3,), (2,)],), {"indexing": "xy"}),
        Case(([(2,)],), {"indexing": "xy"}),
        Case(([(0,), (2,)],)),
    ],
    "trilu": [
        Case(((3, 3), ()), dtypes={1: "int32"}, values={1: 0}),
        Case(((2, 3, 4), (1,)), {"upper": False}, dtypes={1: "int64"}, values={1: [1]}),
        Case(((3, 2), ()), {"upper": False}, dtypes={1: "int32"}, values={1: -1}),
        Case(((0, 2), ()), dtypes={1: "int32"}, values={1: 0}),
    ],
    "matrix_set_diag": [
        Case(((3, 4), (3,))),
        Case(((2, 4, 3), (2, 2)), {"k1": 1, "k2": 1}),
        Case(((3, 4), (4, 3)), {"k1": -2, "k2": 1}),
        Case(
            ((4, 3), (3, 3)),
            {"k1": -1, "k2": 1, "super_diag_right_align": False, "sub_diag_right_align": True},
        ),
        Case(((0, 3), (0,))),
    ],
    "matrix_set_diag_grad": [
        Case(((3, 4),)),
        Case(((2, 4, 3),), {"k1": -2, "k2": 1}),
        Case(
            ((4, 3),),
            {"k1": -1, "k2": 1, "super_diag_right_align": False, "sub_diag_right_align": True},
        ),
    ],
    "sequence_mask": [
        Case(((4, 3), (3,)), values={1: [1, 9, -1]}, dtypes={1: "int32"}),
        Case(((2, 4, 3), (2,)), {"axis": 1, "mask_value": -2.5}, {1: "int64"}, {1: [2, 0]}),
        Case(((0, 3), (3,)), dtypes={1: "int32"}),
    ],
    "one_hot": [
        *(Case(((3,), (), ()), {"depth": 3}, {0: d}) for d in ("int32", "uint8", "uint64")),
        Case(((2, 2), (), ()), {"depth": 4, "axis": 0, "dtype": "int8"}, {0: "int32"}),
        Case(((2,), (), ()), {"depth": 2, "axis": 1}, {0: "int32"}),
        Case(((), (), ()), {"depth": 3}, {0: "int64"}),
        Case(((2,), (), ()), {"depth": 0}, {0: "int64"}),
    ],
    "unravel_index": [
        Case(((5,), (2,)), values={1: [4, 5]}),
        Case(((), (3,)), values={1: [2, 3, 4]}),
        Case(((2, 2), (2,))),
        Case(((0,), (2,))),
        Case(((3,), (0,))),
    ],
}
