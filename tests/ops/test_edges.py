"""Empty tensors and tensors of rank 0: each operator that takes them by the reference computes what
numpy does, in kernels and on the machine.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from operator_compare import assert_same
from operator_kernels import compute_result

import relayvm
from relayvm.base.shapes import ShapeError
from relayvm.compiler.infer_types import infer_types
from relayvm.ir.expr import Call, Function, Var
from relayvm.ir.module import Module
from relayvm.ir.types import TensorType, TupleType, Type
from relayvm.ops import OPS
from relayvm.ops.coverage import Variant, empty_call, example_values, rank_0_call

KINDS = {"empty": empty_call, "rank 0": rank_0_call}
CALLS = {
    (kind, name): variant
    for kind, variant_of in KINDS.items()
    for name in sorted(OPS)
    if (variant := variant_of(OPS[name], OPS)).types
}


def resized(example: Any, given: Type) -> Any:
    """Return the elements of the example in the shape of the variant."""
    if isinstance(given, TupleType):
        return tuple(map(resized, example, given.fields))
    assert isinstance(given, TensorType)
    shape = tuple(int(str(d)) for d in given.shape)
    return example if example.shape == shape else np.resize(example, shape)


def values_of(name: str, variant: Variant) -> tuple[Any, ...]:
    return tuple(map(resized, example_values(OPS[name], OPS), variant.types))


@pytest.mark.parametrize(("kind", "name"), sorted(CALLS))
def test_a_kernel_of_few_elements_computes_what_numpy_does(kind: str, name: str) -> None:
    op, variant = OPS[name], CALLS[kind, name]
    values = values_of(name, variant)
    try:
        expected = op.evaluate(values, variant.attrs)
    except (IndexError, ShapeError):  # values of the example that mean nothing here
        assert op.value_traps or op.is_data_dependent
        return
    actual = compute_result(op, variant.types, values, variant.attrs, symbolic=False)
    assert_same(op, variant.types, variant.attrs, actual, expected, f"{kind} {name}")


@pytest.mark.slow
def test_the_machine_computes_few_elements_as_numpy_does() -> None:
    functions = {}
    for i, ((_, name), variant) in enumerate(CALLS.items()):
        params = tuple(Var(o.name, t) for o, t in zip(OPS[name].operands, variant.types))
        functions[f"f{i}"] = Function(params, Call(OPS[name], params, variant.attrs))
    machine = relayvm.VirtualMachine(relayvm.compile(infer_types(Module(functions))))
    failures = []
    for i, ((kind, name), variant) in enumerate(CALLS.items()):
        op, values = OPS[name], values_of(name, variant)
        try:
            expected = op.evaluate(values, variant.attrs)
        except (IndexError, ShapeError):
            with pytest.raises(relayvm.RelayError):
                machine.invoke(f"f{i}", *values)
            continue
        try:
            actual = machine.invoke(f"f{i}", *values)
            assert_same(op, variant.types, variant.attrs, actual, expected, f"{kind} {name}")
        except (AssertionError, relayvm.RelayError) as failure:
            failures.append(f"{kind} {name}: {failure}")
    assert not failures, "\n".join(failures)
