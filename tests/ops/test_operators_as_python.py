"""Each operator as Python text gives the bits of its row."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest
from operator_cases import CASES, dtypes_of, types_of, values_of

from relayvm.base.narrow.arrays import readable
from relayvm.compiler.infer_types import infer_types
from relayvm.compiler.to_python import PythonProgram
from relayvm.compiler.to_python.spellings import spelled_names
from relayvm.ir.expr import Attrs, Call, Function, Var
from relayvm.ir.module import Module
from relayvm.ops import OPS


@pytest.mark.slow
def test_every_operator_case_gives_the_bits_of_its_row():
    functions: dict[str, Function] = {}
    calls = []
    for name, cases in sorted(CASES.items()):
        op = OPS[name]
        for i, case in enumerate(cases):
            for k, dtypes in enumerate(list(dtypes_of(op, case))):
                if k > 0 and name not in spelled_names():
                    continue
                types = types_of(case, dtypes)
                params = tuple(Var(o.name, t) for o, t in zip(op.operands, types))
                entry = f"{name.replace('.', '_')}_{i}_{k}"
                functions[entry] = Function(params, Call(op, params, Attrs(case.attrs)))
                calls.append((entry, op, case, dtypes))
    program = PythonProgram(infer_types(Module(functions)))
    failures = []
    for entry, op, case, dtypes in calls:
        rng = np.random.default_rng(zlib.crc32(f"{entry}{case}".encode()))
        values: tuple[Any, ...] = values_of(case, dtypes, rng, special=True)
        if not same_bits(program.call(entry, values), op.evaluate(values, case.attrs)):
            failures.append(entry)
    assert failures == []


def same_bits(a: Any, b: Any) -> bool:
    """Return True if arrays have the same bits; any NaN equals any other."""
    if isinstance(a, tuple) or isinstance(b, tuple):
        return len(a) == len(b) and all(map(same_bits, a, b))
    if (a.dtype, a.shape) != (b.dtype, b.shape):
        return False
    a, b = readable(a), readable(b)
    same = np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
    return same and (a.dtype.kind != "f" or not np.any((np.signbit(a) != np.signbit(b)) & (a == a)))
