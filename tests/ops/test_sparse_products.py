"""Sparse products go along lines of the dense matrix, in parts of them: all sizes, all dtypes."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm
from relayvm.ops import OPS
from relayvm.ops.sparse_matrices import LINES

TEXT = """def @main(%a: Tensor[({lines}, {columns}), {dtype}], %b: Tensor[({entries}), {dtype}],
                    %c: Tensor[({count},), int32], %d: Tensor[({starts},), int32]) {{
  nn.sparse_dense(%a, %b, %c, %d, sparse_lhs={lhs})
}}"""


@pytest.mark.parametrize("unknown", [False, True])
@pytest.mark.parametrize("lhs", [False, True])
@pytest.mark.parametrize("block", [(), (2, 3)])
@pytest.mark.parametrize("lines", [1, 17, LINES + 5])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_products_are_summed_in_order(
    dtype: str, lines: int, block: tuple[int, ...], lhs: bool, unknown: bool
) -> None:
    rng = np.random.default_rng(lines)
    columns, rows, count = 21, 19, 40
    dense, entries = (
        (rng.random(shape) * 8).astype(dtype) for shape in ((lines, columns), (count, *block))
    )
    width = block[1] if block else 1
    places = rng.integers(0, columns // width, count).astype(np.int32)
    starts = np.sort(rng.integers(0, count + 1, rows + 1)).astype(np.int32)
    sizes = {"lines": lines, "columns": columns, "count": count, "starts": rows + 1}
    told = {name: "?" if unknown else size for name, size in sizes.items()}
    shape = "".join(f"{d}, " for d in (told["count"], *block))
    text = TEXT.format(**told, entries=shape, dtype=dtype, lhs=lhs)
    vm = relayvm.VirtualMachine(relayvm.compile(relayvm.parse(text)))
    values = [dense, entries, places, starts]
    expected = OPS["nn.sparse_dense"].evaluate(values, {"sparse_lhs": lhs})
    np.testing.assert_array_equal(vm.run(*values), expected)
