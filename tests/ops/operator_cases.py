"""Inputs for every operator: shapes, attributes and values that legal calls may have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from cases_annotation import ANNOTATION_CASES
from cases_convolution import CONVOLUTION_CASES
from cases_image import IMAGE_CASES
from cases_layers import LAYER_CASES
from cases_pooling import POOLING_CASES
from cases_quantized import QUANTIZED_CASES
from cases_random import RANDOM_CASES
from cases_space import SPACE_CASES
from cases_sparse import SPARSE_CASES
from cases_transform import TRANSFORM_CASES
from cases_vision import VISION_CASES
from operator_case import Case, Shape

from relayvm.base.dtypes import BY_NAME, DType
from relayvm.ir.types import TensorType, TupleType, Type
from relayvm.ops import OPS
from relayvm.ops.binary import BINARY
from relayvm.ops.operator import Operator
from relayvm.ops.reduction import REDUCTIONS
from relayvm.ops.unary import PREDICATES, UNARY


def _unary() -> list[Case]:
    return [Case((s,)) for s in ((), (7,), (2, 3), (0, 3))]


def _binary() -> list[Case]:
    pairs = [
        ((), ()),
        ((3,), ()),
        ((2, 3), (3,)),
        ((2, 1, 3), (4, 1)),
        ((0, 3), (1, 3)),
        ((4,), (4,)),
    ]
    return [Case(p) for p in pairs]


def _reduction() -> list[Case]:
    return [
        Case(((2, 3),)),
        Case(((2, 3, 4),), {"axis": (1,)}),
        Case(((2, 3, 4),), {"axis": (-1, 0), "keepdims": True}),
        Case(((2, 3, 4),), {"axis": (1,), "exclude": True}),
        Case(((),)),
        Case(((5,),), {"axis": ()}),
        Case(((0, 3),), {"axis": (1,)}),
        Case(((3, 0),), {"axis": (1,)}),
        Case(((40,),)),
    ]


def _take(extra: int) -> list[Case]:
    """Cases of `take`; with `extra` operands before `indices` as `take_grad` has them."""
    rows = [
        ((5,), (4,), {}),
        ((2, 3), (), {}),
        ((4, 3), (5,), {"axis": 0}),
        ((2, 4, 3), (2, 2), {"axis": -2}),
        ((2, 4, 3), (2, 5), {"axis": 1, "batch_dims": 1}),
        ((4, 3), (6,), {"axis": 0, "mode": "wrap"}),
        ((3, 2), (0,), {"axis": 0}),
    ]
    result = []
    for data, indices, attrs in rows:
        shapes: tuple[Shape, ...] = (data, indices)
        if extra:
            taken = OPS["take"].result_type(
                [TensorType(data, BY_NAME["float32"]), TensorType(indices, BY_NAME["int32"])], attrs
            )
            shapes = (taken.shape, *shapes)
        result.append(Case(shapes, attrs, {len(shapes) - 1: "int32"}))
    return result


_SLICES: list[tuple[Shape, dict[str, Any]]] = [
    ((5,), {"begin": (1,), "end": (4,)}),
    ((5, 4), {"begin": (0, 1), "end": (5, 9), "strides": (2, 1)}),
    ((5, 4), {"begin": (-1,), "end": (-9,), "strides": (-1,)}),
    ((5, 4), {"begin": (4,), "end": (0,), "strides": (-2,), "axes": (-2,)}),
    ((5, 4), {"begin": (1, 1), "end": (2, -1), "slice_mode": "size"}),
    ((5,), {"begin": (3,), "end": (2,)}),
    ((2, 3), {"begin": (), "end": ()}),
    ((0, 3), {"begin": (0,), "end": (2147483647,)}),
]


def _slice_grad() -> list[Case]:
    result = []
    for shape, attrs in _SLICES:
        taken = OPS["strided_slice"].result_type([TensorType(shape, BY_NAME["float32"])], attrs)
        result.append(Case((taken.shape, shape), attrs))
    return result


CASES: dict[str, list[Case]] = {
    **{row.name: _unary() for row in (*UNARY, *PREDICATES)},
    **{row.name: _binary() for row in BINARY},
    **{row.name: _reduction() for row in REDUCTIONS},
    "argmax": [
        *_reduction(),
        Case(((9,),), {"select_last_index": True}, values={0: [1, 3, 3, 2] * 2 + [3]}),
    ],
    "argmin": [*_reduction(), Case(((9,),), values={0: [1, 3, 3, 1] * 2 + [3]})],
    "variance": [
        Case(((2, 3), (2, 1)), {"axis": (1,)}),
        Case(((2, 3), (1, 1)), {"keepdims": True, "unbiased": True}),
        Case(((3,), (1,)), {"axis": (0,)}),
        Case(((2, 3), (2, 1)), {"axis": (0,), "exclude": True}),
    ],
    "nn.relu": _unary(),
    "copy": _unary(),
    "zeros_like": _unary(),
    "ones_like": _unary(),
    "cast": [Case((s,), {"dtype": d}) for d in BY_NAME for s in ((9,), ())],
    "clip": [Case((s,), {"a_min": -1.0, "a_max": 2.5}) for s in ((9,), (), (0,))],
    "where": [
        Case(((3,), (3,), (3,)), dtypes={0: "bool"}),
        Case(((2, 1), (3,), ()), dtypes={0: "bool"}),
        Case(((), (2, 3), (2, 3)), dtypes={0: "bool"}),
    ],
    "full": [Case(((),), {"shape": (2, 3)}), Case(((),), {"shape": (), "dtype": "float64"})],
    "full_like": [Case(((2, 3), ())), Case(((), ()))],
    "zeros": [Case((), {"shape": (2, 3)}), Case((), {"shape": (), "dtype": "int64"})],
    "ones": [Case((), {"shape": (0, 3), "dtype": "bool"}), Case((), {"shape": (4,)})],
    "shape_of": [Case(((2, 3, 4),)), Case(((),)), Case(((0, 2),), {"dtype": "int64"})],
    "arange": [
        Case(((), (), ()), values={0: 1, 1: 8, 2: 3}),
        Case(((), (), ()), {"dtype": "float32"}, values={0: 0, 1: 5, 2: 1}),
        Case(((), (), ()), values={0: 5, 1: 5, 2: 1}),
        Case(((), (), ()), dtypes={0: "float32"}, values={0: 0.5, 1: -1.0, 2: -0.25}),
        Case(((), (), ()), dtypes={0: "int32"}, values={0: 7, 1: -2, 2: -2}),
    ],
    "nn.dense": [
        Case(((2, 3), (4, 3))),
        Case(((2, 1, 3), (4, 3)), {"units": 4}),
        Case(((3,), (4, 3))),
        Case(((2, 3), (2, 3)), {"out_dtype": "float64"}),
        Case(((0, 3), (2, 3))),
        Case(((2, 0), (2, 0))),
        Case(((2, 3), (4, 3)), {"out_dtype": "int32"}, {0: "uint8", 1: "int8"}),
    ],
    "nn.matmul": [
        Case(((2, 3), (3, 4))),
        Case(((3, 2), (3, 4)), {"transpose_a": True}),
        Case(((2, 3), (4, 3)), {"transpose_b": True, "units": 4}),
        Case(((2, 3, 2), (4, 3)), {"transpose_a": True, "transpose_b": True}),
        Case(((3,), (3, 4))),
        Case(((2, 3), (3, 4)), {"out_dtype": "int32"}, {0: "int8", 1: "uint8"}),
    ],
    "nn.batch_matmul": [
        Case(((2, 3, 4), (2, 4, 2))),
        Case(((1, 3, 4), (2, 2, 4)), {"transpose_b": True}),
        Case(((2, 4, 3), (1, 4, 2)), {"transpose_a": True}),
        Case(((2, 4, 3), (2, 2, 4)), {"transpose_a": True, "transpose_b": True}),
        Case(((1, 3, 4), (2, 4, 2)), {"out_dtype": "int64"}, {0: "uint8", 1: "int16"}),
    ],
    "nn.bias_add": [
        Case(((2, 3), (3,))),
        Case(((2, 3, 4), (4,)), {"axis": -1}),
        Case(((3, 2), (3,)), {"axis": 0}),
    ],
    "nn.softmax": [Case(((2, 3),)), Case(((2, 3, 4),), {"axis": 1}), Case(((0, 3),))],
    "nn.log_softmax": [Case(((2, 3),)), Case(((2, 3, 4),), {"axis": 0}), Case(((5,),))],
    "nn.layer_norm": [
        Case(((2, 5), (5,), (5,))),
        Case(((2, 5, 3), (5,), (5,)), {"axis": 1, "epsilon": 0.01}),
        Case(((2, 5), (5,), (5,)), {"center": False}),
        Case(((2, 5), (5,), (5,)), {"scale": False}),
    ],
    "concatenate": [
        Case(([(2,), (3,)],)),
        Case(([(2, 3), (2, 1), (2, 0)],), {"axis": -1}),
        Case(([(2, 3)],), {"axis": 1}),
    ],
    "split": [
        Case(((6,),), {"indices_or_sections": 3}),
        Case(((2, 5),), {"indices_or_sections": (1, 3), "axis": 1}),
        Case(((2, 4),), {"indices_or_sections": (0, 4), "axis": -1}),
    ],
    "split_like": [
        Case(((5,), [(2,), (3,)])),
        Case(((2, 4), [(2, 1), (2, 3), (2, 0)]), {"axis": -1}),
    ],
    "stack": [Case(([(2, 3), (2, 3)],)), Case(([(2,), (2,), (2,)],), {"axis": -1}), Case(([()],))],
    "transpose": [
        Case(((2, 3, 4),)),
        Case(((2, 3, 4),), {"axes": (1, 2, 0)}),
        Case(((),)),
        Case(((2, 0),), {"axes": (-1, 0)}),
    ],
    "reshape": [
        Case(((2, 3, 4),), {"newshape": (4, -1)}),
        Case(((2, 3, 4),), {"newshape": (0, -1)}),
        Case(((2, 3, 4),), {"newshape": (-3, 0)}),
        Case(((2, 3, 4),), {"newshape": (-4, 1, 2, -2)}),
        Case(((2, 3, 4),), {"newshape": (0, -4, -1, 3, 0)}),
        Case(((1,),), {"newshape": ()}),
        Case(((0, 3),), {"newshape": (3, 0), "allowzero": True}),
    ],
    "reshape_like": [
        Case(((6,), (2, 3))),
        Case(((2, 6, 5), (4, 2, 3)), {"lhs_begin": 1, "lhs_end": 2, "rhs_begin": 1}),
        Case(((1,), ())),
    ],
    "expand_dims": [
        Case(((2, 3),), {"axis": 1}),
        Case(((2, 3),), {"axis": -1, "num_newaxis": 2}),
        Case(((),), {"axis": 0}),
        Case(((),), {"axis": -1, "num_newaxis": 0}),
    ],
    "squeeze": [
        Case(((2, 1, 3),), {"axis": (1,)}),
        Case(((1, 2, 1),), {"axis": (-1, 0)}),
        Case(((1, 2, 1),)),
    ],
    "broadcast_to": [
        Case(((3,),), {"shape": (2, 3)}),
        Case(((2, 1),), {"shape": (2, 3)}),
        Case(((),), {"shape": (2,)}),
    ],
    "broadcast_to_like": [Case(((3,), (2, 3))), Case(((2, 1), (2, 3))), Case(((), ()))],
    "collapse_sum_like": [
        Case(((2, 3), (3,))),
        Case(((2, 3), (2, 1))),
        Case(((2, 3), ())),
        Case(((2, 3), (2, 3))),
        Case(((4, 2, 3), (1, 3))),
        Case(((0, 3), (1, 3))),
    ],
    "strided_slice": [Case((shape,), attrs) for shape, attrs in _SLICES],
    "strided_slice_grad": _slice_grad(),
    "take": _take(0),
    "take_grad": _take(1),
    **ANNOTATION_CASES,
    **CONVOLUTION_CASES,
    **SPACE_CASES,
    **SPARSE_CASES,
    **LAYER_CASES,
    **POOLING_CASES,
    **RANDOM_CASES,
    **QUANTIZED_CASES,
    **VISION_CASES,
    **IMAGE_CASES,
    **TRANSFORM_CASES,
}


def dtypes_of(op: Operator, case: Case) -> Iterator[tuple[Any, ...]]:
    """Yield the dtypes of operands with which the schema allows the case."""
    free = next((i for i in range(len(case.shapes)) if i not in case.dtypes), None)
    options = op.constrained_operands[free].constraint.dtypes if free is not None else (None,)
    if 0 in case.dtypes and len(case.values) > 1:
        options = (BY_NAME[case.dtypes[0]],)
    for choice in options:
        row: list[Any] = []
        for i, operand in enumerate(op.constrained_operands):
            if isinstance(case.dtypes.get(i), tuple):
                row.append(tuple(BY_NAME[d] for d in case.dtypes[i]))
            elif i in case.dtypes:
                row.append(BY_NAME[case.dtypes[i]])
            elif operand.constraint.same_as_previous and i:
                row.append(row[-1] if row else choice)
            else:
                row.append(choice)
        yield tuple(row)


def types_of(case: Case, dtypes: tuple[Any, ...]) -> tuple[Type, ...]:
    """Return the operand types of a case."""
    return tuple(
        TupleType(tuple(TensorType(s, k) for s, k in zip(shape, fields_of(d, shape))))
        if isinstance(shape, list)
        else TensorType(shape, d)
        for shape, d in zip(case.shapes, dtypes)
    )


def fields_of(dtype: Any, shapes: list[Shape]) -> tuple[DType, ...]:
    """Return the dtypes of the fields of a tuple operand."""
    return dtype if isinstance(dtype, tuple) else (dtype,) * len(shapes)


_SPECIAL = (0.0, -0.0, np.nan, np.inf, -np.inf, 1.0, -1.0, 0.5, 2.0)


def values_of(
    case: Case, dtypes: tuple[Any, ...], rng: np.random.Generator, special: bool
) -> tuple[Any, ...]:
    """Return arrays for the operands; with `special` NaN, infinities and extreme integers are among
    them.
    """
    result: list[Any] = []
    for i, (shape, dtype) in enumerate(zip(case.shapes, dtypes)):
        if isinstance(shape, list):
            given = case.values.get(i, [None] * len(shape))
            result.append(
                tuple(
                    _array(s, d, rng, special) if v is None else np.array(v).astype(d.numpy)
                    for s, d, v in zip(shape, fields_of(dtype, shape), given)
                )
            )
        elif i in case.values:
            result.append(np.array(case.values[i]).astype(dtype.numpy))
        else:
            result.append(_array(shape, dtype, rng, special))
    return tuple(result)


def _array(shape: Shape, dtype: DType, rng: np.random.Generator, special: bool) -> np.ndarray:
    if dtype.is_bool:
        return np.asarray(rng.integers(0, 2, shape)).astype(np.bool_)
    if dtype.is_stored:
        return _stored(shape, dtype, rng, special)
    if dtype.is_float:
        array = np.asarray(rng.normal(0, 2, shape)).astype(dtype.numpy)
        extremes: tuple[float, ...] = _SPECIAL
    else:
        array = np.asarray(rng.integers(-4 if dtype.is_signed else 0, 9, shape)).astype(dtype.numpy)
        extremes = (dtype.min, dtype.max, 0, 1, dtype.numpy.type(-1) if dtype.is_signed else 2, 31)
    if special and array.size:
        chosen = rng.random(array.shape) < 0.4
        picked = np.array(extremes, dtype.numpy)[rng.integers(0, len(extremes), array.shape)]
        array = np.where(chosen, picked, array).astype(dtype.numpy)
    return array


def _stored(shape: Shape, dtype: DType, rng: np.random.Generator, special: bool) -> np.ndarray:
    """Return an array of any bytes that elements have, or without `special` of numbers."""
    codes = rng.integers(0, 1 << dtype.bits, shape)
    if special or not dtype.is_real:
        return (
            np.asarray(codes.astype(np.uint8)).view(dtype.numpy)
            if dtype.is_real
            else (dtype.array(codes))
        )
    return dtype.array(rng.normal(0, 2, shape))


def all_cases() -> list[tuple[str, int]]:
    """Return every (operator, number of the case)."""
    return [(name, i) for name, cases in sorted(CASES.items()) for i in range(len(cases))]
