"""Operators on order, places and shapes against what numpy says, and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import relayvm
from relayvm.base.dims import ANY, DimVar, symbol
from relayvm.base.dtypes import FLOAT32, INT32, INT64, dtype_of
from relayvm.base.shapes import ShapeError
from relayvm.compiler.evaluate import Evaluator
from relayvm.compiler.infer_types import infer_types
from relayvm.ir.expr import Attrs, Call, Constant, Function, Var
from relayvm.ir.module import Module
from relayvm.ir.types import TensorType, TupleType
from relayvm.ops import OPS

N = DimVar("n")


def given(name: str, *arrays: Any, **attrs: Any) -> Any:
    return OPS[name].evaluate([np.asarray(a) for a in arrays], attrs)


def test_nan_is_the_greatest_and_equals_keep_their_order() -> None:
    x = np.array([1.0, np.nan, -np.inf, 1.0, np.inf])
    assert given("argsort", x).tolist() == [2, 0, 3, 4, 1]
    assert given("argsort", x, is_ascend=False).tolist() == [1, 4, 0, 3, 2]
    values, places = given("topk", x, k=3)
    assert places.tolist() == [1, 4, 0]
    np.testing.assert_array_equal(values, [np.nan, np.inf, 1.0])


def test_a_sort_agrees_with_numpy_and_python() -> None:
    x = np.random.default_rng(0).integers(-9, 9, 200)
    assert np.array_equal(given("sort", x), np.sort(x))
    assert given("sort", x, is_ascend=False).tolist() == sorted(x, reverse=True)


@pytest.mark.parametrize("right", [False, True])
def test_searchsorted_agrees_with_numpy(right: bool) -> None:
    row = np.sort(np.random.default_rng(1).integers(0, 20, 30))
    values = np.arange(-2, 23)
    side = "right" if right else "left"
    found = given("searchsorted", row, values, right=right)
    assert np.array_equal(found, np.searchsorted(row, values, side))


def test_unique_agrees_with_numpy() -> None:
    x = np.array([3, 1, 3, 2, 1], np.int32)
    values, firsts, inverse, counts = np.unique(
        x, return_index=True, return_inverse=True, return_counts=True
    )
    found = given("unique", x, return_counts=True)
    for a, b in zip(found, (values, firsts, inverse, [3], counts), strict=True):
        assert a.tolist() == list(b)
    assert given("unique", x, sorted=False)[0].tolist() == [3, 1, 2]


def test_windows_tiles_and_grids_agree_with_numpy() -> None:
    x = np.arange(12).reshape(3, 4)
    windows = np.lib.stride_tricks.sliding_window_view(x, (2, 2))
    sliding = given("sliding_window", x, axis=0, window_shape=(2, 2), strides=(1, 1))
    assert np.array_equal(sliding, windows)
    assert np.array_equal(given("trilu", x, np.int32(1)), np.triu(x, 1))
    assert np.array_equal(given("trilu", x, np.int32(-1), upper=False), np.tril(x, -1))
    assert np.array_equal(
        given("unravel_index", [5, 11], [3, 4]), np.unravel_index([5, 11], (3, 4))
    )


def test_einsum_and_transforms_agree_with_numpy() -> None:
    rng = np.random.default_rng(2)
    a, b = rng.normal(size=(2, 3, 4)), rng.normal(size=(4, 3))
    found = OPS["einsum"].evaluate([(a, b)], {"equation": "bij,ji->bi"})
    assert np.allclose(found, np.einsum("bij,ji->bi", a, b))
    spectrum = np.fft.fft(a + 1j * a[::-1])
    re, im = given("dft", a, a[::-1])
    assert np.allclose(re + 1j * im, spectrum)
    back = given("dft", re, im, inverse=True)
    assert np.allclose(back[0], a)


def test_the_fixed_point_product_rounds_halves_up() -> None:
    x = np.array([3, -3, 5], np.int32)
    assert given("fixed_point_multiply", x, multiplier=1 << 30, shift=0).tolist() == [2, -1, 3]
    assert given("fixed_point_multiply", x, multiplier=1 << 30, shift=2).tolist() == [6, -6, 10]


def test_diagonals_stand_as_aligned() -> None:
    zero = np.zeros((3, 4), np.int32)
    rows = np.arange(1, 10).reshape(3, 3).astype(np.int32)
    found = given("matrix_set_diag", zero, rows, k1=-1, k2=1)
    assert found.tolist() == [[4, 1, 0, 0], [7, 5, 2, 0], [0, 8, 6, 3]]


def test_sparse_rows_that_are_empty_are_filled_in_order() -> None:
    indices = np.array([[0, 1], [0, 3], [2, 0], [3, 1]])
    found = given("sparse_fill_empty_rows", indices, [1, 2, 3, 4], [5, 6], 10)
    assert found[0].tolist() == [[0, 1], [0, 3], [1, 0], [2, 0], [3, 1], [4, 0]]
    assert found[1].tolist() == [1, 2, 10, 3, 4, 10]
    assert found[2].tolist() == [False, True, False, False, True]


def called(name: str, arrays: list[np.ndarray], attrs: dict[str, Any]) -> Module:
    """Return a module whose `main` applies an operator to data of unknown sizes."""
    params = []
    for k, (operand, array) in enumerate(zip(OPS[name].operands, arrays)):
        shape = array.shape if k or len(arrays) == 1 else (ANY,) * array.ndim
        params.append(Var(operand.name, TensorType(shape, dtype_of(array.dtype))))
    call = Call(OPS[name], tuple(params), Attrs(attrs))
    return infer_types(Module({"main": Function(tuple(params), call)}))


@pytest.mark.parametrize(
    ("name", "arrays", "attrs", "code"),
    [
        ("gather", [[1.0, 2.0], [2]], {}, "index-out-of-range"),
        ("gather_nd", [[1.0, 2.0], [[-3]]], {"index_rank": 1}, "index-out-of-range"),
        ("scatter_elements", [[1.0, 2.0], [2], [1.0]], {}, "index-out-of-range"),
        ("invert_permutation", [[0, 2]], {}, "index-out-of-range"),
        ("dyn.reshape", [[1.0, 2.0], [3, -1]], {}, "bad-value"),
        ("dyn.reshape", [[1.0, 2.0], [-1, -1]], {}, "bad-value"),
        ("dyn.squeeze", [[[1.0, 2.0]], [1]], {}, "bad-value"),
        ("dyn.broadcast_to", [[1.0, 2.0], [3]], {}, "bad-value"),
        ("dyn.expand_dims", [[1.0, 2.0], 3], {}, "bad-value"),
        ("dyn.tile", [[1.0, 2.0], [-1]], {}, "bad-value"),
        ("dyn.topk", [[1.0, 2.0], 3], {}, "bad-value"),
        ("dyn.nn.pad", [[1.0, 2.0], [[-1, 0]], np.float64(0)], {}, "bad-value"),
        ("dyn.strided_slice", [[1.0, 2.0], [0], [2], [0]], {}, "bad-value"),
        ("dyn.zeros", [[-1]], {}, "bad-value"),
        ("strided_set", [[1.0, 2.0], [3.0], [0], [2], [1]], {}, "index-out-of-range"),
        ("sparse_to_dense", [[-1], [1.0], 0.0], {"output_shape": (3,)}, "index-out-of-range"),
        ("sparse_fill_empty_rows", [[[3]], [1.0], [2], 0.0], {}, "bad-value"),
    ],
)
def test_bad_values_trap_alike_in_the_evaluator_and_the_machine(
    name: str, arrays: list[Any], attrs: dict[str, Any], code: str
) -> None:
    operands = [np.array(a) for a in arrays]
    module = called(name, operands, attrs)
    with pytest.raises(relayvm.RelayError) as evaluated:
        Evaluator(module).call("main", operands)
    with pytest.raises(relayvm.RelayError) as ran:
        relayvm.VirtualMachine(relayvm.compile(module)).run(*operands)
    assert evaluated.value.code == ran.value.code == code


@pytest.mark.parametrize(
    ("name", "shapes", "attrs", "message"),
    [
        ("tile", [(2,)], {"reps": (-1,)}, "`reps` of `tile` must be at least 0"),
        ("sort", [()], {}, "legal are none"),
        ("topk", [(3,)], {"k": 4}, "the axis of `topk`"),
        ("topk", [(3,)], {"ret_type": "all"}, "`ret_type` of `topk`"),
        ("cumsum", [(3,)], {"axis": 1}, "axis is 1"),
        ("layout_transform", [(2, 3)], {"src_layout": "NC", "dst_layout": "NC2c"}, "remainder"),
        ("layout_transform", [(2,)], {"src_layout": "n", "dst_layout": "N"}, "capitals are axes"),
        (
            "sliding_window",
            [(4,)],
            {"axis": 0, "window_shape": (0,), "strides": (1,)},
            "at least 1",
        ),
        ("reinterpret", [(2,)], {"dtype": "int8"}, "numbers of bits differ"),
        ("matrix_set_diag_grad", [(2, 2)], {"k1": 1, "k2": 0}, "`k1` must not exceed `k2`"),
    ],
)
def test_bad_attributes_are_refused_with_the_rule(
    name: str, shapes: list[Any], attrs: dict[str, Any], message: str
) -> None:
    with pytest.raises(ShapeError, match=message.replace("(", r"\(")):
        OPS[name].result_type([TensorType(s, FLOAT32) for s in shapes], attrs)


def test_an_equation_that_does_not_fit_is_refused() -> None:
    data = TupleType((TensorType((2, 3), FLOAT32), TensorType((3,), FLOAT32)))
    for equation, message in (("ij->i", "2"), ("ij,jk->i", "rank"), ("ij,j->ii", "once")):
        with pytest.raises(ShapeError, match=message):
            OPS["einsum"].result_type([data], {"equation": equation})


@pytest.mark.parametrize(
    ("name", "operands", "expected"),
    [
        ("dyn.reshape", [np.array([3, -1])], (3, symbol(N) * 2)),
        ("dyn.reshape", [np.array([0, 2, 3])], (symbol(N), 2, 3)),
        ("dyn.tile", [np.array([2, 1])], (symbol(N) * 2, 6)),
        (
            "dyn.strided_slice",
            [np.array([0, 1]), np.array([2**31 - 1, 3]), np.array([1])],
            (symbol(N), 2),
        ),
        ("dyn.topk", [np.array(2)], (symbol(N), 2)),
    ],
)
def test_constants_tell_the_type(name: str, operands: list[Any], expected: Any) -> None:
    data = TensorType((symbol(N), 6), FLOAT32)
    args = (Var("x", data), *map(Constant, operands))
    types = [data, *(TensorType(a.shape, INT64) for a in operands)]
    attrs = {"ret_type": "values"} if name == "dyn.topk" else {}
    assert OPS[name].call_type(types, attrs, args) == TensorType(expected, FLOAT32)


def test_values_that_are_not_known_leave_the_sizes_open() -> None:
    types = [TensorType((2, 6), FLOAT32), TensorType((2,), INT32)]
    args = [Var(f"p{k}", t) for k, t in enumerate(types)]
    assert OPS["dyn.reshape"].call_type(types, {}, args) == TensorType((ANY, ANY), FLOAT32)


def test_a_slice_behind_the_end_is_empty_where_sizes_are_known() -> None:
    text = "def @main(%x: Tensor[(5), float32]) { strided_slice(%x, begin=[100], end=[200]) }"
    vm = relayvm.VirtualMachine(relayvm.compile(relayvm.parse(text)))
    assert vm.run(np.zeros(5, np.float32)).shape == (0,)
