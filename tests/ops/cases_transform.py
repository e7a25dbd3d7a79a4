"""Inputs for operators on bits, on the order of elements, on indices, and for sorts and scans."""

from __future__ import annotations

from dataclasses import replace

from operator_case import Case, result_shape

_BOUNDS = {1: "int64", 2: "int64", 3: "int32"}
_SET = {2: "int64", 3: "int64", 4: "int64"}
_LONG = dict.fromkeys(range(3), "int64")
_FILL = {0: "int64", 2: "int64"}
_STFTS = [
    (((10,), (3,)), {"n_fft": 3, "hop_length": 2, "win_length": 3}),
    (
        ((2, 9), (3,)),
        {"n_fft": 4, "hop_length": 3, "win_length": 3, "normalized": True, "onesided": False},
    ),
    (((2,), (3,)), {"n_fft": 3, "hop_length": 1, "win_length": 3}),
    (((2, 100), (64,)), {"n_fft": 70, "hop_length": 9, "win_length": 64}),
]
_PLACES = {2: "int32", 3: "int32"}
_INT32 = dict.fromkeys(range(4), "int32")


def _shapes(attrs: dict[str, str]) -> list[Case]:
    return [
        Case(((2,),), attrs, {0: "int64"}, {0: [2, 3]}),
        Case(((2,),), attrs, {0: "uint8"}, {0: [0, 3]}),
        Case(((0,),), attrs, {0: "int32"}),
    ]


def _sorts() -> list[Case]:
    return [
        Case(((5,),)),
        Case(((3, 40),)),
        Case(((9, 3),), {"axis": 0, "is_ascend": False}),
        Case(((2, 9, 2),), {"axis": -2}),
        Case(((0,),)),
        Case(((2, 0),), {"axis": 0}),
        Case(((33,),), {"is_ascend": False}),
    ]


