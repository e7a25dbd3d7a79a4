"""How rows are made: the signature is the schema, facets must fit it, names are unique."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm
from relayvm.base.dtypes import FLOAT32, INT8, INT32
from relayvm.base.shapes import ShapeError
from relayvm.compiler.evaluate import Evaluator
from relayvm.compiler.infer_types import infer_expr, infer_types
from relayvm.ir.expr import AttributeSchema, Constant
from relayvm.ir.module import Module
from relayvm.ir.parser import parse_expr, parse_module
from relayvm.ir.types import TensorType
from relayvm.ops import OPS, Fusion, Operator, operator
from relayvm.ops.operator import table_of
from relayvm.ops.schema import DType, Float, SameDtype


def scaled() -> Operator:
    @operator("scaled", fusion=Fusion.ELEMENTWISE)
    def rule(
        data: Float, other: SameDtype, *, by: float = 2.0, to: DType | None = None
    ) -> TensorType:
        """Both scaled."""
        return TensorType(data.shape, to or data.dtype)

    return rule


def test_the_signature_is_the_schema() -> None:
    row = scaled()
    assert [o.name for o in row.operands] == ["data", "other"]
    assert row.attributes == (
        AttributeSchema("by", "float", 2.0),
        AttributeSchema("to", "DType | None"),
    )
    assert row.doc == "Both scaled."


def test_a_facet_with_other_parameters_fails() -> None:
    with pytest.raises(TypeError, match="its schema is"):

        @scaled().numpy
        def _(data: np.ndarray, *, by: float) -> np.ndarray:
            return data


def test_a_facet_is_defined_once() -> None:
    row = scaled()

    @row.numpy
    def _(data: np.ndarray, other: np.ndarray, *, by: float, to: DType | None) -> np.ndarray:
        return data

    with pytest.raises(TypeError, match="defined twice"):

        @row.numpy
        def _(data: np.ndarray, other: np.ndarray, *, by: float, to: DType | None) -> np.ndarray:
            return other


def test_a_name_is_in_a_table_once() -> None:
    with pytest.raises(TypeError, match="defined twice"):
        table_of([scaled()], [scaled()])


def test_attributes_are_brought_to_their_canonical_form() -> None:
    assert scaled().complete_attrs({"by": 3, "to": "int8"}) == {"by": 3.0, "to": INT8}
    assert OPS["sum"].complete_attrs({"axis": 1})["axis"] == (1,)
    assert OPS["sum"].complete_attrs({"axis": [0, 1], "keepdims": 1}) == {
        "axis": (0, 1),
        "keepdims": True,
        "exclude": False,
    }


def test_attributes_that_old_texts_carry_are_ignored() -> None:
    assert OPS["arange"].complete_attrs({"start": 0, "dtype": "int8"}) == {"dtype": INT8}


def test_calling_a_row_builds_a_call() -> None:
    one = Constant(np.float32(1).reshape(()))
    call = OPS["sum"](one, axis=(0,))
    assert call.op is OPS["sum"]
    assert call.args == (one,)
    assert call.attrs["axis"] == (0,)


def test_evaluation_does_not_share_memory_with_its_operands() -> None:
    array = np.arange(6, dtype=np.float32)
    for name, attrs in (("copy", {}), ("reshape", {"newshape": (2, 3)}), ("transpose", {})):
        result = OPS[name].evaluate([array], attrs)
        assert not np.shares_memory(result, array)
        assert result.flags.c_contiguous


def test_a_division_of_a_size_by_zero_is_an_error_of_shapes() -> None:
    with pytest.raises(ShapeError):
        OPS["reshape"].result_type([TensorType((0, 3), FLOAT32)], {"newshape": (0, -1, 0)})


@pytest.mark.parametrize(
    ("name", "a", "b", "expected"),
    [
        ("divide", [7, -7, 5, -128], [2, 2, 0, -1], [3, -3, 0, -128]),
        ("floor_divide", [7, -7, 5, -128], [2, 2, 0, -1], [3, -4, 0, -128]),
        ("mod", [7, -7, 5, -128], [2, 2, 0, -1], [1, -1, 0, 0]),
        ("floor_mod", [7, -7, 5, -7], [-2, 2, 0, 3], [-1, 1, 0, 2]),
        ("left_shift", [1, 1, 1, -1], [7, 8, -1, 1], [-128, 0, 0, -2]),
        ("right_shift", [64, -1, -64, 1], [3, 9, -1, 9], [8, -1, -1, 0]),
        ("power", [2, -1, 2, 0], [6, -3, -1, 0], [64, -1, 0, 1]),
        ("add", [127, -128, 1, 0], [1, -1, 1, 0], [-128, 127, 2, 0]),
    ],
)
def test_integers_wrap_and_never_trap(
    name: str, a: list[int], b: list[int], expected: list[int]
) -> None:
    result = OPS[name].evaluate([np.array(a, np.int8), np.array(b, np.int8)], {})
    assert result.tolist() == expected


def test_casts_of_floats_saturate() -> None:
    given = np.array([np.nan, np.inf, -np.inf, 1e30, -1.9, 254.9], np.float32)
    assert OPS["cast"].evaluate([given], {"dtype": "uint8"}).tolist() == [0, 255, 0, 255, 0, 254]
    assert OPS["cast"].evaluate([given[:4]], {"dtype": "int64"}).tolist() == [
        0,
        2**63 - 1,
        -(2**63),
        2**63 - 1,
    ]


def test_a_custom_operator_is_a_row_passed_to_the_parser() -> None:
    @operator("twice", fusion=Fusion.ELEMENTWISE, no_gradient="a test")
    def twice(data: Float) -> TensorType:
        """Two times `data`."""
        return TensorType(data.shape, data.dtype)

    @twice.numpy
    def _(data: np.ndarray) -> np.ndarray:
        return data * 2

    text = "fn (%x: Tensor[(2), float32]) { add(twice(%x), %x) }"
    function = infer_expr(parse_expr(text, {**OPS, "twice": twice}))
    evaluator = Evaluator(Module())
    result = evaluator.apply(evaluator.evaluate(function), (np.array([1, 2], np.float32),))
    assert result.tolist() == [3, 6]


def test_a_size_in_an_attribute_may_be_a_symbol() -> None:
    text = """
    def @main[n](%x: Tensor[(n, 2), float32]) {
      (zeros(shape=(n, 1)), broadcast_to(%x, shape=(3, n, 2)), reshape(%x, newshape=[2, n]))
    }
    """
    module = infer_types(parse_module(text, OPS))
    result = Evaluator(module).call("main", [np.ones((4, 2), np.float32)])
    assert [r.shape for r in result] == [(4, 1), (3, 4, 2), (2, 4)]


def test_an_index_outside_is_an_error_only_where_the_mode_says_so() -> None:
    data, indices = np.arange(4), np.array([1, 9, -1], np.int32)
    assert OPS["take"].evaluate([data, indices], {}).tolist() == [1, 3, 0]
    assert OPS["take"].evaluate([data, indices], {"mode": "wrap"}).tolist() == [1, 1, 3]
    with pytest.raises(IndexError, match="index 9 is outside an axis of 4"):
        OPS["take"].evaluate([data, indices], {"mode": "fast"})
    with pytest.raises(IndexError, match="index 1 is outside an axis of 0"):
        OPS["take"].evaluate([data[:0], indices], {})


def test_a_rank_above_the_limit_is_an_error() -> None:
    with pytest.raises(ShapeError, match="has rank 9, above 8") as caught:
        OPS["expand_dims"].result_type([TensorType((), FLOAT32)], {"axis": 0, "num_newaxis": 9})
    assert caught.value.code == "rank-limit"


def test_old_texts_may_carry_attributes_that_mean_nothing_here() -> None:
    texts = (
        'arange(0, 10, 2, start=0, stop=10, step=2, dtype="int32")',
        'broadcast_to(1, shape=[5], dtype="int32")',
        'arange(1, 6, 1, start=nullptr, step=None, dtype="int32")',
    )
    for text in texts:
        call = infer_expr(parse_expr(text, OPS))
        assert call.checked_type == TensorType((5,), INT32)
        assert set(call.attrs) <= {"dtype", "shape"}


@pytest.mark.parametrize("size", [0, 1])
def test_the_unbiased_variance_of_too_few_elements_is_nan(size: int) -> None:
    text = f"""def @main(%x: Tensor[({size},), float32], %m: Tensor[(1,), float32]) {{
      variance(%x, %m, unbiased=True)
    }}"""
    args = [np.zeros(size, np.float32), np.zeros(1, np.float32)]
    assert np.isnan(OPS["variance"].evaluate(args, {"unbiased": True}))
    assert np.isnan(relayvm.VirtualMachine(relayvm.compile(relayvm.parse(text))).run(*args))
