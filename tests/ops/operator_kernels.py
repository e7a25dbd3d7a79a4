"""Runs the compute facet of an operator on the interpreter of loop nests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from relayvm.base.dims import ANY, DimVar, dim_value, dim_variables, symbol
from relayvm.ir.types import TensorType, TupleType, Type
from relayvm.kernels.compute import Tensor, placeholder
from relayvm.kernels.interpret import interpret
from relayvm.kernels.lower import Computation, dim_names, lower
from relayvm.ops.operator import Operator
from relayvm.ops.tracing import tensors_of, trace_shape


def unknown(given: Type) -> Type:
    """Return the type with every dim `?`."""
    if isinstance(given, TupleType):
        return TupleType(tuple(unknown(t) for t in given.fields))
    assert isinstance(given, TensorType)
    return TensorType((ANY,) * given.rank, given.dtype)


def placeholders(types: Sequence[Type]) -> tuple[list[Any], list[Tensor]]:
    """Return operands as tensors or tuples of them, and all tensors in order."""
    flat: list[Tensor] = []

    def make(given: Type) -> Any:
        if isinstance(given, TupleType):
            return tuple(make(t) for t in given.fields)
        assert isinstance(given, TensorType)
        flat.append(placeholder(f"x{len(flat)}", given.shape, given.dtype))
        return flat[-1]

    return [make(t) for t in types], flat


def run(
    outputs: Sequence[Tensor],
    inputs: Sequence[Tensor],
    arrays: Sequence[np.ndarray],
    sizes: Mapping[DimVar, int],
    strided: frozenset[int],
) -> tuple[np.ndarray, ...]:
    """Return what the naive nest of `outputs` computes."""
    computation = Computation("test", tuple(inputs), tuple(outputs), tuple(sizes), strided)
    names = dim_names(tuple(sizes))
    return interpret(lower(computation), arrays, {names[v]: n for v, n in sizes.items()})


def compute_result(
    op: Operator,
    types: Sequence[Type],
    values: Sequence[Any],
    attrs: Mapping[str, Any],
    symbolic: bool,
    known: Sequence[int] = (),
) -> Any:
    """Return the result of a call by its compute facet, with all dims static or all unknown but
    those of the operands `known`.
    """
    given = [unknown(t) if symbolic and i not in known else t for i, t in enumerate(types)]
    trace = trace_shape(op, given, attrs)
    arrays = [a for v in values for a in (v if isinstance(v, tuple) else (v,))]
    operands, inputs = placeholders(trace.operands)
    sizes: dict[DimVar, int] = {}
    for tensor, array in zip(inputs, arrays):
        for dim, size in zip(tensor.shape, array.shape):
            for variable in dim_variables(dim):
                sizes[variable] = size
    loose = {v for c in trace.checks if c.broadcast for d in (c.a, c.b) for v in dim_variables(d)}
    strided = frozenset(
        i
        for i, t in enumerate(inputs)
        if any(v in loose for d in t.shape for v in dim_variables(d))
    )
    dims = tuple(symbol(v) for v in trace.value_dims)
    words = op.lower_dims(operands, attrs) if op.is_data_dependent else ()
    if words:
        lengths = run(words, inputs, arrays, sizes, strided)
        sizes.update(zip(trace.value_dims, (int(n) for n in lengths)))
    result = op.lower(operands, attrs, dims)
    outputs = result if isinstance(result, tuple) else (result,)
    promised = list(tensors_of(trace.result))
    assert len(outputs) == len(promised)
    for output, type_ in zip(outputs, promised):
        assert output.dtype is type_.dtype
        # The rule may know a size better than the definition, by a check that has been made.
        real = tuple(dim_value(d, sizes) for d in output.shape)
        assert real == tuple(dim_value(d, sizes) for d in type_.shape)
    computed = run(outputs, inputs, arrays, sizes, strided)
    return computed if isinstance(result, tuple) else computed[0]
