"""Every example in the reference runs, and the reference is what the table says."""

from __future__ import annotations

import numpy as np
import pytest

from relayvm.compiler.evaluate import Evaluator
from relayvm.compiler.infer_types import infer_expr
from relayvm.ir.module import Module
from relayvm.ir.parser import parse_expr
from relayvm.ops import OPS
from relayvm.ops.coverage import read_example
from relayvm.ops.docs import main


@pytest.mark.parametrize("name", sorted(OPS))
def test_the_example_gives_its_result(name: str) -> None:
    example = read_example(OPS[name])
    params = ", ".join(
        f"%{n}: Tensor[({', '.join(f'{d},' for d in a.shape).replace(',,', ',')}), {a.dtype}]"
        for n, a in example.operands.items()
    )
    function = infer_expr(parse_expr(f"fn ({params}) {{ {example.expression} }}", OPS))
    evaluator = Evaluator(Module())
    result = evaluator.apply(evaluator.evaluate(function), tuple(example.operands.values()))
    expected = np.array(example.result)
    assert result.shape == expected.shape
    if result.dtype.kind == "f":
        assert np.allclose(result, expected, rtol=1e-6, equal_nan=True)
    else:
        assert np.array_equal(result, expected)


def test_the_reference_of_operators_is_fresh() -> None:
    assert main(["--check"]) == 0
