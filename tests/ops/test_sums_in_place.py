"""What an operator gives is added to a tensor that a loop owns, in the memory of that."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from operator_case import Case
from operator_cases import CASES, dtypes_of, types_of, values_of

import relayvm
from relayvm.base.dtypes import FLOAT32, INT32
from relayvm.compiler.infer_types import infer_types
from relayvm.ir.expr import Attrs, Call, Constant, Expr, Function, GlobalVar, If, Var
from relayvm.ir.module import Module
from relayvm.ir.types import TensorType, Type
from relayvm.ops import OPS
from relayvm.ops.operator import Operator

ROUNDS, MOST = 3, 20_000


def summed(number: int, params: list[Var], call: Call, kind: TensorType) -> Function:
    """Return `f(n, acc, ..) = if (n == 0) acc else f(n - 1, acc + call, ..)`."""
    count, total = Var("n", TensorType((), INT32)), Var("acc", kind)
    one, zero = (Constant(np.array(v, np.int32)) for v in (1, 0))
    less: Expr = Call(OPS["subtract"], (count, one))
    more: Expr = Call(OPS["add"], (total, call))
    again = Call(GlobalVar(f"f{number}"), (less, more, *params))
    body = If(Call(OPS["equal"], (count, zero)), total, again)
    return Function((count, total, *params), body, kind)


def as_summed(op: Operator, case: Case) -> tuple[tuple[Any, ...], list[Type], TensorType] | None:
    """Return dtypes and types of operands that give a tensor that sums are made of, and its type;
    None where there are none.
    """
    for dtypes in dtypes_of(op, case):
        types = list(types_of(case, dtypes))
        kind = op.result_type(types, case.attrs)
        if not isinstance(kind, TensorType) or not kind.shape or op.is_data_dependent:
            return None
        sizes = [d for d in kind.shape if isinstance(d, int)]
        if len(sizes) < kind.rank or np.prod(sizes) > MOST:
            return None
        if kind.dtype in (FLOAT32, INT32):
            return dtypes, types, kind
    return None


@pytest.mark.slow
def test_sums_of_each_operator_in_a_loop_are_those_of_level_0() -> None:
    functions, runs = {}, []
    for name, op in OPS.items():
        for case in CASES[name]:
            found = as_summed(op, case)
            if found is None:
                continue
            dtypes, types, kind = found
            params = [Var(o.name, t) for o, t in zip(op.operands, types)]
            call = Call(op, tuple(params), Attrs(case.attrs))
            number = len(runs)
            functions[f"f{number}"] = summed(number, params, call, kind)
            values = values_of(case, dtypes, np.random.default_rng(number), special=False)
            acc = np.ones(tuple(map(int, kind.shape)), kind.dtype.numpy)
            runs.append((f"{name} {case.shapes} {case.attrs}", [np.int32(ROUNDS), acc, *values]))
    assert len(runs) > 300
    module = infer_types(Module(functions))
    plain, fast = (
        relayvm.VirtualMachine(relayvm.compile(module, opt_level=level)) for level in (0, 3)
    )
    for number, (what, args) in enumerate(runs):
        wanted, found = (np.asarray(vm.invoke(f"f{number}", *args)) for vm in (plain, fast))
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4, err_msg=what)