def _scans() -> list[Case]:
    return [
        Case(((5,),)),
        Case(((2, 3),)),
        Case(((2, 3, 2),), {"axis": 1}),
        Case(((2, 3),), {"axis": -2, "exclusive": True}),
        Case(((2, 3),), {"dtype": "float64", "exclusive": True}),
        Case(((),)),
        Case(((0, 2),), {"axis": 0}),
    ]


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
        Case(((5,), (2,)), values={0: [0, 7, 19, 3, 5], 1: [4, 5]}),
        Case(((), (3,)), values={0: 23, 1: [2, 3, 4]}),
        Case(((2, 2), (2,)), values={0: [[0, 5], [2, 1]], 1: [2, 3]}),
        Case(((0,), (2,))),
        Case(((3,), (0,))),
    ],
    "sort": _sorts(),
    "argsort": [
        *_sorts(),
        Case(((9,),), {"dtype": "int64"}, values={0: [1, 0, 1, 0, 1, 0, 1, 0, 1]}),
        Case(((9,),), {"is_ascend": False}, values={0: [1, 0, 1, 0, 1, 0, 1, 0, 1]}),
    ],
    "topk": [
        Case(((2, 5),), {"k": 3}),
        Case(((20,),), {"k": 20, "is_ascend": True, "dtype": "int64"}),
        Case(((40,),), {"k": 35}),
        Case(((9,),), {"k": 4}, values={0: [1, 0, 1, 0, 1, 0, 1, 0, 1]}),
        Case(((4, 3),), {"k": 2, "axis": 0, "ret_type": "values"}),
        Case(((3, 4),), {"k": -1, "ret_type": "indices"}),
        Case(((0, 3),), {"k": 2}),
        Case(((2, 0),), {"k": 0}),
    ],
    "searchsorted": [
        Case(((5,), (2, 3)), values={0: [0, 1, 1, 3, 8]}),
        Case(((5,), (7,)), {"right": True, "dtype": "int64"}, values={0: [0, 1, 1, 3, 8]}),
        Case(((2, 3), (2, 4)), values={0: [[0, 1, 1], [2, 3, 4]]}),
        Case(((0,), (3,))),
        Case(((3,), ()), {"right": True}),
    ],
    "cumsum": [*_scans(), Case(((2, 3),), {"axis": 1, "dtype": "float64"}, {0: "bool"})],
    "cumprod": _scans(),
    "cumprod_grad": [
        Case(((2, 3), (2, 3)), {"axis": 1}),
        Case(((3, 2), (3, 2)), {"axis": 0, "exclusive": True}),
        Case(((4,), (4,)), {"axis": -1}, values={1: [2, 0, 3, 0]}),
        Case(((0, 2), (0, 2)), {"axis": 0}),
    ],
    "cumprod_grad_grad": [
        Case(((2, 3),) * 3, {"axis": 1}),
        Case(((3, 2),) * 3, {"axis": 0, "exclusive": True}),
        Case(((4,),) * 3, {"axis": -1}, values={2: [2, 0, 3, 0]}),
        Case(((0, 2),) * 3, {"axis": 0}),
    ],
    "gather": [
        Case(((2, 3), (2, 4)), {"axis": 1}, {1: "int32"}, {1: [[0, 2, -3, 1], [1, 1, 0, -1]]}),
        Case(((3, 4), (2, 2)), {"axis": 0}, {1: "int64"}, {1: [[0, 2], [1, 0]]}),
        Case(((3,), (2,)), {"axis": -1}, {1: "uint64"}, {1: [2, 0]}),
        Case(((3, 2), (0, 2)), {}, {1: "uint8"}),
    ],
    "gather_nd": [
        Case(((2, 3), (2, 3)), {"index_rank": 2}, {1: "int32"}, {1: [[0, 1, -1], [2, -3, 1]]}),
        Case(((2, 3, 2), (1, 2)), {"index_rank": 1}, {1: "int64"}, {1: [[1, 0]]}),
        Case(
            ((2, 3, 4), (1, 2, 2)),
            {"batch_dims": 1, "index_rank": 1},
            {1: "int32"},
            {1: [[[0, 2], [1, 1]]]},
        ),
        Case(((2, 3), (2, 0)), {"index_rank": 2}, {1: "int32"}),
    ],
    "adv_index": [
        Case(([(2, 3), (2,), (2,)],), {}, {0: (d, "int32", "int64")}, {0: [None, [0, -1], [2, 0]]})
        for d in ("float32", "bool", "int64")
    ]
    + [
        Case(
            ([(3, 2), (2, 1), (3,)],),
            {},
            {0: ("float32", "int64", "uint8")},
            {0: [None, [[0], [2]], [1, 0, 1]]},
        ),
        Case(([(3, 2), (0,)],), {}, {0: ("float32", "int64")}),
    ],
    "scatter_elements": [
        *(
            Case(
                ((3, 2), (2, 2), (2, 2)),
                {"axis": a, "reduction": r},
                {1: "int32"},
                {1: [[0, 1], [-1, 1]]},
            )
            for a, r in enumerate(("update", "add"))
        ),
        *(
            Case(((4,), (6,), (6,)), {"reduction": r}, {1: "int64"}, {1: [0, 3, 0, -4, 2, 3]})
            for r in ("mul", "min", "max", "add", "update")
        ),
        *(
            Case(
                ((4,), (3,), (3,)), {"reduction": "mean"}, {0: d, 1: "uint64", 2: d}, {1: [0, 3, 0]}
            )
            for d in ("float32", "float16", "int8")
        ),
        Case(((4, 2), (0, 2), (0, 2)), {"axis": 0}, {1: "uint8"}),
    ],
    "scatter_nd": [
        *(
            Case(((3, 2), (2, 3), (3,)), {"mode": m}, {1: "int32"}, {1: [[0, 2, 0], [1, -1, 1]]})
            for m in ("update", "add", "mul", "min", "max")
        ),
        Case(
            ((3, 2), (1, 2, 2), (2, 2, 2)), {"mode": "add"}, {1: "int64"}, {1: [[[0, 1], [1, 2]]]}
        ),
        Case(((3,), (1, 0), (0,)), {}, {1: "int32"}),
        Case(((3,), (0, 2), (2, 3)), {}, {1: "int32"}),
    ],
    "gather_nd_grad": [
        Case(
            ((3,), (2, 3), (2, 3)), {"index_rank": 2}, {2: "int32"}, {2: [[0, 1, -1], [2, -3, 2]]}
        ),
        Case(
            ((2, 2, 4), (2, 3, 4), (1, 2, 2)),
            {"batch_dims": 1, "index_rank": 1},
            {2: "int32"},
            {2: [[[0, 2], [1, 1]]]},
        ),
    ],
    "adv_index_grad": [
        Case(
            ((2, 3), [(3, 2), (2, 1), (3,)]),
            {},
            {1: ("float32", "int64", "uint8")},
            {1: [None, [[0], [-1]], [1, 0, 1]]},
        ),
        Case(((3, 2), [(4, 2), (3,)]), {}, {1: ("float32", "int32")}, {1: [None, [1, 1, 3]]}),
    ],
    "scatter_elements_grad": [
        Case(((4,), (4,), (6,), (6,)), {"reduction": r}, {2: "int64"}, {2: [0, 3, 0, -4, 2, 3]})
        for r in ("mul", "min", "max", "mean", "add", "update")
    ],
    "scatter_nd_grad": [
        Case(((3, 2), (3, 2), (1, 3), (3, 2)), {"mode": m}, {2: "int32"}, {2: [[0, 2, 0]]})
        for m in ("update", "mul", "mean")
    ],
    "scatter_elements_grad_grad": [
        Case(((4,), (6,), (4,), (4,), (6,), (6,)), {}, {4: "int64"}, {4: [0, 3, 0, -4, 2, 3]}),
        Case(
            ((2, 3), (2, 2), (2, 3), (2, 3), (2, 2), (2, 2)),
            {"axis": -1},
            {4: "int32"},
            {4: [[0, 2], [-1, 2]]},
        ),
    ],
    "scatter_nd_grad_grad": [
        Case(((3, 2), (3, 2), (3, 2), (3, 2), (1, 3), (3, 2)), {}, {4: "int32"}, {4: [[0, 2, 0]]}),
    ],
    "tile_grad": [
        Case(((4, 3), (2, 3))),
        Case(((2, 6), (3,))),
        Case(((2, 0), (2, 0))),
        Case(((4,), ())),
    ],
    "dyn.reshape": [
        *(
            Case(((2, 3, 4), (len(v),)), a, {1: "int64"}, {1: v})
            for v, a in (
                ([4, -1], {}),
                ([0, -1], {}),
                ([24], {}),
                ([2, 0, 2, 2], {}),
                ([-1], {"allowzero": True}),
            )
        ),
        Case(((0, 3), (2,)), {"allowzero": True}, {1: "int32"}, {1: [3, 0]}),
        Case(((1, 1), (0,)), {}, {1: "int32"}),
    ],
    "dyn.expand_dims": [
        Case(((2, 3), ()), {}, {1: "int32"}, {1: 1}),
        Case(((2, 3), (1,)), {"num_newaxis": 2}, {1: "int64"}, {1: [-1]}),
        Case(((), ()), {}, {1: "int64"}, {1: 0}),
        Case(((2,), ()), {"num_newaxis": 0}, {1: "int64"}, {1: 0}),
    ],
    "dyn.squeeze": [
        Case(((2, 1, 3), (1,)), {}, {1: "int32"}, {1: [1]}),
        Case(((1, 2, 1), (2,)), {}, {1: "int64"}, {1: [-1, 0]}),
        Case(((1,), (1,)), {}, {1: "int64"}, {1: [0]}),
        Case(((2, 3), (0,)), {}, {1: "int64"}),
    ],
    "dyn.broadcast_to": [
        Case(((3,), (2,)), {}, {1: "int32"}, {1: [2, 3]}),
        Case(((2, 1), (2,)), {}, {1: "int64"}, {1: [2, 0]}),
        Case(((), (1,)), {}, {1: "int64"}, {1: [2]}),
        Case(((), (0,)), {}, {1: "int64"}),
    ],
    "dyn.tile": [
        Case(((2, 3), (2,)), {}, {1: "int32"}, {1: [2, 1]}),
        Case(((3,), (2,)), {}, {1: "int64"}, {1: [2, 3]}),
        Case(((2, 1, 3), (1,)), {}, {1: "int64"}, {1: [2]}),
        Case(((2, 0), (2,)), {}, {1: "int64"}, {1: [0, 2]}),
    ],
    "dyn.zeros": _shapes({"dtype": "int8"}),
    "dyn.ones": _shapes({}),
    "dyn.full": [
        Case(((), (2,)), {}, {1: "int64"}, {1: [2, 3]}),
        Case(((), (0,)), {"dtype": "float64"}, {1: "int32"}),
    ],
    "dyn.one_hot": [
        Case(((3,), (), (), ()), {}, {0: "int32", 3: "int64"}, {3: 4}),
        Case(
            ((2, 2), (), (), (1,)), {"axis": 0, "dtype": "int8"}, {0: "uint8", 3: "int32"}, {3: [3]}
        ),
    ],
    "collapse_sum_to": [
        Case(((2, 3), (1,)), {}, {1: "int64"}, {1: [3]}),
        Case(((2, 3), (2,)), {}, {1: "int32"}, {1: [2, 1]}),
        Case(((2, 3), (0,)), {}, {1: "int64"}),
        Case(((4, 2, 3), (3,)), {}, {1: "int64"}, {1: [4, 2, 3]}),
    ],
    "dyn.strided_slice": [
        *(
            Case(((5, 4), (len(b),), (len(b),), (len(s),)), a, _BOUNDS, {1: b, 2: e, 3: s})
            for b, e, s, a in (
                ([1], [4], [1], {}),
                ([0, 1], [5, 9], [2, 1], {}),
                ([-1], [-9], [-1], {}),
                ([4], [0], [-2], {}),
                ([1, 1], [2, -1], [1], {"slice_mode": "size"}),
                ([-2], [3], [1], {"slice_mode": "size"}),
                ([3], [2], [1], {}),
                ([], [], [1], {}),
            )
        ),
        Case(((0, 3), (1,), (1,), (1,)), {}, _BOUNDS, {1: [0], 2: [2**31 - 1], 3: [1]}),
        Case(
            ((5, 4), (1,), (1,), (1,)),
            {"slice_mode": "size"},
            {1: "uint64", 2: "int64", 3: "int64"},
            {1: [2**64 - 2], 2: [3], 3: [1]},
        ),
    ],
    "strided_set": [
        Case(((5, 4), (2, 4), (1,), (1,), (1,)), {}, _SET, {2: [1], 3: [3], 4: [1]}),
        Case(((5, 4), (3, 2), (2,), (2,), (2,)), {}, _SET, {2: [0, -1], 3: [5, 0], 4: [2, -2]}),
        Case(((5,), (2,), (1,), (1,), (1,)), {}, _SET, {2: [-1], 3: [-3], 4: [-1]}),
        Case(((5,), (0,), (1,), (1,), (1,)), {}, _SET, {2: [3], 3: [2], 4: [1]}),
        Case(((0,), (0,), (1,), (1,), (1,)), {}, _SET, {2: [0], 3: [9], 4: [1]}),
    ],
    "dyn.topk": [
        Case(((2, 5), ()), {}, {1: "int32"}, {1: 3}),
        Case(((20,), (1,)), {"is_ascend": True, "dtype": "int64"}, {1: "int64"}, {1: [20]}),
        Case(((4, 3), ()), {"axis": 0, "ret_type": "values"}, {1: "int64"}, {1: 2}),
        Case(((3, 4), ()), {"ret_type": "indices"}, {1: "int64"}, {1: -1}),
    ],
    "dyn.nn.pad": [
        Case(((2,), (1, 2), ()), {}, {1: "int64"}, {1: [[1, 2]]}),
        Case(((2,), (1, 2), ()), {}, {1: "int64", 2: "int32"}, {1: [[1, 2]]}),
        *(
            Case(((3, 4), (2, 2), ()), {"pad_mode": m}, {1: "int32"}, {1: [[2, 1], [0, 3]]})
            for m in ("constant", "edge", "reflect")
        ),
        Case(((0, 2), (2, 2), ()), {}, {1: "int32"}, {1: [[1, 0], [0, 0]]}),
    ],
    "argwhere": [Case((s,)) for s in ((7,), (2, 3), (), (0, 3))],
    "unique": [
        *(
            Case(((9,),), {"sorted": s, "return_counts": c})
            for s, c in ((True, False), (False, True))
        ),
        Case(((9,),), {"return_counts": True}, values={0: [4, 5, 1, 2, 3, 3, 4, 5, 1]}),
        Case(((6,),), {"sorted": False}, {}, {0: [4, 5, 4, 1, 5, 4]}),
        Case(((0,),), {"return_counts": True}),
    ],
    "sparse_to_dense": [
        Case(((3,), (3,), ()), {"output_shape": (5,)}, {0: "int32"}, {0: [4, 0, 4]}),
        Case(((2, 2), (2,), ()), {"output_shape": (2, 3)}, {0: "int64"}, {0: [[0, 2], [1, 1]]}),
        Case(((2, 2), (), ()), {"output_shape": (2, 3)}, {0: "uint8"}, {0: [[0, 2], [1, 1]]}),
        Case(((), (), ()), {"output_shape": (3,)}, {0: "int32"}, {0: 1}),
        Case(((0,), (0,), ()), {"output_shape": (2,)}, {0: "int32"}),
    ],
    "dyn.sparse_to_dense": [
        Case(((3,), (3,), (), (1,)), {}, {0: "int32", 3: "int64"}, {0: [4, 0, 4], 3: [5]}),
        Case(
            ((2, 2), (), (), (2,)), {}, {0: "int64", 3: "int32"}, {0: [[0, 2], [1, 1]], 3: [2, 3]}
        ),
    ],
    "sparse_reshape": [
        Case(((3, 2), (2,), (2,)), {}, {}, {0: [[0, 1], [1, 2], [0, 0]], 1: [2, 3], 2: [3, 2]}),
        Case(
            ((2, 3), (3,), (2,)),
            {},
            _LONG,
            {0: [[0, 1, 1], [1, 2, 0]], 1: [2, 3, 2], 2: [-1, 4]},
        ),
        Case(((0, 2), (2,), (1,)), {}, _LONG, {1: [2, 3], 2: [6]}),
    ],
    "sparse_fill_empty_rows": [
        Case(
            ((4, 2), (4,), (2,), ()),
            {},
            _FILL,
            {0: [[1, 0], [3, 1], [1, 2], [0, 1]], 2: [5, 3]},
        ),
        Case(((0, 2), (0,), (2,), ()), {}, _FILL, {2: [2, 2]}),
        Case(((2, 1), (2,), (1,), ()), {}, _FILL, {0: [[1], [0]], 2: [2]}),
    ],
    "layout_transform": [
        Case((shape,), {"src_layout": a, "dst_layout": b})
        for shape, a, b in (
            ((2, 3, 4), "NCW", "NWC"),
            ((2, 4, 3), "NCW", "NCW2c"),
            ((2, 2, 3, 2), "NCW2c", "WCN"),
            ((2, 2, 3, 4), "NCW4c", "NCW2c"),
            ((0, 4), "NC", "CN2c"),
            ((), "", ""),
        )
    ],
    "contrib_reverse_reshape": [
        Case(((2, 3, 4),), {"newshape": v}) for v in ((-1, 0), (-2,), (0, -3), (2, 3, 2, 2))
    ],
    "einsum": [
        Case((shapes,), {"equation": e})
        for shapes, e in (
            ([(2, 3), (3, 4)], "ij,jk->ik"),
            ([(2, 3), (3,)], "ij,j"),
            ([(2, 3), (2, 3)], "ij,ij->"),
            ([(2, 3)], "ij -> ji"),
            ([(2, 3)], "ij->i"),
            ([(3, 3)], "ii->i"),
            ([(3, 3)], "ii"),
            ([(2, 3), (3, 4), (4,)], "ab,bc,c->a"),
            ([(2, 2, 3), (1, 3, 2)], "...ij,...jk->...ik"),
            ([(2, 3), (3,)], "...j,j"),
            ([(), (2,)], ",i->i"),
            ([(2, 0), (0, 3)], "ij,jk->ik"),
        )
    ],
    "dft": [
        Case(((5,), (5,))),
        Case(((2, 4), (2, 4)), {"inverse": True}),
        Case(((2, 0), (2, 0))),
        Case(((2, 1, 128), (2, 1, 128))),
        Case(((3, 80), (3, 80)), {"inverse": True}),
    ],
    "stft": [Case(s, a) for s, a in _STFTS],
    "stft_grad": [Case((result_shape("stft", s, a), *s), a) for s, a in _STFTS],
    "nn.sparse_dense": [
        Case(
            ((2, 4), (3,), (3,), (4,)),
            {"sparse_lhs": lhs},
            _PLACES,
            {2: [3, 0, 2], 3: [0, 1, 1, 3]},
        )
        for lhs in (False, True)
    ]
    + [
        Case(
            ((3, 4), (2, 2, 2), (2,), (3,)),
            {},
            {2: "int64", 3: "int64"},
            {2: [1, 0], 3: [0, 1, 2]},
        ),
        Case(((2, 3), (0,), (0,), (1,)), {}, _PLACES, {3: [0]}),
    ],
    "nn.sparse_add": [
        Case(((3, 4), (3,), (3,), (4,)), {}, _PLACES, {2: [3, 0, 2], 3: [0, 1, 1, 3]}),
        Case(((0, 4), (0,), (0,), (1,)), {}, _PLACES, {3: [0]}),
    ],
    "nn.sparse_transpose": [
        Case(((4,), (4,), (4,)), {}, {1: "int32"}, {1: [1, 2, 0, 1], 2: [0, 2, 2, 4]}),
        Case(((0,), (0,), (1,)), {}, {1: "int64"}, {2: [0]}),
    ],
}

# The length of a vector of sizes or axes is the rank of the result.
_KNOWN: dict[str, int | tuple[int, ...]] = {
    "dyn.strided_slice": (1, 2, 3),
    "strided_set": (2, 3, 4),
    "dyn.topk": 1,
    "dyn.nn.pad": (),
    "dyn.sparse_to_dense": 3,
    "sparse_reshape": (1, 2),
    "sparse_fill_empty_rows": 2,
    "dyn.zeros": 0,
    "dyn.ones": 0,
    "dyn.full": 1,
    "dyn.reshape": 1,
    "dyn.expand_dims": 1,
    "dyn.squeeze": 1,
    "dyn.broadcast_to": 1,
    "dyn.tile": 1,
    "dyn.one_hot": 3,
    "collapse_sum_to": 1,
}
for _name, _operand in _KNOWN.items():
    _known = _operand if isinstance(_operand, tuple) else (_operand,)
    TRANSFORM_CASES[_name] = [replace(c, known=_known) for c in TRANSFORM_CASES[_name]]
