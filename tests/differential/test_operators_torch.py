"""Operators against PyTorch: values and gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from relayvm.base.dtypes import dtype_of
from relayvm.compiler.evaluate import Evaluator
from relayvm.compiler.infer_types import infer_expr
from relayvm.ir.expr import Attrs, Call, Function, Tuple, Var
from relayvm.ir.module import Module
from relayvm.ir.types import TensorType
from relayvm.ops import OPS, gradient_call

torch = pytest.importorskip("torch")

Shapes = tuple[tuple[int, ...], ...]

CASES: list[tuple[str, Shapes, dict[str, Any], Callable[..., Any]]] = [
    ("add", ((2, 3), (3,)), {}, torch.add),
    ("divide", ((2, 3), (2, 1)), {}, torch.div),
    ("mod", ((2, 3), (3,)), {}, torch.fmod),
    ("floor_mod", ((2, 3), (3,)), {}, torch.remainder),
    ("maximum", ((4,), (4,)), {}, torch.maximum),
    ("erf", ((9,),), {}, torch.erf),
    ("sigmoid", ((9,),), {}, torch.sigmoid),
    ("tan", ((9,),), {}, torch.tan),
    ("asinh", ((9,),), {}, torch.asinh),
    ("nn.relu", ((9,),), {}, torch.relu),
    ("round", ((9,),), {}, torch.round),
    ("clip", ((9,),), {"a_min": -1.0, "a_max": 0.5}, lambda x: torch.clamp(x, -1.0, 0.5)),
    ("sum", ((2, 3, 4),), {"axis": (0, 2)}, lambda x: x.sum((0, 2))),
    ("mean", ((2, 3),), {"axis": (1,), "keepdims": True}, lambda x: x.mean(1, keepdim=True)),
    ("prod", ((2, 3),), {"axis": (1,)}, lambda x: x.prod(1)),
    ("max", ((2, 3),), {"axis": (0,)}, lambda x: x.amax(0)),
    ("nn.softmax", ((2, 5),), {}, lambda x: torch.softmax(x, -1)),
    ("nn.log_softmax", ((2, 5),), {"axis": 0}, lambda x: torch.log_softmax(x, 0)),
    (
        "nn.layer_norm",
        ((2, 5), (5,), (5,)),
        {"epsilon": 1e-3},
        lambda x, w, b: torch.nn.functional.layer_norm(x, (5,), w, b, 1e-3),
    ),
    ("nn.dense", ((2, 4, 3), (5, 3)), {}, torch.nn.functional.linear),
    ("nn.batch_matmul", ((2, 3, 4), (1, 4, 2)), {}, torch.matmul),
    ("transpose", ((2, 3, 4),), {"axes": (2, 0, 1)}, lambda x: x.permute(2, 0, 1)),
    ("strided_slice", ((6, 5),), {"begin": (1,), "end": (6,), "strides": (2,)}, lambda x: x[1:6:2]),
    ("reshape", ((6, 4),), {"newshape": (-4, 2, 3, 0)}, lambda x: x.reshape(2, 3, 4)),
    ("broadcast_to", ((3, 1),), {"shape": (2, 3, 4)}, lambda x: x.expand(2, 3, 4)),
]


def case_id(value: object) -> str:
    """Return the name of a part of a case; that of a function differs from process to process."""
    return "reference" if callable(value) else str(value)[:30]


@pytest.mark.parametrize(("name", "shapes", "attrs", "reference"), CASES, ids=case_id)
def test_values_and_gradients_are_those_of_torch(
    name: str, shapes: Shapes, attrs: dict[str, Any], reference: Callable[..., Any]
) -> None:
    compare(name, shapes, attrs, reference)


def compare(
    name: str, shapes: Shapes, attrs: dict[str, Any], reference: Callable[..., Any]
) -> None:
    """Fail unless the values and gradients of a call on random floats are those of `reference`."""
    op = OPS[name]
    rng = np.random.default_rng(11)
    values = [rng.normal(0, 2, s) for s in shapes]
    leaves = [torch.tensor(v, requires_grad=True) for v in values]
    expected = reference(*leaves)
    assert np.allclose(op.evaluate(values, attrs), expected.detach().numpy(), rtol=1e-9)

    g = rng.normal(0, 1, tuple(expected.shape))
    expected.backward(torch.tensor(g))
    types = [TensorType(v.shape, dtype_of(v.dtype)) for v in values]
    params = tuple(Var(o.name, t) for o, t in zip(op.operands, types))
    incoming = Var("g", TensorType(g.shape, dtype_of(g.dtype)))
    view = gradient_call(op, params, attrs, Call(op, params, Attrs(attrs)), types)
    gradients = op.facets["gradient"](view, incoming)
    present = Tuple(tuple(x for x in gradients if x is not None))
    evaluator = Evaluator(Module())
    function = evaluator.evaluate(infer_expr(Function((*params, incoming), present)))
    results = iter(evaluator.apply(function, (*values, g)))
    for leaf, gradient in zip(leaves, gradients):
        actual = np.zeros(leaf.shape) if gradient is None else next(results)
        assert np.allclose(actual, leaf.grad.numpy(), rtol=1e-8, atol=1e-10)
