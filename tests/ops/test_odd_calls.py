"""Odd calls that rules take give on the machine what numpy does, or trap where it does."""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from operator_case import Case
from operator_cases import CASES, dtypes_of, types_of, values_of
from operator_compare import assert_same
from operator_kernels import unknown

import relayvm
from relayvm.base.shapes import ShapeError, shape_context
from relayvm.compiler.infer_types import infer_types
from relayvm.ir.expr import Attrs, Call, Function, Var
from relayvm.ir.module import Module
from relayvm.ir.types import TensorType, Type
from relayvm.ops import OPS
from relayvm.ops.tracing import tensors_of

TRIES, KEPT = 12, 2
MOST = 10_000  # elements of a result
SMALL = (-3, -2, -1, 0, 0, 1, 1, 2, 3, 4, 5, 7, 9)
Made = tuple[Case, tuple[Any, ...], list[Type], dict[str, Any]]


def odd(rng: random.Random, kind: str, now: Any) -> Any:
    """Return another value of the kind of an attribute, mostly of the length that it has."""
    count = rng.choice((len(now), len(now), 1, len(now) + 1)) if isinstance(now, tuple) else 2
    match kind.removesuffix(" | None"):
        case "int" | "Dim" | "int | Ints":
            return rng.choice((*SMALL, 100))
        case "bool":
            return not now
        case "float":
            return rng.choice((-1.0, 0.0, 0.5, 2.0, 1e-30, 1e300, np.nan, np.inf, -np.inf))
        case "Ints" | "Dims":
            return tuple(rng.choice(SMALL) for _ in range(count))
        case "Floats":
            return tuple(rng.choice((0.0, -1.0, 0.5, 2.0, np.inf)) for _ in range(count))
        case "Pairs":
            return tuple((abs(rng.choice(SMALL)), rng.choice(SMALL)) for _ in range(count))
        case _:
            return now


def calls(name: str) -> Iterator[Made]:
    """Yield some odd calls that the rule of an operator takes."""
    op, rng, kept = OPS[name], random.Random(zlib.crc32(name.encode())), 0
    for _ in range(TRIES if op.attributes else 0):
        case = rng.choice(CASES[name])
        dtypes = rng.choice(list(dtypes_of(op, case)))
        types, attrs = list(types_of(case, dtypes)), dict(case.attrs)
        for row in rng.sample(op.attributes, min(len(op.attributes), rng.choice((1, 1, 2)))):
            attrs[row.name] = odd(rng, row.kind, attrs.get(row.name, row.default))
        try:
            with shape_context():
                result = op.result_type(types, attrs)
        except ShapeError:
            continue
        if kept < KEPT and all(elements(t) <= MOST for t in tensors_of(result)):
            kept += 1
            yield case, dtypes, types, attrs


def elements(given: TensorType) -> int:
    return int(np.prod([d for d in given.shape if isinstance(d, int)], dtype=np.float64))


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["static", "unknown"])
def test_odd_calls_that_rules_take_are_those_of_numpy(mode: str) -> None:
    functions, made = {}, []
    for name in sorted(OPS):
        for call in calls(name):
            case, _, types, attrs = call
            given = [
                t if mode == "static" or i in case.known else unknown(t)
                for i, t in enumerate(types)
            ]
            params = tuple(Var(o.name, t) for o, t in zip(OPS[name].operands, given))
            functions[f"f{len(made)}"] = Function(params, Call(OPS[name], params, Attrs(attrs)))
            made.append((name, call))
    machine = relayvm.VirtualMachine(relayvm.compile(infer_types(Module(functions))))
    failures = [told for k in range(len(made)) if (told := failure(machine, k, *made[k]))]
    assert len(made) > 200
    assert not failures, "\n".join(failures)


def failure(machine: relayvm.VirtualMachine, number: int, name: str, call: Made) -> str:
    """Return how a call differs from what numpy gives, "" where it does not."""
    (case, dtypes, types, attrs), op = call, OPS[name]
    values = values_of(case, dtypes, np.random.default_rng(number), special=False)
    what = f"{name} {case.shapes} {attrs}"
    try:
        with np.errstate(all="ignore"):
            expected = op.evaluate(values, attrs)
    except (ShapeError, IndexError, relayvm.RelayError):
        expected = None
    try:
        actual = machine.invoke(f"f{number}", *values)
    except relayvm.RelayError as refused:
        return "" if expected is None else f"{what}: {refused}"
    if expected is None:
        return f"{what}: no trap"
    try:
        assert_same(op, types, attrs, actual, expected, what)
    except AssertionError as differs:
        return str(differs)
    return ""
