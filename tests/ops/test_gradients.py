"""Gradients of every operator against finite differences, at shapes of every kind."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from operator_cases import CASES, Case, dtypes_of, fields_of, types_of

from relayvm.base.dims import ANY, Dim, DimVar, symbol
from relayvm.base.dtypes import BOOL, FLOAT32, FLOAT64, INT32, INTEGERS, DType
from relayvm.compiler.evaluate import Evaluator
from relayvm.compiler.infer_types import infer_expr
from relayvm.ir.expr import Attrs, Call, Expr, Function, Tuple, Var
from relayvm.ir.module import Module
from relayvm.ir.types import TensorType, TupleType, Type
from relayvm.ir.visit import post_order
from relayvm.ops import OPS, gradient_call
from relayvm.ops.operator import Operator

STEP = 1e-6

# Where the function is defined and smooth; the others take any value.
DOMAINS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    **dict.fromkeys(("asin", "acos", "atanh"), lambda x: np.tanh(x) * 0.9),
    **dict.fromkeys(("log", "log2", "log10", "sqrt", "rsqrt", "power"), lambda x: np.abs(x) + 0.5),
    "acosh": lambda x: np.abs(x) + 1.5,
    "nn.batch_norm": lambda x: np.abs(x) + 0.5,
    "nn.cross_entropy": lambda x: np.abs(x) + 0.5,
}


def _values(op: Operator, case: Case) -> tuple[Any, ...]:
    rng = np.random.default_rng(zlib.crc32(f"{op.name}{case}".encode()))
    domain = DOMAINS.get(op.name, lambda x: x)

    def make(shape: tuple[int, ...], dtype: DType) -> np.ndarray:
        if dtype is FLOAT64:
            return np.asarray(domain(rng.normal(0, 1.5, shape)))
        return np.asarray(rng.integers(0, 2, shape)).astype(dtype.numpy)

    result: list[Any] = []
    for i, (shape, dtype) in enumerate(zip(case.shapes, _dtypes(case))):
        given = case.values.get(i)
        if isinstance(shape, list):
            kinds = fields_of(dtype, shape)
            fixed = given or [None] * len(shape)
            result.append(
                tuple(
                    make(s, d) if v is None else np.array(v).astype(d.numpy)
                    for s, d, v in zip(shape, kinds, fixed)
                )
            )
        else:
            known = given is not None
            result.append(np.array(given).astype(dtype.numpy) if known else make(shape, dtype))
    return tuple(result)


def _dtypes(case: Case) -> tuple[Any, ...]:
    fixed = {d.name: d for d in (BOOL, *INTEGERS)}

    def kind(given: Any) -> Any:
        if isinstance(given, tuple):
            return tuple(map(kind, given))
        return fixed.get(given, FLOAT64)

    return tuple(kind(case.dtypes.get(i)) for i in range(len(case.shapes)))


def _renamed(given: Type, dim: Callable[[Dim], Dim]) -> Type:
    if isinstance(given, TupleType):
        return TupleType(tuple(_renamed(t, dim) for t in given.fields))
    assert isinstance(given, TensorType)
    return TensorType(tuple(dim(d) for d in given.shape), given.dtype)


class Shapes:
    """How the sizes of a case are written in the types: as they are, as symbols, or as `?`."""

    def __init__(self, mode: str) -> None:
        self.mode = mode
        self.symbols: dict[Dim, DimVar] = {}

    def __call__(self, dim: Dim) -> Dim:
        if self.mode == "static" or dim == 1:
            return dim
        if self.mode == "unknown":
            return ANY
        return symbol(self.symbols.setdefault(dim, DimVar(f"n{dim}")))


def gradient_function(
    op: Operator, types: Sequence[Type], attrs: dict[str, Any], type_params: Sequence[DimVar]
) -> tuple[Function, tuple[int, ...]]:
    """Return (operands, g) -> gradients as a function, and the operands that have one."""
    params = tuple(Var(o.name, t) for o, t in zip(op.operands, types))
    output = Call(op, params, Attrs(attrs))
    g = Var("g", op.result_type(types, attrs))
    view = gradient_call(op, params, attrs, output, types)
    gradients = op.facets["gradient"](view, g)
    assert len(gradients) == len(params)
    present = tuple(i for i, x in enumerate(gradients) if x is not None)
    body = Tuple(tuple(x for x in gradients if x is not None))
    return Function((*params, g), body, None, tuple(type_params)), present


def _flat(value: Any) -> list[np.ndarray]:
    return [a for v in value for a in _flat(v)] if isinstance(value, tuple) else [value]


def _loss(op: Operator, values: Sequence[Any], attrs: dict[str, Any], g: Any) -> float:
    result = op.evaluate(values, attrs)
    return float(sum(np.sum(a * b) for a, b in zip(_flat(result), _flat(g))))


def _differences(op: Operator, values: tuple[Any, ...], attrs: Any, g: Any, which: int) -> Any:
    """Return central differences of the loss with respect to operand `which`."""
    results = []
    for array in _flat(values[which]):
        slopes = np.zeros(array.shape)
        if array.dtype != np.float64:
            results.append(slopes)
            continue
        for index in np.ndindex(*array.shape):
            kept = array[index]
            array[index] = kept + STEP
            above = _loss(op, values, attrs, g)
            array[index] = kept - STEP
            slopes[index] = (above - _loss(op, values, attrs, g)) / (2 * STEP)
            array[index] = kept
        results.append(slopes)
    return results


def _check(op: Operator, case: Case, mode: str) -> None:
    shapes = Shapes(mode)
    types = tuple(
        t if i in case.known else _renamed(t, shapes)
        for i, t in enumerate(types_of(case, _dtypes(case)))
    )
    attrs = {**case.attrs, **({"dtype": "float64"} if op.name == "cast" else {})}
    values = _values(op, case)
    function, present = gradient_function(op, types, attrs, tuple(shapes.symbols.values()))
    result = op.evaluate(values, attrs)
    rng = np.random.default_rng(7)
    g: Any = tuple(rng.normal(0, 1, a.shape) for a in _flat(result))
    g = g if isinstance(result, tuple) else g[0]
    typed = infer_expr(function)
    evaluator = Evaluator(Module())
    gradients = evaluator.apply(evaluator.evaluate(typed), (*values, g))
    for i, value in enumerate(values):
        kind = _dtypes(case)[i]
        real = FLOAT64 in (kind if isinstance(kind, tuple) else (kind,))
        differences = _differences(op, values, attrs, g, i) if real else []
        given = _flat(gradients[present.index(i)]) if i in present else None
        for k, expected in enumerate(differences):
            actual = np.zeros_like(expected) if given is None else given[k]
            assert actual.shape == expected.shape
            scale = max(1.0, np.max(np.abs(expected), initial=0))
            assert np.allclose(actual, expected, rtol=2e-5, atol=2e-6 * scale), (
                f"{op.name} {case} operand {i}:\n{actual}\n{expected}\n{value}"
            )


WITH_GRADIENT = sorted(n for n, row in OPS.items() if "gradient" in row.facets)


@pytest.mark.parametrize("mode", ["static", "symbolic", "unknown"])
@pytest.mark.parametrize("name", WITH_GRADIENT)
def test_the_gradient_is_what_finite_differences_say(name: str, mode: str) -> None:
    for case in CASES[name]:
        sizes = [n for s in case.shapes for t in (s if isinstance(s, list) else [s]) for n in t]
        if 0 in sizes or any(_dtypes(case)[i] is FLOAT64 for i in case.values):
            continue
        if case.attrs.get("dtype", "float64") not in ("float64", "float32"):
            continue
        if name == "squeeze" and "axis" not in case.attrs and mode != "static":
            continue
        _check(OPS[name], case, mode)


@pytest.mark.parametrize("name", ["exp", "tanh", "sigmoid", "sqrt", "nn.softmax", "max"])
def test_the_gradient_uses_the_shared_result(name: str) -> None:
    op = OPS[name]
    function, _ = gradient_function(op, [TensorType((3, 4), FLOAT64)], {}, ())
    calls = [e for e in post_order(function.body) if isinstance(e, Call) and e.op is op]
    assert len(calls) == 1


def test_the_gradient_of_a_product_with_a_zero_is_the_product_of_the_others() -> None:
    values = (np.array([[2.0, 0.0, 3.0], [0.0, 0.0, 5.0], [2.0, 3.0, 4.0]]),)
    function, _ = gradient_function(OPS["prod"], [TensorType((3, 3), FLOAT64)], {"axis": (1,)}, ())
    evaluator = Evaluator(Module())
    (result,) = evaluator.apply(evaluator.evaluate(infer_expr(function)), (*values, np.ones(3)))
    assert np.array_equal(result, [[0, 6, 0], [0, 0, 0], [12, 8, 6]])


def test_ties_of_a_maximum_share_the_gradient() -> None:
    values = (np.array([1.0, 3.0, 3.0]),)
    function, _ = gradient_function(OPS["max"], [TensorType((3,), FLOAT64)], {}, ())
    evaluator = Evaluator(Module())
    (result,) = evaluator.apply(evaluator.evaluate(infer_expr(function)), (*values, np.array(1.0)))
    assert np.array_equal(result, [0, 0.5, 0.5])


def test_no_gradient_is_built_of_an_integer_operand() -> None:
    types: list[Type] = [TensorType((5, 2), FLOAT64), TensorType((3,), INT32)]
    function, present = gradient_function(OPS["take"], types, {"axis": 0}, ())
    assert present == (0,)
    assert isinstance(function.body, Tuple)
    assert all(isinstance(e, Expr) for e in function.body.fields)


# Derivatives of products end with the second ones.
THIRD = ("cumprod_grad", "scatter_elements_grad", "scatter_nd_grad")


def _is_real(given: Type | None) -> bool:
    if isinstance(given, TupleType):
        return any(map(_is_real, given.fields))
    return isinstance(given, TensorType) and given.dtype.is_float


@pytest.mark.parametrize("name", WITH_GRADIENT)
def test_what_a_gradient_is_made_of_has_gradients(name: str) -> None:
    op, ends = OPS[name], set()
    for case in CASES[name]:
        dtypes = max(dtypes_of(op, case), key=lambda row: list(np.hstack(row)).count(FLOAT32))
        types = types_of(case, dtypes)
        if any(map(_is_real, types)):
            function, _ = gradient_function(op, types, case.attrs, ())
            calls = [e for e in post_order(infer_expr(function).body) if isinstance(e, Call)]
            real = [c.op for c in calls if _is_real(c.checked_type)]
            ends |= {o.name for o in real if isinstance(o, Operator) and "gradient" not in o.facets}
    assert ends == ({f"{name}_grad"} if name in THIRD else set())
