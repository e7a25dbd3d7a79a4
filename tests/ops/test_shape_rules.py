"""Shape rules against numpy on random shapes, and what they say when they do not hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relayvm.base.dims import ANY, Dim, DimVar, dim_max, dim_min, dim_value, symbol
from relayvm.base.dtypes import BOOL, FLOAT32, INT32
from relayvm.base.shapes import ShapeError, shape_context
from relayvm.ir.types import TensorType, TupleType, Type
from relayvm.ops import OPS, trace_shape
from relayvm.ops.tracing import check_equation

SIZES = st.sampled_from([0, 1, 1, 2, 3])
SHAPES = st.lists(SIZES, max_size=3).map(tuple)
EXAMPLES = settings(max_examples=150, deadline=None)


def tensor(*shape: Dim) -> TensorType:
    return TensorType(shape, FLOAT32)


def static_shape(name: str, types: list[Type], attrs: dict[str, Any]) -> tuple[Dim, ...] | None:
    try:
        result = OPS[name].result_type(types, attrs)
    except ShapeError:
        return None
    assert isinstance(result, TensorType)
    return result.shape


def traced_shape(
    name: str, shapes: list[tuple[int, ...]], attrs: dict[str, Any]
) -> tuple[int, ...] | None:
    """Return the run-time shape of a call with operands of no known dim; None if a check fails."""
    try:
        trace = trace_shape(OPS[name], [tensor(*[ANY] * len(s)) for s in shapes], attrs)
    except ShapeError:
        return None
    sizes = dict(zip(trace.fresh, [n for s in shapes for n in s]))
    try:
        for check in trace.checks:
            left, right = check_equation(check)
            if dim_value(left, sizes) != dim_value(right, sizes):
                return None
    except (ValueError, ZeroDivisionError):
        return None
    assert isinstance(trace.result, TensorType)
    return tuple(dim_value(d, sizes) for d in trace.result.shape)


def numpy_shape(function: Any, *args: Any) -> tuple[int, ...] | None:
    try:
        return tuple(function(*args).shape)
    except ValueError:
        return None


@EXAMPLES
@given(SHAPES, SHAPES)
def test_broadcasting_is_that_of_numpy(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    expected = numpy_shape(np.add, np.zeros(a), np.zeros(b))
    assert static_shape("add", [tensor(*a), tensor(*b)], {}) == expected
    assert traced_shape("add", [a, b], {}) == expected


@EXAMPLES
@given(SHAPES, SHAPES, SHAPES)
def test_three_operands_broadcast_as_in_numpy(
    a: tuple[int, ...], b: tuple[int, ...], c: tuple[int, ...]
) -> None:
    expected = numpy_shape(np.where, np.zeros(a), np.zeros(b), np.zeros(c))
    types = [TensorType(a, BOOL), tensor(*b), tensor(*c)]
    assert static_shape("where", types, {}) == expected


@EXAMPLES
@given(SHAPES, SHAPES)
def test_broadcast_to_accepts_what_numpy_does(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    expected = numpy_shape(np.broadcast_to, np.zeros(a), b)
    assert static_shape("broadcast_to", [tensor(*a)], {"shape": b}) == expected
    assert static_shape("broadcast_to_like", [tensor(*a), tensor(*b)], {}) == expected
    assert static_shape("collapse_sum_like", [tensor(*b), tensor(*a)], {}) == (
        None if expected is None else a
    )
    if len(a) <= len(b):
        assert traced_shape("broadcast_to_like", [a, b], {}) == expected


@EXAMPLES
@given(st.lists(SIZES, min_size=2, max_size=2), st.lists(SIZES, min_size=2, max_size=2))
def test_a_matrix_product_needs_equal_inner_axes(a: list[int], b: list[int]) -> None:
    expected = numpy_shape(np.matmul, np.zeros(a), np.zeros(b))
    assert static_shape("nn.matmul", [tensor(*a), tensor(*b)], {}) == expected
    assert traced_shape("nn.matmul", [tuple(a), tuple(b)], {}) == expected


@EXAMPLES
@given(
    st.integers(0, 6),
    st.integers(-8, 8),
    st.integers(-8, 8),
    st.sampled_from([-3, -2, -1, 1, 2, 3]),
)
def test_slices_are_those_of_python(extent: int, begin: int, end: int, stride: int) -> None:
    attrs = {"begin": (begin,), "end": (end,), "strides": (stride,)}
    expected = np.arange(extent)[begin:end:stride]
    assert static_shape("strided_slice", [tensor(extent)], attrs) == expected.shape
    assert traced_shape("strided_slice", [(extent,)], attrs) == expected.shape
    result = OPS["strided_slice"].evaluate([np.arange(extent)], attrs)
    assert np.array_equal(result, expected)


@EXAMPLES
@given(st.integers(0, 6), st.integers(-8, 8), st.integers(-1, 4))
def test_slices_by_size_stop_at_the_end(extent: int, begin: int, size: int) -> None:
    attrs = {"begin": (begin,), "end": (size,), "slice_mode": "size"}
    start = max(extent + begin, 0) if begin < 0 else begin
    expected = np.arange(extent)[start : extent if size < 0 else start + size]
    assert traced_shape("strided_slice", [(extent,)], attrs) == expected.shape
    result = OPS["strided_slice"].evaluate([np.arange(extent)], attrs)
    assert np.array_equal(result, expected)


@EXAMPLES
@given(
    st.lists(st.integers(1, 4), max_size=3),
    st.lists(st.sampled_from([-1, 0, 1, 2, 3, 4, 6]), max_size=3),
)
def test_reshape_to_sizes_and_one_inferred_is_that_of_numpy(
    shape: list[int], new: list[int]
) -> None:
    # Code 0 takes the axis at the same place over.
    if any(n == 0 and i >= len(shape) for i, n in enumerate(new)):
        return
    wanted = [shape[i] if n == 0 else n for i, n in enumerate(new)]
    expected = numpy_shape(np.reshape, np.zeros(shape), wanted)
    assert static_shape("reshape", [tensor(*shape)], {"newshape": tuple(new)}) == expected
    if new.count(-1) < 2:
        assert traced_shape("reshape", [tuple(shape)], {"newshape": tuple(new)}) == expected


@EXAMPLES
@given(st.lists(SIZES, min_size=1, max_size=3), st.integers(1, 4))
def test_equal_sections_exist_only_of_multiples(shape: list[int], sections: int) -> None:
    attrs = {"indices_or_sections": sections}
    try:
        parts = np.split(np.zeros(shape), sections)
    except ValueError:
        with pytest.raises(ShapeError):
            OPS["split"].result_type([tensor(*shape)], attrs)
        return
    result = OPS["split"].result_type([tensor(*shape)], attrs)
    assert result == TupleType(tuple(tensor(*p.shape) for p in parts))


N, M = symbol(DimVar("n")), symbol(DimVar("m"))


@pytest.mark.parametrize(
    ("name", "types", "attrs", "expected"),
    [
        ("add", [tensor(N, 3), tensor(3)], {}, (N, 3)),
        ("add", [tensor(N), tensor(5)], {}, (5,)),
        ("add", [tensor(ANY), tensor(5)], {}, (5,)),
        ("add", [tensor(ANY), tensor(1)], {}, (ANY,)),
        ("nn.dense", [tensor(N, 4), tensor(3, 4)], {}, (N, 3)),
        ("nn.dense", [tensor(2, ANY), tensor(3, 4)], {}, (2, 3)),
        ("reshape", [tensor(N, 4)], {"newshape": (-1,)}, (N * 4,)),
        ("reshape", [tensor(N, 4)], {"newshape": (0, 2, 2)}, (N, 2, 2)),
        ("reshape", [tensor(N, M)], {"newshape": (0, -1, 1)}, (N, M, 1)),
        ("reshape", [tensor(ANY, 4)], {"newshape": (-1, 2)}, (ANY, 2)),
        ("reshape", [tensor(N, 6)], {"newshape": (-2, -1)}, (N, 6, 1)),
        ("reshape", [tensor(N, 6)], {"newshape": (-4, -1, 2, -2)}, (N // 2, 2, 6)),
        ("transpose", [tensor(N, 4)], {}, (4, N)),
        ("strided_slice", [tensor(N, 4)], {"begin": (0,), "end": (2147483647,)}, (N, 4)),
        ("concatenate", [TupleType((tensor(N, 2), tensor(M, 2)))], {}, (N + M, 2)),
        ("strided_slice", [tensor(N)], {"begin": (1,), "end": (2147483647,)}, (dim_max(N - 1, 0),)),
        ("strided_slice", [tensor(N)], {"begin": (-3,), "end": (2147483647,)}, (dim_min(N, 3),)),
        ("concatenate", [TupleType((tensor(1, ANY), tensor(2, 5)))], {}, (3, 5)),
        ("sum", [tensor(N, ANY)], {"axis": (1,)}, (N,)),
        ("take", [tensor(7, N), TensorType((M,), INT32)], {"axis": 0}, (M, N)),
        ("zeros", [], {"shape": (N, 2)}, (N, 2)),
        ("squeeze", [tensor(N, ANY)], {"axis": (1,)}, (N,)),
    ],
)
def test_symbols_stay_and_known_dims_win(
    name: str, types: list[Type], attrs: dict[str, Any], expected: tuple[Dim, ...]
) -> None:
    result = OPS[name].result_type(types, attrs)
    assert isinstance(result, TensorType)
    assert result.shape == expected


@pytest.mark.parametrize(
    ("name", "types", "attrs", "count"),
    [
        ("add", [tensor(N), tensor(5)], {}, 1),
        ("add", [tensor(N), tensor(N)], {}, 0),
        ("add", [tensor(ANY), tensor(1)], {}, 0),
        ("nn.dense", [tensor(2, ANY), tensor(3, 4)], {}, 1),
        ("concatenate", [TupleType((tensor(N, 2), tensor(M, ANY)))], {}, 1),
        ("reshape", [tensor(N, 4)], {"newshape": (-1, 4)}, 0),
        ("squeeze", [tensor(ANY)], {"axis": (0,)}, 1),
    ],
)
def test_what_only_a_run_can_tell_is_left_as_a_check(
    name: str, types: list[Type], attrs: dict[str, Any], count: int
) -> None:
    with shape_context() as context:
        OPS[name].result_type(types, attrs)
    assert len(context.checks) == count


@pytest.mark.parametrize(
    ("name", "types", "attrs", "code", "message"),
    [
        (
            "add",
            [tensor(3), tensor(4)],
            {},
            "shape-mismatch",
            "axis 0 of the shapes do not broadcast: 3 and 4",
        ),
        ("add", [tensor(3)], {}, "wrong-arity", "`add` takes 2 operands (`lhs`, `rhs`), got 1"),
        (
            "add",
            [tensor(3), TensorType((3,), INT32)],
            {},
            "dtype-mismatch",
            "dtypes of `add`'s operands differ: float32 and int32",
        ),
        (
            "exp",
            [TupleType(())],
            {},
            "type-mismatch",
            "operand `data` of `exp` must be a tensor of floats, got the empty tuple",
        ),
        (
            "exp",
            [TensorType((), INT32)],
            {},
            "dtype-mismatch",
            "operand `data` of `exp` must be a tensor of floats, got int32",
        ),
        (
            "nn.dense",
            [tensor(2, 3), tensor(4, 5)],
            {},
            "shape-mismatch",
            "last axis of `data` and axis 1 of `weight` differ: 3 and 5",
        ),
        (
            "nn.dense",
            [tensor(2, 3), tensor(4, 3)],
            {"units": 7},
            "shape-mismatch",
            "axis 0 of `weight` and `units` differ: 4 and 7",
        ),
        (
            "nn.dense",
            [tensor(2, 3), tensor(4)],
            {},
            "shape-mismatch",
            "`weight` of `nn.dense` must have rank 2, got 1",
        ),
        ("sum", [tensor(2, 3)], {"axis": (2,)}, "bad-axis", "axis is 2, legal are -2 to 1"),
        (
            "sum",
            [tensor(2, 3)],
            {"axes": (1,)},
            "bad-attribute",
            "`sum` has no attribute `axes`; it has `axis`, `keepdims`, `exclude`",
        ),
        (
            "sum",
            [tensor(2, 3)],
            {"keepdims": "yes"},
            "bad-attribute",
            'attribute `keepdims` of `sum` must be True or False, got the string "yes"',
        ),
        ("cast", [tensor(2)], {}, "bad-attribute", "`cast` needs the attribute `dtype`"),
        (
            "cast",
            [tensor(2)],
            {"dtype": "float23"},
            "bad-attribute",
            'attribute `dtype` of `cast` must be a dtype, got the string "float23"',
        ),
        (
            "reshape",
            [tensor(2, 3)],
            {"newshape": (4, 2)},
            "shape-mismatch",
            "numbers of elements of `data` and `newshape` differ: 6 and 8",
        ),
        (
            "reshape",
            [tensor(2, 3)],
            {"newshape": (-1, -1)},
            "bad-attribute",
            "`newshape` has two entries to be inferred (-1)",
        ),
        (
            "concatenate",
            [TupleType((tensor(2, 3), tensor(2, 4)))],
            {},
            "shape-mismatch",
            "axis 1 of fields 0 and 1 of `concatenate` differ: 3 and 4",
        ),
        (
            "concatenate",
            [tensor(2)],
            {},
            "type-mismatch",
            "operand `data` of `concatenate` must be a tuple of tensors, got a tensor",
        ),
        (
            "transpose",
            [tensor(2, 3)],
            {"axes": (0, 0)},
            "bad-axis",
            "`axes` of `transpose` [0, 0] names an axis twice",
        ),
        (
            "take",
            [tensor(2), TensorType((1,), INT32)],
            {"mode": "trap"},
            "bad-attribute",
            '`mode` of `take` is "trap", legal are clip, wrap, fast',
        ),
        (
            "split",
            [tensor(5)],
            {"indices_or_sections": 2},
            "shape-mismatch",
            "`split` into 2 equal sections of an axis of 5",
        ),
        (
            "squeeze",
            [tensor(2, 1)],
            {"axis": (0,)},
            "shape-mismatch",
            "axis 0 of `data` and the size that `squeeze` removes differ: 2 and 1",
        ),
        (
            "clip",
            [tensor(2)],
            {"a_min": float("nan"), "a_max": 1.0},
            "bad-attribute",
            "`a_min` of `clip` must be a number, got nan",
        ),
        (
            "strided_slice",
            [tensor(5, 5)],
            {"begin": (1,), "end": (3, 4)},
            "bad-attribute",
            "`begin` and `end` of `strided_slice` differ in length: 1 and 2 entries",
        ),
        (
            "strided_slice",
            [tensor(5)],
            {"begin": (1, 1), "end": (3, 4)},
            "bad-attribute",
            "`begin` and `end` of `strided_slice` have 2 entries for 1 axis",
        ),
        (
            "transpose",
            [tensor(5, 4)],
            {"axes": (0,)},
            "bad-axis",
            "`axes` of `transpose` has 1 entry, the rank is 2",
        ),
        (
            "zeros",
            [],
            {"shape": (-1, 2)},
            "bad-attribute",
            "`shape` of `zeros` must be sizes, got [-1, 2]",
        ),
    ],
)
def test_a_broken_rule_names_both_values(
    name: str, types: list[Type], attrs: dict[str, Any], code: str, message: str
) -> None:
    with pytest.raises(ShapeError) as caught:
        OPS[name].result_type(types, attrs)
    told = message if f"`{name}`" in message else f"`{name}`: {message}"
    assert (caught.value.code, caught.value.message) == (code, told)


def test_parameters_are_inferred_from_data() -> None:
    known = tensor(N, 4)
    assert OPS["nn.dense"].complete_types([known, None], {"units": 3})[1] == tensor(3, 4)
    assert OPS["nn.matmul"].complete_types([known, None], {"units": 3})[1] == tensor(4, 3)
    assert OPS["nn.bias_add"].complete_types([known, None], {})[1] == tensor(4)
    assert OPS["nn.layer_norm"].complete_types([known, None, None], {})[1:] == (tensor(4),) * 2
    assert OPS["nn.dense"].complete_types([known, None], {}) == (known, None)


def test_the_length_of_a_range_of_constants_is_known() -> None:
    start, stop, step = (np.array(v, np.int32) for v in (0, 2_000_000_000, 3))
    assert OPS["arange"].value_type([start, stop, step], {}) == TensorType((666666667,), INT32)
