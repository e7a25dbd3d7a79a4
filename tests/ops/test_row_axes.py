"""An operator that names an axis of rows computes each row for itself."""

from __future__ import annotations

import numpy as np
import pytest

from relayvm.base.dtypes import FLOAT32, INT8, INT32, dtype_of
from relayvm.ir.types import TensorType
from relayvm.ops import OPS

NAMED = sorted(name for name, row in OPS.items() if "row_axis" in row.facets)
FLOATS = ((FLOAT32, (5, 8)), (FLOAT32, (3, 8)))
CASES = {
    "nn.dense": [(FLOATS, {}), (((FLOAT32, (5, 2, 8)), (FLOAT32, (3, 8))), {})],
    "nn.matmul": [
        (((FLOAT32, (5, 8)), (FLOAT32, (8, 3))), {}),
        (FLOATS, {"transpose_b": True}),
        (((FLOAT32, (8, 5)), (FLOAT32, (8, 3))), {"transpose_a": True}),
    ],
    "nn.batch_matmul": [
        (((FLOAT32, (2, 5, 8)), (FLOAT32, (2, 8, 3))), {}),
        (((FLOAT32, (2, 5, 8)), (FLOAT32, (1, 3, 8))), {"transpose_b": True}),
        (((FLOAT32, (2, 8, 5)), (FLOAT32, (2, 8, 3))), {"transpose_a": True}),
    ],
    "nn.bitserial_dense": [(((INT8, (5, 8)), (INT8, (3, 8))), {"data_bits": 3, "weight_bits": 2})],
    "nn.contrib_dense_pack": [(((FLOAT32, (5, 8)), (FLOAT32, (3, 8, 2))), {})],
    "qnn.dense": [
        (
            (
                (INT8, (5, 8)),
                (INT8, (3, 8)),
                (INT32, ()),
                (INT32, ()),
                (FLOAT32, ()),
                (FLOAT32, ()),
            ),
            {},
        )
    ],
}
EACH = [(name, *case) for name in NAMED for case in CASES[name]]


def test_every_operator_with_an_axis_of_rows_has_a_case():
    assert sorted(CASES) == NAMED


@pytest.mark.parametrize(("name", "operands", "attrs"), EACH)
def test_a_row_is_the_same_alone_as_among_others(name, operands, attrs):
    op = OPS[name]
    axis = op.axis_of_rows([TensorType(shape, dtype) for dtype, shape in operands], attrs)
    if axis is None:
        assert attrs.get("transpose_a")
        return
    rng = np.random.default_rng(1)
    # Whole numbers, so that the order of a sum does not matter to numpy.
    args = [rng.integers(-4, 5, shape).astype(dtype.numpy) for dtype, shape in operands]
    whole = op.evaluate(args, attrs)
    assert isinstance(whole, np.ndarray)
    for row in range(args[0].shape[axis]):
        alone = op.evaluate([args[0].take([row], axis=axis), *args[1:]], attrs)
        np.testing.assert_array_equal(alone, whole.take([row], axis=axis))


@pytest.mark.parametrize("name", ["nn.dense", "nn.matmul"])
def test_a_vector_is_a_row_without_its_axis(name):
    op, rng = OPS[name], np.random.default_rng(2)
    x, w = (rng.integers(-4, 5, s).astype(np.float32) for s in ((8,), (8, 8)))
    types = [TensorType(a.shape, dtype_of(a.dtype)) for a in (x, w)]
    assert op.axis_of_rows(types, {}) == -1
    np.testing.assert_array_equal(op.evaluate([x[None], w], {})[0], op.evaluate([x, w], {}))
